//! Laws of the affected set and its waves, on random graphs.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::small;
use crate::config::model::RepoConfig;
use crate::graph::model::Graph;
use crate::graph::ordering;
use crate::graph::resolution::Resolution;
use crate::graph::resolve::{ResolveRequest, resolve};
use crate::waves::waves;

const STACKS: usize = 9;

/// A graph whose edges all point from a larger number to a smaller one, with modules `m/0` to `m/2`.
fn acyclic() -> impl Strategy<Value = Graph> {
    let edge = (0..STACKS, 0..STACKS, 0..3_usize).prop_map(|(a, b, kind)| {
        let (low, high) = (a.min(b), a.max(b));
        match kind {
            _ if low == high => format!("s/{low}"),
            0 => format!("s/{low} <- s/{high}"),
            1 => format!("s/{low} <= s/{high}"),
            _ => format!("m/{} < s/{high}", low % 3),
        }
    });
    proptest::collection::vec(edge, 0..16).prop_map(|edges| small::graph(&edges.join(",")))
}

fn some_paths() -> impl Strategy<Value = Vec<String>> {
    let path =
        prop_oneof![(0..STACKS).prop_map(|n| format!("s/{n}/main.tf")), (0..3).prop_map(|n| format!("m/{n}/x.tf"))];
    proptest::collection::vec(path, 0..5)
}

fn resolved(graph: &Graph, paths: Vec<String>) -> Resolution {
    let request = ResolveRequest { changed_paths: paths, ..ResolveRequest::default() };
    resolve(graph, &RepoConfig::default(), &request)
}

fn wave_of(resolution: &Resolution) -> BTreeMap<&str, u32> {
    resolution.affected.iter().map(|stack| (stack.key.as_str(), stack.wave)).collect()
}

proptest! {
    #[test]
    fn waves_respect_every_edge_and_are_minimal(graph in acyclic(), paths in some_paths()) {
        let resolution = resolved(&graph, paths);
        let waves = wave_of(&resolution);
        let order = ordering(&graph);
        for (key, wave) in &waves {
            let before = order.predecessors(key).into_iter().filter_map(|key| waves.get(key)).max();
            prop_assert_eq!(*wave, before.map_or(0, |before| before + 1));
        }
    }

    #[test]
    fn shuffled_input_gives_equal_bytes(
        (graph, shuffled) in acyclic().prop_flat_map(|graph| {
            let stacks = Just(graph.stacks.clone()).prop_shuffle();
            let edges = Just(graph.edges.clone()).prop_shuffle();
            let modules = Just(graph.modules.clone()).prop_shuffle();
            (Just(graph), stacks, modules, edges).prop_map(|(graph, stacks, modules, edges)| {
                let shuffled = Graph { stacks, modules, edges, ..graph.clone() };
                (graph, shuffled)
            })
        }),
        paths in some_paths(),
    ) {
        let backwards: Vec<String> = paths.iter().rev().cloned().collect();
        let json = |resolution: &Resolution| serde_json::to_string(resolution).unwrap();
        prop_assert_eq!(json(&resolved(&graph, paths)), json(&resolved(&shuffled, backwards)));
        prop_assert_eq!(crate::graph::dot::dot(&graph, None), crate::graph::dot::dot(&shuffled, None));
        prop_assert_eq!(crate::graph::text::text(&graph), crate::graph::text::text(&shuffled));
    }

    #[test]
    fn more_changes_never_shrink_the_affected_set(graph in acyclic(), paths in some_paths(), more in some_paths()) {
        let few = resolved(&graph, paths.clone());
        let many = resolved(&graph, paths.into_iter().chain(more).collect());
        let many: BTreeMap<&str, _> = many.affected.iter().map(|stack| (stack.key.as_str(), &stack.reasons)).collect();
        for stack in &few.affected {
            let reasons = many.get(stack.key.as_str());
            prop_assert!(reasons.is_some_and(|reasons| stack.reasons.iter().all(|reason| reasons.contains(reason))));
        }
    }

    #[test]
    fn a_subset_keeps_the_order_through_the_others(graph in acyclic(), chosen in proptest::collection::btree_set(0..STACKS, 0..STACKS)) {
        let order = ordering(&graph);
        let members: BTreeSet<String> = chosen.into_iter().map(|n| format!("s/{n}")).filter(|key| order.keys().contains(key)).collect();
        let waves = waves(&order, &members);
        prop_assert_eq!(waves.keys().collect::<Vec<_>>(), members.iter().collect::<Vec<_>>());
        for (key, wave) in &waves {
            let before = order.all_predecessors(key).into_iter().filter_map(|key| waves.get(key)).max();
            prop_assert_eq!(*wave, before.map_or(0, |before| before + 1));
        }
    }
}
