//! What an expression says before anything runs (spec 11 §17).
//!
//! Evaluation is total, bounded and never a guess: a value is what the tool would compute, or it is unknown with the
//! reason. What this module does not know, of the language as of the world, makes a value unknown.

pub(super) mod functions;
mod parse;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hcl_edit::expr::{BinaryOp, BinaryOperator, Expression as Parsed, FuncCall, ObjectKey, Traversal};
use hcl_edit::expr::{TraversalOperator, UnaryOp, UnaryOperator};
use hcl_edit::template::{Element, Strip};

use super::value::{Expression, Text, Value, number};
use parse::TOO_LARGE;

/// The names that expressions of one directory may use, for one way of calling it.
#[derive(Debug, Default)]
pub struct Scope {
    /// Of every declared variable.
    pub variables: BTreeMap<String, Value>,
    pub locals: Rc<BTreeMap<String, Expression>>,
    pub workspace: Option<String>,
    /// What `path.module` says. Only who looks for files knows it: the tool runs in the directory of the stack, so that
    /// `path.root` and `path.cwd` are that directory, and every relative path begins there.
    module: Option<String>,
    /// False where nothing but constants may stand, as in a file of values.
    has_functions: bool,
    found: RefCell<BTreeMap<String, (Value, Option<String>)>>,
    spent: Spent,
}

/// The element of a `for_each` that a block is read for.
#[derive(Debug, Clone, PartialEq)]
pub struct Each {
    pub key: Value,
    pub value: Value,
}

#[derive(Debug, Default)]
struct Spent {
    steps: Cell<usize>,
    bytes: Cell<usize>,
}

/// Text parsed for one scope, and expressions and values touched: room for hundreds of locals.
const PARSED_BYTES_MAX: usize = 256 * 1024;
const STEPS_MAX: usize = 50_000;
/// Expressions and locals that may stand in each other.
const DEPTH_MAX: usize = 64;
/// Longest text, and most values in one collection.
const TEXT_BYTES_MAX: usize = 16 * 1024;
const WEIGHT_MAX: usize = 4_096;

impl Scope {
    pub fn new(
        variables: BTreeMap<String, Value>,
        locals: Rc<BTreeMap<String, Expression>>,
        workspace: Option<String>,
    ) -> Self {
        Self { variables, locals, workspace, has_functions: true, ..Self::default() }
    }

    /// The value, or why it is not known before the tool runs. Parts of a collection may still be unknown.
    pub fn evaluate(&self, expression: &Expression, each: Option<&Each>) -> Result<Value, String> {
        if let Some(value) = expression.literal() {
            return Ok(value);
        }
        let mut evaluation = Evaluation::of(self, each);
        match evaluation.expression(expression) {
            Value::Unknown => Err(evaluation.reason.unwrap_or_else(|| "it cannot be worked out".to_owned())),
            value => Ok(value),
        }
    }

    /// The same names for expressions that say which file they read; `module` is where the module is, from the stack.
    pub fn of_paths(&self, module: &str) -> Self {
        Self {
            variables: self.variables.clone(),
            locals: self.locals.clone(),
            workspace: self.workspace.clone(),
            module: Some(module.to_owned()),
            has_functions: true,
            ..Self::default()
        }
    }

    /// What a template begins with, as far as that is known.
    pub fn start(&self, expression: &Expression) -> String {
        let mut evaluation = Evaluation::of(self, None);
        match &expression.text {
            Text::Hcl(text) if evaluation.afford(1, text.len()) => match parse::expression(text) {
                Ok(Parsed::StringTemplate(template)) => evaluation.start(template.iter()),
                Ok(_) | Err(_) => String::new(),
            },
            Text::Hcl(_) | Text::Json(_) => String::new(),
        }
    }

    /// As [`Self::evaluate`], for what has to be text; `None` for null.
    pub fn text(&self, expression: &Expression, each: Option<&Each>) -> Result<Option<String>, String> {
        match self.evaluate(expression, each)? {
            Value::Null => Ok(None),
            value => value.into_text().map(Some).ok_or_else(|| "it is not text".to_owned()),
        }
    }
}

/// An expression that is only looked at, such as a type; nothing when it cannot be read.
pub(super) fn parse(text: &str) -> Option<Parsed> {
    parse::expression(text).ok()
}

/// The value of an expression that may use no name and no function.
pub(super) fn constant(parsed: &Parsed) -> Value {
    Evaluation::of(&Scope::default(), None).parsed(parsed)
}

struct Evaluation<'s> {
    scope: &'s Scope,
    each: Option<&'s Each>,
    depth: usize,
    /// Locals that are being worked out.
    open: BTreeSet<String>,
    /// The first thing that was not known.
    reason: Option<String>,
}

impl<'s> Evaluation<'s> {
    fn of(scope: &'s Scope, each: Option<&'s Each>) -> Self {
        Self { scope, each, depth: 0, open: BTreeSet::new(), reason: None }
    }

    fn unknown(&mut self, reason: impl Into<String>) -> Value {
        self.reason.get_or_insert_with(|| reason.into());
        Value::Unknown
    }

    /// Takes what a piece of work costs; false once nothing is left.
    fn afford(&self, steps: usize, bytes: usize) -> bool {
        let spent = &self.scope.spent;
        spent.steps.set(spent.steps.get().saturating_add(steps));
        spent.bytes.set(spent.bytes.get().saturating_add(bytes));
        spent.steps.get() <= STEPS_MAX && spent.bytes.get() <= PARSED_BYTES_MAX
    }

    fn expression(&mut self, expression: &Expression) -> Value {
        if let Some(value) = expression.literal() {
            return value;
        }
        match &expression.text {
            Text::Hcl(text) => self.hcl(text),
            Text::Json(value) => self.json(value),
        }
    }

    fn hcl(&mut self, text: &str) -> Value {
        if !self.afford(1, text.len()) {
            return self.unknown(TOO_LARGE);
        }
        match parse::expression(text) {
            Ok(parsed) => self.parsed(&parsed),
            Err(reason) => self.unknown(reason),
        }
    }

    fn json(&mut self, value: &serde_json::Value) -> Value {
        if self.depth >= DEPTH_MAX {
            return self.unknown(TOO_LARGE);
        }
        self.depth += 1;
        let value = self.json_node(value);
        self.depth -= 1;
        value
    }

    fn json_node(&mut self, value: &serde_json::Value) -> Value {
        use serde_json::Value as Json;
        match value {
            Json::Null => Value::Null,
            Json::Bool(yes) => Value::Bool(*yes),
            Json::Number(given) => match number(&given.to_string()) {
                Some(number) => Value::Number(number),
                None => self.unknown("a number is too large"),
            },
            Json::String(text) => self.json_text(text),
            Json::Array(list) if list.len() <= WEIGHT_MAX && self.afford(list.len(), 0) => {
                Value::List(list.iter().map(|value| self.json(value)).collect())
            }
            Json::Object(map) if map.len() <= WEIGHT_MAX && self.afford(map.len(), 0) => {
                let members = map.iter().filter(|(name, _)| *name != "//");
                Value::Object(members.map(|(name, value)| (name.clone(), self.json(value))).collect())
            }
            Json::Array(_) | Json::Object(_) => self.unknown("a collection is too large to be evaluated"),
        }
    }

    /// Strings of the JSON syntax are templates.
    fn json_text(&mut self, text: &str) -> Value {
        if !text.contains("${") && !text.contains("%{") {
            return Value::text(text);
        }
        if !self.afford(1, text.len()) {
            return self.unknown(TOO_LARGE);
        }
        match parse::template(text) {
            Ok(template) => self.template(template.iter()),
            Err(reason) => self.unknown(reason),
        }
    }

    fn parsed(&mut self, parsed: &Parsed) -> Value {
        if self.depth >= DEPTH_MAX || !self.afford(1, 0) {
            return self.unknown(TOO_LARGE);
        }
        self.depth += 1;
        let value = self.node(parsed);
        self.depth -= 1;
        value
    }

    fn node(&mut self, parsed: &Parsed) -> Value {
        match parsed {
            Parsed::Null(_) => Value::Null,
            Parsed::Bool(yes) => Value::Bool(*yes.value()),
            Parsed::Number(given) => match number(&given.value().to_string()) {
                // Beyond that a float no longer holds every digit that was written.
                Some(number) if number.len() <= 15 => Value::Number(number),
                Some(_) | None => self.unknown("a number has too many digits"),
            },
            Parsed::String(text) => Value::Text(text.value().clone()),
            Parsed::StringTemplate(template) => self.template(template.iter()),
            Parsed::HeredocTemplate(heredoc) => self.template(heredoc.template.iter()),
            Parsed::Array(array) => self.array(array.iter()),
            Parsed::Object(object) => self.object(object.iter().map(|(key, value)| (key, value.expr()))),
            Parsed::Parenthesis(inner) => self.parsed(inner.inner()),
            Parsed::Conditional(choice) => match self.parsed(&choice.cond_expr).into_bool() {
                Some(true) => self.parsed(&choice.true_expr),
                Some(false) => self.parsed(&choice.false_expr),
                None => self.unknown("a condition is not known"),
            },
            Parsed::Traversal(traversal) => self.traversal(traversal),
            Parsed::UnaryOp(operation) => self.unary(operation),
            Parsed::BinaryOp(operation) => self.binary(operation),
            Parsed::FuncCall(call) => self.call(call),
            Parsed::Variable(name) => self.unknown(format!("{} has no known value", name.value().as_str())),
            Parsed::ForExpr(_) => self.unknown("for expressions are not evaluated"),
        }
    }

    fn array<'a>(&mut self, elements: impl Iterator<Item = &'a Parsed>) -> Value {
        let list = Value::List(elements.map(|element| self.parsed(element)).collect());
        self.light(list)
    }

    fn object<'a>(&mut self, entries: impl Iterator<Item = (&'a ObjectKey, &'a Parsed)>) -> Value {
        let mut object = BTreeMap::new();
        for (key, value) in entries {
            let key = match key {
                ObjectKey::Ident(name) => name.value().as_str().to_owned(),
                ObjectKey::Expression(expression) => match self.parsed(expression).into_text() {
                    Some(key) => key,
                    None => return self.unknown("a key of an object is not known"),
                },
            };
            let value = self.parsed(value);
            object.insert(key, value);
        }
        self.light(Value::Object(object))
    }

    /// Lets no value grow without bounds, however often it is put into others.
    fn light(&mut self, value: Value) -> Value {
        let weight = value.weight();
        if weight > WEIGHT_MAX || !self.afford(weight, 0) {
            return self.unknown("a value is too large to be evaluated");
        }
        value
    }

    /// A template of one interpolation has the type of what stands in it.
    fn template<'a>(&mut self, elements: impl Iterator<Item = &'a Element>) -> Value {
        let elements: Vec<&Element> = elements.collect();
        if let [Element::Interpolation(only)] = elements.as_slice() {
            return self.parsed(&only.expr);
        }
        let mut text = String::new();
        for element in elements {
            match element {
                Element::Literal(literal) => text.push_str(literal.value()),
                Element::Interpolation(part) if part.strip == Strip::None => {
                    match self.parsed(&part.expr).into_text() {
                        Some(part) => text.push_str(&part),
                        None => return self.unknown("a part of a template is not known"),
                    }
                }
                Element::Interpolation(_) | Element::Directive(_) => {
                    return self.unknown("template directives are not evaluated");
                }
            }
            if text.len() > TEXT_BYTES_MAX {
                return self.unknown("a text is too long to be evaluated");
            }
        }
        self.light(Value::Text(text))
    }

    /// The parts of a template in front of the first that is not known.
    fn start<'a>(&mut self, elements: impl Iterator<Item = &'a Element>) -> String {
        let mut text = String::new();
        for element in elements {
            let part = match element {
                Element::Literal(literal) => Some(literal.value().to_string()),
                Element::Interpolation(part) => self.parsed(&part.expr).into_text(),
                Element::Directive(_) => None,
            };
            match part {
                Some(part) if text.len() + part.len() <= TEXT_BYTES_MAX => text.push_str(&part),
                Some(_) | None => break,
            }
        }
        text
    }

    fn traversal(&mut self, traversal: &Traversal) -> Value {
        let mut operators = traversal.operators.iter().map(|operator| operator.value());
        let mut value = match &traversal.expr {
            Parsed::Variable(root) => {
                let root = root.value().as_str();
                match operators.next() {
                    Some(TraversalOperator::GetAttr(name)) => self.named(root, name.value().as_str()),
                    _ => self.unknown(format!("{root} has no known value")),
                }
            }
            other => self.parsed(other),
        };
        for operator in operators {
            if value == Value::Unknown {
                return self.unknown("it cannot be worked out");
            }
            let index = match operator {
                TraversalOperator::GetAttr(name) => Value::text(name.value().as_str()),
                TraversalOperator::Index(index) => self.parsed(index),
                TraversalOperator::LegacyIndex(index) => Value::Number(index.value().to_string()),
                TraversalOperator::AttrSplat(_) | TraversalOperator::FullSplat(_) => {
                    return self.unknown("splat expressions are not evaluated");
                }
            };
            value = match functions::element(value, index.clone()) {
                Some(value) => value,
                None => self.unknown(format!("there is no known element {}", index.into_text().unwrap_or_default())),
            };
        }
        if value == Value::Unknown { self.unknown("it cannot be worked out") } else { value }
    }

    fn named(&mut self, root: &str, name: &str) -> Value {
        let value = match (root, name) {
            ("var", _) => self.scope.variables.get(name).cloned(),
            ("local", _) => Some(self.local(name)),
            ("terraform" | "tofu", "workspace") => self.scope.workspace.clone().map(Value::Text),
            ("path", "module") => self.scope.module.clone().map(Value::Text),
            ("path", "root" | "cwd") => self.scope.module.is_some().then(|| Value::text(".")),
            ("each", "key") => self.each.map(|each| each.key.clone()),
            ("each", "value") => self.each.map(|each| each.value.clone()),
            ("data" | "module" | "path" | "self" | "count" | "each" | "terraform" | "tofu", _) => None,
            _ => return self.unknown(format!("{root}.{name} is known only when the tool runs")),
        };
        match value {
            None | Some(Value::Unknown) => self.unknown(format!("{root}.{name} has no known value")),
            Some(value) => self.light(value),
        }
    }

    fn local(&mut self, name: &str) -> Value {
        if let Some((value, reason)) = self.scope.found.borrow().get(name) {
            if self.reason.is_none() && *value == Value::Unknown {
                self.reason.clone_from(reason);
            }
            return value.clone();
        }
        let Some(expression) = self.scope.locals.get(name) else {
            return self.unknown(format!("local.{name} is not declared"));
        };
        if !self.open.insert(name.to_owned()) {
            return self.unknown(format!("local.{name} is made of itself"));
        }
        if self.depth >= DEPTH_MAX {
            return self.unknown("locals are made of each other too deeply");
        }
        self.depth += 1;
        let (each, reason) = (self.each.take(), self.reason.take());
        let value = self.expression(expression);
        let value = self.light(value);
        let why = self.reason.take();
        self.scope.found.borrow_mut().insert(name.to_owned(), (value.clone(), why.clone()));
        self.reason = reason.or(why);
        self.each = each;
        self.depth -= 1;
        self.open.remove(name);
        value
    }

    fn unary(&mut self, operation: &UnaryOp) -> Value {
        match operation.operator.value() {
            UnaryOperator::Not => match self.parsed(&operation.expr).into_bool() {
                Some(yes) => Value::Bool(!yes),
                None => self.unknown("a condition is not known"),
            },
            UnaryOperator::Neg => self.unknown("arithmetic is not evaluated"),
        }
    }

    fn binary(&mut self, operation: &BinaryOp) -> Value {
        let operator = *operation.operator.value();
        let (left, right) = (self.parsed(&operation.lhs_expr), self.parsed(&operation.rhs_expr));
        let result = match operator {
            BinaryOperator::Eq => functions::equal(&left, &right),
            BinaryOperator::NotEq => functions::equal(&left, &right).map(|equal| !equal),
            BinaryOperator::And => left.into_bool().zip(right.into_bool()).map(|(left, right)| left && right),
            BinaryOperator::Or => left.into_bool().zip(right.into_bool()).map(|(left, right)| left || right),
            _ => return self.unknown("arithmetic is not evaluated"),
        };
        result.map_or_else(|| self.unknown("a comparison is not known"), Value::Bool)
    }

    fn call(&mut self, call: &FuncCall) -> Value {
        let name = call.name.name.value().as_str();
        if !self.scope.has_functions || call.name.is_namespaced() || call.args.expand_final() {
            return self.unknown(format!("function {name} is not evaluated"));
        }
        let arguments = call.args.iter().map(|argument| self.parsed(argument)).collect();
        match functions::call(name, arguments) {
            Some(value) if value.weight() <= WEIGHT_MAX => self.light(value),
            Some(_) | None => self.unknown(format!("the result of function {name} is not known")),
        }
    }
}

#[cfg(test)]
mod tests;
