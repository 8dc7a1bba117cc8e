//! From a graph and a change to the affected stacks in waves (spec 11 §10–§12).
//!
//! CLI and server run this same code, so the same input gives the same bytes everywhere.

use std::collections::{BTreeMap, BTreeSet};

use super::affected::{Affected, affected};
use super::cycles::cycles_within;
use super::model::{Graph, NodeKind, STACK_INCOMPLETE, Stack, Warning};
use super::ordering::{Ordering, ordering};
use super::paths::Uncounted;
use super::resolution::{AffectedStack, BaseFacts, LockInfo, Matrix, MatrixEntry, Reason, RemovedStack, Resolution};
use super::settings::{self, Settings};
use super::validate::not_schedulable;
use crate::config::environments::EnvironmentRules;
use crate::config::model::RepoConfig;
use crate::ids::{normalise_key, split_key};
use crate::waves::levels;

/// What a resolution works on besides graph and configuration.
#[derive(Debug, Clone, Default)]
pub struct ResolveRequest {
    /// From merge base to head, relative to the repository root.
    pub changed_paths: Vec<String>,
    pub base: BaseFacts,
    /// Restricts what is scheduled; empty or blank entries restrict nothing.
    pub requested: Vec<String>,
    /// Stacks that an apply of the same pull request touched and still locks, by key: affected whatever the paths say, so
    /// that what it left behind is planned and can be put back.
    pub applied: Vec<String>,
    /// By stack key.
    pub locks: BTreeMap<String, LockInfo>,
    /// The commit that matrix entries check out.
    pub sha: String,
    /// The commit whose policy files count; may be empty.
    pub policy_sha: String,
}

/// Resolves a change under one configuration. Malformed edges are ignored; of two nodes with one key the first counts
/// (refuse such graphs before with [`super::validate`]). With cycles the answer schedules nothing.
pub fn resolve(graph: &Graph, config: &RepoConfig, request: &ResolveRequest) -> Resolution {
    let ordering = ordering(graph);
    let affected = affected(graph, &ordering, config, request);
    schedule(graph, &ordering, config, request, affected)
}

/// Puts an affected set in order and adds everything a job needs to know.
pub(crate) fn schedule(
    graph: &Graph,
    ordering: &Ordering,
    config: &RepoConfig,
    request: &ResolveRequest,
    mut affected: Affected,
) -> Resolution {
    let mut resolution = Resolution { warnings: std::mem::take(&mut affected.warnings), ..Resolution::default() };
    let by_number = stacks_by_number(graph, ordering);
    let incomplete = graph.stacks.iter().flat_map(|stack| &stack.warnings).filter(|it| it.code == STACK_INCOMPLETE);
    resolution.warnings.extend(incomplete.cloned());
    for stack in (0..ordering.len()).filter(|stack| !ordering.is_schedulable(*stack)) {
        resolution.warnings.push(not_schedulable(&ordering.keys()[stack]));
    }
    let requested = requested(graph, ordering, &request.requested, &mut resolution.warnings);
    if let Some(requested) = &requested {
        for stack in requested {
            let why = &mut affected.stacks[*stack];
            if !why.is_affected() {
                why.reasons.insert(Reason::Requested);
            }
        }
    }
    let considered: Vec<bool> = affected.stacks.iter().map(|why| why.is_affected()).collect();
    let scheduled: Vec<bool> = (0..ordering.len())
        .map(|stack| considered[stack] && requested.as_ref().is_none_or(|requested| requested.contains(&stack)))
        .collect();
    resolution.cycles = cycles_within(ordering, &considered);
    // Order is found through every affected stack, requested or not.
    let levels = levels(&ordering.cut_to(&considered), &scheduled);
    let environments = EnvironmentRules::of(config);
    // In the order of the keys, which stays the order within each wave.
    for number in (0..ordering.len()).filter(|stack| scheduled[*stack]) {
        let (stack, why) = (by_number[number], &affected.stacks[number]);
        let Settings { environment, tool, tool_version, plan_output } =
            settings::of(stack, config, &environments, &mut resolution.warnings);
        resolution.warnings.extend(stack.warnings.iter().cloned());
        resolution.affected.push(AffectedStack {
            key: stack.key.clone(),
            path: stack.path.clone(),
            instance: stack.instance.clone(),
            workspace: stack.workspace.clone(),
            wave: if resolution.cycles.is_empty() { levels[number] } else { 0 },
            reasons: why.reasons.iter().copied().collect(),
            environment,
            tool: Some(tool),
            tool_version,
            plan_output: Some(plan_output),
            via: why.via(graph, ordering),
            locked_by: request.locks.get(&stack.key).cloned(),
        });
    }
    resolution.affected.sort_by_cached_key(|stack| stack.wave);
    resolution.external = external_dependents(graph, ordering, &scheduled);
    resolution.removed = removed(&request.base, &mut resolution.warnings);
    if resolution.cycles.is_empty() {
        let waves = resolution.affected.chunk_by(|a, b| a.wave == b.wave);
        resolution.waves = waves.map(|wave| wave.iter().map(|stack| stack.key.clone()).collect()).collect();
        resolution.matrix =
            Matrix { include: resolution.affected.iter().map(|stack| matrix_entry(stack, request)).collect() };
    }
    if resolution.affected.is_empty() {
        resolution.warnings.extend(why_empty(request, &affected, requested.is_some()));
    }
    resolution.warnings.sort();
    resolution.warnings.dedup();
    resolution
}

fn stacks_by_number<'g>(graph: &'g Graph, ordering: &Ordering) -> Vec<&'g Stack> {
    let mut found: Vec<Option<&Stack>> = vec![None; ordering.len()];
    for stack in graph.stacks.iter().filter(|stack| !stack.external) {
        if let Some(number) = ordering.index(&stack.key) {
            found[number].get_or_insert(stack);
        }
    }
    found.into_iter().map(|stack| stack.expect("every number was made from a stack")).collect()
}

/// The valid requested stacks by number; `None` when nothing restricts.
fn requested(
    graph: &Graph,
    ordering: &Ordering,
    names: &[String],
    warnings: &mut Vec<Warning>,
) -> Option<BTreeSet<usize>> {
    let names: Vec<&str> = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return None;
    }
    let mut valid = BTreeSet::new();
    for name in names {
        let key = match name.split_once("//") {
            Some((repo, key)) if repo.eq_ignore_ascii_case(&graph.repo) => normalise_key(key),
            // `a//b` is a path with one slash too many unless the first part can be a repository.
            Some((repo, _)) if repo.matches('/').count() == 1 && !repo.starts_with('.') => name.to_owned(),
            _ => normalise_key(name),
        };
        match ordering.index(&key).filter(|stack| ordering.is_schedulable(*stack)) {
            Some(number) => drop(valid.insert(number)),
            None => warnings.push(cannot_request(graph, ordering, &key)),
        }
    }
    Some(valid)
}

fn cannot_request(graph: &Graph, ordering: &Ordering, key: &str) -> Warning {
    let external = graph.stacks.iter().any(|stack| stack.external && stack.key == key);
    let instances: Vec<&str> =
        ordering.keys().iter().map(String::as_str).filter(|other| split_key(other).0 == key && *other != key).collect();
    let (code, message) = if external {
        ("requested_external", format!("requested stack {key:?} belongs to another repository"))
    } else if ordering.index(key).is_some() {
        ("requested_not_schedulable", format!("requested stack {key:?} is never scheduled"))
    } else if !instances.is_empty() {
        ("requested_instances", format!("requested stack {key:?} has instances; name one of {}", instances.join(", ")))
    } else {
        ("requested_unknown", format!("requested stack {key:?} is not in the graph"))
    };
    Warning::new(code, message).of_stack(key)
}

/// The entry of a job that plans or applies the stack (spec 13 §8).
pub fn matrix_entry(stack: &AffectedStack, request: &ResolveRequest) -> MatrixEntry {
    MatrixEntry {
        stack: stack.path.clone(),
        key: stack.key.clone(),
        instance: stack.instance.clone(),
        workspace: stack.workspace.clone(),
        environment: stack.environment.clone(),
        wave: stack.wave,
        tool: stack.tool.unwrap_or_default().as_str().to_owned(),
        tool_version: stack.tool_version.clone(),
        plan_output: stack.plan_output.unwrap_or_default().as_str().to_owned(),
        sha: request.sha.clone(),
        policy_sha: request.policy_sha.clone(),
        ..MatrixEntry::default()
    }
}

/// External stacks that come after a scheduled one.
fn external_dependents(graph: &Graph, ordering: &Ordering, scheduled: &[bool]) -> Vec<String> {
    let external: BTreeSet<&str> =
        graph.stacks.iter().filter(|stack| stack.external).map(|stack| stack.key.as_str()).collect();
    if external.is_empty() {
        return Vec::new();
    }
    let mut found = BTreeSet::new();
    for edge in graph.edges.iter().filter(|edge| edge.kind.orders() && edge.from.kind == NodeKind::Stack) {
        let waits = || ordering.index(&edge.to.key).is_some_and(|stack| scheduled[stack]);
        if external.contains(edge.from.key.as_str()) && waits() {
            found.insert(edge.from.key.clone());
        }
    }
    found.into_iter().collect()
}

fn removed(base: &BaseFacts, warnings: &mut Vec<Warning>) -> Vec<RemovedStack> {
    let removed: BTreeSet<&RemovedStack> = base.removed.iter().collect();
    for stack in &removed {
        let state = if stack.state.is_empty() { String::new() } else { format!(" (state {})", stack.state) };
        let moved = if stack.renamed_to.is_empty() {
            String::new()
        } else {
            format!("; its files are now in {:?}", stack.renamed_to)
        };
        let message = format!("stack {:?} is removed, its resources remain{state}{moved}", stack.key);
        warnings.push(Warning::new("stack_removed", message).of_stack(&stack.key));
    }
    removed.into_iter().cloned().collect()
}

/// An empty answer says why it is empty, as far as no other warning does.
fn why_empty(request: &ResolveRequest, affected: &Affected, restricted: bool) -> Option<Warning> {
    let count = affected.stacks.iter().filter(|why| why.is_affected()).count();
    if restricted {
        let message = format!("no requested stack is valid; without the request {count} stacks are affected");
        return (count > 0).then(|| Warning::new("nothing_affected", message));
    }
    let Uncounted { ignored, configuration } = affected.uncounted;
    let paths = request.changed_paths.len();
    let mut reasons = Vec::new();
    match ignored {
        0 => {}
        _ if ignored == paths => reasons.push("stacks.ignore matches them".to_owned()),
        _ => reasons.push(format!("stacks.ignore matches {ignored}")),
    }
    match configuration {
        0 => {}
        _ if configuration == paths => reasons.push("the configuration changed, but for no stack".to_owned()),
        _ => reasons.push(format!("{configuration} are configuration, which changed for no stack")),
    }
    if !affected.unused_modules.is_empty() {
        let modules: Vec<&str> = affected.unused_modules.iter().map(String::as_str).take(MODULES_MAX).collect();
        reasons.push(format!("no stack uses the module {}", modules.join(", ")));
    }
    let message = format!("none of the {paths} changed paths counts: {}", reasons.join("; "));
    (!reasons.is_empty()).then(|| Warning::new("nothing_affected", message))
}

/// Most modules that one sentence names.
const MODULES_MAX: usize = 5;
