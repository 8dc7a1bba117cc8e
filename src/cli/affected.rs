//! `stackorder affected`.

use clap::Args;

use super::graph::NO_STACKS;
use super::{Outcome, colour, table};
use crate::graph::dot::dot;
use crate::graph::mermaid::waves;
use crate::graph::{ordering, svg};
use crate::runner::Job;
use crate::runner::affected::affected_until;
use crate::runner::console::{Format, Picture};
use crate::runner::resolve::Until;
use crate::runner::stop::Stop;

#[derive(Debug, Args)]
#[command(after_help = "Leaves with 0 when nothing is affected, with 2 when something is, with 1 when it cannot \
                        tell.\n\nExamples:\n  stackorder affected --base main\n  \
                        stackorder affected --base main --working-tree\n  \
                        stackorder affected --base HEAD~1 --format json\n  \
                        stackorder affected --base main --format svg > affected.svg")]
pub(super) struct Flags {
    /// Compare with this commit or branch [default: the default branch of origin]
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Count what is not committed too, and files that git does not know yet
    #[arg(long)]
    working_tree: bool,
}

/// Where the change ends, by the flag.
pub(super) fn until(working_tree: bool) -> Until {
    if working_tree { Until::WorkingTree } else { Until::Head }
}

pub(super) fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let found = affected_until(job, flags.base.as_deref(), until(flags.working_tree))?;
    let scanned = &found.change.checkout.scanned.graph;
    for warning in &scanned.warnings {
        job.console.note(&format!("warning: {}", colour::harmless(&warning.to_string())));
    }
    let resolution = &found.resolution;
    if found.graph().stacks.is_empty() {
        job.console.note(NO_STACKS);
    }
    table::say_why_empty(resolution, &job.console);
    table::say_how_many(resolution, &job.console);
    let (cycles, stop) = table::cycles(resolution);
    let text = match job.console.format {
        Format::Json => serde_json::to_string(resolution).expect("a resolution has text keys"),
        Format::Picture(Picture::Dot) => dot(found.graph(), Some(resolution)),
        Format::Picture(Picture::Svg) => svg::waves(resolution, &ordering(found.graph())),
        Format::Picture(Picture::Mermaid) => waves(resolution, &ordering(found.graph())),
        Format::Text if !resolution.cycles.is_empty() => cycles,
        Format::Text => table::affected(resolution),
    };
    job.console.result(&text);
    if !resolution.cycles.is_empty() {
        return Err(stop);
    }
    Ok(if found.is_any() { Outcome::Changes } else { Outcome::Success })
}
