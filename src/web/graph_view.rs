//! What of a graph is drawn: all of it, one node with everything it reaches and is reached by, or a directory.
//!
//! A picture of more than [`NODES_MAX`] nodes tells nobody anything: directories are then drawn as one node each.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::model::{EdgeType, Graph, NodeKind, NodeRef};
use crate::ids::split_key;

/// Most nodes of a picture.
pub const NODES_MAX: usize = 150;
/// Most edges of a picture.
const EDGES_MAX: usize = 2_000;

/// What a reader asked to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only this node, what it reaches, and what reaches it.
    pub focus: Option<NodeRef>,
    /// Only this directory and its direct neighbours.
    pub under: Option<String>,
}

/// One node of the picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    One(NodeRef),
    /// Every stack, or every module, below a directory.
    Directory {
        kind: NodeKind,
        path: String,
        members: Vec<NodeRef>,
    },
}

/// How an edge of the picture is drawn. The greater one wins where several fall together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stroke {
    Module,
    Inferred,
    Firm,
}

impl Stroke {
    pub fn class(self) -> &'static str {
        match self {
            Stroke::Module => "module",
            Stroke::Inferred => "inferred",
            Stroke::Firm => "firm",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    pub shapes: Vec<Shape>,
    /// From what comes first to what comes after, by number.
    pub edges: Vec<((usize, usize), Stroke)>,
    /// Nodes and edges that are not drawn at all.
    pub hidden_nodes: usize,
    pub hidden_edges: usize,
}

impl Picture {
    pub fn is_collapsed(&self) -> bool {
        self.shapes.iter().any(|shape| matches!(shape, Shape::Directory { .. }))
    }
}

/// The picture of a scope.
pub fn picture(graph: &Graph, scope: &Scope) -> Picture {
    let chosen = chosen(graph, scope);
    let (shapes, hidden_nodes) = shapes(&chosen, scope);
    let mut number: BTreeMap<&NodeRef, usize> = BTreeMap::new();
    for (index, shape) in shapes.iter().enumerate() {
        match shape {
            Shape::One(node) => drop(number.insert(node, index)),
            Shape::Directory { members, .. } => number.extend(members.iter().map(|node| (node, index))),
        }
    }
    let mut edges: BTreeMap<(usize, usize), Stroke> = BTreeMap::new();
    for edge in &graph.edges {
        if let (Some(from), Some(to)) = (number.get(&edge.to), number.get(&edge.from))
            && from != to
        {
            let stroke = match edge.kind {
                EdgeType::UsesModule => Stroke::Module,
                EdgeType::DependsOn | EdgeType::ReadsState if edge.inferred => Stroke::Inferred,
                EdgeType::DependsOn | EdgeType::ReadsState => Stroke::Firm,
            };
            let drawn = edges.entry((*from, *to)).or_insert(stroke);
            *drawn = stroke.max(*drawn);
        }
    }
    let hidden_edges = edges.len().saturating_sub(EDGES_MAX);
    let edges = edges.into_iter().take(EDGES_MAX).collect();
    Picture { shapes, edges, hidden_nodes, hidden_edges }
}

/// The nodes of the scope, sorted, each with whether it is only a neighbour of it.
fn chosen(graph: &Graph, scope: &Scope) -> BTreeMap<NodeRef, bool> {
    let stacks = graph.stacks.iter().map(|stack| NodeRef::stack(&stack.key));
    let modules = graph.modules.iter().map(|module| NodeRef::module(&module.key));
    let mut all: BTreeSet<NodeRef> = stacks.chain(modules).collect();
    if let Some(focus) = &scope.focus {
        let mut kept = reached(graph, focus, |edge| (&edge.from, &edge.to));
        kept.extend(reached(graph, focus, |edge| (&edge.to, &edge.from)));
        all.retain(|node| kept.contains(node));
    }
    let Some(under) = &scope.under else { return all.into_iter().map(|node| (node, false)).collect() };
    let inside = |node: &NodeRef| is_below(&node.key, under);
    let mut neighbours: BTreeSet<&NodeRef> = BTreeSet::new();
    for edge in &graph.edges {
        match (inside(&edge.from), inside(&edge.to)) {
            (true, false) => drop(neighbours.insert(&edge.to)),
            (false, true) => drop(neighbours.insert(&edge.from)),
            (true, true) | (false, false) => {}
        }
    }
    let chosen = all.into_iter().filter(|node| inside(node) || neighbours.contains(node));
    chosen.map(|node| (node.clone(), !inside(&node))).collect()
}

fn is_below(key: &str, directory: &str) -> bool {
    key.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']))
}

/// Everything that is reached from a node along the edges, itself included.
fn reached<'g>(
    graph: &'g Graph,
    start: &NodeRef,
    ends: impl Fn(&'g crate::graph::model::Edge) -> (&'g NodeRef, &'g NodeRef),
) -> BTreeSet<NodeRef> {
    let mut next: BTreeMap<&NodeRef, Vec<&NodeRef>> = BTreeMap::new();
    for edge in &graph.edges {
        let (from, to) = ends(edge);
        next.entry(from).or_default().push(to);
    }
    let mut seen = BTreeSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        for to in next.get(node).into_iter().flatten() {
            if seen.insert((*to).clone()) {
                open.push(to);
            }
        }
    }
    seen
}

/// The nodes one by one if they are few enough, else by the deepest directories that are.
fn shapes(chosen: &BTreeMap<NodeRef, bool>, scope: &Scope) -> (Vec<Shape>, usize) {
    if chosen.len() <= NODES_MAX {
        return (chosen.keys().cloned().map(Shape::One).collect(), 0);
    }
    let depth_of = |key: &str| split_key(key).0.split('/').count();
    let base = scope.under.as_deref().map_or(0, depth_of);
    let deepest = chosen.keys().map(|node| depth_of(&node.key)).max().unwrap_or(0);
    for depth in (base + 1..=deepest).rev() {
        let shapes = by_directory(chosen, depth);
        if shapes.len() <= NODES_MAX {
            return (shapes, 0);
        }
    }
    let mut shapes = by_directory(chosen, base + 1);
    let hidden = shapes.len().saturating_sub(NODES_MAX);
    shapes.truncate(NODES_MAX);
    (shapes, hidden)
}

/// One shape for each directory of this depth; neighbours of the scope by their first directory.
fn by_directory(chosen: &BTreeMap<NodeRef, bool>, depth: usize) -> Vec<Shape> {
    let mut groups: BTreeMap<(bool, NodeKind, String), Vec<NodeRef>> = BTreeMap::new();
    for (node, outside) in chosen {
        let depth = if *outside { 1 } else { depth };
        let path: Vec<&str> = split_key(&node.key).0.split('/').take(depth).collect();
        groups.entry((*outside, node.kind, path.join("/"))).or_default().push(node.clone());
    }
    let shape = |((_, kind, path), mut members): ((bool, NodeKind, String), Vec<NodeRef>)| match members.len() {
        1 => Shape::One(members.remove(0)),
        _ => Shape::Directory { kind, path, members },
    };
    groups.into_iter().map(shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::model::{Edge, Stack};

    fn graph(keys: &[String], edges: &[(&str, &str)]) -> Graph {
        Graph {
            stacks: keys.iter().map(|key| Stack { key: key.clone(), path: key.clone(), ..Stack::default() }).collect(),
            edges: edges
                .iter()
                .map(|(from, to)| Edge {
                    from: NodeRef::stack(*from),
                    to: NodeRef::stack(*to),
                    kind: EdgeType::DependsOn,
                    inferred: false,
                    meta: BTreeMap::new(),
                })
                .collect(),
            ..Graph::default()
        }
    }

    #[test]
    fn a_large_graph_is_drawn_by_directory_and_opened_by_one() {
        let keys: Vec<String> =
            (0..20).flat_map(|team| (0..50).map(move |n| format!("live/t{team:02}/s{n:02}"))).collect();
        let graph = graph(&keys, &[("live/t00/s01", "live/t01/s00"), ("live/t00/s01", "live/t00/s00")]);
        let whole = picture(&graph, &Scope::default());
        assert_eq!((whole.shapes.len(), whole.edges.len(), whole.is_collapsed()), (20, 1, true));
        let one = picture(&graph, &Scope { under: Some("live/t00".to_owned()), ..Scope::default() });
        assert_eq!((one.shapes.len(), one.edges.len(), one.is_collapsed()), (51, 2, false));
    }

    #[test]
    fn a_directory_that_is_too_wide_is_cut_and_says_so() {
        let keys: Vec<String> = (0..400).map(|n| format!("s{n:03}")).collect();
        let cut = picture(&graph(&keys, &[]), &Scope::default());
        assert_eq!((cut.shapes.len(), cut.hidden_nodes), (NODES_MAX, 250));
    }

    #[test]
    fn a_focus_shows_both_directions_and_nothing_else() {
        let keys = ["vpc", "eks", "app", "other"].map(str::to_owned);
        let graph = graph(&keys, &[("eks", "vpc"), ("app", "eks"), ("other", "vpc")]);
        let scope = Scope { focus: Some(NodeRef::stack("eks")), ..Scope::default() };
        let shown = picture(&graph, &scope).shapes;
        assert_eq!(shown, ["app", "eks", "vpc"].map(|key| Shape::One(NodeRef::stack(key))));
    }
}
