//! A new head or base replaces what was made for the old one (spec 30 §9).

use serde_json::json;

use super::locks;
use super::model::Run;
use super::next::Next;
use super::settle;
use super::status::{Mode, RunStatus, Trigger};
use crate::ids::{RunId, Sha, StackKey};

/// Supersedes the plan runs of the pull request at other commits than `head`, and an apply none of whose stacks was
/// claimed. Applies of a merge commit, and re-plans of an apply that runs on, stay.
pub fn head_moved(next: &mut Next, head: &Sha) {
    let stale: Vec<Run> =
        next.scene.runs.values().filter(|run| run.sha != *head && !run.status.is_terminal()).cloned().collect();
    supersede_each(next, stale, head.as_str());
}

/// The base was changed: the plans of this head too were made against the old one.
pub fn base_changed(next: &mut Next, head: &Sha) {
    let stale: Vec<Run> = next.scene.runs.values().filter(|run| !run.status.is_terminal()).cloned().collect();
    supersede_each(next, stale, head.as_str());
}

fn supersede_each(next: &mut Next, stale: Vec<Run>, head: &str) {
    // Applies first: whether a re-plan stays depends on its apply.
    for run in stale.iter().filter(|run| run.mode == Mode::Apply) {
        if run.trigger == Trigger::Comment && !is_claimed(next, &run.id) {
            apply(next, &run.id, head);
        }
    }
    for run in stale.iter().filter(|run| run.mode == Mode::Plan) {
        let kept = run
            .for_run
            .as_ref()
            .and_then(|apply| next.scene.run(apply))
            .is_some_and(|apply| !apply.status.is_terminal());
        if !kept {
            plan(next, &run.id, head);
        }
    }
}

/// Any of the run's stacks was claimed by a job.
pub fn is_claimed(next: &Next, id: &RunId) -> bool {
    next.scene.rows(id).any(|row| row.claim.is_some())
}

fn plan(next: &mut Next, id: &RunId, head: &str) {
    let now = next.now;
    let run = next.run_mut(id);
    if run.status.is_terminal() {
        return;
    }
    run.enter(RunStatus::Superseded, now);
    run.superseded_by = head.to_owned();
    next.render(id);
}

/// An apply of which nothing was claimed gives way; its locks stay with the pull request.
pub fn apply(next: &mut Next, id: &RunId, head: &str) {
    let now = next.now;
    let run = next.run_mut(id);
    run.enter(RunStatus::Superseded, now);
    run.superseded_by = head.to_owned();
    let run = run.clone();
    next.audit(
        "stackorder",
        "apply_superseded",
        format!("run:{id}"),
        json!({ "repo": next.scene.repo.full_name, "pr": run.pr_number, "reason": format!("superseded by {head}") }),
    );
    let short = head.get(..7).unwrap_or(head);
    next.comment(
        format!("superseded:{id}"),
        format!(
            "**The apply of {} gave way to {short}.** None of its stacks had been applied. \
             Its locks stay with this pull request; comment `stackorder apply` once the new plans are there.",
            run.sha.short()
        ),
    );
    replans_of(next, id);
    next.render(id);
}

/// The re-plans of an apply run that ended.
pub(super) fn replans_of(next: &mut Next, apply: &RunId) {
    let open: Vec<(RunId, String)> = next
        .scene
        .runs
        .values()
        .filter(|run| run.for_run.as_ref() == Some(apply) && !run.status.is_terminal())
        .map(|run| (run.id.clone(), next.scene.runs[apply].superseded_by.clone()))
        .collect();
    for (id, head) in open {
        plan(next, &id, &head);
    }
}

/// Locks on stacks that the new head no longer affects and nobody claimed go (spec 30 §7.3, case 153).
pub fn release_unaffected(next: &mut Next, affected: &[StackKey]) {
    if next.scene.apply_in_flight().is_some() {
        return;
    }
    let number = next.scene.pr_number;
    let claimed: Vec<StackKey> = next
        .scene
        .rows
        .values()
        .flat_map(|rows| rows.values())
        .filter(|row| row.claim.is_some())
        .map(|row| row.key.clone())
        .collect();
    locks::release(next, "new_head", |lock| {
        number != 0 && lock.pr_number == number && !affected.contains(&lock.key) && !claimed.contains(&lock.key)
    });
}

/// Ends an apply that never began: failed, its locks released unless an earlier apply changed what is deployed.
pub fn abandon(next: &mut Next, id: &RunId, reason: &str) {
    let run = next.scene.runs[id].clone();
    next.run_mut(id).warn(format!("abandoned before it began: {reason}"));
    next.audit(
        "stackorder",
        "apply_abandoned",
        format!("run:{id}"),
        json!({ "repo": next.scene.repo.full_name, "pr": run.pr_number, "reason": reason }),
    );
    let changed_before = next.scene.rows.values().flat_map(|rows| rows.values()).any(|row| row.claim.is_some());
    settle::finish_apply(next, id, RunStatus::Failed);
    if !changed_before {
        locks::release(next, "abandoned", |lock| lock.run_id == *id);
    }
    next.comment(
        format!("abandoned:{id}"),
        format!("**Apply of {} abandoned before it began:** {reason}.", run.sha.short()),
    );
}
