//! Any text is cut into arguments and blocks that stand where it says (`scan::hcl`).
#![no_main]

use libfuzzer_sys::fuzz_target;
use stackorder::scan::hcl::{Block, Body, PROBLEMS_MAX, object_entries, split};
use stackorder_fuzz::{line_at, lines, span};

/// Blocks within blocks that are looked into; readers of files need three.
const LEVELS: usize = 6;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let body = split(&text, 1);
    check(&text, 1, &body, LEVELS);
    assert_eq!(body, split(&text, 1), "the same text gives the same answer");
    a_line_in_front_moves_lines_and_nothing_else(&text, &body);
    objects(&text);
});

/// Everything stands where it says, in the order of the text, and nothing overlaps.
fn check(text: &str, first_line: u32, body: &Body<'_>, levels: usize) {
    let mut spans = Vec::new();
    for attribute in &body.attributes {
        let (name, value) = (span(text, attribute.name), span(text, attribute.value));
        assert!(!attribute.name.is_empty());
        assert_eq!(attribute.line, line_at(text, name.0, first_line), "the line of {:?}", attribute.name);
        if !attribute.value.is_empty() {
            let between = &text[name.1..value.0];
            assert!(between.contains('='), "a value stands behind its =, not {between:?}");
            // What is never closed ends with its line or the text, blanks and all.
            let trimmed = attribute.value.trim_matches([' ', '\t', '\r', '\n']);
            assert!(attribute.value == trimmed || !body.problems.is_empty(), "a value has no blanks around it");
            spans.push((name.0, value.1));
        }
        object_laws(attribute.value, attribute.line);
    }
    for block in &body.blocks {
        let (kind, inside) = (span(text, block.kind), span(text, block.body));
        assert!(!block.kind.is_empty());
        assert_eq!(block.line, line_at(text, kind.0, first_line), "the line of {:?}", block.kind);
        assert_eq!(block.body_line, line_at(text, inside.0, first_line), "the line of the body of {:?}", block.kind);
        assert!(text[..inside.0].ends_with('{'), "a body begins behind its brace");
        assert!(inside.1 == text.len() || text[inside.1..].starts_with('}'), "a body ends at its brace");
        spans.push((kind.0, inside.1));
        nested(block, levels);
    }
    spans.sort_unstable();
    for pair in spans.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{pair:?} overlap");
    }
    let starts = |spans: Vec<usize>| assert!(spans.is_sorted(), "in the order of the text");
    starts(body.attributes.iter().map(|attribute| span(text, attribute.name).0).collect());
    starts(body.blocks.iter().map(|block| span(text, block.kind).0).collect());
    assert!(body.problems.len() <= PROBLEMS_MAX);
    let last_line = first_line + lines(text.as_bytes()) - 1;
    for problem in &body.problems {
        assert!((first_line..=last_line).contains(&problem.line), "{problem:?} stands in the text");
    }
}

fn nested(block: &Block<'_>, levels: usize) {
    if levels > 0 {
        check(block.body, block.body_line, &split(block.body, block.body_line), levels - 1);
    }
}

fn a_line_in_front_moves_lines_and_nothing_else(text: &str, body: &Body<'_>) {
    let moved = format!("# a comment\n{text}");
    let moved = split(&moved, 1);
    let attributes = |body: &Body<'_>, by: u32| -> Vec<_> {
        body.attributes.iter().map(|it| (it.name.to_owned(), it.line + by, it.value.to_owned())).collect()
    };
    let blocks = |body: &Body<'_>, by: u32| -> Vec<_> {
        let block = |it: &Block<'_>| (it.kind.to_owned(), it.labels.join("\0"), it.line + by, it.body.to_owned());
        body.blocks.iter().map(block).collect()
    };
    assert_eq!(attributes(body, 1), attributes(&moved, 0));
    assert_eq!(blocks(body, 1), blocks(&moved, 0));
}

fn objects(text: &str) {
    object_laws(text, 1);
    object_laws(&format!("{{{text}}}"), 1);
}

fn object_laws(text: &str, line: u32) {
    let mut end = 0;
    for (key, key_line, value) in object_entries(text, line).unwrap_or_default() {
        let (key_at, value_at) = (span(text, key), span(text, value));
        assert!(end <= key_at.0 && key_at.1 <= value_at.0, "entries stand one after the other");
        assert_eq!(key_line, line_at(text, key_at.0, line), "the line of key {key:?}");
        end = value_at.1;
    }
}
