//! Workflow runs, jobs, artifacts and waiting deployments, as the rest of the fake reads them.
//!
//! The engine owns these values and hands out copies; REST routes, webhooks and pages only render them.
//! Times are milliseconds since the epoch. Ids are unique over the whole fake, as GitHub's are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Queued,
    /// Held by an environment: reviewers or a wait timer.
    Waiting,
    /// Held by a concurrency group.
    Pending,
    InProgress,
    Completed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    Success,
    Failure,
    Cancelled,
    Skipped,
    TimedOut,
    StartupFailure,
}

/// One run of a workflow file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkflowRun {
    pub id: i64,
    /// 1, then one more for each re-run.
    pub attempt: u32,
    pub run_number: i64,
    pub workflow_id: i64,
    /// `owner/name`.
    pub repo: String,
    /// `.github/workflows/stackorder-plan.yml`.
    pub path: String,
    /// The workflow's `name`, else its path.
    pub workflow_name: String,
    /// `run-name` evaluated, else GitHub's default for the event.
    pub title: String,
    /// `pull_request`, `workflow_dispatch`, `push`.
    pub event: String,
    /// The event payload, as `github.event` shows it.
    pub payload: Value,
    pub head_branch: String,
    /// What GitHub lists as the run's `head_sha` (pull request: the head commit).
    pub head_sha: String,
    /// `GITHUB_REF`: `refs/pull/7/merge`, `refs/heads/main`.
    pub git_ref: String,
    /// `GITHUB_SHA`: for a pull request the merge commit.
    pub sha: String,
    pub pull_request: Option<i64>,
    pub actor: String,
    pub triggering_actor: String,
    pub inputs: BTreeMap<String, String>,
    pub status: Status,
    pub conclusion: Option<Conclusion>,
    pub created_at: i64,
    pub started_at: i64,
    pub updated_at: i64,
    /// A fork's pull request: read-only token, no OIDC, no secrets.
    pub from_fork: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub id: i64,
    pub run_id: i64,
    pub attempt: u32,
    pub repo: String,
    /// As GitHub shows it: `plan / plan stacks/prod/vpc` for a job of a called workflow.
    pub name: String,
    pub workflow_name: String,
    pub head_sha: String,
    pub head_branch: String,
    pub environment: Option<String>,
    /// `acme/actions/.github/workflows/plan.yml@refs/tags/v1` when the job belongs to a called workflow,
    /// else the run's own workflow file and ref; the OIDC claim `job_workflow_ref`.
    pub job_workflow_ref: String,
    /// `id-token` → `write`, …: what the job's token may do.
    pub permissions: BTreeMap<String, String>,
    pub status: Status,
    pub conclusion: Option<Conclusion>,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub completed_at: Option<i64>,
    pub steps: Vec<Step>,
    /// Every job is a check run of the commit; this is its id.
    pub check_run_id: i64,
    pub runner_name: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    pub number: u32,
    pub name: String,
    pub status: Status,
    pub conclusion: Option<Conclusion>,
    pub started_at: Option<i64>,
    pub completed_at: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Artifact {
    pub id: i64,
    pub run_id: i64,
    pub repo: String,
    pub name: String,
    pub size_bytes: u64,
    /// `sha256:…` of the stored archive.
    pub digest: String,
    pub created_at: i64,
    pub expires_at: i64,
    /// Taken away before its time by a test or a person.
    pub expired: bool,
}

/// What a step said about the run or a file (`::error::`, `::warning::`, `::notice::`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// `failure`, `warning`, `notice`, as check-run annotations name them.
    pub level: String,
    pub message: String,
    pub title: Option<String>,
    pub path: Option<String>,
    pub line: Option<u32>,
}

/// A workflow file that GitHub knows of, because it ran or was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowFacts {
    pub id: i64,
    pub repo: String,
    pub path: String,
    pub name: String,
}

/// One environment of a run that holds at least one job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PendingDeployment {
    pub run_id: i64,
    pub environment: String,
    pub environment_id: i64,
    /// Logins and team slugs who may approve.
    pub reviewers: Vec<String>,
    pub wait_timer_minutes: u32,
    pub wait_timer_started_at: Option<i64>,
    pub job_ids: Vec<i64>,
}

/// Protection rules of one environment of one repository. An unknown environment is created without any, as GitHub does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Environment {
    pub id: i64,
    pub name: String,
    pub reviewers: Vec<String>,
    pub wait_timer_minutes: u32,
    pub prevent_self_review: bool,
    /// The App answers a custom protection rule before a job starts.
    pub protection_rule_app: bool,
}

/// What starts a run.
#[derive(Debug, Clone)]
pub enum Trigger {
    PullRequest {
        repo: String,
        number: i64,
        /// `opened`, `synchronize`, `reopened`, …
        action: String,
        payload: Value,
        head_branch: String,
        head_sha: String,
        /// The test merge commit, whose tree has the workflow files that run.
        merge_sha: String,
        actor: String,
        from_fork: bool,
    },
    Push {
        repo: String,
        git_ref: String,
        sha: String,
        payload: Value,
        actor: String,
    },
    Dispatch {
        repo: String,
        file: String,
        git_ref: String,
        sha: String,
        inputs: BTreeMap<String, String>,
        actor: String,
    },
}

/// Why a dispatch was refused; the text is GitHub's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DispatchError {
    #[error("Not Found")]
    NoSuchWorkflow,
    #[error("{0}")]
    Unprocessable(String),
}
