//! Why a change reaches a stack, as a chain from a changed path to the stack.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use super::model::{EdgeType, Graph, ModuleKind, NodeKind, NodeRef};
use super::resolution::{AffectedStack, Resolution};

/// One step of a chain, from what was reached before to what it reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// A changed path, a module or a stack.
    pub from: String,
    /// How it reaches the next: `changed`, or the type of the edge.
    pub by: String,
    pub to: String,
}

/// Why one stack is affected, and why it stands in its wave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    pub stack: String,
    /// `None` when the change does not reach the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<u32>,
    pub reasons: Vec<String>,
    /// From a changed path to the stack; empty when no path but a setting changed.
    pub chain: Vec<Step>,
    /// Affected stacks of earlier waves that it waits for directly.
    pub after: Vec<String>,
}

/// Explains one stack of a resolution; one that the change does not reach has no wave.
pub fn explain(graph: &Graph, resolution: &Resolution, changed_paths: &[String], key: &str) -> Explanation {
    let Some(found) = resolution.affected.iter().find(|found| found.key == key) else {
        let stack = key.to_owned();
        return Explanation { stack, wave: None, reasons: Vec::new(), chain: Vec::new(), after: Vec::new() };
    };
    Explanation {
        stack: key.to_owned(),
        wave: Some(found.wave),
        reasons: found.reasons.iter().map(|reason| reason.as_str().to_owned()).collect(),
        chain: chain(graph, resolution, changed_paths, found),
        after: waits_for(graph, resolution, found),
    }
}

/// The shortest way along the edges to something that owns or watches a changed path.
fn chain(graph: &Graph, resolution: &Resolution, paths: &[String], stack: &AffectedStack) -> Vec<Step> {
    let sources = sources(graph, resolution, paths);
    let mut edges: BTreeMap<&NodeRef, Vec<(&NodeRef, EdgeType)>> = BTreeMap::new();
    for edge in &graph.edges {
        edges.entry(&edge.from).or_default().push((&edge.to, edge.kind));
    }
    let start = NodeRef::stack(&stack.key);
    let mut came_from: BTreeMap<&NodeRef, (&NodeRef, EdgeType)> = BTreeMap::new();
    let mut seen: BTreeSet<&NodeRef> = BTreeSet::from([&start]);
    let mut queue = VecDeque::from([&start]);
    while let Some(node) = queue.pop_front() {
        if let Some((path, by)) = sources.get(node) {
            let mut steps = vec![Step { from: path.clone(), by: (*by).to_owned(), to: node.key.clone() }];
            let mut at = node;
            while let Some((next, kind)) = came_from.get(at) {
                steps.push(Step { from: at.key.clone(), by: kind.as_str().to_owned(), to: next.key.clone() });
                at = next;
            }
            return steps;
        }
        for (to, kind) in edges.get(node).into_iter().flatten() {
            if seen.insert(to) {
                came_from.insert(to, (node, *kind));
                queue.push_back(to);
            }
        }
    }
    Vec::new()
}

/// What a changed path touches by itself, with the first such path.
fn sources(graph: &Graph, resolution: &Resolution, paths: &[String]) -> BTreeMap<NodeRef, (String, &'static str)> {
    let affected: BTreeMap<&str, &AffectedStack> =
        resolution.affected.iter().map(|stack| (stack.key.as_str(), stack)).collect();
    let below = |path: &str, directory: &str| path.starts_with(&format!("{directory}/")) || path == directory;
    let mut sources = BTreeMap::new();
    for path in paths {
        for stack in graph.stacks.iter().filter(|stack| !stack.external) {
            let Some(found) = affected.get(stack.key.as_str()) else { continue };
            let is_direct = found.reasons.iter().any(|reason| !reason.is_propagation());
            let watched = stack.watch_paths.iter().any(|watched| watched == path);
            if is_direct && (watched || below(path, &stack.path)) {
                let by = if watched { "watch_path" } else { "changed" };
                sources.entry(NodeRef::stack(&stack.key)).or_insert_with(|| (path.clone(), by));
            }
        }
        let owner = graph
            .modules
            .iter()
            .filter(|module| module.kind == ModuleKind::Local && below(path, &module.path))
            .max_by_key(|module| module.path.len());
        if let Some(module) = owner {
            sources.entry(NodeRef::module(&module.key)).or_insert_with(|| (path.clone(), "changed"));
        }
    }
    sources
}

fn waits_for(graph: &Graph, resolution: &Resolution, stack: &AffectedStack) -> Vec<String> {
    let earlier: BTreeSet<&str> =
        resolution.affected.iter().filter(|other| other.wave < stack.wave).map(|other| other.key.as_str()).collect();
    let upstream = graph
        .edges
        .iter()
        .filter(|edge| edge.kind.orders() && edge.from.kind == NodeKind::Stack && edge.from.key == stack.key);
    let keys: BTreeSet<String> =
        upstream.map(|edge| edge.to.key.clone()).filter(|key| earlier.contains(key.as_str())).collect();
    keys.into_iter().collect()
}
