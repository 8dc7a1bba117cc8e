//! The functions of the language that names and keys are made with, on known values only.
//! `None` is "not known": an error of the tool, a case where it would do something else, or a function not listed.

use std::collections::BTreeMap;

use crate::scan::types::Type;
use crate::scan::value::Value;

/// Longest text that a function makes.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// What the tool's function of this name gives.
pub(super) fn call(name: &str, arguments: Vec<Value>) -> Option<Value> {
    match (name, arguments.as_slice()) {
        ("lower", [text]) => ascii(text).map(|text| Value::Text(text.to_ascii_lowercase())),
        ("upper", [text]) => ascii(text).map(|text| Value::Text(text.to_ascii_uppercase())),
        ("trimspace", [text]) => ascii(text).map(|text| Value::text(text.trim())),
        ("trimprefix", [text, start]) => {
            let (text, start) = (as_text(text)?, as_text(start)?);
            Some(Value::text(text.strip_prefix(start.as_str()).unwrap_or(&text)))
        }
        ("trimsuffix", [text, end]) => {
            let (text, end) = (as_text(text)?, as_text(end)?);
            Some(Value::text(text.strip_suffix(end.as_str()).unwrap_or(&text)))
        }
        ("replace", [text, from, to]) => replace(&as_text(text)?, &as_text(from)?, &as_text(to)?),
        ("join", [separator, list]) => join(&as_text(separator)?, list),
        ("split", [separator, text]) => split(&as_text(separator)?, &as_text(text)?),
        ("format", [format, rest @ ..]) => self::format(&as_text(format)?, rest),
        ("tostring", [value]) => match value {
            Value::Null => Some(Value::Null),
            value => as_text(value).map(Value::Text),
        },
        ("lookup", [Value::Object(map), key, default]) => {
            Some(map.get(&as_text(key)?).cloned().unwrap_or_else(|| default.clone()))
        }
        ("lookup", [map, key]) => element(map.clone(), key.clone()),
        ("merge", maps) => merge(maps),
        ("concat", lists) => concat(lists),
        ("coalesce", values) => coalesce(values),
        ("toset", [Value::List(list)]) => set(list.clone()).map(Value::List),
        ("tolist", [Value::List(list)]) => Some(Value::List(of_one_type(list.clone()))),
        ("tomap", [map @ Value::Object(_)]) => Some(Type::Map(Box::new(Type::Any)).convert(map.clone())),
        ("keys", [Value::Object(map)]) => Some(Value::List(map.keys().map(Value::text).collect())),
        // What comes first counts unless it fails, and a failure is not known here.
        ("try", [first, ..]) if *first != Value::Unknown => Some(first.clone()),
        _ => None,
    }
}

/// `value[index]`.
pub(super) fn element(value: Value, index: Value) -> Option<Value> {
    match value {
        Value::Object(mut map) => map.remove(&index.into_text()?),
        Value::List(list) => match index {
            Value::Number(at) | Value::Text(at) => list.into_iter().nth(at.parse().ok()?),
            _ => None,
        },
        Value::Text(_) | Value::Number(_) | Value::Bool(_) | Value::Null | Value::Unknown => None,
    }
}

/// `==` on values of one simple type; null equals null alone.
pub(super) fn equal(left: &Value, right: &Value) -> Option<bool> {
    match (left, right) {
        (Value::Unknown, _) | (_, Value::Unknown) => None,
        (Value::Null, right) => Some(*right == Value::Null),
        (left, Value::Null) => Some(*left == Value::Null),
        (Value::Text(left), Value::Text(right)) | (Value::Number(left), Value::Number(right)) => Some(left == right),
        (Value::Bool(left), Value::Bool(right)) => Some(left == right),
        _ => None,
    }
}

fn as_text(value: &Value) -> Option<String> {
    value.clone().into_text()
}

/// Text in which every letter has one case of the other kind.
fn ascii(value: &Value) -> Option<String> {
    as_text(value).filter(|text| text.is_ascii())
}

fn replace(text: &str, from: &str, to: &str) -> Option<Value> {
    // Between slashes stands a regular expression; an empty text stands between all letters.
    let is_pattern = from.is_empty() || (from.len() > 1 && from.starts_with('/') && from.ends_with('/'));
    let longest = text.len().saturating_mul(to.len().max(1));
    (!is_pattern && longest <= TEXT_BYTES_MAX * 16).then(|| Value::Text(text.replace(from, to)))
}

fn join(separator: &str, list: &Value) -> Option<Value> {
    let Value::List(list) = list else { return None };
    let parts: Option<Vec<String>> = list.iter().map(as_text).collect();
    let text = parts?.join(separator);
    (text.len() <= TEXT_BYTES_MAX).then_some(Value::Text(text))
}

fn split(separator: &str, text: &str) -> Option<Value> {
    (!separator.is_empty()).then(|| Value::List(text.split(separator).map(Value::text).collect()))
}

/// `%s`, `%v`, `%d` and `%%`; anything else is not known.
fn format(format: &str, arguments: &[Value]) -> Option<Value> {
    let mut arguments = arguments.iter();
    let mut parts = format.split('%');
    let mut text = parts.next()?.to_owned();
    let mut is_after_escape = false;
    for part in parts {
        if is_after_escape {
            text.push_str(part);
            is_after_escape = false;
            continue;
        }
        let mut letters = part.chars();
        match letters.next() {
            // Two signs in a row leave nothing between them.
            None => {
                text.push('%');
                is_after_escape = true;
                continue;
            }
            Some('s' | 'v') => text.push_str(&as_text(arguments.next()?)?),
            Some('d') => match arguments.next()? {
                Value::Number(number) if !number.contains('.') => text.push_str(number),
                _ => return None,
            },
            Some(_) => return None,
        }
        text.push_str(letters.as_str());
    }
    (arguments.next().is_none() && !is_after_escape && text.len() <= TEXT_BYTES_MAX).then_some(Value::Text(text))
}

fn merge(maps: &[Value]) -> Option<Value> {
    let mut merged = BTreeMap::new();
    for map in maps {
        match map {
            Value::Object(map) => merged.extend(map.clone()),
            Value::Null => {}
            _ => return None,
        }
    }
    Some(Value::Object(merged))
}

fn concat(lists: &[Value]) -> Option<Value> {
    let mut all = Vec::new();
    for list in lists {
        let Value::List(list) = list else { return None };
        all.extend(list.iter().cloned());
    }
    Some(Value::List(all))
}

fn coalesce(values: &[Value]) -> Option<Value> {
    let empty = |value: &&Value| matches!(value, Value::Null) || matches!(value, Value::Text(text) if text.is_empty());
    values.iter().find(|value| !empty(value)).filter(|value| **value != Value::Unknown).cloned()
}

/// Elements of a set in the order that the tool walks them; `None` where that is not known.
pub(in crate::scan) fn set(list: Vec<Value>) -> Option<Vec<Value>> {
    let mut list = of_one_type(list);
    let all = |is: fn(&Value) -> bool| list.iter().all(is);
    if all(|value| matches!(value, Value::Text(_))) || all(|value| matches!(value, Value::Bool(_))) {
        list.sort_unstable();
    } else if all(|value| matches!(value, Value::Number(_))) {
        list.sort_by_cached_key(by_size);
    } else if list.len() > 1 || list.contains(&Value::Unknown) {
        return None;
    }
    list.dedup();
    Some(list)
}

/// Sorts numbers as [`Value::Number`] has them: no sign, and no zeros in front.
fn by_size(number: &Value) -> (usize, String) {
    let text = number.clone().into_text().unwrap_or_default();
    (text.find('.').unwrap_or(text.len()), text)
}

/// Elements of a list, set or map that says nothing of their type: text, once one of them is text and all can be.
pub(in crate::scan) fn of_one_type(list: Vec<Value>) -> Vec<Value> {
    let has_text = list.iter().any(|value| matches!(value, Value::Text(_)));
    let all_can = !list.iter().any(|value| matches!(value, Value::List(_) | Value::Object(_)));
    if !has_text || !all_can {
        return list;
    }
    let text = |value: Value| match value {
        Value::Number(text) => Value::Text(text),
        Value::Bool(yes) => Value::text(yes.to_string()),
        value => value,
    };
    list.into_iter().map(text).collect()
}
