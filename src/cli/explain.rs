//! `stackorder explain`.

use clap::Args;

use super::{Outcome, table};
use crate::graph::explain::Explanation;
use crate::runner::Job;
use crate::runner::affected::affected;
use crate::runner::console::Format;
use crate::runner::explain::explain;
use crate::runner::stop::Stop;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  stackorder explain stacks/prod/eks --base main")]
pub(super) struct Flags {
    /// Key of the stack
    stack: String,
    /// Compare with this commit or branch [default: the default branch of origin]
    #[arg(long, value_name = "REF")]
    base: Option<String>,
}

pub(super) fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let found = affected(job, flags.base.as_deref())?;
    if !found.resolution.cycles.is_empty() {
        let (cycles, stop) = table::cycles(&found.resolution);
        job.console.note(&cycles);
        return Err(stop);
    }
    let explanation = explain(&found, &flags.stack)?;
    job.console.result(&match job.console.format {
        Format::Json => serde_json::to_string(&explanation).expect("an explanation has text keys"),
        Format::Text | Format::Dot => words(&explanation),
    });
    Ok(Outcome::Success)
}

fn words(explanation: &Explanation) -> String {
    let Some(wave) = explanation.wave else {
        return format!("{}: the change does not reach it", explanation.stack);
    };
    let mut lines = vec![format!("{}: wave {wave} ({})", explanation.stack, explanation.reasons.join(", "))];
    for step in &explanation.chain {
        lines.push(format!("  {} -> {} ({})", step.from, step.to, step.by));
    }
    if explanation.chain.is_empty() {
        lines.push(
            "  no changed path leads to it: a setting or a hook changed, or a stack it names is removed".to_owned(),
        );
    }
    lines.push(match explanation.after.as_slice() {
        [] => "  it waits for no other affected stack".to_owned(),
        after => format!("  it waits for {}", after.join(", ")),
    });
    lines.join("\n")
}
