//! `stackorder config`, as a person types it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn sample() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "stackorder.yaml", "version: 1\ntool: tofu\nstacks:\n  discover: ['live/**']\n");
    write(place.path(), "live/net/main.tf", "terraform {\n  backend \"s3\" {}\n}\n");
    write(place.path(), "live/net/.stackorder.yaml", "instances: { eu: { environment: net-eu }, us: }\n");
    place
}

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn config(root: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stackorder"));
    command.arg("config").args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.current_dir(root).arg("--repo-root").arg(root).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_right_configuration_is_said_to_be_right() {
    let place = sample();
    let output = config(place.path(), &["validate"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "2 files, no problem\n"));
    let nothing = tempfile::tempdir().unwrap();
    let output = config(nothing.path(), &["validate"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).starts_with("no configuration file"), "{}", stdout(&output));
}

#[test]
fn every_mistake_is_one_line_and_the_command_leaves_with_1() {
    let place = sample();
    write(place.path(), "stackorder.yaml", "tool: tofo\nstacks: { discovr: [] }\n");
    write(place.path(), "live/net/.stackorder.yaml", "depend_on: []\n");
    let output = config(place.path(), &["validate"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "\
live/net/.stackorder.yaml: depend_on: key \"depend_on\" is not known here; did you mean `depends_on`? (line 1)
stackorder.yaml: tool: \"tofo\" is not one of terraform, tofu (line 1)
stackorder.yaml: stacks.discovr: key \"discovr\" is not known here; did you mean `discover`? (line 2)
";
    assert_eq!(stdout(&output), expected);

    let output = config(place.path(), &["validate", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["problems"][1]["path"], "tool");
    assert_eq!(found["problems"][1]["line"], 1);
}

#[test]
fn the_settings_of_a_stack_say_where_they_come_from() {
    let place = sample();
    let output = config(place.path(), &["show", "live/net:eu"]);
    let words = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.starts_with("live/net:eu SETTING VALUE FROM tool tofu stackorder.yaml:2 tool "), "{words}");
    let environment = "environment net-eu live/net/.stackorder.yaml:1 instances.eu.environment ";
    assert!(words.contains(environment), "{words}");

    let output = config(place.path(), &["show", "live/net", "--format", "json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stacks: Vec<&Value> = found.as_array().unwrap().iter().map(|it| &it["stack"]).collect();
    assert_eq!(stacks, ["live/net:eu", "live/net:us"]);

    let output = config(place.path(), &["show", "live/nat"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(error, "error: \"live/nat\" is no stack of this checkout; did you mean live/net?\n");
}

#[test]
fn files_to_watch_are_shown_checked_and_reach_their_stack() {
    let place = sample();
    write(place.path(), "live/net/.stackorder.yaml", "watch: ['../../lambda/{{ .Name }}/**']\ninstances: [eu]\n");
    write(place.path(), "lambda/net/handler.py", "");
    let words = |output: Output| stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = words(config(place.path(), &["show", "live/net:eu"]));
    assert!(shown.contains("watch[0] ../../lambda/net/** live/net/.stackorder.yaml:1 watch[0] "), "{shown}");

    write(place.path(), "live/net/.stackorder.yaml", "watch:\n  - ../../../../**\n");
    let output = config(place.path(), &["validate"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "live/net/.stackorder.yaml: watch[0]: \"../../../../**\": leads out of the repository (line 2)\n";
    assert_eq!(stdout(&output), expected);
}

#[test]
fn the_schemas_are_printed_as_they_are_published() {
    let place = tempfile::tempdir().unwrap();
    for (args, published) in [
        (&["schema"][..], include_str!("../../docs/schema/stackorder.json")),
        (&["schema", "--file", "stack"], include_str!("../../docs/schema/stack.json")),
    ] {
        assert_eq!(stdout(&config(place.path(), args)), published);
    }
}
