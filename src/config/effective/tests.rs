use super::*;
use crate::config::parse::{parse_repo_config, parse_stack_config};

fn of(root: &str, stack: &str, path: &str, instance: &str) -> Result<Effective, Vec<Problem>> {
    let root = parse_repo_config(ROOT_FILE, root.as_bytes()).unwrap();
    let stack = parse_stack_config(&stack_file(path), stack.as_bytes()).unwrap();
    let instance = Instance { name: instance.to_owned(), var_file: Some(format!("envs/{instance}.tfvars")) };
    effective(&root, Some(&stack), path, &instance)
}

const ROOT: &str = r#"
tool: tofu
tool_version: 1.10
plan_output: summary
backend_config: ['key={{ trimPrefix "live/" .Path }}/{{ .Instance }}.tfstate']
var_files: [../root.tfvars]
env: { A: root, B: root, C: root, D: { plan: 'p-{{ .Name }}' } }
apply: { allowed_teams: [infra] }
environments: { "live/": "live-{{ .Instance }}" }
"#;

const STACK: &str = "
backend_config: ['region=eu']
var_files: [stack.tfvars]
env: { B: stack, C: { plan: stack, apply: stack } }
depends_on: ['live/vpc', 'acme/net//live/tgw:{{ .Instance }}']
ignore_inferred: [\"{{ if eq .Instance `x` }}live/y{{ end }}\", live/z]
workspace: 'ws-{{ .Instance }}'
tool_version: 1.9.0
instances:
  qa:
  prod:
    backend_config: [live/prod.tfbackend]
    var_files: ['{{ .Name }}.tfvars']
    env: { C: prod }
    depends_on: [live/dns:shared]
    workspace: default
    plan_output: full
    apply: { allowed_teams: [prod-team] }
    environment: kyc-prod
";

#[test]
fn settings_of_an_instance_combine_as_the_table_says() {
    let prod = of(ROOT, STACK, "live/kyc", "prod").unwrap();
    assert_eq!(prod.backend_config, ["key=kyc/prod.tfstate", "region=eu", "live/prod.tfbackend"]);
    assert_eq!(prod.var_files, ["../root.tfvars", "stack.tfvars", "envs/prod.tfvars", "kyc.tfvars"]);
    assert_eq!(prod.depends_on, ["live/vpc", "acme/net//live/tgw:prod", "live/dns:shared"]);
    assert_eq!(prod.ignore_inferred, ["live/z"]);
    assert_eq!(prod.workspace, "");
    assert_eq!((prod.plan_output, prod.tool, prod.tool_version.as_str()), (PlanOutput::Full, Tool::Tofu, "1.9.0"));
    assert_eq!(prod.allowed_teams, ["prod-team"]);
    assert_eq!(prod.environment, EnvironmentChoice { name: "kyc-prod".to_owned(), configured: true });

    let qa = of(ROOT, STACK, "live/kyc", "qa").unwrap();
    assert_eq!(qa.workspace, "ws-qa");
    assert_eq!(qa.plan_output, PlanOutput::Summary);
    assert_eq!(qa.allowed_teams, ["infra"]);
    assert_eq!(qa.environment, EnvironmentChoice { name: "live-qa".to_owned(), configured: true });
}

#[test]
fn the_most_specific_value_of_a_variable_replaces_the_others_whole() {
    let every = |text: &str| EnvValue::Every(text.to_owned());
    let prod = of(ROOT, STACK, "live/kyc", "prod").unwrap().env;
    assert_eq!((&prod["A"], &prod["B"], &prod["C"]), (&every("root"), &every("stack"), &every("prod")));

    let qa = of(ROOT, STACK, "live/kyc", "qa").unwrap().env;
    let plan = env_for(&qa, Mode::Plan);
    let shown: Vec<(&str, &str)> = plan.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(shown, [("A", "root"), ("B", "stack"), ("C", "stack"), ("D", "p-kyc")]);
}

#[test]
fn a_mode_without_a_value_leaves_the_variable_alone_and_drift_takes_the_plans() {
    let env = of("env: { A: { plan: p }, B: { apply: a }, C: { plan: p, drift: d }, D: '' }", "", "x", "").unwrap().env;
    let names = |mode| env_for(&env, mode).into_iter().map(|(name, value)| name + "=" + &value).collect::<Vec<_>>();
    assert_eq!(names(Mode::Plan), ["A=p", "C=p", "D="]);
    assert_eq!(names(Mode::Apply), ["B=a", "D="]);
    assert_eq!(names(Mode::Drift), ["A=p", "C=d", "D="]);
}

#[test]
fn without_files_everything_has_its_default() {
    let plain = effective(&RepoConfig::default(), None, "live/x", &Instance::default()).unwrap();
    assert_eq!(plain.environment, EnvironmentChoice { name: "default".to_owned(), configured: false });
    assert_eq!((plain.workspace.as_str(), plain.tool, plain.plan_output), ("", Tool::Terraform, PlanOutput::Full));
    assert!(plain.backend_config.is_empty() && plain.var_files.is_empty() && plain.allowed_teams.is_empty());
}

#[test]
fn values_are_checked_again_for_the_real_instance_at_the_key_that_holds_them() {
    let root = "backend_config: ['{{ if eq .Name `bad` }}=x{{ else }}a=b{{ end }}']
var_files: ['{{ if ne .Name `bad` }}x{{ end }}']
env: { A: { apply: '{{ if eq .Name `bad` }}{{ lower 1 }}{{ end }}' } }
environments: { bad: \"{{ .Name }}\\n\" }
";
    let stack = "instances: { a: { depends_on: ['{{ if eq .Name `bad` }}/{{ end }}x'], workspace: '{{ .Key }}' } }";
    let problems = of(root, stack, "live/bad", "a").unwrap_err();
    let shown: Vec<String> = problems.iter().map(|problem| format!("{}: {}", problem.file, problem.path)).collect();
    assert_eq!(
        shown,
        [
            "stackorder.yaml: backend_config[0]",
            "stackorder.yaml: var_files[0]",
            "live/bad/.stackorder.yaml: instances.a.depends_on[0]",
            "stackorder.yaml: env.A.apply",
            "live/bad/.stackorder.yaml: instances.a.workspace",
        ]
    );
    assert_eq!(
        problems[4].to_string(),
        "live/bad/.stackorder.yaml: instances.a.workspace: \"{{ .Key }}\" renders to \"live/bad:a\" for live/bad:a: \
         invalid characters: a workspace may not hold /, :, blanks or control characters"
    );
}

#[test]
fn globs_to_watch_add_up_and_keep_the_key_that_holds_them() {
    let stack = "watch: ['../../lambda/{{ .Name }}/**', own.json]
instances: { eu: , us: { watch: ['../../lambda/{{ .Instance }}.py'] } }
";
    let watch = |instance: &str| {
        let found = of("version: 1", stack, "live/a", instance).unwrap().watch;
        found.into_iter().map(|it| format!("{} {:?}", it.value, it.source)).collect::<Vec<_>>()
    };
    let of_the_stack = ["../../lambda/a/** Stack(\"watch[0]\")", "own.json Stack(\"watch[1]\")"];
    assert_eq!(watch("eu"), of_the_stack);
    assert_eq!(watch("us")[..2], of_the_stack);
    assert_eq!(watch("us")[2], "../../lambda/us.py Stack(\"instances.us.watch[0]\")");
}

#[test]
fn a_glob_to_watch_that_leaves_the_repository_is_refused_at_its_key() {
    let stack = "watch: [../../x, ../../../x, ../.., '{{ .Instance }}']
instances: { a: { watch: ['../{{ .Path }}/../../../*'] } }
";
    let shown: Vec<String> =
        of("version: 1", stack, "live/a", "a").unwrap_err().iter().map(Problem::to_string).collect();
    assert_eq!(
        shown,
        [
            "live/a/.stackorder.yaml: watch[1]: \"../../../x\": leads out of the repository",
            "live/a/.stackorder.yaml: watch[2]: \"../..\": is the whole repository; end it with /** for all files",
        ]
    );
    let climbing = "watch: ['{{ dir .Path }}/../../../../x']";
    let shown = of("version: 1", climbing, "live/a", "a").unwrap_err()[0].to_string();
    assert!(shown.ends_with("for live/a:a: leads out of the repository"), "{shown}");
    assert!(of("version: 1", "watch: ['{{ if eq .Name `b` }}x{{ end }}']", "live/a", "a").is_err(), "an empty one");
}
