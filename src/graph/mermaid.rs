//! Graphs as Mermaid flowcharts: the affected stacks by wave for comments and checks (design §12), and for a person's
//! own documents these or the whole graph, without a limit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::ends::missing;
use super::model::{EdgeType, Graph, ModuleKind, NodeRef};
use super::ordering::Ordering;
use super::resolution::Resolution;

/// Most stacks that a chart in a comment still shows readably; above it there is none.
pub const NODES_MAX: usize = 40;

/// Most edges that Mermaid draws unless it is told otherwise.
pub const EDGES_MAX: usize = 500;

/// The chart without its fence; `None` when nothing is affected, when a cycle leaves no waves, or above [`NODES_MAX`].
/// Arrows run from what is applied first to what waits for it.
pub fn waves_mermaid(resolution: &Resolution, ordering: &Ordering) -> Option<String> {
    let affected = &resolution.affected;
    if affected.is_empty() || affected.len() > NODES_MAX || !resolution.cycles.is_empty() {
        return None;
    }
    Some(waves(resolution, ordering))
}

/// The affected stacks by wave, however many there are.
pub fn waves(resolution: &Resolution, ordering: &Ordering) -> String {
    let affected = &resolution.affected;
    let ids: BTreeMap<&str, usize> =
        affected.iter().enumerate().map(|(number, stack)| (stack.key.as_str(), number)).collect();
    let mut out = String::from("flowchart LR\n");
    for (wave, keys) in resolution.waves.iter().enumerate() {
        line(&mut out, format_args!("  subgraph wave{wave}[\"wave {wave}\"]"));
        for key in keys {
            let Some(number) = ids.get(key.as_str()) else { continue };
            line(&mut out, format_args!("    s{number}[\"{}\"]", escape(key)));
        }
        out.push_str("  end\n");
    }
    // A cycle leaves no waves, and its stacks must have their names all the same.
    if resolution.waves.is_empty() {
        for (number, stack) in affected.iter().enumerate() {
            line(&mut out, format_args!("  s{number}[\"{}\"]", escape(&stack.key)));
        }
    }
    for stack in affected {
        for before in ordering.predecessors(&stack.key) {
            if let (Some(from), Some(to)) = (ids.get(before), ids.get(stack.key.as_str())) {
                line(&mut out, format_args!("  s{from} --> s{to}"));
            }
        }
    }
    out
}

/// The whole graph, arrows from what is needed to what needs it: stacks as boxes (external ones dashed), modules as
/// rounded boxes, `depends_on` solid, `reads_state` dotted, `uses_module` open.
pub fn whole(graph: &Graph) -> String {
    let mut graph = graph.clone();
    graph.sort();
    let mut ids: BTreeMap<NodeRef, String> = BTreeMap::new();
    let mut out = String::from("flowchart LR\n");
    for (number, stack) in graph.stacks.iter().enumerate() {
        let class = if stack.external { ":::external" } else { "" };
        line(&mut out, format_args!("  s{number}[\"{}\"]{class}", escape(&stack.key)));
        ids.entry(NodeRef::stack(&stack.key)).or_insert_with(|| format!("s{number}"));
    }
    for (number, module) in graph.modules.iter().enumerate() {
        let label = if module.kind == ModuleKind::Local { &module.path } else { &module.key };
        line(&mut out, format_args!("  m{number}([\"{}\"])", escape(label)));
        ids.entry(NodeRef::module(&module.key)).or_insert_with(|| format!("m{number}"));
    }
    for node in missing(&graph.edges, |node| ids.contains_key(node)) {
        let id = format!("x{}", ids.len());
        line(&mut out, format_args!("  {id}[\"{}\"]:::missing", escape(&node.key)));
        ids.insert(node, id);
    }
    for edge in &graph.edges {
        let arrow = match edge.kind {
            EdgeType::DependsOn => "-->",
            EdgeType::ReadsState => "-.->",
            EdgeType::UsesModule => "---",
        };
        line(&mut out, format_args!("  {} {arrow} {}", ids[&edge.to], ids[&edge.from]));
    }
    out.push_str("  classDef external stroke-dasharray:6 4\n  classDef missing stroke-dasharray:2 2\n");
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string cannot fail");
}

/// Everything but plain name characters as a numeric entity: nothing of a key may be read as Mermaid or Markdown.
fn escape(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | ':' | ' ');
    text.chars().map(|c| if plain(c) { c.to_string() } else { format!("#{};", u32::from(c)) }).collect()
}
