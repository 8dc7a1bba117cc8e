//! `stackorder drift`.

use clap::Args;

use super::Outcome;
use crate::runner::Job;
use crate::runner::console::Format;
use crate::runner::drift::{DriftFound, drift};
use crate::runner::report::Posted;
use crate::runner::stop::Stop;

#[derive(Debug, Args)]
#[command(
    after_help = "Leaves with 2 when the stack has drifted.\n\nExample:\n  stackorder drift --stack stacks/prod/vpc"
)]
pub(super) struct Flags {
    /// Key of the stack
    #[arg(long, value_name = "KEY")]
    stack: String,
    /// Run to report to [default: STACKORDER_RUN_ID]
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// Leave with 0 when drift was found
    #[arg(long)]
    drift_ok: bool,
    /// Longest time for the whole command, such as 350m or 6h [default: STACKORDER_RUN_TTL, else 350m]
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
}

pub(super) async fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let found = drift(job, &flags.stack, flags.run_id.as_deref()).await?;
    job.console.result(&match job.console.format {
        Format::Json => serde_json::json!({
            "stack": found.stack, "run_id": found.run_id, "unconfirmed": found.result.unconfirmed,
            "drifted": found.has_drifted(), "result": found.result,
        })
        .to_string(),
        Format::Text | Format::Picture(_) => line(&found),
    });
    match &found.posted {
        Posted::Refused(text) => Err(Stop::Refused(format!("the server refused the result: {text}"))),
        Posted::Failed(text) => Err(Stop::failed(format!("the server did not take the result: {text}"))),
        Posted::Confirmed | Posted::Unconfirmed(_) => Ok(match (found.has_drifted(), flags.drift_ok) {
            (true, false) => Outcome::Changes,
            (true, true) | (false, _) => Outcome::Success,
        }),
    }
}

fn line(found: &DriftFound) -> String {
    match found.result.summary.as_ref().filter(|_| found.has_drifted()) {
        Some(summary) => format!("{}: drifted: {}", found.stack, summary.counts_text()),
        None => format!("{}: no drift", found.stack),
    }
}
