//! The graph as `stackorder graph` prints it (spec 12 §8).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::model::{Edge, Graph, ModuleKind, NodeKind, NodeRef};

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
        writeln!(out, "{}{mark}", harmless(&node.key)).expect("writing to a string cannot fail");
        for edge in edges.get(&node).into_iter().flatten() {
            writeln!(out, "  {}", line(&git_modules, edge)).expect("writing to a string cannot fail");
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
    harmless(&format!("{} {}{inferred}{reference}", edge.kind.as_str(), edge.to.key))
}

/// Text of a repository for a terminal, on one line: what would steer it, or turn the direction of reading, is spelled
/// out.
pub fn harmless(text: &str) -> String {
    let steers = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(steers) {
        return text.to_owned();
    }
    text.chars().map(|c| if steers(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::{MemoryFiles, ScanOptions, scan};

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\u{9b}c"), "a\\u{1b}[2Jb\\u{9b}c");
        assert_eq!(harmless("größe.tf"), "größe.tf");
        assert_eq!(harmless("live/\u{202e}dorp"), "live/\\u{202e}dorp");
        let stack = "terraform {\n  backend \"s3\" {}\n}\n";
        let files = MemoryFiles::default().with("stacks/\x1b[2J\n/main.tf", stack);
        let graph = scan(&files, &ScanOptions::new("acme/infra", "")).unwrap().graph;
        assert_eq!(text(&graph), "1 stacks, 0 modules, 0 edges\nstacks/\\u{1b}[2J\\n\n");
    }
}
