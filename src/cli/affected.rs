//! `stackorder affected`.

use clap::Args;

use super::{Outcome, table};
use crate::graph::dot::dot;
use crate::runner::Job;
use crate::runner::affected::affected;
use crate::runner::console::Format;
use crate::runner::stop::Stop;

#[derive(Debug, Args)]
#[command(after_help = "Leaves with 2 when something is affected.\n\nExample:\n  stackorder affected --base main")]
pub(super) struct Flags {
    /// Compare with this commit or branch [default: the default branch of origin]
    #[arg(long, value_name = "REF")]
    base: Option<String>,
}

pub(super) fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let found = affected(job, flags.base.as_deref())?;
    let graph = &found.change.checkout.scanned.graph;
    for warning in &graph.warnings {
        job.console.note(&format!("warning: {warning}"));
    }
    let resolution = &found.resolution;
    table::say_why_empty(resolution, &job.console);
    let (cycles, stop) = table::cycles(resolution);
    let text = match job.console.format {
        Format::Json => serde_json::to_string(resolution).expect("a resolution has text keys"),
        Format::Dot => dot(graph, Some(resolution)),
        Format::Text if !resolution.cycles.is_empty() => cycles,
        Format::Text => table::affected(resolution),
    };
    job.console.result(&text);
    if !resolution.cycles.is_empty() {
        return Err(stop);
    }
    Ok(if found.is_any() { Outcome::Changes } else { Outcome::Success })
}
