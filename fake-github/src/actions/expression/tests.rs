use serde_json::json;

use super::coerce::{number_text, to_text};
use super::*;

fn contexts() -> Contexts {
    let mut contexts = Contexts { status: Some(StatusFacts::FINE), ..Contexts::default() };
    contexts.set(
        "github",
        json!({"ref": "refs/heads/main", "event": {"issue": {"labels": [{"name": "bug"}, {"name": "good first"}, {}]},
               "number": 7, "draft": false}, "actor": null}),
    );
    contexts.set("matrix", json!({"key": "stacks/vpc", "wave": 2, "list": ["a", "b"]}));
    contexts.set("fruits", json!({"scallions": {"colors": ["green", "white"]}, "apple": {"colors": ["red"]}}));
    contexts.set("env", json!({"EMPTY": "", "Name": "value"}));
    contexts
}

#[test]
fn values_are_as_github_documents() {
    let cases = [
        // Literals.
        ("null", json!(null)),
        ("711", json!(711)),
        ("-9.2", json!(-9.2)),
        ("0xff", json!(255)),
        ("-2.99e2", json!(-299)),
        ("'It''s open source!'", json!("It's open source!")),
        // Truth and short circuits give the operand.
        ("'' || 'default'", json!("default")),
        ("'a' && 'b'", json!("b")),
        ("0 || null", json!(null)),
        ("env.EMPTY && 'x'", json!("")),
        ("!''", json!(true)),
        ("!'false'", json!(false)),
        ("!github.event", json!(false)),
        // Loose comparison.
        ("'ABC' == 'abc'", json!(true)),
        ("1 == true", json!(true)),
        ("null == 0", json!(true)),
        ("null == ''", json!(true)),
        ("'' == 0", json!(true)),
        ("'1' == 1", json!(true)),
        ("' 1.0 ' == 1", json!(true)),
        ("'abc' == 0", json!(false)),
        ("'NaN' == 'nan'", json!(true)),
        ("github.event == 1", json!(false)),
        ("2 < 10", json!(true)),
        ("'2' < '10'", json!(false)),
        ("'x' < 1", json!(false)),
        ("'x' >= 1", json!(false)),
        ("github.event.number >= 7", json!(true)),
        ("github.event.draft != true", json!(true)),
        // Paths.
        ("github.EVENT.Number", json!(7)),
        ("github['event']['number']", json!(7)),
        ("matrix.list[1]", json!("b")),
        ("matrix.list[5]", json!(null)),
        ("github.event.missing.deeper", json!(null)),
        ("github.event.issue.labels.*.name", json!(["bug", "good first"])),
        ("fruits.*.colors[0]", json!(["red", "green"])),
        ("fromJSON('{\"a\": {\"b\": [1, 2]}}').a.b[0]", json!(1)),
        ("env.NAME", json!("value")),
        // Functions.
        ("contains('Hello world', 'LLO')", json!(true)),
        ("contains(github.event.issue.labels.*.name, 'BUG')", json!(true)),
        ("contains(fromJSON('[\"push\", \"pull_request\"]'), 'pull')", json!(false)),
        ("startsWith('Hello world', 'he')", json!(true)),
        ("endsWith('Hello world', 'LD')", json!(true)),
        ("format('Hello {0} {1} {2}', 'Mona', 'the', 'Octocat')", json!("Hello Mona the Octocat")),
        ("format('{{Hello {0}}}', 'Mona')", json!("{Hello Mona}")),
        ("join(matrix.list)", json!("a,b")),
        ("join(matrix.list, ' + ')", json!("a + b")),
        ("toJSON(matrix.list)", json!("[\n  \"a\",\n  \"b\"\n]")),
        ("fromJSON('true')", json!(true)),
        ("case(matrix.wave == 1, 'one', matrix.wave == 2, 'two', 'many')", json!("two")),
        // Precedence.
        ("true || false && false", json!(true)),
        ("!true == false", json!(true)),
        ("(true || false) && false", json!(false)),
        // Status.
        ("success() && !failure() && always() && !cancelled()", json!(true)),
    ];
    let contexts = contexts();
    for (expression, expected) in cases {
        assert_eq!(contexts.evaluate(expression).as_ref(), Ok(&expected), "{expression}");
    }
}

#[test]
fn errors_name_the_expression() {
    let cases = [
        ("nothing.here", "Unrecognized named-value: 'nothing'"),
        ("fromJSON('')", "empty"),
        ("fromJSON('{')", "fromJson"),
        ("format('{1}', 'a')", "more arguments"),
        ("format('{a}', 'a')", "invalid"),
        ("unknown(1)", "Unknown function"),
        ("1 ==", "invalid expression"),
        ("hashFiles('x')", "hashFiles"),
    ];
    for (expression, part) in cases {
        let error = contexts().evaluate(expression).unwrap_err().to_string();
        assert!(error.contains(part), "{expression}: {error}");
        assert!(error.contains(expression), "{error}");
    }
    let deep = format!("{}1{}", "(".repeat(200), ")".repeat(200));
    assert!(contexts().evaluate(&deep).is_err());
}

#[test]
fn numbers_read_as_dotnet_writes_them() {
    let cases = [
        (1.0, "1"),
        (1.5, "1.5"),
        (-0.25, "-0.25"),
        (0.1 + 0.2, "0.3"),
        (1e15, "1E+15"),
        (123_456_789_012_345.0, "123456789012345"),
        (1e-6, "1E-06"),
        (0.0, "0"),
    ];
    for (value, expected) in cases {
        assert_eq!(number_text(value), expected);
    }
    assert_eq!(to_text(&json!({"a": 1})), "Object");
    assert_eq!(to_text(&json!([1])), "Array");
    assert_eq!(to_text(&json!(null)), "");
}

#[test]
fn a_lone_expression_keeps_its_kind_and_text_around_it_does_not() {
    let contexts = contexts();
    assert_eq!(contexts.value("${{ matrix.list }}"), Ok(json!(["a", "b"])));
    assert_eq!(contexts.value("wave ${{ matrix.wave }} of ${{ '}}' }}"), Ok(json!("wave 2 of }}")));
    assert_eq!(contexts.value("plain"), Ok(json!("plain")));
    assert!(contexts.text("${{ matrix.wave").unwrap_err().to_string().contains("not closed"));
    assert_eq!(
        contexts.resolve(&json!({"${{ matrix.key }}": ["${{ matrix.wave }}", 1]})),
        Ok(json!({"stacks/vpc": [2, 1]}))
    );
}

#[test]
fn an_if_without_a_status_function_also_wants_success() {
    let mut contexts = contexts();
    assert_eq!(contexts.condition("matrix.wave == 2"), Ok(true));
    assert_eq!(contexts.condition("${{ matrix.wave == 2 }}"), Ok(true));
    assert_eq!(contexts.condition("${{ false }}"), Ok(false));
    contexts.status = Some(StatusFacts { success: false, failure: true, cancelled: false });
    assert_eq!(contexts.condition("matrix.wave == 2"), Ok(false));
    assert_eq!(contexts.condition("always() && matrix.wave == 2"), Ok(true));
    assert_eq!(contexts.condition("!cancelled()"), Ok(true));
    assert_eq!(contexts.condition("${{ failure() }}"), Ok(true));
    assert_eq!(contexts.condition(""), Ok(false));
}
