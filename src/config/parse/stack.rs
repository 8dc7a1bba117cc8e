//! The keys of `.stackorder.yaml` and of instance overrides (spec 10 §3, §4.3).

use std::collections::BTreeMap;

use super::settings::set;
use crate::config::entries;
use crate::config::instances::only_instance;
use crate::config::model::{InstanceConfig, StackApply, StackConfig};
use crate::config::problem::{key_path, quoted};
use crate::config::references::Reference;
use crate::config::strict::{At, ITEMS_MAX, Mapping, Reader};
use crate::config::template::is_template;
use crate::config::yaml::{Entry, Node, Value};

pub(super) const STACK: [&str; 13] = [
    "depends_on",
    "ignore_inferred",
    "watch",
    "instances",
    "workspace",
    "backend_config",
    "var_files",
    "env",
    "tool",
    "tool_version",
    "environment",
    "plan_output",
    "apply",
];
const OVERRIDE: [&str; 10] = [
    "environment",
    "workspace",
    "backend_config",
    "var_files",
    "env",
    "plan_output",
    "apply",
    "depends_on",
    "ignore_inferred",
    "watch",
];

pub(super) const STACK_APPLY: [&str; 1] = ["allowed_teams"];

impl Reader<'_> {
    pub(super) fn stack_config(&mut self, at: &At<'_>) -> StackConfig {
        let mut config = StackConfig::default();
        let Some(mapping) = self.mapping(at, &STACK) else { return config };
        let InstanceConfig {
            environment,
            workspace,
            backend_config,
            var_files,
            env,
            plan_output,
            apply,
            depends_on,
            ignore_inferred,
            watch,
        } = self.overrides(&mapping);
        set(&mut config.instances, mapping.take("instances").and_then(|at| self.instances(&at)));
        set(&mut config.tool_version, self.plain_text(&mapping, "tool_version"));
        let tool = self.tool(&mapping);
        if config.instances.is_empty()
            && let Some(text) = mapping.take("workspace").and_then(|at| self.text(&at))
            && !is_template(text.text)
            && entries::workspace(text.text).is_ok()
        {
            self.check(&text, only_instance(text.text));
        }
        StackConfig {
            environment,
            workspace,
            backend_config,
            var_files,
            env,
            plan_output,
            apply,
            depends_on,
            ignore_inferred,
            watch,
            tool,
            ..config
        }
    }

    /// What a stack and an instance say with the same words.
    fn overrides(&mut self, mapping: &Mapping<'_>) -> InstanceConfig {
        let mut config = InstanceConfig::default();
        set(&mut config.environment, self.template(mapping, "environment"));
        set(&mut config.workspace, self.workspace(mapping));
        set(&mut config.backend_config, self.backend_config(mapping));
        set(&mut config.var_files, self.var_files(mapping));
        set(&mut config.env, self.env(mapping));
        config.plan_output = self.plan_output(mapping);
        set(&mut config.apply, mapping.take("apply").and_then(|at| self.stack_apply(&at)));
        set(&mut config.depends_on, self.depends_on(mapping));
        let stack_key = |text: &str| if text.trim().is_empty() { Err("empty stack key".to_owned()) } else { Ok(()) };
        set(&mut config.ignore_inferred, self.template_list(mapping, "ignore_inferred", stack_key));
        // What a template comes to is known only with the instance.
        let watch = |text: &str| if is_template(text) { Ok(()) } else { entries::watch(text) };
        set(&mut config.watch, self.template_list(mapping, "watch", watch));
        config
    }

    fn template(&mut self, mapping: &Mapping<'_>, key: &str) -> Option<String> {
        let text = self.text(&mapping.take(key)?)?;
        self.trial(&text)?;
        Some(text.text.to_owned())
    }

    fn workspace(&mut self, mapping: &Mapping<'_>) -> Option<String> {
        let text = self.text(&mapping.take("workspace")?)?;
        if is_template(text.text) {
            self.trial(&text)?;
        } else {
            self.check(&text, entries::workspace(text.text));
        }
        Some(text.text.to_owned())
    }

    fn stack_apply(&mut self, at: &At<'_>) -> Option<StackApply> {
        let mapping = self.mapping(at, &STACK_APPLY)?;
        let mut apply = StackApply::default();
        set(&mut apply.allowed_teams, self.checked_list(&mapping, "allowed_teams", entries::team));
        Some(apply)
    }

    fn depends_on(&mut self, mapping: &Mapping<'_>) -> Option<Vec<String>> {
        let texts = self.texts(&mapping.take("depends_on")?)?;
        for text in &texts {
            if let Some(rendered) = self.trial(text) {
                self.check(text, Reference::parse(&rendered, None).map(|_| ()));
            }
        }
        Some(texts.into_iter().map(|text| text.text.to_owned()).collect())
    }

    fn instances(&mut self, at: &At<'_>) -> Option<BTreeMap<String, InstanceConfig>> {
        match &at.node.value {
            Value::List(nodes) if nodes.len() <= ITEMS_MAX => Some(self.instance_names(at, nodes)),
            Value::Map(_) => {
                let entries = self.entries(at)?;
                Some(entries.into_iter().filter_map(|entry| self.instance(at, entry)).collect())
            }
            Value::List(nodes) => {
                let message = format!("{} items, more than the {ITEMS_MAX} allowed", nodes.len());
                self.report(at.node.line, &at.path, message);
                None
            }
            Value::Scalar { text, .. } => {
                let message = format!("{} must be a list of names or a map", quoted(text));
                self.report(at.node.line, &at.path, message);
                None
            }
            Value::Null => None,
        }
    }

    fn instance_names(&mut self, at: &At<'_>, nodes: &[Node]) -> BTreeMap<String, InstanceConfig> {
        let mut instances = BTreeMap::new();
        for node in nodes {
            if node.value == Value::Null {
                self.report(node.line, &at.path, "empty name");
                continue;
            }
            let Some(name) = self.text(&At { node, path: at.path.clone() }) else { continue };
            self.check(&name, entries::instance_name(name.text));
            if instances.insert(name.text.to_owned(), InstanceConfig::default()).is_some() {
                self.report(node.line, &at.path, format!("{} is listed twice", quoted(name.text)));
            }
        }
        instances
    }

    fn instance(&mut self, at: &At<'_>, entry: &Entry) -> Option<(String, InstanceConfig)> {
        if let Err(broken) = entries::instance_name(&entry.key) {
            self.report(entry.line, &at.path, format!("{}: {broken}", quoted(&entry.key)));
            return None;
        }
        if entry.value.value == Value::Null {
            return Some((entry.key.clone(), InstanceConfig::default()));
        }
        let mapping = self.mapping(&At { node: &entry.value, path: key_path(&at.path, &entry.key) }, &OVERRIDE)?;
        Some((entry.key.clone(), self.overrides(&mapping)))
    }
}
