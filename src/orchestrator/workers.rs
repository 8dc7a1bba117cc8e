//! The loops that work inbox and outbox off, one piece at a time (spec 21 §3 "Queue rules").
//!
//! A piece is claimed under a short lease that is renewed while the work goes on: what a dead process had claimed is free
//! within the lease. A worker that finds its lease lost stops, and a handler that panics has failed and harms nobody else.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;

use super::bells::Queue;
use super::comments;
use super::deployments::DeploymentAnswer;
use super::plan_workflows::Rerun;
use super::rendering::Turn;
use super::{App, Error, Result};
use crate::causes::chain;
use crate::clock::{HOUR_MS, MINUTE_MS, Millis, SECOND_MS};
use crate::github::api::{GitHubError, Reaction, WorkflowRunFacts};
use crate::github::webhook::{self, Event, WorkflowJobEvent};
use crate::ids::{DispatchId, RunId, StackKey};
use crate::run::model::Repo;
use crate::run::scene::JobKind;
use crate::store::{Delivery, Job, Outcome, Retention};

/// Whose lease is not renewed for so long is taken to have died. Clocks of servers on one database must agree much closer.
pub(super) const LEASE_MS: Millis = 30 * SECOND_MS;
/// Two renewals may fail before a lease ends.
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(10);
const HANDLER_MAX: Duration = Duration::from_secs(5 * 60);
/// How long an idle worker sleeps when nobody wakes it.
const IDLE_POLL: Duration = Duration::from_secs(2);
/// Waits after the first to the fourth failure; the fifth makes a dead letter.
const RETRY_MS: [Millis; 4] = [MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS];
/// The same for failures of the database, two of them sooner: a connection that broke, or too many lost races, are over by then.
const RETRY_STORE_MS: [Millis; 6] = [2 * SECOND_MS, 10 * SECOND_MS, RETRY_MS[0], RETRY_MS[1], RETRY_MS[2], RETRY_MS[3]];
/// So many processes die over a piece before it is taken for the cause and given up. Each of them was working on other pieces,
/// too, which are as innocent as this one may be.
const DEATHS_MAX: u32 = 12;
/// A rendering that finds another one at work looks again after this.
const RENDER_AGAIN_MS: Millis = SECOND_MS;

/// Works one queue until told to stop; what was claimed is finished first.
pub async fn run(app: Arc<App>, queue: Queue, worker: String, retention: Retention, mut stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        // Registered before looking, so that a ring in between is not lost.
        let ring = app.bells.of(queue).notified();
        if queue == Queue::Inbox {
            app.bells.after_a_burst().await;
        }
        let worked = match work(&app, queue, &worker, &retention).await {
            Ok(worked) => worked,
            Err(error) => {
                tracing::error!(worker, error = chain(&error), "the queue cannot be used");
                false
            }
        };
        if worked {
            continue;
        }
        tokio::select! {
            () = ring => {}
            () = tokio::time::sleep(IDLE_POLL) => {}
            _ = stop.changed() => {}
        }
    }
}

/// Works one piece of a queue; whether there was any.
pub async fn work(app: &App, queue: Queue, worker: &str, retention: &Retention) -> Result<bool> {
    let now = app.now();
    let job = match queue {
        Queue::Inbox => {
            let Some(delivery) = app.store.claim_delivery(worker, now, LEASE_MS).await? else { return Ok(false) };
            work_delivery(app, worker, &delivery).await?;
            return Ok(true);
        }
        Queue::Outbox => app.store.claim_job(worker, now, LEASE_MS).await?,
        Queue::Dispatches => app.store.claim_job_of(JobKind::SendDispatch, worker, now, LEASE_MS).await?,
    };
    let Some(job) = job else { return Ok(false) };
    work_job(app, worker, &job, retention).await?;
    Ok(true)
}

async fn work_delivery(app: &App, worker: &str, delivery: &Delivery) -> Result<()> {
    let renew = || app.store.renew_delivery(&delivery.id, worker, app.now(), LEASE_MS);
    let handled = while_held(RENEW_EVERY, renew, watched(delivery.attempts, app.handle_delivery(delivery))).await;
    let Some(handled) = handled else { return Ok(()) };
    let outcome = outcome_of(app, handled, delivery.attempts);
    if let Outcome::Dead { error } = &outcome {
        tracing::error!(delivery = delivery.id, event = delivery.event, error, "a delivery is given up");
    }
    app.store.finish_delivery(&delivery.id, worker, &outcome, app.now()).await?;
    // Finished first: an answer that fails must not leave the delivery claimed.
    if let Outcome::Dead { .. } = &outcome {
        app.answer_dead_command(delivery).await?;
    }
    Ok(())
}

async fn work_job(app: &App, worker: &str, job: &Job, retention: &Retention) -> Result<()> {
    let renew = || app.store.renew_job(job, worker, app.now(), LEASE_MS);
    let handled = while_held(RENEW_EVERY, renew, watched(job.attempts, app.handle_job(job, worker, retention))).await;
    let outcome = match handled {
        None => return Ok(()),
        Some(Handled::Ended(Ok(Turn::Busy))) => Outcome::Unstarted { at: app.now() + RENDER_AGAIN_MS },
        Some(handled) => outcome_of(app, handled, job.attempts),
    };
    if let Outcome::Dead { error } = &outcome {
        tracing::error!(job = job.id, kind = job.kind.as_str(), error, "a job is given up");
    }
    app.store.finish_job(job, worker, &outcome, app.now()).await?;
    Ok(())
}

/// Works while a lease is renewed at its side. `None` when the lease was lost: somebody else has it, so the work stops where
/// it stands, and what it did is done again. A renewal that fails proves nothing; the lease may outlast it.
pub(super) async fn while_held<T, R>(every: Duration, renew: impl Fn() -> R, work: impl Future<Output = T>) -> Option<T>
where
    R: Future<Output = crate::store::Result<bool>>,
{
    let lost = async {
        loop {
            tokio::time::sleep(every).await;
            match renew().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => tracing::warn!(error = chain(&error), "a lease could not be renewed"),
            }
        }
    };
    tokio::select! {
        biased;
        done = work => Some(done),
        () = lost => {
            tracing::warn!("a lease was lost; whoever has it now does the work");
            None
        }
    }
}

/// How a handler came back.
#[derive(Debug)]
enum Handled<T> {
    Ended(Result<T>),
    TookTooLong,
    Panicked,
    /// Not even begun: whoever tried before died each time, with the whole process.
    Deadly,
}

/// Runs a handler within its time; its panic ends with it, not with the worker.
async fn watched<T>(attempts: u32, handler: impl Future<Output = Result<T>>) -> Handled<T> {
    if attempts > DEATHS_MAX {
        return Handled::Deadly;
    }
    let mut handler = pin!(handler);
    // A handler that panicked is dropped and never looked at again; the state that counts is the store's.
    let caught =
        std::future::poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(ended)) => Poll::Ready(Handled::Ended(ended)),
            Err(_) => Poll::Ready(Handled::Panicked),
        });
    tokio::time::timeout(HANDLER_MAX, caught).await.unwrap_or(Handled::TookTooLong)
}

fn outcome_of<T>(app: &App, handled: Handled<T>, attempts: u32) -> Outcome {
    let error = match handled {
        Handled::Ended(Ok(_)) => return Outcome::Done,
        Handled::Ended(Err(Error::Invalid(reason))) => {
            tracing::warn!(reason, "a payload that no retry could mend");
            return Outcome::Done;
        }
        Handled::Ended(Err(Error::GitHub(GitHubError::Deferred { until, .. }))) => {
            return Outcome::Unstarted { at: until };
        }
        Handled::Ended(Err(error)) => error,
        Handled::TookTooLong => Error::Invalid("it took longer than five minutes".to_owned()),
        Handled::Panicked => Error::Invalid("the handler panicked; the log says where".to_owned()),
        Handled::Deadly => return Outcome::Dead { error: "claim expired".to_owned() },
    };
    let text = chain(&error);
    if let Error::GitHub(GitHubError::NotFound { .. } | GitHubError::Permanent { .. }) = &error {
        return Outcome::Dead { error: text };
    }
    match wait_after(&error, attempts) {
        Some(wait) => {
            tracing::warn!(error = text, "tried again later");
            Outcome::Retry { at: app.now() + wait, error: text }
        }
        None => Outcome::Dead { error: text },
    }
}

fn wait_after(error: &Error, failed_before: u32) -> Option<Millis> {
    let waits: &[Millis] = if matches!(error, Error::Store(_)) { &RETRY_STORE_MS } else { &RETRY_MS };
    waits.get(failed_before as usize).copied()
}

impl App {
    async fn handle_delivery(&self, delivery: &Delivery) -> Result<()> {
        let event =
            webhook::parse(&delivery.event, &delivery.payload).map_err(|error| Error::Invalid(error.to_string()))?;
        if event.is_for_nobody() {
            return Ok(());
        }
        match event {
            Event::Installation(event) => self.installation_changed(event).await,
            Event::InstallationRepositories(event) => self.installed_repositories_changed(event).await,
            Event::PullRequest(event) => {
                let Some(repo) = self.known(event.repo.id).await? else { return Ok(()) };
                self.pull_request_changed(&repo, event.number, &event.action, event.base_changed, &delivery.id).await
            }
            Event::IssueComment(event) => {
                let Some(repo) = self.known(event.repo.id).await? else { return Ok(()) };
                match event.action.as_str() {
                    "created" => {
                        self.commented(&repo, event.number, event.comment_id, &event.author, &event.body).await
                    }
                    "edited" => self.comment_touched(&repo, &event, "an edited comment is never executed").await,
                    "deleted" => self.comment_touched(&repo, &event, "a deleted comment is never executed").await,
                    _ => Ok(()),
                }
            }
            Event::Push(event) => self.pushed(event).await,
            Event::CheckRun(event) => {
                let Some(repo) = self.known(event.repo.id).await? else { return Ok(()) };
                self.check_rerequested(&repo, &event, &delivery.id).await
            }
            Event::WorkflowRun(event) => {
                let Some(repo) = self.known(event.repo.id).await? else { return Ok(()) };
                let facts = WorkflowRunFacts {
                    id: event.run,
                    attempt: event.attempt,
                    title: event.title,
                    event: event.event,
                    path: event.path,
                    head_branch: event.head_branch,
                    head_sha: event.head_sha,
                    completed: event.status == "completed",
                    conclusion: event.conclusion,
                    created_at: event.created_at,
                };
                self.workflow_run_changed(&repo, &facts).await
            }
            Event::WorkflowJob(event) => {
                let Some(repo) = self.known(event.repo.id).await? else { return Ok(()) };
                let WorkflowJobEvent { run_id, attempt, name, status, html_url, .. } = event;
                self.workflow_job_changed(&repo, run_id, attempt, &name, &status, &html_url).await
            }
            Event::DeploymentProtectionRule(event) => {
                let Some(repo) = self.known(event.repo.id).await? else { return Ok(()) };
                let Some(workflow_run_id) = event.workflow_run_id.filter(|_| event.action == "requested") else {
                    return Ok(());
                };
                self.deployment_requested(&repo, workflow_run_id, &event.environment, &delivery.id).await
            }
            Event::Ping | Event::Other => Ok(()),
        }
    }

    /// The repository of an event; unknown and suspended ones drop it.
    pub(super) async fn known(&self, repo_id: i64) -> Result<Option<Repo>> {
        Ok(self.store.repo(repo_id).await?.filter(|repo| !repo.suspended))
    }

    /// A command among the dead letters is answered: nothing retries it any more.
    async fn answer_dead_command(&self, delivery: &Delivery) -> Result<()> {
        let Ok(Event::IssueComment(event)) = webhook::parse(&delivery.event, &delivery.payload) else { return Ok(()) };
        let Some(repo) = self.known(event.repo.id).await? else { return Ok(()) };
        let for_us = event.action == "created" && event.is_pull_request && !event.author_is_bot;
        if !for_us || self.store.was_claimed(&comments::claim_name(&repo, event.comment_id)).await? {
            return Ok(());
        }
        self.command_broke_off(&repo, event.number, event.comment_id, &event.body).await
    }

    async fn handle_job(&self, job: &Job, worker: &str, retention: &Retention) -> Result<Turn> {
        let payload: Payload =
            serde_json::from_value(job.payload.clone()).map_err(|error| Error::Invalid(error.to_string()))?;
        let repo = match payload.repo_id {
            Some(id) => self.known(id).await?,
            None => None,
        };
        match job.kind {
            JobKind::SyncInstallations => self.sync_installations().await?,
            JobKind::Reconcile => self.reconcile().await?,
            JobKind::MissedDeliveries => self.ask_for_missed_deliveries().await?,
            JobKind::OpenPullRequests => self.look_at_open_pull_requests().await?,
            JobKind::StaleLocks => self.remind_of_locks().await?,
            JobKind::Prune => drop(self.store.prune(self.now(), retention).await?),
            JobKind::SendDispatch => {
                let (Some(run), Some(dispatch)) = (payload.run_id, payload.dispatch_id) else { return Ok(Turn::Done) };
                self.send_dispatch(&run, &dispatch).await?;
            }
            JobKind::Render
            | JobKind::React
            | JobKind::Comment
            | JobKind::AnswerDeployment
            | JobKind::DriftIssue
            | JobKind::LoadConfig
            | JobKind::ScheduleDrift
            | JobKind::DriftStack
            | JobKind::ForkNotice
            | JobKind::RerunWorkflow
            | JobKind::PlanDownstream => {
                let Some(repo) = repo else { return Ok(Turn::Done) };
                return self.handle_repo_job(job.kind, &repo, payload, worker).await;
            }
        }
        Ok(Turn::Done)
    }

    async fn handle_repo_job(&self, kind: JobKind, repo: &Repo, payload: Payload, worker: &str) -> Result<Turn> {
        match kind {
            JobKind::Render => {
                if let Some(number) = payload.pr_number {
                    return self.render_pull(repo, number, worker).await;
                }
                if let Some(keys) = payload.locks_of {
                    self.show_locks(repo, &keys).await?;
                }
            }
            JobKind::React => {
                let reaction = match payload.reaction.as_deref() {
                    Some("rocket") => Reaction::Rocket,
                    Some(_) | None => Reaction::Eyes,
                };
                if let Some(id) = payload.comment_id {
                    self.react_now(repo, id, reaction).await?;
                }
            }
            JobKind::Comment => match (payload.pr_number, payload.outcome_of, payload.name, payload.body) {
                (Some(number), Some(run), _, _) => self.post_outcome(repo, number, &run).await?,
                (Some(number), None, Some(name), Some(body)) => self.post_comment(repo, number, &name, &body).await?,
                _ => {}
            },
            JobKind::AnswerDeployment => {
                if let Some(answer) = payload.answer {
                    self.answer_deployment(repo, &answer).await?;
                }
            }
            JobKind::DriftIssue => {
                if let Some(key) = payload.key {
                    self.write_drift_issue(repo, &key).await?;
                }
            }
            JobKind::LoadConfig => self.load_config(repo.id).await?,
            JobKind::ScheduleDrift => self.schedule_drift(repo, payload.fire.unwrap_or_else(|| self.now())).await?,
            JobKind::DriftStack => {
                if let Some(key) = payload.key {
                    self.drift_stack(repo, &key).await?;
                }
            }
            JobKind::ForkNotice => {
                if let Some(number) = payload.pr_number {
                    self.write_fork_notice(repo, number).await?;
                }
            }
            JobKind::RerunWorkflow => {
                if let Some(rerun) = payload.rerun {
                    self.rerun_workflow(repo, &rerun).await?;
                }
            }
            JobKind::PlanDownstream => {
                if let Some(run) = payload.run_id {
                    self.plan_downstream(repo, &run).await?;
                }
            }
            JobKind::SyncInstallations
            | JobKind::Reconcile
            | JobKind::MissedDeliveries
            | JobKind::OpenPullRequests
            | JobKind::StaleLocks
            | JobKind::Prune
            | JobKind::SendDispatch => {}
        }
        Ok(Turn::Done)
    }
}

/// The union of all jobs' payloads; each kind reads its own fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Payload {
    repo_id: Option<i64>,
    pr_number: Option<i64>,
    run_id: Option<RunId>,
    dispatch_id: Option<DispatchId>,
    comment_id: Option<i64>,
    rerun: Option<Rerun>,
    reaction: Option<String>,
    name: Option<String>,
    body: Option<String>,
    outcome_of: Option<RunId>,
    key: Option<StackKey>,
    fire: Option<Millis>,
    locks_of: Option<BTreeSet<StackKey>>,
    answer: Option<DeploymentAnswer>,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::store::StoreError;

    const SOON: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn work_goes_on_while_its_lease_is_renewed_or_cannot_be_asked_for() {
        let renewals = AtomicUsize::new(0);
        let enough = tokio::sync::Notify::new();
        let renew = || async {
            match renewals.fetch_add(1, Ordering::Relaxed) {
                0 => Err(StoreError::Db("the database is away".into())),
                1 => Ok(true),
                _ => {
                    enough.notify_one();
                    Ok(true)
                }
            }
        };
        assert_eq!(while_held(SOON, renew, enough.notified()).await, Some(()));
    }

    #[tokio::test]
    async fn work_whose_lease_was_lost_stops() {
        let never = std::future::pending::<()>();
        assert_eq!(while_held(SOON, || async { Ok(false) }, never).await, None);
    }

    #[test]
    fn a_broken_connection_to_the_database_is_over_sooner_than_other_trouble() {
        let away = || Error::Store(StoreError::Db("the connection broke".into()));
        let waits: Vec<_> = (0..7).map(|failed| wait_after(&away(), failed).map(|wait| wait / SECOND_MS)).collect();
        assert_eq!(waits, [Some(2), Some(10), Some(60), Some(300), Some(1_800), Some(7_200), None]);
        assert_eq!(wait_after(&Error::Invalid("no".to_owned()), 0), Some(MINUTE_MS));
    }

    #[tokio::test]
    async fn a_handler_that_panics_has_failed_and_one_that_kills_the_process_is_not_tried_for_ever() {
        let panics = async { if true { panic!("a bug") } else { Ok(()) } };
        assert!(matches!(watched(0, panics).await, Handled::Panicked));
        assert!(matches!(watched(DEATHS_MAX, async { Ok(7) }).await, Handled::Ended(Ok(7))));
        assert!(matches!(watched(DEATHS_MAX + 1, async { Ok(7) }).await, Handled::Deadly));
    }
}
