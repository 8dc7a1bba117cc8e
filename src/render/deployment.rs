//! What GitHub shows beside a deployment that the App let through or rejected (spec 30 §14).

use super::{Context, escape, lists, refusal, words};
use crate::gate::Entry;
use crate::gate::deployment::{Deployment, Ruling};
use crate::run::status::Mode;

/// GitHub documents 1,024 characters for texts at this place, and answers a longer one as it answers a second answer: 422.
pub const ANSWER_BYTES_MAX: usize = 1024;
/// Room for the names of the judged stacks; the run page has them all.
const STACKS_BYTES_MAX: usize = 400;

/// The comment of the answer: what was judged, by which layers, and for which run.
pub fn answer(ruling: &Ruling, deployment: &Deployment, context: &Context) -> String {
    let link = ruling.run().map(|run| context.run_link(run)).unwrap_or_default();
    let environment = escape::code(&deployment.environment);
    let text = match ruling {
        Ruling::NotDispatched => "Rejected: Stackorder did not start this workflow run.".to_owned(),
        Ruling::OtherEnvironment { dispatched, .. } => {
            let meant = escape::code(dispatched);
            format!("Rejected: this workflow run was started for {meant}, not for {environment} ({link}).")
        }
        Ruling::RunAgain { .. } => format!(
            "Rejected: what this workflow run was started for has ended, and running it again applies nothing ({link}). \
             Ask Stackorder for a new apply instead."
        ),
        Ruling::RunEnded { run, status } => format!("Rejected: run {run} is {status} already ({link})."),
        Ruling::ReadOnly { run, mode } => {
            let what = match mode {
                Mode::Drift => "a drift check",
                Mode::Plan | Mode::Apply => "a plan",
            };
            format!("Approved: run {run} is {what}, which only reads ({link}).")
        }
        Ruling::Gate { run, entry, stacks, refusals } if refusals.is_empty() => {
            let stacks = named(stacks);
            format!("Approved for {stacks}: {} of apply run {run} ({link}).", layers(*entry))
        }
        Ruling::Gate { run, stacks, refusals, .. } => {
            let head = format!(
                "Rejected for {} of apply run {run} ({link}). Nothing of it was applied here.\n\n",
                named(stacks)
            );
            let room = ANSWER_BYTES_MAX.saturating_sub(head.len());
            format!("{head}{}", refusal::bullets(refusals, room))
        }
    };
    escape::cut_markdown(&text, ANSWER_BYTES_MAX).into_owned()
}

/// The layers that were asked and had nothing to object.
fn layers(entry: Entry) -> &'static str {
    match entry {
        Entry::ProtectionRule { comment_apply: true } => "layers 1 (authorization) and 2 (approvals) pass",
        Entry::ProtectionRule { comment_apply: false } | Entry::Comment | Entry::Merge | Entry::AfterMerge => {
            "layer 1 (authorization) passes"
        }
    }
}

/// All names if there is room, else how many stacks there are.
fn named<T: AsRef<str>>(stacks: &[T]) -> String {
    let names = lists::names(stacks);
    if names.len() <= STACKS_BYTES_MAX { names } else { words::count(stacks.len(), "stack") }
}
