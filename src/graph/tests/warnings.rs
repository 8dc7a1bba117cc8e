//! The warnings of spec 11 §15 that a resolution gives, and why an answer is empty.

use std::collections::BTreeSet;

use super::{changing, small};
use crate::config::model::{RepoConfig, StackConfig};
use crate::graph::model::{Graph, Stack, Warning};
use crate::graph::resolution::{BaseFacts, RemovedStack, Resolution};
use crate::graph::resolve::{ResolveRequest, resolve};
use crate::graph::union::{UnionInput, resolve_union};

/// Asserts that there is exactly one warning of this code, about this file and stack, and that it names all this.
fn gives(resolution: &Resolution, code: &str, (file, stack): (&str, &str), names: &[&str]) {
    let found: Vec<&Warning> = resolution.warnings.iter().filter(|warning| warning.code == code).collect();
    let [warning] = found.as_slice() else { panic!("{code}: {found:?} of {:?}", resolution.warnings) };
    assert_eq!((warning.file.as_str(), warning.stack.as_str()), (file, stack), "{code}");
    for name in names {
        assert!(warning.message.contains(name), "{code}: {name:?} in {:?}", warning.message);
    }
}

fn resolved(graph: &Graph, paths: &[&str]) -> Resolution {
    resolve(graph, &RepoConfig::default(), &changing(paths))
}

fn requesting(graph: &Graph, key: &str) -> Resolution {
    let requested = vec![key.to_owned()];
    resolve(graph, &RepoConfig::default(), &ResolveRequest { requested, ..changing(&["a/main.tf"]) })
}

#[test]
fn s15_a_changed_path_that_nobody_owns_is_named() {
    gives(&resolved(&small::graph("a"), &["x/y.sh"]), "path_unowned", ("x/y.sh", ""), &["x/y.sh"]);
}

#[test]
fn s15_an_invalid_ignore_glob_is_named() {
    let mut config = RepoConfig::default();
    config.stacks.ignore = vec!["[a".to_owned()];
    let resolution = resolve(&small::graph("a"), &config, &changing(&["a/main.tf"]));
    gives(&resolution, "ignore_glob", ("stackorder.yaml", ""), &["[a", "skipped"]);
}

#[test]
fn s15_a_stack_that_is_not_schedulable_is_named() {
    gives(&resolved(&small::graph("../x, a"), &["a/main.tf"]), "not_schedulable", ("", "../x"), &["../x"]);
}

#[test]
fn s15_a_stack_that_applies_under_default_unasked_is_named() {
    gives(&resolved(&small::graph("a"), &["a/main.tf"]), "environment_default", ("", "a"), &["a", "default"]);
}

#[test]
fn s15_a_requested_key_that_is_unknown_external_or_not_schedulable_is_named() {
    let mut graph = small::graph("a, ./b");
    graph.stacks.push(Stack { key: "o/r//x".to_owned(), external: true, ..Stack::default() });
    graph.sort();
    gives(&requesting(&graph, "none"), "requested_unknown", ("", "none"), &["none"]);
    gives(&requesting(&graph, "o/r//x"), "requested_external", ("", "o/r//x"), &["o/r//x"]);
    // A name is normalised before it is looked up, so what cannot be scheduled cannot be named either.
    gives(&requesting(&graph, "./b"), "requested_unknown", ("", "b"), &["b"]);
}

#[test]
fn s15_settings_that_cannot_be_resolved_name_the_stack_and_the_error() {
    let mut graph = small::graph("a");
    graph.stacks[0].config = Some(StackConfig { environment: "{{ .Nope }}".to_owned(), ..StackConfig::default() });
    gives(&resolved(&graph, &["a/main.tf"]), "settings_unresolved", ("", "a"), &["a", "Nope"]);
}

#[test]
fn s15_a_union_with_the_base_copy_names_keys_and_stacks() {
    let mut head = RepoConfig::default();
    head.stacks.exclude = vec!["b".to_owned()];
    let (graph, base_graph) = (small::graph("a"), small::graph("a, b, c"));
    let gone = BTreeSet::from(["c".to_owned()]);
    let input = UnionInput {
        graph: &graph,
        head: &head,
        base: &RepoConfig::default(),
        base_graph: Some(&base_graph),
        gone: &gone,
    };
    let union = resolve_union(input, &changing(&["b/main.tf", "c/main.tf"]));
    let names = ["stacks.exclude", "planned because of it: b", "recorded as removed: c"];
    gives(&union.resolution, "configuration_differs", ("stackorder.yaml", ""), &names);
}

#[test]
fn s15_a_removed_stack_is_named_with_its_state_and_that_its_resources_remain() {
    let removed = RemovedStack {
        key: "old".to_owned(),
        path: "old".to_owned(),
        state: "s3://b/old".to_owned(),
        renamed_to: String::new(),
    };
    let base = BaseFacts { removed: vec![removed], ..BaseFacts::default() };
    let request = ResolveRequest { base, ..changing(&["old/main.tf"]) };
    let resolution = resolve(&small::graph("a"), &RepoConfig::default(), &request);
    gives(&resolution, "stack_removed", ("", "old"), &["old", "s3://b/old", "its resources remain"]);
}

#[test]
fn an_empty_answer_says_what_the_changed_paths_were() {
    let graph = small::graph("a, m/x < m/y");
    for (paths, says) in [
        (&["a/README.md"][..], Some("none of the 1 changed paths counts: stacks.ignore matches them")),
        (&["stackorder.yaml"], Some("none of the 1 changed paths counts: the configuration changed, but for no stack")),
        (&["m/x/main.tf"], Some("none of the 1 changed paths counts: no stack uses the module m/x")),
        (
            &["a/README.md", "stackorder.yaml", "m/x/main.tf"],
            Some(
                "none of the 3 changed paths counts: stacks.ignore matches 1; \
                 1 are configuration, which changed for no stack; no stack uses the module m/x",
            ),
        ),
        (&["x/y.sh"], None),
        (&[], None),
    ] {
        let resolution = resolved(&graph, paths);
        assert_eq!(resolution.affected, []);
        let said = resolution.warnings.iter().find(|warning| warning.code == "nothing_affected");
        assert_eq!(said.map(|warning| warning.message.as_str()), says, "{paths:?}");
    }
}
