//! The guides and the program know the same things: headings that are linked to, workflow files, their inputs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use stackorder::guide::{Topic, WARNING_CODES, warning_anchor};

/// Rows of the failure table; each has its heading.
const FAILURES: std::ops::RangeInclusive<u32> = 1..=24;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>();
    kept.replace(' ', "-")
}

/// Anchors of the headings that explain one thing each.
fn explained() -> Vec<String> {
    let guide = std::fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    guide.lines().filter_map(|line| line.strip_prefix("### ")).map(anchor).collect()
}

fn emitted() -> BTreeSet<String> {
    let topics = Topic::ALL.iter().map(|topic| topic.anchor().to_owned());
    let warnings = WARNING_CODES.iter().map(|code| warning_anchor(code).expect("the list is sorted"));
    topics.chain(warnings).collect()
}

fn failure_of(anchor: &str) -> Option<u32> {
    anchor.strip_prefix('f')?.split_once('-')?.0.parse().ok()
}

#[test]
fn every_link_into_the_guide_has_its_heading() {
    let explained: BTreeSet<String> = explained().into_iter().collect();
    let missing: Vec<String> = emitted().into_iter().filter(|anchor| !explained.contains(anchor)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_heading_is_linked_or_is_a_row_of_the_failure_table() {
    let emitted = emitted();
    let explained = explained();
    let idle: Vec<&String> =
        explained.iter().filter(|anchor| !emitted.contains(*anchor) && failure_of(anchor).is_none()).collect();
    assert!(idle.is_empty(), "{idle:#?}");
    let failures: Vec<u32> = explained.iter().filter_map(|anchor| failure_of(anchor)).collect();
    assert_eq!(failures, FAILURES.collect::<Vec<u32>>(), "each once, in order");
    let distinct: BTreeSet<&String> = explained.iter().collect();
    assert_eq!(distinct.len(), explained.len(), "a heading stands twice, so its second anchor is another one");
}

#[test]
fn links_within_the_guide_lead_to_its_headings() {
    let guide = std::fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let headings: BTreeSet<String> =
        guide.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' ')).map(anchor).collect();
    let targets = guide.split("](#").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let wrong: Vec<&str> = targets.filter(|target| !headings.contains(*target)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A code that is written where a warning is made stands in the list, or nobody would find it in the guide.
#[test]
fn every_code_of_a_warning_is_known_to_the_guide() {
    let mut found = BTreeSet::new();
    for folder in ["src/scan", "src/graph", "src/config"] {
        for path in sources(&root().join(folder)) {
            let text = std::fs::read_to_string(&path).unwrap();
            for call in ["Warning::new(", "warning_in("] {
                for rest in text.split(call).skip(1) {
                    let Some(rest) = rest.trim_start().strip_prefix('"') else { continue };
                    let code = rest.split('"').next().unwrap_or_default();
                    found.insert(code.to_owned());
                }
            }
        }
    }
    found.remove("");
    assert!(found.len() > 40, "the sources are written otherwise by now: {found:?}");
    let unknown: Vec<&String> = found.iter().filter(|code| warning_anchor(code).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// Without tests, which make warnings up.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_tests {
            found.extend(sources(&path));
        } else if !is_tests && path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn anchors_are_those_of_github() {
    assert_eq!(anchor("F8: GitHub rejects a dispatch"), "f8-github-rejects-a-dispatch");
    assert_eq!(anchor("Warning: `backend_not_literal`"), "warning-backend_not_literal");
    assert_eq!(anchor("Exit 3: the server cannot be reached"), "exit-3-the-server-cannot-be-reached");
}

/// Every whole workflow of a guide: document, file name, and text. Its first line is a comment with its path.
pub fn workflows() -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for document in GUIDES {
        for block in yaml_blocks(document) {
            let Some(rest) = block.strip_prefix("# .github/workflows/") else { continue };
            let (name, text) = rest.split_once('\n').expect("a workflow below its name");
            let document = document.rsplit('/').next().expect("a name");
            found.push((document.to_owned(), name.to_owned(), text.to_owned()));
        }
    }
    found
}

/// Guides with blocks of YAML that GitHub is meant to read.
const GUIDES: [&str; 4] = ["actions/README.md", "docs/workflows.md", "docs/environments.md", "docs/live-check.md"];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn yaml_blocks(document: &str) -> Vec<String> {
    let text = read(document);
    let blocks = text.split("\n```yaml\n").skip(1);
    blocks.map(|rest| rest.split_once("\n```").expect("the block ends").0.to_owned() + "\n").collect()
}

#[test]
fn blocks_of_yaml_are_yaml() {
    for document in GUIDES {
        for block in yaml_blocks(document) {
            let read: Result<Value, _> = serde_saphyr::from_str(&block);
            assert!(read.is_ok_and(|value| !value.is_null()), "{document}:\n{block}");
        }
    }
}

/// What `stackorder init` says in a repository with stacks of two environments.
fn init(place: &Path, flags: &[&str]) -> Output {
    for environment in ["production", "staging"] {
        let folder = place.join("stacks").join(environment).join("network");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("main.tf"), "terraform {\n  backend \"s3\" {}\n}\n").unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_stackorder"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = command.arg("init").args(flags).arg("--repo-root").arg(place).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn the_wrappers_of_the_guides_are_those_that_init_writes() {
    let place = tempfile::tempdir().unwrap();
    init(place.path(), &[]);
    let wrappers = workflows();
    for (document, name, text) in &wrappers {
        let written = std::fs::read_to_string(place.path().join(".github/workflows").join(name)).unwrap();
        assert_eq!(text, &written, "{document}: {name}");
    }
    assert_eq!(wrappers.len(), 4, "both wrappers in both guides");
}

#[test]
fn the_trust_policies_of_the_guide_are_those_that_init_prints() {
    let place = tempfile::tempdir().unwrap();
    let remote = ["remote", "add", "origin", "https://github.com/acme/infra.git"];
    for arguments in [&["init", "--quiet"][..], &remote[..]] {
        assert!(Command::new("git").args(arguments).current_dir(place.path()).status().unwrap().success());
    }
    let ids = ["--owner-id", "583231", "--repository-id", "1296269", "--aws-account", "444455556666"];
    let output = init(place.path(), &[&["--dry-run", "--format", "json"], &ids[..]].concat());
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let guide = read("docs/environments.md");
    let blocks = guide.split("\n```json\n").skip(1).map(|rest| rest.split_once("\n```").expect("the block ends").0);
    let shown: Vec<Value> = blocks.map(|block| serde_json::from_str(block).unwrap()).collect();
    let roles = said["roles"].as_array().unwrap();
    assert_eq!(shown, [&roles[0]["trust_policy"], &roles[1]["trust_policy"]].map(Value::clone));
}

/// Names that stand in a workflow's `on.workflow_call`, below `inputs` or `secrets`.
fn declared(workflow: &str, kind: &str) -> BTreeSet<String> {
    let text = read(workflow);
    let (_, call) = text.split_once("  workflow_call:\n").expect("it can be called");
    let (_, rest) = call.split_once(&format!("    {kind}:\n")).expect("it declares some");
    let lines = rest.lines().take_while(|line| line.starts_with("      "));
    let names = lines.filter_map(|line| line.strip_prefix("      ").filter(|name| !name.starts_with(' ')));
    names.map(|name| name.trim_end_matches(':').to_owned()).collect()
}

/// First cells of the rows below a heading.
fn rows(document: &str, heading: &str) -> Vec<Vec<String>> {
    let text = read(document);
    let (_, below) = text.split_once(&format!("\n{heading}\n")).expect("the heading");
    let rows = below.lines().take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with("| `"));
    rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`']).to_owned()).collect()).collect()
}

#[test]
fn every_input_of_the_reusable_workflows_is_explained_and_no_other() {
    for (kind, heading) in [("inputs", "## Inputs"), ("secrets", "## Secrets")] {
        let rows = rows("docs/workflows.md", heading);
        for (workflow, column) in [("plan", "plan"), ("run", "run")] {
            let of_both = |row: &&Vec<String>| row[1] == "both" || row[1] == column;
            let explained: BTreeSet<String> = rows.iter().filter(of_both).map(|row| row[0].clone()).collect();
            let declared = declared(&format!("actions/.github/workflows/{workflow}.yml"), kind);
            assert_eq!(explained, declared, "{kind} of {workflow}.yml");
        }
    }
}

/// Names of facts as the self-test writes them, with the values of the variables in them.
fn facts(script: &str) -> BTreeSet<String> {
    let is_name = |text: &str| {
        text.contains('-') && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let calls = ["expect ", "expect_text ", "fact ok ", "fact differs ", "fact not-run "];
    let words = calls.iter().flat_map(|call| script.split(call).skip(1)).filter_map(|rest| rest.split(' ').next());
    let mut found = BTreeSet::new();
    for word in words {
        let word = word.trim_matches('"');
        for values in [["plan", "plan", "exec"], ["apply", "apply", "child"]] {
            let name = ["$part", "$1", "$how"]
                .iter()
                .zip(values)
                .fold(word.to_owned(), |name, (from, to)| name.replace(from, to));
            found.extend(Some(name).filter(|name| is_name(name)));
        }
    }
    // The script chooses one of these by a variable.
    found.extend(["pull-payload-opened", "pull-payload-merged"].map(str::to_owned));
    found
}

#[test]
fn every_fact_of_the_self_test_is_explained_and_no_other() {
    let explained: BTreeSet<String> =
        rows("docs/live-check.md", "## What is checked").into_iter().map(|row| row[0].clone()).collect();
    let named = facts(&read("actions/selftest/selftest.sh"));
    assert!(named.len() > 30, "{named:?}");
    assert_eq!(explained, named);
}
