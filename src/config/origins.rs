//! Every setting that counts for a stack, with the file and key that it comes from.
//!
//! For people who wonder why a stack is treated as it is; nothing decides anything by it.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::config::effective::{Instance, Source, Sourced, settings};
use crate::config::lines::KeyLines;
use crate::config::model::{RepoConfig, StackConfig};
use crate::config::problem::Problem;
use crate::config::{ROOT_FILE, stack_file};

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// As the files spell it, such as `apply.mode`; items of lists have an index.
    pub key: String,
    pub value: Value,
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Origin {
    Default,
    /// The name of the instance.
    Instance,
    File {
        file: String,
        key: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Instance => f.write_str("name of the instance"),
            Origin::File { file, key, line: None } => write!(f, "{file} {key}"),
            Origin::File { file, key, line: Some(line) } => write!(f, "{file}:{line} {key}"),
        }
    }
}

/// Both files of a stack, as values and as the places of their keys.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    pub root: &'a RepoConfig,
    pub root_lines: &'a KeyLines,
    pub stack: Option<&'a StackConfig>,
    pub stack_lines: &'a KeyLines,
}

impl Sources<'_> {
    /// All settings of one instance: its own first, in the order they are used, then those of the whole repository.
    pub fn of(&self, path: &str, instance: &Instance) -> Result<Vec<Setting>, Vec<Problem>> {
        let found = settings(self.root, self.stack, path, instance)?;
        let mut rows = Rows { sources: self, stack_file: stack_file(path), settings: Vec::new() };
        rows.push("tool", found.tool.map(|tool| json!(tool)));
        rows.push("tool_version", found.tool_version.map(|version| json!(version)));
        rows.push("environment", found.environment.map(|choice| json!(choice.name)));
        rows.push("workspace", found.workspace.map(|workspace| json!(workspace)));
        rows.list("backend_config", found.backend_config);
        rows.list("var_files", found.var_files);
        if found.env.is_empty() {
            rows.push("env", Sourced { value: json!({}), source: Source::Default });
        }
        for (name, value) in found.env {
            rows.push(&format!("env.{name}"), value.map(|value| json!(value)));
        }
        rows.list("depends_on", found.depends_on);
        rows.list("ignore_inferred", found.ignore_inferred);
        rows.list("watch", found.watch);
        rows.push("plan_output", found.plan_output.map(|output| json!(output)));
        rows.push("apply.allowed_teams", found.allowed_teams.map(|teams| json!(teams)));
        for (key, value) in of_the_repository(self.root) {
            rows.push(key, Sourced { value, source: Source::Root(key.to_owned()) });
        }
        Ok(rows.settings)
    }
}

impl<T> Sourced<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced { value: change(self.value), source: self.source }
    }
}

struct Rows<'a> {
    sources: &'a Sources<'a>,
    stack_file: String,
    settings: Vec<Setting>,
}

impl Rows<'_> {
    fn push(&mut self, key: &str, sourced: Sourced<Value>) {
        let in_file = |file: &str, key: String, lines: &KeyLines| match lines.line(&key) {
            None => Origin::Default,
            line => Origin::File { file: file.to_owned(), key, line },
        };
        let origin = match sourced.source {
            Source::Default => Origin::Default,
            Source::Instance => Origin::Instance,
            Source::Root(key) => in_file(ROOT_FILE, key, self.sources.root_lines),
            Source::Stack(key) => in_file(&self.stack_file, key, self.sources.stack_lines),
        };
        self.settings.push(Setting { key: key.to_owned(), value: sourced.value, origin });
    }

    fn list(&mut self, key: &str, values: Vec<Sourced<String>>) {
        if values.is_empty() {
            self.push(key, Sourced { value: json!([]), source: Source::Default });
        }
        for (index, value) in values.into_iter().enumerate() {
            self.push(&format!("{key}[{index}]"), value.map(Value::String));
        }
    }
}

/// The settings that no stack changes for itself, sorted as the manual lists them.
fn of_the_repository(config: &RepoConfig) -> Vec<(&'static str, Value)> {
    let (stacks, apply) = (&config.stacks, &config.apply);
    vec![
        ("version", json!(config.version)),
        ("plan_lock", json!(config.plan_lock)),
        ("stacks.discover", json!(stacks.discover)),
        ("stacks.include", json!(stacks.include)),
        ("stacks.exclude", json!(stacks.exclude)),
        ("stacks.ignore", json!(stacks.ignore)),
        ("stacks.ignore_lockfile", json!(stacks.ignore_lockfile)),
        ("stacks.instances.from_var_files", json!(stacks.instances.from_var_files)),
        ("stacks.plan_files", json!(stacks.plan_files)),
        ("modules.paths", json!(config.modules.paths)),
        ("apply.mode", json!(apply.mode)),
        ("apply.require_approvals", json!(apply.require_approvals)),
        ("apply.require_codeowner_review", json!(apply.require_codeowner_review)),
        ("apply.four_eyes", json!(apply.four_eyes)),
        ("apply.from_plan", json!(apply.from_plan)),
        ("apply.max_parallel", json!(apply.max_parallel)),
        ("apply.on_conflict", json!(apply.on_conflict())),
        ("apply.require_complete", json!(apply.require_complete)),
        ("apply.require_up_to_date", json!(apply.require_up_to_date)),
        ("apply.required_checks", json!(apply.required_checks)),
        ("propagate.dependents", json!(config.propagate.dependents)),
        ("propagate.cross_repo", json!(config.propagate.cross_repo)),
        ("drift.schedule", json!(config.drift.schedule)),
        ("drift.open_issue", json!(config.drift.open_issue)),
        ("checks.per_stack_max", json!(config.checks.per_stack_max)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::{parse_repo_config, parse_stack_config};

    fn shown(root: &str, stack: &str, path: &str, instance: &Instance) -> Vec<String> {
        let config = parse_repo_config(ROOT_FILE, root.as_bytes()).unwrap();
        let own = parse_stack_config(&stack_file(path), stack.as_bytes()).unwrap();
        let (root_lines, stack_lines) = (KeyLines::of(root.as_bytes()), KeyLines::of(stack.as_bytes()));
        let sources = Sources { root: &config, root_lines: &root_lines, stack: Some(&own), stack_lines: &stack_lines };
        let rows = sources.of(path, instance).unwrap();
        rows.iter().map(|row| format!("{} = {} ({})", row.key, row.value, row.origin)).collect()
    }

    #[test]
    fn every_value_names_the_file_and_key_that_it_comes_from() {
        let root = "tool: tofu
backend_config: ['key={{ .Name }}']
env: { A: root, B: root }
environments:
  live/: 'live-{{ .Instance }}'
stacks: { instances: { from_var_files: '*.tfvars' } }
apply: { mode: on_merge, allowed_teams: [infra] }
";
        let stack = "tool_version: 1.10
backend_config: [region=eu]
env: { B: { plan: own } }
instances:
  prod:
    backend_config: [a=b]
    apply: { allowed_teams: [kyc] }
    watch: ['../../{{ .Instance }}/**']
";
        let prod = Instance { name: "prod".to_owned(), var_file: Some("prod.tfvars".to_owned()) };
        let rows = shown(root, stack, "live/kyc", &prod);
        for expected in [
            "tool = \"tofu\" (stackorder.yaml:1 tool)",
            "tool_version = \"1.10\" (live/kyc/.stackorder.yaml:1 tool_version)",
            "environment = \"live-prod\" (stackorder.yaml:5 environments[\"live/\"])",
            "workspace = \"\" (default)",
            "backend_config[0] = \"key=kyc\" (stackorder.yaml:2 backend_config[0])",
            "backend_config[1] = \"region=eu\" (live/kyc/.stackorder.yaml:2 backend_config[0])",
            "backend_config[2] = \"a=b\" (live/kyc/.stackorder.yaml:6 instances.prod.backend_config[0])",
            "var_files[0] = \"prod.tfvars\" (stackorder.yaml:6 stacks.instances.from_var_files)",
            "env.A = \"root\" (stackorder.yaml:3 env.A)",
            "env.B = {\"plan\":\"own\"} (live/kyc/.stackorder.yaml:3 env.B)",
            "depends_on = [] (default)",
            "watch[0] = \"../../prod/**\" (live/kyc/.stackorder.yaml:8 instances.prod.watch[0])",
            "apply.allowed_teams = [\"kyc\"] (live/kyc/.stackorder.yaml:7 instances.prod.apply.allowed_teams)",
            "apply.mode = \"on_merge\" (stackorder.yaml:7 apply.mode)",
            "apply.on_conflict = \"queue\" (default)",
            "checks.per_stack_max = 20 (default)",
        ] {
            assert!(rows.iter().any(|row| row == expected), "{expected}: {rows:#?}");
        }
    }

    #[test]
    fn without_files_every_value_is_a_default_or_the_name_of_the_instance() {
        let rows = shown("version: 1", "", "live/x", &Instance { name: "qa".to_owned(), var_file: None });
        assert!(rows.contains(&"environment = \"qa\" (name of the instance)".to_owned()), "{rows:#?}");
        let others = rows.iter().filter(|row| !row.starts_with("environment") && !row.starts_with("version"));
        assert!(others.clone().all(|row| row.ends_with("(default)")), "{rows:#?}");
    }
}
