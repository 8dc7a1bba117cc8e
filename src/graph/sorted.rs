//! The one order of everything in a graph (spec 11 §7.3): shuffled input must give the same bytes.

use super::model::Graph;

impl Graph {
    /// Sorts nodes, edges and warnings, and drops repeated edges and warnings.
    pub fn sort(&mut self) {
        self.stacks.sort_by(|a, b| a.key.cmp(&b.key));
        self.modules.sort_by(|a, b| a.key.cmp(&b.key));
        self.edges.sort_by(|a, b| {
            let key = |edge: &super::model::Edge| (edge.from.clone(), edge.kind.as_str(), edge.to.clone());
            key(a).cmp(&key(b))
        });
        self.edges.dedup();
        self.warnings.sort();
        self.warnings.dedup();
        for stack in &mut self.stacks {
            stack.warnings.sort();
            stack.warnings.dedup();
        }
    }
}
