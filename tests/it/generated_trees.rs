//! Trees from seeds: a stack and its modules with odd files between them, read by Terraform and by the scan.
//!
//! Every run compares the same few trees; `STACKORDER_TREES=2000 cargo test --test it generated_trees -- --nocapture`
//! compares so many, and fails if some construct is in none of them. A seed that fails is printed with the first
//! directory that differs and its files; `STACKORDER_TREE_SEED` repeats it alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use stackorder::graph::model::Graph;

use crate::checkout::{Fixture, fixtures, module_edges};
use crate::machine;
use crate::real_terraform::{Init, Refusal, Terraform};
use crate::scan_fixtures::{self, ENDLESS};
use tree::Tree;

mod calls;
mod chance;
mod tree;

/// Cheap enough for every run.
const TREES: u64 = 100;
/// With so many trees every construct is met.
const TREES_FOR_ALL: u64 = 1_500;
/// Of the calls themselves; the odd files are counted as well.
const CONSTRUCTS: usize = 52;
const THREADS: usize = 2;

#[derive(Default)]
struct Total {
    trees: usize,
    directories: usize,
    edges: usize,
    refused: usize,
    constructs: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

#[test]
fn generated_trees_have_the_module_calls_that_terraform_finds() {
    let name = "generated_trees_have_the_module_calls_that_terraform_finds";
    let Some(terraform) = Terraform::for_test(name) else { return };
    let fixtures = fixtures();
    let number = |variable: &str| std::env::var(variable).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (first, end) = match number("STACKORDER_TREE_SEED") {
        Some(seed) => (seed, seed + 1),
        None => (0, number("STACKORDER_TREES").unwrap_or(TREES)),
    };
    let (next, total) = (AtomicU64::new(first), Mutex::new(Total::default()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    compare(&terraform, seed, &fixtures, &total);
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    machine::say(&format!(
        "generated trees: {} compared with Terraform; {} modules, {} edges, {} refused directories, {} constructs",
        total.trees,
        total.directories,
        total.edges,
        total.refused,
        total.constructs.len()
    ));
    assert!(
        total.wrong.is_empty(),
        "{} trees differ; the first ones:\n{}",
        total.wrong.len(),
        total.wrong[..total.wrong.len().min(3)].join("\n")
    );
    if end - first >= TREES_FOR_ALL {
        let odd: BTreeSet<&str> =
            fixtures.iter().map(Fixture::construct).filter(|name| !ENDLESS.contains(name)).collect();
        let never: Vec<&&str> = odd.iter().filter(|name| !total.constructs.contains_key(**name)).collect();
        assert!(never.is_empty(), "never met: {never:?}");
        assert_eq!(total.constructs.len() - odd.len(), CONSTRUCTS, "{:?}", total.constructs);
    }
}

fn compare(terraform: &Terraform, seed: u64, fixtures: &[Fixture], total: &Mutex<Total>) {
    let tree = Tree::generate(seed, fixtures);
    let checkout = tree.write();
    let graph = checkout.graph();
    let init = terraform.init(&checkout.root, &tree.stack);
    let mut refused: BTreeMap<&str, Vec<Refusal>> = BTreeMap::new();
    for refusal in &init.refusals {
        let (directory, _) = refusal.file.rsplit_once('/').expect("the root of a tree holds no configuration");
        refused.entry(directory).or_default().push(refusal.clone());
    }
    let wrong =
        differing(&tree, &module_edges(&graph), &init, &refused).or_else(|| unreported(&tree, &graph, &refused));

    let mut total = total.lock().unwrap();
    total.trees += 1;
    total.directories += init.directories.len();
    total.edges += init.edges.len();
    total.refused += refused.len();
    for construct in &tree.constructs {
        *total.constructs.entry(construct.clone()).or_default() += 1;
    }
    total.wrong.extend(wrong.map(|wrong| format!("seed {seed} (stack {}): {wrong}", tree.stack)));
}

/// The first directory whose calls are others than they should be.
fn differing(
    tree: &Tree,
    ours: &BTreeSet<(String, String)>,
    init: &Init,
    refused: &BTreeMap<&str, Vec<Refusal>>,
) -> Option<String> {
    init.directories.iter().find_map(|directory| {
        let calls = |edges: &BTreeSet<(String, String)>| -> BTreeSet<String> {
            edges.iter().filter(|(from, _)| from == directory).map(|(_, to)| to.clone()).collect()
        };
        let (found, written, expected) = (calls(ours), calls(&tree.calls), calls(&init.edges));
        // Of a directory with a broken file Terraform gives up some calls; what stands beside that file counts for us.
        // Once it has met a mistake in a module, it may not tell those of the root.
        let is_odd_root = *directory == tree.stack && tree.odd.contains_key(directory);
        let is_refused = refused.contains_key(directory.as_str()) || (is_odd_root && !refused.is_empty());
        let is_right = written.is_subset(&found) && (is_refused || found == expected);
        (!is_right).then(|| {
            format!(
                "{directory}: we find {found:?}, Terraform finds {expected:?}, written was {written:?}\n{}",
                tree.shown(directory)
            )
        })
    })
}

/// The first directory that is refused without a warning about its file; the lines are compared file by file elsewhere.
fn unreported(tree: &Tree, graph: &Graph, refused: &BTreeMap<&str, Vec<Refusal>>) -> Option<String> {
    refused.iter().find_map(|(directory, refusals)| {
        let construct = tree.odd.get(*directory).map(String::as_str).unwrap_or_default();
        let is_reported = |refusal: &Refusal| {
            graph.warnings.iter().any(|warning| warning.file == refusal.file && warning.line.is_some())
        };
        let is_right = refusals.iter().any(is_reported) || scan_fixtures::is_known(construct, refusals);
        (!is_right).then(|| format!("{directory}: {refusals:?} is not reported\n{}", tree.shown(directory)))
    })
}
