use super::*;
use crate::config::parse::{parse_repo_config, parse_stack_config};

fn root(glob: &str) -> RepoConfig {
    parse_repo_config(ROOT_FILE, format!("stacks: {{ instances: {{ from_var_files: '{glob}' }} }}").as_bytes()).unwrap()
}

fn stack(text: &str) -> StackConfig {
    parse_stack_config("live/net/.stackorder.yaml", text.as_bytes()).unwrap()
}

fn set(root: &RepoConfig, stack: Option<&StackConfig>, files: &[&str]) -> Result<InstanceSet, Vec<Problem>> {
    let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
    instances(root, stack, "live/net", &files)
}

/// `name` or `name=file` for each instance.
fn shown(set: &InstanceSet) -> Vec<String> {
    let show = |instance: &Instance| match &instance.var_file {
        None => instance.name.clone(),
        Some(file) => format!("{}={file}", instance.name),
    };
    set.instances.iter().map(show).collect()
}

#[test]
fn declared_instances_come_first_and_take_the_var_files_of_their_name() {
    let stack = stack("instances: [prod, dev]");
    let set = set(&root("./envs/*.tfvars"), Some(&stack), &["main.tf", "envs/prod.tfvars", "envs/old.tfvars"]).unwrap();
    assert_eq!(shown(&set), ["dev", "prod=envs/prod.tfvars"]);
    assert_eq!(set.warnings.len(), 1);
    assert_eq!(
        set.warnings[0].to_string(),
        "live/net/envs/old.tfvars: var file is not used: live/net/.stackorder.yaml declares no instance \"old\""
    );
}

#[test]
fn an_empty_set_of_instances_counts_as_absent() {
    for empty in ["instances: []", "instances: {}", "instances:"] {
        let stack = stack(empty);
        assert_eq!(shown(&set(&root("*.tfvars"), Some(&stack), &["a.tfvars"]).unwrap()), ["a=a.tfvars"], "{empty}");
    }
}

#[test]
fn var_files_give_one_instance_each_named_up_to_the_first_dot() {
    let files = ["x/prod.tfvars.json", "x/eu-1.auto.tfvars", "x/.hidden/a.tfvars", "y/b.tfvars", ".terraform/c.tfvars"];
    assert_eq!(
        shown(&set(&root("x/*.{tfvars,tfvars.json}"), None, &files).unwrap()),
        ["eu-1=x/eu-1.auto.tfvars", "prod=x/prod.tfvars.json"]
    );
    assert_eq!(shown(&set(&root("**/[ac].tfvars"), None, &files).unwrap()), ["a=x/.hidden/a.tfvars"]);
    assert_eq!(shown(&set(&root("none/*"), None, &files).unwrap()), [""]);
}

#[test]
fn files_that_name_no_instance_are_errors_naming_the_file() {
    for file in ["default.tfvars", "_x.tfvars", ".tfvars", "Default.tfvars"] {
        let problems = set(&root("*.tfvars"), None, &[file]).expect_err(file);
        assert!(problems[0].to_string().contains(&format!("\"live/net/{file}\"")), "{problems:?}");
    }
}

#[test]
fn two_files_of_one_name_are_an_error_naming_both() {
    let problems = set(&root("*.tfvars*"), None, &["a.tfvars.json", "a.tfvars"]).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "stackorder.yaml: stacks.instances.from_var_files: \"live/net/a.tfvars\" and \"live/net/a.tfvars.json\" both name the instance \"a\""
    );
}

#[test]
fn a_file_that_terraform_loads_by_itself_is_warned_about() {
    let files = ["terraform.tfvars", "b.auto.tfvars", "c.tfvars", "envs/d.auto.tfvars"];
    let set = set(&root("**/*.tfvars"), None, &files).unwrap();
    let warned: Vec<&str> = set.warnings.iter().map(|warning| warning.file.as_str()).collect();
    assert_eq!(warned, ["live/net/b.auto.tfvars", "live/net/terraform.tfvars"]);
}

#[test]
fn a_workspace_names_the_only_instance() {
    for (workspace, name) in [
        ("blue", "blue"),
        ("default", ""),
        ("'{{ .Instance }}'", ""),
        ("'{{ .Name }}'", "net"),
        ("'ws{{ .Instance }}'", "ws"),
    ] {
        let stack = stack(&format!("workspace: {workspace}"));
        assert_eq!(shown(&set(&RepoConfig::default(), Some(&stack), &[]).unwrap()), [name], "{workspace}");
    }
    assert_eq!(shown(&set(&RepoConfig::default(), None, &[]).unwrap()), [""]);
}

#[test]
fn a_workspace_that_renders_to_no_instance_name_is_an_error() {
    let stack = stack("workspace: '{{ .Path }}'");
    let problems = set(&RepoConfig::default(), Some(&stack), &[]).unwrap_err();
    assert!(problems[0].to_string().starts_with("live/net/.stackorder.yaml: workspace: "), "{problems:?}");
}
