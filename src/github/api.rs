//! What the server needs of GitHub, as a trait (spec 24 §3).
//!
//! The real one is `client` (octocrab); the simulation has its own. Answers are our types: GitHub's JSON stays in `client`.
//! Every call names the repository, which decides the installation whose token is used.

use async_trait::async_trait;

use crate::clock::Millis;
pub use crate::gate::facts::{ArtifactFacts, Comparison, Membership, Permission, PullRequest, Review, ReviewState};
use crate::ids::{RepoName, Sha};
pub use crate::render::check::{Check, CheckStatus, Conclusion};

/// What a caller of GitHub reacts to.
#[derive(Debug, thiserror::Error)]
pub enum GitHubError {
    /// The object is not there, or not for us.
    #[error("GitHub has no {what}")]
    NotFound { what: String },
    /// A 4xx that is no rate limit: asking again cannot help.
    #[error("GitHub answered {status} to {what}: {message}")]
    Permanent { status: u16, what: String, message: String },
    /// Too much for GitHub now, by its own word or by our count; nothing is wrong, and it is due again at this time.
    #[error("{what} waits until GitHub may be asked again")]
    Deferred { what: String, until: Millis },
    /// Network, time-out or 5xx: ask again.
    #[error("GitHub cannot be asked for {what}: {message}")]
    Temporary { what: String, message: String },
}

pub type Result<T> = std::result::Result<T, GitHubError>;

/// A repository as GitHub names it; ours carries its installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoRef {
    pub id: i64,
    pub installation_id: i64,
    pub name: RepoName,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallationFacts {
    pub id: i64,
    pub account: String,
    pub account_type: String,
    pub suspended: bool,
}

/// One attempt to deliver a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookDelivery {
    pub id: i64,
    /// What all attempts of one delivery share: the id it arrives with.
    pub guid: String,
    pub delivered_at: Millis,
    /// Answered with a 2xx.
    pub accepted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryFacts {
    pub id: i64,
    pub name: RepoName,
    pub default_branch: String,
    pub private: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    pub id: i64,
    pub author: String,
    pub body: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    Eyes,
    Rocket,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRunFacts {
    pub id: i64,
    pub name: String,
    pub app_slug: String,
    pub completed: bool,
    pub conclusion: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    pub number: i64,
    pub title: String,
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRunFacts {
    pub id: i64,
    pub attempt: u32,
    pub title: String,
    pub event: String,
    pub path: String,
    /// The branch it ran on; empty where GitHub names none.
    pub head_branch: String,
    pub head_sha: String,
    pub completed: bool,
    /// `success`, `cancelled`, …; empty while it runs.
    pub conclusion: String,
    pub created_at: Millis,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFacts {
    pub id: i64,
    pub name: String,
    /// `queued`, `waiting`, `in_progress`, `completed`.
    pub status: String,
    /// A runner has worked on it: a job that was cancelled while it waited is `completed`, too, and was never started.
    pub started: bool,
    pub html_url: String,
}

/// `workflow_dispatch` of `stackorder-run.yml` on the default branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchRequest {
    pub branch: String,
    pub run_id: String,
    pub mode: String,
    pub wave: String,
    pub sha: String,
    /// JSON array of matrix entries.
    pub stacks: String,
}

#[async_trait]
pub trait Api: Send + Sync {
    /// Shortest time between two edits of the same comment or check in this repository (design §8).
    fn edit_every(&self, repo: &RepoRef) -> Millis;
    /// `<slug>[bot]`: whose comments are ours.
    async fn bot_login(&self) -> Result<String>;
    /// Attempts to deliver a webhook to this App since a time, newest first; at most what GitHub keeps.
    async fn hook_deliveries(&self, since: Millis) -> Result<Vec<HookDelivery>>;
    /// Asks for one more attempt of a delivery; `NotFound` when GitHub does not keep it any more.
    async fn redeliver(&self, attempt: i64) -> Result<()>;
    async fn installations(&self) -> Result<Vec<InstallationFacts>>;
    async fn installation_repositories(&self, installation_id: i64) -> Result<Vec<RepositoryFacts>>;
    async fn repository(&self, repo: &RepoRef) -> Result<RepositoryFacts>;
    /// `None` when there is no such file.
    async fn file(&self, repo: &RepoRef, path: &str, reference: &str) -> Result<Option<Vec<u8>>>;
    async fn branch_head(&self, repo: &RepoRef, branch: &str) -> Result<Sha>;
    /// First line of the message, and the author's login.
    async fn commit(&self, repo: &RepoRef, sha: &Sha) -> Result<(String, String)>;
    async fn compare(&self, repo: &RepoRef, base: &str, head: &str) -> Result<Comparison>;
    /// Paths and blob ids of a whole tree, and whether GitHub cut the list.
    async fn tree(&self, repo: &RepoRef, sha: &Sha) -> Result<(Vec<(String, String)>, bool)>;

    async fn pull_request(&self, repo: &RepoRef, number: i64) -> Result<PullRequest>;
    async fn open_pull_requests(&self, repo: &RepoRef) -> Result<Vec<PullRequest>>;
    /// Both names of a renamed file.
    async fn pull_request_files(&self, repo: &RepoRef, number: i64) -> Result<Vec<String>>;
    async fn reviews(&self, repo: &RepoRef, number: i64) -> Result<Vec<Review>>;
    async fn permission(&self, repo: &RepoRef, login: &str) -> Result<Permission>;
    async fn membership(&self, repo: &RepoRef, organisation: &str, team: &str, login: &str) -> Result<Membership>;

    async fn comments(&self, repo: &RepoRef, number: i64) -> Result<Vec<Comment>>;
    async fn create_comment(&self, repo: &RepoRef, number: i64, body: &str) -> Result<i64>;
    /// `NotFound` when somebody deleted it.
    async fn edit_comment(&self, repo: &RepoRef, id: i64, body: &str) -> Result<()>;
    async fn delete_comment(&self, repo: &RepoRef, id: i64) -> Result<()>;
    async fn react(&self, repo: &RepoRef, comment_id: i64, reaction: Reaction) -> Result<()>;

    async fn create_check(&self, repo: &RepoRef, check: &Check) -> Result<i64>;
    async fn update_check(&self, repo: &RepoRef, id: i64, check: &Check) -> Result<()>;
    async fn checks(&self, repo: &RepoRef, sha: &Sha, name: Option<&str>) -> Result<Vec<CheckRunFacts>>;

    /// Open issues with this label, pull requests left out.
    async fn issues(&self, repo: &RepoRef, label: &str) -> Result<Vec<Issue>>;
    async fn create_issue(&self, repo: &RepoRef, title: &str, body: &str, label: &str) -> Result<i64>;
    async fn edit_issue(&self, repo: &RepoRef, number: i64, body: &str) -> Result<()>;
    async fn close_issue(&self, repo: &RepoRef, number: i64) -> Result<()>;

    /// The id of the workflow run where GitHub gives it.
    async fn dispatch(&self, repo: &RepoRef, request: &DispatchRequest) -> Result<Option<i64>>;
    /// Runs of `stackorder-run.yml` by dispatch, created since, newest first.
    async fn dispatched_runs(&self, repo: &RepoRef, since: Millis) -> Result<Vec<WorkflowRunFacts>>;
    /// Runs of `stackorder-plan.yml` for a head commit, newest first.
    async fn plan_runs(&self, repo: &RepoRef, head: &Sha) -> Result<Vec<WorkflowRunFacts>>;
    async fn workflow_run(&self, repo: &RepoRef, id: i64) -> Result<WorkflowRunFacts>;
    async fn rerun(&self, repo: &RepoRef, workflow_run_id: i64) -> Result<()>;
    async fn jobs(&self, repo: &RepoRef, workflow_run_id: i64) -> Result<Vec<JobFacts>>;
    async fn artifacts(&self, repo: &RepoRef, workflow_run_id: i64) -> Result<Vec<ArtifactFacts>>;
    /// Environments of a workflow run that wait for somebody.
    async fn pending_deployments(&self, repo: &RepoRef, workflow_run_id: i64) -> Result<Vec<String>>;
    async fn answer_protection_rule(
        &self,
        repo: &RepoRef,
        workflow_run_id: i64,
        environment: &str,
        approve: bool,
        comment: &str,
    ) -> Result<()>;
}
