//! What GitHub tells of workflow runs and jobs: binding, progress, silent ends (spec 30 §6.7, §11.1).

use super::{App, Result, Subject, repo_ref};
use crate::github::api::{JobFacts, WorkflowRunFacts};
use crate::ids::RunId;
use crate::run::model::{Dispatch, Repo};
use crate::run::progress::{self, Titled};
use crate::run::status::Mode;
use crate::store::RunFilter;

/// The file that dispatches run.
pub const RUN_WORKFLOW: &str = ".github/workflows/stackorder-run.yml";

/// What is known of the dispatch that a workflow run serves.
#[derive(Debug)]
pub(super) enum Served {
    Dispatch(Box<Dispatch>),
    /// One of several, which its jobs do not tell yet.
    Undecided,
    /// None that is open.
    Nothing,
}

impl App {
    pub(super) async fn workflow_run_changed(&self, repo: &Repo, facts: &WorkflowRunFacts) -> Result<()> {
        self.bind_by_title(repo, facts).await?;
        if facts.completed {
            self.workflow_run_ended(repo, facts).await?;
        }
        Ok(())
    }

    /// Binds a workflow run to its dispatch by title, and by the stacks its jobs name where several fit. Returns the dispatch.
    pub(super) async fn bind_by_title(&self, repo: &Repo, facts: &WorkflowRunFacts) -> Result<Option<Dispatch>> {
        match self.served_by(repo, facts, None).await? {
            Served::Dispatch(dispatch) => Ok(Some(*dispatch)),
            Served::Undecided | Served::Nothing => Ok(None),
        }
    }

    /// Which dispatch a workflow run serves, bound to it by now. An environment that one of its jobs waits for narrows the
    /// choice.
    pub(super) async fn served_by(
        &self,
        repo: &Repo,
        facts: &WorkflowRunFacts,
        environment: Option<&str>,
    ) -> Result<Served> {
        if let Some(bound) = self.store.dispatch_by_workflow_run(facts.id).await? {
            return Ok(Served::Dispatch(Box::new(bound)));
        }
        if !may_serve_a_dispatch(repo, facts) {
            return Ok(Served::Nothing);
        }
        let Some((mode, id, wave)) = progress::parse_title(&facts.title) else { return Ok(Served::Nothing) };
        let Some(subject) = self.subject_in(repo, &id).await? else { return Ok(Served::Nothing) };
        let Some(scene) = self.store.scene(&id).await? else { return Ok(Served::Nothing) };
        let next = crate::run::next::Next::of(&scene, self.now());
        let title = Titled { mode, run: &id, wave, environment };
        let candidates = progress::titled(&next, title);
        let chosen = match candidates.as_slice() {
            [] => return Ok(Served::Nothing),
            [only] if progress::is_only_titled(&next, title) => Some(only.clone()),
            _ => {
                let jobs = self.github.jobs(&repo_ref(repo), facts.id).await?;
                let names: Vec<String> = jobs.into_iter().map(|job| job.name).collect();
                // Never by position: ambiguous binds nothing yet.
                progress::choose_by_jobs(&next, &candidates, &names)
            }
        };
        let Some(chosen) = chosen else { return Ok(Served::Undecided) };
        self.decide(&subject, |next| progress::bind(next, &chosen, facts.id, facts.attempt)).await?;
        let bound = self.store.dispatch_by_workflow_run(facts.id).await?;
        Ok(bound.map_or(Served::Undecided, |dispatch| Served::Dispatch(Box::new(dispatch))))
    }

    async fn workflow_run_ended(&self, repo: &Repo, facts: &WorkflowRunFacts) -> Result<()> {
        if let Some(dispatch) = self.store.dispatch_by_workflow_run(facts.id).await? {
            return self.close_dispatch(repo, &dispatch, facts).await;
        }
        let filter =
            RunFilter { repo_id: Some(repo.id), workflow_run_id: Some(facts.id), limit: 10, ..RunFilter::default() };
        for run in self.store.runs(&filter).await? {
            if run.mode == Mode::Plan {
                self.decide(&Subject::of(&run), |next| {
                    progress::plan_workflow_ended(next, &run.id, facts.id, facts.attempt)
                })
                .await?;
            }
        }
        Ok(())
    }

    /// Closes a dispatch whose workflow run ended. One that was cancelled before a job started is sent again once, unless it
    /// applies.
    pub(super) async fn close_dispatch(
        &self,
        repo: &Repo,
        dispatch: &Dispatch,
        facts: &WorkflowRunFacts,
    ) -> Result<()> {
        let Some(subject) = self.subject_in(repo, &dispatch.run_id).await? else { return Ok(()) };
        let again = facts.conclusion == "cancelled"
            && dispatch.mode != Mode::Apply
            && none_started(&self.github.jobs(&repo_ref(repo), facts.id).await?);
        self.decide(&subject, |next| {
            if again {
                progress::dispatch_again(next, &dispatch.id);
            } else {
                progress::complete_dispatch(next, &dispatch.id, &facts.conclusion);
            }
        })
        .await?;
        Ok(())
    }

    pub(super) async fn workflow_job_changed(
        &self,
        repo: &Repo,
        workflow_run_id: i64,
        attempt: u32,
        name: &str,
        status: &str,
        url: &str,
    ) -> Result<()> {
        if let Some(dispatch) = self.store.dispatch_by_workflow_run(workflow_run_id).await? {
            let Some(subject) = self.subject_in(repo, &dispatch.run_id).await? else { return Ok(()) };
            self.decide(&subject, |next| {
                progress::on_job(next, &dispatch.run_id, Some(&dispatch.id), name, status, url);
            })
            .await?;
            return Ok(());
        }
        let filter = RunFilter {
            repo_id: Some(repo.id),
            workflow_run_id: Some(workflow_run_id),
            limit: 10,
            ..RunFilter::default()
        };
        for run in self.store.runs(&filter).await? {
            if run.workflow_run_attempt == attempt {
                self.decide(&Subject::of(&run), |next| progress::on_job(next, &run.id, None, name, status, url))
                    .await?;
            }
        }
        Ok(())
    }

    /// The subject of a run of this repository; `None` for a run of another one.
    pub(super) async fn subject_in(&self, repo: &Repo, id: &RunId) -> Result<Option<Subject>> {
        Ok(self.store.run(id).await?.filter(|run| run.repo_id == repo.id).as_ref().map(Subject::of))
    }
}

/// A list without jobs says nothing: it may be late, or too old to be kept.
fn none_started(jobs: &[JobFacts]) -> bool {
    !jobs.is_empty() && jobs.iter().all(|job| !job.started)
}

/// Anybody who can push can give a workflow run our title: only the default branch's own file, run by dispatch, counts.
fn may_serve_a_dispatch(repo: &Repo, facts: &WorkflowRunFacts) -> bool {
    facts.event == "workflow_dispatch"
        && facts.path.split('@').next() == Some(RUN_WORKFLOW)
        && facts.head_branch == repo.default_branch
}
