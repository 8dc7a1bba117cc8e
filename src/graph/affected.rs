//! The affected set: which stacks a change reaches, and why (spec 11 §10).
//!
//! Everything here works on numbers of an [`Ordering`]; keys come back in [`super::resolve`].

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::model::{EdgeType, Graph, NodeKind, Warning};
use super::ordering::Ordering;
use super::paths::{Uncounted, touched};
use super::resolution::{BaseFacts, Reason};
use super::resolve::ResolveRequest;
use crate::config::model::RepoConfig;

/// The answer for every local stack, by its number.
#[derive(Debug, Clone)]
pub(crate) struct Affected {
    pub stacks: Vec<Why>,
    pub uncounted: Uncounted,
    /// Paths of changed local modules that no stack uses.
    pub unused_modules: BTreeSet<String>,
    pub warnings: Vec<Warning>,
}

/// Why one stack is affected. No reason: it is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Why {
    pub reasons: BTreeSet<Reason>,
    via_stacks: Vec<usize>,
    /// Places in `Graph::modules`.
    via_modules: Vec<usize>,
    via_removed: Vec<String>,
}

impl Why {
    pub fn is_affected(&self) -> bool {
        !self.reasons.is_empty()
    }

    /// Keys of what the change came through, sorted.
    pub fn via(&self, graph: &Graph, ordering: &Ordering) -> Vec<String> {
        let stacks = self.via_stacks.iter().map(|stack| &ordering.keys()[*stack]);
        let modules = self.via_modules.iter().map(|module| &graph.modules[*module].key);
        let mut keys: Vec<String> = stacks.chain(modules).chain(&self.via_removed).cloned().collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl Affected {
    /// Both answers, for one graph, at once: a stack is affected when either says so.
    pub fn unite(mut self, other: Affected) -> Affected {
        for (mine, theirs) in self.stacks.iter_mut().zip(other.stacks) {
            mine.reasons.extend(theirs.reasons);
            mine.via_stacks.extend(theirs.via_stacks);
            mine.via_modules.extend(theirs.via_modules);
            mine.via_removed.extend(theirs.via_removed);
        }
        // Only what counts for neither is left out.
        self.uncounted.ignored = self.uncounted.ignored.min(other.uncounted.ignored);
        self.uncounted.configuration = self.uncounted.configuration.min(other.uncounted.configuration);
        self.unused_modules.extend(other.unused_modules);
        self.warnings.extend(other.warnings);
        self
    }
}

/// Works out the affected set of changed paths, base facts and what the pull request has applied.
pub(crate) fn affected(graph: &Graph, ordering: &Ordering, config: &RepoConfig, request: &ResolveRequest) -> Affected {
    let base = &request.base;
    let mut touched = touched(graph, ordering, config, &request.changed_paths);
    let mut answer = Affected {
        stacks: vec![Why::default(); ordering.len()],
        uncounted: touched.uncounted,
        unused_modules: BTreeSet::new(),
        warnings: std::mem::take(&mut touched.warnings),
    };
    for stack in touched.changed {
        answer.stacks[stack].reasons.insert(Reason::Changed);
    }
    for stack in touched.watching {
        answer.stacks[stack].reasons.insert(Reason::WatchPath);
    }
    for stack in base.settings.iter().filter_map(|key| ordering.index(key)) {
        if ordering.is_schedulable(stack) {
            answer.stacks[stack].reasons.insert(Reason::Config);
        }
    }
    through_modules(graph, ordering, &touched.modules, &mut answer.stacks);
    if !answer.stacks.iter().any(Why::is_affected) {
        let unused = graph.modules.iter().filter(|module| touched.modules.contains(module.key.as_str()));
        answer.unused_modules = unused.map(|module| module.path.clone()).collect();
    }
    applied(ordering, &request.applied, &mut answer);
    if config.propagate.dependents {
        from_removed(graph, ordering, base, &mut answer.stacks);
        to_dependents(ordering, &mut answer.stacks);
    }
    answer
}

/// Stacks that the pull request has applied something of: what is deployed changed, even if no path differs any more.
fn applied(ordering: &Ordering, keys: &[String], answer: &mut Affected) {
    for key in keys {
        match ordering.index(key).filter(|stack| ordering.is_schedulable(*stack)) {
            Some(stack) if answer.stacks[stack].is_affected() => {}
            Some(stack) => {
                answer.stacks[stack].reasons.insert(Reason::Changed);
                let message = format!(
                    "stack {key:?} is planned although this head leaves it as its base has it: \
                     an apply of this pull request touched it"
                );
                answer.warnings.push(Warning::new("applied_before", message).of_stack(key));
            }
            None => {
                let message = format!(
                    "stack {key:?} was touched by an apply of this pull request and this head does not have it: \
                     what was made of it stays; bring the stack back to plan it"
                );
                answer.warnings.push(Warning::new("applied_and_gone", message).of_stack(key));
            }
        }
    }
}

/// Step 3: stacks that reach a changed local module, and the modules in between.
fn through_modules(graph: &Graph, ordering: &Ordering, changed: &BTreeSet<&str>, stacks: &mut [Why]) {
    if changed.is_empty() {
        return;
    }
    let numbers: HashMap<&str, usize> =
        graph.modules.iter().enumerate().map(|(number, module)| (module.key.as_str(), number)).collect();
    let mut users = vec![Vec::new(); numbers.len().max(graph.modules.len())];
    let mut uses = vec![Vec::new(); users.len()];
    let mut calls: Vec<(usize, usize)> = Vec::new();
    for edge in graph.edges.iter().filter(|edge| edge.kind == EdgeType::UsesModule && edge.to.kind == NodeKind::Module)
    {
        let Some(to) = numbers.get(edge.to.key.as_str()) else { continue };
        match edge.from.kind {
            NodeKind::Module => {
                if let Some(from) = numbers.get(edge.from.key.as_str()) {
                    users[*to].push(*from);
                    uses[*from].push(*to);
                }
            }
            NodeKind::Stack => calls.extend(ordering.index(&edge.from.key).map(|from| (from, *to))),
        }
    }
    let mut reached = vec![false; users.len()];
    let mut queue: Vec<usize> = changed.iter().filter_map(|key| numbers.get(key).copied()).collect();
    while let Some(module) = queue.pop() {
        if !std::mem::replace(&mut reached[module], true) {
            queue.extend(&users[module]);
        }
    }
    // One walk per stack; the mark says for which stack a module was seen last.
    calls.sort_unstable();
    let mut seen_for = vec![usize::MAX; users.len()];
    for (stack, module) in calls {
        if !ordering.is_schedulable(stack) {
            continue;
        }
        queue.push(module);
        while let Some(module) = queue.pop() {
            if reached[module] && std::mem::replace(&mut seen_for[module], stack) != stack {
                stacks[stack].reasons.insert(Reason::Module);
                stacks[stack].via_modules.push(module);
                queue.extend(&uses[module]);
            }
        }
    }
}

/// A stack that came after a removed one, or still names it, is planned: what it relied on goes away.
fn from_removed(graph: &Graph, ordering: &Ordering, base: &BaseFacts, stacks: &mut [Why]) {
    let removed: BTreeSet<&str> = base.removed.iter().map(|stack| stack.key.as_str()).collect();
    if removed.is_empty() {
        return;
    }
    let edges = graph.edges.iter().chain(&base.cut);
    for edge in edges.filter(|edge| edge.kind.orders() && removed.contains(edge.to.key.as_str())) {
        if let Some(stack) = ordering.index(&edge.from.key).filter(|_| ordering.index(&edge.to.key).is_none()) {
            stacks[stack].reasons.insert(reason_of(edge.kind));
            stacks[stack].via_removed.push(edge.to.key.clone());
        }
    }
}

/// Step 4: dependents of affected stacks, transitively. One that was affected anyway gains the reasons too.
fn to_dependents(ordering: &Ordering, stacks: &mut [Why]) {
    let mut reached: Vec<bool> = stacks.iter().map(Why::is_affected).collect();
    let mut queue: Vec<usize> = (0..stacks.len()).filter(|stack| reached[*stack]).collect();
    while let Some(stack) = queue.pop() {
        for link in ordering.downstream(stack) {
            if ordering.is_schedulable(link.stack) && !std::mem::replace(&mut reached[link.stack], true) {
                queue.push(link.stack);
            }
        }
    }
    for stack in (0..stacks.len()).filter(|stack| reached[*stack]) {
        for link in ordering.upstream(stack).iter().filter(|link| reached[link.stack] && link.stack != stack) {
            stacks[stack].reasons.insert(reason_of(link.kind));
            stacks[stack].via_stacks.push(link.stack);
        }
    }
}

fn reason_of(kind: EdgeType) -> Reason {
    match kind {
        EdgeType::DependsOn => Reason::Dependent,
        EdgeType::ReadsState => Reason::ReadsState,
        EdgeType::UsesModule => Reason::Module,
    }
}
