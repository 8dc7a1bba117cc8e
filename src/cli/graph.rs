//! `stackorder graph`.

use super::Outcome;
use crate::graph::cycles::cycles;
use crate::graph::dot::dot;
use crate::graph::ordering;
use crate::graph::text::text;
use crate::runner::Job;
use crate::runner::console::Format;
use crate::runner::stop::Stop;

pub(super) fn run(job: &Job) -> Result<Outcome, Stop> {
    let graph = job.scan()?.scanned.graph;
    for warning in &graph.warnings {
        job.console.note(&format!("warning: {warning}"));
    }
    for cycle in cycles(&ordering(&graph)) {
        job.console.warn(&format!("cycle: {}", cycle.join(" -> ")));
    }
    job.console.result(&match job.console.format {
        Format::Text => text(&graph),
        Format::Json => serde_json::to_string(&graph).expect("a graph has text keys"),
        Format::Dot => dot(&graph, None),
    });
    Ok(Outcome::Success)
}
