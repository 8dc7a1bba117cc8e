//! `stackorder unlock`.

use clap::Args;

use super::Outcome;
use crate::api::UnlockResponse;
use crate::clock::rfc3339;
use crate::graph::resolution::LockInfo;
use crate::ids::StackKey;
use crate::runner::Job;
use crate::runner::console::Format;
use crate::runner::stop::Stop;
use crate::runner::unlock::unlock;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  stackorder unlock stacks/prod/vpc --reason 'the pull request is abandoned'")]
pub(super) struct Flags {
    /// Keys of the stacks
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// Why, for the audit log and the holding pull request
    #[arg(long, default_value = "")]
    reason: String,
    /// Note that a runner may have died, so that people look at the backend's own state lock
    #[arg(long)]
    force_state: bool,
}

pub(super) async fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let released = unlock(job, &flags.keys, &flags.reason, flags.force_state).await?;
    match job.console.format {
        Format::Json => {
            let released = released.into_iter().flat_map(|(_, locks)| locks).collect();
            let all = UnlockResponse { released };
            job.console.result(&serde_json::to_string(&all).expect("locks have text keys"));
        }
        Format::Text | Format::Picture(_) => {
            for (key, locks) in &released {
                job.console.result(&lines(key, locks));
            }
        }
    }
    Ok(Outcome::Success)
}

fn lines(key: &StackKey, locks: &[LockInfo]) -> String {
    if locks.is_empty() {
        return format!("{key}: no lock held");
    }
    let line = |lock: &LockInfo| {
        let (run, pr, at) = (&lock.run_id, lock.pr_number, rfc3339(lock.taken_at));
        match pr {
            0 => format!("released {key} (run {run}, taken {at})"),
            pr => format!("released {key} (run {run}, PR #{pr}, taken {at})"),
        }
    };
    locks.iter().map(line).collect::<Vec<_>>().join("\n")
}
