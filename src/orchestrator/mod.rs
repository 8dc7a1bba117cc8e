//! load → decide → commit → outbox: the server's side of every run.
//!
//! Everything that arrives (webhook, runner call, tick) is decided by a pure function of `run` over a scene, committed with
//! a version check, and decided again on conflict. GitHub is asked before a scene is loaded or after it was committed,
//! never in between. Effects for GitHub are jobs of the same commit, worked off by `workers`.
//!
//! - `runner_calls`: what jobs and keys call: register, upload, claim, result, verdict, manual runs; `unlock`: what a key may free.
//! - `actor`: who asks over the API in a person's place; `reruns`, `apply_requests`: what is asked for there.
//! - `installations`, `pull_requests`, `comments`, `workflow_runs`: one file per kind of webhook.
//! - `plans`, `applies`: starting dispatched plans and applies; `deployments`: whether their jobs may go on to an environment.
//! - `plan_workflows`: running a lost plan workflow again; `lost_merges`: a lock that only a lost event kept;
//!   `missed_deliveries`: asking for lost webhooks again.
//! - `promotions`: queued applies that a decision lets start, in its own commit.
//! - `cross_repo`: plans in other repositories after an apply.
//! - `dispatches`, `rendering`: the jobs that write to GitHub.
//! - `reconcile`, `drift`, `lock_reminders`, `schedule`: what time brings.
//! - `workers`: the loops that work inbox and outbox off; `bells`: what wakes them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rand::RngExt;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::clock::{Clock, Millis};
use crate::github::api::{Api, GitHubError, RepoRef};
use crate::ids::RunId;
use crate::run::model::{Repo, Run};
use crate::run::next::Next;
use crate::run::scene::JobKind;
use crate::store::{Store, StoreError};
use bells::Bells;

pub mod actor;
mod applies;
mod apply_requests;
pub mod bells;
mod comments;
mod cross_repo;
mod deployments;
mod dispatches;
mod drift;
mod installations;
mod lock_reminders;
mod lost_merges;
mod missed_deliveries;
mod plan_workflows;
mod plans;
mod promotions;
mod pull_requests;
mod reconcile;
mod rendering;
mod reruns;
pub mod runner_calls;
mod schedule;
mod unlock;
pub mod workers;
mod workflow_runs;

pub use drift::drift_title;
pub use schedule::LEADER;

#[cfg(test)]
mod tests;

/// Tries of one decision before it gives up: each lost race means that somebody else made progress.
const COMMIT_TRIES_MAX: u32 = 20;

/// What a handler cannot do now.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the store failed")]
    Store(#[from] StoreError),
    #[error("GitHub failed")]
    GitHub(#[from] GitHubError),
    /// The payload is none that a retry could mend.
    #[error("{0}")]
    Invalid(String),
}

pub type Result<T> = std::result::Result<T, Error>;

/// Whose state a decision is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Run(RunId),
    Pull { repo_id: i64, number: i64 },
}

impl Subject {
    /// A run's pull request, so that all of a pull request queues at one place; a run of none is its own.
    fn of(run: &Run) -> Self {
        match run.pr_number {
            0 => Self::Run(run.id.clone()),
            number => Self::Pull { repo_id: run.repo_id, number },
        }
    }
}

/// Addresses that texts and links are built from; no trailing slashes.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// Stackorder's own public address.
    pub base_url: String,
    /// GitHub's web address.
    pub web_url: String,
}

/// [`App::render_after_ms`] of a server: longer than what one job's report sets off, too short for a person to notice.
pub const RENDER_AFTER_MS: u32 = 300;

/// The orchestrator: one per process, shared by all handlers.
pub struct App {
    pub store: Arc<dyn Store>,
    pub github: Arc<dyn Api>,
    pub clock: Arc<dyn Clock>,
    pub addresses: Addresses,
    pub bells: Bells,
    /// How long a rendering waits for what comes right behind it. A report, the next dispatch, its workflow run and its claim
    /// come in a bunch, and GitHub counts what is written to it. 0 under a clock that is moved by hand.
    pub render_after_ms: u32,
    random: Mutex<rand::rngs::StdRng>,
    /// Requests for one subject, and senders of one dispatch, queue here first: it saves the retries of a wide wave. Compare-and-set stays the truth.
    turns: Mutex<BTreeMap<String, Arc<AsyncMutex<()>>>>,
}

impl App {
    pub fn new(
        store: Arc<dyn Store>,
        github: Arc<dyn Api>,
        clock: Arc<dyn Clock>,
        addresses: Addresses,
        random: rand::rngs::StdRng,
    ) -> Self {
        Self {
            store,
            github,
            clock,
            addresses,
            bells: Bells::default(),
            render_after_ms: 0,
            random: Mutex::new(random),
            turns: Mutex::new(BTreeMap::new()),
        }
    }

    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Bytes of the process's random source.
    pub fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0_u8; N];
        self.random.lock().expect("no holder panics").fill(&mut bytes[..]);
        bytes
    }

    pub fn new_run_id(&self) -> RunId {
        RunId::from_random(self.random_bytes())
    }

    /// Loads the subject's scene, lets `decide` change it, and commits the difference; again, on a lost race.
    /// `None` when there is no such run or repository, or when a once-only name of the decision is claimed: somebody else has
    /// decided. `decide` may run several times and must not have other effects.
    pub async fn decide<T>(&self, subject: &Subject, mut decide: impl FnMut(&mut Next) -> T + Send) -> Result<Option<T>>
    where
        T: Send,
    {
        let key = match subject {
            Subject::Run(id) => id.to_string(),
            Subject::Pull { repo_id, number } => format!("{repo_id}#{number}"),
        };
        let _turn = self.turn(key).await;
        let mut repo_turn = None;
        let mut tries = 0;
        loop {
            let scene = match subject {
                Subject::Run(id) => self.store.scene(id).await?,
                Subject::Pull { repo_id, number } => self.store.pull_scene(*repo_id, *number).await?,
            };
            let Some(scene) = scene else { return Ok(None) };
            let mut next = Next::of(&scene, self.now());
            let answer = decide(&mut next);
            let mut changes = self.with_promotions(next).await?;
            if changes.is_empty() {
                return Ok(Some(answer));
            }
            let rendering = changes.effects.jobs.iter_mut().filter(|job| job.kind == JobKind::Render);
            rendering.for_each(|job| job.due_at += Millis::from(self.render_after_ms));
            let due: Vec<_> = changes.effects.jobs.iter().map(|job| (job.kind, job.due_at)).collect();
            let once = changes.effects.once.clone();
            let repo_wide = changes.locks_version.map(|_| changes.repo_id);
            match self.store.commit(changes).await {
                Ok(()) => {
                    self.bells.ring_for(&due, self.now());
                    return Ok(Some(answer));
                }
                Err(StoreError::Conflict(_)) if self.any_claimed(&once).await? => return Ok(None),
                Err(StoreError::Conflict(_)) if tries < COMMIT_TRIES_MAX => {
                    tries += 1;
                    // All applies of a repository take and free locks one after the other: better in turn than in a race.
                    if let (Some(repo_id), None) = (repo_wide, &repo_turn) {
                        repo_turn = Some(self.turn(format!("locks:{repo_id}")).await);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn any_claimed(&self, names: &[String]) -> Result<bool> {
        for name in names {
            if self.store.was_claimed(name).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn turn(&self, key: String) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().expect("no holder panics");
            // Nobody waits for these any more.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(key).or_default().clone()
        };
        turn.lock_owned().await
    }

    /// The subject of a run, if there is such a run.
    pub async fn subject_of(&self, id: &RunId) -> Result<Option<Subject>> {
        Ok(self.store.run(id).await?.as_ref().map(Subject::of))
    }
}

pub fn repo_ref(repo: &Repo) -> RepoRef {
    RepoRef { id: repo.id, installation_id: repo.installation_id, name: repo.full_name.clone() }
}
