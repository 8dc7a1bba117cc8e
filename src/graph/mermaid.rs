//! The affected stacks by wave as a Mermaid flowchart, for comments and checks (design §12).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::ordering::Ordering;
use super::resolution::Resolution;

/// Most stacks that a chart still shows readably; above it there is none.
pub const NODES_MAX: usize = 40;

/// The chart without its fence; `None` when nothing is affected, when a cycle leaves no waves, or above [`NODES_MAX`].
/// Arrows run from what is applied first to what waits for it.
pub fn waves_mermaid(resolution: &Resolution, ordering: &Ordering) -> Option<String> {
    let affected = &resolution.affected;
    if affected.is_empty() || affected.len() > NODES_MAX || !resolution.cycles.is_empty() {
        return None;
    }
    let ids: BTreeMap<&str, usize> =
        affected.iter().enumerate().map(|(number, stack)| (stack.key.as_str(), number)).collect();
    let mut out = String::from("flowchart LR\n");
    for (wave, keys) in resolution.waves.iter().enumerate() {
        writeln!(out, "  subgraph wave{wave}[\"wave {wave}\"]").expect("writing to a string cannot fail");
        for key in keys {
            let Some(number) = ids.get(key.as_str()) else { continue };
            writeln!(out, "    s{number}[\"{}\"]", escape(key)).expect("writing to a string cannot fail");
        }
        out.push_str("  end\n");
    }
    for stack in affected {
        for before in ordering.predecessors(&stack.key) {
            if let (Some(from), Some(to)) = (ids.get(before), ids.get(stack.key.as_str())) {
                writeln!(out, "  s{from} --> s{to}").expect("writing to a string cannot fail");
            }
        }
    }
    Some(out)
}

/// Everything but plain name characters as a numeric entity: nothing of a key may be read as Mermaid or Markdown.
fn escape(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | ':' | ' ');
    text.chars().map(|c| if plain(c) { c.to_string() } else { format!("#{};", u32::from(c)) }).collect()
}
