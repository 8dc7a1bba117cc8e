//! `stackorder init`, as a person types it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const STACK: &str = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key    = \"net\"\n  }\n}\n";
const FILES: [&str; 3] =
    ["stackorder.yaml", ".github/workflows/stackorder-plan.yml", ".github/workflows/stackorder-run.yml"];

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn read(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap()
}

fn stackorder(root: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stackorder"));
    command.args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.current_dir(root).arg("--repo-root").arg(root).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The sample repository as it would be before anybody heard of Stackorder's root file and workflows.
fn sample() -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if from.is_dir() {
                copy(&from, &to);
            } else {
                std::fs::copy(&from, &to).unwrap();
            }
        }
    }
    let place = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/repository"), place.path());
    std::fs::remove_dir_all(place.path().join(".github")).unwrap();
    std::fs::remove_file(place.path().join("stackorder.yaml")).unwrap();
    place
}

#[test]
fn the_files_of_the_sample_repository_are_written_and_right_at_once() {
    let place = sample();
    let output = stackorder(place.path(), &["init", "--aws-account", "444455556666"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for words in [
        "8 stacks found",
        "wrote .github/workflows/stackorder-run.yml",
        "arn:aws:iam::444455556666:role/apply-prod\n",
        "\"repo:<owner>/<repository>:environment:prod\"",
        "create these environments with their reviewers: prod, staging",
    ] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    assert!(read(place.path(), FILES[2]).contains("\"@prod\": \"arn:aws:iam::444455556666:role/apply-prod\""));

    let output = stackorder(place.path(), &["config", "validate"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "6 files, no problem\n"));
    let graph: Value =
        serde_json::from_slice(&stackorder(place.path(), &["graph", "--format", "json"]).stdout).unwrap();
    assert_eq!(graph["stacks"].as_array().unwrap().len(), 8);
}

#[test]
fn a_dry_run_prints_the_files_and_json_is_one_document() {
    let place = sample();
    let output = stackorder(place.path(), &["init", "--dry-run"]);
    assert!(stdout(&output).contains("--- stackorder.yaml ---\n# yaml-language-server:"), "{}", stdout(&output));
    let json = stackorder(
        place.path(),
        &["init", "--dry-run", "--format", "json", "--owner-id", "7", "--repository-id", "42"],
    );
    let found: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(found["written"], false);
    let paths: Vec<&str> = found["files"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(paths, FILES);
    assert!(found["roles"][0]["trust_policy"].to_string().contains("@7/<repository>@42:pull_request"));
    assert!(!place.path().join(FILES[0]).exists() && !place.path().join(".github").exists());
}

#[test]
fn what_exists_is_replaced_by_force_alone() {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "stacks/net/main.tf", STACK);
    write(place.path(), FILES[1], "name: mine\n");
    let output = stackorder(place.path(), &["init"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("stackorder-plan.yml exists already; --force replaces it"), "{}", stderr(&output));
    assert!(!place.path().join(FILES[0]).exists());
    assert_eq!(read(place.path(), FILES[1]), "name: mine\n");

    let output = stackorder(place.path(), &["init", "--force"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(read(place.path(), FILES[1]).starts_with("name: stackorder plan\n"));
    let again = FILES.map(|path| read(place.path(), path));
    assert_eq!(stackorder(place.path(), &["init", "--force"]).status.code(), Some(0));
    assert_eq!(FILES.map(|path| read(place.path(), path)), again, "the same checkout gives the same bytes");
}

#[test]
fn without_a_stack_or_with_a_mistake_nothing_is_written() {
    let place = tempfile::tempdir().unwrap();
    let output = stackorder(place.path(), &["init"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no Terraform file in this checkout"), "{}", stderr(&output));

    write(place.path(), "stacks/net/main.tf", STACK);
    write(place.path(), "stacks/net/.stackorder.yaml", "depend_on: []\n");
    let output = stackorder(place.path(), &["init"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("did you mean `depends_on`?"), "{}", stderr(&output));

    let output = stackorder(place.path(), &["init", "--aws-account", "12"]);
    assert!(stderr(&output).contains("an account id has twelve digits"), "{}", stderr(&output));
    assert!(!place.path().join(FILES[0]).exists());
}
