use proptest::prelude::*;

use super::mistake;

fn found(text: &str) -> Option<(u32, String)> {
    mistake(text, 1).map(|problem| (problem.line, problem.summary))
}

#[test]
fn expressions_of_every_kind_are_right() {
    for text in [
        "1",
        "-1.5e-3",
        "1e400",
        "null",
        "local.a-b",
        "\"a\"",
        "\"\\n\\\"\\u00e9\\U0001F600\"",
        "\"$${ %%{ $ % 100%\"",
        "\"${upper(\"}\")} ${~ 1 ~}\"",
        "\"%{ if a }x%{ else }y%{ endif }%{~ for k, v in m ~}${k}%{ endfor }\"",
        "[1, [], {}, \"]\",]",
        "[\n  1, # ]\n  2\n  ,\n]",
        "{ a = 1, \"b\" : 2, (c) = 3, 5 = 4, \"${d}\" = 5, for = 6 }",
        "{\n  a = 1\n  b = {\n  }\n}",
        "{ a = (\n1 +\n2\n) }",
        "f()",
        "f (1, g(2)...)",
        "provider::x::f(1)",
        "a ? b : c ? d : e",
        "a ? b ? 1 : 2 : 3",
        "{ a = b ? c : d }",
        "[for x in y : x]",
        "[for i, x in a ? b : c : x ? 1 : 2 if x != \"]\"]",
        "{ for k, v in m : k => v... if k }",
        "{\n  for k in\n  m :\n  k\n  => 1\n}",
        "a[0].b[*].c.*.d.0.e",
        "a[\n0\n]",
        "!a && -b <= (c)",
        "<<EOT\n} \" ${a} %{ if b }\nx\n%{ endif }\nEOTX\n EOT y\n  EOT",
        "f(<<-A\n${<<B\nx\nB\n}\nA\n)",
        "1 /* \n */ + 2",
        "größe",
    ] {
        assert_eq!(found(text), None, "{text}");
    }
}

#[test]
fn the_first_mistake_of_an_expression_has_its_line() {
    for (text, line, words) in [
        ("", 1, "was expected"),
        ("1 +", 1, "too early"),
        ("* 1", 1, "was expected"),
        ("1 2", 1, "side by side"),
        ("0x10", 1, "side by side"),
        ("1_000", 1, "side by side"),
        ("\"a\" \"b\"", 1, "side by side"),
        ("[\n1\n2\n]", 3, "side by side"),
        ("[1,, 2]", 1, "was expected"),
        ("{ a = 1 b = 2 }", 1, "side by side"),
        ("{ a }", 1, "no value"),
        ("{\na\n= 1 }", 2, "no value"),
        ("{ a = }", 1, "too early"),
        ("{\n a =\n 1 }", 2, "too early"),
        ("a ? b", 1, "other case"),
        ("a : b", 1, "colon"),
        ("a = b", 1, "single"),
        ("a => b", 1, "arrow"),
        ("a, b", 1, "comma"),
        ("a...", 1, "dots"),
        ("a[]", 1, "was expected"),
        ("a.", 1, "behind the dot"),
        ("5.", 1, "behind the dot"),
        ("a.0.0", 1, "two numbers"),
        ("a::b", 1, "only be called"),
        ("\"f\"(1)", 1, "only a name"),
        ("(1]", 1, "closes nothing"),
        ("[for x y : x]", 1, "\"in\""),
        ("[for x in y x]", 1, "side by side"),
        ("[for x in y]", 1, "needs a colon"),
        ("{ for x in y : x }", 1, "\"=>\""),
        ("[for in y : 1]", 1, "\"in\""),
        ("'a'", 1, "not one of the language"),
        ("`a`", 1, "not one of the language"),
        ("“a”", 1, "not one of the language"),
        ("a & b", 1, "not one of the language"),
        ("${a}", 1, "not one of the language"),
        ("\"\\q\"", 1, "escapes nothing"),
        ("\"\\ud800\"", 1, "no character"),
        ("\"\\u00\"", 1, "no character"),
        ("\"${}\"", 1, "was expected"),
        ("\"%{ foo }\"", 1, "no known keyword"),
        ("\"%{ if a }x\"", 1, "never ended"),
        ("\"%{ else }\"", 1, "belongs to none"),
        ("\"%{ if a }%{ endfor }\"", 1, "belongs to none"),
        ("<< EOT\nx\nEOT", 1, "marker"),
        ("<<EOT\nx\n${1 2}\nEOT", 3, "side by side"),
    ] {
        let problem = found(text);
        assert!(problem.as_ref().is_some_and(|it| it.0 == line && it.1.contains(words)), "{text:?}: {problem:?}");
    }
}

#[test]
fn what_is_too_deep_is_not_judged() {
    assert_eq!(found(&"[".repeat(100_000)), None);
    assert_eq!(found(&format!("{}'", "(".repeat(2_000))), None);
    assert_eq!(found(&"-".repeat(100_000)), Some((1, "an expression ends too early".to_owned())));
}

/// Expressions that are right, as text.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("2.5e3".to_owned()),
        Just("null".to_owned()),
        Just("local.a-b".to_owned()),
        Just("\"x ${y} $${ %%{\"".to_owned()),
        Just("\"%{ if a }b%{ else }c%{ endif }\"".to_owned()),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("!({a})")),
            inner.clone().prop_map(|a| format!("-{a}")),
            inner.clone().prop_map(|a| format!("\"x${{ {a} }}y\"")),
            inner.clone().prop_map(|a| format!("(<<EOT\n}} ${{ {a} }}\nEOT\n)")),
            inner.clone().prop_map(|a| format!("f({a}, [{a}]...)")),
            inner.clone().prop_map(|a| format!("[\n{a},\n{a} # ]\n]")),
            inner.clone().prop_map(|a| format!("({a})[{a}].b.*.c")),
            two.clone().prop_map(|(a, b)| format!("{a} + {b}")),
            two.clone().prop_map(|(a, b)| format!("{a} ? {b} : {a}")),
            two.clone().prop_map(|(a, b)| format!("{{ a = {a}, \"b\" : {b} }}")),
            two.clone().prop_map(|(a, b)| format!("{{\n  a = {a}\n  b = {b}\n}}")),
            two.clone().prop_map(|(a, b)| format!("[for x in {a} : {b} if x]")),
            two.prop_map(|(a, b)| format!("{{ for k, v in {a} : k => {b}... }}")),
        ]
    })
}

proptest! {
    #[test]
    fn right_expressions_are_found_right_and_cut_ones_are_not(text in expression()) {
        prop_assert_eq!(found(&text), None);
        let (cut, two) = (found(&format!("{text} +")), found(&format!("{text} 1")));
        prop_assert!(cut.is_some() && two.is_some(), "{:?} {:?}", cut, two);
    }

    #[test]
    fn any_text_is_judged(text in r#"([a-z0-9"{}()\[\]=\n #/*<>$%\\,:?.!~é-]|EOT|<<EOT\n|\$\{|%\{|if |for |in ){0,60}"#) {
        let lines = u32::try_from(text.matches('\n').count()).unwrap() + 1;
        prop_assert!(found(&text).is_none_or(|(line, _)| line <= lines));
    }
}
