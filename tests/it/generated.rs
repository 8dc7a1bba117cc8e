//! Repositories of a generator that knows the right answers: every stack, module and edge, and what a change reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use stackorder::graph::model::{EdgeType, Graph};
use stackorder::graph::{ResolveRequest, resolve};
use stackorder::runner::checkout::WorkingTree;
use stackorder::runner::environment::Environment;
use stackorder::runner::git::Git;
use stackorder::scan::{ScanOptions, Scanned, scan};

use crate::machine;

#[derive(Debug, Deserialize)]
struct Expected {
    stacks: Vec<String>,
    modules: Vec<String>,
    order_edges: BTreeSet<(String, String, String)>,
    module_edges: BTreeSet<(String, String)>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Case {
    changed: String,
    affected: Vec<Reached>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Reached {
    key: String,
    wave: u32,
    reasons: Vec<String>,
}

#[test]
fn a_thousand_stacks_give_the_answers_of_the_generator() {
    (1..=3).for_each(|seed| compare("a_thousand_stacks_give_the_answers_of_the_generator", 1_000, seed));
}

#[test]
fn five_thousand_stacks_give_the_answers_of_the_generator() {
    (1..=3).for_each(|seed| compare("five_thousand_stacks_give_the_answers_of_the_generator", 5_000, seed));
}

fn compare(test: &str, stacks: u32, seed: u32) {
    let Some(python) = machine::program_for(test, "python3") else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("repo");
    let expected = generate(&python, &root, stacks, seed);
    let what = format!("{stacks} stacks, seed {seed}");

    let root = root.canonicalize().unwrap();
    let tree = WorkingTree::open(&root, &Git::new(&root, &Environment::of_process())).unwrap();
    let Scanned { graph, config } = scan(&tree, &ScanOptions::new("acme/infra", "")).unwrap();

    assert_eq!(
        graph.stacks.iter().map(|stack| &stack.key).collect::<Vec<_>>(),
        expected.stacks.iter().collect::<Vec<_>>()
    );
    assert_eq!(
        graph.modules.iter().map(|module| &module.key).collect::<Vec<_>>(),
        expected.modules.iter().collect::<Vec<_>>()
    );
    let (order, modules) = edges(&graph);
    same(&what, &order, &expected.order_edges);
    same(&what, &modules, &expected.module_edges);
    assert_eq!(graph.warnings, [], "{what}");

    assert!(!expected.cases.is_empty());
    for case in expected.cases {
        let request = ResolveRequest { changed_paths: vec![case.changed.clone()], ..ResolveRequest::default() };
        let resolution = resolve(&graph, &config, &request);
        let found: Vec<Reached> = resolution
            .affected
            .iter()
            .map(|stack| Reached {
                key: stack.key.clone(),
                wave: stack.wave,
                reasons: stack.reasons.iter().map(|reason| reason.as_str().to_owned()).collect(),
            })
            .collect();
        let differs = found.iter().zip(&case.affected).find(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{what}: {}", case.changed);
        assert_eq!(found.len(), case.affected.len(), "{what}: {}", case.changed);
        let mut waves: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for reached in case.affected {
            waves.entry(reached.wave).or_default().push(reached.key);
        }
        assert_eq!(resolution.waves, waves.into_values().collect::<Vec<_>>(), "{what}: {}", case.changed);
    }
}

/// Writes the repository and reads what is true of it.
fn generate(python: &Path, root: &Path, stacks: u32, seed: u32) -> Expected {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/generate_repo.py");
    let mut command = Command::new(python);
    command.arg(script).args(["--stacks", &stacks.to_string(), "--modules", "100", "--seed", &seed.to_string()]);
    let output = command.arg("--out").arg(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&std::fs::read(root.with_extension("expected.json")).unwrap()).unwrap()
}

type OrderEdges = BTreeSet<(String, String, String)>;

fn edges(graph: &Graph) -> (OrderEdges, BTreeSet<(String, String)>) {
    let (modules, order): (Vec<_>, Vec<_>) = graph.edges.iter().partition(|edge| edge.kind == EdgeType::UsesModule);
    let ends = |edge: &stackorder::graph::model::Edge| (edge.from.key.clone(), edge.to.key.clone());
    let order = order.into_iter().map(|edge| {
        let (from, to) = ends(edge);
        (from, to, edge.kind.as_str().to_owned())
    });
    (order.collect(), modules.into_iter().map(ends).collect())
}

/// Sets of thousands are compared by what one lacks of the other.
fn same<T: Ord + std::fmt::Debug>(what: &str, found: &BTreeSet<T>, expected: &BTreeSet<T>) {
    let missing: Vec<&T> = expected.difference(found).take(5).collect();
    let wrong: Vec<&T> = found.difference(expected).take(5).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "{what}: missing {missing:?}, wrong {wrong:?}");
}
