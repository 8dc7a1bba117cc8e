//! Which values of a plan are secret by the plan's own marks, and by those its upstream stacks lost.
//!
//! Marks stand beside the values, in the same shape. Whatever cannot be read as a mark hides everything under it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::literals::is_secret_name;

/// Shorter strings are too common to be masked wherever they stand.
const SENSITIVE_BYTES_MIN: usize = 6;

/// Which outputs of other stacks are sensitive, by the address of the data source that reads them.
///
/// The mark does not travel through `terraform_remote_state`, so the upstream's own files are asked.
#[derive(Debug, Clone, Default)]
pub struct UpstreamOutputs {
    sensitive: BTreeMap<String, BTreeSet<String>>,
}

impl UpstreamOutputs {
    /// Declares the sensitive outputs of an upstream whose files are in the checkout; none is an answer too.
    ///
    /// `data_source` is an address such as `data.terraform_remote_state.vpc`, with or without instance keys.
    pub fn declare(&mut self, data_source: impl Into<String>, outputs: impl IntoIterator<Item = String>) {
        self.sensitive.entry(data_source.into()).or_default().extend(outputs);
    }

    /// An upstream nobody declared is outside of the checkout: there only the names can tell.
    fn is_secret(&self, data_source: &str, output: &str) -> bool {
        let declared = self.sensitive.get(data_source).or_else(|| self.sensitive.get(&without_indexes(data_source)));
        match declared {
            Some(outputs) => outputs.contains(output),
            None => is_secret_name(output),
        }
    }
}

/// `module.a["x"].data.b.c[0]` without its instance keys.
fn without_indexes(address: &str) -> String {
    let mut plain = String::with_capacity(address.len());
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for c in address.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' if depth > 0 => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
}

/// Every string that must not be seen, whatever the text it turns up in.
pub(super) fn secrets_of<'a>(plan: &'a Value, upstream: &UpstreamOutputs) -> BTreeSet<&'a str> {
    let mut secrets = Secrets::default();
    for change in changes_of(plan) {
        secrets.add_marked(&change["before"], &change["before_sensitive"]);
        secrets.add_marked(&change["after"], &change["after_sensitive"]);
    }
    secrets.add_variables(plan);
    for state in [&plan["planned_values"], &plan["prior_state"]["values"]] {
        secrets.add_outputs(&state["outputs"]);
        for module in modules_of(&state["root_module"]) {
            for resource in items(&module["resources"]) {
                secrets.add_marked(&resource["values"], &resource["sensitive_values"]);
                secrets.add_remote_state(resource, upstream);
            }
        }
    }
    secrets.found
}

/// Changes of resources and outputs, drift and what is put off included: all carry values before and after.
fn changes_of(plan: &Value) -> impl Iterator<Item = &Value> {
    let resources = items(&plan["resource_changes"]).iter().chain(items(&plan["resource_drift"]));
    let deferred = items(&plan["deferred_changes"]).iter().map(|entry| &entry["resource_change"]);
    let outputs = plan["output_changes"].as_object().into_iter().flat_map(|outputs| outputs.values());
    resources.chain(deferred).map(|entry| &entry["change"]).chain(outputs)
}

/// A module of a state and all below it, without recursion: how deep they nest is not ours to choose.
fn modules_of(root: &Value) -> Vec<&Value> {
    let mut modules = vec![root];
    let mut next = 0;
    while let Some(module) = modules.get(next).copied() {
        modules.extend(items(&module["child_modules"]));
        next += 1;
    }
    modules
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

#[derive(Default)]
struct Secrets<'a> {
    found: BTreeSet<&'a str>,
}

impl<'a> Secrets<'a> {
    /// Adds the strings under every mark; the value and its marks are walked side by side.
    fn add_marked(&mut self, value: &'a Value, marks: &Value) {
        let mut open = vec![(value, marks)];
        while let Some((value, marks)) = open.pop() {
            match (marks, value) {
                (Value::Null | Value::Bool(false), _) | (_, Value::Null) => {}
                (Value::Object(marks), Value::Object(members)) => {
                    open.extend(marks.iter().filter_map(|(name, mark)| Some((members.get(name)?, mark))));
                }
                (Value::Array(marks), Value::Array(items)) => open.extend(items.iter().zip(marks)),
                (Value::Object(marks), _) if marks.is_empty() => {}
                (Value::Array(marks), _) if marks.is_empty() => {}
                _ => self.add_all(value),
            }
        }
    }

    /// Adds every string of a value, at any depth.
    fn add_all(&mut self, value: &'a Value) {
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) if text.trim().len() >= SENSITIVE_BYTES_MIN => {
                    self.found.insert(text);
                }
                Value::Array(items) => open.extend(items),
                Value::Object(members) => open.extend(members.values()),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
    }

    /// Variables stand in the plan in clear; only the configuration says which of them are sensitive.
    fn add_variables(&mut self, plan: &'a Value) {
        let root = &plan["configuration"]["root_module"];
        let mut modules = vec![root];
        while let Some(module) = modules.pop() {
            for (name, declared) in module["variables"].as_object().into_iter().flatten() {
                if declared["sensitive"] == Value::Bool(true) {
                    self.add_all(&declared["default"]);
                    if std::ptr::eq(module, root) {
                        self.add_all(&plan["variables"][name.as_str()]["value"]);
                    }
                }
            }
            let calls = module["module_calls"].as_object().into_iter().flat_map(|calls| calls.values());
            modules.extend(calls.map(|call| &call["module"]));
        }
    }

    fn add_outputs(&mut self, outputs: &'a Value) {
        for output in outputs.as_object().into_iter().flat_map(|outputs| outputs.values()) {
            if output["sensitive"] == Value::Bool(true) {
                self.add_all(&output["value"]);
            }
        }
    }

    fn add_remote_state(&mut self, resource: &'a Value, upstream: &UpstreamOutputs) {
        if resource["type"] != "terraform_remote_state" {
            return;
        }
        let address = resource["address"].as_str().unwrap_or_default();
        for (name, value) in resource["values"]["outputs"].as_object().into_iter().flatten() {
            if upstream.is_secret(address, name) {
                self.add_all(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(plan: &Value) -> Vec<&str> {
        secrets_of(plan, &UpstreamOutputs::default()).into_iter().collect()
    }

    /// BL-102: nested maps and lists, before as well as after.
    #[test]
    fn every_marked_value_is_secret_at_any_depth_before_and_after() {
        let plan = json!({"resource_changes": [{"change": {
            "before": {"a": "before-secret", "b": "plain-value"},
            "before_sensitive": {"a": true},
            "after": {"list": [{"k": "plain-too"}, {"k": "after-secret"}], "all": {"x": ["deep-secret"]}, "short": "abcde"},
            "after_sensitive": {"list": [{}, {"k": true}], "all": true, "short": true},
        }}]});
        assert_eq!(found(&plan), ["after-secret", "before-secret", "deep-secret"]);
    }

    #[test]
    fn drift_deferred_changes_and_outputs_carry_marks_too() {
        let change =
            |value: &str| json!({"before": value, "before_sensitive": true, "after": null, "after_sensitive": false});
        let plan = json!({
            "resource_drift": [{"change": change("drift-secret")}],
            "deferred_changes": [{"resource_change": {"change": change("deferred-secret")}}],
            "output_changes": {"o": change("output-secret")},
        });
        assert_eq!(found(&plan), ["deferred-secret", "drift-secret", "output-secret"]);
    }

    #[test]
    fn a_mark_of_the_wrong_shape_hides_everything_under_it() {
        for marks in [json!("yes"), json!(1), json!(["x"]), json!({"a": [true]})] {
            let plan = json!({"output_changes": {"o": {"after": {"a": "any-secret"}, "after_sensitive": marks}}});
            assert_eq!(found(&plan), ["any-secret"], "{plan}");
        }
        for marks in [json!({}), json!([]), json!(false), json!(null)] {
            let plan = json!({"output_changes": {"o": {"after": {"a": "any-value"}, "after_sensitive": marks}}});
            assert!(found(&plan).is_empty(), "{plan}");
        }
    }

    #[test]
    fn sensitive_variables_outputs_and_state_values_are_secret() {
        let plan = json!({
            "variables": {"pw": {"value": {"k": "variable-secret"}}, "region": {"value": "eu-central-1"}},
            "configuration": {"root_module": {
                "variables": {"pw": {"sensitive": true, "default": "default-secret"}, "region": {}},
                "module_calls": {"m": {"module": {"variables": {"pw": {"sensitive": true, "default": "module-secret"}}}}},
            }},
            "planned_values": {"outputs": {"o": {"sensitive": true, "value": "planned-secret"}, "u": {"value": "plain-value"}}},
            "prior_state": {"values": {"root_module": {"child_modules": [{"resources": [
                {"values": {"k": "state-secret", "n": "plain-value"}, "sensitive_values": {"k": true}}]}]}}},
        });
        assert_eq!(
            found(&plan),
            ["default-secret", "module-secret", "planned-secret", "state-secret", "variable-secret"]
        );
    }

    fn remote_state(address: &str) -> Value {
        json!({"prior_state": {"values": {"root_module": {"resources": [{
            "address": address, "mode": "data", "type": "terraform_remote_state",
            "values": {"outputs": {"id": "plain-value", "dsn": {"url": "declared-secret"}, "db_password": "named-secret"}},
            "sensitive_values": {"outputs": {}},
        }]}}}})
    }

    #[test]
    fn sensitive_outputs_of_an_upstream_in_the_checkout_are_those_it_declares() {
        let mut upstream = UpstreamOutputs::default();
        upstream.declare("data.terraform_remote_state.up", ["dsn".to_owned()]);
        for address in ["data.terraform_remote_state.up", "data.terraform_remote_state.up[\"a]\\\"b\"]"] {
            let plan = remote_state(address);
            let found: Vec<_> = secrets_of(&plan, &upstream).into_iter().collect();
            assert_eq!(found, ["declared-secret"], "{address}");
        }
    }

    #[test]
    fn of_an_upstream_outside_of_the_checkout_the_names_decide() {
        assert_eq!(found(&remote_state("data.terraform_remote_state.other")), ["named-secret"]);
    }
}
