//! `stackorder plan`.

use std::path::PathBuf;

use clap::Args;

use super::Outcome;
use super::runner::absolute;
use crate::runner::Job;
use crate::runner::console::Format;
use crate::runner::plan::{PlanRequest, PlannedStack, plan};
use crate::runner::stop::Stop;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  stackorder plan --stack stacks/prod/vpc --stack infra/kyc:staging")]
pub(super) struct Flags {
    /// Key of a stack; may be given more than once
    #[arg(long = "stack", required = true, value_name = "KEY")]
    stacks: Vec<String>,
    /// Run to report to [default: STACKORDER_RUN_ID]
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// Copy the plan file to one more place
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Name under which all bundles will be uploaded together
    #[arg(long, value_name = "NAME")]
    artifact: Option<String>,
    /// Longest time for the whole command, such as 350m or 6h [default: STACKORDER_RUN_TTL, else 350m]
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
}

pub(super) async fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let request = PlanRequest {
        stacks: flags.stacks.clone(),
        run_id: flags.run_id.clone(),
        out: flags.out.as_ref().map(absolute).transpose()?,
        artifact: flags.artifact.clone(),
    };
    let planned = plan(job, &request).await?;
    match job.console.format {
        Format::Json => {
            let json = match planned.as_slice() {
                [only] => serde_json::to_string(only),
                several => serde_json::to_string(several),
            };
            job.console.result(&json.expect("results have text keys"));
        }
        Format::Text | Format::Picture(_) => {
            for stack in &planned {
                job.console.result(&line(stack));
            }
        }
    }
    Ok(outcome(&planned))
}

fn line(stack: &PlannedStack) -> String {
    let mark = if stack.unconfirmed { " (unconfirmed)" } else { "" };
    match &stack.result.summary {
        Some(summary) => format!("{}: {}{mark}", stack.stack, summary.counts_text()),
        None => format!("{}: failed{mark}", stack.stack),
    }
}

fn outcome(planned: &[PlannedStack]) -> Outcome {
    if planned.iter().any(PlannedStack::is_failure) {
        Outcome::Error
    } else if planned.iter().any(PlannedStack::is_refused) {
        Outcome::Refused
    } else {
        Outcome::Success
    }
}
