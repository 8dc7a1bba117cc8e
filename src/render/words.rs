//! How numbers, statuses and reasons are said.

use crate::graph::resolution::Reason;
use crate::plan::summary::PlanSummary;
use crate::run::model::Row;
use crate::run::status::{RowStatus, RunStatus, SkipReason};

/// `1 stack`, `3 stacks`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// The first letter in upper case: a note becomes a title.
pub fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The counts of several plans together; their addresses are left out.
pub fn totals<'r>(rows: impl IntoIterator<Item = &'r Row>) -> PlanSummary {
    let summaries = rows.into_iter().filter_map(|row| row.summary.as_ref());
    summaries.fold(PlanSummary::default(), |total, one| PlanSummary {
        adds: total.adds.saturating_add(one.adds),
        changes: total.changes.saturating_add(one.changes),
        destroys: total.destroys.saturating_add(one.destroys),
        replaces: total.replaces.saturating_add(one.replaces),
        imports: total.imports.saturating_add(one.imports),
        moves: total.moves.saturating_add(one.moves),
        forgets: total.forgets.saturating_add(one.forgets),
        output_changes: total.output_changes.saturating_add(one.output_changes),
        ..PlanSummary::default()
    })
}

/// `4 to add, …`, or `No changes`; `planned` when a runner sent no counts.
pub fn planned(row: &Row) -> String {
    match &row.summary {
        Some(summary) if summary.is_empty() => "No changes".to_owned(),
        Some(summary) => summary.counts_text(),
        None if row.has_changes => "Changes".to_owned(),
        None => "No changes".to_owned(),
    }
}

/// `4 added, …`, or `Applied without changes`.
pub fn applied(row: &Row) -> String {
    match &row.summary {
        Some(summary) if !summary.is_empty() => summary.past_tense_text(),
        Some(_) => "Applied without changes".to_owned(),
        None => "Applied".to_owned(),
    }
}

/// `failed with exit code 1`.
pub fn failed(row: &Row) -> String {
    match row.exit_code {
        Some(code) => format!("failed with exit code {code}"),
        None if row.note.is_empty() => "failed".to_owned(),
        None => format!("failed: {}", row.note),
    }
}

/// `blocked by eks`, `blocked by eks and 2 more`.
pub fn blocked(row: &Row) -> String {
    match row.blocked_by.as_slice() {
        [] => "blocked".to_owned(),
        [one] => format!("blocked by {one}"),
        [first, more @ ..] => format!("blocked by {first} and {} more", more.len()),
    }
}

/// The status of a stack with what belongs to it, as a table or a list shows it.
pub fn status(row: &Row) -> String {
    match row.status {
        RowStatus::Applying if row.waiting_for_approval => "waiting for approval".to_owned(),
        RowStatus::Failed => failed(row),
        RowStatus::Blocked => blocked(row),
        RowStatus::Unknown if never_claimed(row) => "unknown: nothing was applied".to_owned(),
        RowStatus::Unconfirmed if !row.note.is_empty() => format!("unconfirmed: {}", row.note),
        RowStatus::Skipped if !row.note.is_empty() => format!("skipped: {}", row.note),
        RowStatus::Applied if row.applied_by_run.is_some() => "applied by an earlier run".to_owned(),
        RowStatus::Pending
        | RowStatus::Planning
        | RowStatus::Planned
        | RowStatus::Applying
        | RowStatus::Applied
        | RowStatus::Noop
        | RowStatus::Unconfirmed
        | RowStatus::Unknown
        | RowStatus::Skipped => row.status.to_string(),
    }
}

/// An apply row without a job that may have changed something.
pub fn never_claimed(row: &Row) -> bool {
    row.mode == crate::run::status::Mode::Apply && row.claim.is_none()
}

/// Asked for by the request that made the apply run.
pub fn is_selected(row: &Row) -> bool {
    row.skip_reason != Some(SkipReason::NotSelected)
}

/// Left out of an apply until somebody asks again, because its own plan is a new one.
pub fn has_new_plan(row: &Row) -> bool {
    row.status == RowStatus::Skipped && matches!(row.skip_reason, Some(SkipReason::PlanChanged | SkipReason::Verdict))
}

/// Left out of an apply because of a new plan, its own or one it waits for.
pub fn waits_for_request(row: &Row) -> bool {
    has_new_plan(row) || (row.status == RowStatus::Skipped && row.skip_reason == Some(SkipReason::Waits))
}

/// `2 failed, 1 blocked`: how many rows have each of these statuses; empty when none has.
pub fn tally<'r>(rows: impl IntoIterator<Item = &'r Row>, statuses: &[RowStatus]) -> String {
    let rows: Vec<RowStatus> = rows.into_iter().map(|row| row.status).collect();
    let parts = statuses.iter().filter_map(|status| {
        let number = rows.iter().filter(|row| *row == status).count();
        (number > 0).then(|| format!("{number} {status}"))
    });
    parts.collect::<Vec<_>>().join(", ")
}

pub fn run_status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Pending => "waiting",
        RunStatus::Planning => "planning",
        RunStatus::Planned => "planned",
        RunStatus::Applying => "applying",
        RunStatus::Applied => "applied",
        RunStatus::Failed => "failed",
        RunStatus::Unconfirmed => "unconfirmed",
        RunStatus::Superseded => "superseded",
    }
}

/// Why a stack is affected, in a reader's words.
pub fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Changed => "its files changed",
        Reason::WatchPath => "a file it reads or watches changed",
        Reason::Config => "its settings changed",
        Reason::Module => "a module it uses changed",
        Reason::ReadsState => "it reads the state of an affected stack",
        Reason::Dependent => "it depends on an affected stack",
        Reason::Requested => "somebody asked for it",
    }
}
