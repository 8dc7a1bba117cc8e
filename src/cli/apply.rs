//! `stackorder apply`.

use std::path::PathBuf;

use clap::Args;

use super::Outcome;
use super::runner::absolute;
use crate::runner::Job;
use crate::runner::apply::{ApplyRequest, apply, apply_local};
use crate::runner::console::Format;
use crate::runner::stop::Stop;

#[derive(Debug, Args)]
#[command(
    after_help = "In a job the server dispatches applies; on a laptop:\n  stackorder apply --local --stack stacks/prod/vpc"
)]
pub(super) struct Flags {
    /// Key of the stack
    #[arg(long, value_name = "KEY")]
    stack: String,
    /// Run that dispatched this job [default: STACKORDER_RUN_ID]
    #[arg(long, value_name = "ID", conflicts_with = "local")]
    run_id: Option<String>,
    /// Directory of the downloaded plan bundle
    #[arg(long, value_name = "DIR", conflicts_with = "local")]
    bundle: Option<PathBuf>,
    /// Apply from this laptop under a lock of the server; needs an API key
    #[arg(long)]
    local: bool,
    /// Longest time for the whole command, such as 350m or 6h [default: STACKORDER_RUN_TTL, else 350m]
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
}

pub(super) async fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let applied = if flags.local {
        apply_local(job, &flags.stack).await?
    } else if job.facts.is_actions {
        let request = ApplyRequest {
            stack: flags.stack.clone(),
            run_id: flags.run_id.clone(),
            bundle: flags.bundle.as_ref().map(absolute).transpose()?,
        };
        apply(job, &request).await?
    } else {
        return Err(Stop::failed("outside of Actions an apply needs --local, a server and an API key"));
    };
    job.console.result(&match job.console.format {
        Format::Json => serde_json::json!({
            "stack": applied.stack, "run_id": applied.run_id, "result": applied.result,
        })
        .to_string(),
        Format::Text | Format::Picture(_) => {
            let counts = applied.result.summary.as_ref().map(|summary| summary.past_tense_text());
            format!("{}: {}", applied.stack, counts.unwrap_or_else(|| "applied".to_owned()))
        }
    });
    Ok(Outcome::Success)
}
