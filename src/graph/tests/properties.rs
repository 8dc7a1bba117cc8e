//! Laws of the affected set and its waves, on random graphs.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::small;
use crate::config::model::RepoConfig;
use crate::graph::cycles::cycles;
use crate::graph::model::Graph;
use crate::graph::ordering;
use crate::graph::resolution::Resolution;
use crate::graph::resolve::{ResolveRequest, resolve};
use crate::ids::StackKey;
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

/// A graph with edges in any direction, itself included.
fn any_graph() -> impl Strategy<Value = Graph> {
    let edge = (0..STACKS, 0..STACKS, any::<bool>())
        .prop_map(|(to, from, reads)| format!("s/{to} {} s/{from}", if reads { "<=" } else { "<-" }));
    proptest::collection::vec(edge, 0..14).prop_map(|edges| small::graph(&edges.join(",")))
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
    #[test]
    fn every_knot_is_spelled_once_along_its_edges_from_its_smallest_key(graph in any_graph()) {
        let order = ordering(&graph);
        let found = cycles(&order);
        let reaches_itself = |key: &&String| {
            order.predecessors(key).iter().any(|before| before == key || order.all_predecessors(before).contains(key.as_str()))
        };
        let mut knots: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
        for key in order.keys().iter().filter(reaches_itself) {
            let both = |other: &&str| *other == key || (order.all_predecessors(other).contains(key.as_str()) && order.all_predecessors(key).contains(*other));
            knots.insert(order.keys().iter().map(String::as_str).filter(both).collect());
        }
        let smallest: Vec<&str> = knots.iter().filter_map(|knot| knot.first().copied()).collect();
        prop_assert_eq!(found.iter().map(|cycle| cycle[0].as_str()).collect::<Vec<_>>(), smallest);
        for cycle in &found {
            let inside: BTreeSet<&str> = cycle.iter().map(String::as_str).collect();
            prop_assert!(knots.iter().any(|knot| inside.is_subset(knot)));
            prop_assert_eq!(cycle.first(), cycle.last());
            prop_assert_eq!(inside.len(), cycle.len() - 1);
            for step in cycle.windows(2) {
                prop_assert!(order.predecessors(&step[0]).contains(&step[1].as_str()), "{:?}", cycle);
            }
        }
    }

    #[test]
    fn a_stack_key_that_is_printed_reads_the_same(text in "([a-zäß0-9._/:@ -]|:default){0,12}") {
        if let Ok(key) = StackKey::parse(&text) {
            let printed = key.to_string();
            prop_assert_eq!(StackKey::parse(&printed), Ok(key.clone()));
            prop_assert_eq!(StackKey::of(key.path(), key.instance()), Ok(key));
        }
    }
}
