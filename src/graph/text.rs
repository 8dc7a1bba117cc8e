//! The graph as `stackorder graph` prints it (spec 12 §8).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::model::{Edge, Graph, ModuleKind, NodeKind, NodeRef};
use crate::render::escape;

/// A header line, then each node with its outgoing edges.
pub fn text(graph: &Graph) -> String {
    let mut graph = graph.clone();
    graph.sort();
    let mut out =
        format!("{} stacks, {} modules, {} edges\n", graph.stacks.len(), graph.modules.len(), graph.edges.len());
    let mut edges: BTreeMap<&NodeRef, Vec<&Edge>> = BTreeMap::new();
    for edge in &graph.edges {
        edges.entry(&edge.from).or_default().push(edge);
    }
    let of_git = graph.modules.iter().filter(|module| module.kind == ModuleKind::Git);
    let git_modules: BTreeSet<&str> = of_git.map(|module| module.key.as_str()).collect();
    let stacks =
        graph.stacks.iter().map(|stack| (NodeRef::stack(&stack.key), if stack.external { " (external)" } else { "" }));
    let modules = graph.modules.iter().map(|module| (NodeRef::module(&module.key), kind_mark(module.kind)));
    for (node, mark) in stacks.chain(modules) {
        writeln!(out, "{}{mark}", escape::terminal(&node.key)).expect("writing to a string cannot fail");
        for edge in edges.get(&node).into_iter().flatten() {
            writeln!(out, "  {}", escape::terminal(&line(&git_modules, edge)))
                .expect("writing to a string cannot fail");
        }
    }
    out
}

fn kind_mark(kind: ModuleKind) -> &'static str {
    match kind {
        ModuleKind::Local => " (local module)",
        ModuleKind::Git => " (git module)",
        ModuleKind::Registry => " (registry module)",
    }
}

fn line(git_modules: &BTreeSet<&str>, edge: &Edge) -> String {
    let inferred = if edge.inferred { " (inferred)" } else { "" };
    let git = edge.to.kind == NodeKind::Module && git_modules.contains(edge.to.key.as_str());
    let reference = match edge.meta.get("ref") {
        Some(reference) if git && !reference.is_empty() => format!(" @{reference}"),
        Some(_) | None => String::new(),
    };
    format!("{} {}{inferred}{reference}", edge.kind.as_str(), edge.to.key)
}
