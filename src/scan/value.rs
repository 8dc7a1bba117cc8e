//! What an expression says before anything runs.
//!
//! Today that is a literal or nothing. Values that follow from variables and locals will be found here too,
//! which is why an [`Expression`] keeps its text instead of the value it had when its file was read.

use std::borrow::Cow;

use hcl_edit::expr::Expression as Parsed;
use hcl_edit::template::Element;

/// An expression as a file has it, in either syntax.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    pub line: u32,
    pub text: Text,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Text {
    Hcl(String),
    Json(serde_json::Value),
}

/// What [`Expression::value`] knows.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Bool(bool),
    Null,
    /// A list or an object.
    Other,
    /// Not known before the tool runs.
    Unknown,
}

impl Value {
    /// Text, as Terraform would convert it where it wants a string.
    pub fn into_text(self) -> Option<String> {
        match self {
            Value::Text(text) => Some(text),
            Value::Bool(yes) => Some(yes.to_string()),
            Value::Null | Value::Other | Value::Unknown => None,
        }
    }

    pub fn into_bool(self) -> Option<bool> {
        match self {
            Value::Bool(yes) => Some(yes),
            Value::Text(text) => parse_bool(&text),
            Value::Null | Value::Other | Value::Unknown => None,
        }
    }
}

/// `true` or `false`, as Terraform reads text where it wants a truth value.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// Longest literal that is decoded. A key or source has some hundred bytes.
const LITERAL_BYTES_MAX: usize = 16 * 1024;

impl Expression {
    pub fn hcl(text: &str, line: u32) -> Self {
        Self { line, text: Text::Hcl(text.to_owned()) }
    }

    pub fn json(value: &serde_json::Value, line: u32) -> Self {
        Self { line, text: Text::Json(value.clone()) }
    }

    pub fn value(&self) -> Value {
        match &self.text {
            Text::Hcl(text) => hcl_value(text),
            Text::Json(value) => json_value(value),
        }
    }

    /// Entries of an object literal with their keys. `None` when it is no object literal or a key is computed.
    pub fn entries(&self) -> Option<Vec<(String, Expression)>> {
        match &self.text {
            Text::Json(value) => {
                let entries = value.as_object()?.iter().filter(|(key, _)| *key != "//");
                entries
                    .map(|(key, value)| Some((json_text(key).into_text()?, Expression::json(value, self.line))))
                    .collect()
            }
            Text::Hcl(text) => super::hcl::object_entries(text, self.line)?
                .into_iter()
                .map(|(key, line, value)| Some((object_key(key)?, Expression::hcl(value, line))))
                .collect(),
        }
    }
}

fn object_key(text: &str) -> Option<String> {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || byte >= 0x80);
    if is_name && !text.is_empty() { Some(text.to_owned()) } else { hcl_value(text).into_text() }
}

fn hcl_value(text: &str) -> Value {
    match (text, text.as_bytes().first()) {
        ("true", _) => Value::Bool(true),
        ("false", _) => Value::Bool(false),
        ("null", _) => Value::Null,
        (_, Some(b'"')) => string(text),
        (_, Some(b'<')) => parsed(text),
        (_, Some(b'{' | b'[')) => Value::Other,
        (_, Some(b'0'..=b'9')) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            Value::Text(text.to_owned())
        }
        _ => Value::Unknown,
    }
}

/// One quoted string and nothing after it.
fn string(text: &str) -> Value {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return Value::Unknown };
    if !inner.bytes().any(|byte| matches!(byte, b'"' | b'\\' | b'$' | b'%' | b'\n')) {
        return Value::Text(inner.to_owned());
    }
    let mut escaped = false;
    for byte in inner.bytes() {
        match byte {
            b'"' if !escaped => return Value::Unknown,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    parsed(text)
}

/// A string or heredoc with escapes. What holds a template is not even shown to the library, which recurses into it
/// and takes quadratic time for its objects.
fn parsed(text: &str) -> Value {
    if text.len() > LITERAL_BYTES_MAX || holds_template(text) {
        return Value::Unknown;
    }
    let text = if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) };
    match hcl_edit::parser::parse_expr(&text) {
        Ok(Parsed::String(text)) => Value::Text(text.value().clone()),
        Ok(Parsed::StringTemplate(template)) => literal_elements(template.iter()),
        Ok(Parsed::HeredocTemplate(heredoc)) => literal_elements(heredoc.template.iter()),
        Ok(_) | Err(_) => Value::Unknown,
    }
}

/// `$${` and `%%{` stand for themselves.
fn holds_template(text: &str) -> bool {
    let text = text.replace("$${", "").replace("%%{", "");
    text.contains("${") || text.contains("%{")
}

fn literal_elements<'a>(elements: impl Iterator<Item = &'a Element>) -> Value {
    let mut text = String::new();
    for element in elements {
        match element {
            Element::Literal(literal) => text.push_str(literal.value()),
            Element::Interpolation(_) | Element::Directive(_) => return Value::Unknown,
        }
    }
    Value::Text(text)
}

fn json_value(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(yes) => Value::Bool(*yes),
        serde_json::Value::Number(number) => Value::Text(number.to_string()),
        serde_json::Value::String(text) => json_text(text),
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => Value::Other,
    }
}

/// Strings of the JSON syntax are templates.
fn json_text(text: &str) -> Value {
    if holds_template(text) {
        return Value::Unknown;
    }
    Value::Text(text.replace("$${", "${").replace("%%{", "%{"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        Expression::hcl(text, 1).value()
    }

    #[test]
    fn literals_of_every_kind_are_known() {
        for (text, expected) in [
            ("\"a\"", "a"),
            (r#""a\nb\"""#, "a\nb\""),
            (r#""$${x}""#, "${x}"),
            (r#""%%{x}""#, "%{x}"),
            (r#""$5 100%""#, "$5 100%"),
            ("5", "5"),
            ("1.50", "1.50"),
            (r#""\\""#, "\\"),
            ("<<EOT\nx\nEOT", "x\n"),
            ("<<EOT\r\nx\r\nEOT", "x\n"),
        ] {
            assert_eq!(value(text), Value::Text(expected.to_owned()), "{text}");
        }
        assert_eq!((value("true"), value("null"), value("[1]")), (Value::Bool(true), Value::Null, Value::Other));
    }

    #[test]
    fn everything_else_is_unknown_however_deep() {
        let deep = format!("f({}1{})", "[".repeat(5_000), "]".repeat(5_000));
        let signs = format!("{}1", "-".repeat(5_000));
        let templates = format!("{}x{}", "\"${".repeat(24), "}\"".repeat(24));
        let questions = format!("{}1", "a ? b : ".repeat(60));
        for text in [
            "var.x",
            "\"${var.x}\"",
            "\"a-${\"b\"}\"",
            "f(1)",
            "(\"x\")",
            "1 + 1",
            "a.b[0]",
            "\"",
            "",
            "x y",
            &deep,
            &signs,
            &questions,
            &templates,
        ] {
            assert_eq!(value(text), Value::Unknown, "{text}");
        }
    }

    #[test]
    fn json_strings_are_templates() {
        let json = |value: serde_json::Value| Expression::json(&value, 1).value();
        assert_eq!(json("a".into()), Value::Text("a".into()));
        assert_eq!(json("${var.x}".into()), Value::Unknown);
        assert_eq!(json("$${x}".into()), Value::Text("${x}".into()));
        assert_eq!((json(true.into()), json(3.into())), (Value::Bool(true), Value::Text("3".into())));
    }
}
