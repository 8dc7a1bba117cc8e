//! The tree of a template and the fields of one instance to text.

use super::functions::{Value, too_long};
use super::syntax::{Expr, Node, Pipeline, Program};
use super::{Fields, OUTPUT_BYTES_MAX};

/// Renders a program. Recursion is as deep as the program, which its parser bounds.
pub(super) fn render(program: &Program, fields: &Fields) -> Result<String, String> {
    let variables = vec![Value::Text(String::new()); program.variables];
    let mut renderer = Renderer { fields, variables, out: String::new() };
    renderer.nodes(&program.nodes, &Value::Fields)?;
    Ok(renderer.out)
}

struct Renderer<'f> {
    fields: &'f Fields,
    variables: Vec<Value>,
    out: String,
}

impl Renderer<'_> {
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<(), String> {
        for node in nodes {
            match node {
                Node::Text(text) => self.write(text)?,
                Node::Action(pipeline) => {
                    let value = self.pipeline(pipeline, dot)?;
                    if pipeline.variable.is_none() {
                        self.write(&value.print()?)?;
                    }
                }
                Node::If { condition, yes, no } => {
                    let taken = if self.pipeline(condition, dot)?.is_true() { yes } else { no };
                    self.nodes(taken, dot)?;
                }
                Node::With { value, yes, no } => {
                    let value = self.pipeline(value, dot)?;
                    if value.is_true() { self.nodes(yes, &value)? } else { self.nodes(no, dot)? }
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), String> {
        if self.out.len() + text.len() > OUTPUT_BYTES_MAX {
            return Err(too_long());
        }
        self.out.push_str(text);
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let value = self.value(&pipeline.value, dot)?;
        if let Some(slot) = pipeline.variable {
            self.variables[slot] = value.clone();
        }
        Ok(value)
    }

    fn value(&self, expr: &Expr, dot: &Value) -> Result<Value, String> {
        match expr {
            Expr::Text(text) => Ok(Value::Text(text.clone())),
            Expr::Bool(yes) => Ok(Value::Bool(*yes)),
            Expr::Int(number) => Ok(Value::Int(*number)),
            Expr::Float(number) => Ok(Value::Float(*number)),
            Expr::Dot => Ok(dot.clone()),
            Expr::Root => Ok(Value::Fields),
            Expr::Variable(slot) => Ok(self.variables[*slot].clone()),
            Expr::Field(of, field) => match self.value(of, dot)? {
                Value::Fields => Ok(Value::Text(field.of(self.fields).to_owned())),
                _ => Err(format!(
                    "field .{field:?} of something without fields; inside {{{{ with }}}} write $.{field:?}"
                )),
            },
            Expr::Call(function, arguments) => {
                let values: Result<Vec<Value>, String> = arguments.iter().map(|a| self.value(a, dot)).collect();
                function.call(&values?)
            }
        }
    }
}
