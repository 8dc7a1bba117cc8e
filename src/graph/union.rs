//! A pull request resolved under its own configuration and under the base copy at once (spec 11 §13, 30 §3.4), so
//! that it cannot take stacks out of its own plan.

use std::collections::BTreeSet;

use super::affected::affected;
use super::model::{Edge, EdgeType, Graph, NodeKind, Stack, Warning};
use super::ordering::ordering;
use super::resolution::{RemovedStack, Resolution};
use super::resolve::{ResolveRequest, resolve, schedule};
use crate::config::compare::differing_keys;
use crate::config::model::RepoConfig;
use crate::ids::normalise_path;

/// Both sides of a union.
#[derive(Debug, Clone, Copy)]
pub struct UnionInput<'a> {
    /// The graph of the commit, scanned under its own configuration.
    pub graph: &'a Graph,
    pub head: &'a RepoConfig,
    pub base: &'a RepoConfig,
    /// The graph that stacks only the base configuration discovers come from: of the default branch, else the latest.
    pub base_graph: Option<&'a Graph>,
    /// Directories of the base graph that the head no longer has.
    pub gone: &'a BTreeSet<String>,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Union {
    /// The graph of the commit with the stacks that only the base configuration knows.
    pub graph: Graph,
    pub resolution: Resolution,
    /// Keys of those stacks, sorted.
    pub added: Vec<String>,
}

/// Resolves under both configurations and unites the affected sets. Equal configurations change nothing.
pub fn resolve_union(input: UnionInput<'_>, request: &ResolveRequest) -> Union {
    let differing = differing_keys(input.head, input.base);
    if differing.is_empty() {
        let resolution = resolve(input.graph, input.head, request);
        return Union { graph: input.graph.clone(), resolution, added: Vec::new() };
    }
    let missing = input.base_graph.map(|base| missing_stacks(input.graph, base)).unwrap_or_default();
    let wide = with_stacks(input.graph, input.base_graph, &missing);
    let wide_order = ordering(&wide);
    // What was applied brings no stack back that only an older graph knows.
    let change = ResolveRequest { applied: Vec::new(), ..request.clone() };
    let under_base = affected(&wide, &wide_order, input.base, &change);
    let is_affected =
        |stack: &&Stack| wide_order.index(&stack.key).is_some_and(|number| under_base.stacks[number].is_affected());
    let (deleted, added): (Vec<&Stack>, Vec<&Stack>) =
        missing.into_iter().filter(is_affected).partition(|stack| is_deleted(stack, input.gone, request));

    let graph = with_stacks(input.graph, input.base_graph, &added);
    let order = ordering(&graph);
    let both = affected(&graph, &order, input.head, request).unite(affected(&graph, &order, input.base, request));
    let mut request = request.clone();
    let known: BTreeSet<String> = request.base.removed.iter().map(|stack| stack.key.clone()).collect();
    request.base.removed.extend(deleted.iter().filter(|stack| !known.contains(&stack.key)).map(|stack| removed(stack)));
    let mut resolution = schedule(&graph, &order, input.head, &request, both);

    let added: Vec<String> = added.into_iter().map(|stack| stack.key.clone()).collect();
    let deleted: Vec<&str> = deleted.into_iter().map(|stack| stack.key.as_str()).collect();
    resolution.warnings.push(announce(&differing, &added, &deleted));
    resolution.warnings.sort();
    Union { graph, resolution, added }
}

fn announce(differing: &[String], added: &[String], deleted: &[&str]) -> Warning {
    let mut message = format!(
        "stackorder.yaml differs from the default branch in {}; the change is resolved under both",
        differing.join(", ")
    );
    if !added.is_empty() {
        message += &format!("; planned because of it: {}", added.join(", "));
    }
    if !deleted.is_empty() {
        message += &format!("; recorded as removed: {}", deleted.join(", "));
    }
    Warning::new("configuration_differs", message).in_file("stackorder.yaml")
}

/// Stacks of the base graph that the commit's graph lacks, sorted by key.
fn missing_stacks<'a>(graph: &Graph, base: &'a Graph) -> Vec<&'a Stack> {
    let known: BTreeSet<&str> = graph.stacks.iter().map(|stack| stack.key.as_str()).collect();
    let mut missing: Vec<&Stack> =
        base.stacks.iter().filter(|stack| !stack.external && !known.contains(stack.key.as_str())).collect();
    missing.sort_by(|a, b| a.key.cmp(&b.key));
    missing
}

/// The graph with more stacks, their edges, and the modules and external stacks that those lead to.
fn with_stacks(graph: &Graph, base: Option<&Graph>, more: &[&Stack]) -> Graph {
    let mut graph = graph.clone();
    let Some(base) = base.filter(|_| !more.is_empty()) else { return graph };
    let added: BTreeSet<&str> = more.iter().map(|stack| stack.key.as_str()).collect();
    graph.stacks.extend(more.iter().map(|stack| (*stack).clone()));

    // Modules are followed to the end, since a change deep inside one must still be seen.
    let mut modules: BTreeSet<&str> = BTreeSet::new();
    let starts = |edge: &Edge, modules: &BTreeSet<&str>| match edge.from.kind {
        NodeKind::Stack => added.contains(edge.from.key.as_str()),
        NodeKind::Module => modules.contains(edge.from.key.as_str()),
    };
    loop {
        let before = modules.len();
        for edge in base.edges.iter().filter(|edge| edge.to.kind == NodeKind::Module) {
            if starts(edge, &modules) {
                modules.insert(&edge.to.key);
            }
        }
        if modules.len() == before {
            break;
        }
    }
    let known: BTreeSet<String> = graph.modules.iter().map(|module| module.key.clone()).collect();
    let wanted = |key: &str| modules.contains(key) && !known.contains(key);
    graph.modules.extend(base.modules.iter().filter(|module| wanted(&module.key)).cloned());
    let known: BTreeSet<String> = graph.stacks.iter().map(|stack| stack.key.clone()).collect();
    // Who reads the state of an added stack could not be seen without it; `depends_on` stands in the commit's graph.
    let read_by = |edge: &Edge| {
        edge.kind == EdgeType::ReadsState && added.contains(edge.to.key.as_str()) && known.contains(&edge.from.key)
    };
    let edges: Vec<&Edge> = base.edges.iter().filter(|edge| starts(edge, &modules) || read_by(edge)).collect();
    let led_to = |stack: &&Stack| {
        stack.external && !known.contains(&stack.key) && edges.iter().any(|edge| edge.to.key == stack.key)
    };
    graph.stacks.extend(base.stacks.iter().filter(led_to).cloned());
    let edges: Vec<Edge> = edges.into_iter().filter(|edge| !graph.edges.contains(edge)).cloned().collect();
    graph.edges.extend(edges);
    graph.sort();
    graph
}

/// Whether the pull request deletes the directory: it is gone, and a changed path lies under it.
fn is_deleted(stack: &Stack, gone: &BTreeSet<String>, request: &ResolveRequest) -> bool {
    let under = format!("{}/", stack.path);
    gone.contains(&stack.path) && request.changed_paths.iter().any(|path| normalise_path(path).starts_with(&under))
}

fn removed(stack: &Stack) -> RemovedStack {
    let backend = stack.backend.as_ref().filter(|backend| !backend.bucket.is_empty() && !backend.key.is_empty());
    let state = backend.map(|backend| format!("s3://{}/{}", backend.bucket, backend.object_key(&stack.workspace)));
    RemovedStack {
        key: stack.key.clone(),
        path: stack.path.clone(),
        state: state.unwrap_or_default(),
        renamed_to: String::new(),
    }
}
