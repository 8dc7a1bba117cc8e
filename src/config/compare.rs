//! Which keys differ between two root files, after defaults (spec 30 §3.4).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::config::model::RepoConfig;

/// The keys with different values, sorted; keys of objects are dotted, such as `apply.mode`.
///
/// Both values hold their defaults, so spelling one out is no difference.
pub fn differing_keys(a: &RepoConfig, b: &RepoConfig) -> Vec<String> {
    let mut keys = BTreeSet::new();
    compare("", &spelled_out(a), &spelled_out(b), &mut keys);
    let unsaid = a.apply.on_conflict.is_none() && b.apply.on_conflict.is_none();
    if !unsaid && a.apply.on_conflict() != b.apply.on_conflict() {
        keys.insert("apply.on_conflict".to_owned());
    }
    keys.into_iter().collect()
}

/// The configuration as an object, without `apply.on_conflict`, whose default depends on another key.
fn spelled_out(config: &RepoConfig) -> Map<String, Value> {
    let mut config = config.clone();
    config.apply.on_conflict = None;
    match serde_json::to_value(config) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => unreachable!("a RepoConfig is an object with text keys"),
    }
}

fn compare(prefix: &str, a: &Map<String, Value>, b: &Map<String, Value>, keys: &mut BTreeSet<String>) {
    /// Objects of the file's own; `env` and `environments` are one setting each.
    const OBJECTS: [&str; 7] = ["stacks", "stacks.instances", "modules", "apply", "checks", "propagate", "drift"];
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for name in names {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match (a.get(name), b.get(name)) {
            (Some(Value::Object(a)), Some(Value::Object(b))) if OBJECTS.contains(&key.as_str()) => {
                compare(&key, a, b, keys);
            }
            (a, b) if a != b => {
                keys.insert(key);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::parse_repo_config;

    fn differing(a: &str, b: &str) -> Vec<String> {
        let parse = |text: &str| parse_repo_config("stackorder.yaml", text.as_bytes()).unwrap();
        differing_keys(&parse(a), &parse(b))
    }

    #[test]
    fn spelling_out_a_default_is_no_difference() {
        let spelled = "version: 1
tool: terraform
stacks: { discover: ['stacks/**'], ignore: ['**/*.md', '**/README*'], ignore_lockfile: false }
modules: { paths: [] }
apply: { mode: before_merge, max_parallel: 20, on_conflict: refuse }
checks: { per_stack_max: 20 }
drift: { open_issue: false }
environments: {}
";
        assert_eq!(differing("version: 1", spelled), Vec::<String>::new());
    }

    #[test]
    fn differing_keys_are_dotted_inside_objects() {
        let keys = differing(
            "version: 1",
            "version: 1
tool: tofu
stacks: { exclude: [a], instances: { from_var_files: '*.tfvars' } }
apply: { mode: on_merge }
checks: { per_stack_max: 3 }
env: { A: b }
",
        );
        let expected =
            ["apply.mode", "checks.per_stack_max", "env", "stacks.exclude", "stacks.instances.from_var_files", "tool"];
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_conflict_rule_that_somebody_wrote_counts_by_what_it_means() {
        assert_eq!(differing("version: 1", "apply: { on_conflict: queue }"), ["apply.on_conflict"]);
        assert_eq!(differing("apply: { mode: on_merge }", "apply: { mode: on_merge, on_conflict: queue }"), [""; 0]);
    }
}
