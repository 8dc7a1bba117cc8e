//! Plan workflows whose plans were lost: GitHub is asked to run them again.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::comments::{CommandComment, Outcome, reaction, refused_text};
use super::{App, Result, Subject, repo_ref};
use crate::github::api::{GitHubError, PullRequest, WorkflowRunFacts};
use crate::ids::Sha;
use crate::run::model::Repo;
use crate::run::next::Next;
use crate::run::scene::{JobKind, NewJob};

/// The payload of the job that asks GitHub.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Rerun {
    workflow_run_id: i64,
    /// The attempt that has ended. Another one is what was to come about, whoever began it.
    attempt: u32,
    comment: Option<Asking>,
}

/// The comment that asked for it.
#[derive(Debug, Serialize, Deserialize)]
struct Asking {
    id: i64,
    number: i64,
    /// What it is told when GitHub does not run it again.
    refusal: String,
}

impl App {
    /// An open pull request whose head no plan run is of (case 151). Once for each head: one that never registers a plan is
    /// not run again for ever.
    pub(super) async fn plan_lost_head(&self, repo: &Repo, pull: &PullRequest) -> Result<()> {
        let runs = self.github.plan_runs(&repo_ref(repo), &pull.head_sha).await?;
        let Some(run) = runs.first().filter(|run| run.completed) else { return Ok(()) };
        let once = format!("replan_head:{}:{}:{}", repo.id, pull.number, pull.head_sha);
        if self.store.was_claimed(&once).await? {
            return Ok(());
        }
        let subject = Subject::Pull { repo_id: repo.id, number: pull.number };
        self.decide(&subject, |next| {
            next.effects.once.push(once.clone());
            ask_for(next, run, None);
        })
        .await?;
        Ok(())
    }

    /// A command at a head whose graph is not known: its plan workflow is run again instead (spec 30 §11.4).
    pub(super) async fn plan_workflow_again(&self, repo: &Repo, comment: &CommandComment, head: &Sha) -> Result<()> {
        let runs = self.github.plan_runs(&repo_ref(repo), head).await?;
        let reason =
            "there is no graph of this head yet, and no plan workflow run that could be run again; push to start one";
        let Some(run) = runs.first() else {
            return self
                .decide_comment(repo, comment, |_| Outcome::refused(reason, refused_text(&comment.command, reason)))
                .await;
        };
        let reason = "GitHub did not run the plan workflow again; run it there, or comment once more";
        let refusal = refused_text(&comment.command, reason);
        self.decide_comment(repo, comment, |next| {
            // One that runs already is enough.
            if run.completed {
                let asking = Asking { id: comment.id, number: comment.number, refusal: refusal.clone() };
                ask_for(next, run, Some(asking));
            }
            Outcome::default()
        })
        .await
    }

    /// Asks GitHub, unless somebody has begun another attempt meanwhile, maybe an earlier try of this job.
    pub(super) async fn rerun_workflow(&self, repo: &Repo, rerun: &Rerun) -> Result<()> {
        let github = repo_ref(repo);
        let asked = match self.github.workflow_run(&github, rerun.workflow_run_id).await {
            Ok(facts) if facts.completed && facts.attempt == rerun.attempt => {
                self.github.rerun(&github, rerun.workflow_run_id).await
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        let refused = match asked {
            Ok(()) => false,
            Err(error @ (GitHubError::Permanent { .. } | GitHubError::NotFound { .. })) => {
                tracing::warn!(repo = %repo.full_name, run = rerun.workflow_run_id, %error, "a plan workflow could not be run again");
                true
            }
            Err(error) => return Err(error.into()),
        };
        let Some(asking) = &rerun.comment else { return Ok(()) };
        let subject = Subject::Pull { repo_id: repo.id, number: asking.number };
        self.decide(&subject, |next| {
            if refused {
                next.comment(format!("not-run:{}", asking.id), asking.refusal.clone());
            } else {
                next.add_job(reaction(repo.id, asking.id, "rocket", next.now));
            }
        })
        .await?;
        Ok(())
    }
}

fn ask_for(next: &mut Next, run: &WorkflowRunFacts, comment: Option<Asking>) {
    let rerun = Rerun { workflow_run_id: run.id, attempt: run.attempt, comment };
    let payload = json!({ "repo_id": next.scene.repo.id, "rerun": rerun });
    next.add_job(NewJob::now(JobKind::RerunWorkflow, payload, next.now));
}
