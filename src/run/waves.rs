//! Opening a wave, and planning again what is behind an apply (spec 30 §6.2a).

use serde_json::json;

use super::dispatching;
use super::model::{Row, Run};
use super::next::Next;
use super::plan_view::PlanView;
use super::scene::Scene;
use super::status::{ApplyEvent, Mode, RowStatus, RunStatus, SkipReason, Trigger, VerdictStatus};
use crate::clock::Millis;
use crate::graph::ordering::{Ordering, ordering};
use crate::ids::{RunId, StackKey};
use std::collections::{BTreeMap, BTreeSet};

/// Opens the run's current wave: settles what has nothing to do, starts the re-plan of what is behind, or dispatches.
pub fn open(next: &mut Next, id: &RunId) {
    let now = next.now;
    next.run_mut(id).enter(RunStatus::Applying, now);
    let wave = next.scene.runs[id].current_wave;
    let waiting: Vec<StackKey> = next
        .scene
        .rows(id)
        .filter(|row| row.wave == wave && row.status == RowStatus::Planned)
        .map(|row| row.key.clone())
        .collect();
    let mut behind_rows = Vec::new();
    for key in waiting {
        let behind = behind(next, id, &key);
        let row = next.scene.row_mut(id, &key).expect("collected above");
        if !behind.is_empty() {
            row.behind = behind;
            behind_rows.push(key);
        } else if let Some(earlier) = row.carry_from.clone() {
            carry_over(row, earlier, now);
        } else if row.is_propagated() && row.plan_is_empty() {
            row.on_apply(ApplyEvent::Empty, now);
        }
    }
    if behind_rows.is_empty() {
        dispatching::insert_apply_dispatches(next, id, wave);
    } else {
        start_replan(next, id, wave, &behind_rows);
    }
}

pub(super) fn carry_over(row: &mut Row, earlier: RunId, now: i64) {
    row.on_apply(ApplyEvent::CarriedOver, now);
    row.note = format!("by apply run {earlier}");
    row.applied_by_run = Some(earlier);
}

/// What put the row behind from the start, its predecessors that changed after its plan was made, and the stack itself if
/// somebody has gone over it since; sorted. An apply that has not ended has changed nothing yet.
pub fn behind(next: &Next, id: &RunId, key: &StackKey) -> Vec<String> {
    let Some(row) = next.scene.row(id, key) else { return Vec::new() };
    let mut behind = row.behind.clone();
    let planned_at = row.from_plan_run.as_ref().and_then(|plan| next.scene.run(plan)).map(|plan| plan.created_at);
    let changed_after = |stack: &str, then: Option<Millis>| {
        // Equal is not behind: a re-plan is created in the commit that records its upstream.
        then.zip(next.scene.changed_at.get(stack)).is_some_and(|(then, at)| *at > then)
    };
    let ordering = next.ordering_of(id);
    let predecessors = ordering.all_predecessors(key.as_str());
    behind.extend(predecessors.into_iter().filter(|stack| changed_after(stack, planned_at)).map(str::to_owned));
    // Applied itself since, by this pull request or another one: neither would its plan fit, nor could it count as done
    // without another look.
    let left_at = match &row.carry_from {
        Some(earlier) => next.scene.row(earlier, key).and_then(|applied| applied.finished_at),
        None => planned_at,
    };
    if changed_after(key.as_str(), left_at) {
        behind.push(key.to_string());
    }
    behind.sort();
    behind.dedup();
    behind
}

/// One targeted plan run for all rows of the wave that are behind; at most one per wave.
fn start_replan(next: &mut Next, id: &RunId, wave: u32, keys: &[StackKey]) {
    let apply = next.scene.runs[id].clone();
    let replan = RunId::of_replan(id, wave);
    let run = Run {
        id: replan.clone(),
        trigger: Trigger::Upstream,
        mode: Mode::Plan,
        status: RunStatus::Pending,
        for_run: Some(id.clone()),
        for_wave: wave,
        taken_over: false,
        waves: 1,
        current_wave: 0,
        warnings: Vec::new(),
        explained: BTreeMap::new(),
        workflow_run_id: 0,
        workflow_run_attempt: 0,
        created_at: next.now,
        started_at: None,
        finished_at: None,
        seen_at: next.now,
        release_at_end: None,
        wants: Vec::new(),
        version: 0,
        ..apply
    };
    let rows = keys
        .iter()
        .filter_map(|key| next.scene.row(id, key))
        .map(|row| fresh_plan_row(row, &replan, next.now))
        .collect();
    next.add_run(run, rows);
    dispatching::insert_plan_dispatches(next, &replan);
}

/// A row to be planned (again) in another run: what it is, nothing of what happened to it.
pub fn fresh_plan_row(row: &Row, run: &RunId, now: i64) -> Row {
    Row {
        reasons: row.reasons.clone(),
        via: row.via.clone(),
        environment: row.environment.clone(),
        workspace: row.workspace.clone(),
        tool: row.tool,
        tool_version: row.tool_version.clone(),
        plan_output: row.plan_output,
        ..Row::pending(run.clone(), row.stack_id.clone(), row.key.clone(), Mode::Plan, now)
    }
}

/// What a fresh plan makes of its apply row; the first match counts (spec 30 §6.2a).
#[derive(Debug, Clone, PartialEq, Eq)]
enum Renewed {
    Failed(String),
    Unknown,
    Unconfirmed,
    Noop,
    /// Takes over the fresh plan and is dispatched.
    Fresh,
    /// Takes over the fresh plan, which does nothing, and is applied already.
    CarriedOver(RunId),
    Skipped(SkipReason, String),
}

/// The apply run takes over its finished re-plan.
pub fn take_over(next: &mut Next, id: &RunId, replan: &RunId) {
    let now = next.now;
    next.run_mut(replan).taken_over = true;
    let wave = next.scene.runs[replan].for_wave;
    let keys: Vec<StackKey> = next
        .scene
        .rows(id)
        .filter(|row| row.wave == wave && row.status == RowStatus::Planned)
        .map(|row| row.key.clone())
        .filter(|key| next.scene.row(replan, key).is_some())
        .collect();
    for key in keys {
        let fresh = next.scene.row(replan, &key).expect("filtered above").clone();
        let renewed = renew(next, id, &key, &fresh);
        let row = next.scene.row_mut(id, &key).expect("collected above");
        let old_digest = row.plan_digest.clone();
        let outcome = settle_renewed(row, &fresh, renewed, now);
        next.audit(
            "stackorder",
            "plan_renewed",
            format!("run:{id}"),
            json!({
                "repo": next.scene.repo.full_name, "stack": key, "plan_run": replan,
                "old_digest": old_digest, "new_digest": fresh.plan_digest, "outcome": outcome,
            }),
        );
    }
}

fn renew(next: &Next, id: &RunId, key: &StackKey, fresh: &Row) -> Renewed {
    let row = next.scene.row(id, key).expect("asked for a row of the run");
    let keys = row.behind.join(", ");
    match fresh.status {
        RowStatus::Failed | RowStatus::Blocked => return Renewed::Failed(format!("its plan after {keys} failed")),
        RowStatus::Unknown => return Renewed::Unknown,
        RowStatus::Unconfirmed => return Renewed::Unconfirmed,
        RowStatus::Pending | RowStatus::Planning => {
            let reason = next.scene.runs[&fresh.run_id].warnings.last().cloned();
            return Renewed::Failed(reason.unwrap_or_else(|| format!("its plan after {keys} was not started")));
        }
        RowStatus::Planned | RowStatus::Applying | RowStatus::Applied | RowStatus::Noop | RowStatus::Skipped => {}
    }
    let empty = fresh.plan_is_empty();
    if empty && row.is_propagated() {
        return Renewed::Noop;
    }
    let first_plan_failed = row
        .from_plan_run
        .as_ref()
        .and_then(|plan| next.scene.row(plan, key))
        .is_some_and(|plan| plan.status == RowStatus::Failed);
    if first_plan_failed {
        return Renewed::Skipped(SkipReason::PlanChanged, format!("its plan changed after {keys} was applied"));
    }
    if let Some(note) = verdict_against(next, &fresh.run_id, key) {
        return Renewed::Skipped(SkipReason::Verdict, note);
    }
    if empty {
        return match row.carry_from.clone() {
            Some(earlier) => Renewed::CarriedOver(earlier),
            None => Renewed::Fresh,
        };
    }
    if !row.actions_digest.is_empty() && row.actions_digest == fresh.actions_digest {
        return Renewed::Fresh;
    }
    Renewed::Skipped(SkipReason::PlanChanged, format!("its plan changed after {keys} was applied"))
}

/// A failing verdict, or a required one that is missing.
fn verdict_against(next: &Next, plan: &RunId, key: &StackKey) -> Option<String> {
    let verdicts = || next.scene.verdicts.values().filter(|verdict| verdict.run_id == *plan && verdict.key == *key);
    if let Some(verdict) = verdicts().find(|verdict| verdict.status == VerdictStatus::Fail) {
        return Some(format!("verdict fail from {}", verdict.name));
    }
    let missing =
        next.policy.apply.required_checks.iter().find(|name| !verdicts().any(|verdict| verdict.name == **name));
    missing.map(|name| format!("no verdict from {name}"))
}

/// Writes the outcome into the apply row and names it for the audit.
fn settle_renewed(row: &mut Row, fresh: &Row, renewed: Renewed, now: i64) -> &'static str {
    match renewed {
        Renewed::Failed(note) => {
            row.on_apply(ApplyEvent::Failed, now);
            row.error_text = note.clone();
            row.note = note;
            "failed"
        }
        Renewed::Unknown => {
            row.on_apply(ApplyEvent::Vanished, now);
            row.note = "nothing was applied".to_owned();
            "unknown"
        }
        Renewed::Unconfirmed => {
            row.on_apply(ApplyEvent::Unconfirmed, now);
            row.note = "nothing was applied".to_owned();
            "unconfirmed"
        }
        Renewed::Noop => {
            take_plan(row, fresh);
            row.on_apply(ApplyEvent::Empty, now);
            "noop"
        }
        Renewed::Fresh => {
            take_plan(row, fresh);
            "applied from the fresh plan"
        }
        Renewed::CarriedOver(earlier) => {
            take_plan(row, fresh);
            carry_over(row, earlier, now);
            "carried over"
        }
        Renewed::Skipped(reason, note) => {
            row.on_apply(ApplyEvent::LeftOut, now);
            row.skip_reason = Some(reason);
            row.note = note;
            "waits for a new request"
        }
    }
}

/// The apply row carries this plan row's plan from now on.
pub(super) fn take_plan(row: &mut Row, plan: &Row) {
    row.from_plan_run = Some(plan.run_id.clone());
    row.summary.clone_from(&plan.summary);
    row.has_changes = plan.has_changes;
    row.plan_artifact.clone_from(&plan.plan_artifact);
    row.plan_run_id = plan.plan_run_id;
    row.plan_artifact_id = plan.plan_artifact_id;
    row.plan_artifact_expires_at = plan.plan_artifact_expires_at;
    row.plan_digest.clone_from(&plan.plan_digest);
    row.bundle_sha256.clone_from(&plan.bundle_sha256);
    row.actions_digest.clone_from(&plan.actions_digest);
}

/// Selected predecessors of a stack whose plan failed that are new: never applied, and planned to create only. Their outputs
/// cannot have been there when the stack was planned, so its failure does not refuse an apply (spec 30 §6.2a).
pub fn new_upstreams(scene: &Scene, view: &PlanView<'_>, selected: &BTreeSet<StackKey>, key: &StackKey) -> Vec<String> {
    if view.rows.get(key).is_none_or(|row| row.status != RowStatus::Failed) {
        return Vec::new();
    }
    let Some(graph) = view.graph_sha().and_then(|sha| scene.graphs.get(sha)) else { return Vec::new() };
    let mut upstreams = new_predecessors(scene, view, &ordering(graph), key);
    upstreams.retain(|upstream| selected.contains(upstream.as_str()));
    upstreams
}

/// Predecessors of a stack that are new: never applied, and planned by the view to create only.
pub fn new_predecessors(scene: &Scene, view: &PlanView<'_>, order: &Ordering, key: &StackKey) -> Vec<String> {
    let only_creates = |row: &&Row| {
        row.status == RowStatus::Planned
            && row
                .summary
                .as_ref()
                .is_some_and(|summary| summary.adds > 0 && u64::from(summary.adds) == summary.total())
    };
    order
        .all_predecessors(key.as_str())
        .into_iter()
        .filter(|upstream| !scene.changed_at.contains_key(*upstream))
        .filter(|upstream| view.rows.get(*upstream).copied().filter(only_creates).is_some())
        .map(str::to_owned)
        .collect()
}
