//! Who asks over the API for what people ask for in comments: a signed-in person, or an API key in a person's place.

use serde_json::{Value, json};

use super::runner_calls::{Answer, CallError, Caller, forbidden, not_found};
use super::{App, repo_ref};
use crate::gate::facts::Permission;
use crate::ids::RunId;
use crate::run::model::{AuditEntry, Repo, Run};
use crate::run::report::Refused;
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

    /// Passes an answer on, and puts into the audit log what was understood and refused: forbidden, or against a rule. What
    /// makes no sense, or names nothing, is not in there.
    pub(super) async fn audit_refusal<T>(
        &self,
        (actor, action): (&str, &str),
        repo: &Repo,
        mut details: Value,
        answer: Answer<T>,
    ) -> Answer<T> {
        match &answer {
            Err(CallError::Gate(refusals)) => details["failures"] = json!(refusals),
            Err(
                CallError::Locked { message, .. }
                | CallError::Refused(
                    Refused::Forbidden(message)
                    | Refused::Conflict(message)
                    | Refused::Superseded(message)
                    | Refused::Locked(message),
                ),
            ) => details["reason"] = json!(message),
            Ok(_) | Err(CallError::Refused(Refused::NotFound(_) | Refused::Invalid { .. }) | CallError::Failed(_)) => {
                return answer;
            }
        }
        details["repo"] = json!(repo.full_name);
        details["accepted"] = json!(false);
        let entry = AuditEntry {
            at: self.now(),
            actor: actor.to_owned(),
            action: action.to_owned(),
            target: repo.full_name.to_string(),
            details: details.as_object().cloned().unwrap_or_default().into_iter().collect(),
        };
        self.store.add_audit(&entry).await?;
        answer
    }
}
