//! Any sequence of calls is answered alike by SQLite and by maps, so that a simulation on maps speaks for the server.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use stackorder::run::model::Run;
use stackorder::run::scene::{Changes, Effects};
use stackorder::run::status::{Mode, RunStatus, Trigger};
use stackorder::store::{self, Job, MemoryStore, Outcome, Result, RunFilter, StoreError};

use super::values::*;

const KEYS: [&str; 3] = ["app", "db", "vpc"];
const WORKERS: [&str; 2] = ["a", "b"];
const RUNS: u32 = 6;
const LEASE: i64 = 5;

#[derive(Debug, Clone)]
enum Call {
    Commit(Box<Commit>),
    Deliver(u8),
    ClaimDelivery(&'static str),
    RenewDelivery(u8, &'static str),
    FinishDelivery(u8, &'static str, Outcome),
    ClaimJob(&'static str),
    /// The job claimed this many claims ago; so for the next.
    RenewJob(u8, &'static str),
    FinishJob(u8, &'static str, Outcome),
    Lease(&'static str),
    ForgetRepo,
}

/// What [`Changes`] are made of, in small numbers, so that things collide.
#[derive(Debug, Clone)]
struct Commit {
    /// As drawn; otherwise what could only fail is left out, so that most commits succeed.
    is_wild: bool,
    runs: Vec<(Written, bool)>,
    new_runs: Vec<Written>,
    rows: Vec<(u32, &'static str)>,
    dispatches: Vec<(u32, u32, u32, Option<i64>)>,
    released: Vec<(u32, &'static str)>,
    taken: Vec<(u32, &'static str)>,
    jobs: Vec<(Option<&'static str>, i64)>,
    once: Option<u8>,
    graph: Option<(u32, Vec<&'static str>)>,
    default_graph: Option<u32>,
}

#[derive(Debug, Clone)]
struct Written {
    number: u32,
    pr_number: i64,
    mode: Mode,
    trigger: Trigger,
    status: RunStatus,
}

impl Written {
    fn run(&self) -> Run {
        let Written { number, pr_number, mode, trigger, status } = self.clone();
        // One of the forbidden pairs is left, for the check that refuses it.
        let is_refused =
            mode == Mode::Apply && matches!(trigger, Trigger::Push | Trigger::Rerequest | Trigger::Upstream);
        let trigger = if is_refused { Trigger::Comment } else { trigger };
        Run { sha: sha(1), mode, trigger, status, ..plan(number, pr_number) }
    }
}

fn written() -> impl Strategy<Value = Written> {
    (0..RUNS, 0..3_i64, select(Mode::ALL), select(Trigger::ALL), select(RunStatus::ALL))
        .prop_map(|(number, pr_number, mode, trigger, status)| Written { number, pr_number, mode, trigger, status })
}

fn commit() -> impl Strategy<Value = Commit> {
    let few = 0..3_usize;
    let of_run = || (0..RUNS, select(&KEYS[..]));
    let dispatch = (0..4_u32, 0..RUNS, 0..2_u32, proptest::option::weighted(0.3, 1..3_i64));
    let parts = (
        prop::bool::weighted(0.1),
        prop::collection::vec((written(), prop::bool::weighted(0.97)), few.clone()),
        prop::collection::vec(written(), few.clone()),
        prop::collection::vec(of_run(), few.clone()),
        prop::collection::vec(dispatch, 0..2),
        prop::collection::vec(of_run(), 0..2),
        prop::collection::vec(of_run(), few.clone()),
        prop::collection::vec((prop::option::of(select(&["k", "l"][..])), 0..40_i64), few),
        prop::option::weighted(0.2, 0..4_u8),
        prop::option::weighted(0.3, (0..3_u32, prop::sample::subsequence(&KEYS[..], 0..3))),
        prop::option::weighted(0.2, 0..3_u32),
    );
    parts.prop_map(|(is_wild, runs, new_runs, rows, dispatches, released, taken, jobs, once, graph, default_graph)| {
        Commit { is_wild, runs, new_runs, rows, dispatches, released, taken, jobs, once, graph, default_graph }
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Done),
        (0..60_i64).prop_map(|at| Outcome::Retry { at, error: "e".into() }),
        Just(Outcome::Dead { error: "e".into() }),
        (0..60_i64).prop_map(|at| Outcome::Unstarted { at }),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let worker = || select(&WORKERS[..]);
    prop_oneof![
        10 => commit().prop_map(|commit| Call::Commit(Box::new(commit))),
        2 => (0..3_u8).prop_map(Call::Deliver),
        2 => worker().prop_map(Call::ClaimDelivery),
        1 => (0..3_u8, worker()).prop_map(|(id, worker)| Call::RenewDelivery(id, worker)),
        1 => (0..2_u8, worker()).prop_map(|(ago, worker)| Call::RenewJob(ago, worker)),
        2 => (0..3_u8, worker(), outcome()).prop_map(|(id, worker, outcome)| Call::FinishDelivery(id, worker, outcome)),
        4 => worker().prop_map(Call::ClaimJob),
        4 => (0..2_u8, worker(), outcome()).prop_map(|(ago, worker, outcome)| Call::FinishJob(ago, worker, outcome)),
        1 => worker().prop_map(Call::Lease),
        1 => Just(Call::ForgetRepo),
    ]
}

/// A store, and what a caller of it remembers.
struct Caller {
    store: AStore,
    claimed: Vec<Job>,
}

impl Caller {
    async fn new(store: AStore) -> Self {
        with_repos(&store).await;
        Self { store, claimed: Vec::new() }
    }

    /// The answer as text; of errors only their kind.
    async fn make(&mut self, call: &Call, now: i64) -> String {
        let store = &self.store;
        match call {
            Call::Commit(commit) => {
                let changes = self.changes(commit, now).await;
                told(self.store.commit(changes).await)
            }
            Call::Deliver(id) => told(store.store_delivery(&format!("d{id}"), "push", "{}", now).await),
            Call::ClaimDelivery(worker) => told(store.claim_delivery(worker, now, LEASE).await),
            Call::RenewDelivery(id, worker) => told(store.renew_delivery(&format!("d{id}"), worker, now, LEASE).await),
            Call::FinishDelivery(id, worker, outcome) => {
                told(store.finish_delivery(&format!("d{id}"), worker, outcome, now).await)
            }
            Call::ClaimJob(worker) => {
                let claimed = store.claim_job(worker, now, LEASE).await.unwrap();
                self.claimed.extend(claimed.clone());
                // Numbers of jobs may have gaps after a failed commit; only their order counts.
                told(Ok(claimed.map(|job| Job { id: String::new(), ..job })))
            }
            Call::RenewJob(ago, worker) => match self.claimed.iter().rev().nth(usize::from(*ago)) {
                Some(job) => told(store.renew_job(job, worker, now, LEASE).await),
                None => String::new(),
            },
            Call::FinishJob(ago, worker, outcome) => match self.claimed.iter().rev().nth(usize::from(*ago)) {
                Some(job) => told(store.finish_job(job, worker, outcome, now).await),
                None => String::new(),
            },
            Call::Lease(holder) => told(store.take_lease("l", holder, now, LEASE).await),
            Call::ForgetRepo => {
                let told = told(store.delete_repo(REPO).await);
                store.save_repo(&repo(REPO, "acme/infra")).await.unwrap();
                told
            }
        }
    }

    async fn changes(&self, commit: &Commit, now: i64) -> Changes {
        let any = |number: u32| plan(number, 1);
        let mut known = BTreeSet::new();
        let mut runs = Vec::new();
        for (written, is_current) in &commit.runs {
            let stored = self.store.run(&run_id(written.number)).await.unwrap();
            if stored.is_some() || commit.is_wild {
                let version = stored.map_or(1, |run| run.version) - i64::from(!is_current);
                runs.push((Run { version: version + 1, ..written.run() }, version));
            }
        }
        for number in 0..RUNS {
            if self.store.run(&run_id(number)).await.unwrap().is_some() {
                known.insert(number);
            }
        }
        let new_runs: Vec<Run> = commit
            .new_runs
            .iter()
            .filter(|written| known.insert(written.number) || commit.is_wild)
            .map(Written::run)
            .collect();
        let is_known = |number: u32| commit.is_wild || known.contains(&number);
        let locks = self.store.locks(Some(REPO)).await.unwrap();
        let is_held = |number: u32, key: &str| {
            locks.iter().any(|lock| lock.key.as_str() == key && (commit.is_wild || lock.run_id == run_id(number)))
        };
        let is_free = |key: &str| {
            commit.is_wild
                || locks.iter().all(|lock| lock.key.as_str() != key)
                || commit.released.iter().any(|(number, released)| *released == key && is_held(*number, key))
        };
        Changes {
            runs,
            new_runs,
            rows: commit
                .rows
                .iter()
                .filter(|(number, _)| is_known(*number))
                .map(|(number, key)| row(&any(*number), key))
                .collect(),
            dispatches: commit
                .dispatches
                .iter()
                .filter(|(_, number, ..)| is_known(*number))
                .map(|(id, number, wave, served_by)| {
                    let mut dispatch = dispatch(*id, &any(*number), *wave);
                    dispatch.workflow_run_id = *served_by;
                    dispatch
                })
                .collect(),
            locks_released: commit
                .released
                .iter()
                .filter(|(number, key)| is_held(*number, key))
                .map(|(number, key)| (stack(key), run_id(*number)))
                .collect(),
            locks_taken: commit
                .taken
                .iter()
                .filter(|(number, key)| is_known(*number) && is_free(key))
                .map(|(number, key)| lock(&any(*number), key))
                .collect(),
            effects: Effects {
                jobs: commit
                    .jobs
                    .iter()
                    .map(|(name, due_at)| match name {
                        Some(name) => keyed(name, &now.to_string(), *due_at),
                        None => job(&now.to_string(), *due_at),
                    })
                    .collect(),
                once: commit.once.iter().map(u8::to_string).collect(),
                graph: commit.graph.as_ref().map(|(number, keys)| stored_graph(*number, keys)),
                default_graph: commit.default_graph.map(sha),
                ..Effects::default()
            },
            ..changes()
        }
    }

    /// Everything that can be seen.
    async fn state(&self) -> String {
        let store = &self.store;
        let filter = RunFilter { limit: 100, ..RunFilter::default() };
        let mut lines = vec![
            told(store.runs(&filter).await),
            told(store.runs(&RunFilter { open_only: true, ..filter }).await),
            told(store.locks(None).await),
            told(store.open_dispatches().await),
            told(store.stacks(REPO).await),
            told(store.newest_graph(REPO).await),
            told(store.next_due().await),
        ];
        for pr_number in 0..3 {
            lines.push(told(store.pull_scene(REPO, pr_number).await));
        }
        for number in 0..RUNS {
            lines.push(told(store.scene(&run_id(number)).await));
        }
        lines.join("\n")
    }
}

fn told<T: Debug>(answer: Result<T>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(StoreError::Conflict(runs)) => format!("conflict {runs:?}"),
        Err(StoreError::Db(_)) => "refused".to_owned(),
        Err(error) => panic!("{error:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_and_memory_answer_alike(calls in prop::collection::vec(call(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut sqlite = Caller::new(store::open("sqlite::memory:", 1).await.unwrap()).await;
            let mut memory = Caller::new(Arc::new(MemoryStore::default())).await;
            for (now, call) in (0..).zip(&calls) {
                prop_assert_eq!(sqlite.make(call, now).await, memory.make(call, now).await, "{:?}", call);
                prop_assert_eq!(sqlite.state().await, memory.state().await, "after {:?}", call);
            }
            Ok(())
        })?;
    }
}
