//! Corner cases of spec 30 §18 that begin with files.

use std::collections::BTreeSet;

use super::{changing, graph_of, in_sample, rows};
use crate::config::model::RepoConfig;
use crate::config::parse::parse_repo_config;
use crate::graph::resolution::Reason;
use crate::graph::resolve::resolve;
use crate::graph::union::{UnionInput, resolve_union};
use crate::scan::MemoryFiles;
use crate::scan::tests::sample::sample;

const STACK: &str = "terraform {\n  backend \"s3\" {}\n}\n";

#[test]
fn case_004_a_file_of_a_directory_changes_all_its_instances() {
    assert_eq!(
        rows(&in_sample(&["infra/kyc/main.tf"]))[..2],
        ["0 infra/kyc:production (changed)", "0 infra/kyc:staging (changed)"]
    );
}

#[test]
fn case_005_a_shared_backend_file_is_watched_by_all_that_read_it_and_changes_none() {
    let resolution = in_sample(&["infra/state.s3.tfbackend"]);

    let reasons: Vec<(&str, &[Reason])> =
        resolution.affected.iter().map(|stack| (stack.key.as_str(), stack.reasons.as_slice())).collect();
    assert_eq!(
        reasons,
        [
            ("infra/kyc:production", &[Reason::WatchPath][..]),
            ("infra/kyc:staging", &[Reason::WatchPath]),
            ("infra/registry:shared", &[Reason::WatchPath, Reason::Dependent]),
        ]
    );
}

#[test]
fn case_008_without_propagation_only_what_changed_is_affected() {
    let (graph, mut config) = graph_of(&sample());
    let all = resolve(&graph, &config, &changing(&["stacks/prod/vpc/main.tf"]));
    assert_eq!(all.affected.len(), 3);

    config.propagate.dependents = false;
    let alone = resolve(&graph, &config, &changing(&["stacks/prod/vpc/main.tf"]));
    assert_eq!(rows(&alone), ["0 stacks/prod/vpc (changed)"]);
}

#[test]
fn case_009_a_suppressed_edge_carries_no_change_and_leaves_a_warning() {
    let (graph, config) = graph_of(&sample());
    let reached = rows(&resolve(&graph, &config, &changing(&["stacks/prod/vpc/main.tf"])));
    assert!(!reached.iter().any(|row| row.contains("stacks/legacy/dns")), "{reached:?}");
    let warned = graph.warnings.iter().find(|warning| warning.code == "inferred_ignored").expect("a warning");
    assert_eq!(warned.stack, "stacks/legacy/dns");

    let unsuppressed = sample().with("stacks/legacy/dns/.stackorder.yaml", "");
    let (graph, config) = graph_of(&unsuppressed);
    let reached = rows(&resolve(&graph, &config, &changing(&["stacks/prod/vpc/main.tf"])));
    assert!(reached.contains(&"1 stacks/legacy/dns (reads_state)".to_owned()), "{reached:?}");
}

#[test]
fn case_010_depending_on_a_stack_that_does_not_exist_is_a_warning_and_no_failure() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", STACK)
        .with("stacks/a/.stackorder.yaml", "depends_on: [stacks/gone]\n");
    let (graph, config) = graph_of(&files);
    let resolution = resolve(&graph, &config, &changing(&["stacks/a/main.tf"]));

    assert_eq!(rows(&resolution), ["0 stacks/a (changed)"]);
    assert_eq!(resolution.matrix.include.len(), 1);
    let warned = graph.warnings.iter().find(|warning| warning.code == "depends_on_unknown").expect("a warning");
    assert!(warned.message.contains("stacks/gone"), "{warned}");
}

#[test]
fn case_015_defaults_that_are_spelled_out_are_no_difference() {
    let (graph, base) = graph_of(&MemoryFiles::default().with("stacks/a/main.tf", STACK));
    assert_eq!(base, RepoConfig::default());
    let spelled_out = serde_json::to_vec(&base).unwrap();
    assert!(spelled_out.len() > 100, "every default is there");
    let head = parse_repo_config("stackorder.yaml", &spelled_out).unwrap();
    let gone = BTreeSet::new();
    let warned = |head: &RepoConfig| {
        let input = UnionInput { graph: &graph, head, base: &base, base_graph: Some(&graph), gone: &gone };
        let resolution = resolve_union(input, &changing(&["stacks/a/main.tf"])).resolution;
        resolution.warnings.iter().any(|warning| warning.code == "configuration_differs")
    };

    assert!(!warned(&head));
    let mut other = head.clone();
    other.stacks.exclude = vec!["stacks/b".to_owned()];
    assert!(warned(&other));
}
