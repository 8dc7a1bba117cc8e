//! Evaluating HCL expressions: what the sample needs and a little more; the rest is refused by name.

use std::collections::BTreeMap;

use hcl_edit::Ident;
use hcl_edit::expr::{BinaryOperator, Expression, ForExpr, FuncCall, ObjectKey, TraversalOperator, UnaryOperator};
use hcl_edit::template::Element;
use serde_json::Number;

use super::value::Value;

pub(super) type Evaluated = Result<Value, String>;

/// What names stand for. `path` is what follows the name as plain attributes; the answer says how many it used.
pub(super) trait Names {
    fn resolve(&self, name: &str, path: &[&str]) -> Result<(Value, usize), String>;
}

/// Names plus the variables of `for` expressions, `each` and `count`.
pub(super) struct Bound<'a> {
    pub(super) names: &'a dyn Names,
    pub(super) variables: BTreeMap<String, Value>,
}

impl Bound<'_> {
    fn resolve(&self, name: &str, path: &[&str]) -> Result<(Value, usize), String> {
        match self.variables.get(name) {
            Some(value) => Ok((value.clone(), 0)),
            None => self.names.resolve(name, path),
        }
    }

    fn with(&self, variables: impl IntoIterator<Item = (String, Value)>) -> Bound<'_> {
        let mut all = self.variables.clone();
        all.extend(variables);
        Bound { names: self.names, variables: all }
    }

    /// Evaluates; the parser has bounded the depth.
    pub(super) fn eval(&self, expression: &Expression) -> Evaluated {
        Ok(match expression {
            Expression::Null(_) => Value::Null,
            Expression::Bool(it) => Value::Bool(*it.value()),
            Expression::Number(it) => number(it.value().as_f64().unwrap_or_default()),
            Expression::String(it) => Value::text(it.value().as_str()),
            Expression::Array(items) => {
                Value::List(items.iter().map(|item| self.eval(item)).collect::<Result<_, _>>()?)
            }
            Expression::Object(object) => {
                let mut fields = BTreeMap::new();
                for (key, value) in object.iter() {
                    let key = match key {
                        ObjectKey::Ident(name) => name.as_str().to_owned(),
                        ObjectKey::Expression(key) => text_of(&self.eval(key)?, "an object key")?,
                    };
                    fields.insert(key, self.eval(value.expr())?);
                }
                Value::Map(fields)
            }
            Expression::StringTemplate(template) => self.template(template.iter())?,
            Expression::HeredocTemplate(heredoc) => self.template(heredoc.template.iter())?,
            Expression::Parenthesis(inner) => self.eval(inner.inner())?,
            Expression::Variable(name) => self.resolve(name.as_str(), &[])?.0,
            Expression::Conditional(it) => {
                let (condition, sensitive) = self.eval(&it.cond_expr)?.unmarked();
                let chosen = match condition {
                    Value::Unknown => Value::Unknown,
                    Value::Bool(true) => self.eval(&it.true_expr)?,
                    Value::Bool(false) => self.eval(&it.false_expr)?,
                    other => return Err(format!("a condition must be true or false, not {}", other.to_json())),
                };
                chosen.marked(sensitive)
            }
            Expression::FuncCall(call) => self.call(call)?,
            Expression::Traversal(it) => self.traverse(&it.expr, &it.operators)?,
            Expression::UnaryOp(it) => {
                let (operand, sensitive) = self.eval(&it.expr)?.unmarked();
                match (it.operator.value(), operand) {
                    (_, Value::Unknown) => Value::Unknown,
                    (UnaryOperator::Not, Value::Bool(it)) => Value::Bool(!it),
                    (UnaryOperator::Neg, Value::Number(it)) => number(-it.as_f64().unwrap_or_default()),
                    (operator, other) => return Err(format!("{operator} cannot take {}", other.to_json())),
                }
                .marked(sensitive)
            }
            Expression::BinaryOp(it) => {
                let (left, marked_left) = self.eval(&it.lhs_expr)?.unmarked();
                let (right, marked_right) = self.eval(&it.rhs_expr)?.unmarked();
                binary(*it.operator.value(), &left, &right)?.marked(marked_left || marked_right)
            }
            Expression::ForExpr(it) => self.for_each(it)?,
        })
    }

    fn template<'e>(&self, elements: impl Iterator<Item = &'e Element>) -> Evaluated {
        let mut text = String::new();
        let (mut known, mut sensitive) = (true, false);
        for element in elements {
            match element {
                Element::Literal(literal) => text.push_str(literal),
                Element::Interpolation(it) => {
                    let (value, marked) = self.eval(&it.expr)?.unmarked();
                    sensitive |= marked;
                    match value {
                        Value::Unknown => known = false,
                        value => text.push_str(&text_of(&value, "an interpolation")?),
                    }
                }
                Element::Directive(_) => return Err("template directives (%{ … }) are not played here".to_owned()),
            }
        }
        Ok(if known { Value::String(text) } else { Value::Unknown }.marked(sensitive))
    }

    fn traverse(&self, start: &Expression, operators: &[hcl_edit::Decorated<TraversalOperator>]) -> Evaluated {
        let (mut value, used) = match start {
            Expression::Variable(name) => {
                let path: Vec<&str> = operators.iter().map_while(|it| attribute(it)).collect();
                self.resolve(name.as_str(), &path)?
            }
            other => (self.eval(other)?, 0),
        };
        for operator in &operators[used..] {
            let (inner, sensitive) = value.unmarked();
            value = match operator.value() {
                TraversalOperator::GetAttr(name) => index(inner, &Value::text(name.as_str()))?,
                TraversalOperator::Index(key) => index(inner, &self.eval(key)?.plain())?,
                TraversalOperator::LegacyIndex(_)
                | TraversalOperator::AttrSplat(_)
                | TraversalOperator::FullSplat(_) => {
                    return Err("splats and legacy indexes are not played here; write a for expression".to_owned());
                }
            }
            .marked(sensitive);
        }
        Ok(value)
    }

    fn for_each(&self, it: &ForExpr) -> Evaluated {
        let (collection, sensitive) = self.eval(&it.intro.collection_expr)?.unmarked();
        let entries: Vec<(Value, Value)> = match collection {
            Value::Unknown => return Ok(Value::Unknown.marked(sensitive)),
            Value::Map(fields) => fields.into_iter().map(|(key, value)| (Value::String(key), value)).collect(),
            Value::List(items) => (0_u64..).map(|n| Value::Number(n.into())).zip(items).collect(),
            other => return Err(format!("for cannot walk {}", other.to_json())),
        };
        if it.grouping {
            return Err("grouping in for expressions (…) is not played here".to_owned());
        }
        let (mut list, mut map) = (Vec::new(), BTreeMap::new());
        for (key, value) in entries {
            let mut variables = vec![(it.intro.value_var.as_str().to_owned(), value)];
            if let Some(name) = &it.intro.key_var {
                variables.push((name.as_str().to_owned(), key));
            }
            let scope = self.with(variables);
            if let Some(condition) = &it.cond {
                match scope.eval(&condition.expr)?.plain() {
                    Value::Bool(true) => {}
                    Value::Bool(false) => continue,
                    other => return Err(format!("an if of a for must be true or false, not {}", other.to_json())),
                }
            }
            let value = scope.eval(&it.value_expr)?;
            match &it.key_expr {
                Some(key) => drop(map.insert(text_of(&scope.eval(key)?.plain(), "a key of a for")?, value)),
                None => list.push(value),
            }
        }
        let result = if it.key_expr.is_some() { Value::Map(map) } else { Value::List(list) };
        Ok(result.marked(sensitive))
    }

    fn call(&self, call: &FuncCall) -> Evaluated {
        let name = call.name.name.as_str();
        let arguments: Vec<Value> = call.args.iter().map(|it| self.eval(it)).collect::<Result<_, _>>()?;
        let sensitive = arguments.iter().any(Value::is_sensitive);
        let arguments: Vec<Value> = arguments.iter().map(Value::plain).collect();
        if arguments.contains(&Value::Unknown) {
            return Ok(Value::Unknown.marked(sensitive));
        }
        Ok(function(name, &arguments)?.marked(sensitive))
    }
}

fn attribute(operator: &TraversalOperator) -> Option<&str> {
    match operator {
        TraversalOperator::GetAttr(name) => Some(Ident::as_str(name)),
        TraversalOperator::Index(_)
        | TraversalOperator::LegacyIndex(_)
        | TraversalOperator::AttrSplat(_)
        | TraversalOperator::FullSplat(_) => None,
    }
}

fn index(value: Value, key: &Value) -> Evaluated {
    match (value, key) {
        (Value::Unknown, _) | (_, Value::Unknown) => Ok(Value::Unknown),
        (Value::Map(mut fields), Value::String(key)) => {
            fields.remove(key).ok_or_else(|| format!("This object does not have an attribute named {key:?}."))
        }
        (Value::List(items), Value::Number(at)) => {
            let at = at.as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
            items.into_iter().nth(at).ok_or_else(|| "The given index is outside the list.".to_owned())
        }
        (value, key) => Err(format!("{} has no element {}", value.to_json(), key.to_json())),
    }
}

fn binary(operator: BinaryOperator, left: &Value, right: &Value) -> Evaluated {
    use BinaryOperator as Op;
    if matches!((left, right), (Value::Unknown, _) | (_, Value::Unknown)) {
        return Ok(Value::Unknown);
    }
    let numbers = match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64().zip(right.as_f64()),
        _ => None,
    };
    Ok(match (operator, left, right, numbers) {
        (Op::Eq, ..) => Value::Bool(left.plain() == right.plain()),
        (Op::NotEq, ..) => Value::Bool(left.plain() != right.plain()),
        (Op::And, Value::Bool(left), Value::Bool(right), _) => Value::Bool(*left && *right),
        (Op::Or, Value::Bool(left), Value::Bool(right), _) => Value::Bool(*left || *right),
        (Op::Less, _, _, Some((left, right))) => Value::Bool(left < right),
        (Op::LessEq, _, _, Some((left, right))) => Value::Bool(left <= right),
        (Op::Greater, _, _, Some((left, right))) => Value::Bool(left > right),
        (Op::GreaterEq, _, _, Some((left, right))) => Value::Bool(left >= right),
        (Op::Plus, _, _, Some((left, right))) => number(left + right),
        (Op::Minus, _, _, Some((left, right))) => number(left - right),
        (Op::Mul, _, _, Some((left, right))) => number(left * right),
        (Op::Div, _, _, Some((left, right))) if right != 0.0 => number(left / right),
        (Op::Mod, _, _, Some((left, right))) if right != 0.0 => number(left % right),
        _ => return Err(format!("{} {operator} {} has no answer", left.to_json(), right.to_json())),
    })
}

/// Whole numbers stay whole, so that they compare equal after a trip through a state file.
fn number(value: f64) -> Value {
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 53 bits, as checked above")]
        return Value::Number((value as i64).into());
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

pub(super) fn text_of(value: &Value, what: &str) -> Result<String, String> {
    value.plain().as_text().ok_or_else(|| format!("{what} must be a text, not {}", value.to_json()))
}

fn function(name: &str, arguments: &[Value]) -> Evaluated {
    Ok(match (name, arguments) {
        ("length", [Value::List(items)]) => Value::Number(items.len().into()),
        ("length", [Value::Map(fields)]) => Value::Number(fields.len().into()),
        ("length", [Value::String(text)]) => Value::Number(text.chars().count().into()),
        ("keys", [Value::Map(fields)]) => Value::List(fields.keys().map(Value::text).collect()),
        ("values", [Value::Map(fields)]) => Value::List(fields.values().cloned().collect()),
        ("upper", [Value::String(text)]) => Value::String(text.to_uppercase()),
        ("lower", [Value::String(text)]) => Value::String(text.to_lowercase()),
        ("tolist" | "toset" | "tomap", [collection]) => collection.clone(),
        ("tostring", [value]) => Value::String(text_of(value, "the argument of tostring")?),
        ("jsonencode", [value]) => Value::String(value.to_json().to_string()),
        ("join", [Value::String(separator), Value::List(items)]) => {
            let texts: Result<Vec<_>, _> = items.iter().map(|item| text_of(item, "an element of join")).collect();
            Value::String(texts?.join(separator))
        }
        ("concat", lists) => {
            let mut all = Vec::new();
            for list in lists {
                match list {
                    Value::List(items) => all.extend(items.iter().cloned()),
                    other => return Err(format!("concat cannot take {}", other.to_json())),
                }
            }
            Value::List(all)
        }
        ("merge", maps) => {
            let mut all = BTreeMap::new();
            for map in maps {
                match map {
                    Value::Map(fields) => all.extend(fields.clone()),
                    other => return Err(format!("merge cannot take {}", other.to_json())),
                }
            }
            Value::Map(all)
        }
        _ => return Err(format!("the function {name} with {} arguments is not played here", arguments.len())),
    })
}
