//! What GitHub tells of workflow runs and jobs: binding, progress, and silent ends (spec 30 §4.2, §6.7, §8, §11.1).

use std::collections::BTreeSet;

use super::model::Dispatch;
use super::next::Next;
use super::settle::settle;
use super::status::{ApplyEvent, Mode, Move, PlanEvent, RowStatus, RunStatus};
use crate::guide::Topic;
use crate::ids::{DispatchId, RunId, StackKey};

/// Ties an Actions workflow run to a dispatch. False when either is taken already (I7).
pub fn bind(next: &mut Next, dispatch: &DispatchId, workflow_run_id: i64, attempt: u32) -> bool {
    let taken = next
        .scene
        .dispatches
        .values()
        .any(|other| other.id != *dispatch && other.workflow_run_id == Some(workflow_run_id));
    let now = next.now;
    let Some(found) = next.scene.dispatches.get_mut(dispatch) else { return false };
    if taken || found.completed_at.is_some() {
        return false;
    }
    match found.workflow_run_id {
        Some(bound) => bound == workflow_run_id,
        None => {
            found.workflow_run_id = Some(workflow_run_id);
            found.attempt = attempt;
            found.sent_at.get_or_insert(now);
            true
        }
    }
}

/// The title by which a workflow run names its dispatch: `stackorder <mode> <run id> wave <n>`.
pub fn parse_title(title: &str) -> Option<(Mode, RunId, u32)> {
    let mut words = title.trim().split(' ');
    let parsed = match (words.next(), words.next(), words.next(), words.next(), words.next(), words.next()) {
        (Some("stackorder"), Some(mode), Some(run), Some("wave"), Some(wave), None) if run.len() == 36 => {
            (Mode::parse(mode).ok()?, RunId::parse(run).ok()?, wave.parse().ok()?)
        }
        _ => return None,
    };
    Some(parsed)
}

/// What is known of a workflow run before it is bound: its title, and its environment where GitHub names one.
#[derive(Debug, Clone, Copy)]
pub struct Titled<'a> {
    pub mode: Mode,
    pub run: &'a RunId,
    pub wave: u32,
    pub environment: Option<&'a str>,
}

/// Unbound, open dispatches that a title could mean.
pub fn titled(next: &Next, title: Titled<'_>) -> Vec<DispatchId> {
    let open = all_titled(next, title)
        .filter(|dispatch| dispatch.workflow_run_id.is_none() && dispatch.completed_at.is_none());
    open.map(|dispatch| dispatch.id.clone()).collect()
}

/// The title names exactly one dispatch. With several environments or chunks in a wave it does not, however many of them are
/// bound by now: the workflow run may be the duplicate of one that is.
pub fn is_only_titled(next: &Next, title: Titled<'_>) -> bool {
    all_titled(next, title).count() == 1
}

fn all_titled<'n>(next: &'n Next, title: Titled<'n>) -> impl Iterator<Item = &'n Dispatch> {
    next.scene.dispatches_of(title.run).filter(move |dispatch| {
        dispatch.mode == title.mode
            && dispatch.wave == title.wave
            && title.environment.is_none_or(|name| dispatch.environment.eq_ignore_ascii_case(name))
    })
}

/// Chooses among the dispatches of one title by the stacks that the workflow run's jobs name.
pub fn choose_by_jobs(next: &Next, candidates: &[DispatchId], job_names: &[String]) -> Option<DispatchId> {
    let mut fitting = candidates.iter().filter(|id| {
        let Some(dispatch) = next.scene.dispatches.get(*id) else { return false };
        let keys: Vec<StackKey> = next
            .scene
            .rows(&dispatch.run_id)
            .filter(|row| row.dispatch_id.as_ref() == Some(*id))
            .map(|row| row.key.clone())
            .collect();
        job_names.iter().any(|name| stack_of_job(name, &keys).is_some())
    });
    let chosen = fitting.next().cloned();
    chosen.filter(|_| fitting.next().is_none())
}

/// The stack a job's name ends in (spec 24 §9): the last word, or GitHub's matrix form, or a name cut short.
pub fn stack_of_job(name: &str, keys: &[StackKey]) -> Option<StackKey> {
    let own = name.rsplit(" / ").next().unwrap_or(name);
    let word = match own.split_once('(') {
        Some((_, inner)) => inner.split([',', ')']).next().unwrap_or("").trim(),
        None => own.rsplit(' ').next().unwrap_or(""),
    };
    if let Some(key) = keys.iter().find(|key| key.as_str() == word) {
        return Some(key.clone());
    }
    let only = |mut matching: Box<dyn Iterator<Item = &StackKey> + '_>| {
        let first = matching.next().cloned();
        first.filter(|_| matching.next().is_none())
    };
    if let Some(key) = only(Box::new(keys.iter().filter(|key| key.path() == word))) {
        return Some(key);
    }
    let cut = word.trim_end_matches('…').trim_end_matches("...");
    if cut.len() < 3 {
        return None;
    }
    only(Box::new(keys.iter().filter(|key| key.as_str().starts_with(cut))))
}

/// A job of the run was seen: stores its address, and moves its row when it started or waits for an environment.
pub fn on_job(next: &mut Next, id: &RunId, dispatch: Option<&DispatchId>, name: &str, status: &str, url: &str) {
    next.caused_by("github", "job event");
    let run = next.scene.runs[id].clone();
    if run.status == RunStatus::Superseded {
        return;
    }
    let keys: Vec<StackKey> = next
        .scene
        .rows(id)
        .filter(|row| dispatch.is_none() || row.dispatch_id.as_ref() == dispatch)
        .map(|row| row.key.clone())
        .collect();
    let Some(key) = stack_of_job(name, &keys) else { return };
    let now = next.now;
    let row = next.scene.row_mut(id, &key).expect("one of the run's keys");
    let before = row.clone();
    // Of a claimed row only the claiming workflow run's own job tells where it is.
    let is_its_own =
        row.claim.as_ref().is_none_or(|claim| url.contains(&format!("/runs/{}/job/", claim.workflow_run_id)));
    if !url.is_empty() && is_its_own {
        row.job_url = url.to_owned();
    }
    let started = matches!(status, "in_progress" | "waiting");
    let moved = match run.mode {
        Mode::Apply => row.status.on_apply(ApplyEvent::Started),
        Mode::Plan | Mode::Drift => row.status.on_plan(PlanEvent::Started),
    };
    if started {
        if let Move::To(to) = moved
            && (run.mode != Mode::Apply || !run.status.is_terminal())
        {
            row.enter(to, now);
        }
        if !row.status.is_terminal() {
            row.waiting_for_approval = status == "waiting" && row.claim.is_none();
        }
    }
    if *row != before {
        next.run_mut(id).seen_at = now;
        next.render(id);
    }
}

/// Nothing more will come of this dispatch: what it carried and did not finish is unknown (spec 30 §11.1).
pub fn complete_dispatch(next: &mut Next, dispatch: &DispatchId, conclusion: &str) {
    next.caused_by("github", "workflow run ended");
    let now = next.now;
    let Some(found) = next.scene.dispatches.get_mut(dispatch) else { return };
    if found.completed_at.is_some() {
        return;
    }
    found.completed_at = Some(now);
    found.conclusion = conclusion.to_owned();
    let id = found.run_id.clone();
    if !next.scene.runs[&id].status.is_terminal() {
        vanish(next, &id, |row| row.dispatch_id.as_ref() == Some(dispatch));
    }
    settle(next, &id);
}

/// Gives a dispatch up, with a warning on its run, unless it has moved since it was looked at.
pub fn give_up(next: &mut Next, seen: &Dispatch, conclusion: &str, warning: &str) {
    if next.scene.dispatches.get(&seen.id) != Some(seen) {
        return;
    }
    next.caused_by("stackorder", "dispatch given up");
    let topic = if seen.sent_at.is_none() { Topic::DispatchNotSent } else { Topic::WorkflowRunNotFound };
    next.run_mut(&seen.run_id).warn_about(topic.anchor(), warning);
    complete_dispatch(next, &seen.id, conclusion);
}

/// This attempt of the plan workflow run of a pull request ended: rows without a result are unknown (case 150), unless a
/// later attempt, or another workflow run, has registered the run meanwhile. Earlier attempts ended before it.
pub fn plan_workflow_ended(next: &mut Next, id: &RunId, workflow_run_id: i64, attempt: u32) {
    next.caused_by("github", "workflow run ended");
    let run = &next.scene.runs[id];
    let goes_on = run.workflow_run_id != workflow_run_id || run.workflow_run_attempt > attempt;
    if goes_on || run.status.is_terminal() {
        return;
    }
    vanish(next, id, |row| row.dispatch_id.is_none());
    let now = next.now;
    if next.scene.rows(id).next().is_none() && next.scene.runs[id].status == RunStatus::Pending {
        let run = next.run_mut(id);
        let text = "the plan workflow run ended before it uploaded a graph";
        run.warn_about(Topic::PlanWorkflowEnded.anchor(), text);
        run.enter(RunStatus::Failed, now);
    }
    settle(next, id);
}

fn vanish(next: &mut Next, id: &RunId, which: impl Fn(&super::model::Row) -> bool) {
    let now = next.now;
    let mode = next.scene.runs[id].mode;
    let mut changed = Vec::new();
    for row in next.scene.rows_mut(id).filter(|row| which(row)) {
        let moved = match mode {
            Mode::Apply => row.status.on_apply(ApplyEvent::Vanished),
            Mode::Plan | Mode::Drift => row.status.on_plan(PlanEvent::Vanished),
        };
        if let Move::To(to) = moved {
            row.enter(to, now);
            if mode == Mode::Apply && row.claim.is_none() {
                row.note = "nothing was applied".to_owned();
            } else if mode == Mode::Apply {
                changed.push(row.key.clone());
            }
        }
    }
    // It may have changed something before it vanished.
    for key in changed {
        next.stack_changed(&key);
    }
}

/// GitHub refused this dispatch for good (spec 30 §6.5).
pub fn reject_dispatch(next: &mut Next, dispatch: &DispatchId, status: u16, reason: &str) {
    next.caused_by("github", "dispatch rejected");
    let now = next.now;
    let Some(found) = next.scene.dispatches.get_mut(dispatch) else { return };
    // One that GitHub took at an earlier try runs, whatever it says to a later one.
    if found.completed_at.is_some() || found.sent_at.is_some() {
        return;
    }
    found.completed_at = Some(now);
    found.conclusion = "rejected".to_owned();
    let found = found.clone();
    let id = found.run_id.clone();
    let branch = next.scene.repo.default_branch.clone();
    let text = format!(
        "GitHub answered {status} when asked to run .github/workflows/stackorder-run.yml on {branch} ({reason})"
    );
    next.run_mut(&id).warn_about(Topic::DispatchRejected.anchor(), text.clone());
    next.comment(
        format!("rejected:{dispatch}"),
        format!(
            "**No {} was started:** {text}. Check that the file exists on `{branch}` and declares the inputs \
             `run_id`, `mode`, `wave`, `sha` and `stacks`.",
            found.mode
        ),
    );
    // The workflow file itself: nobody else's dispatch would fare better.
    if matches!(status, 404 | 422) {
        next.undispatchable = Some(text.clone());
    }
    match found.mode {
        Mode::Apply => {
            let rows = next.scene.rows_mut(&id).filter(|row| row.dispatch_id.as_ref() == Some(dispatch));
            for row in rows {
                if let Move::To(to) = row.status.on_apply(ApplyEvent::Failed) {
                    row.enter(to, now);
                    row.error_text.clone_from(&text);
                    row.note = "nothing was applied".to_owned();
                }
            }
        }
        Mode::Plan | Mode::Drift => {
            // Its rows stay pending, so that the plan view ignores them and an earlier plan stands.
            if !next.scene.runs[&id].status.is_terminal() {
                next.run_mut(&id).enter(RunStatus::Failed, now);
            }
        }
    }
    settle(next, &id);
}

/// A dispatch that GitHub cancelled before any of its jobs started is sent again, once (case 158). A second time what it carried
/// is unknown.
pub fn dispatch_again(next: &mut Next, dispatch: &DispatchId) {
    next.caused_by("github", "workflow run cancelled");
    let now = next.now;
    let Some(found) = next.scene.dispatches.get_mut(dispatch) else { return };
    if found.completed_at.is_some() {
        return;
    }
    let id = found.run_id.clone();
    if next.scene.runs[&id].status.is_terminal() || found.is_second_try {
        return complete_dispatch(next, dispatch, "cancelled");
    }
    found.completed_at = Some(now);
    found.conclusion = "cancelled".to_owned();
    for row in next.scene.rows_mut(&id).filter(|row| row.dispatch_id.as_ref() == Some(dispatch)) {
        if matches!(row.status, RowStatus::Pending | RowStatus::Planning) {
            row.enter(RowStatus::Pending, now);
            row.dispatch_id = None;
        }
    }
    let before: BTreeSet<DispatchId> = next.scene.dispatches.keys().cloned().collect();
    super::dispatching::insert_plan_dispatches(next, &id);
    for (_, again) in next.scene.dispatches.iter_mut().filter(|(id, _)| !before.contains(*id)) {
        again.is_second_try = true;
    }
    settle(next, &id);
}
