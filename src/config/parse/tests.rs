use proptest::prelude::*;

use super::*;
use crate::config::model::*;

fn root(text: &str) -> RepoConfig {
    parse_repo_config("stackorder.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
}

fn stack(text: &str) -> StackConfig {
    parse_stack_config(".stackorder.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
}

/// Each row: bad input, key path, and words of the message.
fn all_refused(parse: impl Fn(&str) -> Result<(), Vec<Problem>>, rows: &[(&str, &str, &str)]) {
    for (text, path, says) in rows {
        let problems = parse(text).expect_err(text);
        let found = problems.iter().any(|problem| problem.path == *path && problem.message.contains(says));
        assert!(found, "{text}: wanted {path:?} with {says:?}, got {problems:#?}");
        assert!(problems.iter().all(|problem| problem.line.is_some()), "{problems:?}");
    }
}

fn root_refuses(rows: &[(&str, &str, &str)]) {
    all_refused(|text| parse_repo_config("stackorder.yaml", text.as_bytes()).map(|_| ()), rows);
}

fn stack_refuses(rows: &[(&str, &str, &str)]) {
    all_refused(|text| parse_stack_config(".stackorder.yaml", text.as_bytes()).map(|_| ()), rows);
}

#[test]
fn the_example_of_the_manual_is_read_whole() {
    let config = root(
        r#"
version: 1
tool: tofu
tool_version: "1.10.0"
stacks:
  discover: ["live/**"]
  exclude: ["live/bootstrap", "live/archive/**"]
  instances:
    from_var_files: "envs/*.tfvars"
modules:
  paths: ["lib/**"]
backend_config:
  - live/state.s3.tfbackend
  - 'key={{ trimPrefix "live/" .Path }}/{{ .Instance }}.tfstate'
env:
  TF_VAR_env: "{{ .Instance }}"
  TF_VAR_role: { plan: reader, apply: deployer }
environments:
  "live/": "live-{{ .Instance }}"
  ":sandbox": sandbox
apply:
  require_approvals: 1
  require_codeowner_review: true
  allowed_teams: [infra, acme/sre]
drift:
  schedule: "CRON_TZ=Europe/Rome 30 5 * * 1-5"
  open_issue: true
"#,
    );
    assert_eq!(config.tool, Tool::Tofu);
    assert_eq!(config.stacks.instances.from_var_files, "envs/*.tfvars");
    assert_eq!(config.modules.paths, ["lib/**"]);
    assert_eq!(config.backend_config.len(), 2);
    let role = EnvValue::PerMode { plan: Some("reader".to_owned()), apply: Some("deployer".to_owned()), drift: None };
    assert_eq!(config.env["TF_VAR_role"], role);
    assert_eq!(config.apply.allowed_teams, ["infra", "acme/sre"]);
    assert_eq!(config.drift.schedule, "CRON_TZ=Europe/Rome 30 5 * * 1-5");
    assert_eq!(config.stacks.ignore, StacksConfig::default().ignore);
}

#[test]
fn every_key_of_the_root_file_can_be_set() {
    let config = root(
        "
plan_output: summary
plan_lock: true
var_files: [common.tfvars]
stacks: { include: [./boot/], ignore: [], ignore_lockfile: true, plan_files: ['*.zip', './.terraform/modules/**'] }
apply:
  mode: on_merge
  four_eyes: true
  from_plan: false
  max_parallel: 3
  on_conflict: refuse
  require_complete: false
  require_up_to_date: off
  required_checks: [cost, sec-1]
propagate: { dependents: false, cross_repo: plan }
checks: { per_stack_max: 0 }
",
    );
    let expected = RepoConfig {
        plan_output: PlanOutput::Summary,
        plan_lock: true,
        var_files: vec!["common.tfvars".to_owned()],
        stacks: StacksConfig {
            include: vec!["boot".to_owned()],
            ignore: Vec::new(),
            ignore_lockfile: true,
            plan_files: vec!["*.zip".to_owned(), "./.terraform/modules/**".to_owned()],
            ..StacksConfig::default()
        },
        apply: ApplyConfig {
            mode: ApplyMode::OnMerge,
            four_eyes: true,
            from_plan: false,
            max_parallel: 3,
            on_conflict: Some(OnConflict::Refuse),
            require_complete: false,
            require_up_to_date: RequireUpToDate::Off,
            required_checks: vec!["cost".to_owned(), "sec-1".to_owned()],
            ..ApplyConfig::default()
        },
        propagate: PropagateConfig { dependents: false, cross_repo: CrossRepo::Plan },
        checks: ChecksConfig { per_stack_max: 0 },
        ..RepoConfig::default()
    };
    assert_eq!(config, expected);
}

#[test]
fn defaults_hold_for_keys_left_out_or_without_a_value() {
    for text in [
        "version: 1",
        "{}",
        "tool:",
        "stacks:",
        "stacks: { discover: [], ignore: , instances: }",
        "modules: { paths: [] }",
        "env:\nenvironments:\nbackend_config: ~\n",
        "environments: { a: }",
        "drift: { schedule: '' }",
        "x-anchors: &a { anything: [goes] }\nstacks: { x-note: here }",
    ] {
        assert_eq!(root(text), RepoConfig::default(), "{text}");
    }
    for text in ["", "# nothing", "instances: []", "instances: {}", "apply: {}", "x-a: 1", "workspace:"] {
        assert_eq!(stack(text), StackConfig::default(), "{text}");
    }
}

#[test]
fn scalars_read_as_text_keep_their_spelling() {
    let config = root("tool_version: 1.10\nenv: { TF_VAR_n: 3, TF_VAR_b: yes, TF_VAR_f: 1e3, TF_VAR_t: true }");
    assert_eq!(config.tool_version, "1.10");
    let texts: Vec<&EnvValue> = config.env.values().collect();
    let every = |text: &str| EnvValue::Every(text.to_owned());
    assert_eq!(texts, [&every("yes"), &every("1e3"), &every("3"), &every("true")]);
}

#[test]
fn merge_keys_reach_every_part_of_the_file() {
    let config = root(
        "
x-env: &env { A: a, B: b }
x-apply: &apply { mode: on_merge, four_eyes: true }
env: { <<: *env, B: c }
apply: { <<: *apply, four_eyes: false }
",
    );
    assert_eq!(config.env["A"], EnvValue::Every("a".to_owned()));
    assert_eq!(config.env["B"], EnvValue::Every("c".to_owned()));
    assert_eq!((config.apply.mode, config.apply.four_eyes), (ApplyMode::OnMerge, false));
}

#[test]
fn an_empty_root_file_says_what_the_least_is() {
    for text in ["", "# only a comment\n", "---\n"] {
        let problems = parse_repo_config("stackorder.yaml", text.as_bytes()).unwrap_err();
        assert_eq!(problems[0].to_string(), "stackorder.yaml: file is empty; the minimum is `version: 1`");
    }
}

#[test]
fn every_problem_is_reported_with_file_key_and_value() {
    let text = "version: 2
tol: tofu
apply: { mode: yolo, max_parallel: 0 }
backend_config: ['', a=b, =x]
";
    let problems = parse_repo_config("stackorder.yaml", text.as_bytes()).unwrap_err();
    let shown: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert_eq!(
        shown,
        [
            "stackorder.yaml: version: \"2\": only 1 is supported (line 1)",
            "stackorder.yaml: tol: key \"tol\" is not known here; did you mean `tool`? (line 2)",
            "stackorder.yaml: apply.max_parallel: \"0\": must be at least 1 (line 3)",
            "stackorder.yaml: apply.mode: \"yolo\" is not one of before_merge, on_merge (line 3)",
            "stackorder.yaml: backend_config[0]: empty entry (line 4)",
            "stackorder.yaml: backend_config[2]: \"=x\": no attribute name before the = (line 4)",
        ]
    );
}

#[test]
fn a_file_of_nothing_but_mistakes_is_answered_briefly() {
    let text: String = (0..20_000).map(|key| format!("key{key}: 1\n")).collect();
    for problems in [
        parse_repo_config("f", text.as_bytes()).unwrap_err(),
        parse_repo_config("f", format!("env:\n  A: {{ {} }}", text.replace('\n', ", ")).as_bytes()).unwrap_err(),
        parse_stack_config("f", "a: 1\n".repeat(20_000).as_bytes()).unwrap_err(),
    ] {
        assert!((1..=201).contains(&problems.len()), "{}", problems.len());
    }
    let fewer: String = text.lines().take(5_000).map(|line| format!("{line}\n")).collect();
    let problems = parse_repo_config("f", fewer.as_bytes()).unwrap_err();
    assert_eq!(problems.last().unwrap().to_string(), "f: only the first 200 problems are listed");
}

#[test]
fn wrong_types_and_broken_yaml_name_the_line() {
    root_refuses(&[
        ("a: [", "", "not YAML"),
        ("tool: terraform\ntool: tofu\n", "tool", "key \"tool\" stands on line 1 already"),
        ("[a]", "", "expected a mapping, found a list"),
        ("text", "", "expected a mapping, found \"text\""),
        ("apply: x", "apply", "expected a mapping, found \"x\""),
        ("backend_config: x", "backend_config", "expected a list of texts"),
        ("backend_config: [[x]]", "backend_config[0]", "expected a text, found a list"),
        ("plan_lock: yes", "plan_lock", "expected true or false, found \"yes\""),
        ("plan_lock: 'true'", "plan_lock", "expected true or false"),
        ("version: '1'", "version", "expected an integer"),
        ("version: 1.0", "version", "expected an integer"),
        ("apply: { max_parallel: many }", "apply.max_parallel", "expected an integer"),
        ("apply: { max_parallel: 4294967296 }", "apply.max_parallel", "at most"),
        ("tool_version: \"1\\n2\"", "tool_version", "line breaks"),
    ]);
}

#[test]
fn unknown_keys_are_refused_at_any_depth() {
    root_refuses(&[
        ("tools: x", "tools", "is not known here"),
        ("stacks: { discovr: [] }", "stacks.discovr", "did you mean `discover`?"),
        ("stacks: { instances: { from: x } }", "stacks.instances.from", "is not known here"),
        ("modules: { path: [] }", "modules.path", "did you mean `paths`?"),
        ("apply: { approvals: 1 }", "apply.approvals", "is not known here"),
        ("propagate: { cross: x }", "propagate.cross", "is not known here"),
        ("drift: { cron: x }", "drift.cron", "is not known here"),
        ("checks: { max: 1 }", "checks.max", "is not known here"),
        ("env: { A: { plan: x, aply: y } }", "env.A.aply", "did you mean `apply`?"),
    ]);
    stack_refuses(&[
        ("depend_on: []", "depend_on", "did you mean `depends_on`?"),
        ("apply: { mode: on_merge }", "apply.mode", "is not known here"),
        ("instances: { a: { tool: tofu } }", "instances.a.tool", "is not known here"),
        ("instances: { a: { tool_version: x } }", "instances.a.tool_version", "is not known here"),
        ("instances: { a: { instances: [b] } }", "instances.a.instances", "is not known here"),
        ("instances: { a: { apply: { four_eyes: true } } }", "instances.a.apply.four_eyes", "is not known here"),
    ]);
}

#[test]
fn a_known_key_at_the_wrong_place_is_sent_to_the_right_one() {
    root_refuses(&[
        ("instances: [a]", "instances", "`instances` belongs below `stacks` or in .stackorder.yaml"),
        ("watch: [x]", "watch", "`watch` belongs in .stackorder.yaml"),
        ("stacks: { depends_on: [x] }", "stacks.depends_on", "`depends_on` belongs in .stackorder.yaml"),
        ("mode: on_merge", "mode", "`mode` belongs below `apply`"),
        ("apply: { env: { A: b } }", "apply.env", "`env` belongs at the top level"),
        ("env: { var_files: [x] }", "env.var_files", "`var_files` belongs at the top level"),
        ("env: { stacks: { discover: [x] } }", "env.stacks", "is needed; `stacks` belongs at the top level"),
    ]);
    stack_refuses(&[
        ("stacks: { discover: [x] }", "stacks", "`stacks` belongs in stackorder.yaml"),
        ("apply: { mode: on_merge }", "apply.mode", "`mode` belongs below `apply` in stackorder.yaml"),
        ("allowed_teams: [x]", "allowed_teams", "`allowed_teams` belongs below `apply`"),
        ("env: { A: { workspace: x } }", "env.A.workspace", "`workspace` belongs at the top level"),
        ("env: { watch: [x] }", "env.watch", "`watch` belongs at the top level"),
        ("instances: { a: { tool: tofu } }", "instances.a.tool", "`tool` belongs at the top level"),
    ]);
    assert!(stack("env: { workspace: x }").env.contains_key("workspace"), "the name of a variable is free");
}

#[test]
fn the_root_file_is_validated_as_the_table_says() {
    root_refuses(&[
        ("version: 2", "version", "only 1 is supported"),
        ("tool: pulumi", "tool", "is not one of terraform, tofu"),
        ("apply: { mode: yolo }", "apply.mode", "is not one of before_merge, on_merge"),
        ("apply: { on_conflict: wait }", "apply.on_conflict", "is not one of refuse, queue"),
        ("apply: { require_up_to_date: on }", "apply.require_up_to_date", "is not one of affected, off"),
        ("propagate: { cross_repo: apply }", "propagate.cross_repo", "is not one of off, plan"),
        ("plan_output: none", "plan_output", "is not one of full, summary"),
        ("apply: { require_approvals: -1 }", "apply.require_approvals", "\"-1\": must not be negative"),
        ("checks: { per_stack_max: -1 }", "checks.per_stack_max", "must not be negative"),
        ("apply: { max_parallel: 0 }", "apply.max_parallel", "must be at least 1"),
        ("apply: { max_parallel: -5 }", "apply.max_parallel", "must be at least 1"),
        ("drift: { schedule: '@daily' }", "drift.schedule", "@daily"),
        ("drift: { schedule: '0 6 * *' }", "drift.schedule", "4 fields"),
        ("drift: { schedule: '0 6 * * * *' }", "drift.schedule", "6 fields"),
        ("drift: { schedule: '61 6 * * *' }", "drift.schedule", "minute"),
        ("drift: { schedule: 'CRON_TZ=Nowhere/X 0 6 * * *' }", "drift.schedule", "unknown time zone"),
        ("environments: { '': x }", r#"environments[""]"#, "an empty prefix needs an instance part"),
        ("environments: { /: x }", r#"environments["/"]"#, "an empty prefix needs an instance part"),
        ("environments: { ./: x }", r#"environments["./"]"#, "an empty prefix needs an instance part"),
        ("environments: { 'a/:': x }", r#"environments["a/:"]"#, "empty instance name"),
        ("environments: { ':default': x }", r#"environments[":default"]"#, "reserved"),
        ("environments: { 'a/:-x': x }", r#"environments["a/:-x"]"#, "starts with a letter or digit"),
        ("environments: { 'a:b:c': x }", r#"environments["a:b:c"]"#, "the prefix contains \":\""),
        ("environments: { a: '' }", r#"environments["a"]"#, "empty environment name"),
        ("environments: { a: '{{ .X }}' }", r#"environments["a"]"#, "unknown field .X"),
        ("environments: { a: x, a/: y }", "environments", "\"a\" and \"a/\" have the same prefix and instance"),
        ("environments: { a/: x, ./a: y }", "environments", "\"a/\" and \"./a\""),
        ("stacks: { discover: [''] }", "stacks.discover[0]", "empty glob"),
        ("stacks: { exclude: [''] }", "stacks.exclude[0]", "empty glob"),
        ("modules: { paths: [''] }", "modules.paths[0]", "empty glob"),
        ("stacks: { exclude: [/a] }", "stacks.exclude[0]", "not a repository-relative glob"),
        ("stacks: { exclude: [a, '[b'] }", "stacks.exclude[1]", "not a repository-relative glob"),
        (
            "stacks: { instances: { from_var_files: /a } }",
            "stacks.instances.from_var_files",
            "not a stack-relative glob",
        ),
        (
            "stacks: { instances: { from_var_files: '{a' } }",
            "stacks.instances.from_var_files",
            "not a stack-relative glob",
        ),
        (
            "stacks: { instances: { from_var_files: ../a } }",
            "stacks.instances.from_var_files",
            "not a stack-relative glob",
        ),
        ("stacks: { include: [''] }", "stacks.include[0]", "must be a repository-relative path"),
        ("stacks: { include: [/a] }", "stacks.include[0]", "must be a repository-relative path"),
        ("stacks: { include: [a/../..] }", "stacks.include[0]", "must be a repository-relative path"),
        ("backend_config: ['  ']", "backend_config[0]", "empty entry"),
        ("backend_config: [a=b, ]\nvar_files: ['']", "var_files[0]", "empty path"),
        ("backend_config: [=x]", "backend_config[0]", "no attribute name"),
        ("backend_config: [/etc/x]", "backend_config[0]", "must be repository relative"),
        ("backend_config: ['{{ .X }}']", "backend_config[0]", "unknown field .X"),
        ("var_files: [/x]", "var_files[0]", "must be stack relative"),
        ("env: { 1A: x }", "env.1A", "a name is a letter or _"),
        ("env: { A-B: x }", "env.A-B", "a name is a letter or _"),
        ("env: { stackorder_X: x }", "env.stackorder_X", "prefix STACKORDER_ is reserved"),
        ("env: { GITHUB_TOKEN: x }", "env.GITHUB_TOKEN", "prefix GITHUB_ is reserved"),
        ("env: { ACTIONS_X: x }", "env.ACTIONS_X", "reserved"),
        ("env: { RUNNER_X: x }", "env.RUNNER_X", "reserved"),
        ("env: { Path: x }", "env.Path", "reserved"),
        ("env: { HOME: x }", "env.HOME", "reserved"),
        ("env: { A: [x] }", "env.A", "a text or a mapping of plan, apply and drift"),
        ("env: { A: {} }", "env.A", "at least one of plan, apply, drift"),
        ("env: { A: { destroy: x } }", "env.A.destroy", "is not known here"),
        ("env: { A: }", "env.A", "write \"\""),
        ("env: { A: { plan: } }", "env.A.plan", "write \"\""),
        ("env: { A: { apply: '{{ nope }}' } }", "env.A.apply", "unknown function \"nope\""),
        ("apply: { allowed_teams: [''] }", "apply.allowed_teams[0]", "empty team"),
        ("apply: { allowed_teams: [a/b/c] }", "apply.allowed_teams[0]", "a team is slug or org/slug"),
        ("apply: { required_checks: ['a b'] }", "apply.required_checks[0]", "a check name has letters"),
        ("apply: { required_checks: [plan] }", "apply.required_checks[0]", "reserved"),
        ("stacks: { plan_files: [''] }", "stacks.plan_files[0]", "empty glob"),
        ("stacks: { plan_files: [/a] }", "stacks.plan_files[0]", "must stay inside the stack directory"),
        ("stacks: { plan_files: [a/../../b] }", "stacks.plan_files[0]", "must stay inside the stack directory"),
        ("stacks: { plan_files: [.terraform/x] }", "stacks.plan_files[0]", "must stay inside the stack directory"),
        ("stacks: { plan_files: [./.terraform/**] }", "stacks.plan_files[0]", "must stay inside the stack directory"),
        ("stacks: { discover: [./a/**] }", "stacks.discover[0]", "globs here start at the repository root"),
        ("stacks: { exclude: [../a] }", "stacks.exclude[0]", "globs here start at the repository root"),
        ("stacks: { ignore: [./a] }", "stacks.ignore[0]", "globs here start at the repository root"),
        ("modules: { paths: [../m/**] }", "modules.paths[0]", "globs here start at the repository root"),
    ]);
}

#[test]
fn a_malformed_ignore_glob_is_no_error() {
    assert_eq!(root("stacks: { ignore: ['[a', ''] }").stacks.ignore, ["[a", ""]);
}

#[test]
fn teams_are_slugs_with_or_without_an_organisation() {
    let teams = ["infra", "@infra", "acme/sre", "@acme/sre"];
    assert_eq!(root(&format!("apply: {{ allowed_teams: {teams:?} }}")).apply.allowed_teams, teams);
}

#[test]
fn the_example_stack_file_of_the_manual_is_read_whole() {
    let config = stack(
        r#"
depends_on:
  - live/network
  - live/dns:shared
  - acme/net//live/tgw:{{ .Instance }}
backend_config: ["region=eu-south-1"]
instances:
  staging:
  production:
    environment: kyc-prod
    apply: { allowed_teams: [kyc-prod] }
    env: { TF_VAR_replicas: "3" }
"#,
    );
    assert_eq!(config.depends_on.len(), 3);
    assert_eq!(config.instances["staging"], InstanceConfig::default());
    let production = &config.instances["production"];
    assert_eq!(production.environment, "kyc-prod");
    assert_eq!(production.apply.allowed_teams, ["kyc-prod"]);
    assert_eq!(production.env["TF_VAR_replicas"], EnvValue::Every("3".to_owned()));
}

#[test]
fn files_to_watch_are_globs_from_the_stack_directory_that_may_climb() {
    let globs = ["../../lambda/**", "./x/*.{json,yaml}", "../{{ .Instance }}/[!a]?", "..", "a/../b/"];
    let text = format!("watch: {globs:?}\ninstances: {{ a: {{ watch: {globs:?} }} }}");
    assert_eq!(stack(&text).watch, globs);
    assert_eq!(stack(&text).instances["a"].watch, globs);
}

#[test]
fn instances_are_a_list_or_a_map() {
    assert_eq!(stack("instances: [b, a, 1]"), stack("instances: { 1: {}, a: , b: }"));
    let config =
        stack("instances: { a: { workspace: w, depends_on: [x], ignore_inferred: [y], plan_output: summary } }");
    let expected = InstanceConfig {
        workspace: "w".to_owned(),
        depends_on: vec!["x".to_owned()],
        ignore_inferred: vec!["y".to_owned()],
        plan_output: Some(PlanOutput::Summary),
        ..InstanceConfig::default()
    };
    assert_eq!(config.instances["a"], expected);
}

#[test]
fn the_stack_file_is_validated_as_the_table_says() {
    let long = format!("instances: [{}]", "a".repeat(65));
    stack_refuses(&[
        ("depends_on: ['']", "depends_on[0]", "empty stack reference"),
        ("depends_on: [a, ]\ndepends_on2: 1", "depends_on2", "is not known here"),
        ("depends_on: [/a]", "depends_on[0]", "\"/a\": must be repository relative"),
        ("depends_on: [../a]", "depends_on[0]", "must be repository relative"),
        ("depends_on: [live//vpc]", "depends_on[0]", "must be owner/repo"),
        ("depends_on: ['/{{ .Name }}']", "depends_on[0]", "must be repository relative"),
        ("depends_on: ['{{ if eq .Name `x` }}a{{ end }}']", "depends_on[0]", "empty stack reference"),
        ("ignore_inferred: ['']", "ignore_inferred[0]", "empty stack key"),
        ("ignore_inferred: ['{{ .X }}']", "ignore_inferred[0]", "unknown field .X"),
        ("watch: ['']", "watch[0]", "empty glob"),
        ("watch: x", "watch", "expected a list of texts"),
        ("watch: [a, /x]", "watch[1]", "\"/x\": must be stack relative"),
        ("watch: ['[a']", "watch[0]", "not a stack-relative glob"),
        ("watch: ['*/../x']", "watch[0]", ".. must stand in front of every pattern"),
        ("watch: ['{../a,b}/x']", "watch[0]", ".. must stand in front of every pattern"),
        ("watch: ['{{ .X }}/**']", "watch[0]", "unknown field .X"),
        ("instances: { a: { watch: [''] } }", "instances.a.watch[0]", "empty glob"),
        ("workspace: a/b", "workspace", "invalid characters"),
        ("workspace: a:b", "workspace", "invalid characters"),
        ("workspace: a b", "workspace", "invalid characters"),
        ("workspace: \"a\\tb\"", "workspace", "invalid characters"),
        ("workspace: a+b", "workspace", "it names the directory's only instance"),
        ("workspace: Default", "workspace", "reserved"),
        ("instances: a", "instances", "must be a list of names or a map"),
        ("instances: [a, a]", "instances", "\"a\" is listed twice"),
        ("instances: [a, ~]", "instances", "empty name"),
        ("instances: [Default]", "instances", "reserved"),
        ("instances: [_a]", "instances", "starts with a letter or digit"),
        ("instances: { a b: }", "instances", "starts with a letter or digit"),
        (&long, "instances", "longer than 64"),
        ("instances: { a: x }", "instances.a", "expected a mapping"),
        ("instances: { a: { workspace: a/b } }", "instances.a.workspace", "invalid characters"),
        (
            "instances: { prod: { env: { X: { apply: '{{ .Nope }}' } } } }",
            "instances.prod.env.X.apply",
            "unknown field",
        ),
        ("instances: { a: { backend_config: [=x] } }", "instances.a.backend_config[0]", "no attribute name"),
        ("instances: { a: { plan_output: x } }", "instances.a.plan_output", "is not one of"),
        ("instances: { a: { apply: { allowed_teams: [''] } } }", "instances.a.apply.allowed_teams[0]", "empty team"),
        ("tool: x", "tool", "is not one of terraform, tofu"),
        ("plan_output: x", "plan_output", "is not one of full, summary"),
        ("backend_config: ['']", "backend_config[0]", "empty entry"),
        ("var_files: [/x]", "var_files[0]", "must be stack relative"),
        ("env: { HOME: x }", "env.HOME", "reserved"),
        ("apply: { allowed_teams: [''] }", "apply.allowed_teams[0]", "empty team"),
        ("environment: '{{ range .Path }}{{ end }}'", "environment", "{{ range }} is refused"),
        ("environment: '{{ lower }}'", "environment", "wrong number of arguments"),
        ("environment: '{{ if }}'", "environment", "syntax error"),
        ("environment: '{{ printf .Path }}'", "environment", "\"printf\" is refused"),
    ]);
    let output = format!("environment: '{{{{ .Name }}}}{}'", "x".repeat(5000));
    stack_refuses(&[(&output, "environment", "output over 4096 bytes")]);
}

#[test]
fn overrides_of_a_badly_named_instance_are_not_checked_further() {
    let problems = parse_stack_config("f", b"instances: { default: { tool: x, workspace: a/b } }").unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn a_workspace_need_not_be_an_instance_name_when_there_are_instances() {
    assert_eq!(stack("workspace: a+b\ninstances: [x]").workspace, "a+b");
    assert_eq!(stack("workspace: default").workspace, "default");
    assert_eq!(stack("workspace: '{{ .Path }}'").workspace, "{{ .Path }}");
}

#[test]
fn both_files_survive_their_json_form() {
    let config = root("env: { A: { plan: x } }\nstacks: { ignore: [] }\napply: { on_conflict: queue }");
    assert_eq!(serde_json::from_value::<RepoConfig>(serde_json::to_value(&config).unwrap()).unwrap(), config);
    let config = stack("instances: { a: { env: { X: y } } }\ndepends_on: [b]");
    assert_eq!(serde_json::from_value::<StackConfig>(serde_json::to_value(&config).unwrap()).unwrap(), config);
}

proptest! {
    #[test]
    fn no_file_makes_the_parsers_panic(
        lines in prop::collection::vec(
            prop::sample::select(vec![
                "version: 1", "stacks:", "  discover: [a]", "  instances: { from_var_files: x }", "env:", "  A: { plan: x }",
                "  B:", "instances:", "  a: { env: { X: [] } }", "  - b", "depends_on: ['{{ .Path }}', //, a//b]", "<<: *a",
                "x-a: &a { tool: tofu }", "environments: { ':a': b, a:b:c: d }", "apply: 1", "? [x]", "- ", "workspace: ~",
            ]),
            0..8,
        ),
    ) {
        let text = lines.join("\n");
        let _ = parse_repo_config("stackorder.yaml", text.as_bytes());
        let _ = parse_stack_config(".stackorder.yaml", text.as_bytes());
    }
}

/// BL-159: overriding an anchored value is no duplicate; writing a key twice is.
#[test]
fn bl_159_merge_keys_are_no_duplicates_and_literal_ones_have_both_lines() {
    let merged = "x-d: &d { plan: a, apply: w }\nenv:\n  A:\n    <<: *d\n    plan: b\n";
    let both = EnvValue::PerMode { plan: Some("b".to_owned()), apply: Some("w".to_owned()), drift: None };
    assert_eq!(root(merged).env["A"], both);
    let twice = "apply:\n  mode: on_merge\n  four_eyes: true\n  mode: before_merge\ntool: x\n";
    let problems = parse_repo_config("stackorder.yaml", twice.as_bytes()).unwrap_err();
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let expected = [
        "stackorder.yaml: apply.mode: key \"mode\" stands on line 2 already (line 4)",
        "stackorder.yaml: tool: \"x\" is not one of terraform, tofu (line 5)",
    ];
    assert_eq!(shown, expected);
}

/// BL-160: there is a place for anchors at every level, and every other unknown key is an error with the nearest name.
#[test]
fn bl_160_keys_that_start_with_x_are_allowed_everywhere_and_no_other_unknown_key_is() {
    let level = "x-a: &a [1, { b: c }]";
    for holder in ["stacks", "stacks: { instances", "modules", "apply", "propagate", "drift", "checks", "env"] {
        let closing = if holder.contains('{') { " }" } else { "" };
        let text = format!("{{ {level}, {holder}: {{ x-b: *a }}{closing} }}");
        assert_eq!(root(&text), RepoConfig::default(), "{text}");
    }
    let own = stack(&format!("{level}\napply: {{ x-b: *a }}\ninstances: {{ i: {{ x-b: *a, apply: {{ x-c: *a }} }} }}"));
    assert_eq!(own.instances["i"], InstanceConfig::default());
    assert!(root("env: { A: { plan: p, x-b: [] } }").env.contains_key("A"));
    root_refuses(&[("xdefaults: 1", "xdefaults", "is not known here"), ("tols: x", "tols", "did you mean `tool`?")]);
}

/// BL-162: a leading dot never switches the base of a glob.
#[test]
fn bl_162_each_glob_has_one_base_whatever_it_starts_with() {
    let says = "globs here start at the repository root";
    for key in ["discover", "exclude", "ignore"] {
        for glob in ["./modules/**", "../modules/**"] {
            let text = format!("stacks: {{ {key}: [{glob}] }}");
            root_refuses(&[(&text, &format!("stacks.{key}[0]"), says)]);
        }
    }
    root_refuses(&[
        ("modules: { paths: [../modules/**] }", "modules.paths[0]", says),
        (
            "stacks: { instances: { from_var_files: '../*.tfvars' } }",
            "stacks.instances.from_var_files",
            "stack-relative",
        ),
        ("stacks: { plan_files: ['../*.zip'] }", "stacks.plan_files[0]", "must stay inside the stack directory"),
    ]);
    assert_eq!(root("stacks: { instances: { from_var_files: ./envs/*.tfvars } }").stacks.discover, ["stacks/**"]);
}
