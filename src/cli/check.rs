//! `stackorder check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Outcome;
use crate::run::status::VerdictStatus;
use crate::runner::Job;
use crate::runner::check::{CheckRequest, check};
use crate::runner::console::Format;
use crate::runner::stop::Stop;

#[derive(Debug, Args)]
#[command(
    after_help = "From a hook:\n  stackorder check --stack \"$STACKORDER_STACK\" --name cost --status warn --summary '+12 a month'"
)]
pub(super) struct Flags {
    /// Key of the stack
    #[arg(long, value_name = "KEY")]
    stack: String,
    /// Plan run of the stack [default: STACKORDER_RUN_ID]
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// Name of the verdict; shown as stackorder/<name>
    #[arg(long)]
    name: String,
    /// `pass` and `warn` let an apply pass, `fail` refuses it
    #[arg(long, value_enum)]
    status: StatusFlag,
    /// One line for people
    #[arg(long, default_value = "")]
    summary: String,
    /// File with the details
    #[arg(long, value_name = "FILE")]
    details_file: Option<PathBuf>,
    /// Page with the details
    #[arg(long, value_name = "URL", default_value = "")]
    details_url: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatusFlag {
    Pass,
    Fail,
    Warn,
}

impl From<StatusFlag> for VerdictStatus {
    fn from(flag: StatusFlag) -> Self {
        match flag {
            StatusFlag::Pass => VerdictStatus::Pass,
            StatusFlag::Fail => VerdictStatus::Fail,
            StatusFlag::Warn => VerdictStatus::Warn,
        }
    }
}

pub(super) async fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let request = CheckRequest {
        stack: flags.stack.clone(),
        run_id: flags.run_id.clone(),
        name: flags.name.clone(),
        status: flags.status.into(),
        summary: flags.summary.clone(),
        details_file: flags.details_file.clone(),
        details_url: flags.details_url.clone(),
    };
    let (key, stored) = check(job, &request).await?;
    job.console.result(&match job.console.format {
        Format::Json => serde_json::to_string(&stored).expect("a verdict has text keys"),
        Format::Text | Format::Picture(_) => format!("stackorder/{}: {key}: {}", stored.name, stored.status),
    });
    Ok(Outcome::Success)
}
