//! Any template is refused or rendered, within its limits (`config::template`).
//!
//! The input is a path, a newline, the name of an instance, a newline and the template.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stackorder::config::template::{Fields, OUTPUT_BYTES_MAX, Template, is_template, render};

/// What a refusal may add to what it quotes.
const MESSAGE_BYTES_MAX: usize = 2048;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, '\n');
    let (path, instance) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let text = parts.next().unwrap_or_default();
    let fields = Fields::of(path, instance);
    fields_are_themselves(&fields);

    let rendered = match Template::parse(text) {
        Err(error) => {
            assert!(is_template(text), "text without actions is no template: {error}");
            assert!(error.to_string().len() <= MESSAGE_BYTES_MAX, "{error}");
            return;
        }
        Ok(template) => {
            assert_eq!(template, Template::parse(text).expect("it was read before"));
            template.render(&fields)
        }
    };
    match rendered {
        Err(error) => assert!(error.to_string().len() <= MESSAGE_BYTES_MAX, "{error}"),
        Ok(out) if is_template(text) => {
            assert!(out.len() <= OUTPUT_BYTES_MAX, "{} bytes", out.len());
            text_beside_it_is_kept(text, &fields, &out);
        }
        Ok(out) => assert_eq!(out, text, "text without actions is itself"),
    }
});

fn fields_are_themselves(fields: &Fields) {
    for (template, value) in [
        ("{{ .Path }}", &fields.path),
        ("{{ .Instance }}", &fields.instance),
        ("{{ with .Key }}{{ $.Key }}{{ else }}{{ .Key }}{{ end }}", &fields.key),
        ("{{ $x := .Name }}{{ $x }}", &fields.name),
    ] {
        match render(template, fields) {
            Ok(out) => assert_eq!(out, *value, "{template}"),
            Err(_) => assert!(value.len() > OUTPUT_BYTES_MAX, "{template}"),
        }
    }
}

/// Letters in front and behind reach the output and change nothing else: trimming takes blanks only.
fn text_beside_it_is_kept(template: &str, fields: &Fields, out: &str) {
    if out.len() + 2 <= OUTPUT_BYTES_MAX && template.len() < 1024 {
        assert_eq!(render(&format!("<{template}>"), fields).as_deref(), Ok(&*format!("<{out}>")));
    }
}
