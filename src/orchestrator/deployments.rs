//! Deployment protection rules: GitHub asks whether a job may go on to an environment (spec 30 §14, spec 24 §11).
//!
//! The decision and the answer that tells of it are one commit; GitHub hears of it afterwards, as of everything else. What
//! cannot be found out now is found out later, and is no approval until then.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::applies::{Asked, Gathered, MERGEABLE_PAUSE, Wanted};
use super::workflow_runs::Served;
use super::{App, Error, Result, Subject, repo_ref};
use crate::clock::{MINUTE_MS, Millis};
use crate::gate::deployment::{self, Deployment, Ruling};
use crate::gate::{GateRequest, GateScene};
use crate::github::api::GitHubError;
use crate::ids::{DispatchId, RunId, StackKey};
use crate::render::{self, Context};
use crate::run::model::{Dispatch, Repo};
use crate::run::next::Next;
use crate::run::plan_view::PlanView;
use crate::run::scene::{JobKind, NewJob, Scene};

/// So long may GitHub give the id of a workflow run and not show the run yet.
const SHOWN_WITHIN_MS: Millis = MINUTE_MS;

/// The outbox's note of one answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DeploymentAnswer {
    workflow_run_id: i64,
    environment: String,
    approve: bool,
    comment: String,
}

impl App {
    /// Decides one request, once for each delivery.
    pub(super) async fn deployment_requested(
        &self,
        repo: &Repo,
        workflow_run_id: i64,
        environment: &str,
        delivery: &str,
    ) -> Result<()> {
        let once = format!("deployment:{}:{delivery}", repo.id);
        if self.store.was_claimed(&once).await? {
            return Ok(());
        }
        let (attempt, dispatch) = self.waiting_dispatch(repo, workflow_run_id, environment).await?;
        let deployment = Deployment { workflow_run_id, attempt, environment: environment.to_owned() };
        let found = match dispatch {
            Some(Dispatch { id, run_id, .. }) => {
                let subject = self.subject_in(repo, &run_id).await?;
                subject.zip(self.store.scene(&run_id).await?).map(|(subject, scene)| (subject, scene, id, run_id))
            }
            None => None,
        };
        let Some((subject, scene, id, run)) = found else {
            let nobody = Subject::Pull { repo_id: repo.id, number: 0 };
            return self.record_ruling(&nobody, &once, &deployment, |_| Ruling::NotDispatched).await;
        };
        // A first look spares GitHub the questions whose answers would not count.
        let gathered = match scene.dispatches.get(&id).map(|seen| deployment::without_gate(&scene, seen, &deployment)) {
            Some(None) => Some(self.gather_for_deployment(&scene, &run, &id).await?),
            Some(Some(_)) | None => None,
        };
        self.record_ruling(&subject, &once, &deployment, |next| {
            rule(next, &id, &deployment, gathered.as_ref()).unwrap_or(Ruling::NotDispatched)
        })
        .await
    }

    /// The dispatch that the workflow run serves, and the attempt that waits. `None` when it serves none of ours.
    async fn waiting_dispatch(
        &self,
        repo: &Repo,
        workflow_run_id: i64,
        environment: &str,
    ) -> Result<(u32, Option<Dispatch>)> {
        let bound = self.store.dispatch_by_workflow_run(workflow_run_id).await?;
        let facts = match (self.github.workflow_run(&repo_ref(repo), workflow_run_id).await, bound) {
            (Ok(facts), _) => facts,
            // Just started, so nobody can have run it again.
            (Err(GitHubError::NotFound { .. }), Some(bound))
                if self.now() - bound.sent_at.unwrap_or_default() < SHOWN_WITHIN_MS =>
            {
                return Ok((bound.attempt, Some(bound)));
            }
            (Err(GitHubError::NotFound { what }), _) => return Err(not_known_yet(format!("it shows no {what} yet"))),
            (Err(error), _) => return Err(error.into()),
        };
        match self.served_by(repo, &facts, Some(environment)).await? {
            Served::Dispatch(dispatch) => Ok((facts.attempt, Some(*dispatch))),
            Served::Nothing => Ok((facts.attempt, None)),
            Served::Undecided => {
                let message = "its jobs do not tell yet which dispatch the workflow run serves";
                Err(not_known_yet(message.to_owned()))
            }
        }
    }

    async fn gather_for_deployment(&self, scene: &Scene, run: &RunId, dispatch: &DispatchId) -> Result<Gathered> {
        let run = &scene.runs[run];
        let pull = self.settled_pull(&scene.repo, run.pr_number, MERGEABLE_PAUSE).await?;
        let asked = Asked {
            entry: deployment::entry(run.trigger),
            trigger: run.trigger,
            requester: &run.requested_by,
            keys: &[],
            sha: run.sha.clone(),
            run_id: run.id.clone(),
            commits: vec![run.sha.clone()],
            plan_set_digest: None,
        };
        let wanted = Wanted { selected: carried(scene, &run.id, dispatch), artifact_runs: BTreeSet::new() };
        self.gather_for(&scene.repo, pull, &asked, wanted).await
    }

    /// Commits the ruling with its audit row and the answer to send.
    async fn record_ruling(
        &self,
        subject: &Subject,
        once: &str,
        deployment: &Deployment,
        mut rule: impl FnMut(&Next) -> Ruling + Send,
    ) -> Result<()> {
        let Deployment { workflow_run_id, environment, .. } = deployment;
        self.decide(subject, |next| {
            let ruling = rule(next);
            let context = self.answer_context(next.now);
            let comment = render::deployment::answer(&ruling, deployment, &context);
            record(next, &ruling, deployment, &comment);
            let repo_id = next.scene.repo.id;
            let answer = DeploymentAnswer {
                workflow_run_id: *workflow_run_id,
                environment: environment.clone(),
                approve: ruling.approves(),
                comment,
            };
            let now = next.now;
            next.add_job(NewJob::keyed(
                JobKind::AnswerDeployment,
                once.to_owned(),
                json!({ "repo_id": repo_id, "answer": answer }),
                now,
            ));
            next.effects.once.push(once.to_owned());
        })
        .await?;
        Ok(())
    }

    fn answer_context(&self, now: Millis) -> Context {
        let (base_url, web_url) = (self.addresses.base_url.clone(), self.addresses.web_url.clone());
        Context { base_url, web_url, now, ..Context::default() }
    }

    /// Tells GitHub. One that was answered before is answered.
    pub(super) async fn answer_deployment(&self, repo: &Repo, answer: &DeploymentAnswer) -> Result<()> {
        let DeploymentAnswer { workflow_run_id, environment, approve, comment } = answer;
        self.github.answer_protection_rule(&repo_ref(repo), *workflow_run_id, environment, *approve, comment).await?;
        Ok(())
    }
}

/// Asked again later, as everything that GitHub cannot tell now.
fn not_known_yet(message: String) -> Error {
    Error::GitHub(GitHubError::Temporary { what: "the workflow run that waits".to_owned(), message })
}

/// The stacks of a dispatch.
fn carried(scene: &Scene, run: &RunId, dispatch: &DispatchId) -> BTreeSet<StackKey> {
    scene.rows(run).filter(|row| row.dispatch_id.as_ref() == Some(dispatch)).map(|row| row.key.clone()).collect()
}

/// The ruling on the scene as it is now. `None` when the dispatch is not in it.
fn rule(next: &Next, id: &DispatchId, deployment: &Deployment, gathered: Option<&Gathered>) -> Option<Ruling> {
    let scene = &next.scene;
    let dispatch = scene.dispatches.get(id)?;
    if let Some(ruling) = deployment::without_gate(scene, dispatch, deployment) {
        return Some(ruling);
    }
    // No run that has ended goes on, so whatever needs the gate now needed it at the first look.
    let gathered = gathered?;
    let run = scene.run(&dispatch.run_id)?;
    let request = GateRequest {
        entry: deployment::entry(run.trigger),
        requester: run.requested_by.clone(),
        selected: carried(scene, &run.id, id),
        unknown: Vec::new(),
        plans_changed: false,
    };
    let view = PlanView::of(scene, &[&run.sha]);
    let asked = GateScene {
        request: &request,
        scene,
        view: &view,
        stack_files: &gathered.stack_files,
        facts: &gathered.facts,
        now: next.now,
    };
    Some(deployment::by_layers(&asked, &run.id))
}

fn record(next: &mut Next, ruling: &Ruling, deployment: &Deployment, comment: &str) {
    let run = ruling.run().and_then(|id| next.scene.run(id));
    let repo = next.scene.repo.full_name.clone();
    let mut details = json!({
        "repo": repo, "environment": deployment.environment, "attempt": deployment.attempt,
        "cause": "deployment_protection_rule", "rule": ruling.rule(), "comment": comment,
    });
    if let Some(run) = run {
        details["run_id"] = json!(run.id);
        details["mode"] = json!(run.mode);
        details["requested_by"] = json!(run.requested_by);
        if run.pr_number != 0 {
            details["pr"] = json!(run.pr_number);
        }
    }
    if let Ruling::Gate { stacks, refusals, .. } = ruling {
        details["stacks"] = json!(stacks);
        if !refusals.is_empty() {
            details["failures"] = json!(refusals);
        }
    }
    let action = if ruling.approves() { "deployment_approved" } else { "deployment_rejected" };
    let target = format!("workflow_run:{repo}:{}", deployment.workflow_run_id);
    next.audit("stackorder", action, target, details);
}
