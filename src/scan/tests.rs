//! Whole checkouts.

mod broken;
mod field_reports;
mod file_reads;
mod modules;
mod properties;
pub mod sample;
mod stacks;
mod values;
mod warnings;
mod watch_entries;

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

#[test]
fn whatever_the_scan_reads_counts_for_the_tree_hash() {
    let files =
        sample().with("stacks/prod/vpc/.stackorder.yaml", "backend_config: [odd/name]\nvar_files: [own.vars]\n");
    let files = files.with("odd/name", "region = \"r\"").with("stacks/prod/vpc/own.vars", "");
    let hash = scanned(&files).tree_hash;
    for path in ["odd/name", "stacks/prod/vpc/own.vars", "stacks/prod/vpc/.terraform.lock.hcl", "anywhere/x.tfbackend"]
    {
        assert_ne!(scanned(&files.clone().with(path, "# new")).tree_hash, hash, "{path}");
    }
    for path in ["odd/other", "stacks/prod/vpc/x.txt", "modules/vpc/.terraform.lock.hcl"] {
        assert_eq!(scanned(&files.clone().with(path, "# new")).tree_hash, hash, "{path}");
    }
}

struct Backwards(MemoryFiles);

impl Files for Backwards {
    fn list(&self) -> std::borrow::Cow<'_, [Entry]> {
        self.0.list().iter().rev().cloned().collect()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.0.read(path)
    }
}

#[test]
fn the_order_of_the_walk_does_not_matter() {
    let options = ScanOptions::new("acme/infra", "");
    let json = |scanned: Scanned| serde_json::to_string(&scanned.graph).expect("a graph is JSON");
    assert_eq!(json(scan(&Backwards(sample()), &options).unwrap()), json(scan(&sample(), &options).unwrap()));
}

#[test]
fn a_graph_survives_its_json_form() {
    let graph = scanned(&sample());
    let json = serde_json::to_string(&graph).unwrap();
    assert_eq!(serde_json::from_str::<Graph>(&json).unwrap(), graph);
    assert_eq!(crate::graph::validate::validate(&graph).errors, Vec::<String>::new());
}
