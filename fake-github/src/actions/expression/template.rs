//! Text with `${{ … }}` inside, and whole YAML values made of such text.

use serde_json::Value;

use super::coerce::to_text;
use super::{Contexts, ExpressionError};

/// A stretch of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    Text(&'a str),
    /// What stands between `${{` and `}}`.
    Expression(&'a str),
}

/// Cuts a text at its fences; a `}}` inside quotes ends nothing.
pub fn split(text: &str) -> Result<Vec<Piece<'_>>, ExpressionError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${{") {
        if start > 0 {
            pieces.push(Piece::Text(&rest[..start]));
        }
        let body = &rest[start + 3..];
        let end = fence_end(body).ok_or_else(|| ExpressionError {
            expression: text.trim().to_owned(),
            message: "The expression is not closed. An unescaped ${{ sequence was found, but the closing }} sequence was not found."
                .to_owned(),
        })?;
        pieces.push(Piece::Expression(&body[..end]));
        rest = &body[end + 2..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

fn fence_end(body: &str) -> Option<usize> {
    let mut quoted = false;
    let bytes = body.as_bytes();
    (0..bytes.len()).find(|&i| {
        quoted ^= bytes[i] == b'\'';
        !quoted && bytes[i..].starts_with(b"}}")
    })
}

impl Contexts {
    /// A template as text.
    pub fn text(&self, template: &str) -> Result<String, ExpressionError> {
        let mut out = String::new();
        for piece in split(template)? {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Expression(expression) => out.push_str(&to_text(&self.evaluate(expression)?)),
            }
        }
        Ok(out)
    }

    /// A template as a value: a lone expression keeps its kind, anything else is text.
    pub fn value(&self, template: &str) -> Result<Value, ExpressionError> {
        match split(template)?.as_slice() {
            [Piece::Expression(only)] => self.evaluate(only),
            _ => self.text(template).map(Value::String),
        }
    }

    /// A YAML value with every text inside it evaluated. The parser of the file bounds its depth.
    pub fn resolve(&self, value: &Value) -> Result<Value, ExpressionError> {
        Ok(match value {
            Value::String(text) => self.value(text)?,
            Value::Array(items) => Value::Array(items.iter().map(|v| self.resolve(v)).collect::<Result<_, _>>()?),
            Value::Object(members) => {
                Value::Object(members.iter().map(|(key, v)| Ok((self.text(key)?, self.resolve(v)?))).collect::<Result<
                    _,
                    ExpressionError,
                >>(
                )?)
            }
            plain => plain.clone(),
        })
    }
}
