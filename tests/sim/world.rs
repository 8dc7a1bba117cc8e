//! Two servers, one database, one GitHub, and everybody who uses them, moved one step at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use rand::SeedableRng as _;
use stackorder::api::{ClaimResponse, CreateRunResponse};
use stackorder::clock::{Clock as _, HOUR_MS, HandClock, MINUTE_MS, Millis, SECOND_MS};
use stackorder::config::model::RepoConfig;
use stackorder::config::parse::parse_repo_config;
use stackorder::graph::model::{Edge, EdgeType, Graph, NodeRef, Stack};
use stackorder::graph::ordering::ordering;
use stackorder::graph::resolution::Resolution;
use stackorder::ids::{RepoName, RunId, StackKey};
use stackorder::orchestrator::bells::Queue;
use stackorder::orchestrator::runner_calls::CallError;
use stackorder::orchestrator::{Addresses, App, RENDER_AFTER_MS, drift_title, workers};
use stackorder::run::model::{Lock, Repo, Row};
use stackorder::run::status::{RowStatus, Trigger};
use stackorder::store::{Installation, MemoryStore, Retention, Store as _};

use super::chance::Chance;
use super::faults::Faults;
use super::github::{Hub, NAME, REPOSITORY, Right};
use super::infrastructure::{Infrastructure, Plan};
use super::jobs::Job;
use super::keys::ByHand;
use super::laws::Laws;
use super::store::Database;

pub const STACKS: usize = 12;
const SERVERS: usize = 2;
const WORKERS: usize = 3;
pub const TICKS: usize = 320;
/// Steps of servers in one tick, at most.
const POLLS_MAX: usize = 120;
/// Longer than anything is waited for before it is given up, and than the hourly look at what was missed.
const REST_MS: Millis = 70 * MINUTE_MS;
/// Steps within which everything ends once nothing goes wrong any more.
const REST_STEPS: usize = 20_000;
const RETENTION: Retention =
    Retention { plan_text_ms: 720 * HOUR_MS, events_ms: 168 * HOUR_MS, drift_ms: 2_160 * HOUR_MS };

pub struct World {
    pub chance: Chance,
    pub clock: Arc<HandClock>,
    pub faults: Arc<Faults>,
    pub hub: Arc<Hub>,
    pub memory: Arc<MemoryStore>,
    pub laws: Arc<Mutex<Laws>>,
    pub graph: Graph,
    pub policy: RepoConfig,
    pub infrastructure: Infrastructure,
    pub jobs: BTreeMap<i64, Job>,
    /// Those that have not ended.
    pub open_jobs: BTreeSet<i64>,
    /// Workflow runs of which a job vanished over an apply.
    pub broke_off: Vec<i64>,
    /// When somebody changed which stack without any run.
    pub changed_by_hand: Vec<(Millis, String)>,
    /// Applies by people with a key.
    pub by_hand: BTreeMap<i64, ByHand>,
    /// What each plan bundle holds, by its digest.
    pub bundles: BTreeMap<String, Plan>,
    servers: Vec<Option<Arc<App>>>,
    started: u64,
    tasks: Vec<Task>,
    deliveries: Vec<(String, &'static str, String)>,
    sent: u64,
    /// How much of the infrastructure's history lay behind each apply when it began.
    begun: BTreeMap<RunId, usize>,
    trace: Option<Vec<String>>,
}

/// What a server is working on.
struct Task {
    server: usize,
    owner: Owner,
    future: Pin<Box<dyn Future<Output = Reply> + Send>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    Worker,
    /// A delivery on its way in: lost when the server dies before it acknowledged.
    Delivery,
    Job(i64),
    Hand(i64),
}

/// What a call came back with.
pub enum Reply {
    Nothing,
    Registered(Result<Box<CreateRunResponse>, CallError>),
    Resolved(Result<Resolution, CallError>),
    Claimed(Result<Box<ClaimResponse>, CallError>),
    Reported(Result<(), CallError>),
}

/// A future of the memory store, which never waits.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the memory store never waits"),
    }
}

impl World {
    pub fn of(seed: u64, with_trace: bool) -> Self {
        let mut chance = Chance::of(seed);
        let clock = Arc::new(HandClock::at(1_760_000_000_000));
        let faults = Arc::new(Faults::new(Chance::of(seed ^ 0xfa17)));
        let graph = graph(&mut chance);
        let config = config(&mut chance);
        let stacks: Vec<String> = graph.stacks.iter().map(|stack| stack.key.clone()).collect();
        let hub = Arc::new(Hub::new(clock.clone(), faults.clone(), config.clone(), &stacks));
        let laws = Laws { order: Arc::new(ordering(&graph)), ..Laws::default() };
        let memory = Arc::new(MemoryStore::default());
        let account = "acme".to_owned();
        let installation = Installation { id: 1, account, account_type: "Organization".to_owned(), suspended: false };
        now(memory.save_installation(&installation)).expect("it is new");
        let repo = Repo {
            id: REPOSITORY,
            installation_id: 1,
            full_name: RepoName::parse(NAME).expect("it is a name"),
            default_branch: "main".to_owned(),
            private: true,
            suspended: false,
            config: None,
            config_sha: String::new(),
            default_graph: None,
        };
        now(memory.save_repo(&repo)).expect("it is new");
        let policy = parse_repo_config("stackorder.yaml", config.as_bytes()).expect("it is valid");
        let tip = hub.model().tip().to_string();
        now(memory.save_config(REPOSITORY, Some(&policy), &tip)).expect("the repository is there");
        let infrastructure = Infrastructure::of(&graph);
        let mut world = Self {
            chance,
            clock,
            faults,
            hub,
            memory,
            laws: Arc::new(Mutex::new(laws)),
            graph,
            policy,
            infrastructure,
            jobs: BTreeMap::new(),
            open_jobs: BTreeSet::new(),
            broke_off: Vec::new(),
            changed_by_hand: Vec::new(),
            by_hand: BTreeMap::new(),
            bundles: BTreeMap::new(),
            servers: vec![None; SERVERS],
            started: seed << 16,
            tasks: Vec::new(),
            deliveries: Vec::new(),
            sent: 0,
            begun: BTreeMap::new(),
            trace: with_trace.then(Vec::new),
        };
        (0..SERVERS).for_each(|server| world.start(server));
        world
    }

    /// Everything goes wrong for a while, and then nothing: what is left must be in order.
    pub fn play(&mut self) {
        for _ in 0..TICKS {
            self.tick();
            if self.is_broken() {
                return;
            }
        }
        self.faults.stop();
        self.stop_drift_schedule();
        self.rest();
    }

    /// The next hour would bring the next checks, for ever.
    fn stop_drift_schedule(&mut self) {
        let config = &mut self.hub.model().config;
        let policy = config.lines().filter(|line| !line.starts_with("drift:")).collect::<Vec<_>>().join("\n");
        *config = policy + "\ndrift: { open_issue: true }\n";
        let policy = parse_repo_config("stackorder.yaml", config.as_bytes()).expect("it is valid");
        now(self.memory.save_config(REPOSITORY, Some(&policy), "")).expect("the repository is there");
    }

    pub fn is_broken(&self) -> bool {
        !self.laws.lock().expect("one thread").broken.is_empty()
    }

    pub fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(what());
        }
    }

    pub fn trace(&self) -> &[String] {
        self.trace.as_deref().unwrap_or_default()
    }

    pub fn breaks(&self, law: &str) {
        self.laws.lock().expect("one thread").broken.push(law.to_owned());
    }

    fn start(&mut self, server: usize) {
        self.started += 1;
        let store =
            Arc::new(Database { inner: self.memory.clone(), faults: self.faults.clone(), laws: self.laws.clone() });
        let addresses = Addresses { base_url: "https://so.test".to_owned(), web_url: "https://gh.test".to_owned() };
        let random = rand::rngs::StdRng::seed_from_u64(self.started);
        let mut app = App::new(store, self.hub.clone(), self.clock.clone(), addresses, random);
        app.render_after_ms = RENDER_AFTER_MS;
        let app = Arc::new(app);
        self.servers[server] = Some(app.clone());
        self.spawn(server, Owner::Worker, async move {
            let _tried_again_by_the_hour = app.enqueue_start().await;
            Reply::Nothing
        });
    }

    fn spawn(&mut self, server: usize, owner: Owner, future: impl Future<Output = Reply> + Send + 'static) {
        self.tasks.push(Task { server, owner, future: Box::pin(future) });
    }

    /// A live server, if there is one.
    fn a_server(&mut self) -> Option<(usize, Arc<App>)> {
        let alive: Vec<usize> = (0..SERVERS).filter(|server| self.servers[*server].is_some()).collect();
        let server = self.chance.pick(&alive)?;
        Some((server, self.servers[server].clone().expect("it is alive")))
    }

    /// Starts a job's call at some server; false when nobody listens.
    pub fn call<F>(&mut self, job: i64, call: impl FnOnce(Arc<App>) -> F) -> bool
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let Some((server, app)) = self.a_server() else { return false };
        let future = call(app);
        self.spawn(server, Owner::Job(job), future);
        true
    }

    /// The same for a person with a key.
    pub fn call_by_hand<F>(&mut self, one: i64, call: impl FnOnce(Arc<App>) -> F) -> bool
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let Some((server, app)) = self.a_server() else { return false };
        let future = call(app);
        self.spawn(server, Owner::Hand(one), future);
        true
    }

    /// The same for a call whose answer nobody waits for.
    pub fn call_and_forget<F>(&mut self, call: impl FnOnce(Arc<App>) -> F)
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let Some((server, app)) = self.a_server() else { return };
        let future = call(app);
        self.spawn(server, Owner::Delivery, future);
    }

    fn tick(&mut self) {
        match self.chance.below(100) {
            0..=23 => (0..WORKERS).for_each(|_| self.work()),
            24..=55 if self.has_jobs() => (0..8).for_each(|_| self.jobs_move()),
            74..=87 if self.has_mail() => (0..6).for_each(|_| self.deliver()),
            56..=73 => self.people_act(),
            // Nobody waits for anything.
            24..=87 if self.chance.one_in(3) => self.people_act(),
            24..=87 => {}
            88..=94 => self.pass(SECOND_MS, 20),
            95 => self.pass(MINUTE_MS, 12),
            96..=97 => self.kill_some(),
            _ => self.schedule(),
        }
        for server in 0..SERVERS {
            if self.servers[server].is_none() && self.chance.one_in(6) {
                self.note(|| format!("server {server} starts"));
                self.start(server);
            }
        }
        for _ in 0..self.chance.below(POLLS_MAX) {
            self.poll_some();
        }
    }

    fn has_jobs(&self) -> bool {
        !self.open_jobs.is_empty() || !self.hub.model().fresh.is_empty()
    }

    fn has_mail(&self) -> bool {
        !self.deliveries.is_empty() || !self.hub.model().events.is_empty()
    }

    fn pass(&mut self, unit: Millis, most: usize) {
        let by = unit * i64::try_from(1 + self.chance.below(most)).expect("it is small");
        self.clock.advance(by);
    }

    fn work(&mut self) {
        let Some((server, app)) = self.a_server() else { return };
        let busy = self.tasks.iter().filter(|task| task.server == server && task.owner == Owner::Worker).count();
        if busy >= WORKERS {
            return;
        }
        let worker = format!("worker-{server}-{busy}-{}", self.started);
        let queues: &[Queue] =
            if self.chance.one_in(4) { &[Queue::Dispatches] } else { &[Queue::Inbox, Queue::Outbox] };
        self.spawn(server, Owner::Worker, async move {
            for queue in queues {
                let _logged = workers::work(&app, *queue, &worker, &RETENTION).await;
            }
            Reply::Nothing
        });
    }

    fn schedule(&mut self) {
        let Some((server, app)) = self.a_server() else { return };
        self.spawn(server, Owner::Worker, async move {
            let _logged = app.tick(&format!("server-{server}")).await;
            Reply::Nothing
        });
    }

    /// GitHub sends what it has to tell: in any order, twice, or not at all.
    fn deliver(&mut self) {
        let events = std::mem::take(&mut self.hub.model().events);
        for (event, payload) in events {
            if self.faults.hits("a webhook was lost", 12) {
                continue;
            }
            self.sent += 1;
            let delivery = (format!("delivery-{}", self.sent), event, payload.to_string());
            if self.faults.hits("a webhook came twice", 12) {
                self.deliveries.push(delivery.clone());
            }
            self.deliveries.push(delivery);
        }
        if self.deliveries.is_empty() {
            return;
        }
        let at =
            if self.faults.hits("webhooks changed places", 3) { self.chance.below(self.deliveries.len()) } else { 0 };
        let (id, event, payload) = self.deliveries.remove(at);
        let now = self.clock.now();
        // Without anybody to take it, GitHub notes a failure and goes on.
        let Some((server, app)) = self.a_server() else { return };
        self.spawn(server, Owner::Delivery, async move {
            let _answered_500 = app.store.store_delivery(&id, event, &payload, now).await;
            Reply::Nothing
        });
    }

    fn poll_some(&mut self) {
        if self.tasks.is_empty() {
            return;
        }
        let at = self.chance.below(self.tasks.len());
        self.poll(at);
    }

    fn poll(&mut self, at: usize) {
        // No two things happen at one moment.
        self.pass(1, 20);
        let polled = self.tasks[at].future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match polled {
            Poll::Ready(reply) => {
                let task = self.tasks.remove(at);
                self.comes_back(&task.owner, Some(reply));
            }
            Poll::Pending if self.faults.take_death() => {
                let server = self.tasks[at].server;
                self.kill(server);
            }
            Poll::Pending => {}
        }
        self.applies_move();
    }

    /// Who asked was allowed to, and the head was approved, at some moment since they asked.
    fn let_through(&self, laws: &mut Laws, run: &RunId, comment: Option<i64>) {
        let run = laws.runs[run].clone();
        if run.is_queued() {
            self.faults.met("an apply was queued");
        } else if !run.wants.is_empty() {
            self.faults.met("an apply was promoted");
        }
        if run.trigger == Trigger::PullRequest {
            self.faults.met("an apply of a merge began");
        }
        let model = self.hub.model();
        let Some(since) = comment.and_then(|comment| model.said_at(comment)) else { return };
        let right = if self.policy.apply.allowed_teams.is_empty() { Right::Write } else { Right::Team };
        laws.law("who applies may apply", model.had(right, &run.requested_by, since), || {
            format!("{} by {}", run.id, run.requested_by)
        });
        let approvals = model.approvals(run.pr_number, &run.sha, since);
        let wanted = self.policy.apply.require_approvals as usize;
        laws.law("an apply has its approvals", approvals >= wanted, || {
            format!("{} has {approvals} of {wanted}", run.id)
        });
    }

    /// I16: after an apply that left nothing out, a plan of each of its stacks is empty, unless others changed something.
    fn applies_move(&mut self) {
        let laws = self.laws.clone();
        let mut laws = laws.lock().expect("one thread");
        for (run, comment) in std::mem::take(&mut laws.begun) {
            self.let_through(&mut laws, &run, comment);
            let since = self.history_known_at(&laws, &run);
            self.begun.insert(run, since);
        }
        for id in std::mem::take(&mut laws.done) {
            let rows: Vec<Row> = laws.rows[&id].values().cloned().collect();
            let since = self.begun.get(&id).copied().unwrap_or_default();
            let others = self.infrastructure.history[since..].iter().any(|(_, run)| run.as_ref() != Some(&id));
            let is_whole = rows.iter().all(|row| matches!(row.status, RowStatus::Applied | RowStatus::Noop));
            let is_comment = laws.runs[&id].trigger == Trigger::Comment;
            if others || !is_whole || !is_comment {
                continue;
            }
            let files = self.hub.model().commits[&laws.runs[&id].sha].files.clone();
            let all = rows.iter().map(|row| {
                format!(
                    "\n  {} wave {} {} {:?} {} behind {:?} from {:?}",
                    row.key, row.wave, row.status, row.reasons, row.note, row.behind, row.from_plan_run
                )
            });
            let all: String = all.collect();
            for row in rows {
                // Nobody looks again at what was planned, or applied by an earlier run, before somebody changed it by hand.
                let made = [&row.from_plan_run, &row.applied_by_run].into_iter().flatten();
                let made = made.filter_map(|run| laws.runs.get(run)).map(|run| run.created_at).min();
                let by_hand =
                    |(at, key): &(Millis, String)| *key == row.key.as_str() && made.is_some_and(|made| *at >= made);
                if self.changed_by_hand.iter().any(by_hand) {
                    continue;
                }
                let plan = self.infrastructure.plan(row.key.as_str(), files[row.key.as_str()]);
                laws.law("I16 after a whole apply every plan is empty", plan.is_empty(), || {
                    format!("{} after {id}: {}{all}", row.key, plan.actions)
                });
            }
        }
    }

    /// How much of the history is over when an apply begins: what another job has applied to its stacks or to what they read,
    /// and has not reported, nobody can know; it counts as a change that comes later.
    fn history_known_at(&self, laws: &Laws, run: &RunId) -> usize {
        let own: BTreeSet<&str> = laws.rows[run].keys().map(StackKey::as_str).collect();
        let read = own.iter().flat_map(|key| laws.order.all_predecessors(key));
        let concerns: BTreeSet<&str> = own.iter().copied().chain(read).collect();
        let is_unreported = |(key, by): &(String, Option<RunId>)| {
            let rows = by.as_ref().and_then(|by| laws.rows.get(by));
            let row = rows.and_then(|rows| rows.iter().find(|(stack, _)| stack.as_str() == key));
            concerns.contains(key.as_str()) && row.is_some_and(|(_, row)| !row.status.is_terminal())
        };
        let history = &self.infrastructure.history;
        history.iter().position(is_unreported).unwrap_or(history.len())
    }

    fn kill_some(&mut self) {
        if self.faults.hits("a server was killed from outside", 3)
            && let Some((server, _)) = self.a_server()
        {
            self.kill(server);
        }
    }

    /// Everything that the server was doing ends where it stands.
    fn kill(&mut self, server: usize) {
        self.note(|| format!("server {server} dies"));
        self.servers[server] = None;
        let (gone, left): (Vec<Task>, Vec<Task>) =
            std::mem::take(&mut self.tasks).into_iter().partition(|task| task.server == server);
        self.tasks = left;
        for task in gone {
            self.comes_back(&task.owner, None);
        }
    }

    fn comes_back(&mut self, owner: &Owner, reply: Option<Reply>) {
        match owner {
            Owner::Job(job) => self.answered(*job, reply),
            Owner::Hand(one) => self.answered_by_hand(*one, reply),
            Owner::Worker | Owner::Delivery => {}
        }
    }

    /// Nothing goes wrong any more, and everybody does what they are asked to, until nothing is left to do.
    fn rest(&mut self) {
        let mut idle_ms = 0;
        for _ in 0..REST_STEPS {
            for server in 0..SERVERS {
                if self.servers[server].is_none() {
                    self.start(server);
                }
            }
            while !self.tasks.is_empty() && !self.is_broken() {
                self.poll_some();
            }
            if self.is_broken() {
                return;
            }
            if self.has_mail() {
                self.deliver();
                continue;
            }
            if self.everybody_moves() {
                idle_ms = 0;
                continue;
            }
            let due = now(self.memory.next_due()).expect("the memory store answers");
            if due.is_some_and(|due| due <= self.clock.now()) {
                self.work();
                continue;
            }
            // Whatever is tried again is tried; then everything that is given up has been given up.
            let until = due.filter(|_| idle_ms > REST_MS).map(|due| due - self.clock.now());
            if idle_ms > REST_MS && until.is_none() {
                break;
            }
            let by = until.unwrap_or(2 * MINUTE_MS);
            self.clock.advance(by);
            idle_ms += by;
            if idle_ms <= REST_MS {
                self.schedule();
            }
        }
        let mut laws = self.laws.lock().expect("one thread");
        laws.at_rest();
        let locks: Vec<Lock> = laws.locks.values().cloned().collect();
        let model = self.hub.model();
        for lock in locks {
            let pull = model.pulls.get(&lock.pr_number);
            let is_merged = pull.is_none_or(|pull| pull.is_merged && pull.base_ref == "main");
            laws.lock_at_rest(&lock, pull.is_some_and(|pull| pull.is_open), is_merged);
        }
        for stack in now(self.memory.stacks(REPOSITORY)).expect("the memory store answers") {
            let Some(seen) = stack.drift else { continue };
            let title = drift_title(&stack.key);
            let open = model.issues.values().filter(|(issue, open)| *open && issue.title == title).count();
            laws.law(
                "a drifted stack has one open issue, and no other has any",
                open == usize::from(seen.drifted),
                || format!("{}: {open} open, {seen:?}", stack.key),
            );
        }
    }
}

/// Twelve stacks of two environments, each after some of the earlier ones.
fn graph(chance: &mut Chance) -> Graph {
    let key = |number: usize| format!("{}/s{number:02}", if number.is_multiple_of(3) { "prod" } else { "stg" });
    let stacks = (0..STACKS).map(|number| Stack { key: key(number), path: key(number), ..Stack::default() }).collect();
    let mut edges = Vec::new();
    for number in 1..STACKS {
        for _ in 0..chance.below(3) {
            let kind = if chance.one_in(3) { EdgeType::DependsOn } else { EdgeType::ReadsState };
            let before = chance.below(number);
            edges.push(Edge {
                from: NodeRef::stack(key(number)),
                to: NodeRef::stack(key(before)),
                kind,
                inferred: false,
                meta: BTreeMap::new(),
            });
        }
    }
    let mut graph = Graph { repo: NAME.to_owned(), stacks, edges, ..Graph::default() };
    graph.sort();
    graph.edges.dedup();
    graph
}

fn config(chance: &mut Chance) -> String {
    let mode = if chance.one_in(4) { "on_merge" } else { "before_merge" };
    let approvals = chance.below(2);
    let most = 1 + chance.below(3);
    let teams = if chance.one_in(4) { "[acme/platform]" } else { "[]" };
    let conflict = if chance.one_in(2) { "queue" } else { "refuse" };
    let drift = if chance.one_in(8) { "drift: { schedule: '*/10 * * * *', open_issue: true }\n" } else { "" };
    let up_to_date = if chance.one_in(3) { "off" } else { "affected" };
    format!(
        "version: 1\nenvironments: {{ prod/: production, stg/: staging }}\napply: {{ mode: {mode}, \
         require_approvals: {approvals}, max_parallel: {most}, require_up_to_date: '{up_to_date}', allowed_teams: {teams}, \
         on_conflict: {conflict} }}\n{drift}"
    )
}
