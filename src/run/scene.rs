//! Everything one decision may look at, and the difference between two of them.
//!
//! A decision takes the [`Scene`] as it was loaded, changes a copy, and returns the difference as [`Changes`]:
//! nothing is written that did not change, and nothing changes without the version of its run being checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::model::{AuditEntry, Dispatch, DriftSeen, Lock, Repo, Row, Run, Verdict};
use super::status::{Mode, RunStatus, Trigger};
use crate::clock::Millis;
use crate::graph::model::Graph;
use crate::ids::{DispatchId, RunId, Sha, StackId, StackKey};

/// The runs of one pull request, or one run that belongs to none, with all they depend on.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    pub repo: Repo,
    /// 0 when the scene is that of one run without a pull request.
    pub pr_number: i64,
    /// By id. Rows of superseded runs are loaded too: their checks still want closing.
    pub runs: BTreeMap<RunId, Run>,
    /// By run, then by key. Shared until one of a run's rows changes: most decisions touch one run of many.
    pub rows: BTreeMap<RunId, Arc<BTreeMap<StackKey, Row>>>,
    pub dispatches: BTreeMap<DispatchId, Dispatch>,
    pub verdicts: BTreeMap<(RunId, StackKey, String), Verdict>,
    /// Every lock of the repository, by stack key. Shared until one is taken or freed, as is `changed_at`.
    pub locks: Arc<BTreeMap<StackKey, Lock>>,
    /// Applies of the repository's other pull requests that wait for stacks, first come first (spec 30 §7.6).
    pub queue: Vec<Run>,
    /// Raised by each commit that takes or frees locks of the repository or moves its queue: they happen one after the other.
    pub locks_version: i64,
    /// When the newest apply job of a stack changed something, or may have (spec 30 §6.2a).
    pub changed_at: Arc<BTreeMap<StackKey, Millis>>,
    /// The graphs of the runs and of the default branch, by commit.
    pub graphs: BTreeMap<Sha, Arc<Graph>>,
}

impl Scene {
    pub fn run(&self, id: &RunId) -> Option<&Run> {
        self.runs.get(id)
    }

    pub fn rows(&self, id: &RunId) -> impl Iterator<Item = &Row> {
        self.rows.get(id).into_iter().flat_map(|rows| rows.values())
    }

    pub fn rows_mut(&mut self, id: &RunId) -> impl Iterator<Item = &mut Row> {
        self.rows.get_mut(id).into_iter().flat_map(|rows| Arc::make_mut(rows).values_mut())
    }

    pub fn row(&self, id: &RunId, key: &StackKey) -> Option<&Row> {
        self.rows.get(id)?.get(key)
    }

    pub fn row_mut(&mut self, id: &RunId, key: &StackKey) -> Option<&mut Row> {
        Arc::make_mut(self.rows.get_mut(id)?).get_mut(key)
    }

    pub fn locks_mut(&mut self) -> &mut BTreeMap<StackKey, Lock> {
        Arc::make_mut(&mut self.locks)
    }

    pub fn changed_at_mut(&mut self) -> &mut BTreeMap<StackKey, Millis> {
        Arc::make_mut(&mut self.changed_at)
    }

    pub fn graph_of(&self, run: &Run) -> Option<&Arc<Graph>> {
        self.graphs.get(run.graph_sha.as_ref()?)
    }

    /// Newest first: by creation, then by id.
    pub fn newest_first(&self) -> Vec<&Run> {
        let mut runs: Vec<&Run> = self.runs.values().collect();
        runs.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        runs
    }

    /// The apply of this pull request that has not ended.
    pub fn apply_in_flight(&self) -> Option<&Run> {
        self.newest_first().into_iter().find(|run| run.mode == Mode::Apply && !run.status.is_terminal())
    }

    /// The re-plan of one wave of an apply run (at most one exists).
    pub fn replan_of(&self, apply: &RunId, wave: u32) -> Option<&Run> {
        self.runs
            .values()
            .find(|run| run.trigger == Trigger::Upstream && run.for_run.as_ref() == Some(apply) && run.for_wave == wave)
    }

    pub fn dispatches_of(&self, id: &RunId) -> impl Iterator<Item = &Dispatch> {
        let id = id.clone();
        self.dispatches.values().filter(move |dispatch| dispatch.run_id == id)
    }

    /// The plan run that counts newest for the sticky comment: not superseded, not a re-plan of an apply.
    pub fn newest_plan_run(&self) -> Option<&Run> {
        self.newest_first()
            .into_iter()
            .find(|run| run.mode == Mode::Plan && run.for_run.is_none() && run.status != RunStatus::Superseded)
    }
}

/// What a decision wants to happen besides the change of state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effects {
    pub audit: Vec<AuditEntry>,
    pub jobs: Vec<NewJob>,
    pub drift: Vec<DriftSeen>,
    pub plan_texts: Vec<PlanText>,
    /// A graph to store for a commit.
    pub graph: Option<StoredGraph>,
    /// Names that may be claimed once, ever: `comment:7:42`.
    pub once: Vec<String>,
    /// The default-branch graph of the repository becomes this commit's.
    pub default_graph: Option<Sha>,
}

impl Effects {
    /// A job whose key is already among them is not added twice.
    pub fn add_job(&mut self, job: NewJob) {
        if job.key.is_none() || !self.jobs.iter().any(|known| known.key == job.key) {
            self.jobs.push(job);
        }
    }
}

/// An effect for GitHub, or a timer: a row of the outbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    pub kind: JobKind,
    pub payload: serde_json::Value,
    /// With a key: at most one such job waits; a second one asks the first to run (again).
    pub key: Option<String>,
    pub due_at: Millis,
}

impl NewJob {
    pub fn now(kind: JobKind, payload: serde_json::Value, at: Millis) -> Self {
        Self { kind, payload, key: None, due_at: at }
    }

    pub fn keyed(kind: JobKind, key: String, payload: serde_json::Value, due_at: Millis) -> Self {
        Self { kind, payload, key: Some(key), due_at }
    }

    /// Checks and comments of a pull request are written anew. Coalesced.
    pub fn rendering(repo_id: i64, number: i64, due_at: Millis) -> Self {
        let payload = serde_json::json!({ "repo_id": repo_id, "pr_number": number });
        Self::keyed(JobKind::Render, format!("render:pr:{repo_id}:{number}"), payload, due_at)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Ask GitHub to run one dispatch.
    SendDispatch,
    /// Write checks and comments of a pull request or of a run.
    Render,
    React,
    /// Post one comment.
    Comment,
    /// Tell GitHub whether a job may go on to an environment.
    AnswerDeployment,
    DriftIssue,
    SyncInstallations,
    LoadConfig,
    Reconcile,
    /// Ask for the webhooks again that GitHub could not deliver.
    MissedDeliveries,
    ScheduleDrift,
    DriftStack,
    OpenPullRequests,
    StaleLocks,
    Prune,
    ForkNotice,
    /// Run an ended workflow run again, whose plans were lost.
    RerunWorkflow,
    /// Plan what depends on an ended apply in other repositories.
    PlanDownstream,
}

impl JobKind {
    pub const ALL: &'static [JobKind] = &[
        JobKind::SendDispatch,
        JobKind::Render,
        JobKind::React,
        JobKind::Comment,
        JobKind::AnswerDeployment,
        JobKind::DriftIssue,
        JobKind::SyncInstallations,
        JobKind::LoadConfig,
        JobKind::Reconcile,
        JobKind::MissedDeliveries,
        JobKind::ScheduleDrift,
        JobKind::DriftStack,
        JobKind::OpenPullRequests,
        JobKind::StaleLocks,
        JobKind::Prune,
        JobKind::ForkNotice,
        JobKind::RerunWorkflow,
        JobKind::PlanDownstream,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            JobKind::SendDispatch => "send_dispatch",
            JobKind::Render => "render",
            JobKind::React => "react",
            JobKind::Comment => "comment",
            JobKind::AnswerDeployment => "answer_deployment",
            JobKind::DriftIssue => "drift_issue",
            JobKind::SyncInstallations => "sync_installations",
            JobKind::LoadConfig => "load_config",
            JobKind::Reconcile => "reconcile",
            JobKind::MissedDeliveries => "missed_deliveries",
            JobKind::ScheduleDrift => "schedule_drift",
            JobKind::DriftStack => "drift_stack",
            JobKind::OpenPullRequests => "open_pull_requests",
            JobKind::StaleLocks => "stale_locks",
            JobKind::Prune => "prune",
            JobKind::ForkNotice => "fork_notice",
            JobKind::RerunWorkflow => "rerun_workflow",
            JobKind::PlanDownstream => "plan_downstream",
        }
    }

    pub fn parse(text: &str) -> Result<Self, crate::ids::ParseError> {
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| crate::ids::ParseError::new(text, "a job kind"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanText {
    pub run_id: RunId,
    pub stack_id: StackId,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredGraph {
    pub repo_id: i64,
    pub sha: Sha,
    /// As the server computed it over the graph's content.
    pub content_hash: String,
    /// The client's word; only ever a hint.
    pub tree_hash: String,
    pub pr_number: i64,
    pub graph: Graph,
    pub created_at: Millis,
}

/// One commit: everything in it happens, or nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Runs to insert.
    pub new_runs: Vec<Run>,
    /// Runs to write, each with the version it was read at. Touching a row, dispatch or lock of a run touches the run.
    pub runs: Vec<(Run, i64)>,
    pub rows: Vec<Row>,
    pub dispatches: Vec<Dispatch>,
    pub verdicts: Vec<Verdict>,
    /// `(key's stack, the run that must hold it now)`.
    pub locks_released: Vec<(StackId, RunId)>,
    /// Released ones are gone before these are taken; one already held by somebody else is a conflict.
    pub locks_taken: Vec<Lock>,
    /// The version that locks and queue were read at, when this takes or frees a lock, moves the queue or begins a drift
    /// check: it is compared and raised before anything else.
    pub locks_version: Option<i64>,
    pub changed_at: Vec<(i64, StackKey, Millis)>,
    pub repo_id: i64,
    pub effects: Effects,
}

impl Changes {
    /// The difference of two scenes. Runs that only `after` has are inserted; runs never disappear.
    pub fn between(before: &Scene, after: Scene, effects: Effects) -> Self {
        let mut changes = Changes { repo_id: before.repo.id, effects, ..Changes::default() };
        let mut touched: BTreeSet<RunId> = BTreeSet::new();

        for (run_id, rows) in &after.rows {
            let old = before.rows.get(run_id);
            if old.is_some_and(|old| Arc::ptr_eq(old, rows)) {
                continue;
            }
            for (key, row) in rows.iter() {
                if old.and_then(|rows| rows.get(key)) != Some(row) {
                    touched.insert(run_id.clone());
                    changes.rows.push(row.clone());
                }
            }
        }
        for (id, dispatch) in &after.dispatches {
            if before.dispatches.get(id) != Some(dispatch) {
                touched.insert(dispatch.run_id.clone());
                changes.dispatches.push(dispatch.clone());
            }
        }
        for (id, verdict) in &after.verdicts {
            if before.verdicts.get(id) != Some(verdict) {
                touched.insert(verdict.run_id.clone());
                changes.verdicts.push(verdict.clone());
            }
        }
        if !Arc::ptr_eq(&before.locks, &after.locks) {
            for lock in before.locks.values().filter(|lock| after.locks.get(&lock.key) != Some(lock)) {
                touched.insert(lock.run_id.clone());
                changes.locks_released.push((lock.stack_id.clone(), lock.run_id.clone()));
            }
            for lock in after.locks.values().filter(|lock| before.locks.get(&lock.key) != Some(lock)) {
                touched.insert(lock.run_id.clone());
                changes.locks_taken.push(lock.clone());
            }
        }
        changes.locks_taken.sort_by(|a, b| a.stack_id.cmp(&b.stack_id));
        // An apply rests on the plans it was let through with: a new head, a verdict or a claim that touches one of them at
        // the same moment, in another process, is decided before it or after it.
        let applies = after.runs.values().filter(|run| run.mode == Mode::Apply && !before.runs.contains_key(&run.id));
        touched.extend(applies.flat_map(|run| after.rows(&run.id)).filter_map(|row| row.from_plan_run.clone()));
        for (key, at) in after.changed_at.iter() {
            if before.changed_at.get(key) != Some(at) {
                changes.changed_at.push((before.repo.id, key.clone(), *at));
            }
        }
        let is_queued = |scene: &Scene, id| scene.runs.get(id).is_some_and(Run::is_queued);
        let queue_moved = after.runs.keys().any(|id| is_queued(before, id) != is_queued(&after, id));
        // Drift is checked where nobody holds the stack; a lock that is taken at the same moment comes before it or after it.
        let drift_begins = after.runs.values().any(|run| run.mode == Mode::Drift && !before.runs.contains_key(&run.id));
        if queue_moved || drift_begins || !changes.locks_taken.is_empty() || !changes.locks_released.is_empty() {
            changes.locks_version = Some(before.locks_version);
        }
        for (id, run) in after.runs {
            match before.runs.get(&id) {
                None => changes.new_runs.push(run),
                Some(old) if *old != run || touched.contains(&id) => {
                    let version = old.version;
                    changes.runs.push((Run { version: version + 1, ..run }, version));
                }
                Some(_) => {}
            }
        }
        changes
    }

    /// Adds what the same commit changes of another pull request of the repository. Effects keep their order.
    pub fn add(&mut self, other: Changes) {
        let Changes {
            new_runs,
            runs,
            rows,
            dispatches,
            verdicts,
            locks_released,
            locks_taken,
            changed_at,
            effects,
            // Both changes are of one repository, whose locks count as they were seen first.
            repo_id: _,
            locks_version: _,
        } = other;
        self.new_runs.extend(new_runs);
        self.runs.extend(runs);
        self.rows.extend(rows);
        self.dispatches.extend(dispatches);
        self.verdicts.extend(verdicts);
        self.locks_released.extend(locks_released);
        self.locks_taken.extend(locks_taken);
        self.changed_at.extend(changed_at);
        let Effects { audit, jobs, drift, plan_texts, graph, once, default_graph } = effects;
        self.effects.audit.extend(audit);
        for job in jobs {
            self.effects.add_job(job);
        }
        self.effects.drift.extend(drift);
        self.effects.plan_texts.extend(plan_texts);
        self.effects.once.extend(once);
        self.effects.graph = self.effects.graph.take().or(graph);
        self.effects.default_graph = self.effects.default_graph.take().or(default_graph);
        // Locks and runs in one order everywhere: two commits never wait for each other crosswise.
        self.locks_taken.sort_by(|a, b| a.stack_id.cmp(&b.stack_id));
        self.runs.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    }

    /// Nothing would be written.
    pub fn is_empty(&self) -> bool {
        *self == Changes { repo_id: self.repo_id, ..Changes::default() }
    }
}
