//! GitHub's loose conversions: what is true, what is equal, how a value reads as text.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// False are `false`, `0`, `NaN`, the empty text and `null`; lists and objects are true even when empty.
pub fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64().is_some_and(|n| n != 0.0 && !n.is_nan()),
        Value::String(s) => !s.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// A number as JSON holds it: whole ones without a fraction; JSON has no `NaN`, which reads as `null` here.
pub fn number(n: f64) -> Value {
    /// Up to here every whole `f64` is exactly one integer.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if n.fract() == 0.0 && n.abs() <= EXACT_MAX {
        return Value::Number(Number::from(n as i64));
    }
    Number::from_f64(n).map_or(Value::Null, Value::Number)
}

/// A value as a number; what is none is `NaN`.
pub fn to_number(value: &Value) -> f64 {
    match value {
        Value::Null => 0.0,
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Number(n) => n.as_f64().unwrap_or(f64::NAN),
        Value::String(s) => text_to_number(s.trim()),
        Value::Array(_) | Value::Object(_) => f64::NAN,
    }
}

fn text_to_number(text: &str) -> f64 {
    if text.is_empty() {
        return 0.0;
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return u32::from_str_radix(hex, 16).map_or(f64::NAN, f64::from);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return u32::from_str_radix(octal, 8).map_or(f64::NAN, f64::from);
    }
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    match text {
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        _ if plain => text.parse().unwrap_or(f64::NAN),
        _ => f64::NAN,
    }
}

/// A value inside a text.
pub fn to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.as_f64().map_or_else(|| n.to_string(), number_text),
        Value::String(s) => s.clone(),
        Value::Array(_) => "Array".to_owned(),
        Value::Object(_) => "Object".to_owned(),
    }
}

/// Fifteen significant digits, exponent form outside of 1e-5 to 1e15: .NET's `G15`, which GitHub uses.
pub fn number_text(n: f64) -> String {
    if n == 0.0 {
        return "0".to_owned();
    }
    if !n.is_finite() {
        return if n.is_nan() {
            "NaN"
        } else if n > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let scientific = format!("{n:.14e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-5..15).contains(&exponent) {
        let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}E{sign}{:02}", exponent.abs());
    }
    let decimals = usize::try_from(14 - exponent).unwrap_or(0);
    let fixed = format!("{n:.decimals$}");
    if fixed.contains('.') { fixed.trim_end_matches('0').trim_end_matches('.').to_owned() } else { fixed }
}

/// `==`: texts without regard to case, other kinds as numbers when they differ; lists and objects equal nothing here
/// (on GitHub only the same instance).
pub fn is_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => fold(a) == fold(b),
        _ => {
            let (a, b) = (to_number(left), to_number(right));
            a == b
        }
    }
}

/// `<` and its like; `None` when the two cannot be compared.
pub fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(a), Value::String(b)) => Some(fold(a).cmp(&fold(b))),
        _ => to_number(left).partial_cmp(&to_number(right)),
    }
}

/// Text as GitHub compares it.
pub fn fold(text: &str) -> String {
    text.to_uppercase()
}
