//! What a `${{ … }}` expression is worth in given contexts.
//!
//! Parsing is `github-actions-expressions`'; the values are JSON. Depth is bounded by the parser (50), so evaluating may
//! recurse. Knows nothing of workflows: whoever asks brings the contexts.
//!
//! - `coerce`: GitHub's loose conversions and comparisons.
//! - `functions`: `contains`, `format`, `fromJSON`, …
//! - `template`: text with expressions inside.

pub mod coerce;
mod functions;
pub mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use github_actions_expressions::call::{Call, Function};
use github_actions_expressions::context::Context;
use github_actions_expressions::literal::Literal;
use github_actions_expressions::op::{BinExpr, BinOp};
use github_actions_expressions::{Expr, SpannedExpr};
use serde_json::Value;

use coerce::{compare, is_equal, is_truthy, number, to_number, to_text};

/// Why an expression has no value; names the expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (in `{expression}`)")]
pub struct ExpressionError {
    pub expression: String,
    pub message: String,
}

/// What `success()`, `failure()` and `cancelled()` answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusFacts {
    pub success: bool,
    pub failure: bool,
    pub cancelled: bool,
}

impl StatusFacts {
    /// Nothing failed and nobody cancelled.
    pub const FINE: Self = Self { success: true, failure: false, cancelled: false };
}

/// Everything an expression can see.
#[derive(Debug, Clone, Default)]
pub struct Contexts {
    values: BTreeMap<String, Value>,
    /// Absent where GitHub does not offer the status functions.
    pub status: Option<StatusFacts>,
    /// Absent where GitHub does not offer `hashFiles`.
    pub workspace: Option<PathBuf>,
}

impl Contexts {
    /// Sets one named context, `github`, `inputs`, …
    pub fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    /// The same contexts without some, where GitHub does not offer them.
    pub fn without(mut self, names: &[&str]) -> Self {
        self.values.retain(|name, _| !names.contains(&name.as_str()));
        self
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Evaluates a bare expression, without `${{` and `}}`.
    pub fn evaluate(&self, expression: &str) -> Result<Value, ExpressionError> {
        let error = |message: String| ExpressionError { expression: expression.trim().to_owned(), message };
        let tree = Expr::parse(expression).map_err(|e| error(chain(&e)))?;
        self.value_of(&tree).map_err(error)
    }

    /// Evaluates an `if`, fenced or bare; without a status function in it, `success()` must hold too.
    pub fn condition(&self, text: &str) -> Result<bool, ExpressionError> {
        let pieces = template::split(text)?;
        let (value, asks_status) = match pieces.as_slice() {
            [] => (Value::Bool(true), false),
            [template::Piece::Text(bare)] => (self.evaluate(bare)?, names_status(bare)?),
            [template::Piece::Expression(only)] => (self.evaluate(only)?, names_status(only)?),
            // Text around a fence makes it a `format(…)`, as on GitHub, whose result is almost always true.
            _ => (Value::String(self.text(text)?), false),
        };
        let success = self.status.is_none_or(|status| status.success);
        Ok(is_truthy(&value) && (asks_status || success))
    }

    fn value_of(&self, expr: &SpannedExpr<'_>) -> Result<Value, String> {
        match &expr.inner {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Call(call) => self.call(call),
            Expr::Identifier(name) => self.named(name.as_str()),
            Expr::Context(context) => self.path(context),
            Expr::BinExpr(binary) => self.binary(binary),
            Expr::UnExpr { expr, .. } => Ok(Value::Bool(!is_truthy(&self.value_of(expr)?))),
            Expr::Index(_) | Expr::Star => Err("an index stands alone".to_owned()),
        }
    }

    fn binary(&self, BinExpr { lhs, op, rhs }: &BinExpr<'_>) -> Result<Value, String> {
        let left = self.value_of(lhs)?;
        match op {
            BinOp::And if !is_truthy(&left) => return Ok(left),
            BinOp::Or if is_truthy(&left) => return Ok(left),
            BinOp::And | BinOp::Or => return self.value_of(rhs),
            BinOp::Eq | BinOp::Neq | BinOp::Gt | BinOp::Ge | BinOp::Lt | BinOp::Le => {}
        }
        let right = self.value_of(rhs)?;
        let ordering = compare(&left, &right);
        Ok(Value::Bool(match op {
            BinOp::Eq => is_equal(&left, &right),
            BinOp::Neq => !is_equal(&left, &right),
            BinOp::Gt => ordering.is_some_and(|o| o.is_gt()),
            BinOp::Ge => ordering.is_some_and(|o| o.is_ge()),
            BinOp::Lt => ordering.is_some_and(|o| o.is_lt()),
            BinOp::Le => ordering.is_some_and(|o| o.is_le()),
            BinOp::And | BinOp::Or => unreachable!("answered above"),
        }))
    }

    fn named(&self, name: &str) -> Result<Value, String> {
        self.values
            .get(&name.to_ascii_lowercase())
            .cloned()
            .ok_or_else(|| format!("Unrecognized named-value: '{name}'"))
    }

    fn path(&self, context: &Context<'_>) -> Result<Value, String> {
        let Some((head, rest)) = context.parts.split_first() else { return Ok(Value::Null) };
        let mut value = self.value_of(head)?;
        // After a `*`, an access goes to each element and those without it fall out.
        let mut filtered = false;
        for part in rest {
            let key = match &part.inner {
                Expr::Star => None,
                Expr::Identifier(name) => Some(Value::String(name.as_str().to_owned())),
                Expr::Index(index) if matches!(index.inner, Expr::Star) => None,
                Expr::Index(index) => Some(self.value_of(index)?),
                _ => return Err("an access is neither a name nor an index".to_owned()),
            };
            value = match (key, filtered) {
                (Some(key), false) => access(&value, &key).unwrap_or(Value::Null),
                (Some(key), true) => Value::Array(elements(&value).iter().filter_map(|v| access(v, &key)).collect()),
                (None, false) => Value::Array(elements(&value)),
                (None, true) => Value::Array(elements(&value).iter().flat_map(elements).collect()),
            };
            filtered |= matches!(&part.inner, Expr::Star)
                || matches!(&part.inner, Expr::Index(index) if matches!(index.inner, Expr::Star));
        }
        Ok(value)
    }

    fn call(&self, call: &Call<'_>) -> Result<Value, String> {
        if let Some(answer) = self.status_function(call.func)? {
            return Ok(Value::Bool(answer));
        }
        if call.func == Function::Case {
            return self.case(&call.args);
        }
        let arguments = call.args.iter().map(|arg| self.value_of(arg)).collect::<Result<Vec<_>, _>>()?;
        functions::call(call.func, &arguments, self.workspace.as_deref())
    }

    fn status_function(&self, function: Function) -> Result<Option<bool>, String> {
        let missing = || "Status functions are only valid in `if`".to_owned();
        Ok(match function {
            Function::Always => Some(self.status.map(|_| true).ok_or_else(missing)?),
            Function::Success => Some(self.status.ok_or_else(missing)?.success),
            Function::Failure => Some(self.status.ok_or_else(missing)?.failure),
            Function::Cancelled => Some(self.status.ok_or_else(missing)?.cancelled),
            _ => None,
        })
    }

    fn case(&self, arguments: &[SpannedExpr<'_>]) -> Result<Value, String> {
        let (pairs, default) = arguments.as_chunks::<2>();
        for [predicate, value] in pairs {
            match self.value_of(predicate)? {
                Value::Bool(true) => return self.value_of(value),
                Value::Bool(false) => {}
                other => return Err(format!("case() expects true or false, not '{}'", to_text(&other))),
            }
        }
        default.first().map_or(Ok(Value::Null), |value| self.value_of(value))
    }
}

/// Whether a bare expression can be parsed at all.
pub fn check(expression: &str) -> Result<(), ExpressionError> {
    names_status(expression).map(drop)
}

/// Whether a bare expression calls `success`, `failure`, `cancelled` or `always`.
fn names_status(expression: &str) -> Result<bool, ExpressionError> {
    fn visit(expr: &SpannedExpr<'_>) -> bool {
        match &expr.inner {
            Expr::Call(call) => {
                matches!(call.func, Function::Always | Function::Success | Function::Failure | Function::Cancelled)
                    || call.args.iter().any(visit)
            }
            Expr::Index(inner) => visit(inner),
            Expr::Context(context) => context.parts.iter().any(visit),
            Expr::BinExpr(binary) => visit(&binary.lhs) || visit(&binary.rhs),
            Expr::UnExpr { expr, .. } => visit(expr),
            Expr::Literal(_) | Expr::Star | Expr::Identifier(_) => false,
        }
    }
    Expr::parse(expression)
        .map(|tree| visit(&tree))
        .map_err(|e| ExpressionError { expression: expression.to_owned(), message: chain(&e) })
}

fn literal_value(literal: &Literal<'_>) -> Value {
    match literal {
        Literal::Number(n) => number(*n),
        Literal::String(s) => Value::String(s.clone().into_owned()),
        Literal::Boolean(b) => Value::Bool(*b),
        Literal::Null => Value::Null,
    }
}

fn elements(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::Object(members) => members.values().cloned().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// A member by name, whatever its case, or an element by number.
fn access(value: &Value, key: &Value) -> Option<Value> {
    match value {
        Value::Object(members) => {
            let name = to_text(key);
            members
                .get(&name)
                .or_else(|| members.iter().find(|(k, _)| k.eq_ignore_ascii_case(&name)).map(|(_, v)| v))
                .cloned()
        }
        Value::Array(items) => {
            let index = to_number(key).floor();
            (index >= 0.0 && index < items.len() as f64).then(|| items[index as usize].clone())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// An error with its sources, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}
