//! `POST /v1/runs/{id}/apply`: a request to apply what the caller has seen (spec 30 §5.1, spec 31 §8.2).
//!
//! In `before_merge` it is what a `stackorder apply` comment is. In `on_merge` it asks again for what a merge left undone.

use serde_json::{Value, json};

use super::actor::Actor;
use super::applies::{Asked, GATHER_TRIES_MAX, MERGEABLE_PAUSE, NotStarted, STILL_MOVING, Started, start_apply};
use super::runner_calls::{Answer, CallError, invalid, not_found};
use super::{App, Subject};
use crate::api::{CreateRunResponse, RequestApplyRequest};
use crate::config::model::ApplyMode;
use crate::gate::Entry;
use crate::gate::facts::PullRequest;
use crate::ids::{RunId, Sha};
use crate::run::model::{Repo, Run};
use crate::run::report::Refused;
use crate::run::status::{Mode, RunStatus, Trigger};

impl App {
    /// `POST /v1/runs/{id}/apply`.
    pub async fn request_apply(
        &self,
        actor: &Actor,
        id: &RunId,
        request: &RequestApplyRequest,
    ) -> Answer<CreateRunResponse> {
        let (run, repo) = self.run_seen_by(actor, id).await?;
        let answer = self.request_apply_seen(actor, &run, &repo, request).await;
        let details = details(&run, request);
        self.audit_refusal((&actor.name(), "apply_requested"), &repo, details, answer).await
    }

    async fn request_apply_seen(
        &self,
        actor: &Actor,
        run: &Run,
        repo: &Repo,
        request: &RequestApplyRequest,
    ) -> Answer<CreateRunResponse> {
        if request.plan_set_digest.is_empty() {
            return Err(invalid("plan_set_digest", "is required: that of the run whose plans were looked at"));
        }
        if run.mode == Mode::Drift || run.pr_number == 0 {
            return Err(invalid("run_id", "only what a pull request planned can be applied"));
        }
        self.may_start(actor, repo).await?;
        if repo.suspended {
            return Err(Refused::Conflict("the App installation is suspended".to_owned()).into());
        }
        if run.status == RunStatus::Superseded {
            return Err(superseded(run, &run.superseded_by));
        }
        let pull = self.settled_pull(repo, run.pr_number, MERGEABLE_PAUSE).await?;
        let requester = actor.name();
        let asked = self.asked(repo, run, &pull, &requester, request)?;
        let subject = Subject::Pull { repo_id: repo.id, number: pull.number };
        for _ in 0..GATHER_TRIES_MAX {
            let gathered = self.gather(repo, pull.clone(), &asked).await?;
            let decided = self.decide(&subject, |next| {
                let started = match start_apply(next, &asked, &gathered) {
                    Err(NotStarted::MoreWanted) => return None,
                    Err(NotStarted::NothingAffected) => Err(Refused::Conflict(
                        "this pull request reaches no stack; an apply would do nothing".to_owned(),
                    )
                    .into()),
                    Err(NotStarted::Refused(refusals)) => Err(CallError::Gate(refusals)),
                    Ok(Started::Now(started)) => Ok(started),
                    Ok(Started::Queued(started, text)) => {
                        next.comment(format!("queued:{started}"), text);
                        Ok(started)
                    }
                };
                if let Ok(id) = &started {
                    let mut details = details(run, request);
                    details["repo"] = json!(repo.full_name);
                    details["accepted"] = json!(true);
                    details["new_run_id"] = json!(id);
                    next.audit(&requester, "apply_requested", repo.full_name.to_string(), details);
                }
                Some(started)
            });
            if let Some(started) = decided.await?.ok_or_else(|| not_found("run"))? {
                let started = started?;
                let run = self.store.run(&started).await?.ok_or_else(|| not_found("run"))?;
                let json = self.run_json(&run, repo);
                return Ok(CreateRunResponse { run_id: started, status: run.status, existing: false, run: Some(json) });
            }
        }
        Err(Refused::Conflict(STILL_MOVING.to_owned()).into())
    }

    /// What the request comes to under the repository's mode.
    fn asked<'a>(
        &self,
        repo: &Repo,
        run: &Run,
        pull: &PullRequest,
        requester: &'a str,
        request: &'a RequestApplyRequest,
    ) -> Answer<Asked<'a>> {
        let head = pull.head_sha.clone();
        let (entry, trigger, commits) = match repo.policy().apply.mode {
            ApplyMode::BeforeMerge => (Entry::Comment, Trigger::Comment, vec![head]),
            ApplyMode::OnMerge if pull.merged && pull.base_ref == repo.default_branch => {
                let merge = pull.merge_commit_sha.clone().unwrap_or_else(|| head.clone());
                (Entry::AfterMerge, Trigger::PullRequest, vec![merge, head])
            }
            ApplyMode::OnMerge => {
                let reason =
                    "apply.mode is on_merge here: the merge is what applies, and only after it can be asked for more";
                return Err(Refused::Conflict(reason.to_owned()).into());
            }
        };
        if !commits.contains(&run.sha) {
            return Err(superseded(run, commits[0].as_str()));
        }
        Ok(Asked {
            entry,
            trigger,
            requester,
            keys: &request.stacks,
            sha: commits[0].clone(),
            run_id: self.new_run_id(),
            commits,
            plan_set_digest: Some(&request.plan_set_digest),
        })
    }
}

fn superseded(run: &Run, by: &str) -> CallError {
    let by = Sha::parse(by).map_or_else(|_| by.to_owned(), |sha| sha.short().to_owned());
    Refused::Superseded(format!("run {} is of {}, which {by} replaced", run.id, run.sha.short())).into()
}

/// What was asked for, as the audit log tells it.
fn details(run: &Run, request: &RequestApplyRequest) -> Value {
    json!({
        "pr": run.pr_number, "run_id": run.id, "stacks": request.stacks, "plan_set_digest": request.plan_set_digest,
    })
}
