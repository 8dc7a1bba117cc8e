//! The guide to troubleshooting and the program know the same headings: no link leads nowhere, and none is for nobody.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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
