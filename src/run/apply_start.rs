//! Creating an apply run (spec 30 §6.1) and manual runs (§6.8). The gate has passed before.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::locks;
use super::model::{Lock, Row, Run};
use super::next::Next;
use super::plan_start::blank_run;
use super::queue::{self, Hold, Line};
use super::scene::Scene;
use super::settle::settle;
use super::status::{ApplyEvent, Mode, RowStatus, RunStatus, SkipReason, Trigger};
use super::waves::{self, take_plan};
use crate::ids::{RunId, Sha, StackId, StackKey};

/// One request to apply, as the gate let it through.
#[derive(Debug, Clone)]
pub struct ApplyRequest {
    pub id: RunId,
    /// The head, or the merge commit.
    pub sha: Sha,
    pub trigger: Trigger,
    pub requested_by: String,
    pub selected: BTreeSet<StackKey>,
    /// The environment of each stack under the default branch's rules.
    pub environments: BTreeMap<StackKey, String>,
    /// Waves of the selected subset, found through unselected stacks.
    pub waves: BTreeMap<StackKey, u32>,
    /// Stacks behind from the start, with what put them there (spec 30 §6.2a).
    pub behind_from_start: BTreeMap<StackKey, Vec<String>>,
}

/// Creates the run, its rows and its locks, and opens wave 0: one commit (I2, I3).
/// `plans` is the plan view: the newest plan row of every stack of the head.
pub fn start(next: &mut Next, request: &ApplyRequest, plans: &BTreeMap<StackKey, Row>) -> RunId {
    create(next, request, plans);
    begin(next, &request.id);
    request.id.clone()
}

/// Creates the run and its rows to wait until others free its stacks: nothing is locked, nothing dispatched (spec 30 §7.6).
pub fn enqueue(next: &mut Next, request: &ApplyRequest, plans: &BTreeMap<StackKey, Row>) -> RunId {
    create(next, request, plans);
    queue::enter(next, &request.id);
    request.id.clone()
}

fn create(next: &mut Next, request: &ApplyRequest, plans: &BTreeMap<StackKey, Row>) {
    let id = request.id.clone();
    let mut run = blank_run(next, id, request.sha.clone(), Mode::Apply, request.trigger, &request.requested_by);
    if let Some(plan) = plans.values().filter_map(|row| next.scene.run(&row.run_id)).max_by_key(|run| run.created_at) {
        run.graph_sha.clone_from(&plan.graph_sha);
        run.commit_message.clone_from(&plan.commit_message);
        run.commit_author.clone_from(&plan.commit_author);
        run.head_ref.clone_from(&plan.head_ref);
        run.base_sha.clone_from(&plan.base_sha);
    }
    run.waves = request.waves.values().max().map_or(0, |last| last + 1);
    let rows = plans.values().map(|plan| apply_row(next, request, &run, plan)).collect();
    next.add_run(run, rows);
}

/// Takes the locks of a created run and opens its first wave.
pub(super) fn begin(next: &mut Next, id: &RunId) {
    let run = next.scene.runs[id].clone();
    let selected: Vec<StackKey> =
        next.scene.rows(id).filter(|row| row.status == RowStatus::Planned).map(|row| row.key.clone()).collect();
    for key in &selected {
        let carry_from = carried_from(&next.scene, &run, &next.scene.rows[id][key]);
        next.scene.row_mut(id, key).expect("collected above").carry_from = carry_from;
    }
    settle_what_is_done(next, id);
    let reason = format!("apply of #{} by {}", run.pr_number, run.requested_by);
    locks::take(next, &run, &selected, &reason);
    waves::open(next, id);
    settle(next, id);
}

fn apply_row(next: &Next, request: &ApplyRequest, run: &Run, plan: &Row) -> Row {
    let selected = request.selected.contains(&plan.key);
    let mut row = waves::fresh_plan_row(plan, &run.id, next.now);
    row.mode = Mode::Apply;
    take_plan(&mut row, plan);
    row.wave = request.waves.get(&plan.key).copied().unwrap_or(0);
    if let Some(environment) = request.environments.get(&plan.key) {
        row.environment.clone_from(environment);
    }
    if selected {
        row.status = RowStatus::Planned;
        row.behind = request.behind_from_start.get(&plan.key).cloned().unwrap_or_default();
    } else {
        row.on_apply(ApplyEvent::LeftOut, next.now);
        row.skip_reason = Some(SkipReason::NotSelected);
        row.note = "not selected".to_owned();
    }
    row
}

/// The earlier apply run of this pull request that applied the plan of this row. It is known by the plan run it came from, as
/// gate layer 3 knows it, or by the digest of its bundle; `plan_digest` is for people, and two plans may share one.
fn carried_from(scene: &Scene, run: &Run, row: &Row) -> Option<RunId> {
    for earlier in scene.newest_first().into_iter().filter(|other| other.mode == Mode::Apply && other.id != run.id) {
        let same_plan = |applied: &&Row| {
            let same_bundle = earlier.sha == run.sha
                && !applied.bundle_sha256.is_empty()
                && applied.bundle_sha256 == row.bundle_sha256;
            let same_plan_run = applied.from_plan_run.is_some() && applied.from_plan_run == row.from_plan_run;
            applied.status == RowStatus::Applied && (same_plan_run || same_bundle)
        };
        if let Some(applied) = scene.row(&earlier.id, &row.key).filter(same_plan) {
            return Some(applied.applied_by_run.clone().unwrap_or_else(|| earlier.id.clone()));
        }
    }
    None
}

/// Rows that need no wave: no-op candidates and carried-over ones without a selected predecessor that will be applied.
/// The others are looked at again when their wave opens.
fn settle_what_is_done(next: &mut Next, id: &RunId) {
    let ordering = next.ordering_of(id);
    let mut by_wave: Vec<(u32, StackKey)> = next
        .scene
        .rows(id)
        .filter(|row| row.status == RowStatus::Planned)
        .map(|row| (row.wave, row.key.clone()))
        .collect();
    by_wave.sort();
    let now = next.now;
    for (_, key) in by_wave {
        let waits = ordering.all_predecessors(key.as_str()).iter().any(|predecessor| {
            next.scene.rows[id].get(*predecessor).is_some_and(|row| row.status == RowStatus::Planned)
        });
        if waits || !waves::behind(next, id, &key).is_empty() {
            continue;
        }
        let row = next.scene.row_mut(id, &key).expect("collected above");
        if let Some(earlier) = row.carry_from.clone() {
            waves::carry_over(row, earlier, now);
        } else if row.is_propagated() && row.plan_is_empty() {
            row.on_apply(ApplyEvent::Empty, now);
        }
    }
}

/// A lock, or the place of a queued apply told as the lock it will be.
fn conflict(key: &StackKey, hold: &Hold<'_>) -> Lock {
    match hold {
        Hold::Locked(lock) => (*lock).clone(),
        Hold::Waits(run) => Lock {
            stack_id: StackId::of(run.repo_id, key.as_str()),
            key: key.clone(),
            repo_id: run.repo_id,
            run_id: run.id.clone(),
            pr_number: run.pr_number,
            taken_at: run.created_at,
            reason: format!("queued apply of #{} by {}", run.pr_number, run.requested_by),
        },
    }
}

/// Starts an apply from outside Actions: run, locks and rows in one commit, nothing dispatched. Foreign locks, and who waits for them, refuse
/// it.
pub fn start_manual(next: &mut Next, id: RunId, sha: Sha, key_name: &str, rows: Vec<Row>) -> Result<RunId, Vec<Lock>> {
    let keys: Vec<StackKey> = rows.iter().map(|row| row.key.clone()).collect();
    let line = Line::of(&next.scene);
    let holds = line.holds(0, &keys.iter().cloned().collect());
    let conflicts: Vec<Lock> = holds.iter().map(|(key, hold)| conflict(key, hold)).collect();
    if !conflicts.is_empty() {
        return Err(conflicts);
    }
    let actor = format!("apikey:{key_name}");
    let mut run = blank_run(next, id.clone(), sha, Mode::Apply, Trigger::Manual, &actor);
    run.waves = 1;
    run.graph_sha.clone_from(&next.scene.repo.default_graph);
    let now = next.now;
    run.enter(RunStatus::Applying, now);
    let copy = run.clone();
    next.add_run(run, rows);
    locks::take(next, &copy, &keys, &format!("manual apply by {actor}"));
    next.audit(
        &actor,
        "manual_apply",
        format!("run:{id}"),
        json!({ "repo": next.scene.repo.full_name, "stacks": keys }),
    );
    Ok(id)
}
