//! The graph for Graphviz (spec 11 §16).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::ends::missing;
use super::model::{EdgeType, Graph, NodeKind, NodeRef};
use super::resolution::Resolution;

/// Fill colours of the waves, from first to last and again from the start: light, so that black text stays readable.
const WAVE_COLOURS: [&str; 6] = ["#ffd8a8", "#ffec99", "#d8f5a2", "#96f2d7", "#a5d8ff", "#d0bfff"];

/// `digraph stackorder`; with a resolution the affected stacks are filled and numbered.
pub fn dot(graph: &Graph, resolution: Option<&Resolution>) -> String {
    let mut graph = graph.clone();
    graph.sort();
    let waves: BTreeMap<&str, u32> = resolution
        .into_iter()
        .flat_map(|known| &known.affected)
        .map(|stack| (stack.key.as_str(), stack.wave))
        .collect();
    let mut out = String::from("digraph stackorder {\n  rankdir=BT;\n");
    line(&mut out, &format!("label={};", quote(format!("{} {}", graph.repo, graph.sha).trim())));
    let mut known = BTreeSet::new();
    for stack in &graph.stacks {
        let node = NodeRef::stack(&stack.key);
        let mut style = if stack.external { "shape=box, style=dashed".to_owned() } else { "shape=box".to_owned() };
        let mut label = stack.key.clone();
        if let Some(wave) = waves.get(stack.key.as_str()) {
            let colour = WAVE_COLOURS[*wave as usize % WAVE_COLOURS.len()];
            style = format!("shape=box, style=filled, fillcolor=\"{colour}\"");
            label = format!("{label}\nwave {wave}");
        }
        line(&mut out, &format!("{} [label={}, {style}];", id(&node), quote(&label)));
        known.insert(node);
    }
    for module in &graph.modules {
        let node = NodeRef::module(&module.key);
        line(&mut out, &format!("{} [label={}, shape=component];", id(&node), quote(&module.key)));
        known.insert(node);
    }
    for node in missing(&graph.edges, |node| known.contains(node)) {
        line(&mut out, &format!("{} [label={}, shape=box, style=dotted];", id(&node), quote(&node.key)));
    }
    for edge in &graph.edges {
        let style = match edge.kind {
            EdgeType::DependsOn => "style=solid",
            EdgeType::ReadsState => "style=dashed",
            EdgeType::UsesModule => "color=grey",
        };
        let ends = format!("{} -> {}", id(&edge.from), id(&edge.to));
        line(&mut out, &format!("{ends} [label=\"{}\", {style}];", edge.kind.as_str()));
    }
    out.push_str("}\n");
    out
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "  {text}").expect("writing to a string cannot fail");
}

fn id(node: &NodeRef) -> String {
    let kind = match node.kind {
        NodeKind::Stack => "stack",
        NodeKind::Module => "module",
    };
    quote(&format!("{kind}:{}", node.key))
}

/// A quoted string of the DOT language, with newlines as its line breaks.
fn quote(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "");
    format!("\"{escaped}\"")
}
