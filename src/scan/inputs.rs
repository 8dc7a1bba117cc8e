//! The values that one instance of a stack gives to its variables (spec 11 §17), in the order in which the tool takes
//! them: the environment, the files that it loads by itself, then the var files of the configuration.

use std::collections::BTreeMap;

use super::declarations::Declarations;
use super::evaluation::Scope;
use super::reader::Reader;
use super::terraform_file;
use super::value::{Text, Value, number};
use crate::config::model::{EnvValue, Tool};

/// What the values of an instance come from.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    pub path: String,
    pub tool: Tool,
    /// Empty for the default workspace.
    pub workspace: String,
    /// Repository relative, later ones win; `None` for one outside the repository.
    pub var_files: Vec<Option<String>>,
    pub env: BTreeMap<String, EnvValue>,
}

impl Inputs {
    /// The scope of the stack's own directory.
    pub fn scope(&self, reader: &Reader<'_>) -> Scope {
        let declarations = reader.declarations(&self.path, self.tool);
        let mut given = self.given_by_environment(&declarations);
        let automatic = automatic_files(reader, &self.path).into_iter().map(Some);
        for file in automatic.chain(self.var_files.iter().cloned()) {
            match file.and_then(|file| values(reader, &file)) {
                Some(values) => given.extend(values),
                // It may set anything, so nothing that came before is known any more.
                None => given = declarations.variables.keys().map(|name| (name.clone(), Value::Unknown)).collect(),
            }
        }
        let variables = declarations.variables.iter();
        let variables = variables.map(|(name, variable)| (name.clone(), variable.value(given.remove(name)))).collect();
        let workspace = if self.workspace.is_empty() { "default" } else { &self.workspace };
        Scope::new(variables, declarations.locals.clone(), Some(workspace.to_owned()))
    }

    fn given_by_environment(&self, declarations: &Declarations) -> BTreeMap<String, Value> {
        let value = |(name, value): (&String, &EnvValue)| {
            let name = name.strip_prefix("TF_VAR_")?;
            let variable = declarations.variables.get(name)?;
            let value = match value {
                EnvValue::Every(text) => variable.environment_value(text),
                EnvValue::PerMode { .. } => Value::Unknown,
            };
            Some((name.to_owned(), value))
        };
        self.env.iter().filter_map(value).collect()
    }
}

/// The files of values that the tool loads without being told, in its order.
fn automatic_files(reader: &Reader<'_>, directory: &str) -> Vec<String> {
    let is_automatic = |name: &&str| name.ends_with(".auto.tfvars") || name.ends_with(".auto.tfvars.json");
    let own = reader.tree.below(directory).filter(|name| !name.contains('/'));
    let first = ["terraform.tfvars", "terraform.tfvars.json"].into_iter();
    let first = first.filter(|name| reader.tree.kind(&format!("{directory}/{name}")).is_some());
    first.chain(own.filter(is_automatic)).map(|name| format!("{directory}/{name}")).collect()
}

/// The values of a file; `None` when it cannot be read as a whole.
fn values(reader: &Reader<'_>, file: &str) -> Option<Vec<(String, Value)>> {
    let (attributes, warnings) = terraform_file::read_attributes(file, &reader.read(file).ok()?);
    if !warnings.is_empty() {
        return None;
    }
    let constants = Scope::default();
    let value = |text: &Text, expression| match text {
        // Strings of a file of values are no templates.
        Text::Json(value) => json_constant(value),
        Text::Hcl(_) => constants.evaluate(expression, None).unwrap_or(Value::Unknown),
    };
    Some(attributes.iter().map(|(name, expression)| (name.clone(), value(&expression.text, expression))).collect())
}

fn json_constant(value: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match value {
        Json::Null => Value::Null,
        Json::Bool(yes) => Value::Bool(*yes),
        Json::Number(given) => number(&given.to_string()).map_or(Value::Unknown, Value::Number),
        Json::String(text) => Value::text(text),
        Json::Array(list) => Value::List(list.iter().map(json_constant).collect()),
        Json::Object(map) => {
            Value::Object(map.iter().map(|(name, value)| (name.clone(), json_constant(value))).collect())
        }
    }
}
