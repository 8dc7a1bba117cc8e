//! Which stack must be applied before which: `depends_on` and `reads_state` among the stacks of one repository.
//!
//! Keys are turned into numbers once, so that everything that walks the edges of a large graph is linear in them.

use std::collections::BTreeSet;

use foldhash::HashMap;

use super::model::{EdgeType, Graph, NodeKind};
use super::paths::is_schedulable;

/// One edge seen from one of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link {
    pub stack: usize,
    pub kind: EdgeType,
}

/// The local stacks of a graph and their order. Malformed edges and edges to external stacks are not in it.
#[derive(Debug, Clone, Default)]
pub struct Ordering {
    /// Sorted, so that a number is a rank.
    keys: Vec<String>,
    /// Only for look-ups: keys of one repository share long prefixes, which makes comparing them slow.
    numbers: HashMap<String, usize>,
    /// Whether each key may be scheduled at all; asked for often and not cheap to tell.
    schedulable: Vec<bool>,
    upstream: Links,
    downstream: Links,
}

/// The order of the stacks of a graph.
pub fn ordering(graph: &Graph) -> Ordering {
    let local = graph.stacks.iter().filter(|stack| !stack.external);
    let mut keys: Vec<String> = local.map(|stack| stack.key.clone()).collect();
    keys.sort_unstable();
    keys.dedup();
    let numbers: HashMap<String, usize> = keys.iter().cloned().zip(0..).collect();
    let mut edges = Vec::with_capacity(graph.edges.len());
    // Edges stand next to those from the same stack, so that each of these is looked up once.
    for of_one in graph.edges.chunk_by(|a, b| a.from == b.from) {
        let from = &of_one[0].from;
        let Some(from) = numbers.get(&from.key).filter(|_| from.kind == NodeKind::Stack) else { continue };
        for edge in of_one.iter().filter(|edge| edge.kind.orders() && edge.to.kind == NodeKind::Stack) {
            edges.extend(numbers.get(&edge.to.key).map(|to| (*from, Link { stack: *to, kind: edge.kind })));
        }
    }
    edges.sort_unstable();
    edges.dedup();
    let schedulable = keys.iter().map(|key| is_schedulable(key)).collect();
    Ordering::of(keys, numbers, schedulable, &edges)
}

impl Ordering {
    /// From the edges seen from their dependents, sorted.
    fn of(keys: Vec<String>, numbers: HashMap<String, usize>, schedulable: Vec<bool>, edges: &[(usize, Link)]) -> Self {
        let upstream = Links::new(schedulable.len(), edges.iter().copied());
        let turned = |(from, link): &(usize, Link)| (link.stack, Link { stack: *from, kind: link.kind });
        let downstream = Links::new(schedulable.len(), edges.iter().map(turned));
        Self { keys, numbers, schedulable, upstream, downstream }
    }

    /// All local stacks, sorted.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// What the stack itself depends on, sorted.
    pub fn predecessors(&self, key: &str) -> Vec<&str> {
        self.direct(&self.upstream, key)
    }

    /// What itself depends on the stack, sorted.
    pub fn dependents(&self, key: &str) -> Vec<&str> {
        self.direct(&self.downstream, key)
    }

    /// Everything that the stack reaches, directly or through others, sorted. Itself only in a cycle.
    pub fn all_predecessors(&self, key: &str) -> BTreeSet<&str> {
        self.reached(&self.upstream, key)
    }

    /// Everything that reaches the stack, sorted. Itself only in a cycle.
    pub fn all_dependents(&self, key: &str) -> BTreeSet<&str> {
        self.reached(&self.downstream, key)
    }

    /// The order among some stacks only: edges to the others are dropped.
    pub fn within(&self, keep: &BTreeSet<String>) -> Ordering {
        let kept: Vec<usize> = keep.iter().filter_map(|key| self.index(key)).collect();
        let mut renumbered = vec![None; self.len()];
        for (new, old) in kept.iter().enumerate() {
            renumbered[*old] = Some(new);
        }
        let renumber =
            |(from, link): (usize, Link)| Some((renumbered[from]?, Link { stack: renumbered[link.stack]?, ..link }));
        let edges: Vec<(usize, Link)> = self.edges().filter_map(renumber).collect();
        let keys: Vec<String> = kept.iter().map(|old| self.keys[*old].clone()).collect();
        let numbers = keys.iter().cloned().zip(0..).collect();
        Ordering::of(keys, numbers, kept.iter().map(|old| self.schedulable[*old]).collect(), &edges)
    }

    /// The same for stacks that keep their numbers: the others stay without a key, and nothing leads to or from them.
    pub(crate) fn cut_to(&self, members: &[bool]) -> Ordering {
        let edges: Vec<(usize, Link)> =
            self.edges().filter(|(from, link)| members[*from] && members[link.stack]).collect();
        Ordering::of(Vec::new(), HashMap::default(), self.schedulable.clone(), &edges)
    }

    /// Every edge, seen from its dependent, sorted.
    fn edges(&self) -> impl Iterator<Item = (usize, Link)> {
        (0..self.len()).flat_map(|stack| self.upstream.of(stack).iter().map(move |link| (stack, *link)))
    }

    pub(crate) fn index(&self, key: &str) -> Option<usize> {
        self.numbers.get(key).copied()
    }

    /// Whether the stack's key is a clean path inside the repository.
    pub(crate) fn is_schedulable(&self, stack: usize) -> bool {
        self.schedulable[stack]
    }

    pub(crate) fn len(&self) -> usize {
        self.schedulable.len()
    }

    pub(crate) fn upstream(&self, stack: usize) -> &[Link] {
        self.upstream.of(stack)
    }

    pub(crate) fn downstream(&self, stack: usize) -> &[Link] {
        self.downstream.of(stack)
    }

    fn direct(&self, links: &Links, key: &str) -> Vec<&str> {
        let mut found: Vec<usize> =
            self.index(key).map_or(&[][..], |at| links.of(at)).iter().map(|l| l.stack).collect();
        found.dedup();
        found.into_iter().map(|stack| self.keys[stack].as_str()).collect()
    }

    fn reached(&self, links: &Links, key: &str) -> BTreeSet<&str> {
        let mut seen = vec![false; self.len()];
        let mut queue: Vec<usize> = self.index(key).into_iter().collect();
        while let Some(at) = queue.pop() {
            for link in links.of(at) {
                if !std::mem::replace(&mut seen[link.stack], true) {
                    queue.push(link.stack);
                }
            }
        }
        self.keys.iter().zip(seen).filter(|(_, seen)| *seen).map(|(key, _)| key.as_str()).collect()
    }
}

/// The links of all stacks in one list, which is far quicker to make than a list for each.
#[derive(Debug, Clone, Default)]
struct Links {
    /// Where those of each stack start, and where those of the last one end.
    starts: Vec<usize>,
    links: Vec<Link>,
}

impl Links {
    /// The links of each stack keep the order that they come in.
    fn new(stacks: usize, edges: impl Iterator<Item = (usize, Link)> + Clone) -> Self {
        let mut starts = vec![0; stacks + 1];
        for (stack, _) in edges.clone() {
            starts[stack + 1] += 1;
        }
        for stack in 0..stacks {
            starts[stack + 1] += starts[stack];
        }
        let mut next = starts.clone();
        let mut links = vec![Link { stack: 0, kind: EdgeType::DependsOn }; starts[stacks]];
        for (stack, link) in edges {
            links[next[stack]] = link;
            next[stack] += 1;
        }
        Self { starts, links }
    }

    fn of(&self, stack: usize) -> &[Link] {
        &self.links[self.starts[stack]..self.starts[stack + 1]]
    }
}
