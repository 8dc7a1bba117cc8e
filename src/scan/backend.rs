//! Where the state of a stack lives: the `backend "s3"` block with the `backend_config` of each instance over it
//! (spec 11 §4).

use super::directory::At;
use super::terraform_file::BackendBlock;
use super::value::{Expression, Value, parse_bool};
use crate::config::model::Tool;
use crate::graph::model::{Backend, Warning};

/// The backend as the block has it for one instance, and what could not be known. `evaluate` gives the value of what
/// is not a literal, or why there is none.
pub fn from_block(
    block: &At<BackendBlock>,
    tool: Tool,
    evaluate: &dyn Fn(&Expression) -> Result<Value, String>,
) -> (Backend, Vec<Warning>) {
    let mut backend = Backend { kind: block.it.kind.clone(), ..Backend::default() };
    let mut warnings = Vec::new();
    for (name, expression) in block.it.attributes.iter().filter(|(name, _)| is_known(name)) {
        let mut warn = |code: &str, what: String| {
            let message = format!("backend attribute {name:?} {what}");
            warnings.push(Warning::new(code, message).at(&block.file, expression.line));
        };
        let literal = expression.literal();
        let is_evaluated = literal.is_none();
        match literal.map_or_else(|| evaluate(expression), Ok) {
            Err(why) => {
                warn("backend_not_literal", format!("is not known before the tool runs: {why}; it is left empty"))
            }
            Ok(value) => match set(&mut backend, name, value) {
                Err(why) => warn("backend_not_literal", format!("{why}; it is left empty")),
                Ok(()) if is_evaluated && tool == Tool::Terraform => {
                    warn(
                        "backend_refused",
                        "is not a literal: Terraform refuses this, only OpenTofu takes it".to_owned(),
                    );
                }
                Ok(()) => {}
            },
        }
    }
    (backend, warnings)
}

/// Lays the attributes of a backend file over a backend. Attributes that the graph does not know are ignored.
pub fn overlay_file(backend: &mut Backend, file: &str, attributes: &[(String, Expression)]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (name, expression) in attributes.iter().filter(|(name, _)| is_known(name)) {
        let literal = expression.literal().ok_or("is not a literal");
        if let Err(reason) = literal.and_then(|value| set(backend, name, value)) {
            let message = format!("backend attribute {name:?} {reason}; it is skipped");
            warnings.push(Warning::new("backend_not_literal", message).at(file, expression.line));
        }
    }
    warnings
}

/// Lays `name=value` over a backend.
pub fn overlay_value(backend: &mut Backend, name: &str, value: &str, key: &str) -> Option<Warning> {
    if name == "use_lockfile" {
        let Some(yes) = parse_bool(value) else {
            let message = format!("{key}: use_lockfile={value:?} is neither true nor false; it is skipped");
            return Some(Warning::new("use_lockfile_not_boolean", message).of_stack(key));
        };
        backend.use_lockfile = Some(yes);
    } else if let Some(attribute) = text_attribute(backend, name) {
        value.clone_into(attribute);
    }
    None
}

fn text_attribute<'b>(backend: &'b mut Backend, name: &str) -> Option<&'b mut String> {
    match name {
        "bucket" => Some(&mut backend.bucket),
        "key" => Some(&mut backend.key),
        "region" => Some(&mut backend.region),
        "dynamodb_table" => Some(&mut backend.dynamodb_table),
        "workspace_key_prefix" => Some(&mut backend.workspace_key_prefix),
        _ => None,
    }
}

fn is_known(name: &str) -> bool {
    name == "use_lockfile" || text_attribute(&mut Backend::default(), name).is_some()
}

fn set(backend: &mut Backend, name: &str, value: Value) -> Result<(), &'static str> {
    if value == Value::Null {
        return Ok(());
    }
    if name == "use_lockfile" {
        backend.use_lockfile = Some(value.into_bool().ok_or("is neither true nor false")?);
    } else if let Some(attribute) = text_attribute(backend, name) {
        *attribute = value.into_text().ok_or("is not text")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::directory::merge;
    use crate::scan::terraform_file::read;

    fn backend(text: &str) -> (Backend, Vec<String>) {
        let file = read("a/main.tf", text.as_bytes());
        let directory = merge(Tool::Terraform, [("a/main.tf", &file)].into_iter());
        let evaluate = |_: &Expression| Err("nothing is known".to_owned());
        let (backend, warnings) = from_block(&directory.backend.expect("a backend"), Tool::Terraform, &evaluate);
        (backend, directory.warnings.iter().chain(&warnings).map(ToString::to_string).collect())
    }

    #[test]
    fn literals_are_read_and_nested_blocks_ignored() {
        let (backend, warnings) = backend(
            "terraform {\n  backend \"s3\" {\n    bucket = \"b\" # ours\n    key = \"a/b.tfstate\"\n    region = \"r\"\n    \
             use_lockfile = true\n    assume_role = { role_arn = var.x }\n    endpoints { s3 = var.y }\n  }\n}\n",
        );
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!((backend.bucket.as_str(), backend.key.as_str(), backend.region.as_str()), ("b", "a/b.tfstate", "r"));
        assert_eq!(backend.use_lockfile, Some(true));
    }

    #[test]
    fn what_is_not_a_literal_is_left_empty_with_its_place() {
        for value in
            [r#""a-${"b"}""#, "var.key", "lower(\"A\")", "local.key", r#""${terraform.workspace}/x""#, "[\"x\"]"]
        {
            let (backend, warnings) =
                backend(&format!("terraform {{\n  backend \"s3\" {{\n    key = {value}\n  }}\n}}\n"));
            assert_eq!(backend.key, "", "{value}");
            assert_eq!(
                warnings,
                [
                    "a/main.tf:3: backend attribute \"key\" is not known before the tool runs: nothing is known; it is left empty"
                ]
            );
        }
    }

    #[test]
    fn an_unclosed_backend_still_makes_a_backend() {
        let (backend, warnings) = backend("terraform {\n  backend \"s3\" {\n    key = \"k\"\n");
        assert_eq!((backend.kind.as_str(), backend.key.as_str()), ("s3", "k"));
        assert_eq!(warnings, ["a/main.tf:1: block \"terraform\" is never closed"]);
    }

    #[test]
    fn the_object_key_follows_the_workspace() {
        let plain = Backend { key: "k".into(), ..Backend::default() };
        let prefixed = Backend { workspace_key_prefix: "w".into(), ..plain.clone() };
        for (backend, workspace, object) in [
            (&plain, "", "k"),
            (&plain, "default", "k"),
            (&plain, "blue", "env:/blue/k"),
            (&prefixed, "blue", "w/blue/k"),
        ] {
            assert_eq!(backend.object_key(workspace), object);
        }
    }

    #[test]
    fn values_of_the_configuration_win_and_unknown_names_are_ignored() {
        let mut backend = Backend { key: "old".into(), ..Backend::default() };
        assert_eq!(overlay_value(&mut backend, "key", "new=1", "a"), None);
        assert_eq!(overlay_value(&mut backend, "profile", "x", "a"), None);
        assert_eq!(overlay_value(&mut backend, "use_lockfile", "false", "a"), None);
        let warning = overlay_value(&mut backend, "use_lockfile", "maybe", "live/a:x").expect("a warning");
        assert_eq!((backend.key.as_str(), backend.use_lockfile), ("new=1", Some(false)));
        assert!(warning.message.contains("live/a:x") && warning.message.contains("maybe"), "{warning}");
    }
}
