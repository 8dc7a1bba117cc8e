use proptest::prelude::*;

use super::*;

#[test]
fn markup_in_foreign_text_is_shown_and_not_read() {
    assert_eq!(text("a *b* _c_ `d`"), "a \\*b\\* \\_c\\_ \\`d\\`");
    assert_eq!(text("<img src=x> & [x](y)"), "&lt;img src=x&gt; &amp; \\[x\\]\\(y\\)");
    assert_eq!(text("a | b"), "a \\| b");
    assert_eq!(text("- item"), "\\- item");
    assert_eq!(text("1. item"), "1\\. item");
    assert_eq!(text("see stacks/prod-1.2"), "see stacks/prod-1.2");
}

#[test]
fn foreign_text_mentions_and_links_nobody() {
    assert_eq!(text("@octocat"), "@\u{200b}octocat");
    assert_eq!(text("#12"), "\\#\u{200b}12");
    assert_eq!(text("https://evil.test www.evil.test"), "https\\://evil.test www\\.evil.test");
}

#[test]
fn line_breaks_fold_and_unseen_characters_go() {
    assert_eq!(text("a\r\n\r\n  b\u{2028}c\t\u{0}\u{202e}d\n"), "a b c d");
    assert_eq!(text("    code"), "code");
    assert_eq!(cell("a\n|b"), "a \\|b");
    assert_eq!(cell(" \n"), "–");
}

#[test]
fn text_inside_an_element_needs_entities() {
    assert_eq!(html("</summary> *x* @me"), "&lt;/summary&gt; &#42;x&#42; @\u{200b}me");
}

#[test]
fn inline_code_outlasts_the_back_ticks_inside() {
    assert_eq!(code("stacks/a"), "`stacks/a`");
    assert_eq!(code("a`b"), "``a`b``");
    assert_eq!(code("``a"), "``` ``a ```");
    assert_eq!(code(""), "`  `");
    assert_eq!(code("a\nb"), "`a b`");
}

#[test]
fn inline_code_with_a_bar_stays_in_its_table_cell() {
    assert_eq!(code("a|<b>`"), "<code>a&#124;&lt;b&gt;&#96;</code>");
}

#[test]
fn a_code_block_outlasts_the_fences_inside() {
    assert_eq!(fenced("hcl", "a = 1"), "```hcl\na = 1\n```\n");
    assert_eq!(fenced("hcl\n<x>", "```\r\nx\n"), "````hclx\n```\nx\n````\n");
    assert_eq!(fenced("", ""), "```\n```\n");
    assert_eq!(fenced("text", "a\u{1b}[31mb"), "```text\na[31mb\n```\n");
}

#[test]
fn only_addresses_of_the_web_become_links() {
    assert_eq!(link("run", "https://x.test/a?b=(c)"), "[run](https://x.test/a?b=%28c%29)");
    assert_eq!(link("r|n", "HTTP://x.test/|ü"), "[r\\|n](HTTP://x.test/%7C%C3%BC)");
    for url in ["javascript:alert(1)", "//x.test", "https://", "https:// x", "https://x\n", "data:x", "https:///x", "é"]
    {
        assert_eq!(link("w", url), "w", "{url:?}");
    }
}

#[test]
fn a_cut_keeps_whole_lines_and_characters() {
    assert_eq!(cut("one\ntwo\n", 6), "one\n");
    assert_eq!(cut("ééé", 3), "é");
    assert_eq!(cut("short", 5), "short");
}

/// BL-095: the cut falls on character and fence boundaries.
#[test]
fn a_cut_never_leaves_a_code_block_open() {
    let markdown = format!("intro\n{}after\n", fenced("hcl", &"a = 1\n".repeat(20)));
    let shown = cut_markdown(&markdown, 60);
    assert!(shown.len() <= 60 && shown.ends_with("a = 1\n```\n"), "{shown}");
    assert_eq!(cut_markdown(&markdown, markdown.len()), markdown);
    assert_eq!(cut_markdown("plain\nlines\n", 8), "plain\n");
}

proptest! {
    #[test]
    fn escaped_text_holds_no_markup_and_no_mention(foreign in "(\\PC|[<>`@|*_#\\\\\n\r\t]){0,40}") {
        let safe = text(&foreign);
        prop_assert!(!safe.contains(['<', '>', '\n', '\r']));
        let mut escaped = false;
        for (at, c) in safe.char_indices() {
            match c {
                '\\' if !escaped => { escaped = true; continue; }
                '`' | '*' | '_' | '[' | ']' | '|' | '~' => prop_assert!(escaped, "bare {} in {:?}", c, safe),
                '@' => prop_assert!(safe[at + 1..].starts_with(ZERO_WIDTH_SPACE)),
                _ => {}
            }
            escaped = false;
        }
    }

    #[test]
    fn a_code_span_is_one_span(foreign in "(\\PC|[`| \n]){0,30}") {
        let span = code(&foreign);
        prop_assert!(!span.contains(['\n', '|']));
        if !span.starts_with("<code>") {
            let fence = span.len() - span.trim_start_matches('`').len();
            let inner = &span[fence..span.len() - fence];
            prop_assert!(longest_run(inner, '`') < fence);
            prop_assert!(!inner.is_empty());
        }
    }

    #[test]
    fn a_code_block_has_no_line_that_closes_it_early(foreign in "([`~a \n]){0,60}") {
        let block = fenced("hcl", &foreign);
        let fence = block.len() - block.trim_start_matches('`').len();
        let closing = block.lines().skip(1).filter(|line| line.trim_start().starts_with(&"`".repeat(fence))).count();
        prop_assert_eq!(closing, 1);
    }

    #[test]
    fn a_cut_of_markdown_fits_and_closes_its_blocks(lines in proptest::collection::vec("é{0,6}|a{0,9}|```(hcl)?|````", 0..12), max in 20_usize..80) {
        let markdown = lines.join("\n");
        let shown = cut_markdown(&markdown, max);
        prop_assert!(shown.len() <= max);
        prop_assert!(shown.len() == markdown.len() || open_fence(&shown).is_none());
    }
}
