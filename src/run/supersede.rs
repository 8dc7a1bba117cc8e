//! A new head or base replaces what was made for the old one (spec 30 §9).

use serde_json::json;

use super::model::{Release, Run};
use super::next::Next;
use super::plan_view::PlanView;
use super::status::{Mode, RunStatus, Trigger};
use super::{close, locks, settle};
use crate::guide::Topic;
use crate::ids::{RunId, Sha, StackKey};

/// Supersedes the plan runs of the pull request at other commits than `head`, and an apply none of whose stacks was
/// claimed. Applies of a merge commit, and re-plans of an apply that runs on, stay.
pub fn head_moved(next: &mut Next, head: &Sha) {
    next.caused_by("github", "new head");
    let stale: Vec<Run> =
        next.scene.runs.values().filter(|run| run.sha != *head && !run.status.is_terminal()).cloned().collect();
    supersede_each(next, stale, head.as_str());
}

/// The base was changed: the plans of this head too were made against the old one.
pub fn base_changed(next: &mut Next, head: &Sha) {
    next.caused_by("github", "new base");
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
        let goes_on = run
            .for_run
            .as_ref()
            .and_then(|apply| next.scene.run(apply))
            .is_some_and(|apply| !apply.status.is_terminal());
        // A merge commit is superseded by nothing, so what was planned at one stays, too.
        let is_merged = next.scene.runs.values().any(|apply| apply.is_merge_apply() && apply.sha == run.sha);
        if !goes_on && !is_merged {
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
    let was_queued = run.is_queued();
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
    let what_stays = if was_queued {
        "It had waited in the queue"
    } else {
        "None of its stacks had been applied. Its locks stay with this pull request"
    };
    next.comment(
        format!("superseded:{id}"),
        format!(
            "**The apply of {} gave way to {short}.** {what_stays}; comment `stackorder apply` once the new plans are there.",
            run.sha.short()
        ),
    );
    replans_of(next, id, head);
    close::release_at_end(next, &run);
    next.render(id);
}

/// The re-plans of an apply run that ended.
pub(super) fn replans_of(next: &mut Next, apply: &RunId, head: &str) {
    let open = next.scene.runs.values().filter(|run| run.for_run.as_ref() == Some(apply) && !run.status.is_terminal());
    let open: Vec<RunId> = open.map(|run| run.id.clone()).collect();
    for id in open {
        plan(next, &id, head);
    }
}

/// Locks on stacks that the new head no longer affects and nobody claimed go (spec 30 §7.3, case 153): now, or when an
/// apply that claimed something ends.
pub fn release_unaffected(next: &mut Next, affected: &[StackKey]) {
    if let Some(apply) = next.scene.apply_in_flight().map(|run| run.id.clone()) {
        if is_claimed(next, &apply) {
            next.run_mut(&apply).release_at_end.get_or_insert(Release::NewHead);
        }
        return;
    }
    let claimed = locks::claimed(next);
    let number = next.scene.pr_number;
    locks::release(next, "new_head", |lock| {
        number != 0 && lock.pr_number == number && !affected.contains(&lock.key) && !claimed.contains(&lock.key)
    });
}

/// The same at the end of an apply; the upload of a head that is not resolved yet does it itself.
pub(super) fn release_unaffected_by_newest(next: &mut Next) {
    let newest = next.scene.newest_first().into_iter().find(|run| {
        run.mode == Mode::Plan && run.trigger == Trigger::PullRequest && run.status != RunStatus::Superseded
    });
    let Some(head) = newest.filter(|run| run.graph_sha.is_some() && run.cycles.is_empty()).map(|run| &run.sha) else {
        return;
    };
    let affected: Vec<StackKey> = PlanView::of(&next.scene, &[head]).rows.into_keys().collect();
    release_unaffected(next, &affected);
}

/// Ends an apply that never began: failed, its locks released unless an earlier apply changed what is deployed.
pub fn abandon(next: &mut Next, id: &RunId, reason: &str) {
    let run = next.scene.runs[id].clone();
    next.run_mut(id).warn_about(Topic::Abandoned.anchor(), format!("abandoned before it began: {reason}"));
    next.audit(
        "stackorder",
        "apply_abandoned",
        format!("run:{id}"),
        json!({ "repo": next.scene.repo.full_name, "pr": run.pr_number, "reason": reason }),
    );
    let changed_before = next.scene.rows.values().flat_map(|rows| rows.values()).any(|row| row.claim.is_some());
    settle::end_apply(next, id, RunStatus::Failed);
    if !changed_before {
        locks::release(next, "abandoned", |lock| lock.run_id == *id);
    }
    next.comment(
        format!("abandoned:{id}"),
        format!("**Apply of {} abandoned before it began:** {reason}.", run.sha.short()),
    );
}
