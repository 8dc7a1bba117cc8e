//! Which state objects a directory reads through `terraform_remote_state`, and which stacks write them (spec 11 §7.2).

use std::collections::BTreeMap;
use std::rc::Rc;

use super::directory::At;
use super::evaluation::{Each, Scope};
use super::terraform_file::RemoteState;
use super::value::{Expression, Value};
use crate::graph::model::{Backend, Warning};

/// A state object: bucket and full object key.
pub type StateObject = (String, String);

/// The objects that a block reads, one for each element of its `for_each`; none when it is none of our business.
pub fn read(block: &At<RemoteState>, scope: &dyn Fn() -> Rc<Scope>) -> (Vec<StateObject>, Vec<Warning>) {
    let reading = Reading { block: &block.it, scope };
    let (mut objects, mut warnings) = (Vec::new(), Vec::new());
    for each in reading.elements() {
        match reading.object(each.as_ref()) {
            Ok(object) => objects.extend(object),
            Err((line, what)) => {
                let message = format!("remote state {:?}: cannot infer what it reads: {what}", block.it.name);
                warnings.push(Warning::new("remote_state_unresolved", message).at(&block.file, line));
            }
        }
    }
    (objects, warnings)
}

type Unknown = (u32, String);

/// Most elements of a `for_each` that are told apart.
const ELEMENTS_MAX: usize = 1_000;

struct Reading<'a> {
    block: &'a RemoteState,
    scope: &'a dyn Fn() -> Rc<Scope>,
}

impl Reading<'_> {
    /// What the block is read for: once, or for each element.
    fn elements(&self) -> Vec<Option<Each>> {
        let Some(expression) = &self.block.for_each else { return vec![None] };
        let each = |key: Value, value: Value| Some(Each { key, value });
        match (self.scope)().evaluate(expression, None) {
            Ok(Value::List(list)) if list.len() <= ELEMENTS_MAX => {
                list.into_iter().map(|element| each(element.clone(), element)).collect()
            }
            Ok(Value::Object(map)) if map.len() <= ELEMENTS_MAX => {
                map.into_iter().map(|(key, value)| each(Value::Text(key), value)).collect()
            }
            // Nothing is known of the elements, yet an object may not depend on them.
            Ok(_) | Err(_) => vec![None],
        }
    }

    fn evaluate(&self, expression: &Expression, each: Option<&Each>) -> Result<Value, String> {
        expression.literal().map_or_else(|| (self.scope)().evaluate(expression, each), Ok)
    }

    fn object(&self, each: Option<&Each>) -> Result<Option<StateObject>, Unknown> {
        let block = self.block;
        let Some(backend) = &block.backend else {
            return Err((block.line, "it has no backend".to_owned()));
        };
        match self.evaluate(backend, each) {
            Ok(Value::Text(kind)) if kind == "s3" => {}
            Ok(Value::Text(_)) => return Ok(None),
            Ok(_) => return Err((backend.line, "its backend is not text".to_owned())),
            Err(why) => return Err((backend.line, format!("its backend is not known: {why}"))),
        }
        let workspace = match &block.workspace {
            None => String::new(),
            Some(expression) => match self.evaluate(expression, each) {
                Ok(Value::Null) => String::new(),
                Ok(value) => {
                    value.into_text().ok_or_else(|| (expression.line, "its workspace is not text".to_owned()))?
                }
                Err(why) => return Err((expression.line, format!("its workspace is not known: {why}"))),
            },
        };
        let Some(config) = &block.config else {
            return Err((block.line, "it has no config".to_owned()));
        };
        let config = self.config(config, each)?;
        let key = config.object_key(&workspace);
        Ok(Some((config.bucket, key)))
    }

    /// The entries of `config` that say which object it is.
    fn config(&self, config: &Expression, each: Option<&Each>) -> Result<Backend, Unknown> {
        let whole = match config.entries() {
            Some(entries) => Config::Written(entries.into_iter().collect()),
            None => match self.evaluate(config, each) {
                Ok(Value::Object(map)) => Config::Evaluated(map),
                Ok(_) => return Err((config.line, "its config is not an object".to_owned())),
                Err(why) => return Err((config.line, format!("its config is not known: {why}"))),
            },
        };
        let text = |name: &str| {
            let (line, value) = match &whole {
                // The last of two equal keys counts, as for the tool.
                Config::Written(entries) => match entries.get(name) {
                    None => return Ok(String::new()),
                    Some(expression) => (expression.line, self.evaluate(expression, each)),
                },
                Config::Evaluated(map) => match map.get(name) {
                    None => return Ok(String::new()),
                    Some(Value::Unknown) => (config.line, Err("it cannot be worked out".to_owned())),
                    Some(value) => (config.line, Ok(value.clone())),
                },
            };
            match value {
                Ok(Value::Null) => Ok(String::new()),
                Ok(value) => value.into_text().ok_or_else(|| (line, format!("{name:?} of its config is not text"))),
                Err(why) => Err((line, format!("{name:?} of its config is not known: {why}"))),
            }
        };
        let backend = Backend {
            bucket: text("bucket")?,
            key: text("key")?,
            workspace_key_prefix: text("workspace_key_prefix")?,
            ..Backend::default()
        };
        for (name, value) in [("bucket", &backend.bucket), ("key", &backend.key)] {
            if value.is_empty() {
                return Err((config.line, format!("{name:?} of its config is missing or empty")));
            }
        }
        Ok(backend)
    }
}

/// An object as the block has it, or as something else says.
enum Config {
    Written(BTreeMap<String, Expression>),
    Evaluated(BTreeMap<String, Value>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::model::Tool;
    use crate::scan::directory::merge;
    use crate::scan::terraform_file;

    fn reads(body: &str) -> Result<Option<StateObject>, String> {
        let text = format!("data \"terraform_remote_state\" \"net\" {{\n{body}\n}}\n");
        let file = terraform_file::read("a/main.tf", text.as_bytes());
        let directory = merge(Tool::Terraform, [("a/main.tf", &file)].into_iter());
        assert_eq!(directory.warnings, []);
        let scope = || Rc::new(Scope::new(BTreeMap::new(), Rc::default(), Some("default".to_owned())));
        let (objects, warnings) = read(&directory.remote_states[0], &scope);
        match warnings.first() {
            Some(warning) => Err(warning.to_string()),
            None => Ok(objects.into_iter().next()),
        }
    }

    fn found(bucket: &str, key: &str) -> Result<Option<StateObject>, String> {
        Ok(Some((bucket.to_owned(), key.to_owned())))
    }

    #[test]
    fn literal_blocks_name_their_object() {
        let config = "config = {\n bucket = \"b\"\n key = \"k\"\n region = var.region\n profile = upper(\"x\")\n}";
        assert_eq!(reads(&format!("backend = \"s3\"\n{config}")), found("b", "k"));
        assert_eq!(reads(&format!("backend = \"s3\"\nworkspace = \"w\"\n{config}")), found("b", "env:/w/k"));
        assert_eq!(reads(&format!("backend = \"s3\"\nworkspace = \"default\"\n{config}")), found("b", "k"));
        assert_eq!(reads(&format!("backend = \"s3\"\nworkspace = null\n{config}")), found("b", "k"));
        let inline = "config = { bucket : \"b\", \"key\" = \"k\", workspace_key_prefix = \"p\" }";
        assert_eq!(reads(&format!("backend = \"s3\"\nworkspace = \"w\"\n{inline}")), found("b", "p/w/k"));
        assert_eq!(reads("backend = \"gcs\"\nconfig = var.x"), Ok(None));
    }

    #[test]
    fn what_cannot_be_known_is_said_with_its_place() {
        for (body, says) in [
            ("config = {}", "a/main.tf:1: remote state \"net\": cannot infer what it reads: it has no backend"),
            (
                "backend = var.b",
                "a/main.tf:2: remote state \"net\": cannot infer what it reads: its backend is not known: var.b has no known value",
            ),
            ("backend = \"s3\"\nworkspace = var.w", "its workspace is not known: var.w has no known value"),
            ("backend = \"s3\"", "it has no config"),
            ("backend = \"s3\"\nconfig = local.c", "its config is not known: local.c is not declared"),
            ("backend = \"s3\"\nconfig = { (var.k) = 1 }", "its config is not known: var.k has no known value"),
            (
                "backend = \"s3\"\nconfig = { for k, v in x : k => v }",
                "its config is not known: for expressions are not evaluated",
            ),
            (
                "backend = \"s3\"\nconfig = {\n bucket = var.b\n key = \"k\" }",
                "a/main.tf:4: remote state \"net\": cannot infer what it reads: \"bucket\" of its config is not known: var.b has no known value",
            ),
            (
                "backend = \"s3\"\nconfig = { bucket = \"b\", key = \"k\", workspace_key_prefix = var.p }",
                "\"workspace_key_prefix\" of its config is not known: var.p has no known value",
            ),
            ("backend = \"s3\"\nconfig = { bucket = \"b\" }", "\"key\" of its config is missing or empty"),
            (
                "backend = \"s3\"\nconfig = { bucket = \"\", key = \"k\" }",
                "\"bucket\" of its config is missing or empty",
            ),
        ] {
            let error = reads(body).expect_err(body);
            assert!(error.ends_with(says), "{body}: {error}");
        }
    }
}
