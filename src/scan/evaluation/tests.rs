use super::*;

fn scope(variables: &[(&str, Value)], locals: &[(&str, &str)]) -> Scope {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let locals = locals.iter().map(|(name, text)| ((*name).to_owned(), Expression::hcl(text, 1)));
    Scope::new(variables, Rc::new(locals.collect()), Some("prd".to_owned()))
}

fn text(scope: &Scope, expression: &str) -> Result<String, String> {
    scope.text(&Expression::hcl(expression, 1), None).map(|text| text.unwrap_or_else(|| "null".to_owned()))
}

#[test]
fn names_and_keys_are_worked_out_as_the_tool_would() {
    let scope = scope(
        &[("env", Value::text("dev")), ("n", Value::Number("3".into())), ("none", Value::Null)],
        &[
            ("key", "\"${local.base}/net.tfstate\""),
            ("base", "\"env/${var.env}\""),
            ("map", "{\n dev = \"d\" # why\n \"p q\" : \"x\",\n (var.env) = { deep = [\"a\", \"b\"] }\n}"),
        ],
    );
    for (expression, expected) in [
        ("var.env", "dev"),
        ("\"${var.env}\"", "dev"),
        ("(\"x\")", "x"),
        ("local.key", "env/dev/net.tfstate"),
        ("\"env:/${terraform.workspace}/k\"", "env:/prd/k"),
        ("\"v${var.n}\"", "v3"),
        ("local.map[\"p q\"]", "x"),
        ("{ a = { b = [\"x\", \"y\"] } }.a.b[1]", "y"),
        ("terraform.workspace == \"prd\" ? \"yes\" : \"no\"", "yes"),
        ("var.none == null && !false ? \"a\" : \"b\"", "a"),
        ("var.none", "null"),
        ("lower(upper(\"Ab\"))", "ab"),
        ("join(\"/\", [\"a\", var.env, var.n])", "a/dev/3"),
        ("join(\",\", toset([10, 2, 1.5]))", "1.5,2,10"),
        ("join(\",\", toset([\"b\", \"a\", 1, \"a\"]))", "1,a,b"),
        ("tolist([1, \"a\"])[0] == \"1\" ? \"text\" : \"number\"", "text"),
        ("tomap({ a = 1, b = \"x\" }).a == \"1\" ? \"text\" : \"number\"", "text"),
        ("split(\"/\", \"a/b\")[1]", "b"),
        ("format(\"%s-%d-100%%\", var.env, var.n)", "dev-3-100%"),
        ("replace(\"a_b_c\", \"_\", \"-\")", "a-b-c"),
        ("lookup({ a = \"x\" }, \"b\", \"d\")", "d"),
        ("merge({ a = \"x\", b = var.gone }, { a = \"y\" }).a", "y"),
        ("coalesce(var.none, \"\", \"z\")", "z"),
        ("trimsuffix(trimprefix(trimspace(\" a-b \"), \"a\"), \"b\")", "-"),
    ] {
        assert_eq!(text(&scope, expression).as_deref(), Ok(expected), "{expression}");
    }
}

#[test]
fn what_cannot_be_known_says_why_and_is_never_guessed() {
    let scope = scope(
        &[("unset", Value::Unknown), ("n", Value::Number("1".into()))],
        &[("a", "local.b"), ("b", "\"${local.a}\""), ("bad", "data.x.y.z")],
    );
    for (expression, reason) in [
        ("var.unset", "var.unset has no known value"),
        ("\"x/${var.unset}\"", "var.unset has no known value"),
        ("var.gone", "var.gone has no known value"),
        ("local.none", "local.none is not declared"),
        ("local.a", "local.a is made of itself"),
        ("local.bad", "data.x has no known value"),
        ("aws_s3_bucket.b.id", "aws_s3_bucket.b is known only when the tool runs"),
        ("each.key", "each.key has no known value"),
        ("1 + 1", "arithmetic is not evaluated"),
        ("-var.n", "arithmetic is not evaluated"),
        ("[\"a\"][3]", "there is no known element 3"),
        ("{ a = 1 }.b", "there is no known element b"),
        ("[\"a\"]", "it is not text"),
        ("timestamp()", "the result of function timestamp is not known"),
        ("provider::a::b(\"x\")", "function b is not evaluated"),
        ("lower(\"Ä\")", "the result of function lower is not known"),
        ("replace(\"a1\", \"/[0-9]/\", \"\")", "the result of function replace is not known"),
        ("format(\"%05d\", 3)", "the result of function format is not known"),
        ("format(\"%s\", \"a\", \"b\")", "the result of function format is not known"),
        ("var.n == \"1\" ? \"a\" : \"b\"", "a comparison is not known"),
        ("\"${~ var.n ~} x\"", "template directives are not evaluated"),
        ("<<-EOT\n  x\n  EOT", "indented heredocs are not evaluated"),
        ("[for x in [1] : x][0]", "for expressions are not evaluated"),
        ("x y", "it is not an expression that can be read"),
    ] {
        assert_eq!(text(&scope, expression), Err(reason.to_owned()), "{expression}");
    }
}

#[test]
fn json_strings_are_templates_and_each_is_the_element() {
    let scope = scope(&[("env", Value::text("dev"))], &[]);
    let each = Each { key: Value::text("a"), value: Value::Object([("k".to_owned(), Value::text("v"))].into()) };
    let json = |value: serde_json::Value| scope.evaluate(&Expression::json(&value, 1), Some(&each));
    assert_eq!(json("${var.env}/${each.key}/${each.value.k}".into()), Ok(Value::text("dev/a/v")));
    assert_eq!(json(serde_json::json!({"a": ["${var.env}", 1]})).map(|value| value.weight()), Ok(4));
    assert_eq!(json("${var".into()), Err("it is not a template that can be read".to_owned()));
}

#[test]
fn hostile_expressions_end_soon_and_with_an_answer() {
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let fors = format!("{}1{}", "[for x in y : ".repeat(60), "]".repeat(60));
    let templates = format!("{}x{}", "\"${".repeat(24), "}\"".repeat(24));
    let keys: String = (0..20_000).map(|number| format!("k{number} = 1\n")).collect();
    for expression in [
        deep,
        fors,
        templates,
        format!("{{{keys}}}"),
        format!("{}1", "-".repeat(5_000)),
        format!("{}true", "!".repeat(5_000)),
        format!("{}1", "a ? b : ".repeat(60)),
        format!("\"x\"{}", " == \"x\"".repeat(2_000)),
        format!("a{}", ".b".repeat(5_000)),
    ] {
        assert!(text(&scope(&[], &[]), &expression).is_err());
    }
}

#[test]
fn locals_that_double_each_other_stay_bounded() {
    let names: Vec<(String, String, String)> = (0..200)
        .map(|number| {
            let next = number + 1;
            (
                format!("t{number}"),
                format!("\"${{local.t{next}}}${{local.t{next}}}\""),
                format!("[local.l{next}, local.l{next}]"),
            )
        })
        .collect();
    let mut locals: Vec<(&str, &str)> = names.iter().map(|(name, text, _)| (name.as_str(), text.as_str())).collect();
    let lists: Vec<String> = (0..200).map(|number| format!("l{number}")).collect();
    locals.extend(lists.iter().zip(&names).map(|(name, (_, _, list))| (name.as_str(), list.as_str())));
    locals.extend([("t40", "\"xxxxxxxxxxxxxxxx\""), ("l40", "[1]")]);
    for expression in ["local.t0", "local.l0", "local.t180"] {
        assert!(text(&scope(&[], &locals), expression).is_err(), "{expression}");
    }
}

#[test]
fn json_that_nests_through_locals_stays_within_the_stack() {
    let nested = |inner: String| {
        let mut value = serde_json::Value::from(inner);
        (0..100).for_each(|_| value = serde_json::Value::Array(vec![value.take()]));
        Expression::json(&value, 1)
    };
    let locals = (0..100).map(|number| (format!("l{number}"), nested(format!("${{local.l{}}}", number + 1)))).collect();
    let scope = Scope::new(BTreeMap::new(), Rc::new(locals), None);
    assert!(scope.text(&Expression::hcl("local.l0", 1), None).is_err());
}

proptest::proptest! {
    #[test]
    fn any_text_has_an_answer(expression in ".{0,60}", tokens in "[a-z\"${}()\\[\\]=?:!., <\n-]{0,80}") {
        let scope = scope(&[("a", Value::text("x"))], &[("a", &tokens)]);
        drop(text(&scope, &expression));
        drop(text(&scope, "local.a"));
    }
}
