//! The audit row of a decision: which runs and stacks it moved, on whose word, and by which rule (spec 30 §16).
//!
//! Whoever moves a status does not write this row. It is read off the scenes before and after, so no move can be
//! forgotten, and a decision that moves nothing leaves none. One decision is one row, whatever it settles.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;

use super::model::{AuditEntry, Row, Run};
use super::scene::Scene;
use super::status::{Mode, RowStatus, RunStatus, SkipReason, Trigger};
use crate::clock::Millis;
use crate::ids::{RunId, StackKey};

/// The action of these rows.
pub const ACTION: &str = "moved";

/// Most stacks that one row names; above that it says how many it leaves out. A row is read by people and stored for ever.
const STACKS_MAX: usize = 256;

/// On whose word a decision was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Login, `apikey:<name>`, `workflow_run:<id>`, `github`, or `stackorder` for what time brings.
    pub actor: String,
    /// What arrived: `result`, `claim`, `new head`.
    pub event: &'static str,
}

/// A run that moved, or the stacks of one run that moved alike.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Moved<'s> {
    run: &'s RunId,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stacks: Vec<&'s StackKey>,
    /// Nothing for what is new.
    from: Option<&'static str>,
    to: &'static str,
    rule: &'static str,
}

/// The row that tells what moved between two scenes; `None` when nothing did.
pub fn audit_entry(before: &Scene, after: &Scene, cause: Option<&Cause>, now: Millis) -> Option<AuditEntry> {
    let runs = moved_runs(before, after);
    let (stacks, left_out) = moved_stacks(before, after);
    let first = runs.first().or(stacks.first())?.run;
    let alone = runs.iter().chain(&stacks).all(|moved| moved.run == first);
    let run = &after.runs[first];
    // Without a word from outside it is whoever asked for the new run, or time.
    let asked_for = if before.runs.contains_key(first) { "stackorder" } else { run.requested_by.as_str() };
    let named = cause.map_or(asked_for, |cause| &cause.actor);
    let actor = if named.is_empty() { "stackorder" } else { named };
    let target = if alone { format!("run:{first}") } else { format!("pr:{}#{}", after.repo.full_name, run.pr_number) };
    let mut details = BTreeMap::from([
        ("repo".to_owned(), json!(after.repo.full_name)),
        ("cause".to_owned(), json!(cause.map_or_else(|| run.trigger.as_str(), |cause| cause.event))),
    ]);
    if run.pr_number != 0 {
        details.insert("pr".to_owned(), json!(run.pr_number));
    }
    if !runs.is_empty() {
        details.insert("runs".to_owned(), json!(runs));
    }
    if !stacks.is_empty() {
        details.insert("stacks".to_owned(), json!(stacks));
    }
    if left_out > 0 {
        details.insert("left_out".to_owned(), json!(left_out));
    }
    Some(AuditEntry { at: now, actor: actor.to_owned(), action: ACTION.to_owned(), target, details })
}

fn moved_runs<'s>(before: &Scene, after: &'s Scene) -> Vec<Moved<'s>> {
    let moved = after.runs.values().filter_map(|run| {
        let old = before.run(&run.id);
        (old.map(|old| old.status) != Some(run.status)).then(|| Moved {
            run: &run.id,
            stacks: Vec::new(),
            from: old.map(|old| old.status.as_str()),
            to: run.status.as_str(),
            rule: rule_of_run(before, after, run),
        })
    });
    moved.collect()
}

/// Stacks that moved, those of one run that moved alike together; and how many are over the limit.
fn moved_stacks<'s>(before: &Scene, after: &'s Scene) -> (Vec<Moved<'s>>, usize) {
    type Alike<'s> = (&'s RunId, Option<&'static str>, &'static str, &'static str);
    let mut alike: BTreeMap<Alike<'s>, Vec<&'s StackKey>> = BTreeMap::new();
    let (mut named, mut left_out) = (0, 0);
    let touched = after.rows.iter().filter(|(id, rows)| before.rows.get(*id).is_none_or(|old| !Arc::ptr_eq(old, rows)));
    for row in touched.flat_map(|(_, rows)| rows.values()) {
        let old = before.row(&row.run_id, &row.key);
        if old.map(|old| old.status) == Some(row.status) {
            continue;
        }
        if named == STACKS_MAX {
            left_out += 1;
            continue;
        }
        named += 1;
        let from = old.map(|old| old.status.as_str());
        let moved = (&row.run_id, from, row.status.as_str(), rule_of_row(before, after, old, row));
        alike.entry(moved).or_default().push(&row.key);
    }
    let moved = alike.into_iter().map(|((run, from, to, rule), stacks)| Moved { run, stacks, from, to, rule });
    (moved.collect(), left_out)
}

/// The section of spec 30 that moved the run.
fn rule_of_run(before: &Scene, after: &Scene, run: &Run) -> &'static str {
    match before.run(&run.id) {
        None => return rule_of_new(run),
        Some(old) if old.is_queued() && run.status != RunStatus::Superseded => return "queued applies",
        Some(_) => {}
    }
    match (run.status, run.mode) {
        (RunStatus::Superseded, _) => "superseding",
        (RunStatus::Pending | RunStatus::Planning, _) => "row and run progress",
        (RunStatus::Applying, _) => "waves",
        (RunStatus::Applied | RunStatus::Failed, Mode::Apply) if is_broken_off(after, run) => {
            "apply runs without a dispatch"
        }
        (RunStatus::Planned | RunStatus::Applied | RunStatus::Failed | RunStatus::Unconfirmed, Mode::Apply) => "settle",
        (RunStatus::Failed, Mode::Plan | Mode::Drift) if was_rejected(before, after, &run.id) => "sending",
        (
            RunStatus::Planned | RunStatus::Applied | RunStatus::Failed | RunStatus::Unconfirmed,
            Mode::Plan | Mode::Drift,
        ) if after.rows(&run.id).next().is_none() || !run.cycles.is_empty() => "resolve outcomes",
        (
            RunStatus::Planned | RunStatus::Applied | RunStatus::Failed | RunStatus::Unconfirmed,
            Mode::Plan | Mode::Drift,
        ) => "roll-up of plan and drift runs",
    }
}

fn rule_of_new(run: &Run) -> &'static str {
    match (run.mode, run.trigger) {
        (Mode::Drift, _) => "drift",
        (Mode::Apply, Trigger::Manual) => "manual runs",
        (Mode::Apply, _) => "creating the run",
        (Mode::Plan, Trigger::PullRequest) => "registering a plan run",
        (Mode::Plan, Trigger::Upstream) => "plans behind an upstream",
        (Mode::Plan, _) => "re-planning",
    }
}

/// It failed and none of its stacks did.
fn is_broken_off(after: &Scene, run: &Run) -> bool {
    run.status == RunStatus::Failed && !after.rows(&run.id).any(|row| row.status.is_broken())
}

fn was_rejected(before: &Scene, after: &Scene, id: &RunId) -> bool {
    let open_before = |id| before.dispatches.get(id).is_none_or(|dispatch| dispatch.completed_at.is_none());
    after.dispatches_of(id).any(|dispatch| dispatch.conclusion == "rejected" && open_before(&dispatch.id))
}

/// The section of spec 30 that moved the stack.
fn rule_of_row(before: &Scene, after: &Scene, old: Option<&Row>, row: &Row) -> &'static str {
    let renewed = takes_over(before, after, row);
    let reported = row.exit_code.is_some() && old.is_none_or(|old| old.exit_code != row.exit_code);
    match row.status {
        RowStatus::Pending if old.is_some() => "open dispatches",
        RowStatus::Pending => match after.run(&row.run_id) {
            Some(run) if run.mode == Mode::Plan && run.trigger == Trigger::PullRequest => "resolve outcomes",
            Some(run) => rule_of_new(run),
            None => "resolve outcomes",
        },
        RowStatus::Blocked => "settle",
        RowStatus::Applying if row.claim.is_some() && old.is_none_or(|old| old.claim.is_none()) => {
            "what a job must prove before it applies"
        }
        RowStatus::Planning | RowStatus::Applying => "row and run progress",
        RowStatus::Skipped => match row.skip_reason {
            Some(SkipReason::NotSelected) => "creating the run",
            Some(SkipReason::PlanChanged | SkipReason::Verdict | SkipReason::Waits) => "plans behind an upstream",
            None => "resolve outcomes",
        },
        RowStatus::Applied | RowStatus::Failed | RowStatus::Unknown | RowStatus::Unconfirmed | RowStatus::Noop
            if renewed =>
        {
            "plans behind an upstream"
        }
        RowStatus::Noop => "no-op candidate",
        RowStatus::Applied if row.applied_by_run.is_some() => "creating the run",
        RowStatus::Planned if row.mode == Mode::Apply => after.run(&row.run_id).map_or("creating the run", rule_of_new),
        RowStatus::Unknown => "unconfirmed and unknown",
        RowStatus::Failed if !reported => "sending",
        RowStatus::Planned | RowStatus::Applied | RowStatus::Failed | RowStatus::Unconfirmed => "result acceptance",
    }
}

/// The row's run takes its re-plan over in this very decision.
fn takes_over(before: &Scene, after: &Scene, row: &Row) -> bool {
    after.replan_of(&row.run_id, row.wave).is_some_and(|replan| {
        let open = before.run(&replan.id).is_some_and(|old| !old.taken_over);
        replan.taken_over && open && after.row(&replan.id, &row.key).is_some()
    })
}

#[cfg(test)]
pub(super) mod tests;
