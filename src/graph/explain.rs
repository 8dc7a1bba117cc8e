//! Why a change reaches a stack, and why the stack stands in its wave; or why the change does not reach it.
//!
//! Says what [`super::resolve`] found and nothing of its own: every chain ends in something that counted there.

mod why_not;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use super::model::{Edge, EdgeType, Graph, NodeKind, NodeRef};
use super::ordering::{Ordering, ordering};
use super::paths::touched_by_each;
use super::resolution::{AffectedStack, BaseFacts, Reason, RemovedStack, Resolution};
use crate::config::ROOT_FILE;
use crate::config::model::RepoConfig;

/// What a resolution was made of, and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    pub graph: &'a Graph,
    /// The configurations it was resolved under: the checkout's and, where it differs, the base copy.
    pub configs: &'a [&'a RepoConfig],
    pub changed_paths: &'a [String],
    pub base: &'a BaseFacts,
    pub resolution: &'a Resolution,
}

/// One step of a chain, from what was reached before to what it reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// A changed path, a module or a stack.
    pub from: String,
    /// How it reaches the next: `changed`, `watch_path`, `config`, `removed`, or the type of the edge.
    pub by: String,
    pub to: String,
}

/// One reason with the shortest chain that leads to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Because {
    pub reason: Reason,
    pub chain: Vec<Step>,
}

/// Why one stack is affected and stands in its wave, or why not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    pub stack: String,
    /// Whether the change reaches it.
    pub affected: bool,
    /// `None` when the change does not reach the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<u32>,
    /// Every reason, each with its own chain.
    pub because: Vec<Because>,
    /// Affected stacks of earlier waves that it waits for directly.
    pub after: Vec<String>,
    /// One stack of every earlier wave, each needed by the next, and at last this one; empty in wave 0.
    pub order: Vec<Step>,
    /// Sentences that say what is missing; empty when it is affected.
    pub why_not: Vec<String>,
    /// Where its resources remain, when the head no longer has the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<RemovedStack>,
}

/// Explains one stack of a resolution; one that the change does not reach has no wave.
pub fn explain(evidence: &Evidence<'_>, key: &str) -> Explanation {
    let known = Known::of(evidence);
    let nothing = Explanation {
        stack: key.to_owned(),
        affected: false,
        wave: None,
        because: Vec::new(),
        after: Vec::new(),
        order: Vec::new(),
        why_not: Vec::new(),
        removed: evidence.resolution.removed.iter().find(|removed| removed.key == key).cloned(),
    };
    match known.affected.get(key) {
        None => Explanation { why_not: why_not::why_not(&known, key), ..nothing },
        Some(found) => Explanation {
            affected: true,
            wave: Some(found.wave),
            because: found.reasons.iter().map(|reason| known.because(key, *reason)).collect(),
            after: known.waits_for(found),
            order: known.order(found),
            ..nothing
        },
    }
}

/// Where a chain begins: what changed, and how it counts for the node.
#[derive(Debug, Clone)]
struct Source {
    from: String,
    by: &'static str,
}

const CHANGED: &str = "changed";
const WATCHED: &str = "watch_path";
const CONFIG: &str = "config";
const REMOVED: &str = "removed";

/// The evidence in the order that questions about it need.
struct Known<'a> {
    evidence: &'a Evidence<'a>,
    ordering: Ordering,
    affected: BTreeMap<&'a str, &'a AffectedStack>,
    removed: BTreeSet<&'a str>,
    edges: BTreeMap<&'a NodeRef, Vec<&'a Edge>>,
    sources: BTreeMap<NodeRef, Vec<Source>>,
}

impl<'a> Known<'a> {
    fn of(evidence: &'a Evidence<'a>) -> Self {
        let resolution = evidence.resolution;
        let mut edges: BTreeMap<&NodeRef, Vec<&Edge>> = BTreeMap::new();
        for edge in evidence.graph.edges.iter().chain(&evidence.base.cut) {
            edges.entry(&edge.from).or_default().push(edge);
        }
        for leaving in edges.values_mut() {
            leaving.sort_by(|a, b| (a.kind, &a.to).cmp(&(b.kind, &b.to)));
        }
        let mut known = Self {
            evidence,
            ordering: ordering(evidence.graph),
            affected: resolution.affected.iter().map(|stack| (stack.key.as_str(), stack)).collect(),
            removed: resolution.removed.iter().map(|stack| stack.key.as_str()).collect(),
            edges,
            sources: BTreeMap::new(),
        };
        known.find_sources();
        known
    }

    fn find_sources(&mut self) {
        let Evidence { graph, configs, changed_paths, base, resolution } = *self.evidence;
        for config in configs {
            for (path, touched) in touched_by_each(graph, &self.ordering, config, changed_paths) {
                let stack = |number: &usize| NodeRef::stack(&self.ordering.keys()[*number]);
                let changed: Vec<NodeRef> = touched.changed.iter().map(stack).collect();
                let watching: Vec<NodeRef> = touched.watching.iter().map(stack).collect();
                let modules = touched.modules.iter().map(|key| NodeRef::module(*key));
                changed.into_iter().chain(modules).for_each(|node| self.add(node, CHANGED, &path));
                watching.into_iter().for_each(|node| self.add(node, WATCHED, &path));
            }
        }
        let hook = changed_paths.iter().find(|path| path.starts_with(".stackorder/hooks/"));
        for key in &base.settings {
            self.add(NodeRef::stack(key), CONFIG, hook.map_or(ROOT_FILE, |path| path));
        }
        for stack in &resolution.removed {
            let below = format!("{}/", stack.path);
            let from = changed_paths.iter().find(|path| path.starts_with(&below));
            self.add(NodeRef::stack(&stack.key), REMOVED, from.map_or(ROOT_FILE, |path| path));
        }
    }

    /// The first path of each kind is enough.
    fn add(&mut self, node: NodeRef, by: &'static str, from: &str) {
        let sources = self.sources.entry(node).or_default();
        if sources.iter().all(|source| source.by != by) {
            sources.push(Source { from: from.to_owned(), by });
        }
    }

    fn because(&self, key: &str, reason: Reason) -> Because {
        let chain = match reason {
            Reason::Changed => self.own(key, CHANGED),
            Reason::WatchPath => self.own(key, WATCHED),
            Reason::Config => self.own(key, CONFIG),
            Reason::Module => self.search(key, EdgeType::UsesModule),
            Reason::ReadsState => self.search(key, EdgeType::ReadsState),
            Reason::Dependent => self.search(key, EdgeType::DependsOn),
            Reason::Requested => Vec::new(),
        };
        Because { reason, chain }
    }

    /// The single step from something that changed to the stack itself.
    fn own(&self, key: &str, by: &str) -> Vec<Step> {
        let sources = self.sources.get(&NodeRef::stack(key)).into_iter().flatten();
        let found = sources.filter(|source| source.by == by).take(1);
        found.map(|source| Step { from: source.from.clone(), by: by.to_owned(), to: key.to_owned() }).collect()
    }

    /// The shortest way that leaves the stack by an edge of this type and ends at something that changed.
    fn search(&self, key: &str, first: EdgeType) -> Vec<Step> {
        let start = NodeRef::stack(key);
        let mut came_by: BTreeMap<&NodeRef, &Edge> = BTreeMap::new();
        let mut queue: VecDeque<&NodeRef> = VecDeque::new();
        for edge in self.leaving(&start).filter(|edge| edge.kind == first && edge.to != start) {
            came_by.entry(&edge.to).or_insert_with(|| {
                queue.push_back(&edge.to);
                edge
            });
        }
        while let Some(node) = queue.pop_front() {
            if let Some(source) = self.sources.get(node).and_then(|sources| sources.first()) {
                return spelled(source, node, &came_by);
            }
            for edge in self.leaving(node).filter(|edge| edge.to != start) {
                came_by.entry(&edge.to).or_insert_with(|| {
                    queue.push_back(&edge.to);
                    edge
                });
            }
        }
        Vec::new()
    }

    /// Edges along which a change came to the node: to modules always, to stacks as far as its reasons say so.
    fn leaving(&self, node: &NodeRef) -> impl Iterator<Item = &'a Edge> {
        let reasons = match node.kind {
            NodeKind::Module => &[][..],
            NodeKind::Stack => self.affected.get(node.key.as_str()).map_or(&[][..], |stack| &stack.reasons),
        };
        let (by_state, by_name) = (reasons.contains(&Reason::ReadsState), reasons.contains(&Reason::Dependent));
        self.edges.get(node).into_iter().flatten().copied().filter(move |edge| {
            let to = edge.to.key.as_str();
            let counts = || self.affected.contains_key(to) || self.removed.contains(to);
            match edge.kind {
                EdgeType::UsesModule => true,
                EdgeType::ReadsState => by_state && counts(),
                EdgeType::DependsOn => by_name && counts(),
            }
        })
    }

    /// Ordering edges from an affected stack to affected ones of earlier waves.
    fn earlier(&self, stack: &AffectedStack) -> impl Iterator<Item = (&'a Edge, &'a AffectedStack)> {
        let wave = stack.wave;
        let edges = self.edges.get(&NodeRef::stack(&stack.key)).into_iter().flatten().copied();
        edges.filter(|edge| edge.kind.orders()).filter_map(move |edge| {
            let before = *self.affected.get(edge.to.key.as_str())?;
            (before.wave < wave).then_some((edge, before))
        })
    }

    fn waits_for(&self, stack: &AffectedStack) -> Vec<String> {
        let keys: BTreeSet<&String> = self.earlier(stack).map(|(edge, _)| &edge.to.key).collect();
        keys.into_iter().cloned().collect()
    }

    fn order(&self, stack: &AffectedStack) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut at = stack;
        while let Some((edge, before)) = self.earlier(at).find(|(_, before)| before.wave + 1 == at.wave) {
            steps.push(step(&edge.to, edge));
            at = before;
        }
        steps.reverse();
        steps
    }
}

/// A found way in the direction of the change: from what changed, over `end`, to where the search began.
fn spelled(source: &Source, end: &NodeRef, came_by: &BTreeMap<&NodeRef, &Edge>) -> Vec<Step> {
    let mut steps = vec![Step { from: source.from.clone(), by: source.by.to_owned(), to: end.key.clone() }];
    let mut at = end;
    while let Some(edge) = came_by.get(at) {
        steps.push(step(at, edge));
        at = &edge.from;
    }
    steps
}

/// An edge as a step of the change, which runs against it.
fn step(reached: &NodeRef, edge: &Edge) -> Step {
    Step { from: reached.key.clone(), by: edge.kind.as_str().to_owned(), to: edge.from.key.clone() }
}
