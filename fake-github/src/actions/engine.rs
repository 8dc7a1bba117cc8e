//! The engine as the rest of the fake calls it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use super::host::{Host, RunnerOptions};
use super::model::{
    Annotation, Artifact, DispatchError, Job, PendingDeployment, Status, Trigger, WorkflowFacts, WorkflowRun,
};
use super::process;
use super::start::{self, Ready};
use super::state::{ArtifactRecord, Inner};

/// Runs workflow files. Cheap to share; every method may be called from any task of the runtime it was made in.
pub struct Engine {
    inner: Arc<Inner>,
}

impl Engine {
    /// Must be called inside a Tokio runtime: runs are tasks of it.
    pub fn new(host: Arc<dyn Host>, options: RunnerOptions) -> Arc<Self> {
        Arc::new(Self { inner: Arc::new(Inner::new(host, options)) })
    }

    /// Starts every workflow of the trigger's commit whose `on` matches; the ids of the runs.
    pub fn start(&self, trigger: Trigger) -> Vec<i64> {
        let ready = start::matching(&self.inner, &trigger);
        ready.into_iter().map(|ready| self.launch(ready)).collect()
    }

    /// Starts the named workflow (`Trigger::Dispatch` only), or says in GitHub's words why not.
    pub fn dispatch(&self, trigger: Trigger) -> Result<i64, DispatchError> {
        Ok(self.launch(start::dispatched(&self.inner, &trigger)?))
    }

    /// Runs a completed run again under the same id, as its next attempt.
    pub fn rerun(&self, run_id: i64, failed_only: bool, actor: &str) -> Result<(), String> {
        let ready = start::again(&self.inner, run_id, failed_only, actor)?;
        self.launch(ready);
        Ok(())
    }

    fn launch(&self, ready: Ready) -> i64 {
        start::launch(&self.inner, ready)
    }

    /// Asks a run to stop; false when it is unknown or has completed.
    pub fn cancel(&self, run_id: i64) -> bool {
        let mut state = self.inner.state();
        match state.runs.get_mut(&run_id) {
            Some(record) if record.run.status != Status::Completed => {
                record.stopping.get_or_insert_with(|| self.inner.busy.begin());
                record.stop.set();
                true
            }
            _ => false,
        }
    }

    /// A reviewer's answer for some environments of a run; the environments that were waiting for one.
    pub fn review(
        &self,
        run_id: i64,
        environments: &[String],
        approved: bool,
        reviewer: &str,
        comment: &str,
    ) -> Vec<String> {
        self.inner.gates.review(run_id, environments, approved, reviewer, comment, self.inner.host.now_ms())
    }

    /// The App's answer to an environment's custom protection rule; false when none is waiting.
    pub fn answer_protection_rule(&self, run_id: i64, environment: &str, approved: bool, comment: &str) -> bool {
        self.inner.gates.answer_rule(run_id, environment, approved, comment, self.inner.host.now_ms())
    }

    /// The clock was moved by hand: wait timers are looked at again.
    pub fn clock_moved(&self) {
        self.inner.gates.look_at_timers(self.inner.host.now_ms());
    }

    /// Environments that hold jobs of this run.
    pub fn pending(&self, run_id: i64) -> Vec<PendingDeployment> {
        self.inner.gates.pending(run_id)
    }

    /// Runs of a repository, newest first.
    pub fn runs(&self, repo: &str) -> Vec<WorkflowRun> {
        let state = self.inner.state();
        let own = state.runs.values().rev().map(|record| &record.run);
        own.filter(|run| run.repo.eq_ignore_ascii_case(repo)).cloned().collect()
    }

    /// The newest attempt of a run.
    pub fn run(&self, id: i64) -> Option<WorkflowRun> {
        self.inner.state().runs.get(&id).map(|record| record.run.clone())
    }

    /// One attempt of a run, from 1.
    pub fn run_attempt(&self, id: i64, attempt: u32) -> Option<WorkflowRun> {
        let state = self.inner.state();
        let record = state.runs.get(&id)?;
        record.past.iter().chain([&record.run]).find(|run| run.attempt == attempt).cloned()
    }

    /// Why a run ended as `startup_failure`, with file, line and name.
    pub fn startup_error(&self, run_id: i64) -> Option<String> {
        self.inner.state().runs.get(&run_id)?.startup_error.clone()
    }

    /// Jobs of every attempt of a run, oldest first; the caller filters by `attempt`.
    pub fn jobs(&self, run_id: i64) -> Vec<Job> {
        let state = self.inner.state();
        state.jobs.values().map(|record| &record.job).filter(|job| job.run_id == run_id).cloned().collect()
    }

    pub fn job(&self, id: i64) -> Option<Job> {
        self.inner.state().jobs.get(&id).map(|record| record.job.clone())
    }

    /// What a job wrote so far, one line per entry, each with its time in front, secrets masked.
    pub fn logs(&self, job_id: i64) -> String {
        self.inner.state().jobs.get(&job_id).map(|record| record.log.clone()).unwrap_or_default()
    }

    /// What `::error::` and its like said in a job, in order.
    pub fn annotations(&self, job_id: i64) -> Vec<Annotation> {
        self.inner.state().jobs.get(&job_id).map(|record| record.annotations.clone()).unwrap_or_default()
    }

    /// The job summary (`GITHUB_STEP_SUMMARY` of all its steps).
    pub fn summary(&self, job_id: i64) -> String {
        self.inner.state().jobs.get(&job_id).map(|record| record.summary.clone()).unwrap_or_default()
    }

    /// The outputs of a finished job, empty before.
    pub fn outputs(&self, job_id: i64) -> BTreeMap<String, String> {
        self.inner.state().jobs.get(&job_id).map(|record| record.outputs.clone()).unwrap_or_default()
    }

    /// Artifacts of a run, oldest first, expired ones included.
    pub fn artifacts(&self, run_id: i64) -> Vec<Artifact> {
        let now = self.inner.host.now_ms();
        let state = self.inner.state();
        let own = state.artifacts.values().filter(|record| record.artifact.run_id == run_id);
        own.map(|record| shown(record, now)).collect()
    }

    pub fn artifact(&self, id: i64) -> Option<Artifact> {
        let now = self.inner.host.now_ms();
        self.inner.state().artifacts.get(&id).map(|record| shown(record, now))
    }

    /// The zip archive of an artifact; none when it is unknown or expired.
    pub fn artifact_archive(&self, id: i64) -> Option<Vec<u8>> {
        self.artifact(id).filter(|artifact| !artifact.expired)?;
        let path = self.inner.state().artifacts.get(&id)?.archive.clone();
        std::fs::read(path).ok()
    }

    pub fn delete_artifact(&self, id: i64) -> bool {
        let removed = self.inner.state().artifacts.remove(&id);
        match &removed {
            // The record is what counts; a file that stays behind is only space.
            Some(record) => drop(std::fs::remove_file(&record.archive)),
            None => return false,
        }
        true
    }

    /// Lets every artifact of a repository expire now; how many did.
    pub fn expire_artifacts(&self, repo: &str) -> usize {
        let mut state = self.inner.state();
        let own = state.artifacts.values_mut().map(|record| &mut record.artifact);
        let live = own.filter(|artifact| artifact.repo.eq_ignore_ascii_case(repo) && !artifact.expired);
        live.map(|artifact| artifact.expired = true).count()
    }

    /// The workflow at a path, registered on first sight; none when the default branch has no such file.
    pub fn workflow(&self, repo: &str, path: &str) -> Option<WorkflowFacts> {
        self.workflows(repo).into_iter().find(|workflow| workflow.path == path)
    }

    /// The workflow with this id.
    pub fn workflow_by_id(&self, id: i64) -> Option<WorkflowFacts> {
        self.inner.state().workflows.values().find(|workflow| workflow.id == id).cloned()
    }

    /// Workflows on the repository's default branch, by path.
    pub fn workflows(&self, repo: &str) -> Vec<WorkflowFacts> {
        start::on_default_branch(&self.inner, repo)
    }

    /// Fault: the runner of a job dies with everything it runs; the job fails. False when the job is not running.
    pub fn kill_job(&self, job_id: i64) -> bool {
        let state = self.inner.state();
        match state.jobs.get(&job_id) {
            Some(record) if record.job.status == Status::InProgress => {
                record.killed.set();
                record.groups.iter().copied().for_each(process::kill_group);
                true
            }
            _ => false,
        }
    }

    /// Resolves once no job is queued or in progress. Jobs that wait for reviewers, wait timers or concurrency groups
    /// do not count.
    pub fn idle(&self) -> impl Future<Output = ()> + Send + 'static {
        self.inner.busy.idle()
    }

    /// Kills every process group and stops every run, without further callbacks.
    pub fn shutdown(&self) {
        let mut state = self.inner.state();
        state.shut_down = true;
        for record in state.runs.values().filter(|record| record.run.status != Status::Completed) {
            record.stop.set();
            if let Some(task) = &record.task {
                task.abort();
            }
        }
        for record in state.jobs.values().filter(|record| record.job.status == Status::InProgress) {
            record.killed.set();
            record.groups.iter().copied().for_each(process::kill_group);
        }
    }
}

/// Expiry is a matter of the clock, not of an event.
fn shown(record: &ArtifactRecord, now: i64) -> Artifact {
    let artifact = record.artifact.clone();
    let expired = artifact.expired || artifact.expires_at <= now;
    Artifact { expired, ..artifact }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shutdown();
    }
}
