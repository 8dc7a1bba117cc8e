//! Whole checkouts.

mod modules;
pub mod sample;
mod stacks;

use super::*;
use crate::graph::model::{EdgeType, NodeKind};
use sample::sample;

fn scanned(files: &MemoryFiles) -> Graph {
    scan(files, &ScanOptions::new("acme/infra", "")).expect("the checkout is valid").graph
}

fn edges(graph: &Graph) -> Vec<String> {
    let edge = |edge: &crate::graph::model::Edge| format!("{} {} {}", edge.from.key, edge.kind.as_str(), edge.to.key);
    graph.edges.iter().map(edge).collect()
}

fn warnings(graph: &Graph) -> Vec<String> {
    graph.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn the_sample_repository_has_the_nodes_and_edges_that_its_page_says() {
    let graph = scanned(&sample());
    assert_eq!(
        graph.stacks.iter().map(|stack| stack.key.as_str()).collect::<Vec<_>>(),
        [
            "infra/kyc:production",
            "infra/kyc:staging",
            "infra/registry:shared",
            "stacks/legacy/dns",
            "stacks/prod/apps",
            "stacks/prod/eks",
            "stacks/prod/vpc",
            "stacks/staging/apps",
            "stacks/staging/vpc",
        ]
    );
    assert_eq!(
        edges(&graph),
        [
            "acme/infra//modules/eks uses_module acme/infra//modules/common",
            "infra/registry:shared depends_on infra/kyc:production",
            "stacks/prod/apps reads_state stacks/prod/vpc",
            "stacks/prod/eks depends_on stacks/prod/vpc",
            "stacks/prod/eks uses_module acme/infra//modules/eks",
            "stacks/prod/vpc uses_module acme/infra//modules/vpc",
            "stacks/staging/apps depends_on stacks/staging/vpc",
            "stacks/staging/vpc uses_module acme/infra//modules/vpc",
        ]
    );
    assert_eq!(graph.modules.len(), 3);
    assert_eq!(
        warnings(&graph),
        ["stacks/legacy/dns reads the state of stacks/prod/vpc; ignore_inferred drops the edge"]
    );
    let kyc = &graph.stacks[0];
    let backend = kyc.backend.as_ref().expect("an s3 backend");
    assert_eq!((backend.bucket.as_str(), backend.key.as_str()), ("stackorder-example-state", "kyc/production.tfstate"));
    assert_eq!(backend.use_lockfile, Some(true));
    assert_eq!(kyc.watch_paths, ["infra/state.s3.tfbackend"]);
    assert!(graph.edges.iter().all(|edge| edge.inferred == (edge.kind == EdgeType::ReadsState)));
    assert!(graph.edges.iter().all(|edge| edge.kind == EdgeType::UsesModule || edge.from.kind == NodeKind::Stack));
}

#[test]
fn the_tree_hash_is_the_published_one() {
    let files = MemoryFiles::default()
        .with("stackorder.yaml", "version: 1\n")
        .with("live/net/main.tf", "terraform {\n  backend \"s3\" {}\n}\n")
        .with("live/net/prod.tfvars", "size = 3\n")
        .with("live/net/README.md", "does not count")
        .with("live/.terraform/x.tf", "does not count");
    assert_eq!(scanned(&files).tree_hash, "84dffd9d51261cd7b0bb88ab5e609ac2ec108dbea2283725fc89a38080587fde");
}
