//! Expressions as files have them, and the values they may have before anything runs.
//!
//! A literal is read here; whatever needs a variable, a local or a function is the matter of [`super::evaluation`],
//! which is why an [`Expression`] keeps its text instead of the value it had when its file was read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hcl_edit::expr::Expression as Parsed;
use hcl_edit::template::Element;
use serde::{Deserialize, Serialize};

/// An expression as a file has it, in either syntax.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expression {
    pub line: u32,
    pub text: Text,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Text {
    Hcl(String),
    Json(serde_json::Value),
}

/// A value before the tool runs. Parts of a collection may be unknown while the rest is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Text(String),
    /// As Terraform writes it where it wants text.
    Number(String),
    Bool(bool),
    Null,
    /// A tuple, list or set.
    List(Vec<Value>),
    Object(BTreeMap<String, Value>),
    /// Not known before the tool runs.
    Unknown,
}

impl Value {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Text, as Terraform would convert it where it wants a string.
    pub fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Number(text) => Some(text),
            Self::Bool(yes) => Some(yes.to_string()),
            Self::Null | Self::List(_) | Self::Object(_) | Self::Unknown => None,
        }
    }

    pub fn into_bool(self) -> Option<bool> {
        match self {
            Self::Bool(yes) => Some(yes),
            Self::Text(text) => parse_bool(&text),
            Self::Number(_) | Self::Null | Self::List(_) | Self::Object(_) | Self::Unknown => None,
        }
    }

    /// How many values this one is made of; a long text counts more.
    pub fn weight(&self) -> usize {
        match self {
            Self::List(list) => 1 + list.iter().map(Self::weight).sum::<usize>(),
            Self::Object(map) => 1 + map.values().map(Self::weight).sum::<usize>(),
            Self::Text(text) | Self::Number(text) => 1 + text.len() / 64,
            Self::Bool(_) | Self::Null | Self::Unknown => 1,
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

    /// The value of a literal; nothing for a collection and for whatever has to be evaluated.
    pub fn literal(&self) -> Option<Value> {
        match &self.text {
            Text::Hcl(text) => hcl_literal(text),
            Text::Json(value) => json_literal(value),
        }
    }

    /// The expression as it is written.
    pub fn written(&self) -> Cow<'_, str> {
        match &self.text {
            Text::Hcl(text) => Cow::Borrowed(text),
            Text::Json(value) => Cow::Owned(value.to_string()),
        }
    }

    /// Entries of an object literal with their keys. `None` when it is no object literal or a key is computed.
    pub fn entries(&self) -> Option<Vec<(String, Expression)>> {
        match &self.text {
            Text::Json(value) => {
                let entries = value.as_object()?.iter().filter(|(key, _)| *key != "//");
                entries.map(|(key, value)| Some((json_text(key)?, Expression::json(value, self.line)))).collect()
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
    if is_name && !text.is_empty() { Some(text.to_owned()) } else { hcl_literal(text)?.into_text() }
}

fn hcl_literal(text: &str) -> Option<Value> {
    match (text, text.as_bytes().first()?) {
        ("true", _) => Some(Value::Bool(true)),
        ("false", _) => Some(Value::Bool(false)),
        ("null", _) => Some(Value::Null),
        (_, b'"') => string(text),
        (_, b'<') => parsed(text),
        (_, b'0'..=b'9') => number(text).map(Value::Number),
        _ => None,
    }
}

/// A decimal number as Terraform writes it: no zeros in front, none behind the point.
pub(super) fn number(text: &str) -> Option<String> {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !fraction.is_none_or(digits) {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    match fraction.unwrap_or_default().trim_end_matches('0') {
        "" => Some(whole.to_owned()),
        fraction => Some(format!("{whole}.{fraction}")),
    }
}

/// One quoted string and nothing after it.
fn string(text: &str) -> Option<Value> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.bytes().any(|byte| matches!(byte, b'"' | b'\\' | b'$' | b'%' | b'\n')) {
        return Some(Value::text(inner));
    }
    let mut escaped = false;
    for byte in inner.bytes() {
        match byte {
            b'"' if !escaped => return None,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    parsed(text)
}

/// A string or heredoc with escapes. What holds a template is not even shown to the library, which recurses into it
/// and takes quadratic time for its objects.
fn parsed(text: &str) -> Option<Value> {
    // The library takes some indentation off differently from Terraform.
    if text.len() > LITERAL_BYTES_MAX || text.starts_with("<<-") || holds_template(text) {
        return None;
    }
    match hcl_edit::parser::parse_expr(&plain_newlines(text)).ok()? {
        Parsed::String(text) => Some(Value::Text(text.value().clone())),
        Parsed::StringTemplate(template) => literal_elements(template.iter()),
        Parsed::HeredocTemplate(heredoc) => literal_elements(heredoc.template.iter()),
        _ => None,
    }
}

/// A carriage return belongs to the end of a line, not to a value.
pub(super) fn plain_newlines(text: &str) -> Cow<'_, str> {
    if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// `$${` and `%%{` stand for themselves.
fn holds_template(text: &str) -> bool {
    let text = text.replace("$${", "").replace("%%{", "");
    text.contains("${") || text.contains("%{")
}

fn literal_elements<'a>(elements: impl Iterator<Item = &'a Element>) -> Option<Value> {
    let mut text = String::new();
    for element in elements {
        match element {
            Element::Literal(literal) => text.push_str(literal.value()),
            Element::Interpolation(_) | Element::Directive(_) => return None,
        }
    }
    Some(Value::Text(text))
}

fn json_literal(value: &serde_json::Value) -> Option<Value> {
    match value {
        serde_json::Value::Null => Some(Value::Null),
        serde_json::Value::Bool(yes) => Some(Value::Bool(*yes)),
        serde_json::Value::Number(number) => self::number(&number.to_string()).map(Value::Number),
        serde_json::Value::String(text) => json_text(text).map(Value::Text),
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
    }
}

/// Strings of the JSON syntax are templates.
fn json_text(text: &str) -> Option<String> {
    (!holds_template(text)).then(|| text.replace("$${", "${").replace("%%{", "%{"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Option<Value> {
        Expression::hcl(text, 1).literal()
    }

    #[test]
    fn literals_of_every_kind_are_known() {
        for (text, expected) in [
            ("\"a\"", "a"),
            (r#""a\nb\"""#, "a\nb\""),
            (r#""$${x}""#, "${x}"),
            (r#""%%{x}""#, "%{x}"),
            (r#""$5 100%""#, "$5 100%"),
            (r#""\\""#, "\\"),
            ("<<EOT\nx\nEOT", "x\n"),
            ("<<EOT\r\nx\r\nEOT", "x\n"),
        ] {
            assert_eq!(literal(text), Some(Value::text(expected)), "{text}");
        }
        for (text, expected) in [("5", "5"), ("1.50", "1.5"), ("007", "7"), ("0.0", "0")] {
            assert_eq!(literal(text), Some(Value::Number(expected.to_owned())), "{text}");
        }
        assert_eq!(
            (literal("true"), literal("null"), literal("[1]")),
            (Some(Value::Bool(true)), Some(Value::Null), None)
        );
    }

    #[test]
    fn everything_else_is_no_literal_however_deep() {
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
            "<<-EOT\n  x\n  EOT",
            "1e3",
            &deep,
            &signs,
            &questions,
            &templates,
        ] {
            assert_eq!(literal(text), None, "{text}");
        }
    }

    #[test]
    fn json_strings_are_templates() {
        let json = |value: serde_json::Value| Expression::json(&value, 1).literal();
        assert_eq!(json("a".into()), Some(Value::text("a")));
        assert_eq!(json("${var.x}".into()), None);
        assert_eq!(json("$${x}".into()), Some(Value::text("${x}")));
        assert_eq!((json(true.into()), json(3.into())), (Some(Value::Bool(true)), Some(Value::Number("3".into()))));
    }
}
