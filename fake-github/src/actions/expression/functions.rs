//! The functions of expressions, over values that are already known.

use std::path::Path;

use github_actions_expressions::call::Function;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::coerce::{fold, is_equal, to_text};
use crate::actions::glob;

/// Calls a function that needs nothing but its arguments and, for `hashFiles`, the workspace.
pub(super) fn call(function: Function, arguments: &[Value], workspace: Option<&Path>) -> Result<Value, String> {
    let text = |i: usize| arguments.get(i).map(to_text).unwrap_or_default();
    Ok(match function {
        Function::Contains => Value::Bool(contains(&arguments[0], &arguments[1])),
        Function::StartsWith => Value::Bool(both_plain(arguments) && fold(&text(0)).starts_with(&fold(&text(1)))),
        Function::EndsWith => Value::Bool(both_plain(arguments) && fold(&text(0)).ends_with(&fold(&text(1)))),
        Function::Format => Value::String(format(arguments)?),
        Function::Join => Value::String(join(arguments)),
        Function::ToJSON => Value::String(
            serde_json::to_string_pretty(&arguments[0]).map_err(|e| format!("toJSON cannot write the value: {e}"))?,
        ),
        Function::FromJSON => from_json(&text(0))?,
        Function::HashFiles => Value::String(hash_files(arguments, workspace)?),
        Function::Case | Function::Success | Function::Always | Function::Cancelled | Function::Failure => {
            return Err("the function is not valid here".to_owned());
        }
    })
}

fn is_plain(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_))
}

fn both_plain(arguments: &[Value]) -> bool {
    arguments.iter().all(is_plain)
}

fn contains(search: &Value, item: &Value) -> bool {
    match search {
        Value::Array(items) => items.iter().any(|element| is_equal(element, item)),
        Value::Object(_) => false,
        plain => is_plain(item) && fold(&to_text(plain)).contains(&fold(&to_text(item))),
    }
}

fn join(arguments: &[Value]) -> String {
    let separator = arguments.get(1).map_or_else(|| ",".to_owned(), to_text);
    match &arguments[0] {
        Value::Array(items) => items.iter().map(to_text).collect::<Vec<_>>().join(&separator),
        Value::Object(_) => String::new(),
        plain => to_text(plain),
    }
}

fn from_json(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Err("Error reading JToken from JsonReader: the text is empty".to_owned());
    }
    serde_json::from_str(text).map_err(|e| format!("Error parsing fromJson: {e}"))
}

fn format(arguments: &[Value]) -> Result<String, String> {
    let template = arguments.first().map(to_text).unwrap_or_default();
    let invalid = || format!("The following format string is invalid: {template}");
    let mut out = String::new();
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' if chars.next_if_eq(&'{').is_some() => out.push('{'),
            '}' if chars.next_if_eq(&'}').is_some() => out.push('}'),
            '{' => {
                let mut digits = String::new();
                while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                    digits.push(digit);
                }
                let index: usize = digits.parse().map_err(|_| invalid())?;
                chars.next_if_eq(&'}').ok_or_else(invalid)?;
                let value = arguments.get(index.saturating_add(1)).ok_or_else(|| {
                    format!("The following format string references more arguments than were supplied: {template}")
                })?;
                out.push_str(&to_text(value));
            }
            '}' => return Err(invalid()),
            other => out.push(other),
        }
    }
    Ok(out)
}

/// SHA-256 over the SHA-256 of each matching file below the workspace, in path order; empty when none matches.
fn hash_files(arguments: &[Value], workspace: Option<&Path>) -> Result<String, String> {
    let workspace = workspace.ok_or("hashFiles is only valid in steps")?;
    let patterns: Vec<String> = arguments.iter().map(to_text).collect();
    let files = glob::find(workspace, &patterns, true);
    if files.is_empty() {
        return Ok(String::new());
    }
    let mut all = Sha256::new();
    for file in files {
        let bytes = std::fs::read(&file).map_err(|e| format!("hashFiles cannot read {}: {e}", file.display()))?;
        all.update(Sha256::digest(&bytes));
    }
    Ok(hex(&all.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
