//! Whether a graph that somebody sent can be worked with (spec 11 §14).

use std::collections::{BTreeMap, BTreeSet};

use super::cycles::{cycles, spelled};
use super::model::{Edge, EdgeType, Graph, ModuleKind, NodeKind, Warning};
use super::ordering::ordering;
use super::paths::is_schedulable;

/// What is wrong with a graph. Both lists are sorted; errors mean that it must not be stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validation {
    pub errors: Vec<String>,
    pub warnings: Vec<Warning>,
}

/// Checks nodes, edges and order. Unknown kinds of nodes, modules and edges are refused before, when JSON is read.
pub fn validate(graph: &Graph) -> Validation {
    let mut found = Validation::default();
    nodes(graph, &mut found);
    edges(graph, &mut found);
    for cycle in cycles(&ordering(graph)) {
        found.errors.push(format!("cycle: {}", spelled(&[cycle])));
    }
    module_cycles(graph, &mut found);
    found.errors.sort();
    found.errors.dedup();
    found.warnings.sort();
    found.warnings.dedup();
    found
}

/// The only graphs that a resolution refuses.
pub fn duplicate_keys(graph: &Graph) -> Vec<String> {
    let stacks = graph.stacks.iter().map(|stack| ("stack", &stack.key));
    let modules = graph.modules.iter().map(|module| ("module", &module.key));
    let mut seen = BTreeSet::new();
    let twice = stacks.chain(modules).filter(|node| !seen.insert(*node));
    let mut twice: Vec<String> = twice.map(|(kind, key)| format!("{kind} {key:?} is there twice")).collect();
    twice.sort();
    twice.dedup();
    twice
}

fn nodes(graph: &Graph, found: &mut Validation) {
    found.errors.extend(duplicate_keys(graph));
    for stack in &graph.stacks {
        if stack.key.is_empty() {
            found.errors.push("a stack has no key".to_owned());
            continue;
        }
        if stack.external {
            continue;
        }
        let expected = match stack.instance.as_str() {
            "" => stack.path.clone(),
            instance => format!("{}:{instance}", stack.path),
        };
        if expected != stack.key {
            let message = format!("stack {:?} does not match its path and instance, {expected:?}", stack.key);
            found.warnings.push(Warning::new("key_mismatch", message).of_stack(&stack.key));
        }
        if !is_schedulable(&stack.key) {
            found.warnings.push(not_schedulable(&stack.key));
        }
    }
    for module in &graph.modules {
        if module.key.is_empty() {
            found.errors.push("a module has no key".to_owned());
        } else if module.kind == ModuleKind::Local && module.path.is_empty() {
            let message = format!("local module {:?} has no path, so its changes are invisible", module.key);
            found.warnings.push(Warning::new("module_without_path", message));
        }
    }
}

/// A stack whose key is no canonical path inside the repository.
pub(crate) fn not_schedulable(key: &str) -> Warning {
    let message = format!("stack {key:?} is never scheduled: its key is not a clean path inside the repository");
    Warning::new("not_schedulable", message).of_stack(key)
}

fn edges(graph: &Graph, found: &mut Validation) {
    let stacks: BTreeSet<&str> = graph.stacks.iter().map(|stack| stack.key.as_str()).collect();
    let modules: BTreeSet<&str> = graph.modules.iter().map(|module| module.key.as_str()).collect();
    let exists = |kind: NodeKind, key: &str| match kind {
        NodeKind::Stack => stacks.contains(key),
        NodeKind::Module => modules.contains(key),
    };
    for edge in &graph.edges {
        let name = describe(edge);
        let kinds_fit = match edge.kind {
            EdgeType::DependsOn | EdgeType::ReadsState => {
                edge.from.kind == NodeKind::Stack && edge.to.kind == NodeKind::Stack
            }
            EdgeType::UsesModule => edge.to.kind == NodeKind::Module,
        };
        if !kinds_fit {
            found.errors.push(format!("{name}: the ends are of the wrong kind"));
            continue;
        }
        if edge.from == edge.to {
            found.errors.push(format!("{name}: a node cannot depend on itself"));
        }
        if !exists(edge.from.kind, &edge.from.key) {
            found.errors.push(format!("{name}: there is no {:?}", edge.from.key));
        }
        if !exists(edge.to.kind, &edge.to.key) {
            if edge.kind == EdgeType::DependsOn {
                let message = format!("stack {:?} depends on {:?}, which does not exist", edge.from.key, edge.to.key);
                found.warnings.push(Warning::new("depends_on_unknown", message).of_stack(&edge.from.key));
            } else {
                found.errors.push(format!("{name}: there is no {:?}", edge.to.key));
            }
        }
    }
}

fn describe(edge: &Edge) -> String {
    format!("edge {} {} -> {}", edge.kind.as_str(), edge.from.key, edge.to.key)
}

/// Modules that call each other in a circle; the tool refuses them, the graph lives with it.
fn module_cycles(graph: &Graph, found: &mut Validation) {
    let numbers: BTreeMap<&str, usize> =
        graph.modules.iter().enumerate().map(|(number, module)| (module.key.as_str(), number)).collect();
    let mut calls = petgraph::graph::DiGraph::<(), ()>::new();
    let nodes: Vec<_> = graph.modules.iter().map(|_| calls.add_node(())).collect();
    for edge in graph.edges.iter().filter(|edge| edge.from.kind == NodeKind::Module && edge.from != edge.to) {
        if let (Some(from), Some(to)) = (numbers.get(edge.from.key.as_str()), numbers.get(edge.to.key.as_str())) {
            calls.add_edge(nodes[*from], nodes[*to], ());
        }
    }
    for knot in petgraph::algo::tarjan_scc(&calls).into_iter().filter(|knot| knot.len() > 1) {
        let mut keys: Vec<&str> = knot.iter().map(|node| graph.modules[node.index()].key.as_str()).collect();
        keys.sort_unstable();
        let message = format!("modules call each other in a cycle: {}", keys.join(", "));
        found.warnings.push(Warning::new("module_cycle", message));
    }
}
