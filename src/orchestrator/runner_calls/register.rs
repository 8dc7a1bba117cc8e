//! `POST /v1/runs`, from a job: the plan run of a head commit, or a dispatched job that reports in (spec 20 §5.1).

use super::{Answer, Caller, dispatched, forbidden, invalid, not_found, own_repository, pull_of};
use crate::api::{CreateRunRequest, CreateRunResponse};
use crate::github::oidc::Claims;
use crate::orchestrator::{App, Subject, repo_ref};
use crate::run::binding;
use crate::run::model::Repo;
use crate::run::plan_start::{self, Registration};
use crate::run::report::Refused;
use crate::run::status::Mode;

impl App {
    /// `POST /v1/runs`. `existing` tells whether the run was there before.
    pub async fn create_run(&self, caller: &Caller, request: &CreateRunRequest) -> Answer<CreateRunResponse> {
        match caller {
            Caller::Key(key) => self.start_manual(key, request).await,
            Caller::Job { claims, repo } => match claims.event_name.as_str() {
                "pull_request" => self.register_plan(claims, repo, request).await,
                "workflow_dispatch" => self.register_dispatched(claims, repo, request).await,
                other => Err(forbidden(format!("jobs started by {other} cannot register runs"))),
            },
        }
    }

    async fn register_plan(
        &self,
        claims: &Claims,
        repo: &Repo,
        request: &CreateRunRequest,
    ) -> Answer<CreateRunResponse> {
        if request.mode.is_some_and(|mode| mode != Mode::Plan) {
            return Err(forbidden("a pull request's job registers plan runs only"));
        }
        own_repository(repo, &request.repo)?;
        let number = pull_of(claims)?;
        if request.pr_number != number {
            return Err(forbidden(format!("the token is of pull request {number}")));
        }
        if request.sha.is_empty() {
            return Err(invalid("sha", "is required"));
        }
        let pull = self.github.pull_request(&repo_ref(repo), number).await?;
        if pull.from_fork {
            return Err(forbidden("pull requests from forks are not planned"));
        }
        if pull.head_sha.as_str() != request.sha {
            return Err(Refused::Superseded(format!("the head of #{number} is {}", pull.head_sha)).into());
        }
        let (commit_message, commit_author) = self.github.commit(&repo_ref(repo), &pull.head_sha).await?;
        let registration = Registration {
            id: self.new_run_id(),
            sha: pull.head_sha.clone(),
            base_sha: request.base_sha.clone(),
            actor: claims.actor.clone(),
            workflow_run_id: claims.run_id,
            attempt: claims.run_attempt,
            commit_message,
            commit_author,
            head_ref: pull.head_ref,
        };
        let subject = Subject::Pull { repo_id: repo.id, number };
        let registered = self.decide(&subject, |next| {
            let (id, existing) = plan_start::register(next, &registration);
            let run = next.scene.runs[&id].clone();
            (run, existing)
        });
        let (run, existing) = registered.await?.ok_or_else(|| not_found("the repository"))?;
        Ok(CreateRunResponse {
            run_id: run.id.clone(),
            status: run.status,
            existing,
            run: Some(self.run_json(&run, repo)),
        })
    }

    async fn register_dispatched(
        &self,
        claims: &Claims,
        repo: &Repo,
        request: &CreateRunRequest,
    ) -> Answer<CreateRunResponse> {
        let id = request.run_id.clone().ok_or_else(|| invalid("run_id", "is required"))?;
        if !request.repo.is_empty() {
            own_repository(repo, &request.repo)?;
        }
        let run = self.run_of(repo, &id).await?;
        self.decide_run(&run, |next| binding::bind_job(next, &id, &dispatched(claims), None).map(drop)).await??;
        Ok(CreateRunResponse { run_id: id, status: run.status, existing: true, run: Some(self.run_json(&run, repo)) })
    }
}
