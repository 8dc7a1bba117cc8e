//! Once a minute: what webhooks should have told is asked of GitHub (spec 30 §11).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::bells::Queue;
use super::dispatches::LOST_MS;
use super::{App, Error, Result, Subject, repo_ref};
use crate::clock::{MINUTE_MS, Millis, SECOND_MS};
use crate::github::api::{GitHubError, PullRequest, WorkflowRunFacts};
use crate::ids::RunId;
use crate::run::model::{Dispatch, Repo, Run};
use crate::run::next::Next;
use crate::run::plan_view::PlanView;
use crate::run::progress;
use crate::run::queue::{self, Line};
use crate::run::scene::{JobKind, NewJob};
use crate::run::settle;
use crate::run::status::{Mode, RowStatus, RunStatus, Trigger};
use crate::run::supersede;
use crate::run::waves;
use crate::store::{RunFilter, StoreError};

/// A dispatch younger than this may still be on its way.
const GRACE_MS: Millis = 60 * SECOND_MS;
/// An apply that neither runs nor waits for this long was cut off by a crash.
const STALLED_MS: Millis = 2 * MINUTE_MS;
/// Open runs read at one time.
const OPEN_RUNS_PAGE: u32 = 500;

impl App {
    pub(super) async fn reconcile(&self) -> Result<()> {
        let repos: BTreeMap<i64, Repo> = self.store.repos().await?.into_iter().map(|repo| (repo.id, repo)).collect();
        let mut by_repo: BTreeMap<i64, Vec<Dispatch>> = BTreeMap::new();
        for dispatch in self.store.open_dispatches().await? {
            if let Some(run) = self.store.run(&dispatch.run_id).await? {
                by_repo.entry(run.repo_id).or_default().push(dispatch);
            }
        }
        for (repo_id, dispatches) in by_repo {
            let Some(repo) = repos.get(&repo_id).filter(|repo| !repo.suspended) else { continue };
            // One repository's failure does not stop the others.
            if let Err(error) = self.reconcile_dispatches(repo, &dispatches).await {
                tracing::warn!(repo = %repo.full_name, error = crate::causes::chain(&error), "dispatches were not reconciled");
            }
        }
        let mut open = RunFilter { open_only: true, limit: OPEN_RUNS_PAGE, ..RunFilter::default() };
        loop {
            let page = self.store.runs(&open).await?;
            // Newest first, so each page begins before the last run of the one before.
            open.before = page.last().map(|run| (run.created_at, run.id.clone()));
            for run in &page {
                let Some(repo) = repos.get(&run.repo_id).filter(|repo| !repo.suspended) else { continue };
                if let Err(error) = self.reconcile_run(repo, run).await {
                    tracing::warn!(run = %run.id, error = crate::causes::chain(&error), "a run was not reconciled");
                }
            }
            if page.len() < OPEN_RUNS_PAGE as usize {
                return Ok(());
            }
        }
    }

    async fn reconcile_dispatches(&self, repo: &Repo, dispatches: &[Dispatch]) -> Result<()> {
        let now = self.now();
        let mut bound = Vec::new();
        let mut unbound = Vec::new();
        for dispatch in dispatches {
            let age = now - dispatch.dispatched_at;
            match (dispatch.sent_at, dispatch.workflow_run_id) {
                (None, _) if age < GRACE_MS => {}
                // Whoever sends it says when it is too late, so that nothing is sent that was given up.
                (None, _) => self.resend(dispatch).await?,
                (Some(_), Some(_)) => bound.push(dispatch),
                (Some(_), None) if age < GRACE_MS => {}
                (Some(_), None) => unbound.push(dispatch),
            }
        }
        if !unbound.is_empty() {
            self.bind_unbound(repo, &unbound).await?;
        }
        if !bound.is_empty() {
            self.look_at_bound(repo, &bound).await?;
        }
        Ok(())
    }

    async fn resend(&self, dispatch: &Dispatch) -> Result<()> {
        let payload = json!({ "dispatch_id": dispatch.id, "run_id": dispatch.run_id });
        let job = NewJob::keyed(JobKind::SendDispatch, format!("dispatch:{}", dispatch.id), payload, self.now());
        self.store.add_job(&job).await?;
        self.bells.ring(Queue::Dispatches);
        Ok(())
    }

    async fn give_up(&self, dispatch: &Dispatch, conclusion: &str, warning: &str) -> Result<()> {
        let Some(subject) = self.subject_of(&dispatch.run_id).await? else { return Ok(()) };
        self.decide(&subject, |next| progress::give_up(next, dispatch, conclusion, warning)).await?;
        Ok(())
    }

    async fn bind_unbound(&self, repo: &Repo, unbound: &[&Dispatch]) -> Result<()> {
        let now = self.now();
        let oldest = unbound.iter().map(|dispatch| dispatch.dispatched_at).min().unwrap_or(now) - MINUTE_MS;
        let mut runs = self.github.dispatched_runs(&repo_ref(repo), oldest).await?;
        runs.sort_by_key(|facts| (facts.created_at, facts.id));
        let mut undecided: BTreeSet<(String, u32)> = BTreeSet::new();
        for facts in &runs {
            let Some((_, run, wave)) = progress::parse_title(&facts.title) else { continue };
            match self.bind_by_title(repo, facts).await? {
                Some(dispatch) if facts.completed => self.close_dispatch(repo, &dispatch, facts).await?,
                Some(_) => {}
                None if !facts.completed => drop(undecided.insert((run.to_string(), wave))),
                None => {}
            }
        }
        for dispatch in unbound {
            let still =
                self.store.scene(&dispatch.run_id).await?.and_then(|scene| scene.dispatches.get(&dispatch.id).cloned());
            let unbound = |found: &Dispatch| found.workflow_run_id.is_none() && found.completed_at.is_none();
            let Some(still) = still.filter(unbound) else { continue };
            let waits = undecided.contains(&(dispatch.run_id.to_string(), dispatch.wave));
            if !waits && now - dispatch.dispatched_at >= LOST_MS {
                let warning = format!(
                    "workflow run not found: .github/workflows/stackorder-run.yml, with its run-name line, must be on {}",
                    repo.default_branch
                );
                self.give_up(&still, "timed_out", &warning).await?;
            }
        }
        Ok(())
    }

    /// One list call a repository; single reads only for what the list no longer shows.
    async fn look_at_bound(&self, repo: &Repo, bound: &[&Dispatch]) -> Result<()> {
        let oldest = bound.iter().map(|dispatch| dispatch.dispatched_at).min().unwrap_or_default() - MINUTE_MS;
        let listed: BTreeMap<i64, WorkflowRunFacts> = self
            .github
            .dispatched_runs(&repo_ref(repo), oldest)
            .await?
            .into_iter()
            .map(|facts| (facts.id, facts))
            .collect();
        for dispatch in bound {
            let id = dispatch.workflow_run_id.expect("sorted by having one");
            let facts = match listed.get(&id) {
                Some(facts) => Ok(facts.clone()),
                None => self.github.workflow_run(&repo_ref(repo), id).await,
            };
            match facts {
                Ok(facts) if facts.completed => self.close_dispatch(repo, dispatch, &facts).await?,
                Ok(_) => self.look_for_waiting_jobs(repo, dispatch, id).await?,
                // GitHub names a workflow run before every one of its answers shows it.
                Err(GitHubError::NotFound { .. }) if self.now() - dispatch.sent_at.unwrap_or_default() < GRACE_MS => {}
                Err(GitHubError::NotFound { .. }) => {
                    self.give_up(dispatch, "not_found", "the workflow run of a dispatch is gone").await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Progress that lost events would have shown.
    async fn look_for_waiting_jobs(&self, repo: &Repo, dispatch: &Dispatch, workflow_run_id: i64) -> Result<()> {
        for job in self.github.jobs(&repo_ref(repo), workflow_run_id).await? {
            if job.status == "waiting" || job.status == "in_progress" {
                self.workflow_job_changed(
                    repo,
                    workflow_run_id,
                    dispatch.attempt,
                    &job.name,
                    &job.status,
                    &job.html_url,
                )
                .await?;
            }
        }
        Ok(())
    }

    async fn reconcile_run(&self, repo: &Repo, run: &Run) -> Result<()> {
        match run.mode {
            Mode::Plan if run.trigger == Trigger::PullRequest && run.workflow_run_id != 0 => {
                self.look_for_silent_plan(repo, run).await
            }
            Mode::Plan | Mode::Drift => Ok(()),
            Mode::Apply if run.trigger == Trigger::Manual => Ok(()),
            Mode::Apply => self.look_for_stalled_apply(repo, run).await,
        }
    }

    /// A plan workflow run that ended without a word (case 150).
    async fn look_for_silent_plan(&self, repo: &Repo, run: &Run) -> Result<()> {
        if run.status == RunStatus::Planned || self.now() - run.seen_at < GRACE_MS {
            return Ok(());
        }
        let facts = match self.github.workflow_run(&repo_ref(repo), run.workflow_run_id).await {
            Ok(facts) => facts,
            Err(GitHubError::NotFound { .. }) => return self.end_plan(run, run.workflow_run_attempt).await,
            Err(error) => return Err(error.into()),
        };
        if facts.completed { self.end_plan(run, facts.attempt).await } else { Ok(()) }
    }

    async fn end_plan(&self, run: &Run, attempt: u32) -> Result<()> {
        if let Some(subject) = self.subject_of(&run.id).await? {
            let workflow_run_id = run.workflow_run_id;
            self.decide(&subject, |next| progress::plan_workflow_ended(next, &run.id, workflow_run_id, attempt))
                .await?;
        }
        Ok(())
    }

    /// An apply that was recorded and never dispatched, or whose finished re-plan was not taken over (spec 30 §11.3).
    async fn look_for_stalled_apply(&self, repo: &Repo, run: &Run) -> Result<()> {
        let pull = self.github.pull_request(&repo_ref(repo), run.pr_number).await?;
        if !pull.open {
            // A closed event may have been lost: releases by the rules of a merge or a close.
            self.pull_request_closed(repo, run.pr_number).await?;
        }
        if self.now() - run.created_at < STALLED_MS {
            return Ok(());
        }
        let subject = Subject::Pull { repo_id: run.repo_id, number: run.pr_number };
        self.decide(&subject, |next| revive_or_abandon(next, &run.id, &pull)).await?;
        Ok(())
    }

    /// Heads of open pull requests that no plan run is of: their plan workflow is run again, once per head (case 151). What
    /// cannot be looked at in one repository keeps none of the others from it, and is tried again if that may help: the next
    /// look is an hour away.
    pub(super) async fn look_at_open_pull_requests(&self) -> Result<()> {
        let mut failed = None;
        for repo in self.store.repos().await?.into_iter().filter(|repo| !repo.suspended) {
            if let Err(error) = self.repair_open_pull_requests(&repo).await {
                tracing::warn!(repo = %repo.full_name, error = crate::causes::chain(&error), "open pull requests were not looked at");
                let may_pass = matches!(
                    error,
                    Error::Store(StoreError::Db(_) | StoreError::Conflict(_))
                        | Error::GitHub(GitHubError::Temporary { .. } | GitHubError::Deferred { .. })
                );
                if may_pass {
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn repair_open_pull_requests(&self, repo: &Repo) -> Result<()> {
        let github = repo_ref(repo);
        let open = self.github.open_pull_requests(&github).await?;
        for pull in open.iter().filter(|pull| !pull.from_fork) {
            let filter = RunFilter {
                repo_id: Some(repo.id),
                pr_number: Some(pull.number),
                mode: Some(Mode::Plan),
                sha: Some(pull.head_sha.clone()),
                limit: 1,
                ..RunFilter::default()
            };
            if !self.store.runs(&filter).await?.is_empty() {
                continue;
            }
            self.plan_lost_head(repo, pull).await?;
        }
        let numbers: BTreeSet<i64> = open.iter().map(|pull| pull.number).collect();
        let holders: BTreeSet<i64> =
            self.store.locks(Some(repo.id)).await?.into_iter().map(|lock| lock.pr_number).collect();
        for number in holders.into_iter().filter(|number| *number != 0 && !numbers.contains(number)) {
            self.pull_request_closed(repo, number).await?;
        }
        Ok(())
    }
}

/// A queued apply whose events were lost: it gives way to a newer head, or its turn has come.
fn look_at_queued(next: &mut Next, run: &Run, pull: &PullRequest) {
    if run.trigger == Trigger::Comment && pull.head_sha != run.sha {
        return supersede::apply(next, &run.id, pull.head_sha.as_str());
    }
    if Line::of(&next.scene).holds_of(&run.id).is_empty() {
        queue::promote(next, &run.id);
    }
}

/// The table of spec 30 §11.3, on the scene as it is now.
fn revive_or_abandon(next: &mut Next, id: &RunId, pull: &PullRequest) {
    next.caused_by("stackorder", "reconcile");
    let run = next.scene.runs[id].clone();
    if run.status.is_terminal() {
        return;
    }
    let comment_apply = run.trigger == Trigger::Comment;
    // One that was merged meanwhile goes on: its jobs may wait for a reviewer.
    if comment_apply && !pull.open && !pull.merged && !supersede::is_claimed(next, id) {
        return supersede::abandon(next, id, "the pull request is no longer open");
    }
    if run.is_queued() {
        return look_at_queued(next, &run, pull);
    }
    let wave = run.current_wave;
    if next.scene.replan_of(id, wave).is_some() {
        return settle::settle(next, id);
    }
    let waiting: Vec<_> = next
        .scene
        .rows(id)
        .filter(|row| row.wave == wave && row.status == RowStatus::Planned && row.dispatch_id.is_none())
        .cloned()
        .collect();
    if waiting.is_empty() {
        return settle::settle(next, id);
    }
    if comment_apply && pull.head_sha != run.sha {
        if supersede::is_claimed(next, id) {
            return supersede::abandon(next, id, "the pull request moved on");
        }
        return supersede::apply(next, id, pull.head_sha.as_str());
    }
    if comment_apply && !pull.open {
        return supersede::abandon(next, id, "the pull request is no longer open");
    }
    let newer = next.scene.runs.values().any(|other| other.mode == Mode::Apply && other.created_at > run.created_at);
    if newer {
        return supersede::abandon(next, id, "a newer apply run exists");
    }
    // The plans of a merge are those of the head, where none was made at the merge commit.
    let mut commits = vec![&run.sha];
    if run.is_merge_apply() {
        commits.push(&pull.head_sha);
    }
    let view = PlanView::of(&next.scene, &commits);
    let changed = view.changed_since(waiting.iter());
    if !changed.is_empty() {
        return supersede::abandon(next, id, &format!("the plans of {} changed", changed.join(", ")));
    }
    waves::open(next, id);
    settle::settle(next, id);
}
