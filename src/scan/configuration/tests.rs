use super::*;
use crate::scan::{EntryKind, MemoryFiles};

const STACK: &str = "terraform {\n  backend \"s3\" {}\n}\n";

fn options() -> ScanOptions {
    ScanOptions::new("acme/infra", "")
}

fn problems(files: &MemoryFiles) -> Vec<String> {
    check(files, &options()).problems.iter().map(ToString::to_string).collect()
}

#[test]
fn all_problems_of_all_files_are_reported_together_and_sorted() {
    let files = MemoryFiles::default()
        .with("stackorder.yaml", "version: 1\nstacks: { discovr: ['live/**'] }\ntool: pulumi\n")
        .with("live/b/.stackorder.yaml", "workspce: x\n")
        .with("live/a/.stackorder.yaml", "tool: x\ntool: y\nenv: { HOME: z }\n")
        .with("docs/.stackorder.yml", "")
        .with("live/a/main.tf", STACK);
    let expected = [
        "docs/.stackorder.yml: the file is not read; did you mean `.stackorder.yaml`?",
        "live/a/.stackorder.yaml: tool: \"x\" is not one of terraform, tofu (line 1)",
        "live/a/.stackorder.yaml: tool: key \"tool\" stands on line 1 already (line 2)",
        "live/a/.stackorder.yaml: env.HOME: \"HOME\": the name is reserved (line 3)",
        "live/b/.stackorder.yaml: workspce: key \"workspce\" is not known here; did you mean `workspace`? (line 1)",
        "stackorder.yaml: stacks.discovr: key \"discovr\" is not known here; did you mean `discover`? (line 2)",
        "stackorder.yaml: tool: \"pulumi\" is not one of terraform, tofu (line 3)",
    ];
    assert_eq!(problems(&files), expected);
    let stopped = scan(&files, &options()).unwrap_err();
    let shown: Vec<String> = stopped.iter().map(ToString::to_string).collect();
    assert_eq!(shown, expected[1..], "a scan says the same of the files that it would read");
}

#[test]
fn values_that_only_a_real_instance_shows_to_be_wrong_have_their_line() {
    let files = MemoryFiles::default()
        .with(
            "stackorder.yaml",
            "stacks: { discover: ['live/**'] }\nbackend_config:\n  - a=b\n  - '{{ .Name }}.tfbackend'\n",
        )
        .with("live/a/.stackorder.yaml", "instances:\n  x:\n    workspace: '{{ .Key }}'\n")
        .with("live/a/main.tf", STACK)
        .with("a.tfbackend", "")
        .with("live/b/main.tf", STACK);
    let found = check(&files, &options());
    assert_eq!(found.files, ["live/a/.stackorder.yaml", "stackorder.yaml"]);
    let shown: Vec<(&str, &str, Option<u32>)> =
        found.problems.iter().map(|it| (it.file.as_str(), it.path.as_str(), it.line)).collect();
    let expected = [
        ("live/a/.stackorder.yaml", "instances.x.workspace", Some(3)),
        ("stackorder.yaml", "backend_config[1]", Some(4)),
    ];
    assert_eq!(shown, expected);
    assert_eq!(found.problems[1].message, "\"b.tfbackend\": no such file");
}

#[test]
fn a_configuration_file_that_leads_out_of_the_checkout_is_never_followed() {
    let leaves = || EntryKind::BadLink { reason: "the link leads out of the checkout".to_owned() };
    for file in ["stackorder.yaml", "stacks/a/.stackorder.yaml"] {
        let files = MemoryFiles::default().with("stacks/a/main.tf", STACK).with_entry(file, leaves());
        assert_eq!(problems(&files), [format!("{file}: the link leads out of the checkout")]);
    }
}

#[test]
fn every_stack_has_its_settings_with_their_origins() {
    let files = MemoryFiles::default()
        .with("stackorder.yaml", "stacks:\n  instances: { from_var_files: '*.tfvars' }\n")
        .with("stacks/b/main.tf", STACK)
        .with("stacks/b/prod.tfvars", "")
        .with("stacks/a/.stackorder.yaml", "tool: tofu\n")
        .with("stacks/a/main.tf", STACK);
    let found = stack_settings(&files, &options()).unwrap();
    assert_eq!(found.iter().map(|it| it.stack.as_str()).collect::<Vec<_>>(), ["stacks/a", "stacks/b:prod"]);
    let origin = |stack: usize, key: &str| {
        found[stack].settings.iter().find(|row| row.key == key).map(|row| row.origin.to_string())
    };
    assert_eq!(origin(0, "tool").as_deref(), Some("stacks/a/.stackorder.yaml:1 tool"));
    assert_eq!(origin(1, "tool").as_deref(), Some("default"));
    let from = "stackorder.yaml:2 stacks.instances.from_var_files";
    assert_eq!(origin(1, "var_files[0]").as_deref(), Some(from));
}

/// BL-063: a stack at `.` must not swallow the stacks below it.
#[test]
fn bl_063_a_glob_for_everything_makes_each_directory_a_stack_of_its_own() {
    for discover in ["['**']", "[dev, '*']", "['.', dev]"] {
        let files = MemoryFiles::default()
            .with("stackorder.yaml", format!("stacks: {{ discover: {discover} }}\n"))
            .with("main.tf", STACK)
            .with("dev/main.tf", STACK);
        let graph = scan(&files, &options()).unwrap().graph;
        assert_eq!(graph.stacks.iter().map(|stack| stack.key.as_str()).collect::<Vec<_>>(), ["dev"], "{discover}");
    }
}
