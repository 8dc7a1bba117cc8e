//! Which outputs of other stacks are secret: their own files say so, because the mark gets lost on the way
//! (spec 12 §11).

use serde_json::Value;

use super::ScannedTree;
use crate::graph::model::Stack;
use crate::redaction::UpstreamOutputs;
use crate::scan::directory::{is_terraform_file, read_by};
use crate::scan::files::{Files, join, parent};
use crate::scan::{Scanned, hcl};

/// For every remote state that a plan read and whose writer is in the checkout: the outputs declared sensitive there.
pub fn sensitive_outputs(plan_json: &Value, checkout: &ScannedTree, own_path: &str) -> UpstreamOutputs {
    let mut outputs = UpstreamOutputs::default();
    for resource in remote_states(plan_json) {
        let Some(address) = resource["address"].as_str() else { continue };
        let mut is_known = false;
        let mut names = Vec::new();
        for directory in directories_of(&resource["values"], checkout, own_path) {
            if let Some(declared) = declared_in(&checkout.tree, &checkout.scanned, &directory) {
                is_known = true;
                names.extend(declared);
            }
        }
        if is_known {
            outputs.declare(address, names);
        }
    }
    outputs
}

/// The data sources of the state that the plan began from and of the values it plans.
fn remote_states(plan_json: &Value) -> Vec<&Value> {
    let mut modules =
        vec![&plan_json["prior_state"]["values"]["root_module"], &plan_json["planned_values"]["root_module"]];
    let mut found = Vec::new();
    while let Some(module) = modules.pop() {
        modules.extend(module["child_modules"].as_array().into_iter().flatten());
        let resources = module["resources"].as_array().into_iter().flatten();
        found.extend(resources.filter(|resource| resource["type"] == "terraform_remote_state"));
    }
    found
}

/// Directories of the stacks that write the state object.
fn directories_of(values: &Value, checkout: &ScannedTree, own_path: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let config = &values["config"];
    match values["backend"].as_str() {
        Some("s3") => {
            let (bucket, key) = (text(&config["bucket"]), text(&config["key"]));
            let workspace = text(&values["workspace"]);
            let prefix = text(&config["workspace_key_prefix"]);
            let writes = |stack: &&Stack| {
                stack.backend.as_ref().is_some_and(|backend| {
                    let mut reader = backend.clone();
                    reader.key.clone_from(&key);
                    reader.workspace_key_prefix.clone_from(&prefix);
                    backend.bucket == bucket && backend.object_key(&stack.workspace) == reader.object_key(&workspace)
                })
            };
            let stacks = checkout.scanned.graph.stacks.iter().filter(|stack| !stack.external);
            stacks.filter(writes).map(|stack| stack.path.clone()).collect()
        }
        // A local state lies in the directory of its stack unless somebody moved it.
        Some("local") => {
            join(own_path, &text(&config["path"])).map(|path| parent(&path).to_owned()).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The sensitive outputs of a directory; `None` when it has no configuration.
/// Whatever is not plainly `false` counts as sensitive.
fn declared_in(tree: &dyn Files, scanned: &Scanned, directory: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let tool = scanned.graph.stacks.iter().find(|stack| stack.path == directory).and_then(|stack| stack.tool);
    let is_own = |path: &String| parent(path) == directory && is_terraform_file(path);
    let mut files: Vec<String> =
        tree.list().iter().map(|entry| &entry.path).filter(|path| is_own(path)).cloned().collect();
    files.sort();
    let mut is_stack = false;
    for file in read_by(tool.unwrap_or(scanned.config.tool), &files) {
        is_stack = true;
        let Ok(bytes) = tree.read(file) else { continue };
        if file.ends_with(".json") {
            let json: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            for (name, output) in json["output"].as_object().into_iter().flatten() {
                if !matches!(output["sensitive"], Value::Null | Value::Bool(false)) {
                    names.push(name.clone());
                }
            }
            continue;
        }
        let text = String::from_utf8_lossy(&bytes);
        for block in hcl::split(&text, 1).blocks.iter().filter(|block| block.kind == "output") {
            let body = hcl::split(block.body, block.body_line);
            if body.attribute("sensitive").is_some_and(|attribute| attribute.value != "false") {
                names.extend(block.labels.first().map(|label| label.to_string()));
            }
        }
    }
    is_stack.then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::{MemoryFiles, ScanOptions, scan};

    #[test]
    fn outputs_are_those_of_the_files_that_the_tool_reads() {
        let stack = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"up\"\n  }\n}\n";
        let output = |name: &str| format!("output \"{name}\" {{\n  value = 1\n  sensitive = true\n}}\n");
        for (tool, expected) in [("terraform", ["main", "more"]), ("tofu", ["main", "only"])] {
            let files = MemoryFiles::default()
                .with("stackorder.yaml", format!("tool: {tool}\n"))
                .with("stacks/up/main.tf", format!("{stack}{}", output("main")))
                .with("stacks/up/more.tf", output("more"))
                .with("stacks/up/more.tofu", output("only"));
            let scanned = scan(&files, &ScanOptions::new("acme/infra", "")).unwrap();
            assert_eq!(declared_in(&files, &scanned, "stacks/up").unwrap(), expected, "{tool}");
        }
    }
}
