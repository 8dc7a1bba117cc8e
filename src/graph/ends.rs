//! Where edges lead to that is no node of the graph: a picture shows these too.

use super::model::{Edge, NodeKind, NodeRef};

/// Ends of edges that are not known, stacks first, sorted by key.
pub(super) fn missing(edges: &[Edge], is_known: impl Fn(&NodeRef) -> bool) -> Vec<NodeRef> {
    let ends = edges.iter().flat_map(|edge| [&edge.from, &edge.to]);
    let mut missing: Vec<NodeRef> = ends.filter(|node| !is_known(node)).cloned().collect();
    missing.sort_by(|a, b| (a.kind != NodeKind::Stack, &a.key).cmp(&(b.kind != NodeKind::Stack, &b.key)));
    missing.dedup();
    missing
}
