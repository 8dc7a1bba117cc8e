//! Which stacks of one repository name stacks of another as what they depend on (spec 30 §13).

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Graph, Stack};
use crate::ids::{RepoName, StackKey};

/// The local stacks of a graph that depend on one of these stacks of another repository, each with the qualified keys that it
/// names. By key.
pub fn downstream_of<'g>(
    graph: &'g Graph,
    upstream: &RepoName,
    keys: &BTreeSet<StackKey>,
) -> Vec<(&'g Stack, Vec<&'g str>)> {
    let is_named = |stack: &Stack| {
        let named = stack.key.split_once("//").filter(|(repo, _)| upstream.same_as(repo));
        stack.external && named.is_some_and(|(_, key)| keys.contains(key))
    };
    let named: BTreeSet<&str> =
        graph.stacks.iter().filter(|stack| is_named(stack)).map(|stack| stack.key.as_str()).collect();
    let mut found: BTreeMap<&str, (&Stack, BTreeSet<&str>)> = BTreeMap::new();
    for edge in graph.edges.iter().filter(|edge| edge.kind.orders() && named.contains(edge.to.key.as_str())) {
        let local = graph.stacks.iter().find(|stack| !stack.external && stack.key == edge.from.key);
        if let Some(stack) = local {
            found.entry(&stack.key).or_insert((stack, BTreeSet::new())).1.insert(&edge.to.key);
        }
    }
    found.into_values().map(|(stack, via)| (stack, via.into_iter().collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::model::{Edge, EdgeType, NodeRef};

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph { repo: "acme/apps".to_owned(), ..Graph::default() };
        for (from, to) in edges {
            for key in [from, to] {
                if graph.stacks.iter().all(|stack| stack.key != *key) {
                    let external = key.contains("//");
                    graph.stacks.push(Stack { key: (*key).to_owned(), external, ..Stack::default() });
                }
            }
            graph.edges.push(Edge {
                from: NodeRef::stack(*from),
                to: NodeRef::stack(*to),
                kind: EdgeType::DependsOn,
                inferred: false,
                meta: BTreeMap::new(),
            });
        }
        graph
    }

    #[test]
    fn only_local_stacks_that_name_an_applied_one_follow() {
        let graph = graph(&[
            ("web", "acme/infra//vpc"),
            ("web", "acme/infra//dns"),
            ("api", "Acme/Infra//vpc"),
            ("db", "acme/other//vpc"),
            ("jobs", "web"),
            ("cdn", "acme/infra//waf"),
        ]);
        let upstream = RepoName::parse("acme/infra").unwrap();
        let applied = ["vpc", "dns"].map(|key| StackKey::parse(key).unwrap()).into();
        let found: Vec<(&str, Vec<&str>)> = downstream_of(&graph, &upstream, &applied)
            .into_iter()
            .map(|(stack, via)| (stack.key.as_str(), via))
            .collect();
        assert_eq!(
            found,
            [("api", vec!["Acme/Infra//vpc"]), ("web", vec!["acme/infra//dns", "acme/infra//vpc"])],
            "the owner's case does not matter, other repositories and what comes later do not follow"
        );
        assert!(downstream_of(&graph, &upstream, &BTreeSet::new()).is_empty());
    }
}
