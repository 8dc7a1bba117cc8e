//! `stackorder graph`.

use clap::Args;

use super::{Outcome, colour};
use crate::graph::cycles::cycles;
use crate::graph::dot::dot;
use crate::graph::mermaid::{EDGES_MAX, whole};
use crate::graph::text::text;
use crate::graph::{ordering, svg};
use crate::runner::Job;
use crate::runner::console::{Format, Picture};
use crate::runner::stop::Stop;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  stackorder graph\n  stackorder graph --format json\n  \
                        stackorder graph --format svg > graph.svg\n  \
                        stackorder graph --format dot | dot -Tpdf -o graph.pdf\n  \
                        stackorder graph --format mermaid > graph.mmd")]
pub(super) struct Flags {}

pub(super) fn run(_flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let graph = job.scan()?.scanned.graph;
    for warning in &graph.warnings {
        job.console.note(&format!("warning: {}", colour::harmless(&warning.to_string())));
    }
    for cycle in cycles(&ordering(&graph)) {
        job.console.warn(&colour::harmless(&format!("cycle: {}", cycle.join(" -> "))));
    }
    if graph.stacks.is_empty() {
        job.console.note(NO_STACKS);
    }
    job.console.result(&match job.console.format {
        Format::Text => text(&graph),
        Format::Json => serde_json::to_string(&graph).expect("a graph has text keys"),
        Format::Picture(Picture::Dot) => dot(&graph, None),
        Format::Picture(Picture::Svg) => svg::whole(&graph),
        Format::Picture(Picture::Mermaid) => {
            if graph.edges.len() > EDGES_MAX {
                job.console.warn(&format!(
                    "Mermaid draws {EDGES_MAX} edges unless its maxEdges says more; this graph has {}",
                    graph.edges.len()
                ));
            }
            whole(&graph)
        }
    });
    Ok(Outcome::Success)
}

/// Why a graph can be empty, since that is rarely what somebody wanted to see.
pub(super) const NO_STACKS: &str = "no stack was found: a stack is a directory with Terraform files and an s3 backend \
                                    that stacks.discover matches and stacks.exclude does not, or one that \
                                    stacks.include names";
