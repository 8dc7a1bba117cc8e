//! Where a stack's state is: the backend block, `-backend-config`, and what `init` remembers in `.terraform`.

use std::collections::BTreeMap;
use std::path::Path;

use hcl_edit::expr::Expression;
use hcl_edit::structure::Body;
use serde_json::{Value as Json, json};

use super::value::Value;

const REMEMBERED: &str = ".terraform/terraform.tfstate";
const WORKSPACE: &str = ".terraform/environment";

/// Settings that a backend of this kind may have; those without an effect here are read and kept.
const KNOWN: [&str; 8] =
    ["bucket", "key", "region", "use_lockfile", "workspace_key_prefix", "encrypt", "profile", "dynamodb_table"];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Backend {
    pub(super) bucket: String,
    /// Object key of the state in the selected workspace.
    pub(super) key: String,
    pub(super) locks: bool,
}

/// `env:/<workspace>/<key>`, or the key itself for the default workspace.
pub(super) fn object_key(key: &str, workspace: &str, prefix: Option<&Value>) -> String {
    match (workspace, prefix) {
        ("default", _) => key.to_owned(),
        (workspace, Some(Value::String(prefix))) => format!("{prefix}/{workspace}/{key}"),
        (workspace, _) => format!("env:/{workspace}/{key}"),
    }
}

/// The block's settings overlaid with the command line's, later ones winning.
pub(super) fn settings(
    block: &BTreeMap<String, Expression>,
    overlays: &[String],
    directory: &Path,
) -> Result<BTreeMap<String, Json>, String> {
    let mut settings = BTreeMap::new();
    for (name, value) in block {
        settings.insert(name.clone(), literal(name, value)?);
    }
    for overlay in overlays {
        match overlay.split_once('=') {
            Some((name, value)) => {
                settings.insert(name.to_owned(), json!(value));
            }
            None => {
                let text = std::fs::read_to_string(directory.join(overlay))
                    .map_err(|error| format!("Failed to read the backend configuration {overlay}: {error}"))?;
                let body: Body = text.parse().map_err(|error| format!("{overlay}: {error}"))?;
                for attribute in body.attributes() {
                    let name = attribute.key.as_str();
                    settings.insert(name.to_owned(), literal(name, &attribute.value)?);
                }
            }
        }
    }
    match settings.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        Some(name) => Err(format!("the backend setting {name} is not played here")),
        None => Ok(settings),
    }
}

fn literal(name: &str, value: &Expression) -> Result<Json, String> {
    match value {
        Expression::String(text) => Ok(json!(text.value())),
        Expression::Bool(it) => Ok(json!(it.value())),
        _ => Err(format!("backend: {name} must be a text or a boolean")),
    }
}

/// Keeps the settings as `init` does; another backend than last time needs `-reconfigure`.
pub(super) fn remember(directory: &Path, settings: &BTreeMap<String, Json>, reconfigure: bool) -> Result<(), String> {
    let path = directory.join(REMEMBERED);
    if !reconfigure
        && let Some(before) = remembered(directory)?
        && before != *settings
    {
        return Err("Backend configuration changed: run init with -reconfigure".to_owned());
    }
    let written =
        json!({ "version": 3, "terraform_version": super::VERSION, "backend": { "type": "s3", "config": settings } });
    std::fs::create_dir_all(directory.join(".terraform"))
        .and_then(|()| std::fs::write(&path, format!("{written:#}\n")))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn remembered(directory: &Path) -> Result<Option<BTreeMap<String, Json>>, String> {
    let path = directory.join(REMEMBERED);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    let json: Json = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    // The real tool writes every setting it knows; those without a value say nothing.
    let set = json["backend"]["config"].as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    Ok(Some(set.map(|(name, value)| (name.clone(), value.clone())).collect()))
}

pub(super) fn workspace(directory: &Path) -> String {
    let selected = std::fs::read_to_string(directory.join(WORKSPACE)).unwrap_or_default();
    match selected.trim() {
        "" => "default".to_owned(),
        name => name.to_owned(),
    }
}

pub(super) fn select_workspace(directory: &Path, name: &str) -> Result<(), String> {
    std::fs::create_dir_all(directory.join(".terraform"))
        .and_then(|()| std::fs::write(directory.join(WORKSPACE), name))
        .map_err(|error| format!("cannot select the workspace {name}: {error}"))
}

/// The backend that `init` chose, in the selected workspace.
pub(super) fn open(directory: &Path, workspace: &str) -> Result<Backend, String> {
    let settings = remembered(directory)?.ok_or("Backend initialization required, please run \"terraform init\"")?;
    let text = |name: &str| match settings.get(name) {
        Some(Json::String(text)) if !text.is_empty() => Ok(text.clone()),
        _ => Err(format!("the backend has no {name}")),
    };
    let prefix = settings.get("workspace_key_prefix").map(Value::from_json);
    Ok(Backend {
        bucket: text("bucket")?,
        key: object_key(&text("key")?, workspace, prefix.as_ref()),
        locks: settings.get("use_lockfile").is_some_and(|it| *it == json!(true) || *it == json!("true")),
    })
}
