//! What `stackorder/plan` and `stackorder/apply` say: the first rule that matches (spec 24 §4, spec 30 §8).

use crate::ids::StackKey;
use crate::render::check::{CheckStatus, Conclusion};
use crate::render::pull::{self, Pull};
use crate::render::queue;
use crate::render::waiting::Waiting;
use crate::render::words::{self, count};
use crate::run::model::{Row, Run};
use crate::run::plan_view::PlanView;
use crate::run::scene::Scene;
use crate::run::status::{RowStatus, RunStatus};
use std::collections::BTreeSet;

/// Status and title; the title is plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollUp {
    pub status: CheckStatus,
    pub title: String,
}

impl RollUp {
    fn new(status: CheckStatus, title: impl Into<String>) -> Self {
        Self { status, title: title.into() }
    }

    fn ended(conclusion: Conclusion, title: impl Into<String>) -> Self {
        Self::new(CheckStatus::Completed(conclusion), title)
    }
}

/// The roll-up of a plan view; its rows come with the wave to show. What waits for a new stack is no failure.
pub fn of_plans(view: &PlanView<'_>, rows: &[(u32, &Row)], waiting: &Waiting) -> RollUp {
    const BROKEN: [RowStatus; 3] = [RowStatus::Failed, RowStatus::Blocked, RowStatus::Unknown];
    let Some(newest) = view.runs.first() else {
        return RollUp::new(CheckStatus::Queued, "Waiting for resolve");
    };
    let all = || rows.iter().map(|(_, row)| *row);
    let broken = words::tally(all().filter(|row| !waiting.holds(row)), &BROKEN);
    if !broken.is_empty() {
        return RollUp::ended(Conclusion::Failure, format!("{broken} of {}", count(rows.len(), "stack")));
    }
    if waiting.status(view) == Some(RunStatus::Failed) {
        return RollUp::ended(Conclusion::Failure, failure(newest));
    }
    let resolved = newest.status != RunStatus::Pending || view.rows.values().any(|row| row.run_id == newest.id);
    if !resolved {
        return RollUp::new(CheckStatus::Queued, "Waiting for resolve");
    }
    let done = all().filter(|row| row.status.is_done_planning()).count();
    if done < rows.len() {
        let started = all().any(|row| row.status != RowStatus::Pending);
        let status = if started { CheckStatus::InProgress } else { CheckStatus::Queued };
        return RollUp::new(status, format!("Planning: {done} of {} done", count(rows.len(), "stack")));
    }
    let unconfirmed = all().filter(|row| row.status == RowStatus::Unconfirmed).count();
    if unconfirmed > 0 || view.status() == Some(RunStatus::Unconfirmed) {
        let title = format!("Unconfirmed: the server did not confirm {}", count(unconfirmed.max(1), "plan"));
        return RollUp::ended(Conclusion::ActionRequired, title);
    }
    if !waiting.is_empty() {
        let title =
            format!("{} of {} to be planned after what they wait for", waiting.len(), count(rows.len(), "stack"));
        return RollUp::ended(Conclusion::ActionRequired, title);
    }
    if rows.is_empty() {
        return match newest.status {
            RunStatus::Planned => RollUp::ended(Conclusion::Success, "No stacks affected"),
            RunStatus::Pending
            | RunStatus::Planning
            | RunStatus::Applying
            | RunStatus::Applied
            | RunStatus::Failed
            | RunStatus::Unconfirmed
            | RunStatus::Superseded => RollUp::new(CheckStatus::Queued, "Waiting for resolve"),
        };
    }
    RollUp::ended(Conclusion::Success, planned(rows))
}

/// `3 stacks in 2 waves: 4 to add, …`.
fn planned(rows: &[(u32, &Row)]) -> String {
    let totals = words::totals(rows.iter().map(|(_, row)| *row));
    let counts = if totals.is_empty() { "no changes".to_owned() } else { totals.counts_text() };
    format!("{} in {}: {counts}", count(rows.len(), "stack"), count(pull::waves(rows), "wave"))
}

/// Why a run failed that no stack explains: a cycle, or what its last warning says.
pub fn failure(run: &Run) -> String {
    match run.cycles.as_slice() {
        [] => run.warnings.last().cloned().unwrap_or_else(|| "The run failed".to_owned()),
        [cycle] => format!("Dependency cycle: {}", cycle.join(" → ")),
        cycles => format!("{} dependency cycles", cycles.len()),
    }
}

/// The roll-up of the newest apply of a commit.
pub fn of_applies(pull: &Pull<'_>, runs: &[&Run]) -> Option<RollUp> {
    let newest = runs.first()?;
    let scene = pull.scene;
    if newest.status == RunStatus::Superseded {
        return Some(RollUp::ended(Conclusion::Cancelled, super::superseded_title(newest)));
    }
    let rows: Vec<&Row> = scene.rows(&newest.id).filter(|row| words::is_selected(row)).collect();
    if rows.iter().any(|row| row.status.is_broken()) || newest.status == RunStatus::Failed {
        return Some(RollUp::ended(Conclusion::Failure, broken(newest, &rows)));
    }
    if !newest.status.is_terminal() {
        return Some(progress(scene, newest, &rows));
    }
    if newest.status == RunStatus::Unconfirmed {
        return Some(RollUp::ended(Conclusion::ActionRequired, "Unconfirmed: the server did not confirm this apply"));
    }
    let renewed = rows.iter().filter(|row| words::has_new_plan(row)).count();
    if rows.iter().any(|row| words::waits_for_request(row)) {
        return Some(RollUp::ended(Conclusion::ActionRequired, new_plans(newest, renewed)));
    }
    let (open, all) = still_open(pull, runs);
    if open > 0 && scene.repo.policy().apply.require_complete {
        let title = format!("{open} of {} still to be applied", count(all, "stack"));
        return Some(RollUp::ended(Conclusion::ActionRequired, title));
    }
    Some(RollUp::ended(Conclusion::Success, applied(scene, newest, &rows)))
}

/// `1 failed, 2 blocked of 5 stacks`, or why a run without a broken stack failed.
pub fn broken(run: &Run, rows: &[&Row]) -> String {
    const BROKEN: [RowStatus; 4] = [RowStatus::Failed, RowStatus::Unknown, RowStatus::Unconfirmed, RowStatus::Blocked];
    let tally = words::tally(rows.iter().copied(), &BROKEN);
    if tally.is_empty() { failure(run) } else { format!("{tally} of {}", count(rows.len(), "stack")) }
}

/// Where an apply that runs is.
pub fn progress(scene: &Scene, run: &Run, rows: &[&Row]) -> RollUp {
    if run.status == RunStatus::Pending {
        return RollUp::new(CheckStatus::Queued, queue::title(scene, run));
    }
    let wave = run.current_wave;
    if let Some(replan) = open_replan(scene, run) {
        let again = count(scene.rows(&replan.id).count(), "stack");
        return RollUp::new(CheckStatus::InProgress, format!("Planning {again} again before wave {wave}"));
    }
    let done = rows.iter().filter(|row| row.status.is_terminal()).count();
    let started = done > 0 || rows.iter().any(|row| row.status == RowStatus::Applying);
    let status = if started { CheckStatus::InProgress } else { CheckStatus::Queued };
    let stacks = count(rows.len(), "stack");
    RollUp::new(status, format!("Applying wave {wave} of {}: {done} of {stacks} done", run.waves))
}

/// The re-plan that the current wave of an apply waits for.
pub fn open_replan<'s>(scene: &'s Scene, run: &Run) -> Option<&'s Run> {
    scene.replan_of(&run.id, run.current_wave).filter(|replan| !replan.taken_over && !run.status.is_terminal())
}

/// What a person has to do about stacks with a new plan after their upstream (spec 30 §6.2a).
pub fn new_plans(run: &Run, number: usize) -> String {
    let subject = if number == 1 {
        "1 stack has a new plan after its upstream".to_owned()
    } else {
        format!("{number} stacks have a new plan after their upstream")
    };
    if run.is_merge_apply() {
        format!("{subject}; review it and ask for the apply on the run page")
    } else {
        format!("{subject}; review it and comment stackorder apply")
    }
}

/// How many stacks of the commit no apply has finished, of how many.
fn still_open(pull: &Pull<'_>, runs: &[&Run]) -> (usize, usize) {
    let applied = pull::applied_view(pull.scene, runs);
    let Some(newest) = runs.first() else { return (0, 0) };
    let commits = match pull.head {
        Some(head) if Some(&newest.sha) == pull.merge && newest.sha != *head => vec![&newest.sha, head],
        Some(_) | None => vec![&newest.sha],
    };
    let view = PlanView::of(pull.scene, &commits);
    // The plans of an older head are superseded and in no view; its apply knows all of its stacks.
    let all: BTreeSet<&StackKey> = view.rows.keys().chain(applied.keys()).collect();
    let is_finished = |key: &&StackKey| {
        applied.get(*key).is_some_and(|(_, row)| matches!(row.status, RowStatus::Applied | RowStatus::Noop))
    };
    (all.iter().filter(|key| !is_finished(key)).count(), all.len())
}

fn applied(scene: &Scene, run: &Run, rows: &[&Row]) -> String {
    let done: Vec<&Row> = rows.iter().copied().filter(|row| row.status == RowStatus::Applied).collect();
    let skipped = scene.rows(&run.id).filter(|row| row.status == RowStatus::Skipped).count();
    let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    if done.is_empty() {
        return format!("Nothing to apply in {}{skipped}", count(rows.len(), "stack"));
    }
    let totals = words::totals(done.iter().copied());
    let counts = if totals.is_empty() { "no changes".to_owned() } else { totals.past_tense_text() };
    format!("{} applied{skipped}: {counts}", count(done.len(), "stack"))
}
