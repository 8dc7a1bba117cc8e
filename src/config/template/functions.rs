//! Values, and what the functions of the subset compute with them.
//!
//! Results are bounded while they are made. The rules of comparison and truth are those of Go's text templates.

use std::cmp::Ordering;

use super::{Fields, OUTPUT_BYTES_MAX};

/// What an expression can be. `Fields` is the root data, which only gives fields.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Bool(bool),
    Int(i64),
    Float(f64),
    Fields,
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a decimal number",
            Value::Fields => "the whole of the fields",
        }
    }

    /// Empty text, zero and `false` are false.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Text(text) => !text.is_empty(),
            Value::Bool(yes) => *yes,
            Value::Int(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Fields => true,
        }
    }

    /// The value as it is printed.
    pub(super) fn print(&self) -> Result<String, String> {
        match self {
            Value::Text(text) => Ok(text.clone()),
            Value::Bool(yes) => Ok(yes.to_string()),
            Value::Int(number) => Ok(number.to_string()),
            Value::Float(number) => Ok(print_float(*number)),
            Value::Fields => Err("the whole of the fields cannot be printed; name one, such as .Path".to_owned()),
        }
    }
}

/// Go's `%v`: the shortest digits, with an exponent below 1e-4 and from 1e21.
fn print_float(number: f64) -> String {
    if number != 0.0 && !(1e-4..1e21).contains(&number.abs()) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    number.to_string()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Path,
    Name,
    Instance,
    Key,
}

impl Field {
    pub(super) const NAMES: [&str; 4] = ["Path", "Name", "Instance", "Key"];

    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "Path" => Some(Self::Path),
            "Name" => Some(Self::Name),
            "Instance" => Some(Self::Instance),
            "Key" => Some(Self::Key),
            _ => None,
        }
    }

    pub(super) fn of(self, fields: &Fields) -> &str {
        match self {
            Self::Path => &fields.path,
            Self::Name => &fields.name,
            Self::Instance => &fields.instance,
            Self::Key => &fields.key,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    TrimPrefix,
    TrimSuffix,
    Base,
    Dir,
    Replace,
    Lower,
    Upper,
    And,
    Or,
    Not,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Name, function, fewest arguments, most arguments.
const FUNCTIONS: [(&str, Function, usize, usize); 16] = [
    ("trimPrefix", Function::TrimPrefix, 2, 2),
    ("trimSuffix", Function::TrimSuffix, 2, 2),
    ("base", Function::Base, 1, 1),
    ("dir", Function::Dir, 1, 1),
    ("replace", Function::Replace, 3, 3),
    ("lower", Function::Lower, 1, 1),
    ("upper", Function::Upper, 1, 1),
    ("and", Function::And, 1, usize::MAX),
    ("or", Function::Or, 1, usize::MAX),
    ("not", Function::Not, 1, 1),
    ("eq", Function::Eq, 2, usize::MAX),
    ("ne", Function::Ne, 2, 2),
    ("lt", Function::Lt, 2, 2),
    ("le", Function::Le, 2, 2),
    ("gt", Function::Gt, 2, 2),
    ("ge", Function::Ge, 2, 2),
];

impl Function {
    pub(super) fn named(name: &str) -> Option<Self> {
        FUNCTIONS.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    pub(super) fn names() -> Vec<&'static str> {
        FUNCTIONS.iter().map(|row| row.0).collect()
    }

    fn row(self) -> &'static (&'static str, Function, usize, usize) {
        FUNCTIONS.iter().find(|row| row.1 == self).expect("every function has a row, as a test checks")
    }

    /// Refuses a call that can never work, before anything is rendered.
    pub(super) fn check_arguments(self, given: usize) -> Result<(), String> {
        let (name, _, least, most) = *self.row();
        if (least..=most).contains(&given) {
            return Ok(());
        }
        let wanted = if most == least { least.to_string() } else { format!("at least {least}") };
        Err(format!("wrong number of arguments for {name}: wants {wanted}, got {given}"))
    }

    /// Computes the function of evaluated arguments, whose number was checked.
    pub(super) fn call(self, arguments: &[Value]) -> Result<Value, String> {
        let text = |at: usize| self.text(arguments, at);
        match self {
            Self::TrimPrefix => bounded(text(1)?.strip_prefix(text(0)?).unwrap_or(text(1)?)),
            Self::TrimSuffix => bounded(text(1)?.strip_suffix(text(0)?).unwrap_or(text(1)?)),
            Self::Base => bounded(base(text(0)?)),
            Self::Dir => bounded(&dir(text(0)?)),
            Self::Replace => replace(text(0)?, text(1)?, text(2)?).map(Value::Text),
            Self::Lower => bounded(&limited(text(0)?)?.to_lowercase()),
            Self::Upper => bounded(&limited(text(0)?)?.to_uppercase()),
            Self::And => Ok(pick(arguments, |value| !value.is_true())),
            Self::Or => Ok(pick(arguments, Value::is_true)),
            Self::Not => Ok(Value::Bool(!arguments.first().is_some_and(Value::is_true))),
            Self::Eq => equals_any(arguments).map(Value::Bool),
            Self::Ne => equals_any(arguments).map(|equal| Value::Bool(!equal)),
            Self::Lt => order(arguments).map(|o| Value::Bool(o == Ordering::Less)),
            Self::Le => order(arguments).map(|o| Value::Bool(o != Ordering::Greater)),
            Self::Gt => order(arguments).map(|o| Value::Bool(o == Ordering::Greater)),
            Self::Ge => order(arguments).map(|o| Value::Bool(o != Ordering::Less)),
        }
    }

    fn text(self, arguments: &[Value], at: usize) -> Result<&str, String> {
        match arguments.get(at) {
            Some(Value::Text(text)) => Ok(text),
            Some(other) => Err(format!("{} takes texts, not {}", self.row().0, other.kind())),
            None => Err(format!("wrong number of arguments for {}", self.row().0)),
        }
    }
}

/// What every text that passes the limit is refused with.
pub(super) fn too_long() -> String {
    format!("output over {OUTPUT_BYTES_MAX} bytes")
}

fn limited(text: &str) -> Result<&str, String> {
    if text.len() > OUTPUT_BYTES_MAX { Err(too_long()) } else { Ok(text) }
}

fn bounded(text: &str) -> Result<Value, String> {
    limited(text).map(|text| Value::Text(text.to_owned()))
}

/// The first argument that decides, else the last one.
fn pick(arguments: &[Value], decides: impl Fn(&Value) -> bool) -> Value {
    let chosen = arguments.iter().find(|value| decides(value)).or(arguments.last());
    chosen.cloned().unwrap_or(Value::Bool(false))
}

/// The last segment of a slash path: `.` for an empty one, `/` for nothing but slashes, as Go has it.
fn base(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" if path.is_empty() => ".",
        "" => "/",
        trimmed => trimmed.rsplit('/').next().unwrap_or(trimmed),
    }
}

/// All but the last segment, cleaned: `.` when nothing is left, as Go has it.
fn dir(path: &str) -> String {
    let before = path.rfind('/').map_or("", |slash| &path[..=slash]);
    let cleaned = crate::ids::normalise_path(before);
    match (before.starts_with('/'), cleaned.as_str()) {
        (true, inside) => format!("/{}", inside.trim_start_matches("../").trim_start_matches("..")),
        (false, "") => ".".to_owned(),
        (false, _) => cleaned,
    }
}

/// Replaces every occurrence; an empty `old` stands between all characters, as Go has it.
fn replace(old: &str, new: &str, text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut push = |part: &str| {
        if out.len() + part.len() > OUTPUT_BYTES_MAX {
            return Err(too_long());
        }
        out.push_str(part);
        Ok(())
    };
    let mut copied = 0;
    for (at, matched) in text.match_indices(old) {
        push(&text[copied..at])?;
        push(new)?;
        copied = at + matched.len();
    }
    push(&text[copied..])?;
    Ok(out)
}

fn equals_any(arguments: &[Value]) -> Result<bool, String> {
    let Some((first, others)) = arguments.split_first() else { return Ok(false) };
    for other in others {
        let equal = match (first, other) {
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a == b,
            (a, b) => return Err(incomparable(a, b)),
        };
        if equal {
            return Ok(true);
        }
    }
    Ok(false)
}

fn order(arguments: &[Value]) -> Result<Ordering, String> {
    match arguments {
        [Value::Text(a), Value::Text(b)] => Ok(a.cmp(b)),
        [Value::Int(a), Value::Int(b)] => Ok(a.cmp(b)),
        // Literals are finite, so they are ordered.
        [Value::Float(a), Value::Float(b)] => Ok(a.total_cmp(b)),
        [a, b] => Err(incomparable(a, b)),
        _ => Err("wrong number of arguments for a comparison".to_owned()),
    }
}

fn incomparable(a: &Value, b: &Value) -> String {
    format!("cannot compare {} with {}", a.kind(), b.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_name() {
        for (name, function, ..) in FUNCTIONS {
            assert_eq!(Function::named(name), Some(function));
            assert_eq!(function.row().0, name);
        }
    }

    #[test]
    fn paths_are_cut_as_go_cuts_them() {
        for (path, last, before) in [
            ("live/net", "net", "live"),
            ("net", "net", "."),
            ("", ".", "."),
            ("/", "/", "/"),
            ("a//b/", "b", "a/b"),
            ("/a", "a", "/"),
            ("../a", "a", ".."),
        ] {
            assert_eq!((base(path), dir(path).as_str()), (last, before), "{path:?}");
        }
    }

    #[test]
    fn floats_print_as_go_prints_them() {
        for (number, text) in
            [(1.0, "1"), (1.5, "1.5"), (1e21, "1e+21"), (1e20, "100000000000000000000"), (0.00001, "1e-05")]
        {
            assert_eq!(print_float(number), text);
        }
    }
}
