//! What the engine remembers, and the one way to change what others can see.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::gates::Gates;
use super::groups::Groups;
use super::host::{Host, JobChange, RunChange, RunnerOptions};
use super::model::{Annotation, Artifact, Job, WorkflowFacts, WorkflowRun};
use super::signals::{Busy, Stop, Working};

/// Text kept of one job's log; what comes after is counted and dropped.
const LOG_BYTES_MAX: usize = 64 << 20;

/// The engine behind its public face; runs and jobs hold it.
pub(super) struct Inner {
    pub(super) host: Arc<dyn Host>,
    pub(super) options: RunnerOptions,
    pub(super) runtime: Handle,
    pub(super) busy: Busy,
    pub(super) slots: Arc<Semaphore>,
    pub(super) groups: Arc<Groups>,
    pub(super) gates: Gates,
    /// Downloads of action repositories, one at a time.
    pub(super) downloads: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    /// Held while a change is made and told, so that the host hears of changes in their order.
    order: Mutex<()>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) runs: BTreeMap<i64, RunRecord>,
    pub(super) jobs: BTreeMap<i64, JobRecord>,
    pub(super) artifacts: BTreeMap<i64, ArtifactRecord>,
    pub(super) workflows: BTreeMap<(String, String), WorkflowFacts>,
    pub(super) run_numbers: BTreeMap<i64, i64>,
    pub(super) shut_down: bool,
}

pub(super) struct RunRecord {
    pub(super) run: WorkflowRun,
    /// Earlier attempts as they ended.
    pub(super) past: Vec<WorkflowRun>,
    pub(super) startup_error: Option<String>,
    pub(super) stop: Stop,
    /// A cancelled run counts as work until it completed, even if it was only waiting.
    pub(super) stopping: Option<Working>,
    /// Legs of the newest attempt that ended, by their key in the workflow.
    pub(super) finished: BTreeMap<String, FinishedLeg>,
    pub(super) task: Option<AbortHandle>,
}

/// What a re-run of failed jobs takes over.
#[derive(Clone)]
pub(super) struct FinishedLeg {
    pub(super) job_id: i64,
    pub(super) succeeded: bool,
    pub(super) outputs: BTreeMap<String, String>,
}

pub(super) struct JobRecord {
    pub(super) job: Job,
    pub(super) log: String,
    pub(super) annotations: Vec<Annotation>,
    pub(super) summary: String,
    pub(super) outputs: BTreeMap<String, String>,
    /// The runner is gone.
    pub(super) killed: Stop,
    /// Process groups of its steps.
    pub(super) groups: Vec<i32>,
}

pub(super) struct ArtifactRecord {
    pub(super) artifact: Artifact,
    pub(super) archive: PathBuf,
}

impl Inner {
    pub(super) fn new(host: Arc<dyn Host>, options: RunnerOptions) -> Self {
        let busy = Busy::new();
        Self {
            slots: Arc::new(Semaphore::new(options.parallel_jobs.max(1))),
            groups: Groups::new(busy.clone()),
            gates: Gates::new(busy.clone()),
            downloads: tokio::sync::Mutex::new(()),
            state: Mutex::default(),
            order: Mutex::default(),
            runtime: Handle::current(),
            host,
            options,
            busy,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a run and tells the host, unless the engine is shut down.
    pub(super) fn change_run(&self, id: i64, told: Option<RunChange>, change: impl FnOnce(&mut WorkflowRun)) {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.host.now_ms();
        let (run, silent) = {
            let mut state = self.state();
            let silent = state.shut_down;
            let Some(record) = state.runs.get_mut(&id) else { return };
            change(&mut record.run);
            record.run.updated_at = now;
            (record.run.clone(), silent)
        };
        if let Some(told) = told.filter(|_| !silent) {
            self.host.run_changed(&run, told);
        }
    }

    /// Changes a job, then its run's status with it, and tells the host of both.
    pub(super) fn change_job(&self, id: i64, told: JobChange, change: impl FnOnce(&mut Job)) {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.host.now_ms();
        let (run, run_change, job, silent) = {
            let mut state = self.state();
            let silent = state.shut_down;
            let Some(record) = state.jobs.get_mut(&id) else { return };
            change(&mut record.job);
            let job = record.job.clone();
            let Some((run, run_change)) = state.refresh_run(job.run_id, now) else { return };
            (run, run_change, job, silent)
        };
        if silent {
            return;
        }
        if let Some(run_change) = run_change {
            self.host.run_changed(&run, run_change);
        }
        self.host.job_changed(&run, &job, told);
    }

    /// Lists a job.
    pub(super) fn add_job(&self, job: Job, told: Option<JobChange>) {
        let id = job.id;
        self.state().jobs.insert(
            id,
            JobRecord {
                job,
                log: String::new(),
                annotations: Vec::new(),
                summary: String::new(),
                outputs: BTreeMap::new(),
                killed: Stop::new(),
                groups: Vec::new(),
            },
        );
        if let Some(told) = told {
            self.change_job(id, told, |_| {});
        }
    }

    /// Appends lines to a job's log, each with its time in front.
    pub(super) fn log(&self, job_id: i64, text: &str) {
        let time = log_time(self.host.now_ms());
        let mut state = self.state();
        let Some(record) = state.jobs.get_mut(&job_id) else { return };
        for line in text.split('\n') {
            if record.log.len() > LOG_BYTES_MAX {
                return;
            }
            record.log.push_str(&time);
            record.log.push(' ');
            record.log.push_str(line);
            record.log.push('\n');
        }
    }
}

impl State {
    /// The run's status as its jobs make it, once it has any.
    fn refresh_run(&mut self, id: i64, now: i64) -> Option<(WorkflowRun, Option<RunChange>)> {
        use super::model::Status;
        let record = self.runs.get_mut(&id)?;
        let attempt = record.run.attempt;
        let statuses: Vec<Status> = self
            .jobs
            .values()
            .filter(|j| j.job.run_id == id && j.job.attempt == attempt)
            .map(|j| j.job.status)
            .collect();
        let any = |status| statuses.contains(&status);
        let before = record.run.status;
        if before != Status::Completed {
            record.run.status = if any(Status::InProgress) {
                Status::InProgress
            } else if any(Status::Queued) && before != Status::InProgress {
                Status::Queued
            } else if any(Status::Waiting) {
                Status::Waiting
            } else if any(Status::Pending) {
                Status::Pending
            } else {
                before
            };
            record.run.updated_at = now;
        }
        let began = record.run.status == Status::InProgress && before != Status::InProgress;
        Some((record.run.clone(), began.then_some(RunChange::InProgress)))
    }
}

fn log_time(now_ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(now_ms) {
        Ok(time) => format!("{}{:03}0000Z", time.strftime("%Y-%m-%dT%H:%M:%S."), now_ms.rem_euclid(1000)),
        Err(_) => now_ms.to_string(),
    }
}
