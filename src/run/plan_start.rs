//! Plan runs: registered by a pull request's job, or started by the server (spec 30 §3.1, §4.7).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::dispatching;
use super::model::{Row, Run};
use super::next::Next;
use super::settle::settle;
use super::status::{Mode, RowStatus, RunStatus, Trigger};
use super::supersede;
use crate::config::model::{PlanOutput, Tool};
use crate::graph::resolution::{AffectedStack, Resolution};
use crate::guide::{self, Topic};
use crate::ids::{RunId, Sha, StackId, StackKey};

/// What a registering job and GitHub say of the commit.
#[derive(Debug, Clone)]
pub struct Registration {
    pub id: RunId,
    /// The head, read from GitHub (I12).
    pub sha: Sha,
    pub base_sha: String,
    pub actor: String,
    pub workflow_run_id: i64,
    pub attempt: u32,
    pub commit_message: String,
    pub commit_author: String,
    pub head_ref: String,
}

/// Finds or creates the plan run of the head; a new one supersedes those of other heads. Returns its id and whether it
/// was there already.
pub fn register(next: &mut Next, registration: &Registration) -> (RunId, bool) {
    next.caused_by(&registration.actor, "registration");
    let same_attempt = |run: &Run| {
        run.workflow_run_id == registration.workflow_run_id && run.workflow_run_attempt == registration.attempt
    };
    let reusable = next.scene.newest_first().into_iter().find(|run| {
        run.mode == Mode::Plan
            && run.trigger == Trigger::PullRequest
            && run.sha == registration.sha
            && match run.status {
                RunStatus::Pending | RunStatus::Planning => true,
                // The job that registered it asks again: its answer was lost.
                RunStatus::Planned | RunStatus::Failed | RunStatus::Unconfirmed => same_attempt(run),
                RunStatus::Applying | RunStatus::Applied | RunStatus::Superseded => false,
            }
    });
    let now = next.now;
    if let Some(id) = reusable.map(|run| run.id.clone()) {
        let run = next.run_mut(&id);
        if !run.status.is_terminal() {
            run.workflow_run_id = registration.workflow_run_id;
            run.workflow_run_attempt = registration.attempt;
            run.seen_at = now;
        }
        return (id, true);
    }
    let run = Run {
        base_sha: registration.base_sha.clone(),
        commit_message: registration.commit_message.clone(),
        commit_author: registration.commit_author.clone(),
        head_ref: registration.head_ref.clone(),
        workflow_run_id: registration.workflow_run_id,
        workflow_run_attempt: registration.attempt,
        ..blank_run(
            next,
            registration.id.clone(),
            registration.sha.clone(),
            Mode::Plan,
            Trigger::PullRequest,
            &registration.actor,
        )
    };
    let id = run.id.clone();
    next.add_run(run, Vec::new());
    supersede::head_moved(next, &registration.sha);
    next.render(&id);
    (id, false)
}

/// A run without anything in it, of the scene's repository and pull request.
pub fn blank_run(next: &Next, id: RunId, sha: Sha, mode: Mode, trigger: Trigger, requested_by: &str) -> Run {
    Run {
        id,
        repo_id: next.scene.repo.id,
        sha,
        base_sha: String::new(),
        pr_number: next.scene.pr_number,
        trigger,
        mode,
        status: RunStatus::Pending,
        requested_by: requested_by.to_owned(),
        commit_message: String::new(),
        commit_author: String::new(),
        head_ref: String::new(),
        superseded_by: String::new(),
        for_run: None,
        for_wave: 0,
        taken_over: false,
        release_at_end: None,
        wants: Vec::new(),
        graph_sha: None,
        waves: 0,
        current_wave: 0,
        warnings: Vec::new(),
        explained: BTreeMap::new(),
        cycles: Vec::new(),
        external: Vec::new(),
        removed: Vec::new(),
        workflow_run_id: 0,
        workflow_run_attempt: 0,
        created_at: next.now,
        started_at: None,
        finished_at: None,
        seen_at: next.now,
        version: 0,
    }
}

/// A row that nothing has happened to yet, of a stack that a resolution found.
pub fn pending_row(run: &Run, affected: &AffectedStack, now: i64) -> Option<Row> {
    let key = StackKey::parse(&affected.key).ok()?;
    let stack_id = StackId::of(run.repo_id, key.as_str());
    Some(Row {
        wave: affected.wave,
        reasons: affected.reasons.clone(),
        via: affected.via.clone(),
        environment: if affected.environment.is_empty() { "default".to_owned() } else { affected.environment.clone() },
        workspace: affected.workspace.clone(),
        tool: affected.tool.unwrap_or(Tool::Terraform),
        tool_version: affected.tool_version.clone(),
        plan_output: affected.plan_output.unwrap_or(PlanOutput::Full),
        ..Row::pending(run.id.clone(), stack_id, key, run.mode, now)
    })
}

/// Writes a resolution into its run: rows, waves, warnings, and the status that follows (spec 30 §3.5).
/// Rows that have reported keep their results; only why and where they stand is refreshed. A row that a repeated upload
/// no longer affects is `skipped`: it stays for those who look, and neither the roll-up nor the plan view waits for it.
pub fn record_resolution(next: &mut Next, id: &RunId, resolution: &Resolution, graph_sha: Sha) {
    next.caused_by(format!("workflow_run:{}", next.scene.runs[id].workflow_run_id), "graph upload");
    let now = next.now;
    let run = next.run_mut(id);
    run.graph_sha = Some(graph_sha);
    run.cycles.clone_from(&resolution.cycles);
    run.external.clone_from(&resolution.external);
    run.removed.clone_from(&resolution.removed);
    for warning in &resolution.warnings {
        match guide::warning_anchor(&warning.code) {
            Some(anchor) => run.warn_about(anchor, warning.to_string()),
            None => run.warn(warning.to_string()),
        }
    }
    for external in &resolution.external {
        let text =
            format!("{external} depends on a stack of this run; it is in another repository and is not scheduled here");
        run.warn_about(Topic::ExternalDependent.anchor(), text);
    }
    run.seen_at = now;
    if !resolution.cycles.is_empty() {
        run.enter(RunStatus::Failed, now);
        drop_rows(next, id, &BTreeMap::new());
        next.render(id);
        return;
    }
    run.waves = u32::try_from(resolution.waves.len()).unwrap_or(u32::MAX);
    let run = run.clone();
    let mut rows: BTreeMap<StackKey, Row> = BTreeMap::new();
    for row in resolution.affected.iter().filter_map(|affected| pending_row(&run, affected, now)) {
        let row = match next.scene.row(id, &row.key).filter(|known| known.status != RowStatus::Skipped) {
            Some(known) => Row {
                wave: row.wave,
                reasons: row.reasons,
                via: row.via,
                environment: row.environment,
                plan_output: row.plan_output,
                ..known.clone()
            },
            None => row,
        };
        rows.insert(row.key.clone(), row);
    }
    let affected: Vec<StackKey> = rows.keys().cloned().collect();
    let status = if rows.is_empty() { RunStatus::Planned } else { RunStatus::Planning };
    drop_rows(next, id, &rows);
    Arc::make_mut(next.scene.rows.entry(id.clone()).or_default()).extend(rows);
    next.run_mut(id).enter(status, now);
    supersede::release_unaffected(next, &affected);
    settle(next, id);
}

/// Rows of an earlier upload that the newest one does not name.
fn drop_rows(next: &mut Next, id: &RunId, kept: &BTreeMap<StackKey, Row>) {
    let now = next.now;
    for row in next.scene.rows_mut(id).filter(|row| !kept.contains_key(&row.key)) {
        row.enter(RowStatus::Skipped, now);
        row.note = "not affected any more".to_owned();
    }
}

/// Starts a dispatched plan run of these stacks: a comment, a re-run, a changed base.
pub fn start(next: &mut Next, run: Run, rows: Vec<Row>) -> RunId {
    let id = run.id.clone();
    next.add_run(run, rows);
    dispatching::insert_plan_dispatches(next, &id);
    next.render(&id);
    id
}
