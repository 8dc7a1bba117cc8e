//! Guards the library that parses expressions: it recurses, and takes quadratic time for the keys of an object.

use hcl_edit::expr::Expression as Parsed;
use hcl_edit::template::Template;

use crate::scan::value::plain_newlines;

/// Longest expression that is parsed. The objects of a key are far shorter; generated tables are not looked into.
const EXPRESSION_BYTES_MAX: usize = 16 * 1024;
/// Most `=` and `:` in one expression.
const ASSIGNMENTS_MAX: usize = 512;
/// Most brackets open at once.
const BRACKETS_MAX: usize = 16;
/// Most question marks and signs in one expression: conditionals and signs nest without brackets.
const CHAINED_MAX: usize = 32;

pub(super) const TOO_LARGE: &str = "the expression is too large or nested too deeply to be evaluated";

/// An expression, or why it is not read.
pub(super) fn expression(text: &str) -> Result<Parsed, &'static str> {
    guard(text)?;
    hcl_edit::parser::parse_expr(&plain_newlines(text)).map_err(|_| "it is not an expression that can be read")
}

/// What a string of the JSON syntax holds.
pub(super) fn template(text: &str) -> Result<Template, &'static str> {
    guard(text)?;
    hcl_edit::parser::parse_template(text).map_err(|_| "it is not a template that can be read")
}

fn guard(text: &str) -> Result<(), &'static str> {
    // The library takes some indentation off differently from Terraform.
    if text.contains("<<-") {
        return Err("indented heredocs are not evaluated");
    }
    let (mut open, mut deepest, mut assignments, mut chained) = (0usize, 0usize, 0usize, 0usize);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'=' | b':' => assignments += 1,
            b'?' | b'!' => chained += 1,
            _ => {}
        }
    }
    let is_sign = |pair: &&[u8]| matches!(pair, [b'-', next] if !next.is_ascii_alphanumeric());
    let signs = text.as_bytes().windows(2).filter(is_sign).count();
    let too_large = text.len() > EXPRESSION_BYTES_MAX || assignments > ASSIGNMENTS_MAX;
    if too_large || deepest > BRACKETS_MAX || chained + signs > CHAINED_MAX { Err(TOO_LARGE) } else { Ok(()) }
}
