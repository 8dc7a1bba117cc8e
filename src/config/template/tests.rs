use proptest::prelude::*;

use super::*;

fn rendered(template: &str) -> Result<String, String> {
    render(template, &Fields::of("live/network", "production")).map_err(|error| error.reason)
}

fn ok(template: &str) -> String {
    rendered(template).unwrap_or_else(|reason| panic!("{template}: {reason}"))
}

fn refused(template: &str) -> String {
    rendered(template).expect_err(template)
}

#[test]
fn text_without_an_action_is_untouched() {
    for text in ["", "a }} b", "{ {.Path} }", "$x", "a\n"] {
        assert_eq!(ok(text), text);
    }
}

#[test]
fn fields_say_who_the_instance_is() {
    assert_eq!(
        ok("{{ .Path }} {{ .Name }} {{ .Instance }} {{ .Key }}"),
        "live/network network production live/network:production"
    );
    let unnamed = Fields::of("net", "");
    assert_eq!(render("{{.Path}}|{{.Name}}|{{.Instance}}|{{.Key}}", &unnamed).unwrap(), "net|net||net");
}

#[test]
fn functions_do_what_the_table_says() {
    for (template, text) in [
        (r#"{{ trimPrefix "live/" .Path }}"#, "network"),
        (r#"{{ trimPrefix "x" .Path }}"#, "live/network"),
        (r#"{{ trimSuffix "work" .Path }}"#, "live/net"),
        ("{{ base .Path }}", "network"),
        ("{{ dir .Path }}", "live"),
        (r#"{{ replace "/" "-" .Path }}"#, "live-network"),
        (r#"{{ replace "" "-" "ab" }}"#, "-a-b-"),
        (r#"{{ lower "AbÉ" }}{{ upper "abé" }}"#, "abéABÉ"),
        (r#"{{ and .Name "x" }}{{ and "" "x" }}"#, "x"),
        (r#"{{ or "" .Name }}{{ or .Path "x" }}"#, "networklive/network"),
        (r#"{{ not "" }} {{ not 1 }}"#, "true false"),
        (r#"{{ eq .Instance "dev" "production" }} {{ eq 1 2 3 }}"#, "true false"),
        (r#"{{ ne .Name "x" }}"#, "true"),
        (r#"{{ lt "a" "b" }} {{ le 2 2 }} {{ gt 1 2 }} {{ ge 1.5 1.5 }}"#, "true true false true"),
        ("{{ eq true true }}", "true"),
    ] {
        assert_eq!(ok(template), text, "{template}");
    }
}

#[test]
fn pipelines_pass_their_value_as_the_last_argument() {
    assert_eq!(ok(r#"{{ .Path | trimPrefix "live/" | upper }}"#), "NETWORK");
    assert_eq!(ok(r#"{{ (.Path | dir) | replace "i" "o" }}"#), "love");
    assert_eq!(ok(r#"{{ trimPrefix (lower "LIVE/") .Path }}"#), "network");
    assert_eq!(ok("{{ .Name | eq `network` }}"), "true");
}

#[test]
fn literals_print_as_go_prints_them() {
    assert_eq!(ok(r#"{{ "a\tb\"\u00e9" }}"#), "a\tb\"é");
    assert_eq!(ok(r"{{ `a\n}}` }}"), r"a\n}}");
    assert_eq!(ok("{{ 12 }} {{ -3 }} {{ 1.50 }} {{ true }}"), "12 -3 1.5 true");
    assert_eq!(ok("{{-3}}"), "-3");
}

#[test]
fn conditions_choose_a_branch() {
    let template = r#"{{ if eq .Instance "dev" }}d{{ else if eq .Instance "production" }}p{{ else }}o{{ end }}"#;
    assert_eq!(ok(template), "p");
    assert_eq!(ok("{{ if .Instance }}x{{ end }}{{ if not .Instance }}y{{ end }}"), "x");
    assert_eq!(
        ok("{{ with .Instance }}<{{ . }} of {{ $.Path }}>{{ else }}none{{ end }}"),
        "<production of live/network>"
    );
    assert_eq!(ok(r#"{{ with "" }}x{{ else with .Name }}{{ . }}{{ end }}"#), "network");
    assert_eq!(ok(r#"{{ if "" }}x{{ else }}{{ if 0 }}y{{ else }}z{{ end }}{{ end }}"#), "z");
}

#[test]
fn variables_live_until_the_end_of_their_block() {
    assert_eq!(ok("{{ $n := .Name }}{{ $n }}-{{ $n }}"), "network-network");
    assert_eq!(ok("{{ $n := 1 }}{{ if true }}{{ $n = 2 }}{{ end }}{{ $n }}"), "2");
    assert_eq!(ok("{{ $n := 1 }}{{ if true }}{{ $n := 2 }}{{ end }}{{ $n }}"), "1");
    assert_eq!(ok("{{ if $x := .Name }}{{ $x }}{{ end }}"), "network");
    assert_eq!(ok("{{ $all := . }}{{ $all.Name }} {{ (.).Path }}"), "network live/network");
    assert!(refused("{{ if true }}{{ $n := 2 }}{{ end }}{{ $n }}").contains("unknown variable $n"));
    assert!(refused("{{ $n = 1 }}").contains("unknown variable $n"));
}

#[test]
fn trim_markers_and_comments_leave_nothing_behind() {
    assert_eq!(ok("a \n {{- .Name -}} \t b"), "anetworkb");
    assert_eq!(ok("a {{/* nothing }} here */}} b"), "a  b");
    assert_eq!(ok("a {{- /* nothing */ -}} b"), "ab");
    assert_eq!(ok("{{ .Name\n}}"), "network");
}

#[test]
fn everything_else_is_refused_by_name() {
    for (template, says) in [
        ("{{ .Instanse }}", "unknown field .Instanse; did you mean .Instance?"),
        ("{{ .path }}", "unknown field .path; did you mean .Path?"),
        ("{{ .Path.Name }}", "unknown field .Name"),
        ("{{ $.Nope }}", "unknown field .Nope"),
        ("{{ if false }}{{ .Nope }}{{ end }}", "unknown field .Nope"),
        ("{{ trimprefix .Path }}", "did you mean trimPrefix?"),
        ("{{ range .Path }}{{ end }}", "{{ range }} is refused"),
        ("{{ define \"x\" }}{{ end }}", "{{ define }} is refused"),
        ("{{ block \"x\" . }}{{ end }}", "{{ block }} is refused"),
        ("{{ template \"x\" }}", "{{ template }} is refused"),
        ("{{ break }}", "{{ break }} is refused"),
        ("{{ continue }}", "{{ continue }} is refused"),
        ("{{ printf \"%s\" .Path }}", "\"printf\" is refused"),
        ("{{ call .Path }}", "\"call\" is refused"),
        ("{{ index .Path 1 }}", "\"index\" is refused"),
        ("{{ len .Path }}", "\"len\" is refused"),
        ("{{ lower }}", "wrong number of arguments for lower: wants 1, got 0"),
        ("{{ lower .Path .Name }}", "wrong number of arguments"),
        ("{{ .Path | replace \"a\" }}", "wrong number of arguments for replace: wants 3, got 2"),
        ("{{ eq .Path }}", "wrong number of arguments for eq: wants at least 2"),
        ("{{ lower lower }}", "wrong number of arguments"),
        ("{{ lower 1 }}", "lower takes texts"),
        ("{{ eq .Path 1 }}", "cannot compare"),
        ("{{ lt true false }}", "cannot compare"),
        ("{{ . }}", "cannot be printed"),
        ("{{ with .Name }}{{ .Path }}{{ end }}", "write $.Path"),
        ("{{ .Path .Name }}", "only functions take arguments"),
        ("{{ .Path | \"x\" }}", "only a function"),
        ("{{ 'a' }}", "character constants are refused"),
        ("{{ 010 }}", "not a number"),
        ("{{ 1x }}", "not a number"),
        ("{{ 99999999999999999999 }}", "not a number"),
        ("{{", "not closed"),
        ("{{ .Path", "not closed"),
        ("{{ \"a }}", "not closed"),
        ("{{ `a }}", "not closed"),
        ("{{/* a }}", "comment is not closed"),
        ("{{ (.Path }}", "parenthesis is not closed"),
        ("{{ .Path ) }}", "syntax error"),
        ("{{ }}", "syntax error"),
        ("{{ if }}x{{ end }}", "syntax error"),
        ("{{ if .Path }}x", "{{ if }} has no {{ end }}"),
        ("{{ with .Path }}x{{ else }}", "{{ with }} has no {{ end }}"),
        ("{{ end }}", "without a block"),
        ("{{ else }}", "without a block"),
        ("{{ if .Path }}{{ else }}{{ else }}{{ end }}", "second {{ else }}"),
        ("{{ ($x := 1) }}", "inside parentheses"),
        ("{{ .Path & .Name }}", "unexpected '&'"),
    ] {
        let reason = refused(template);
        assert!(reason.contains(says), "{template}: {reason}");
    }
}

#[test]
fn an_error_repeats_the_template() {
    let error = render("x{{ .Zone }}", &Fields::sample()).unwrap_err();
    assert_eq!(error.to_string(), r#"template "x{{ .Zone }}": unknown field .Zone"#);
}

#[test]
fn output_is_bounded_while_it_is_made() {
    let fits = "x".repeat(OUTPUT_BYTES_MAX - 7);
    assert_eq!(ok(&format!("{{{{ .Name }}}}{fits}")).len(), OUTPUT_BYTES_MAX);
    assert!(refused(&format!("{{{{ .Name }}}}{fits}y")).contains("over 4096 bytes"));

    let mut doubling = "{{ $x := \"xxxxxxxx\" }}".to_owned();
    for _ in 0..40 {
        doubling.push_str("{{ $x = replace \"x\" \"xxxxxxxx\" $x }}");
    }
    assert!(refused(&doubling).contains("over 4096 bytes"));
    assert!(refused(&format!("{{{{ {:?} | lower | eq `x` }}}}", "x".repeat(OUTPUT_BYTES_MAX + 1))).contains("over"));
    assert!(refused(&format!("{}{{{{", "x".repeat(TEMPLATE_BYTES_MAX))).contains("longer than"));
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in
        [("{{ if 1 }}", "{{ end }}"), ("{{ with 1 }}", "{{ end }}"), ("{{ if 0 }}{{ else if 1 }}", "{{ end }}")]
    {
        let template = format!("{}{}", open.repeat(300), close.repeat(300));
        assert!(refused(&template).contains("levels deep"), "{open}");
    }
    let chain = format!("{{{{ if 0 }}}}{}{{{{ end }}}}", "{{ else if 0 }}".repeat(300));
    assert!(refused(&chain).contains("levels deep"));
    assert!(refused(&format!("{{{{ {}1{} }}}}", "(".repeat(300), ")".repeat(300))).contains("levels deep"));
    assert!(refused(&format!("{{{{ .Path {} }}}}", "| lower ".repeat(300))).contains("levels deep"));
}

proptest! {
    #[test]
    fn no_template_panics_or_passes_the_bound(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "{{", "}}", "{{- ", " -}}", ".Path", ".", "$", "$x", ":=", "=", "|", "(", ")", "\"a\"", "`b`", "if ", "else ",
                "end", "with ", "range ", "replace ", "eq ", "lower ", "and ", "not ", "1", "-1.5e3", "true", " ", "é", "/*", "*/", "\\",
            ]),
            0..30,
        ),
    ) {
        if let Ok(text) = render(&parts.concat(), &Fields::sample()) {
            prop_assert!(text.len() <= OUTPUT_BYTES_MAX || !is_template(&parts.concat()));
        }
    }

    #[test]
    fn whole_actions_never_pass_the_bound(
        actions in prop::collection::vec(
            prop::sample::select(vec![
                "{{ $x = replace \"\" $x $x }}", "{{ $x = replace \"a\" .Key $x }}", "{{ $x = upper $x }}", "{{ $x }}", "{{ if $x }}",
                "{{ end }}", "{{ with $x }}", "{{ . }}", "text",
            ]),
            0..20,
        ),
    ) {
        let template = format!("{{{{ $x := .Key }}}}{}", actions.concat());
        if let Ok(text) = render(&template, &Fields::sample()) {
            prop_assert!(text.len() <= OUTPUT_BYTES_MAX);
        }
    }
}
