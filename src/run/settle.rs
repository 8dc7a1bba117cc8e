//! What follows: the one place that moves a run on (spec 30 §2).
//!
//! Every decision that can finish a stack, finish a run or free a lock ends with [`settle`] in the same commit (I4).
//! It reads only its arguments; nothing in it can fail or wait.

use serde_json::json;

use super::model::{Row, Run};
use super::next::Next;
use super::scene::{JobKind, NewJob};
use super::status::{ApplyEvent, Mode, Move, RowStatus, RunStatus, SkipReason, Trigger};
use super::{close, dispatching, locks, supersede, waves};
use crate::config::model::CrossRepo;
use crate::ids::{RunId, StackKey};

/// Moves the run on as far as it goes. A run that ended stays as it is.
pub fn settle(next: &mut Next, id: &RunId) {
    let Some(run) = next.scene.run(id) else { return };
    let (mode, ended) = (run.mode, run.status.is_terminal());
    next.render(id);
    match mode {
        Mode::Plan | Mode::Drift => settle_plan(next, id),
        Mode::Apply if ended => {}
        Mode::Apply => settle_apply(next, id),
    }
}

/// The roll-up of spec 30 §4.6, or `None` while a row still works.
pub fn roll_up<'r>(rows: impl Iterator<Item = &'r RowStatus>) -> Option<RunStatus> {
    let rows: Vec<RowStatus> = rows.copied().collect();
    if !rows.iter().all(|status| status.is_done_planning()) {
        return None;
    }
    let broken = |status: &RowStatus| status.is_broken() && *status != RowStatus::Unconfirmed;
    Some(if rows.iter().any(broken) {
        RunStatus::Failed
    } else if rows.contains(&RowStatus::Unconfirmed) {
        RunStatus::Unconfirmed
    } else {
        RunStatus::Planned
    })
}

fn settle_plan(next: &mut Next, id: &RunId) {
    let run = &next.scene.runs[id];
    let rows: Vec<RowStatus> = next.scene.rows(id).map(|row| row.status).collect();
    let rolled = if rows.is_empty() { None } else { roll_up(rows.iter()) };
    let status = match (run.status, rolled) {
        (RunStatus::Pending | RunStatus::Planning, Some(status)) => Some(status),
        // A later result repaired the last broken row (spec 21 §4).
        (RunStatus::Failed, Some(RunStatus::Planned)) => Some(RunStatus::Planned),
        (RunStatus::Pending | RunStatus::Planning, None)
        | (RunStatus::Failed, None | Some(_))
        | (
            RunStatus::Planned
            | RunStatus::Applying
            | RunStatus::Applied
            | RunStatus::Unconfirmed
            | RunStatus::Superseded,
            _,
        ) => None,
    };
    let now = next.now;
    if let Some(status) = status {
        next.run_mut(id).enter(status, now);
    }
    let run = &next.scene.runs[id];
    if let (Some(apply), false) = (run.for_run.clone(), run.taken_over)
        && replan_is_finished(next, id)
    {
        settle(next, &apply);
    }
}

/// Every row done, or the run failed because its dispatch was refused.
pub(super) fn replan_is_finished(next: &Next, id: &RunId) -> bool {
    match next.scene.runs[id].status {
        RunStatus::Planned | RunStatus::Failed | RunStatus::Unconfirmed | RunStatus::Superseded => true,
        RunStatus::Pending | RunStatus::Planning | RunStatus::Applying | RunStatus::Applied => false,
    }
}

fn settle_apply(next: &mut Next, id: &RunId) {
    // Ends: every turn raises `current_wave`, which is bounded by `waves`.
    loop {
        spread(next, id);
        let wave = next.scene.runs[id].current_wave;
        if let Some(replan) = next.scene.replan_of(id, wave).map(|run| (run.id.clone(), run.taken_over)) {
            match replan {
                (replan, _) if !replan_is_finished(next, &replan) => return,
                (_, true) => {}
                (replan, false) => {
                    waves::take_over(next, id, &replan);
                    spread(next, id);
                    dispatching::insert_apply_dispatches(next, id, wave);
                }
            }
        }
        if next.scene.rows(id).any(|row| row.wave == wave && !row.status.is_terminal()) {
            return;
        }
        let run = &next.scene.runs[id];
        let last = run.current_wave + 1 >= run.waves;
        if next.scene.rows(id).any(|row| row.status.is_broken()) {
            return finish_apply(next, id, RunStatus::Failed);
        }
        if last {
            return finish_apply(next, id, RunStatus::Applied);
        }
        next.run_mut(id).current_wave = wave + 1;
        waves::open(next, id);
    }
}

/// Marks what breaks or waits because of an earlier wave (spec 30 §2 step 2).
fn spread(next: &mut Next, id: &RunId) {
    let ordering = next.ordering_of(id);
    let now = next.now;
    let causes: Vec<(StackKey, RowStatus, u32)> = next
        .scene
        .rows(id)
        .filter(|row| match row.status {
            RowStatus::Failed | RowStatus::Unknown | RowStatus::Unconfirmed => true,
            RowStatus::Skipped => matches!(row.skip_reason, Some(SkipReason::PlanChanged | SkipReason::Verdict)),
            RowStatus::Pending
            | RowStatus::Planning
            | RowStatus::Planned
            | RowStatus::Applying
            | RowStatus::Applied
            | RowStatus::Blocked
            | RowStatus::Noop => false,
        })
        .map(|row| (row.key.clone(), row.status, row.wave))
        .collect();
    for (cause, status, wave) in causes {
        for dependent in ordering.all_dependents(cause.as_str()) {
            let Ok(key) = StackKey::parse(dependent) else { continue };
            let Some(row) = next.scene.row_mut(id, &key) else { continue };
            if row.wave <= wave {
                continue;
            }
            if status == RowStatus::Skipped {
                wait_for(row, &cause, now);
            } else {
                block(row, &cause, now);
            }
        }
    }
}

fn block(row: &mut Row, cause: &StackKey, now: i64) {
    match row.status.on_apply(ApplyEvent::Blocked) {
        Move::To(status) => row.enter(status, now),
        Move::Already => {}
        Move::Late => return,
    }
    insert_sorted(&mut row.blocked_by, cause.as_str());
}

fn wait_for(row: &mut Row, cause: &StackKey, now: i64) {
    match row.status {
        RowStatus::Planned => {
            row.on_apply(ApplyEvent::LeftOut, now);
            row.skip_reason = Some(SkipReason::Waits);
            row.behind = vec![cause.to_string()];
        }
        RowStatus::Skipped if row.skip_reason == Some(SkipReason::Waits) => {
            insert_sorted(&mut row.behind, cause.as_str());
        }
        RowStatus::Pending
        | RowStatus::Planning
        | RowStatus::Applying
        | RowStatus::Applied
        | RowStatus::Failed
        | RowStatus::Blocked
        | RowStatus::Noop
        | RowStatus::Unconfirmed
        | RowStatus::Unknown
        | RowStatus::Skipped => return,
    }
    row.note = format!("waits for {}", row.behind.join(", "));
}

fn insert_sorted(list: &mut Vec<String>, text: &str) {
    if let Err(at) = list.binary_search_by(|known| known.as_str().cmp(text)) {
        list.insert(at, text.to_owned());
    }
}

/// The end of an apply run, with one comment that tells how it ended.
fn finish_apply(next: &mut Next, id: &RunId, status: RunStatus) {
    end_apply(next, id, status);
    let run = &next.scene.runs[id];
    if run.trigger != Trigger::Manual && run.pr_number != 0 {
        let payload = json!({ "repo_id": run.repo_id, "pr_number": run.pr_number, "outcome_of": id });
        next.add_job(NewJob::keyed(JobKind::Comment, format!("outcome:{id}"), payload, next.now));
    }
}

/// What other repositories build on was applied, even if the run failed later (spec 30 §13).
fn plan_downstream(next: &mut Next, run: &Run) {
    let applied_here = |row: &Row| row.status == RowStatus::Applied && row.applied_by_run.is_none();
    if next.policy.propagate.cross_repo == CrossRepo::Plan && next.scene.rows(&run.id).any(applied_here) {
        let payload = json!({ "repo_id": run.repo_id, "run_id": run.id });
        next.add_job(NewJob::keyed(JobKind::PlanDownstream, format!("cross_repo:{}", run.id), payload, next.now));
    }
}

/// The end of an apply run: locks by spec 30 §7.3, and what waited for this end.
pub(super) fn end_apply(next: &mut Next, id: &RunId, status: RunStatus) {
    let now = next.now;
    next.run_mut(id).enter(status, now);
    let run = next.scene.runs[id].clone();
    let released_with_run = match run.trigger {
        Trigger::PullRequest | Trigger::Manual => true,
        Trigger::Comment | Trigger::Push | Trigger::Schedule | Trigger::Rerequest | Trigger::Upstream => false,
    };
    if released_with_run {
        let via = if status == RunStatus::Applied { "run applied" } else { "run failed" };
        locks::release(next, via, |lock| lock.run_id == run.id);
    }
    close::release_at_end(next, &run);
    plan_downstream(next, &run);
    // A re-plan was kept alive by this apply alone (spec 30 §6.2a, "New head").
    let newer_head = next
        .scene
        .newest_first()
        .into_iter()
        .find(|other| other.mode == Mode::Plan && other.sha != run.sha && other.created_at > run.created_at)
        .map(|other| other.sha.clone());
    if let Some(head) = newer_head.filter(|_| !run.is_merge_apply()) {
        supersede::replans_of(next, id, head.as_str());
    }
    next.render(id);
}
