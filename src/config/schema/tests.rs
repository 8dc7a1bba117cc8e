use std::collections::BTreeMap;

use super::*;
use crate::config::model::*;
use crate::config::parse::{Problem, parse_repo_config, parse_stack_config};
use crate::config::yaml::{self, Node};

/// A YAML tree as the JSON that an editor would check.
fn as_json(node: &Node) -> Value {
    match &node.value {
        yaml::Value::Null => Value::Null,
        yaml::Value::Scalar { text, plain: true } => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        yaml::Value::Scalar { text, plain: false } => Value::String(text.clone()),
        yaml::Value::List(nodes) => nodes.iter().map(as_json).collect(),
        yaml::Value::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), as_json(&entry.value))).collect::<Map<_, _>>().into()
        }
    }
}

fn errors(schema: &Value, instance: &Value) -> Vec<String> {
    let validator = jsonschema::draft7::new(schema).unwrap();
    validator.iter_errors(instance).map(|error| format!("{error} at {}", error.instance_path())).collect()
}

fn errors_of(schema: &Value, text: &str) -> Vec<String> {
    let root = yaml::read(text.as_bytes()).unwrap().root;
    errors(schema, &root.as_ref().map_or(Value::Null, as_json))
}

const SAMPLES: [&str; 5] = [
    include_str!("../../../demo/repository/stacks/staging/apps/.stackorder.yaml"),
    include_str!("../../../demo/repository/stacks/legacy/dns/.stackorder.yaml"),
    include_str!("../../../demo/repository/stacks/prod/eks/.stackorder.yaml"),
    include_str!("../../../demo/repository/infra/registry/.stackorder.yaml"),
    include_str!("../../../demo/repository/infra/kyc/.stackorder.yaml"),
];

#[test]
fn the_published_files_are_up_to_date() {
    for (schema, published) in [
        (root_schema(), include_str!("../../../docs/schema/stackorder.json")),
        (stack_schema(), include_str!("../../../docs/schema/stack.json")),
    ] {
        let printed = serde_json::to_string_pretty(&schema).unwrap();
        assert_eq!(published.trim_end(), printed, "print it again with `stackorder config schema`");
    }
}

#[test]
fn the_sample_files_are_valid() {
    let root = include_str!("../../../demo/repository/stackorder.yaml");
    assert_eq!(errors_of(&root_schema(), root), [""; 0]);
    for stack in SAMPLES {
        assert_eq!(errors_of(&stack_schema(), stack), [""; 0], "{stack}");
    }
}

#[test]
fn what_the_parser_accepts_in_odd_spellings_is_valid() {
    for text in [
        "tool_version: 1.10\nenv: { A: 3, B: true, C: { drift: 1 } }",
        "tool:\nstacks:\napply: { on_conflict: , allowed_teams: }\nx-a: [1]\ndrift: { x-b: 1 }",
        "backend_config: [a=b]\nstacks: { ignore: [], discover: [] }\nenvironments: { ':1': 2 }",
    ] {
        parse_repo_config("f", text.as_bytes()).unwrap();
        assert_eq!(errors_of(&root_schema(), text), [""; 0], "{text}");
    }
    for text in ["instances: [b, a, 1]", "instances: { 1: {}, a: , b: { x-c: d } }", "depends_on: [1]", "# nothing"] {
        parse_stack_config("f", text.as_bytes()).unwrap();
        assert_eq!(errors_of(&stack_schema(), text), [""; 0], "{text}");
    }
}

#[test]
fn a_file_with_an_unknown_key_or_a_value_of_the_wrong_kind_is_not_valid() {
    for text in [
        "tools: x",
        "stacks: { discovr: [] }",
        "apply: { approvals: 1 }",
        "env: { A: { plan: x, destroy: y } }",
        "env: { A: {} }",
        "env: { A: }",
        "tool: pulumi",
        "version: 2",
        "apply: { max_parallel: 0 }",
        "stacks: { discover: [./a] }",
        "apply: { required_checks: [plan] }",
    ] {
        assert_ne!(errors_of(&root_schema(), text), [""; 0], "{text}");
    }
    for text in [
        "depend_on: []",
        "apply: { mode: on_merge }",
        "instances: { a: { tool: tofu } }",
        "instances: [Default]",
        "instances: [a, a]",
        "instances: { a b: }",
    ] {
        assert_ne!(errors_of(&stack_schema(), text), [""; 0], "{text}");
    }
}

/// Every field is named, so a new one does not compile until it is given here, and so stands in the schema.
#[test]
fn every_key_of_the_model_is_in_the_schema() {
    let text = || "x".to_owned();
    let texts = || vec![text()];
    let each = || EnvValue::PerMode { plan: Some(text()), apply: Some(text()), drift: Some(text()) };
    let env = || BTreeMap::from([("A".to_owned(), each()), ("B".to_owned(), EnvValue::Every(text()))]);
    let root = RepoConfig {
        version: 1,
        stacks: StacksConfig {
            discover: texts(),
            include: texts(),
            exclude: texts(),
            ignore: texts(),
            ignore_lockfile: true,
            instances: InstancesFrom { from_var_files: text() },
            plan_files: texts(),
        },
        modules: ModulesConfig { paths: texts() },
        tool: Tool::Tofu,
        tool_version: text(),
        environments: BTreeMap::from([("a/:b".to_owned(), text())]),
        apply: ApplyConfig {
            mode: ApplyMode::OnMerge,
            require_approvals: 1,
            require_codeowner_review: true,
            allowed_teams: texts(),
            four_eyes: true,
            from_plan: false,
            max_parallel: 1,
            require_up_to_date: RequireUpToDate::Off,
            require_complete: false,
            required_checks: texts(),
            on_conflict: Some(OnConflict::Queue),
        },
        plan_lock: true,
        checks: ChecksConfig { per_stack_max: 0 },
        propagate: PropagateConfig { dependents: false, cross_repo: CrossRepo::Plan },
        drift: DriftConfig { schedule: text(), open_issue: true },
        plan_output: PlanOutput::Summary,
        backend_config: texts(),
        var_files: texts(),
        env: env(),
    };
    assert_eq!(errors(&root_schema(), &serde_json::to_value(root).unwrap()), [""; 0]);

    let apply = || StackApply { allowed_teams: texts() };
    let instance = InstanceConfig {
        environment: text(),
        workspace: text(),
        backend_config: texts(),
        var_files: texts(),
        env: env(),
        plan_output: Some(PlanOutput::Full),
        apply: apply(),
        depends_on: texts(),
        ignore_inferred: texts(),
        watch: texts(),
    };
    let stack = StackConfig {
        depends_on: texts(),
        ignore_inferred: texts(),
        watch: texts(),
        instances: BTreeMap::from([("prod".to_owned(), instance)]),
        workspace: text(),
        backend_config: texts(),
        var_files: texts(),
        env: env(),
        tool: Some(Tool::Tofu),
        tool_version: text(),
        environment: text(),
        plan_output: Some(PlanOutput::Full),
        apply: apply(),
    };
    assert_eq!(errors(&stack_schema(), &serde_json::to_value(stack).unwrap()), [""; 0]);
}

/// Asks the parser about every key of a schema, each alone and without a value.
fn every_key_is_known(schema: &Value, before: &str, after: &str, parse: &dyn Fn(&str) -> Vec<Problem>) -> usize {
    let Some(properties) = schema["properties"].as_object() else { return 0 };
    let mut asked = 0;
    for (key, below) in properties {
        let text = format!("{before}{key}: {after}");
        let problems = parse(&text);
        assert!(problems.iter().all(|problem| !problem.message.contains("not known here")), "{text}: {problems:?}");
        asked += 1 + every_key_is_known(below, &format!("{before}{key}: {{ "), &format!("}}{after}"), parse);
    }
    asked
}

#[test]
fn every_key_of_the_schema_is_one_that_the_parser_knows() {
    let root = |text: &str| parse_repo_config("f", text.as_bytes()).err().unwrap_or_default();
    let stack = |text: &str| parse_stack_config("f", text.as_bytes()).err().unwrap_or_default();
    assert_eq!(every_key_is_known(&root_schema(), "{ ", "}", &root), 40);
    assert_eq!(every_key_is_known(&stack_schema(), "{ ", "}", &stack), 14);
    let overrides = &stack_schema()["properties"]["instances"]["anyOf"][2]["additionalProperties"];
    assert_eq!(every_key_is_known(overrides, "{ instances: { a: { ", "}}}", &stack), 11);
}
