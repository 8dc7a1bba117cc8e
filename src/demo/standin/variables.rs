//! Where the stack's variables get their values, in the real tool's order: later ones win.

use std::collections::BTreeMap;
use std::path::Path;

use hcl_edit::expr::Expression;
use hcl_edit::structure::Body;

use super::configuration::Module;
use super::expression::{Bound, Names};
use super::value::Value;

/// What was handed to one call of the tool.
pub(super) struct Given<'a> {
    pub(super) directory: &'a Path,
    pub(super) environment: &'a BTreeMap<String, String>,
    /// Flags in their order: `var-file` and `var` count, the others are somebody else's.
    pub(super) flags: &'a [(&'a str, &'a str)],
}

impl Given<'_> {
    /// The value of every declared variable.
    pub(super) fn values(&self, module: &Module) -> Result<BTreeMap<String, Value>, String> {
        let mut values = BTreeMap::new();
        for (name, variable) in &module.variables {
            if let Some(default) = &variable.default {
                values.insert(name.clone(), constant(default)?);
            }
        }
        for (name, text) in self.environment.iter().filter_map(|(k, v)| Some((k.strip_prefix("TF_VAR_")?, v))) {
            if let Some(variable) = module.variables.get(name) {
                values.insert(name.to_owned(), from_text(text, variable.kind.as_ref())?);
            }
        }
        for file in self.automatic_files()? {
            // As the real tool: a value for a variable that nobody declared is no error in a file.
            values.extend(self.file(&file)?.into_iter().filter(|(name, _)| module.variables.contains_key(name)));
        }
        for (flag, value) in self.flags {
            match *flag {
                "var-file" => {
                    let read = self.file(value)?;
                    values.extend(read.into_iter().filter(|(name, _)| module.variables.contains_key(name)));
                }
                "var" => {
                    let (name, text) = value.split_once('=').ok_or_else(|| format!("-var {value} has no ="))?;
                    let variable = module.variables.get(name);
                    let variable = variable.ok_or_else(|| format!("Value for undeclared variable {name:?}"))?;
                    values.insert(name.to_owned(), from_text(text, variable.kind.as_ref())?);
                }
                _ => {}
            }
        }
        let missing: Vec<&str> =
            module.variables.keys().map(String::as_str).filter(|name| !values.contains_key(*name)).collect();
        if !missing.is_empty() {
            return Err(format!("No value for required variable: {}", missing.join(", ")));
        }
        Ok(values)
    }

    fn automatic_files(&self) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        let entries = std::fs::read_dir(self.directory).map_err(|error| format!("cannot list the stack: {error}"))?;
        for entry in entries {
            let name = entry.map_err(|error| format!("cannot list the stack: {error}"))?.file_name();
            let name = name.to_string_lossy().into_owned();
            if name.ends_with(".auto.tfvars") || name.ends_with(".auto.tfvars.json") {
                found.push(name);
            }
        }
        found.sort();
        let first = ["terraform.tfvars", "terraform.tfvars.json"].map(str::to_owned);
        let first = first.into_iter().filter(|name| self.directory.join(name).is_file());
        Ok(first.chain(found).collect())
    }

    fn file(&self, name: &str) -> Result<BTreeMap<String, Value>, String> {
        let text = std::fs::read_to_string(self.directory.join(name))
            .map_err(|error| format!("Failed to read variables file {name}: {error}"))?;
        if name.ends_with(".json") {
            let json = serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
            return match Value::from_json(&json) {
                Value::Map(values) => Ok(values),
                _ => Err(format!("{name}: an object is required")),
            };
        }
        let body: Body = text.parse().map_err(|error| format!("{name}: {error}"))?;
        let values = body.attributes().map(|attribute| {
            let value = constant(&attribute.value).map_err(|error| format!("{name}: {error}"))?;
            Ok((attribute.key.as_str().to_owned(), value))
        });
        values.collect()
    }
}

/// A variable from the environment or the command line: text for a text, an expression for anything else.
fn from_text(text: &str, kind: Option<&Expression>) -> Result<Value, String> {
    let is_text = match kind {
        None => true,
        Some(Expression::Variable(name)) => matches!(name.as_str(), "string" | "number" | "bool"),
        Some(_) => false,
    };
    if is_text {
        return Ok(Value::text(text));
    }
    let expression: Expression = text.parse().map_err(|error| format!("{text:?}: {error}"))?;
    constant(&expression)
}

fn constant(expression: &Expression) -> Result<Value, String> {
    struct NoNames;
    impl Names for NoNames {
        fn resolve(&self, name: &str, _: &[&str]) -> Result<(Value, usize), String> {
            Err(format!("Variables not allowed: {name}"))
        }
    }
    Bound { names: &NoNames, variables: BTreeMap::new() }.eval(expression)
}
