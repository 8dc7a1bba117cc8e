use proptest::prelude::*;

use super::*;

fn command(verb: Verb, keys: &[&str]) -> Parsed {
    Parsed::Command(Command { verb, keys: keys.iter().map(|key| (*key).to_owned()).collect() })
}

#[test]
fn the_four_verbs_are_read_in_any_letter_case() {
    assert_eq!(parse_comment("stackorder plan"), command(Verb::Plan, &[]));
    assert_eq!(parse_comment("StackOrder APPLY"), command(Verb::Apply, &[]));
    assert_eq!(parse_comment("stackorder\tunlock  a"), command(Verb::Unlock, &["a"]));
    assert_eq!(parse_comment("STACKORDER Help me"), command(Verb::Help, &[]));
}

#[test]
fn keys_are_split_normalised_and_deduplicated_in_order() {
    assert_eq!(
        parse_comment("stackorder apply `stacks/b/`, ./stacks/a,stacks//b a:default x:blue"),
        command(Verb::Apply, &["stacks/b", "stacks/a", "a", "x:blue"])
    );
}

#[test]
fn case_109_a_key_that_normalises_to_nothing_is_kept_and_never_means_all() {
    for token in [".", "./", "/", "`.`", "``"] {
        assert_eq!(parse_comment(&format!("stackorder apply {token}")), command(Verb::Apply, &[token]));
    }
    assert_eq!(parse_comment("stackorder apply ,,"), command(Verb::Apply, &[]), "separators are no key");
}

#[test]
fn the_first_matching_line_wins() {
    assert_eq!(parse_comment("Looks good.\n\nstackorder plan a\nstackorder apply\n"), command(Verb::Plan, &["a"]));
    assert_eq!(parse_comment("stackorder destroy\r\nstackorder plan b\r\n"), command(Verb::Plan, &["b"]));
}

#[test]
fn what_does_not_speak_to_us_is_not_for_us() {
    for body in
        ["", "stackorder", "please stackorder apply", "stackorders apply", "> stackorder apply", "@stackorder apply"]
    {
        assert_eq!(parse_comment(body), Parsed::NotForUs, "{body:?}");
    }
    assert_eq!(parse_comment(&format!("stackorder apply{}", " a".repeat(COMMENT_BYTES_MAX))), Parsed::NotForUs);
}

#[test]
fn an_unknown_verb_is_answered_with_help() {
    assert_eq!(parse_comment("stackorder destroy everything"), Parsed::Help);
    assert_eq!(parse_comment("> stackorder destroy"), Parsed::NotForUs);
}

#[test]
fn up_to_three_spaces_of_indent_are_fine_and_four_columns_are_code() {
    assert_eq!(parse_comment("   stackorder plan"), command(Verb::Plan, &[]));
    for body in ["    stackorder plan", "\tstackorder plan", "  \tstackorder plan", "    `stackorder plan`"] {
        assert_eq!(parse_comment(body), Parsed::NotForUs, "{body:?}");
    }
}

#[test]
fn fenced_blocks_are_ignored_until_a_fence_that_closes_them() {
    for body in [
        "```\nstackorder apply\n```",
        "```sh\nstackorder apply\n",
        "~~~\nstackorder apply\n```\nstackorder apply\n~~~",
        "````\n```\nstackorder apply\n````",
        "```\n``` not alone\nstackorder apply\n```",
        "```\n    ```\nstackorder apply\n```",
        "   ~~~ a ` b\nstackorder apply",
    ] {
        assert_eq!(parse_comment(body), Parsed::NotForUs, "{body:?}");
    }
    for body in [
        "```\nx\n```\nstackorder apply",
        "```\nx\n`````  \nstackorder apply",
        "``` a`b\nstackorder apply",
        "``\nstackorder apply",
    ] {
        assert_eq!(parse_comment(body), command(Verb::Apply, &[]), "{body:?}");
    }
}

#[test]
fn bl_066_a_comment_that_an_integration_had_appended_to_was_dropped() {
    assert_eq!(parse_comment("stackorder apply\n<!-- sync:root -->"), command(Verb::Apply, &[]));
    assert_eq!(parse_comment("<!-- x -->stackorder apply a<!-- y\nz --> b"), command(Verb::Apply, &["a", "b"]));
    assert_eq!(parse_comment("<!-- stackorder apply"), Parsed::NotForUs);
    assert_eq!(parse_comment("<!--\nstackorder apply\n-->"), Parsed::NotForUs);
}

#[test]
fn bl_067_a_copied_command_in_back_ticks_was_not_heard() {
    for body in
        ["`stackorder plan a`", "\n  ``stackorder plan a``\n\n", "```stackorder plan a```", "` stackorder plan a `"]
    {
        assert_eq!(parse_comment(body), command(Verb::Plan, &["a"]), "{body:?}");
    }
    for body in [
        "run `stackorder plan a`",
        "`stackorder plan a` please",
        "`stackorder` `plan`",
        "``stackorder plan`",
        "do not:\n```\nstackorder plan a\n```",
        "> stackorder plan a\n\nwhy?",
    ] {
        assert_eq!(parse_comment(body), Parsed::NotForUs, "{body:?}");
    }
}

#[test]
fn bl_068_flags_and_shell_are_keys_that_no_stack_has() {
    assert_eq!(
        parse_comment("stackorder plan -- -var x=$(curl evil)"),
        command(Verb::Plan, &["--", "-var", "x=$(curl", "evil)"])
    );
    assert_eq!(parse_comment("stackorder plan a; rm -rf /"), command(Verb::Plan, &["a;", "rm", "-rf", "/"]));
    assert_eq!(parse_comment("stackorder plan ../../etc"), command(Verb::Plan, &["../../etc"]));
}

#[test]
fn a_command_prints_as_it_would_be_typed() {
    let Parsed::Command(apply) = parse_comment("stackorder  APPLY  a, b:x") else { panic!("a command") };
    assert_eq!(apply.canonical(), "stackorder apply a b:x");
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("stackorder".to_owned()),
        Just(" apply".to_owned()),
        Just("\n".to_owned()),
        Just("```".to_owned()),
        Just("~~~~".to_owned()),
        Just("`".to_owned()),
        Just("<!--".to_owned()),
        Just("-->".to_owned()),
        Just("    ".to_owned()),
        Just("\t".to_owned()),
        Just("> ".to_owned()),
        Just(",".to_owned()),
        "\\PC{0,6}",
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_comment_makes_the_parser_panic(body in hostile()) {
        parse_comment(&body);
    }

    #[test]
    fn what_is_printed_is_parsed_back(verb in 0_usize..3, keys in proptest::collection::vec("[a-z]{1,4}(/[a-z-]{1,4}){0,2}(:[a-z]{1,3})?", 0..5)) {
        let verb = [Verb::Plan, Verb::Apply, Verb::Unlock][verb];
        let mut seen = std::collections::BTreeSet::new();
        let keys: Vec<String> = keys.into_iter().filter(|key| seen.insert(key.clone())).collect();
        let typed = Command { verb, keys };
        prop_assert_eq!(parse_comment(&typed.canonical()), Parsed::Command(typed));
    }

    #[test]
    fn quoted_and_indented_text_never_commands(lines in proptest::collection::vec("(> ?|    |\t)(stackorder (plan|apply)[a-z ]{0,9}|[a-z`~ ]{0,9})", 0..8)) {
        prop_assert_eq!(parse_comment(&lines.join("\n")), Parsed::NotForUs);
    }

    #[test]
    fn fenced_text_never_commands(fence in "`{3,5}|~{3,5}", lines in proptest::collection::vec("stackorder (plan|apply)[a-z ]{0,9}|[a-z> ]{0,9}", 0..8)) {
        let body = format!("{fence}\n{}\n{fence}\n", lines.join("\n"));
        prop_assert_eq!(parse_comment(&body), Parsed::NotForUs);
    }
}
