//! The names that a directory declares for its expressions: variables, locals, and what its module calls pass on.
//!
//! Most scans need none of them, so they are read only where some expression is not a literal.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::directory::is_override;
use super::evaluation::Scope;
use super::hcl::{self, Block};
use super::json;
use super::terraform_file::{FILE_BYTES_MAX, decoded, each, members};
use super::types::Type;
use super::value::{Expression, Text, Value};

/// The declarations of one directory, overrides applied.
#[derive(Debug, Default)]
pub struct Declarations {
    pub variables: BTreeMap<String, Variable>,
    pub locals: Rc<BTreeMap<String, Expression>>,
    /// By the name of the module call.
    pub arguments: BTreeMap<String, BTreeMap<String, Expression>>,
}

/// `variable "<name>" { … }`.
#[derive(Debug, Clone, Default)]
pub struct Variable {
    kind: Option<Type>,
    default: Option<Expression>,
    is_nullable: Option<bool>,
}

impl Variable {
    /// The value that the variable has when the caller gives `given`.
    pub fn value(&self, given: Option<Value>) -> Value {
        let default = || match &self.default {
            None => Value::Unknown,
            Some(expression) => self.convert(Scope::default().evaluate(expression, None).unwrap_or(Value::Unknown)),
        };
        match given {
            None => default(),
            Some(Value::Null) if self.is_nullable == Some(false) => default(),
            Some(value) => self.convert(value),
        }
    }

    /// The value that text from the environment stands for.
    pub fn environment_value(&self, text: &str) -> Value {
        if self.kind.as_ref().is_none_or(Type::is_primitive) {
            return Value::text(text);
        }
        Scope::default().evaluate(&Expression::hcl(text.trim(), 1), None).unwrap_or(Value::Unknown)
    }

    fn convert(&self, value: Value) -> Value {
        match &self.kind {
            Some(kind) => kind.convert(value),
            None => value,
        }
    }

    fn lay_over(&mut self, other: Self) {
        self.kind = other.kind.or(self.kind.take());
        self.default = other.default.or(self.default.take());
        self.is_nullable = other.is_nullable.or(self.is_nullable);
    }

    fn of(mut attribute: impl FnMut(&str) -> Option<Expression>) -> Self {
        Self {
            kind: attribute("type").map(|kind| match &kind.text {
                Text::Hcl(text) => Type::of(text),
                Text::Json(value) => value.as_str().map_or(Type::Unclear, Type::of),
            }),
            default: attribute("default"),
            is_nullable: attribute("nullable").and_then(|yes| yes.literal()?.into_bool()),
        }
    }
}

/// Reads the files of one directory, given in name order with their content.
pub fn read<'a>(files: impl Iterator<Item = (&'a str, Vec<u8>)>) -> Declarations {
    let (overrides, base): (Vec<_>, Vec<_>) = files.partition(|(path, _)| is_override(path));
    let mut reading = Reading::default();
    for (path, bytes) in base.iter().chain(&overrides) {
        // What could not be read is a warning of the file already.
        if bytes.len() > FILE_BYTES_MAX {
            continue;
        }
        let (text, _) = decoded(bytes);
        if !path.ends_with(".json") {
            hcl::split(&text, 1).blocks.iter().for_each(|block| reading.block(block));
        } else if let Ok(root) = json::read(&text).map(|root| root.to_value()) {
            each(&root).for_each(|root| reading.json(root));
        }
    }
    Declarations { variables: reading.variables, locals: Rc::new(reading.locals), arguments: reading.arguments }
}

#[derive(Default)]
struct Reading {
    variables: BTreeMap<String, Variable>,
    locals: BTreeMap<String, Expression>,
    arguments: BTreeMap<String, BTreeMap<String, Expression>>,
}

impl Reading {
    fn block(&mut self, block: &Block<'_>) {
        let body = || hcl::split_block(block);
        let expression = |found: &hcl::Attribute<'_>| Expression::hcl(found.value, found.line);
        match (block.kind, block.labels.as_slice()) {
            ("variable", [name]) => {
                let body = body();
                self.variable(name, Variable::of(|name| body.attribute(name).map(expression)));
            }
            ("locals", []) => {
                let body = body();
                let attributes = body.attributes.iter();
                self.locals.extend(attributes.map(|found| (found.name.to_owned(), expression(found))));
            }
            ("module", [name]) => {
                let body = body();
                let attributes = body.attributes.iter();
                let arguments = self.arguments.entry(name.to_string()).or_default();
                arguments.extend(attributes.map(|found| (found.name.to_owned(), expression(found))));
            }
            _ => {}
        }
    }

    fn json(&mut self, root: &Json) {
        let kinds = |kind: &str| root.get(kind).into_iter().flat_map(each).flat_map(members);
        for (name, body) in kinds("variable") {
            let variable = |body: &Json| Variable::of(|name| body.get(name).map(|value| Expression::json(value, 1)));
            each(body).map(variable).for_each(|variable| self.variable(name, variable));
        }
        self.locals.extend(kinds("locals").map(|(name, value)| (name.to_owned(), Expression::json(value, 1))));
        for (name, body) in kinds("module") {
            let arguments = self.arguments.entry(name.to_owned()).or_default();
            let given = each(body).flat_map(members);
            arguments.extend(given.map(|(name, value)| (name.to_owned(), Expression::json(value, 1))));
        }
    }

    fn variable(&mut self, name: &str, variable: Variable) {
        self.variables.entry(name.to_owned()).or_default().lay_over(variable);
    }
}
