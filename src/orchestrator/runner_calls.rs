//! What jobs and API keys call (spec 20 §5.1–§5.5): who they are, what they may see, and how a call is refused.
//!
//! - `register`: a job's run; `manual`: a key's.
//! - `graph_upload`, `claim`, `report`: what a job does with it; `read`: what anyone is told of it.

use super::{App, Error, Subject};
use crate::gate::Refusal;
use crate::github::api::GitHubError;
use crate::github::oidc::Claims;
use crate::graph::resolution::LockInfo;
use crate::ids::{RepoName, RunId};
use crate::run::binding::DispatchedJob;
use crate::run::model::{Repo, Run};
use crate::run::next::Next;
use crate::run::report::Refused;
use crate::store::ApiKey;

mod claim;
mod graph_upload;
mod manual;
mod read;
mod register;
mod report;

/// Why a call is not answered with success.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("refused")]
    Refused(Refused),
    /// 409 with every reason of the gate.
    #[error("refused by the gate")]
    Gate(Vec<Refusal>),
    /// 423 with the locks in the way.
    #[error("locked")]
    Locked { message: String, conflicts: Vec<LockInfo> },
    #[error("failed")]
    Failed(#[from] Error),
}

impl From<Refused> for CallError {
    fn from(refused: Refused) -> Self {
        CallError::Refused(refused)
    }
}

impl From<crate::store::StoreError> for CallError {
    fn from(error: crate::store::StoreError) -> Self {
        CallError::Failed(error.into())
    }
}

impl From<GitHubError> for CallError {
    fn from(error: GitHubError) -> Self {
        CallError::Failed(error.into())
    }
}

pub(super) type Answer<T> = Result<T, CallError>;

/// Who calls, after the token was verified.
#[derive(Debug, Clone)]
pub enum Caller {
    /// A job of this repository, known to us and not suspended.
    Job {
        claims: Claims,
        repo: Box<Repo>,
    },
    Key(ApiKey),
}

impl Caller {
    /// A key acts only within its scopes and repositories.
    pub fn may(&self, scope: &str, repo: &RepoName) -> bool {
        match self {
            Caller::Job { repo: own, .. } => own.full_name.same_as(repo.as_str()),
            Caller::Key(key) => key.scopes.iter().any(|known| known == scope) && sees(key, repo),
        }
    }
}

/// A repository that a key does not name does not exist for it.
fn sees(key: &ApiKey, repo: &RepoName) -> bool {
    key.repos.is_empty() || key.repos.iter().any(|known| repo.same_as(known))
}

impl App {
    /// A run the caller may know of, and its repository; anything else is 404.
    pub(super) async fn visible_run(&self, caller: &Caller, id: &RunId) -> Answer<(Run, Repo)> {
        match caller {
            Caller::Job { repo, .. } => Ok((self.run_of(repo, id).await?, Repo::clone(repo))),
            Caller::Key(_) => {
                let run = self.store.run(id).await?.ok_or_else(|| not_found("run"))?;
                let repo = self.store.repo(run.repo_id).await?.ok_or_else(|| not_found("run"))?;
                if !caller.may("read", &repo.full_name) && !caller.may("apply", &repo.full_name) {
                    return Err(not_found("run"));
                }
                Ok((run, repo))
            }
        }
    }

    async fn run_of(&self, repo: &Repo, id: &RunId) -> Answer<Run> {
        let run = self.store.run(id).await?;
        run.filter(|run| run.repo_id == repo.id).ok_or_else(|| not_found("run"))
    }

    async fn repo_named(&self, name: &str) -> Answer<Repo> {
        let name = RepoName::parse(name).map_err(|error| invalid("repo", error.to_string()))?;
        self.store.repo_by_name(&name).await?.ok_or_else(|| not_found("repository"))
    }

    /// A repository by name, if it is one of the key's; any other is 404, whether it exists or not.
    pub(super) async fn repo_seen_by(&self, key: &ApiKey, name: &str) -> Answer<Repo> {
        let repo = self.repo_named(name).await?;
        if sees(key, &repo.full_name) { Ok(repo) } else { Err(not_found("repository")) }
    }

    /// Decides on the run's own subject.
    pub(super) async fn decide_run<T: Send>(&self, run: &Run, decide: impl FnMut(&mut Next) -> T + Send) -> Answer<T> {
        self.decide(&Subject::of(run), decide).await?.ok_or_else(|| not_found("run"))
    }
}

fn dispatched(claims: &Claims) -> DispatchedJob {
    DispatchedJob {
        git_ref: claims.git_ref.clone(),
        workflow_run_id: claims.run_id,
        attempt: claims.run_attempt,
        environment: claims.environment.clone().unwrap_or_default(),
        check_run_id: claims.check_run_id,
    }
}

/// `<n>` of `refs/pull/<n>/merge`: decimal, no leading zeros.
pub fn pull_number(git_ref: &str) -> Option<i64> {
    let digits = git_ref.strip_prefix("refs/pull/")?.strip_suffix("/merge")?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    if plain { digits.parse().ok() } else { None }
}

fn pull_of(claims: &Claims) -> Answer<i64> {
    pull_number(&claims.git_ref).ok_or_else(|| forbidden(format!("{} is no pull request's ref", claims.git_ref)))
}

fn own_repository(repo: &Repo, named: &str) -> Answer<()> {
    if repo.full_name.same_as(named) { Ok(()) } else { Err(forbidden(format!("the token is of {}", repo.full_name))) }
}

pub(super) fn forbidden(reason: impl Into<String>) -> CallError {
    Refused::Forbidden(reason.into()).into()
}

pub(super) fn invalid(field: &'static str, reason: impl Into<String>) -> CallError {
    Refused::Invalid { field, reason: reason.into() }.into()
}

pub(super) fn not_found(what: &str) -> CallError {
    Refused::NotFound(format!("no such {what}")).into()
}
