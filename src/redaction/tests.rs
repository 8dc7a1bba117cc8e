use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn redact(text: &str) -> String {
    Redactor::new().redact(text)
}

fn knowing(secret: &str) -> Redactor {
    Redactor::new().with_environment([("DB_PASSWORD", secret)])
}

#[test]
fn values_of_secret_variables_are_masked_in_every_form() {
    let secret = "p@ss <w\u{f6}rd>\"&${x}";
    let redactor = knowing(secret);
    let json = serde_json::Value::from(secret).to_string();
    let forms = [
        secret.to_owned(),
        json.trim_matches('"').to_owned(),
        "p@ss \\u003cw\u{f6}rd\\u003e\\\"\\u0026${x}".to_owned(),
        "p@ss <w\u{f6}rd>\\\"&$${x}".to_owned(),
        "p%40ss%20%3Cw%C3%B6rd%3E%22%26%24%7Bx%7D".to_owned(),
        "p%40ss+%3Cw%C3%B6rd%3E%22%26%24%7Bx%7D".to_owned(),
        STANDARD.encode(secret),
    ];
    for form in forms {
        assert_eq!(redactor.redact(&format!("a {form} b")), "a *** b", "{form}");
    }
}

#[test]
fn base64_of_a_longer_text_shows_nothing_of_the_secret_in_it() {
    let redactor = knowing("hunter2-hunter2");
    for prefix in ["", "x", "xy"] {
        let whole = format!("{prefix}hunter2-hunter2 and more");
        for encoded in [STANDARD.encode(&whole), URL_SAFE_NO_PAD.encode(&whole)] {
            let masked = redactor.redact(&encoded);
            assert!(masked.contains(MASK) && masked.len() < encoded.len() - 12, "{masked}");
        }
    }
}

#[test]
fn values_of_several_lines_are_masked_line_by_line() {
    let redactor = knowing("first line\r\n  second line\nabc\n    \n");
    assert_eq!(redactor.redact("> second line <\nfirst line\nabc"), "> *** <\n***\nabc");
    assert_eq!(redactor.masks(), ["first line", "second line"]);
    assert_eq!(redactor.redact("      +    indented"), "      +    indented");
}

#[test]
fn only_secret_names_and_values_worth_masking_are_learned() {
    let redactor = Redactor::new().with_environment([
        ("MYTOKEN", "not-masked"),
        ("A_TOKEN", "true"),
        ("B_TOKEN", "123456"),
        ("C_TOKEN", "abc"),
        ("STACKORDER_PLAN_IDENTITY", "# created\nIDENTITY-LINE\n"),
    ]);
    assert_eq!(redactor.redact("not-masked true 123456 abc IDENTITY-LINE"), "not-masked true 123456 abc ***");
    assert_eq!(redactor.masks(), ["# created", "IDENTITY-LINE"]);
}

#[test]
fn longer_secrets_come_first_and_overlapping_ones_leave_nothing() {
    let redactor =
        Redactor::new().with_environment([("A_SECRET", "abcd"), ("B_SECRET", "abcdefgh"), ("C_SECRET", "ghijkl")]);
    assert_eq!(redactor.redact("abcdefgh abcd abcdefghijkl"), "*** *** ***");
}

/// BL-106: `show` is used but not trusted.
#[test]
fn what_a_plan_marks_is_masked_in_its_text_too() {
    let mut redactor = Redactor::new();
    let plan = json!({"resource_changes": [{"change": {
        "before": null, "before_sensitive": false, "after": {"secret": "s3cr3t-value"}, "after_sensitive": {"secret": true}}}]});
    redactor.learn(&plan, &UpstreamOutputs::default());
    assert_eq!(redactor.redact("+ secret = \"x\"\n+ url = s3cr3t-value"), "+ secret = \"***\"\n+ url = ***");
}

#[test]
fn a_sensitive_output_of_another_stack_is_masked_though_its_mark_is_lost() {
    let mut redactor = Redactor::new();
    let mut upstream = UpstreamOutputs::default();
    upstream.declare("data.terraform_remote_state.up", ["dsn".to_owned()]);
    let plan = json!({"prior_state": {"values": {"root_module": {"resources": [{
        "address": "data.terraform_remote_state.up", "type": "terraform_remote_state",
        "values": {"outputs": {"dsn": "hunter2-upstream", "id": "vpc-1234"}}}]}}}});
    redactor.learn(&plan, &upstream);
    assert_eq!(redactor.redact("+ input = hunter2-upstream vpc-1234"), "+ input = *** vpc-1234");
}

#[test]
fn private_keys_lose_their_body_and_keep_their_lines() {
    let begin = "-----BEGIN RSA PRIVATE KEY-----";
    let end = "-----END RSA PRIVATE KEY-----";
    assert_eq!(redact(&format!("a\n{begin}\n  MIIE\n  abcd\n  {end}\nb")), format!("a\n{begin}\n  ***\n  {end}\nb"));
    assert_eq!(redact(&format!("{begin}\\nMIIE\\n{end} x")), format!("{begin}***{end} x"));
    assert_eq!(redact(&format!("{begin}\nMIIE\nmore\n")), format!("{begin}\n***\n"));
    assert_eq!(redact("-----BEGIN CERTIFICATE-----\nMIIE\n"), "-----BEGIN CERTIFICATE-----\nMIIE\n");
    let two = format!("{begin}\nAAAA\n{end}\n{begin}\nBBBB\n{end}");
    assert_eq!(redact(&two), format!("{begin}\n***\n{end}\n{begin}\n***\n{end}"));
}

#[test]
fn tokens_that_show_what_they_are_are_masked_whole() {
    let letters = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    for token in [
        "AKIAIOSFODNN7EXAMPLE".to_owned(),
        "ASIAIOSFODNN7EXAMPLE".to_owned(),
        format!("ghp_{letters}"),
        format!("ghs_{letters}"),
        format!("ghs_{letters}.{letters}_{letters}-{letters}"),
        format!("github_pat_{letters}_x"),
        "xoxb-1234567890-abc".to_owned(),
        "eyJhbGciOi.eyJzdWIiOi.c2ln-_".to_owned(),
        format!("npm_{letters}"),
    ] {
        assert_eq!(redact(&format!("x={token}, y")), "x=***, y", "{token}");
    }
    for harmless in [
        "AKIA1234",
        "ghp_short",
        "xoxz-1234567890",
        "eyJhbGciOi.eyJzdWIiOi",
        "eyJhbGciOi.abc.def",
        "eyJabcd.eyJabcde.x",
    ] {
        assert_eq!(redact(harmless), harmless);
    }
}

#[test]
fn aws_secret_keys_are_masked_by_their_name() {
    let key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    for name in ["aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "secretAccessKey", "awsSecretAccessKey"] {
        assert_eq!(redact(&format!("{name} = {key} x")), format!("{name} = *** x"));
        assert_eq!(redact(&format!("\"{name}\": \"{key}\"")), format!("\"{name}\": \"***\""));
    }
    assert_eq!(redact("aws_secret_access_key = short"), "aws_secret_access_key = short");
}

#[test]
fn quoted_values_of_secret_keys_are_masked_on_both_sides_of_an_arrow() {
    for (text, masked) in [
        (r#"+ password   = "abc""#, r#"+ password   = "***""#),
        (r#"~ db_Password = "a" -> "b" # note"#, r#"~ db_Password = "***" -> "***" # note"#),
        (r#"~ token = "" -> "b""#, r#"~ token = "" -> "***""#),
        (r#""client_secret":"a\"b","x":1"#, r#""client_secret":"***","x":1"#),
        (r#"{\"passwd\": \"abc\", \"n\": 1}"#, r#"{\"passwd\": \"***\", \"n\": 1}"#),
        ("token: 'abc' x", "token: '***' x"),
        ("token => \"abc\"", "token => \"***\""),
        ("password = \"never closed\nnext", "password = \"***\nnext"),
        ("password = (sensitive value)", "password = (sensitive value)"),
        ("tokens = \"abc\"", "tokens = \"abc\""),
        ("password = \"\"", "password = \"\""),
    ] {
        assert_eq!(redact(text), masked);
    }
}

#[test]
fn upper_case_names_hide_unquoted_values() {
    assert_eq!(redact("DB_PASSWORD=hunter2 next"), "DB_PASSWORD=*** next");
    assert_eq!(redact("export TOKEN=a;b\nPASSWD=\n"), "export TOKEN=***\nPASSWD=\n");
    assert_eq!(redact("token=abc"), "token=abc");
}

/// BL-105: secrets inside a larger string are not marked by anybody.
#[test]
fn passwords_in_addresses_are_masked() {
    assert_eq!(redact("+ url = \"postgres://u:pa55@h/db\""), "+ url = \"postgres://u:***@h/db\"");
    assert_eq!(redact("redis://:p@ss@h x://u:p@h"), "redis://:***@h x://u:***@h");
    assert_eq!(redact("https://h:443/a@b git@h:o/r https://u@h"), "https://h:443/a@b git@h:o/r https://u@h");
}

#[test]
fn commands_that_register_a_mask_escape_what_would_end_them() {
    assert_eq!(add_mask("a%b\r\nc"), "::add-mask::a%25b%0D%0Ac");
}

#[test]
fn a_redactor_never_prints_what_it_knows() {
    assert_eq!(format!("{:?}", knowing("hunter2")), "Redactor { literals: 1, .. }");
}

#[test]
fn a_line_of_a_mebibyte_takes_linear_time() {
    const BYTES: usize = 1 << 20;
    let redactor = knowing(&"a".repeat(1_000));
    // Each would take hours if any scanner started over.
    for piece in [
        "a",
        "eyJ",
        "eyJaaaaaa.",
        "password=\"",
        "password",
        "AKIA",
        "://",
        "://a:",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN A",
        "secret\\\"=\\\"",
        "-----END ",
        "TOKEN=",
        " ",
    ] {
        let line = piece.repeat(BYTES / piece.len());
        assert!(redactor.redact(&line).len() <= BYTES + MASK.len(), "{piece}");
    }
}

mod streams {
    use super::*;

    fn stream(redactor: &Redactor, text: &str) -> (Vec<String>, Vec<String>) {
        let mut stream = StreamRedactor::new(redactor);
        let (mut lines, mut secrets) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let streamed = stream.push(line);
            lines.extend(streamed.text);
            secrets.extend(streamed.secrets);
        }
        (lines, secrets)
    }

    #[test]
    fn a_private_key_over_several_lines_shows_one_mask() {
        let text = "x\n-----BEGIN PRIVATE KEY-----\n\n  MIIEaaaa\n  MIIEbbbb\n  -----END PRIVATE KEY----- tail\ny";
        let (lines, secrets) = stream(&Redactor::new(), text);
        assert_eq!(lines, ["x", "-----BEGIN PRIVATE KEY-----", "", "  ***", "  -----END PRIVATE KEY----- tail", "y"]);
        assert_eq!(secrets, ["MIIEaaaa", "MIIEbbbb"]);
    }

    #[test]
    fn a_private_key_that_never_ends_hides_the_rest() {
        let (lines, _) = stream(&Redactor::new(), "-----BEGIN PRIVATE KEY-----MIIE\nMIIE\nanything");
        assert_eq!(lines, ["-----BEGIN PRIVATE KEY-----***"]);
    }

    #[test]
    fn one_line_may_end_a_key_and_begin_another() {
        let text = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY----- -----BEGIN PRIVATE KEY-----\nBBBB\n-----END PRIVATE KEY-----";
        let (lines, _) = stream(&Redactor::new(), text);
        assert_eq!(lines.join("\n"), redact(text));
    }

    #[test]
    fn a_secret_found_on_the_way_is_registered_once_and_known_ones_never() {
        let redactor = knowing("hunter2");
        let (lines, secrets) = stream(&redactor, "password = \"found-it\"\npassword = \"found-it\"\nhunter2");
        assert_eq!(lines, ["password = \"***\"", "password = \"***\"", "***"]);
        assert_eq!(secrets, ["found-it"]);
    }
}

/// Text made of everything the scanners look for, so that matches overlap in every way.
fn hostile() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(vec![
        "password",
        "PASSWORD",
        "token",
        "SECRET",
        "aws_secret_access_key",
        "=",
        ": ",
        " = ",
        "\"",
        "'",
        "\\\"",
        "\\",
        " -> ",
        "***",
        "*",
        "\n",
        " ",
        "://",
        "u:",
        "@",
        "/",
        "eyJabcdefg",
        ".",
        "AKIA",
        "ABCDEFGHIJ0123456789",
        "ghp_",
        "abcdefghijklmnopqrstuvwxyz0123456789",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "-----",
        "END ",
        "PRIVATE KEY",
        "hunter2",
        "hunt",
        "er2*",
        "é",
        "x",
    ]);
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn redacting_twice_changes_nothing(text in hostile(), secrets in proptest::collection::vec(hostile(), 0..3)) {
        let redactor = Redactor::new().with_environment(secrets.iter().map(|secret| ("A_SECRET", secret)));
        let once = redactor.redact(&text);
        prop_assert_eq!(redactor.redact(&once), once);
    }
}

proptest! {
    #[test]
    fn no_planted_secret_survives_in_any_form(
        secret in "[a-z<>&\"${%} é]{0,3}[a-zA-Z]{6}[a-z0-9<>&\"'\\\\é*]{0,12}",
        before in "\\PC{0,12}",
        after in "\\PC{0,12}",
    ) {
        prop_assume!(!secret.contains(MASK));
        let secret = secret.trim();
        let redactor = knowing(secret);
        let json = serde_json::Value::from(secret).to_string();
        for form in [secret, &json[1..json.len() - 1], &STANDARD.encode(secret)] {
            let masked = redactor.redact(&format!("{before}{form}{after}"));
            prop_assert!(!masked.contains(form.trim_matches('*')), "{} in {}", form, masked);
        }
        let encoded = STANDARD.encode(format!("{before}{secret}{after}"));
        let masked = redactor.redact(&encoded);
        for piece in masked.split(MASK) {
            let decoded = STANDARD.decode(piece.trim_end_matches('=').get(..piece.len() / 4 * 4).unwrap_or_default()).unwrap_or_default();
            prop_assert!(!String::from_utf8_lossy(&decoded).contains(secret));
        }
    }

    #[test]
    fn every_ending_of_nested_secrets_is_found(text in "[ab]{0,60}", secrets in proptest::collection::vec("[ab]{4,9}", 1..6)) {
        let redactor = Redactor::new().with_environment(secrets.iter().map(|secret| ("A_SECRET", secret)));
        let mut expected = Vec::new();
        for secret in &secrets {
            expected.extend((0..text.len()).filter(|at| text[*at..].starts_with(secret)).map(|at| at..at + secret.len()));
        }
        prop_assert_eq!(redactor.redact(&text), mask(&text, &merge(expected)));
    }

    #[test]
    fn a_stream_shows_what_the_whole_text_would_blanks_aside(lines in proptest::collection::vec("(-----BEGIN PRIVATE KEY-----|-----END PRIVATE KEY-----|-----BEGIN PRIVATE KEY-----abc|abc-----END PRIVATE KEY----- x|[a-z ]{0,6}|password = \"x\")", 0..9)) {
        let redactor = Redactor::new();
        let mut stream = StreamRedactor::new(&redactor);
        let streamed: Vec<String> = lines.iter().filter_map(|line| stream.push(line).text).collect();
        let whole = redactor.redact(&lines.join("\n"));
        let shown = |text: &str| text.split_whitespace().collect::<String>();
        prop_assert_eq!(shown(&streamed.join("\n")), shown(&whole));
    }
}
