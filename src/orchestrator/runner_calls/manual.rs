//! `POST /v1/runs`, from an API key: an apply by hand (spec 20 §5.1).

use std::collections::BTreeSet;

use serde_json::json;

use super::{Answer, CallError, Caller, forbidden, invalid, not_found};
use crate::api::{CreateRunRequest, CreateRunResponse, lock_info};
use crate::graph::resolution::AffectedStack;
use crate::ids::{Sha, normalise_key};
use crate::orchestrator::{App, Subject};
use crate::run::apply_start;
use crate::run::model::{Lock, Repo};
use crate::run::plan_start;
use crate::run::report::Refused;
use crate::run::status::{Mode, RowStatus, Trigger};
use crate::store::ApiKey;

impl App {
    pub(super) async fn start_manual(&self, key: &ApiKey, request: &CreateRunRequest) -> Answer<CreateRunResponse> {
        if request.trigger != Some(Trigger::Manual) {
            return Err(invalid("trigger", "an API key starts manual runs only"));
        }
        if request.mode != Some(Mode::Apply) {
            return Err(invalid("mode", "a manual run applies"));
        }
        let sha = Sha::parse(&request.sha).map_err(|error| invalid("sha", error.to_string()))?;
        let keys: BTreeSet<String> =
            request.stacks.iter().map(|key| normalise_key(key)).filter(|key| !key.is_empty()).collect();
        if keys.is_empty() {
            return Err(invalid("stacks", "name at least one stack"));
        }
        let repo = self.repo_seen_by(key, &request.repo).await?;
        let answer = self.start_manual_in(&repo, key, request, sha, keys).await;
        let (actor, details) = (format!("apikey:{}", key.name), json!({ "stacks": request.stacks }));
        self.audit_refusal((&actor, "manual_apply"), &repo, details, answer).await
    }

    async fn start_manual_in(
        &self,
        repo: &Repo,
        key: &ApiKey,
        request: &CreateRunRequest,
        sha: Sha,
        keys: BTreeSet<String>,
    ) -> Answer<CreateRunResponse> {
        if !(Caller::Key(key.clone())).may("apply", &repo.full_name) {
            return Err(forbidden("this key may not apply in this repository"));
        }
        let graph = self.current_graph(repo).await?.ok_or_else(|| {
            invalid(
                "stacks",
                "this repository has no graph yet: open a pull request first, so that its stacks are known",
            )
        })?;
        // A caller that names its run may ask again when the answer was lost.
        let id = request.run_id.clone().unwrap_or_else(|| self.new_run_id());
        if let Some(run) = self.store.run(&id).await? {
            let own = run.repo_id == repo.id
                && run.trigger == Trigger::Manual
                && run.requested_by == format!("apikey:{}", key.name);
            if !own {
                return Err(Refused::Conflict(format!("run {id} is somebody else's")).into());
            }
            let json = self.run_json(&run, repo);
            return Ok(CreateRunResponse { run_id: id, status: run.status, existing: true, run: Some(json) });
        }
        let subject = Subject::Pull { repo_id: repo.id, number: 0 };
        let started = self.decide(&subject, |next| {
            let run = plan_start::blank_run(next, id.clone(), sha.clone(), Mode::Apply, Trigger::Manual, "");
            let mut rows = Vec::new();
            for key in &keys {
                let stack = graph.stacks.iter().find(|stack| stack.key == *key && !stack.external);
                let affected = stack
                    .map(|stack| AffectedStack::requested_alone(stack, &stack.environment))
                    .ok_or_else(|| key.clone())?;
                let mut row = plan_start::pending_row(&run, &affected, next.now).ok_or_else(|| key.clone())?;
                row.status = RowStatus::Planned;
                rows.push(row);
            }
            let started = apply_start::start_manual(next, id.clone(), sha.clone(), &key.name, rows);
            Ok::<_, String>(started.map(|id| next.scene.runs[&id].clone()))
        });
        let run = match started.await?.ok_or_else(|| not_found("the repository"))? {
            Err(key) => return Err(invalid("stacks", format!("{key} is not a stack of {}", repo.full_name))),
            Ok(Err(conflicts)) => return Err(locked(&conflicts)),
            Ok(Ok(run)) => run,
        };
        Ok(CreateRunResponse {
            run_id: run.id.clone(),
            status: run.status,
            existing: false,
            run: Some(self.run_json(&run, repo)),
        })
    }
}

fn locked(conflicts: &[Lock]) -> CallError {
    let first = &conflicts[0];
    CallError::Locked {
        message: format!("{} is locked by {}", first.key, first.holder()),
        conflicts: conflicts.iter().map(lock_info).collect(),
    }
}
