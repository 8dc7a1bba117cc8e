use proptest::prelude::*;

use super::*;

fn tree(text: &str) -> Node {
    read(text.as_bytes()).unwrap().root.unwrap()
}

fn error(text: &str) -> YamlError {
    read(text.as_bytes()).unwrap_err().remove(0)
}

/// A tree as compact text: plain scalars bare, quoted ones in quotes.
fn shown(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Scalar { text, plain: true } => text.clone(),
        Value::Scalar { text, plain: false } => format!("{text:?}"),
        Value::List(nodes) => format!("[{}]", nodes.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            let entries = entries.iter().map(|entry| format!("{}: {}", entry.key, shown(&entry.value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

#[test]
fn scalars_keep_the_text_they_were_written_with() {
    let text = "{a: 1.10, b: '1.10', c: 0x1F, d: yes, e: ~, f: , g: null, h: !!str 7, i: \"\\u00e9\"}";
    assert_eq!(
        shown(&tree(text)),
        r#"{a: 1.10, b: "1.10", c: 0x1F, d: yes, e: null, f: null, g: null, h: "7", i: "é"}"#
    );
}

#[test]
fn a_merge_key_is_no_duplicate_and_the_explicit_key_wins() {
    let text = "
- &d { dir: a, workflow: w }
- <<: *d
  dir: b
- <<: [{ x: 1 }, { x: 2, y: 2 }]
- '<<': quoted
";
    assert_eq!(shown(&tree(text)), r#"[{dir: a, workflow: w}, {dir: b, workflow: w}, {x: 1, y: 2}, {<<: quoted}]"#);
    assert!(error("a: { <<: text }").message.contains("merge key"));
}

#[test]
fn every_repeated_key_is_an_error_with_both_lines() {
    let document = read(b"a: 1\nb: [{ c: 1,\n c: 2 }]\na: 3\n").unwrap();
    let errors: Vec<(Option<u32>, &str, &str)> =
        document.repeated.iter().map(|e| (e.line, e.path.as_str(), e.message.as_str())).collect();
    let expected = [
        (Some(3), "b[0].c", "key \"c\" stands on line 2 already"),
        (Some(4), "a", "key \"a\" stands on line 1 already"),
    ];
    assert_eq!(errors, expected);
    assert_eq!(document.root.as_ref().map(shown), Some("{a: 1, b: [{c: 1}]}".to_owned()));
}

#[test]
fn only_the_first_document_is_read() {
    assert_eq!(shown(&tree("a: 1\n---\n{ not: closed\n")), "{a: 1}");
}

#[test]
fn a_file_without_a_value_holds_nothing() {
    for text in ["", "\n\n", "# only a comment\n", "---\n", "null", "~", "\u{feff}"] {
        assert_eq!(read(text.as_bytes()), Ok(Document::default()), "{text:?}");
    }
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert_eq!(shown(&tree("\u{feff}a: 1\n")), "{a: 1}");
}

#[test]
fn files_that_are_no_yaml_text_are_refused_with_the_line() {
    for (bytes, line) in [
        (&b"a: [1,\nb: 2"[..], 2),
        (b"a: 1\nb: \xff\n", 2),
        (b"a: *missing\n", 1),
        (b"a: &x [*x]\n", 1),
        (b"? [a]\n: 1\n", 1),
        (b"a: !secret x\n", 1),
        (b"a: \"\\0\"\n", 1),
    ] {
        let errors = read(bytes).unwrap_err();
        assert_eq!(errors.len(), 1);
        assert!(errors[0].line.is_some_and(|found| found.abs_diff(line) <= 1), "{errors:?}");
    }
}

#[test]
fn hostile_files_are_refused_before_they_cost_anything() {
    assert!(read(&vec![b' '; FILE_BYTES_MAX + 1]).is_err());
    assert!(read("[".repeat(100_000).as_bytes()).is_err());
    let nested_blocks: String = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(read(nested_blocks.as_bytes()).is_err());

    let mut doubled = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        doubled.push_str(&format!("a{level}: &a{level} [{}]\n", vec![below; 9].join(", ")));
    }
    assert!(error(&doubled).message.contains("with its aliases"));

    let mut chained = "a0: &a0 [x]\n".to_owned();
    for level in 1..1000 {
        chained.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert!(error(&chained).message.contains("levels deep"));
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(text in r##"[a:\[\]{}&*<!|>'"#~ \n,-]{0,60}"##) {
        let _ = read(text.as_bytes());
    }
}
