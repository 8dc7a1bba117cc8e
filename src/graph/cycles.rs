//! Cycles among stacks, in the one spelling that everyone prints (spec 11 §11).

use std::collections::VecDeque;

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::ordering::Ordering;

/// One cycle per knot of stacks, along the edges, from its smallest key back to it by a shortest walk; sorted.
pub fn cycles(ordering: &Ordering) -> Vec<Vec<String>> {
    let everything = vec![true; ordering.len()];
    cycles_within(ordering, &everything)
}

/// The same among the stacks marked in `members`, by their number.
pub(crate) fn cycles_within(ordering: &Ordering, members: &[bool]) -> Vec<Vec<String>> {
    let mut graph = DiGraph::<(), ()>::with_capacity(ordering.len(), ordering.len());
    for _ in 0..ordering.len() {
        graph.add_node(());
    }
    let mut loops = false;
    for from in (0..ordering.len()).filter(|from| members[*from]) {
        for to in ordering.upstream(from).iter().map(|link| link.stack).filter(|to| members[*to]) {
            graph.add_edge(NodeIndex::new(from), NodeIndex::new(to), ());
            loops |= from == to;
        }
    }
    let knots = tarjan_scc(&graph);
    if !loops && knots.len() == ordering.len() {
        return Vec::new();
    }
    let mut cycles: Vec<Vec<String>> = Vec::new();
    for knot in knots {
        let start = knot.iter().map(|node| node.index()).min().expect("a component holds a node");
        let is_loop = knot.len() == 1 && ordering.upstream(start).iter().any(|link| link.stack == start);
        if knot.len() > 1 || (is_loop && members[start]) {
            let inside: std::collections::BTreeSet<usize> = knot.iter().map(|node| node.index()).collect();
            cycles.push(shortest_round(ordering, start, &inside));
        }
    }
    cycles.sort();
    cycles
}

/// From `start` along the edges back to `start`; every node of a knot lies on some such walk.
fn shortest_round(ordering: &Ordering, start: usize, inside: &std::collections::BTreeSet<usize>) -> Vec<String> {
    let mut came_from = std::collections::BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    let mut last = start;
    'search: while let Some(at) = queue.pop_front() {
        for next in ordering.upstream(at).iter().map(|link| link.stack).filter(|next| inside.contains(next)) {
            if next == start {
                last = at;
                break 'search;
            }
            came_from.entry(next).or_insert_with(|| {
                queue.push_back(next);
                at
            });
        }
    }
    let mut walk = vec![start, last];
    while let Some(before) = walk.last().filter(|at| **at != start).and_then(|at| came_from.get(at)) {
        walk.push(*before);
    }
    if last == start {
        walk.truncate(2);
    }
    walk.reverse();
    walk.iter().map(|stack| ordering.keys()[*stack].clone()).collect()
}

/// `a -> b -> a; x -> y -> x`.
pub fn spelled(cycles: &[Vec<String>]) -> String {
    cycles.iter().map(|cycle| cycle.join(" -> ")).collect::<Vec<_>>().join("; ")
}
