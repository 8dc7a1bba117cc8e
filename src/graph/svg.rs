//! Graphs as SVG documents that stand alone: light or dark as the reader's system is, with the whole name of a node in
//! its title.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::ends::missing;
use super::layout::{Drawing, draw};
use super::model::{EdgeType, Graph, ModuleKind, NodeRef};
use super::ordering::Ordering;
use super::resolution::Resolution;

/// Characters of a label; the whole name is in the title.
const LABEL_CHARS_MAX: usize = 48;
const CHAR_WIDTH: f64 = 7.3;
const PADDING: f64 = 24.0;

const STYLE: &str = "\
:root{--paper:#fff;--ink:#1f2328;--line:#59636e;--stack:#ddf4ff;--module:#f6f8fa}\
@media(prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--line:#9198a1;--stack:#12293f;--module:#21262d}}\
.paper{fill:var(--paper);stroke:none}\
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:var(--ink)}\
rect{stroke:var(--line)}.stack{fill:var(--stack)}.module{fill:var(--module)}\
.external{stroke-dasharray:6 4}.missing{fill:none;stroke-dasharray:2 2}\
path{fill:none;stroke:var(--line);stroke-width:1.4}.reads_state{stroke-dasharray:6 4}.uses_module{stroke-opacity:.45}";

struct Node {
    /// Classes of the box.
    class: &'static str,
    label: String,
    title: String,
}

/// The whole graph, what is needed left of what needs it: stacks with square corners (external ones dashed), modules
/// rounded, ends of edges that are no node dotted; `depends_on` solid, `reads_state` dashed, `uses_module` pale.
pub fn whole(graph: &Graph) -> String {
    let mut graph = graph.clone();
    graph.sort();
    let mut nodes = Vec::new();
    let mut numbers: BTreeMap<NodeRef, usize> = BTreeMap::new();
    let mut add = |numbers: &mut BTreeMap<NodeRef, usize>, node: NodeRef, drawn: Node| {
        numbers.entry(node).or_insert_with(|| {
            nodes.push(drawn);
            nodes.len() - 1
        });
    };
    for stack in &graph.stacks {
        let class = if stack.external { "stack external" } else { "stack" };
        let drawn = Node { class, label: stack.key.clone(), title: stack.key.clone() };
        add(&mut numbers, NodeRef::stack(&stack.key), drawn);
    }
    for module in &graph.modules {
        let label = if module.kind == ModuleKind::Local { &module.path } else { &module.key };
        let drawn = Node { class: "module", label: label.clone(), title: module.key.clone() };
        add(&mut numbers, NodeRef::module(&module.key), drawn);
    }
    for node in missing(&graph.edges, |node| numbers.contains_key(node)) {
        let title = format!("{} is not in the graph", node.key);
        let drawn = Node { class: "missing", label: node.key.clone(), title };
        add(&mut numbers, node, drawn);
    }
    let edges = graph.edges.iter().map(|edge| (numbers[&edge.to], numbers[&edge.from], edge.kind));
    picture(format!("{} {}", graph.repo, graph.sha).trim(), &nodes, &edges.collect::<Vec<_>>())
}

/// The affected stacks with their waves, and which of them wait for which.
pub fn waves(resolution: &Resolution, ordering: &Ordering) -> String {
    let affected = &resolution.affected;
    let numbers: BTreeMap<&str, usize> =
        affected.iter().enumerate().map(|(number, stack)| (stack.key.as_str(), number)).collect();
    let nodes: Vec<Node> = affected
        .iter()
        .map(|stack| {
            let reasons: Vec<&str> = stack.reasons.iter().map(|reason| reason.as_str()).collect();
            Node {
                class: "stack",
                label: format!("{} · {}", stack.wave, stack.key),
                title: format!("{}: wave {}, {}", stack.key, stack.wave, reasons.join(", ")),
            }
        })
        .collect();
    let edges = affected.iter().flat_map(|stack| {
        let before = ordering.predecessors(&stack.key).into_iter().filter_map(|before| numbers.get(before));
        let number = numbers[stack.key.as_str()];
        before.map(move |before| (*before, number, EdgeType::DependsOn)).collect::<Vec<_>>()
    });
    picture("affected stacks by wave", &nodes, &edges.collect::<Vec<_>>())
}

/// Edges run from what comes first to what comes after.
fn picture(title: &str, nodes: &[Node], edges: &[(usize, usize, EdgeType)]) -> String {
    let widths: Vec<f64> = nodes.iter().map(|node| cut(&node.label).width() as f64 * CHAR_WIDTH + PADDING).collect();
    let pairs: Vec<(usize, usize)> = edges.iter().map(|(from, to, _)| (*from, *to)).collect();
    let Drawing { width, height, places, lines } = draw(&widths, &pairs);
    let mut out = String::new();
    line(
        &mut out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\">"
        ),
    );
    line(&mut out, format_args!("<title>{}</title>", escape(title)));
    line(&mut out, format_args!("<style>{STYLE}</style>"));
    line(&mut out, format_args!("<rect class=\"paper\" width=\"100%\" height=\"100%\"/>"));
    for ((_, _, kind), d) in edges.iter().zip(lines) {
        line(&mut out, format_args!("<path class=\"{}\" d=\"{d}\"/>", kind.as_str()));
    }
    for (node, place) in nodes.iter().zip(places) {
        let radius = if node.class == "module" { 15 } else { 4 };
        line(
            &mut out,
            format_args!(
                "<g><title>{}</title><rect class=\"{}\" x=\"{:.0}\" y=\"{:.0}\" width=\"{:.0}\" height=\"{:.0}\" \
                 rx=\"{radius}\"/><text x=\"{:.0}\" y=\"{:.0}\">{}</text></g>",
                escape(&node.title),
                node.class,
                place.x,
                place.y,
                place.width,
                place.height,
                place.x + PADDING / 2.0,
                place.y + place.height / 2.0 + 4.0,
                escape(&cut(&node.label)),
            ),
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The end of a long name tells more than its beginning.
fn cut(label: &str) -> String {
    let length = label.chars().count();
    if length <= LABEL_CHARS_MAX {
        return label.to_owned();
    }
    let end: String = label.chars().skip(length - LABEL_CHARS_MAX + 1).collect();
    format!("…{end}")
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string cannot fail");
}

/// Text of an XML document. A control character could not stand there in any way.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
