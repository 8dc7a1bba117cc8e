//! Why a change does not reach a stack, in sentences.

use std::collections::BTreeSet;

use super::Known;
use crate::graph::model::{EdgeType, ModuleKind, NodeRef, STACK_INCOMPLETE, Stack};
use crate::graph::paths::{is_schedulable, touched_by_each};

/// Most names that one sentence lists.
const NAMES_MAX: usize = 5;

/// What would have had to change, and did not; for each of the ways in which a change can come.
pub(super) fn why_not(known: &Known<'_>, key: &str) -> Vec<String> {
    let evidence = known.evidence;
    if known.removed.contains(key) {
        return vec![
            "the head no longer has it; removed stacks are never planned and their resources remain".to_owned(),
        ];
    }
    if evidence.changed_paths.is_empty() && evidence.base.settings.is_empty() {
        return vec!["nothing differs between the base and HEAD".to_owned()];
    }
    let Some(stack) = evidence.graph.stacks.iter().find(|stack| stack.key == key && !stack.external) else {
        return Vec::new();
    };
    if !is_schedulable(key) {
        return vec!["its key is no clean path inside the repository, so it is never scheduled".to_owned()];
    }
    let mut sentences = paths(known, stack);
    sentences.push(modules(known, key));
    sentences.push(upstream(known, key));
    let incomplete = stack.warnings.iter().filter(|warning| warning.code == STACK_INCOMPLETE);
    sentences.extend(incomplete.map(ToString::to_string));
    sentences.extend(downstream(known, key));
    sentences
}

/// No path counts for it: those of its directory one by one, the others as a number.
fn paths(known: &Known<'_>, stack: &Stack) -> Vec<String> {
    let evidence = known.evidence;
    let below = format!("{}/", stack.path);
    let Some(config) = evidence.configs.first() else { return Vec::new() };
    let touched = touched_by_each(evidence.graph, &known.ordering, config, evidence.changed_paths);
    let inside: Vec<String> = touched
        .iter()
        .filter(|(path, _)| path.starts_with(&below))
        .map(|(path, touched)| {
            let owners: Vec<&str> =
                touched.changed.iter().map(|number| known.ordering.keys()[*number].as_str()).collect();
            match (owners.as_slice(), touched.uncounted.ignored) {
                ([], 0) => format!("{path} changed, and the instance that it made is gone"),
                ([], _) => {
                    format!("{path} changed and does not count: stacks.ignore matches it, or it is a tool's own file")
                }
                (owners, _) => format!("{path} changed and belongs to {}", listed(owners)),
            }
        })
        .take(NAMES_MAX)
        .collect();
    if !inside.is_empty() {
        return inside;
    }
    let watched = match stack.watch_paths.len() + stack.watch_globs.len() {
        0 => String::new(),
        1 => ", nor is one a file outside that it reads or watches".to_owned(),
        count => format!(", nor does one match the {count} files and patterns outside that it reads or watches"),
    };
    vec![match touched.len() {
        1 => format!("the changed path is not below {}{watched}", stack.path),
        count => format!("none of the {count} changed paths is below {}{watched}", stack.path),
    }]
}

fn modules(known: &Known<'_>, key: &str) -> String {
    let mut seen: BTreeSet<&NodeRef> = BTreeSet::new();
    let start = NodeRef::stack(key);
    let mut queue = vec![&start];
    while let Some(node) = queue.pop() {
        let calls = known.edges.get(node).into_iter().flatten().filter(|edge| edge.kind == EdgeType::UsesModule);
        queue.extend(calls.map(|edge| &edge.to).filter(|module| seen.insert(module)));
    }
    let local: Vec<&str> = known
        .evidence
        .graph
        .modules
        .iter()
        .filter(|module| module.kind == ModuleKind::Local && seen.contains(&NodeRef::module(&module.key)))
        .map(|module| module.path.as_str())
        .collect();
    match local.as_slice() {
        [] => "it uses no module of this repository".to_owned(),
        [one] => format!("it uses the module {one}, which did not change"),
        many => format!("it uses the modules {}, none of which changed", listed(many)),
    }
}

fn upstream(known: &Known<'_>, key: &str) -> String {
    let before = known.ordering.predecessors(key);
    let (affected, other): (Vec<&str>, Vec<&str>) =
        before.into_iter().partition(|stack| known.affected.contains_key(stack));
    match (affected.as_slice(), other.as_slice()) {
        ([], []) => "it depends on no other stack".to_owned(),
        ([], [one]) => format!("it depends on {one}, which is not affected"),
        ([], many) => format!("it depends on {}, none of which is affected", listed(many)),
        (many, _) => format!("it depends on {}, but propagate.dependents is off", listed(many)),
    }
}

/// What people often expect and what never happens: a change does not reach what its stack depends on.
fn downstream(known: &Known<'_>, key: &str) -> Option<String> {
    let after: Vec<&str> =
        known.ordering.dependents(key).into_iter().filter(|stack| known.affected.contains_key(stack)).collect();
    (!after.is_empty()).then(|| {
        let verb = if after.len() == 1 { "is affected and depends" } else { "are affected and depend" };
        format!("{} {verb} on it, but a change reaches only what comes after", listed(&after))
    })
}

fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
