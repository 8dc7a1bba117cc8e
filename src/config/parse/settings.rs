//! The keys that the root file, stack files and instance overrides share.

use std::collections::BTreeMap;

use crate::config::entries::{self, Rule};
use crate::config::model::{EnvValue, PlanOutput, Tool};
use crate::config::problem::{key_path, quoted};
use crate::config::strict::{At, Mapping, Reader, TextAt};
use crate::config::template::{self, Fields};
use crate::config::yaml::{Node, Value};

pub(super) const TOOLS: [(&str, Tool); 2] = [("terraform", Tool::Terraform), ("tofu", Tool::Tofu)];
pub(super) const PLAN_OUTPUTS: [(&str, PlanOutput); 2] = [("full", PlanOutput::Full), ("summary", PlanOutput::Summary)];

/// The modes that an environment variable may have values for.
const MODES: [&str; 3] = ["plan", "apply", "drift"];

/// Keeps the default when the file leaves the key out or gets it wrong.
pub(super) fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

impl Reader<'_> {
    /// A list whose items follow a rule.
    pub(super) fn checked_list(
        &mut self,
        mapping: &Mapping<'_>,
        key: &str,
        rule: impl Fn(&str) -> Rule,
    ) -> Option<Vec<String>> {
        let at = mapping.take(key)?;
        let texts = self.texts(&at)?;
        for text in &texts {
            self.check(text, rule(text.text));
        }
        Some(texts.into_iter().map(|text| text.text.to_owned()).collect())
    }

    /// A list of templates whose items, as written, follow a rule.
    pub(super) fn template_list(
        &mut self,
        mapping: &Mapping<'_>,
        key: &str,
        rule: impl Fn(&str) -> Rule,
    ) -> Option<Vec<String>> {
        let at = mapping.take(key)?;
        let texts = self.texts(&at)?;
        for text in &texts {
            match rule(text.text) {
                Ok(()) => {
                    self.trial(text);
                }
                broken => self.check(text, broken),
            }
        }
        Some(texts.into_iter().map(|text| text.text.to_owned()).collect())
    }

    /// Renders a template for the sample instance; reports why it cannot be.
    pub(super) fn trial(&mut self, at: &TextAt<'_>) -> Option<String> {
        match template::render(at.text, &Fields::sample()) {
            Ok(rendered) => Some(rendered),
            Err(error) => {
                self.report(at.line, &at.path, error.to_string());
                None
            }
        }
    }

    /// A text without line breaks that is no template.
    pub(super) fn plain_text(&mut self, mapping: &Mapping<'_>, key: &str) -> Option<String> {
        let text = self.text(&mapping.take(key)?)?;
        self.check(&text, entries::one_line(text.text));
        Some(text.text.to_owned())
    }

    pub(super) fn backend_config(&mut self, mapping: &Mapping<'_>) -> Option<Vec<String>> {
        self.template_list(mapping, "backend_config", entries::backend_config)
    }

    pub(super) fn var_files(&mut self, mapping: &Mapping<'_>) -> Option<Vec<String>> {
        self.template_list(mapping, "var_files", entries::var_file)
    }

    pub(super) fn plan_output(&mut self, mapping: &Mapping<'_>) -> Option<PlanOutput> {
        self.choice(&mapping.take("plan_output")?, &PLAN_OUTPUTS)
    }

    pub(super) fn tool(&mut self, mapping: &Mapping<'_>) -> Option<Tool> {
        self.choice(&mapping.take("tool")?, &TOOLS)
    }

    /// `env`: names to texts, or to one text per mode.
    pub(super) fn env(&mut self, mapping: &Mapping<'_>) -> Option<BTreeMap<String, EnvValue>> {
        let at = mapping.take("env")?;
        let mut env = BTreeMap::new();
        for entry in self.entries(&at)? {
            if entry.key.starts_with("x-") {
                continue;
            }
            let path = key_path(&at.path, &entry.key);
            if let Err(broken) = entries::env_name(&entry.key) {
                self.report(entry.line, &path, format!("{}: {broken}", quoted(&entry.key)));
            }
            if let Some(value) = self.env_value(&entry.key, &At { node: &entry.value, path }) {
                env.insert(entry.key.clone(), value);
            }
        }
        Some(env)
    }

    fn env_value(&mut self, name: &str, at: &At<'_>) -> Option<EnvValue> {
        match &at.node.value {
            Value::Scalar { .. } | Value::Null => self.env_text(at.node, &at.path).map(EnvValue::Every),
            Value::List(_) => {
                let elsewhere = self.if_a_key(name);
                let message =
                    format!("found a list; a value is a text or a mapping of plan, apply and drift{elsewhere}");
                self.report(at.node.line, &at.path, message);
                None
            }
            Value::Map(entries) => {
                if !entries.iter().any(|entry| MODES.contains(&entry.key.as_str())) {
                    let message = format!("at least one of plan, apply, drift is needed{}", self.if_a_key(name));
                    self.report(at.node.line, &at.path, message);
                }
                self.mapping(at, &MODES)?;
                let mut mode = |mode: &str| {
                    let entry = entries.iter().find(|entry| entry.key == mode)?;
                    self.env_text(&entry.value, &key_path(&at.path, mode))
                };
                let (plan, apply, drift) = (mode("plan"), mode("apply"), mode("drift"));
                Some(EnvValue::PerMode { plan, apply, drift })
            }
        }
    }

    fn env_text(&mut self, node: &Node, path: &str) -> Option<String> {
        if node.value == Value::Null {
            self.report(node.line, path, "no value; write \"\" for an empty one");
            return None;
        }
        let text = self.text(&At { node, path: path.to_owned() })?;
        self.trial(&text)?;
        Some(text.text.to_owned())
    }
}
