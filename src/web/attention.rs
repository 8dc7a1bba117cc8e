//! The one thing a person must do next about a run (spec 31 §8.2): at most one strip, the first that applies.

use std::collections::BTreeMap;

use super::links::{self, GitHub};
use super::parts::{Link, Sentence, Tone};
use super::run_view::{some_keys, title};
use crate::config::model::ApplyMode;
use crate::ids::StackKey;
use crate::render::checks::roll_up;
use crate::render::queue;
use crate::render::words::{self, count};
use crate::run::model::{Lock, Row, Run};
use crate::run::queue::{Hold, Line};
use crate::run::scene::Scene;
use crate::run::status::{Mode, RowStatus, RunStatus};

/// A headline, and what to do line by line.
pub struct Strip {
    pub tone: Tone,
    pub headline: String,
    pub lines: Vec<Sentence>,
}

impl Strip {
    fn new(tone: Tone, headline: impl Into<String>, lines: Vec<Sentence>) -> Self {
        Self { tone, headline: headline.into(), lines }
    }
}

/// The strip of a run, if anything is left to do or to wait for.
pub fn strip(scene: &Scene, run: &Run, github: GitHub<'_>) -> Option<Strip> {
    let rows: Vec<&Row> = scene.rows(&run.id).collect();
    unknown(&rows)
        .or_else(|| new_plans(scene, run, &rows))
        .or_else(|| approvals(scene, run, &rows, github))
        .or_else(|| planning_again(scene, run))
        .or_else(|| queued(scene, run, github))
        .or_else(|| ended(scene, run, &rows))
        .or_else(|| planned(scene, run, &rows, github))
}

fn unknown(rows: &[&Row]) -> Option<Strip> {
    let lost: Vec<&Row> = rows.iter().copied().filter(|row| row.status == RowStatus::Unknown).collect();
    let first = lost.first()?;
    let keys = some_keys(lost.iter().map(|row| &row.key));
    if first.mode != Mode::Apply {
        let advice = Sentence::new("Comment “stackorder plan” to plan again.");
        return Some(Strip::new(Tone::Warning, format!("No result from {keys}"), vec![advice]));
    }
    let claimed: Vec<&&Row> = lost.iter().filter(|row| row.claim.is_some()).collect();
    if claimed.is_empty() {
        let advice =
            Sentence::new("The jobs never took their stacks, so nothing was applied. Ask for the apply again.");
        return Some(Strip::new(Tone::Warning, format!("Nothing was applied to {keys}"), vec![advice]));
    }
    let keys = some_keys(claimed.iter().map(|row| &row.key));
    let steps = [
        "Read the job log.",
        "Check the state lock; release it with the tool if the runner died.",
        "Run “stackorder unlock --force-state” for the stack.",
        "Comment “stackorder plan”, and review what is left to do.",
    ];
    let lines = steps.into_iter().map(Sentence::new).collect();
    Some(Strip::new(
        Tone::Bad,
        format!("Nobody knows what was applied to {keys}; the state may be partly changed"),
        lines,
    ))
}

fn new_plans(scene: &Scene, run: &Run, rows: &[&Row]) -> Option<Strip> {
    let renewed: Vec<&Row> = rows.iter().copied().filter(|row| words::has_new_plan(row)).collect();
    if renewed.is_empty() || !run.status.is_terminal() {
        return None;
    }
    let mut lines: Vec<Sentence> = Vec::new();
    let mut replans: Vec<&Run> = scene.runs.values().filter(|other| other.for_run.as_ref() == Some(&run.id)).collect();
    replans.sort_by_key(|replan| replan.for_wave);
    for replan in replans {
        let text = format!("Review {}:", some_keys(scene.rows(&replan.id).map(|row| &row.key)));
        lines.push(Sentence::with(text, Link::to(title(replan), links::run(&replan.id))));
    }
    lines.push(Sentence::new("Then ask for the apply again; nothing applies a plan that nobody has seen."));
    Some(Strip::new(Tone::Warning, roll_up::new_plans(run, renewed.len()), lines))
}

/// One line for each environment that waits for a reviewer.
fn approvals(scene: &Scene, run: &Run, rows: &[&Row], github: GitHub<'_>) -> Option<Strip> {
    if run.status.is_terminal() {
        return None;
    }
    let mut waiting: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.waiting_for_approval) {
        waiting.entry(&row.environment).or_default().push(row);
    }
    if waiting.is_empty() {
        return None;
    }
    let lines = waiting.iter().map(|(environment, rows)| {
        let served = rows.iter().find_map(|row| scene.dispatches.get(row.dispatch_id.as_ref()?)?.workflow_run_id);
        let text = format!("{environment} ({}):", some_keys(rows.iter().map(|row| &row.key)));
        match served {
            Some(id) => {
                let page = github.workflow_run(&scene.repo.full_name, id);
                Sentence::with(text, Link::to("review the deployment on GitHub", page))
            }
            None => Sentence::new(text.trim_end_matches(':')),
        }
    });
    let mut lines: Vec<Sentence> = lines.collect();
    lines.push(Sentence::new("Stackorder cannot approve; GitHub asks the reviewers of the environment."));
    let environments: Vec<&str> = waiting.keys().copied().collect();
    Some(Strip::new(Tone::Waiting, format!("Waiting for a reviewer of {}", environments.join(", ")), lines))
}

fn planning_again(scene: &Scene, run: &Run) -> Option<Strip> {
    let replan = roll_up::open_replan(scene, run).filter(|_| run.mode == Mode::Apply)?;
    let stacks = count(scene.rows(&replan.id).count(), "stack");
    let link = Link::to(title(replan), links::run(&replan.id));
    let line = Sentence::with("Their upstream changed in this run. See", link);
    Some(Strip::new(Tone::Busy, format!("Planning {stacks} again before wave {}", run.current_wave), vec![line]))
}

fn queued(scene: &Scene, run: &Run, github: GitHub<'_>) -> Option<Strip> {
    if !run.is_queued() {
        return None;
    }
    let line = Line::of(scene);
    let lines = line.holds_of(&run.id).into_iter().take(10).map(|(key, hold)| match hold {
        Hold::Locked(lock) => Sentence::with(format!("{key} is held by"), github.holder(&scene.repo.full_name, lock)),
        Hold::Waits(before) => {
            Sentence::with(format!("{key} is waited for longer by"), Link::to(title(before), links::run(&before.id)))
        }
    });
    Some(Strip::new(Tone::Waiting, queue::title(scene, run), lines.collect()))
}

fn foreign_lock<'s>(scene: &'s Scene, key: &StackKey) -> Option<&'s Lock> {
    scene.locks.get(key).filter(|lock| scene.pr_number == 0 || lock.pr_number != scene.pr_number)
}

/// What remains to do when a run is over and not well.
fn ended(scene: &Scene, run: &Run, rows: &[&Row]) -> Option<Strip> {
    match run.status {
        RunStatus::Superseded => Some(superseded(scene, run)),
        RunStatus::Unconfirmed => {
            let advice = Sentence::new("This is no green light. Comment “stackorder plan” once the server answers.");
            let headline = "The server could not be reached while the jobs worked, so nothing confirms what they did";
            Some(Strip::new(Tone::Warning, headline, vec![advice]))
        }
        RunStatus::Failed => Some(failed(scene, run, rows)),
        RunStatus::Pending | RunStatus::Planning | RunStatus::Planned | RunStatus::Applying | RunStatus::Applied => {
            None
        }
    }
}

fn superseded(scene: &Scene, run: &Run) -> Strip {
    let newest = scene.newest_first().into_iter().find(|other| {
        other.mode == run.mode && other.for_run.is_none() && other.status != RunStatus::Superseded && other.id != run.id
    });
    let lines = newest.map(|newer| Sentence::with("See", Link::to(title(newer), links::run(&newer.id))));
    Strip::new(Tone::Quiet, "A newer commit, or a new base, replaced this run", lines.into_iter().collect())
}

fn failed(scene: &Scene, run: &Run, rows: &[&Row]) -> Strip {
    if !run.cycles.is_empty() {
        let mut lines: Vec<Sentence> =
            run.cycles.iter().take(10).map(|cycle| Sentence::new(cycle.join(" → "))).collect();
        lines.push(Sentence::new("Remove one of the edges, or list an inferred one under ignore_inferred."));
        return Strip::new(Tone::Bad, "These stacks wait for each other, so nothing can run", lines);
    }
    let headline = roll_up::broken(run, rows);
    let mut lines = Vec::new();
    match run.mode {
        Mode::Plan => {
            lines.push(Sentence::new("Repair what failed and push, or comment “stackorder plan” to try again."))
        }
        Mode::Drift => lines.push(Sentence::new("The next scheduled check tries again.")),
        Mode::Apply => {
            let used: Vec<&StackKey> = rows
                .iter()
                .filter(|row| row.status == RowStatus::Failed && row.claim.is_some())
                .map(|row| &row.key)
                .collect();
            if !used.is_empty() {
                let keys = some_keys(used);
                lines.push(Sentence::new(format!(
                    "Read the job log and comment “stackorder plan”: the plan of {keys} is used."
                )));
            }
            lines.push(Sentence::new("Then ask for the apply again; what is applied already is carried over."));
            let held = scene.locks.values().filter(|lock| lock.run_id == run.id).count();
            if held > 0 {
                let locks = count(held, "lock");
                lines.push(Sentence::new(format!(
                    "It still holds {locks}. To give them up, comment “stackorder unlock”."
                )));
            }
        }
    }
    Strip::new(Tone::Bad, headline, lines)
}

/// A plan that somebody may ask to apply.
fn planned(scene: &Scene, run: &Run, rows: &[&Row], github: GitHub<'_>) -> Option<Strip> {
    let is_head = scene.newest_plan_run().is_some_and(|newest| newest.sha == run.sha);
    if (run.mode, run.status) != (Mode::Plan, RunStatus::Planned) || !is_head || run.for_run.is_some() {
        return None;
    }
    let pull = github.pull_of(&scene.repo.full_name, run)?;
    let newer =
        scene.newest_first().into_iter().find(|other| other.mode == Mode::Apply && other.created_at >= run.created_at);
    if let Some(apply) = newer {
        let link = Link::to(title(apply), links::run(&apply.id));
        let line = Sentence::with(format!("It is {}:", words::run_status(apply.status)), link);
        let tone = if apply.status.is_terminal() { Tone::Quiet } else { Tone::Busy };
        return Some(Strip::new(tone, "An apply of these plans was asked for", vec![line]));
    }
    let changed = rows.iter().filter(|row| !row.plan_is_empty()).count();
    if changed == 0 {
        return Some(Strip::new(Tone::Good, "Nothing to apply", Vec::new()));
    }
    let mut lines = match scene.repo.policy().apply.mode {
        ApplyMode::BeforeMerge => {
            vec![Sentence::with("Review the plans below, then comment “stackorder apply” on", pull)]
        }
        ApplyMode::OnMerge => vec![Sentence::with("Review the plans below; merging applies them. See", pull)],
    };
    let held = rows.iter().filter_map(|row| foreign_lock(scene, &row.key)).take(10);
    lines.extend(held.map(|lock| {
        Sentence::with(format!("Until then {} is locked by", lock.key), github.holder(&scene.repo.full_name, lock))
    }));
    Some(Strip::new(Tone::Waiting, format!("{} with changes, ready for review", count(changed, "stack")), lines))
}
