//! Types of variables, and what they make of a value that is given (Terraform's type constraints).

use std::collections::BTreeMap;

use hcl_edit::expr::{Expression as Parsed, FuncCall, ObjectKey};

use super::evaluation::{self, functions};
use super::value::{Value, number};

/// `string`, `list(string)`, `object({ … })`, …
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    Text,
    Number,
    Bool,
    /// Whatever is given.
    Any,
    List(Box<Type>),
    Set(Box<Type>),
    Map(Box<Type>),
    Tuple(Vec<Type>),
    Object(BTreeMap<String, Attribute>),
    /// Not read here: no value of it is known.
    Unclear,
}

/// One attribute of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    kind: Type,
    /// What it is when it is not given, for `optional(…)`.
    default: Option<Value>,
}

/// Most values that one conversion makes: objects may have many attributes that nobody gives.
const VALUES_MAX: usize = 4_096;

impl Type {
    /// Of what stands behind `type =`, or, as older files have it, in quotes.
    pub fn of(text: &str) -> Self {
        let text = text.trim().trim_matches('"');
        // What most variables have is not worth a parser.
        match Self::named(text) {
            Self::Unclear => evaluation::parse(text).map_or(Self::Unclear, |parsed| Self::of_parsed(&parsed)),
            known => known,
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "string" => Self::Text,
            "number" => Self::Number,
            "bool" => Self::Bool,
            "any" => Self::Any,
            "list" => Self::List(Box::new(Self::Any)),
            "map" => Self::Map(Box::new(Self::Any)),
            _ => Self::Unclear,
        }
    }

    fn of_parsed(parsed: &Parsed) -> Self {
        match parsed {
            Parsed::Variable(name) => Self::named(name.value().as_str()),
            Parsed::FuncCall(call) => Self::of_call(call),
            _ => Self::Unclear,
        }
    }

    fn of_call(call: &FuncCall) -> Self {
        let arguments: Vec<&Parsed> = call.args.iter().collect();
        let element = |parsed| Box::new(Self::of_parsed(parsed));
        match (call.name.name.value().as_str(), arguments.as_slice()) {
            ("list", [of]) => Self::List(element(of)),
            ("set", [of]) => Self::Set(element(of)),
            ("map", [of]) => Self::Map(element(of)),
            ("tuple", [Parsed::Array(of)]) => Self::Tuple(of.iter().map(Self::of_parsed).collect()),
            ("object", [Parsed::Object(of)]) => {
                let attribute = |(key, value): (&ObjectKey, &Parsed)| Some((name(key)?, Attribute::of(value)));
                let attributes: Option<_> = of.iter().map(|(key, value)| attribute((key, value.expr()))).collect();
                attributes.map_or(Self::Unclear, Self::Object)
            }
            _ => Self::Unclear,
        }
    }

    /// Whether text from the environment is taken as it is, and not as an expression.
    pub fn is_primitive(&self) -> bool {
        matches!(self, Self::Text | Self::Number | Self::Bool)
    }

    /// What the value becomes as one of this type; unknown where the tool refuses it.
    pub fn convert(&self, value: Value) -> Value {
        self.convert_within(value, &mut { VALUES_MAX })
    }

    fn convert_within(&self, value: Value, left: &mut usize) -> Value {
        let Some(rest) = left.checked_sub(1) else { return Value::Unknown };
        *left = rest;
        let text = |value: Value| value.into_text().map_or(Value::Unknown, Value::Text);
        match (self, value) {
            (_, Value::Unknown) | (Self::Unclear, _) => Value::Unknown,
            (_, Value::Null) => Value::Null,
            (Self::Any, value) => value,
            (Self::Text, value) => text(value),
            (Self::Number, Value::Text(text)) => number(&text).map_or(Value::Unknown, Value::Number),
            (Self::Number, value @ Value::Number(_)) => value,
            (Self::Bool, value) => value.into_bool().map_or(Value::Unknown, Value::Bool),
            (Self::List(of), Value::List(list)) => Value::List(of.elements(list, left)),
            (Self::Set(of), Value::List(list)) => {
                functions::set(of.elements(list, left)).map_or(Value::Unknown, Value::List)
            }
            (Self::Map(of), Value::Object(map)) => {
                let (keys, values): (Vec<String>, Vec<Value>) = map.into_iter().unzip();
                Value::Object(keys.into_iter().zip(of.elements(values, left)).collect())
            }
            (Self::Tuple(of), Value::List(list)) if of.len() == list.len() => {
                Value::List(of.iter().zip(list).map(|(of, value)| of.convert_within(value, left)).collect())
            }
            (Self::Object(attributes), Value::Object(mut given)) => {
                let attribute =
                    |(name, of): (&String, &Attribute)| Some((name.clone(), of.convert(given.remove(name), left)?));
                attributes.iter().map(attribute).collect::<Option<_>>().map_or(Value::Unknown, Value::Object)
            }
            (Self::Number | Self::List(_) | Self::Set(_) | Self::Map(_) | Self::Tuple(_) | Self::Object(_), _) => {
                Value::Unknown
            }
        }
    }

    /// Elements of a collection of this type.
    fn elements(&self, list: Vec<Value>, left: &mut usize) -> Vec<Value> {
        let list = list.into_iter().map(|value| self.convert_within(value, left)).collect();
        if *self == Self::Any { functions::of_one_type(list) } else { list }
    }
}

impl Attribute {
    fn of(parsed: &Parsed) -> Self {
        let optional = match parsed {
            Parsed::FuncCall(call) if call.name.name.value().as_str() == "optional" => call.args.iter().collect(),
            _ => Vec::new(),
        };
        match optional.as_slice() {
            [] => Self { kind: Type::of_parsed(parsed), default: None },
            [of] => Self { kind: Type::of_parsed(of), default: Some(Value::Null) },
            [of, default] => Self { kind: Type::of_parsed(of), default: Some(evaluation::constant(default)) },
            [..] => Self { kind: Type::Unclear, default: None },
        }
    }

    /// Nothing when the attribute has to be given and is not.
    fn convert(&self, given: Option<Value>, left: &mut usize) -> Option<Value> {
        let value = match (given, &self.default) {
            (Some(Value::Null) | None, Some(default)) => default.clone(),
            (given, _) => given?,
        };
        Some(self.kind.convert_within(value, left))
    }
}

fn name(key: &ObjectKey) -> Option<String> {
    match key {
        ObjectKey::Ident(name) => Some(name.value().as_str().to_owned()),
        ObjectKey::Expression(Parsed::Variable(name)) => Some(name.value().as_str().to_owned()),
        ObjectKey::Expression(Parsed::String(text)) => Some(text.value().clone()),
        ObjectKey::Expression(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluation::Scope;
    use super::super::value::Expression;
    use super::*;

    fn value(text: &str) -> Value {
        Scope::default().evaluate(&Expression::hcl(text, 1), None).unwrap_or(Value::Unknown)
    }

    fn converted(kind: &str, given: &str) -> Value {
        Type::of(kind).convert(value(given))
    }

    /// `jsonencode` of each variable says the same under Terraform 1.11.
    #[test]
    fn values_become_what_their_type_says() {
        for (kind, given, becomes) in [
            ("list(number)", r#"["01", 2]"#, "[1, 2]"),
            ("list(string)", "[1, true]", r#"["1", "true"]"#),
            ("list", r#"[1, "a"]"#, r#"["1", "a"]"#),
            ("set(string)", r#"["b", "a", "b"]"#, r#"["a", "b"]"#),
            ("set(number)", r#"[10, "2"]"#, "[2, 10]"),
            ("map(bool)", r#"{ a = "true" }"#, "{ a = true }"),
            ("map(any)", r#"{ a = 1, b = "x" }"#, r#"{ a = "1", b = "x" }"#),
            ("tuple([string, number])", r#"[1, "2"]"#, r#"["1", 2]"#),
            ("object({ a = string })", "{ a = 1, more = 2 }", r#"{ a = "1" }"#),
            ("object({ a = optional(string) })", "{}", "{ a = null }"),
            ("object({ a = optional(number, \"3\") })", "{ a = null }", "{ a = 3 }"),
            (
                "list(object({ a = optional(object({ b = optional(bool, true) }), {}) }))",
                "[{}]",
                "[{ a = { b = true } }]",
            ),
            ("list(string)", "null", "null"),
        ] {
            assert_ne!(value(becomes), Value::Unknown, "{becomes} is a value");
            assert_eq!(converted(kind, given), value(becomes), "{kind} of {given}");
        }
    }

    #[test]
    fn what_the_tool_refuses_or_nobody_knows_is_not_known() {
        for (kind, given) in [
            ("list(string)", r#"{ a = "b" }"#),
            ("tuple([string])", "[]"),
            ("object({ a = string })", "{}"),
            ("map(string)", "[1]"),
            ("set(string)", r#""a""#),
            ("number", "[]"),
            ("strange", "1"),
            ("list(", "[]"),
            ("object({ (a) = string })", "{}"),
        ] {
            assert_eq!(converted(kind, given), Value::Unknown, "{kind} of {given}");
        }
    }

    #[test]
    fn a_type_cannot_make_a_value_grow_without_bounds() {
        let attributes: Vec<String> = (0..400).map(|number| format!("a{number} = optional(string, \"x\")\n")).collect();
        let kind = format!("list(object({{ {} }}))", attributes.join(""));
        let given = format!("[{}]", vec!["{}"; 200].join(", "));
        assert!(converted(&kind, &given).weight() <= 3 * VALUES_MAX);
    }
}
