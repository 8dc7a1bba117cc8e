//! The engine as the rest of the fake calls it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use super::host::{Host, RunnerOptions};
use super::model::{Annotation, Artifact, DispatchError, Job, PendingDeployment, Trigger, WorkflowFacts, WorkflowRun};

/// Runs workflow files. Cheap to share; every method may be called from any task of the runtime it was made in.
pub struct Engine {
    host: Arc<dyn Host>,
    options: RunnerOptions,
}

impl Engine {
    /// Must be called inside a Tokio runtime: runs are tasks of it.
    pub fn new(host: Arc<dyn Host>, options: RunnerOptions) -> Arc<Self> {
        Arc::new(Self { host, options })
    }

    /// Starts every workflow of the trigger's commit whose `on` matches; the ids of the runs.
    pub fn start(&self, _trigger: Trigger) -> Vec<i64> {
        let _ = (&self.host, &self.options);
        Vec::new()
    }

    /// Starts the named workflow (`Trigger::Dispatch` only), or says in GitHub's words why not.
    pub fn dispatch(&self, _trigger: Trigger) -> Result<i64, DispatchError> {
        Err(DispatchError::NoSuchWorkflow)
    }

    /// Runs a completed run again under the same id, as its next attempt.
    pub fn rerun(&self, run_id: i64, _failed_only: bool, _actor: &str) -> Result<(), String> {
        Err(format!("run {run_id} does not exist"))
    }

    /// Asks a run to stop; false when it is unknown or has completed.
    pub fn cancel(&self, _run_id: i64) -> bool {
        false
    }

    /// A reviewer's answer for some environments of a run; the environments that were waiting for one.
    pub fn review(
        &self,
        _run_id: i64,
        _environments: &[String],
        _approved: bool,
        _reviewer: &str,
        _comment: &str,
    ) -> Vec<String> {
        Vec::new()
    }

    /// The App's answer to an environment's custom protection rule; false when none is waiting.
    pub fn answer_protection_rule(&self, _run_id: i64, _environment: &str, _approved: bool, _comment: &str) -> bool {
        false
    }

    /// The clock was moved by hand: wait timers are looked at again.
    pub fn clock_moved(&self) {}

    /// Environments that hold jobs of this run.
    pub fn pending(&self, _run_id: i64) -> Vec<PendingDeployment> {
        Vec::new()
    }

    /// Runs of a repository, newest first.
    pub fn runs(&self, _repo: &str) -> Vec<WorkflowRun> {
        Vec::new()
    }

    /// The newest attempt of a run.
    pub fn run(&self, _id: i64) -> Option<WorkflowRun> {
        None
    }

    /// One attempt of a run, from 1.
    pub fn run_attempt(&self, _id: i64, _attempt: u32) -> Option<WorkflowRun> {
        None
    }

    /// Why a run ended as `startup_failure`, with file, line and name.
    pub fn startup_error(&self, _run_id: i64) -> Option<String> {
        None
    }

    /// Jobs of every attempt of a run, oldest first; the caller filters by `attempt`.
    pub fn jobs(&self, _run_id: i64) -> Vec<Job> {
        Vec::new()
    }

    pub fn job(&self, _id: i64) -> Option<Job> {
        None
    }

    /// What a job wrote so far, one line per entry, each with its time in front, secrets masked.
    pub fn logs(&self, _job_id: i64) -> String {
        String::new()
    }

    /// What `::error::` and its like said in a job, in order.
    pub fn annotations(&self, _job_id: i64) -> Vec<Annotation> {
        Vec::new()
    }

    /// The job summary (`GITHUB_STEP_SUMMARY` of all its steps).
    pub fn summary(&self, _job_id: i64) -> String {
        String::new()
    }

    /// The outputs of a finished job, empty before.
    pub fn outputs(&self, _job_id: i64) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Artifacts of a run, oldest first, expired ones included.
    pub fn artifacts(&self, _run_id: i64) -> Vec<Artifact> {
        Vec::new()
    }

    pub fn artifact(&self, _id: i64) -> Option<Artifact> {
        None
    }

    /// The zip archive of an artifact; none when it is unknown or expired.
    pub fn artifact_archive(&self, _id: i64) -> Option<Vec<u8>> {
        None
    }

    pub fn delete_artifact(&self, _id: i64) -> bool {
        false
    }

    /// Lets every artifact of a repository expire now; how many did.
    pub fn expire_artifacts(&self, _repo: &str) -> usize {
        0
    }

    /// The workflow at a path, registered on first sight.
    pub fn workflow(&self, _repo: &str, _path: &str) -> Option<WorkflowFacts> {
        None
    }

    /// The workflow with this id.
    pub fn workflow_by_id(&self, _id: i64) -> Option<WorkflowFacts> {
        None
    }

    /// Workflows on the repository's default branch, by path.
    pub fn workflows(&self, _repo: &str) -> Vec<WorkflowFacts> {
        Vec::new()
    }

    /// Fault: the runner of a job dies with everything it runs; the job fails. False when the job is not running.
    pub fn kill_job(&self, _job_id: i64) -> bool {
        false
    }

    /// Resolves once no job is queued or in progress. Jobs that wait for reviewers, wait timers or concurrency groups
    /// do not count.
    pub fn idle(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::ready(())
    }

    /// Kills every process group and stops every run, without further callbacks.
    pub fn shutdown(&self) {}
}
