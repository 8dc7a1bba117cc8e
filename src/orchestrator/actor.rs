//! Who asks over the API for what people ask for in comments: a signed-in person, or an API key in a person's place.

use super::runner_calls::{Answer, Caller, forbidden, not_found};
use super::{App, repo_ref};
use crate::gate::facts::Permission;
use crate::ids::RunId;
use crate::run::model::{Repo, Run};
use crate::store::ApiKey;

#[derive(Debug, Clone)]
pub enum Actor {
    /// Acts within its scopes and repositories.
    Key(ApiKey),
    /// Sees and may what GitHub says now.
    Person { login: String },
}

impl Actor {
    /// As runs, gate and audit log name it.
    pub fn name(&self) -> String {
        match self {
            Actor::Key(key) => format!("apikey:{}", key.name),
            Actor::Person { login } => login.clone(),
        }
    }
}

impl App {
    /// A run that the actor may know of, with its repository; any other is 404, whether it exists or not.
    pub(super) async fn run_seen_by(&self, actor: &Actor, id: &RunId) -> Answer<(Run, Repo)> {
        match actor {
            Actor::Key(key) => self.visible_run(&Caller::Key(key.clone()), id).await,
            Actor::Person { login } => {
                let run = self.store.run(id).await?.ok_or_else(|| not_found("run"))?;
                let repo = self.store.repo(run.repo_id).await?.ok_or_else(|| not_found("run"))?;
                match self.github.permission(&repo_ref(&repo), login).await? {
                    Permission::None => Err(not_found("run")),
                    Permission::Read
                    | Permission::Triage
                    | Permission::Write
                    | Permission::Maintain
                    | Permission::Admin => Ok((run, repo)),
                }
            }
        }
    }

    /// 403 for who may not start anything in the repository.
    pub(super) async fn may_start(&self, actor: &Actor, repo: &Repo) -> Answer<()> {
        match actor {
            Actor::Key(key) if Caller::Key(key.clone()).may("apply", &repo.full_name) => Ok(()),
            Actor::Key(_) => Err(forbidden("this key may not start runs in this repository")),
            Actor::Person { login } if self.github.permission(&repo_ref(repo), login).await?.can_push() => Ok(()),
            Actor::Person { .. } => Err(forbidden(format!("this takes write access to {}", repo.full_name))),
        }
    }
}
