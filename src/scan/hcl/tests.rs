use proptest::prelude::*;

use super::*;

/// `name = value` and `kind labels (line)` of what was found, then the problems.
fn found(text: &str) -> Vec<String> {
    let body = split(text, 1);
    let attributes = body.attributes.iter().map(|it| format!("{}: {} = {}", it.line, it.name, it.value));
    let blocks = body.blocks.iter().map(|it| format!("{}: {}[{}]", it.line, it.kind, it.labels.join(",")));
    let problems = body.problems.iter().map(|it| format!("{}: ! {}", it.line, it.summary));
    attributes.chain(blocks).chain(problems).collect()
}

#[test]
fn blocks_and_arguments_are_found_where_they_stand() {
    let text = "# first\nmodule \"net\" {\n  source = \"./m\"\n}\n\nlocals { a = 1 }\nresource x y {}\n";
    assert_eq!(found(text), ["2: module[net]", "6: locals[]", "7: resource[x,y]"]);
    let body = split(text, 1);
    assert_eq!(
        split(body.blocks[0].body, body.blocks[0].body_line).attributes,
        [Attribute { name: "source", line: 3, value: "\"./m\"" }]
    );
}

#[test]
fn values_end_where_the_language_says() {
    for (text, value) in [
        ("a = 1 # why", "1"),
        ("a = 1 // why", "1"),
        ("a = 1 /* x */ + 2", "1 /* x */ + 2"),
        ("a = \"# not // a comment\"", "\"# not // a comment\""),
        ("a = [\n 1, # one\n 2\n]", "[\n 1, # one\n 2\n]"),
        ("a = f(\n {x = \"}\"}\n)", "f(\n {x = \"}\"}\n)"),
        ("a = \"${\"${b}\"}\"", "\"${\"${b}\"}\""),
        ("a = \"$${\"", "\"$${\""),
        ("a = \"%{ if x }y%{ endif }\"", "\"%{ if x }y%{ endif }\""),
        ("a = \"\\\"\"", "\"\\\"\""),
        ("a = <<EOT\n}\n\"\nEOT\n", "<<EOT\n}\n\"\nEOT"),
        ("a = <<-EOT\n  x ${ {\n} } y\n  EOT\n", "<<-EOT\n  x ${ {\n} } y\n  EOT"),
        ("a = <<EOT\nEOTX\n EOT trailing\nEOT", "<<EOT\nEOTX\n EOT trailing\nEOT"),
        ("a = b < c", "b < c"),
        ("a = x ? <<A\n1\nA\n: 2", "x ? <<A\n1\nA"),
    ] {
        let body = split(text, 1);
        assert_eq!(body.attributes.first().map(|it| it.value), Some(value), "{text}");
    }
}

/// python-hcl2#141, #347: a heredoc is opaque but for its templates, and lines after it keep their numbers.
#[test]
fn a_quote_left_open_in_a_heredoc_costs_nothing() {
    let text = "resource \"null_resource\" \"b\" {\n  triggers = { spec = <<-EOT\n    run \"first half \\\n      second half\"\n  EOT\n  }\n}\nmodule \"net\" { source = \"../mods/net\" }\n";
    assert_eq!(found(text), ["1: resource[null_resource,b]", "8: module[net]"]);
    let text = "locals {\n  v = <<EOT\n${\n  1 + 2\n}\nEOT\n}\nmodule \"m\" {}\n";
    assert_eq!(found(text), ["1: locals[]", "8: module[m]"]);
}

/// The tool's own reader trims every blank that Unicode knows around the marker.
#[test]
fn any_blank_may_stand_around_the_end_of_a_heredoc() {
    for blank in ["\t", "\u{b}", "\u{a0}", "\u{2003}"] {
        let body = format!("a = <<EOT\nx\n{blank}EOT\nmodule \"m\" {{}}\n");
        assert_eq!(
            found(&body),
            ["1: a = <<EOT\nx\n".to_owned() + blank + "EOT", "4: module[m]".to_owned()],
            "{blank:?}"
        );
    }
}

/// python-hcl2#315: line endings may differ within one file.
#[test]
fn carriage_returns_are_blanks() {
    assert_eq!(found("module \"m\" {\r\n  source = \"../m\"\r\n}\nx = 1\r\n"), ["4: x = 1", "1: module[m]"]);
    let text = "a = <<EOT\r\nx\r\nEOT \r\nb = 2\n";
    assert_eq!(split(text, 1).attributes.iter().map(|it| it.value).collect::<Vec<_>>(), ["<<EOT\r\nx\r\nEOT", "2"]);
}

/// hcl-rs#350, hcl2json#110, hcl2#15: newer and foreign syntax is skipped.
#[test]
fn what_we_do_not_know_is_skipped() {
    let text = "resource \"null_resource\" \"größe\" {}\nlocals { 値 = 1 }\nlocals { u = provider::corefn::slug(\"Ä B\") }\nvariable \"x\" { description = \"use `foo`\" }\nimport {\n  for_each = local.mails\n}\n";
    let kinds: Vec<&str> = split(text, 1).blocks.iter().map(|block| block.kind).collect();
    assert_eq!(kinds, ["resource", "locals", "locals", "variable", "import"]);
    assert_eq!(split(text, 1).problems, []);
}

#[test]
fn a_mistake_costs_its_place_and_nothing_after_it() {
    for (text, expected) in [
        (
            "module \"a\" {\n  source = \"./a\n}\nmodule \"b\" {}\n",
            ["1: module[a]", "4: module[b]", "2: ! a string is never closed"].as_slice(),
        ),
        ("a = \n b = 2\n", &["1: a = ", "2: b = 2", "1: ! argument \"a\" has no value"]),
        ("] x\nmodule \"b\" {}\n", &["2: module[b]", "1: ! expected an argument or a block"]),
        ("}\nmodule \"b\" {}\n", &["2: module[b]", "1: ! expected an argument or a block"]),
        ("a = (1]\nb = 2)\nc = 3\n", &["1: a = (1]\nb = 2)", "3: c = 3", "1: ! a bracket closes nothing"]),
        ("module \"b\"\nx = 1\n", &["2: x = 1", "1: ! \"module\" is neither an argument nor a block"]),
        (
            "a = <<P\n{ \"k\": 1 }P\n",
            &["1: a = <<P\n{ \"k\": 1 }P\n", "1: ! heredoc \"P\" is never closed: its marker must stand alone"],
        ),
        ("a {\n b {\n", &["1: a[]", "1: ! block \"a\" is never closed"]),
        ("/* a\nb", &["1: ! a comment is never closed"]),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn the_body_of_a_block_has_a_shape() {
    for (text, problem) in [
        ("a {\n b = 1\n}\n", None),
        ("a { b = [\n1\n] }\n", None),
        ("a { /* x */ }\na {} # y\na { # z\n}\n", None),
        ("a { b = 1\n}\n", Some((1, "on one line"))),
        ("a { b {} }\n", Some((1, "on one line"))),
        ("a {\n b = 1 }\n", Some((2, "ends with its line"))),
        ("a {\n b {} c {}\n}\n", Some((2, "ends with its line"))),
        ("a {\n b = 1\n c = 2\n b = 3\n}\n", Some((4, "given twice"))),
        ("a {\n b = 1 +\n}\n", Some((2, "too early"))),
        ("a {\n b\u{a0}= 1\n}\n", Some((2, "not one of the language"))),
        ("a {\n b = 1\r c = 2\n}\n", Some((2, "carriage return"))),
    ] {
        let file = split(text, 1);
        let first = file.blocks.iter().find_map(|block| split_block(block).first_mistake());
        let first = file.problems.first().cloned().or(first);
        let (line, words) = problem.unwrap_or_default();
        let is_right = first.as_ref().map_or(problem.is_none(), |it| it.line == line && it.summary.contains(words));
        assert!(is_right, "{text:?}: {first:?}");
    }
    assert_eq!(split("a {} b {}\n", 1).problems[0].summary, "an argument or block ends with its line");
    assert_eq!(split("a \"\\u0062\\n\\\"\\q\" {}\n", 1).blocks[0].labels, ["b\n\"\\q"]);
}

#[test]
fn objects_are_cut_into_their_entries() {
    let entries =
        |text| object_entries(text, 1).map(|list| list.iter().map(|(k, _, v)| format!("{k}={v}")).collect::<Vec<_>>());
    let some = |list: &[&str]| Some(list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
    assert_eq!(entries("{}"), some(&[]));
    assert_eq!(entries("{ a = 1, b : \"x,y\" }"), some(&["a=1", "b=\"x,y\""]));
    assert_eq!(entries("{\n a = f(1,\n 2) # no\n \"k\" = {\n}\n}"), some(&["a=f(1,\n 2)", "\"k\"={\n}"]));
    assert_eq!(entries("{ a = 1, a = 2 }"), some(&["a=1", "a=2"]));
    assert_eq!(entries("{ for k, v in x : k => v }"), None);
    assert_eq!(entries("var.x"), None);
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = format!("a = {}", "[".repeat(200_000));
    assert_eq!(split(&deep, 1).problems[0].summary, "nested too deeply; the rest of the file is not read");
    let wide = "x {}\n".repeat(100_000);
    assert_eq!(split(&wide, 1).blocks.len(), 100_000);
}

proptest! {
    #[test]
    fn any_text_is_answered_and_lines_stay_inside_it(text in r#"([a-z"{}()\[\]=\n #/*<$%\\,:é-]|EOT|<<EOT\n|\$\{){0,80}"#) {
        let lines = u32::try_from(text.matches('\n').count()).unwrap() + 1;
        let body = split(&text, 1);
        for block in &body.blocks {
            prop_assert!(block.line <= lines && block.body_line <= lines);
            split_block(block).first_mistake();
        }
        for attribute in &body.attributes {
            prop_assert!(attribute.line <= lines);
            object_entries(attribute.value, attribute.line);
        }
        prop_assert!(body.problems.iter().all(|problem| problem.line <= lines));
    }

    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for name in ["a/main.tf", "a/main.tf.json"] {
            super::super::terraform_file::read(name, &bytes);
            super::super::terraform_file::read_attributes(name, &bytes);
        }
    }
}
