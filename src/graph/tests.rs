//! Whole resolutions, on the sample repository (spec 32 §2.1) and on small graphs (spec 30 §18).

mod cases;
mod pictures;
mod properties;
mod scanned;
mod small;
mod warnings;

use super::model::Graph;
use super::resolution::{BaseFacts, Reason, RemovedStack, Resolution};
use super::resolve::{ResolveRequest, resolve};
use crate::config::model::RepoConfig;
use crate::scan::tests::sample::sample;
use crate::scan::{MemoryFiles, ScanOptions, scan};

fn graph_of(files: &MemoryFiles) -> (Graph, RepoConfig) {
    let scanned = scan(files, &ScanOptions::new("acme/infra", "")).expect("the checkout is valid");
    (scanned.graph, scanned.config)
}

fn changing(paths: &[&str]) -> ResolveRequest {
    ResolveRequest { changed_paths: paths.iter().map(|path| (*path).to_owned()).collect(), ..ResolveRequest::default() }
}

fn in_sample(paths: &[&str]) -> Resolution {
    let (graph, config) = graph_of(&sample());
    resolve(&graph, &config, &changing(paths))
}

/// `wave key (reasons)`, one per stack.
fn rows(resolution: &Resolution) -> Vec<String> {
    let reasons = |list: &[Reason]| list.iter().map(|reason| reason.as_str()).collect::<Vec<_>>().join(", ");
    let row = |stack: &super::resolution::AffectedStack| {
        format!("{} {} ({})", stack.wave, stack.key, reasons(&stack.reasons))
    };
    resolution.affected.iter().map(row).collect()
}

#[test]
fn changes_in_the_sample_reach_what_its_page_says() {
    let eks = ["0 stacks/prod/eks (module)"].as_slice();
    let cases: [(&[&str], &[&str]); 8] = [
        (
            &["modules/vpc/main.tf"],
            &[
                "0 stacks/prod/vpc (module)",
                "0 stacks/staging/vpc (module)",
                "1 stacks/prod/apps (reads_state)",
                "1 stacks/prod/eks (dependent)",
                "1 stacks/staging/apps (dependent)",
            ],
        ),
        (&["stacks/prod/eks/main.tf"], &["0 stacks/prod/eks (changed)"]),
        (&["modules/eks/main.tf"], eks),
        (&["modules/common/main.tf"], eks),
        (
            &["infra/kyc/main.tf"],
            &[
                "0 infra/kyc:production (changed)",
                "0 infra/kyc:staging (changed)",
                "1 infra/registry:shared (dependent)",
            ],
        ),
        (
            &["infra/state.s3.tfbackend"],
            &[
                "0 infra/kyc:production (watch_path)",
                "0 infra/kyc:staging (watch_path)",
                "1 infra/registry:shared (watch_path, dependent)",
            ],
        ),
        (&["infra/kyc/workspaces/staging.tfvars.json"], &["0 infra/kyc:staging (changed)"]),
        (&["README.md", "stacks/prod/vpc/notes.md"], &[]),
    ];
    for (paths, expected) in cases {
        assert_eq!(rows(&in_sample(paths)), expected, "{paths:?}");
    }
}

#[test]
fn the_matrix_carries_what_a_job_needs() {
    let (graph, config) = graph_of(&sample());
    let request =
        ResolveRequest { sha: "5".repeat(40), policy_sha: "6".repeat(40), ..changing(&["stacks/staging/vpc/main.tf"]) };
    let resolution = resolve(&graph, &config, &request);
    assert_eq!(
        serde_json::to_value(&resolution.matrix.include[1]).unwrap(),
        serde_json::json!({
            "stack": "stacks/staging/apps", "key": "stacks/staging/apps", "workspace": "", "environment": "staging",
            "wave": 1, "tool": "terraform", "tool_version": "", "plan_output": "summary",
            "sha": "5".repeat(40), "policy_sha": "6".repeat(40),
        })
    );
    assert_eq!(resolution.waves, [["stacks/staging/vpc"], ["stacks/staging/apps"]]);
    assert_eq!(resolution.affected[1].via, ["stacks/staging/vpc"]);
}

#[test]
fn nothing_changed_is_the_empty_document() {
    let json = serde_json::to_string(&in_sample(&[])).unwrap();
    assert_eq!(json, r#"{"affected":[],"waves":[],"matrix":{"include":[]},"cached":false}"#);
}

#[test]
fn a_removed_stack_is_named_with_its_state_and_never_planned() {
    let (graph, config) = graph_of(&sample());
    let removed = RemovedStack {
        key: "stacks/old".into(),
        path: "stacks/old".into(),
        state: "s3://b/k".into(),
        renamed_to: String::new(),
    };
    let base = BaseFacts { removed: vec![removed.clone()], ..BaseFacts::default() };
    let resolution = resolve(&graph, &config, &ResolveRequest { base, ..changing(&["stacks/old/main.tf"]) });
    assert_eq!(resolution.affected, []);
    assert_eq!(resolution.removed, [removed]);
    let texts: Vec<&str> = resolution.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(texts.contains(&"stack \"stacks/old\" is removed, its resources remain (state s3://b/k)"), "{texts:?}");
}
