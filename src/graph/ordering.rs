//! placeholder until the scan branch lands
use super::model::{Graph, NodeKind};
use std::collections::{BTreeMap, BTreeSet};
pub struct Ordering {
    up: BTreeMap<String, BTreeSet<String>>,
    down: BTreeMap<String, BTreeSet<String>>,
}
impl Ordering {
    pub fn of(graph: &Graph) -> Self {
        let (mut up, mut down): (BTreeMap<String, BTreeSet<String>>, BTreeMap<String, BTreeSet<String>>) =
            Default::default();
        for e in &graph.edges {
            if e.kind.orders() && e.from.kind == NodeKind::Stack && e.to.kind == NodeKind::Stack {
                up.entry(e.from.key.clone()).or_default().insert(e.to.key.clone());
                down.entry(e.to.key.clone()).or_default().insert(e.from.key.clone());
            }
        }
        Self { up, down }
    }
    pub fn predecessors(&self, key: &str) -> BTreeSet<String> {
        walk(&self.up, key)
    }
    pub fn dependents(&self, key: &str) -> BTreeSet<String> {
        walk(&self.down, key)
    }
}
fn walk(m: &BTreeMap<String, BTreeSet<String>>, key: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut todo = vec![key.to_owned()];
    while let Some(k) = todo.pop() {
        for n in m.get(&k).into_iter().flatten() {
            if n != key && seen.insert(n.clone()) {
                todo.push(n.clone());
            }
        }
    }
    seen
}
