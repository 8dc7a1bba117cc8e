//! GitHub over REST: [`Api`] for a GitHub App, on github.com and on Enterprise Server.
//!
//! One path for every call: `call` says what to ask, `transport` asks once, `retry` judges the answer, `send` goes on.
//! The other files, one per subject, turn GitHub's JSON into our types and know nothing of tokens or retries.
//!
//! A call waits at most a few seconds here. A rate limit, or trouble that lasts, becomes [`GitHubError::Temporary`]
//! with the time GitHub named, and the queue asks again.

mod actions;
mod call;
mod checks;
mod comments;
mod hooks;
mod pages;
mod pulls;
mod repos;
mod retry;
mod send;
mod setup;
mod transport;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use axum::http::HeaderValue;
use secrecy::SecretString;
use tokio::sync::OnceCell;

use super::api::{
    Api, ArtifactFacts, Check, CheckRunFacts, Comment, Comparison, DispatchRequest, HookDelivery, InstallationFacts,
    Issue, JobFacts, Membership, Permission, PullRequest, Reaction, RepoRef, RepositoryFacts, Result, Review,
    WorkflowRunFacts,
};
use super::app_token::AppTokens;
use super::budget::{Allowance, Budget, Quota};
use crate::clock::{Clock, Millis};
use crate::ids::Sha;

pub(super) use actions::without_reference;
use call::ApiRoot;
use pages::EtagCache;
pub use retry::{JitteredPause, Pause};
use transport::Transport;

pub struct ClientSettings {
    /// `https://api.github.com`, or `https://<host>/api/v3` of an Enterprise Server.
    pub api_url: String,
    pub app_id: u64,
    pub private_key_pem: SecretString,
    pub clock: Arc<dyn Clock>,
    /// `stackorder/<version>`.
    pub user_agent: String,
    /// What each installation may write.
    pub writes: Allowance,
}

/// What makes a client impossible: wrong settings, or a machine without root certificates.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{0:?} is not the address of a GitHub API such as https://api.github.com")]
    ApiUrl(String),
    #[error("{0:?} cannot be sent as a user agent")]
    UserAgent(String),
    #[error("the private key of the App is not an RSA key in PEM form")]
    PrivateKey(#[source] jsonwebtoken::errors::Error),
    #[error("cannot make an HTTP client")]
    Http(#[source] reqwest::Error),
}

pub struct GitHubClient {
    root: ApiRoot,
    transport: Transport,
    tokens: AppTokens,
    clock: Arc<dyn Clock>,
    pause: Arc<dyn Pause>,
    etags: EtagCache,
    quotas: Mutex<BTreeMap<i64, Quota>>,
    writes: Allowance,
    budgets: Mutex<BTreeMap<i64, Budget>>,
    bot_login: OnceCell<String>,
}

impl GitHubClient {
    /// Must be called within a Tokio runtime. Asks GitHub nothing.
    pub fn new(settings: ClientSettings) -> std::result::Result<Self, ClientError> {
        Self::with_pause(settings, Arc::new(JitteredPause))
    }

    /// A client that waits between tries as told.
    pub fn with_pause(settings: ClientSettings, pause: Arc<dyn Pause>) -> std::result::Result<Self, ClientError> {
        super::install_crypto();
        let ClientSettings { api_url, app_id, private_key_pem, clock, user_agent, writes } = settings;
        let root = ApiRoot::parse(&api_url).ok_or(ClientError::ApiUrl(api_url))?;
        let agent = HeaderValue::from_str(&user_agent).map_err(|_| ClientError::UserAgent(user_agent))?;
        Ok(Self {
            root,
            transport: Transport::new(agent).map_err(ClientError::Http)?,
            tokens: AppTokens::new(app_id, &private_key_pem, clock.clone()).map_err(ClientError::PrivateKey)?,
            clock,
            pause,
            etags: EtagCache::default(),
            quotas: Mutex::default(),
            writes,
            budgets: Mutex::default(),
            bot_login: OnceCell::new(),
        })
    }

    /// What is left of an installation's hourly quota; `None` before its first answer.
    pub fn quota(&self, installation_id: i64) -> Option<Quota> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner).get(&installation_id).copied()
    }
}

#[async_trait]
impl Api for GitHubClient {
    fn edit_every(&self, repo: &RepoRef) -> Millis {
        let budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        budgets
            .get(&repo.installation_id)
            .map_or_else(|| Budget::default().edit_every(self.writes), |budget| budget.edit_every(self.writes))
    }

    async fn bot_login(&self) -> Result<String> {
        self.bot_login.get_or_try_init(|| repos::bot_login(self)).await.cloned()
    }

    async fn hook_deliveries(&self, since: Millis) -> Result<Vec<HookDelivery>> {
        hooks::deliveries(self, since).await
    }

    async fn redeliver(&self, attempt: i64) -> Result<()> {
        hooks::redeliver(self, attempt).await
    }

    async fn installations(&self) -> Result<Vec<InstallationFacts>> {
        repos::installations(self).await
    }

    async fn installation_repositories(&self, installation_id: i64) -> Result<Vec<RepositoryFacts>> {
        repos::of_installation(self, installation_id).await
    }

    async fn repository(&self, repo: &RepoRef) -> Result<RepositoryFacts> {
        repos::one(self, repo).await
    }

    async fn file(&self, repo: &RepoRef, path: &str, reference: &str) -> Result<Option<Vec<u8>>> {
        repos::file(self, repo, path, reference).await
    }

    async fn branch_head(&self, repo: &RepoRef, branch: &str) -> Result<Sha> {
        repos::branch_head(self, repo, branch).await
    }

    async fn commit(&self, repo: &RepoRef, sha: &Sha) -> Result<(String, String)> {
        repos::commit(self, repo, sha).await
    }

    async fn compare(&self, repo: &RepoRef, base: &str, head: &str) -> Result<Comparison> {
        repos::compare(self, repo, base, head).await
    }

    async fn tree(&self, repo: &RepoRef, sha: &Sha) -> Result<(Vec<(String, String)>, bool)> {
        repos::tree(self, repo, sha).await
    }

    async fn pull_request(&self, repo: &RepoRef, number: i64) -> Result<PullRequest> {
        pulls::one(self, repo, number).await
    }

    async fn open_pull_requests(&self, repo: &RepoRef) -> Result<Vec<PullRequest>> {
        pulls::open(self, repo).await
    }

    async fn pull_request_files(&self, repo: &RepoRef, number: i64) -> Result<Vec<String>> {
        pulls::files(self, repo, number).await
    }

    async fn reviews(&self, repo: &RepoRef, number: i64) -> Result<Vec<Review>> {
        pulls::reviews(self, repo, number).await
    }

    async fn permission(&self, repo: &RepoRef, login: &str) -> Result<Permission> {
        repos::permission(self, repo, login).await
    }

    async fn membership(&self, repo: &RepoRef, organisation: &str, team: &str, login: &str) -> Result<Membership> {
        repos::membership(self, repo, organisation, team, login).await
    }

    async fn comments(&self, repo: &RepoRef, number: i64) -> Result<Vec<Comment>> {
        comments::list(self, repo, number).await
    }

    async fn create_comment(&self, repo: &RepoRef, number: i64, body: &str) -> Result<i64> {
        comments::create(self, repo, number, body).await
    }

    async fn edit_comment(&self, repo: &RepoRef, id: i64, body: &str) -> Result<()> {
        comments::edit(self, repo, id, body).await
    }

    async fn delete_comment(&self, repo: &RepoRef, id: i64) -> Result<()> {
        comments::delete(self, repo, id).await
    }

    async fn react(&self, repo: &RepoRef, comment_id: i64, reaction: Reaction) -> Result<()> {
        comments::react(self, repo, comment_id, reaction).await
    }

    async fn create_check(&self, repo: &RepoRef, check: &Check) -> Result<i64> {
        checks::create(self, repo, check).await
    }

    async fn update_check(&self, repo: &RepoRef, id: i64, check: &Check) -> Result<()> {
        checks::update(self, repo, id, check).await
    }

    async fn checks(&self, repo: &RepoRef, sha: &Sha, name: Option<&str>) -> Result<Vec<CheckRunFacts>> {
        checks::list(self, repo, sha, name).await
    }

    async fn issues(&self, repo: &RepoRef, label: &str) -> Result<Vec<Issue>> {
        comments::issues(self, repo, label).await
    }

    async fn create_issue(&self, repo: &RepoRef, title: &str, body: &str, label: &str) -> Result<i64> {
        comments::create_issue(self, repo, title, body, label).await
    }

    async fn edit_issue(&self, repo: &RepoRef, number: i64, body: &str) -> Result<()> {
        comments::edit_issue(self, repo, number, body).await
    }

    async fn close_issue(&self, repo: &RepoRef, number: i64) -> Result<()> {
        comments::close_issue(self, repo, number).await
    }

    async fn dispatch(&self, repo: &RepoRef, request: &DispatchRequest) -> Result<Option<i64>> {
        actions::dispatch(self, repo, request).await
    }

    async fn dispatched_runs(&self, repo: &RepoRef, since: Millis) -> Result<Vec<WorkflowRunFacts>> {
        actions::dispatched_runs(self, repo, since).await
    }

    async fn plan_runs(&self, repo: &RepoRef, head: &Sha) -> Result<Vec<WorkflowRunFacts>> {
        actions::plan_runs(self, repo, head).await
    }

    async fn workflow_run(&self, repo: &RepoRef, id: i64) -> Result<WorkflowRunFacts> {
        actions::workflow_run(self, repo, id).await
    }

    async fn rerun(&self, repo: &RepoRef, workflow_run_id: i64) -> Result<()> {
        actions::rerun(self, repo, workflow_run_id).await
    }

    async fn jobs(&self, repo: &RepoRef, workflow_run_id: i64) -> Result<Vec<JobFacts>> {
        actions::jobs(self, repo, workflow_run_id).await
    }

    async fn artifacts(&self, repo: &RepoRef, workflow_run_id: i64) -> Result<Vec<ArtifactFacts>> {
        actions::artifacts(self, repo, workflow_run_id).await
    }

    async fn pending_deployments(&self, repo: &RepoRef, workflow_run_id: i64) -> Result<Vec<String>> {
        actions::pending_deployments(self, repo, workflow_run_id).await
    }

    async fn answer_protection_rule(
        &self,
        repo: &RepoRef,
        workflow_run_id: i64,
        environment: &str,
        approve: bool,
        comment: &str,
    ) -> Result<()> {
        let answer = actions::ProtectionAnswer { environment, approve, comment };
        actions::answer_protection_rule(self, repo, workflow_run_id, answer).await
    }
}
