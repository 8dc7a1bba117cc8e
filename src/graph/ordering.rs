//! Which stack must be applied before which: `depends_on` and `reads_state` among the stacks of one repository.
//!
//! Keys are turned into numbers once, so that everything that walks the edges of a large graph is linear in them.

use std::collections::{BTreeSet, HashMap};

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
    upstream: Vec<Vec<Link>>,
    downstream: Vec<Vec<Link>>,
}

/// The order of the stacks of a graph.
pub fn ordering(graph: &Graph) -> Ordering {
    let local = graph.stacks.iter().filter(|stack| !stack.external);
    let mut keys: Vec<String> = local.map(|stack| stack.key.clone()).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut ordering = Ordering {
        numbers: keys.iter().cloned().zip(0..).collect(),
        schedulable: keys.iter().map(|key| is_schedulable(key)).collect(),
        upstream: vec![Vec::new(); keys.len()],
        downstream: vec![Vec::new(); keys.len()],
        keys,
    };
    for edge in &graph.edges {
        let stacks = edge.from.kind == NodeKind::Stack && edge.to.kind == NodeKind::Stack;
        if !edge.kind.orders() || !stacks {
            continue;
        }
        if let (Some(from), Some(to)) = (ordering.index(&edge.from.key), ordering.index(&edge.to.key)) {
            ordering.upstream[from].push(Link { stack: to, kind: edge.kind });
            ordering.downstream[to].push(Link { stack: from, kind: edge.kind });
        }
    }
    for links in ordering.upstream.iter_mut().chain(&mut ordering.downstream) {
        links.sort_unstable();
        links.dedup();
    }
    ordering
}

impl Ordering {
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
        let (upstream, downstream) = self.links_within(&kept);
        let keys: Vec<String> = kept.iter().map(|old| self.keys[*old].clone()).collect();
        Ordering {
            numbers: keys.iter().cloned().zip(0..).collect(),
            keys,
            schedulable: kept.iter().map(|old| self.schedulable[*old]).collect(),
            upstream,
            downstream,
        }
    }

    /// The same for stacks that keep their numbers: the others stay, but nothing leads to or from them.
    pub(crate) fn cut_to(&self, members: &[bool]) -> Ordering {
        let links = |all: &[Vec<Link>]| {
            let kept = |links: &Vec<Link>| links.iter().filter(|link| members[link.stack]).copied().collect();
            let of = |(links, member): (&Vec<Link>, &bool)| if *member { kept(links) } else { Vec::new() };
            all.iter().zip(members).map(of).collect()
        };
        let (upstream, downstream) = (links(&self.upstream), links(&self.downstream));
        Ordering { upstream, downstream, ..Ordering::default() }
    }

    /// Links among the stacks `kept` (sorted), with their new numbers.
    fn links_within(&self, kept: &[usize]) -> (Vec<Vec<Link>>, Vec<Vec<Link>>) {
        let mut renumbered = vec![None; self.len()];
        for (new, old) in kept.iter().enumerate() {
            renumbered[*old] = Some(new);
        }
        let links = |all: &[Vec<Link>]| {
            let renumber = |link: &Link| Some(Link { stack: renumbered[link.stack]?, ..*link });
            kept.iter().map(|old| all[*old].iter().filter_map(renumber).collect()).collect()
        };
        (links(&self.upstream), links(&self.downstream))
    }

    pub(crate) fn index(&self, key: &str) -> Option<usize> {
        self.numbers.get(key).copied()
    }

    /// Whether the stack's key is a clean path inside the repository.
    pub(crate) fn is_schedulable(&self, stack: usize) -> bool {
        self.schedulable[stack]
    }

    pub(crate) fn len(&self) -> usize {
        self.upstream.len()
    }

    pub(crate) fn upstream(&self, stack: usize) -> &[Link] {
        &self.upstream[stack]
    }

    pub(crate) fn downstream(&self, stack: usize) -> &[Link] {
        &self.downstream[stack]
    }

    fn direct(&self, links: &[Vec<Link>], key: &str) -> Vec<&str> {
        let mut found: Vec<usize> = self.index(key).map_or(&[][..], |at| &links[at]).iter().map(|l| l.stack).collect();
        found.dedup();
        found.into_iter().map(|stack| self.keys[stack].as_str()).collect()
    }

    fn reached(&self, links: &[Vec<Link>], key: &str) -> BTreeSet<&str> {
        let mut seen = vec![false; self.len()];
        let mut queue: Vec<usize> = self.index(key).into_iter().collect();
        while let Some(at) = queue.pop() {
            for link in &links[at] {
                if !std::mem::replace(&mut seen[link.stack], true) {
                    queue.push(link.stack);
                }
            }
        }
        self.keys.iter().zip(seen).filter(|(_, seen)| *seen).map(|(key, _)| key.as_str()).collect()
    }
}
