//! What the Actions engine needs of the GitHub around it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::model::{Environment, Job, WorkflowRun};

/// The rest of GitHub, as the engine sees it. Cheap calls, never long locks: the engine calls from many tasks.
pub trait Host: Send + Sync + 'static {
    fn now_ms(&self) -> i64;

    /// A number no other object has.
    fn next_id(&self) -> i64;

    /// `https://github.com` of this fake, without a trailing slash.
    fn web_url(&self) -> String;

    /// `https://api.github.com` of this fake, without a trailing slash.
    fn api_url(&self) -> String;

    /// Where `git` clones a repository from; the job's token goes in as `x-access-token`.
    fn clone_url(&self, repo: &str) -> String;

    /// A branch, tag or commit as a full commit id.
    fn resolve_ref(&self, repo: &str, git_ref: &str) -> Option<String>;

    /// `refs/tags/v1` for `v1`, `refs/heads/main` for `main`, the commit itself for a commit.
    fn full_ref(&self, repo: &str, git_ref: &str) -> Option<String>;

    /// One file at a commit.
    fn read_file(&self, repo: &str, commit: &str, path: &str) -> Option<Vec<u8>>;

    /// Names of the files directly inside a directory at a commit.
    fn list_dir(&self, repo: &str, commit: &str, path: &str) -> Vec<String>;

    /// Repository id, owner id, visibility, default branch: facts of `github.*` and of the OIDC claims.
    fn repository(&self, repo: &str) -> Option<RepositoryFacts>;

    /// Protection of an environment, created without any if it does not exist yet.
    fn environment(&self, repo: &str, name: &str) -> Environment;

    /// `vars`, repository level, overlaid with the environment's.
    fn variables(&self, repo: &str, environment: Option<&str>) -> BTreeMap<String, String>;

    /// `secrets`, repository level, overlaid with the environment's.
    fn secrets(&self, repo: &str, environment: Option<&str>) -> BTreeMap<String, String>;

    /// `secrets` of the environment alone: in a called workflow they replace what the caller passed.
    fn environment_secrets(&self, repo: &str, environment: &str) -> BTreeMap<String, String> {
        let shared = self.secrets(repo, None);
        let overlaid = self.secrets(repo, Some(environment));
        overlaid.into_iter().filter(|(name, value)| shared.get(name) != Some(value)).collect()
    }

    /// Paths that differ between two commits, for `paths` filters; `None` when unknown, and then the workflow runs.
    fn changed_files(&self, _repo: &str, _base: &str, _head: &str) -> Option<Vec<String>> {
        None
    }

    /// A fresh `GITHUB_TOKEN` for the job, good until the job ends.
    fn job_token(&self, job: &Job) -> String;

    /// The URL and bearer token of the job's OIDC token endpoint, when its permissions grant `id-token: write`.
    /// Jobs of a fork's pull request get none.
    fn oidc_request(&self, job: &Job) -> Option<(String, String)>;

    /// Called after every visible change, in order: the host sends `workflow_run` and `workflow_job` webhooks,
    /// updates the job's check run and writes its journal. It may read from the engine and may call `cancel`, `review`
    /// and `kill_job` here, but must not start, dispatch or re-run, nor hold a lock that its other methods take.
    fn run_changed(&self, run: &WorkflowRun, change: RunChange);
    fn job_changed(&self, run: &WorkflowRun, job: &Job, change: JobChange);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunChange {
    Requested,
    InProgress,
    Completed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobChange {
    Queued,
    Waiting,
    InProgress,
    Completed,
    /// A step began or ended; no webhook.
    Progress,
}

#[derive(Debug, Clone)]
pub struct RepositoryFacts {
    pub id: i64,
    pub owner: String,
    pub owner_id: i64,
    pub private: bool,
    pub default_branch: String,
    /// The repository object of REST answers, for `github.event.repository`.
    pub json: serde_json::Value,
}

/// How long the runner waits where GitHub's waits; tests shorten them.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// From the interrupt of a cancelled step to its terminate signal.
    pub terminate_after: Duration,
    /// From the terminate signal to the kill of the whole process group.
    pub kill_after: Duration,
    /// One minute of `timeout-minutes`.
    pub minute: Duration,
    /// How long output is still read after a step's process ended while something it started keeps the pipe open.
    pub output_grace: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            terminate_after: Duration::from_millis(7_500),
            kill_after: Duration::from_millis(2_500),
            minute: Duration::from_secs(60),
            output_grace: Duration::from_secs(2),
        }
    }
}

/// How jobs run on this machine.
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// Work directories, temporary files, artifacts and logs go below this directory.
    pub root: PathBuf,
    /// `RUNNER_TOOL_CACHE`.
    pub tool_cache: PathBuf,
    /// Put before `PATH`.
    pub path: Vec<PathBuf>,
    /// Set in every job, as a self-hosted runner's service would (proxy, endpoints, …).
    pub env: BTreeMap<String, String>,
    /// Jobs that run at the same time; the others stay queued.
    pub parallel_jobs: usize,
    pub timing: Timing,
}
