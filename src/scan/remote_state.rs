//! Which state objects a directory reads through `terraform_remote_state`, and which stacks write them (spec 11 §7.2).

use std::collections::BTreeMap;

use super::directory::At;
use super::terraform_file::RemoteState;
use super::value::{Expression, Value};
use crate::graph::model::{Backend, Warning};

/// A state object: bucket and full object key.
pub type StateObject = (String, String);

/// What a block reads: `Ok(None)` when it is none of our business.
pub fn read(block: &At<RemoteState>) -> Result<Option<StateObject>, Warning> {
    object(&block.it).map_err(|(line, what)| {
        let message = format!("remote state {:?}: cannot infer what it reads: {what}", block.it.name);
        Warning::new("remote_state_unresolved", message).at(&block.file, line)
    })
}

type Unknown = (u32, String);

fn object(block: &RemoteState) -> Result<Option<StateObject>, Unknown> {
    let Some(backend) = &block.backend else {
        return Err((block.line, "it has no backend".to_owned()));
    };
    match backend.value() {
        Value::Text(kind) if kind == "s3" => {}
        Value::Text(_) => return Ok(None),
        Value::Null | Value::Bool(_) | Value::Other | Value::Unknown => {
            return Err((backend.line, "its backend is not a literal".to_owned()));
        }
    }
    let workspace = match &block.workspace {
        None => String::new(),
        Some(expression) => match expression.value() {
            Value::Null => String::new(),
            value => value.into_text().ok_or_else(|| (expression.line, "its workspace is not a literal".to_owned()))?,
        },
    };
    let Some(config) = &block.config else {
        return Err((block.line, "it has no config".to_owned()));
    };
    let Some(entries) = config.entries() else {
        return Err((config.line, "its config is not an object with literal keys".to_owned()));
    };
    // The last of two equal keys counts, as for the tool.
    let entries: BTreeMap<String, Expression> = entries.into_iter().collect();
    let text = |name: &str| match entries.get(name) {
        None => Ok(String::new()),
        Some(expression) => match expression.value() {
            Value::Null => Ok(String::new()),
            value => {
                value.into_text().ok_or_else(|| (expression.line, format!("{name:?} of its config is not a literal")))
            }
        },
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
    let key = backend.object_key(&workspace);
    Ok(Some((backend.bucket, key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::directory::merge;
    use crate::scan::terraform_file;

    fn reads(body: &str) -> Result<Option<StateObject>, String> {
        let text = format!("data \"terraform_remote_state\" \"net\" {{\n{body}\n}}\n");
        let file = terraform_file::read("a/main.tf", text.as_bytes());
        let directory = merge([("a/main.tf", &file)].into_iter());
        assert_eq!(directory.warnings, []);
        read(&directory.remote_states[0]).map_err(|warning| warning.to_string())
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
                "a/main.tf:2: remote state \"net\": cannot infer what it reads: its backend is not a literal",
            ),
            ("backend = \"s3\"\nworkspace = terraform.workspace", "its workspace is not a literal"),
            ("backend = \"s3\"", "it has no config"),
            ("backend = \"s3\"\nconfig = local.c", "its config is not an object with literal keys"),
            ("backend = \"s3\"\nconfig = { (var.k) = 1 }", "its config is not an object with literal keys"),
            ("backend = \"s3\"\nconfig = { for k, v in x : k => v }", "its config is not an object with literal keys"),
            (
                "backend = \"s3\"\nconfig = {\n bucket = var.b\n key = \"k\" }",
                "a/main.tf:4: remote state \"net\": cannot infer what it reads: \"bucket\" of its config is not a literal",
            ),
            (
                "backend = \"s3\"\nconfig = { bucket = \"b\", key = \"a-${\"b\"}\" }",
                "\"key\" of its config is not a literal",
            ),
            (
                "backend = \"s3\"\nconfig = { bucket = \"b\", key = \"k\", workspace_key_prefix = var.p }",
                "\"workspace_key_prefix\" of its config is not a literal",
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
