//! Where state lives: a handful of reads, one write, and the queue.
//!
//! [`Store`] is implemented by `SqlStore` for SQLite and Postgres from one source, and by `MemoryStore` for simulation
//! and tests. All pass the same contract suite (`tests/it/store_contract.rs`).
//! No transaction handle leaves this module. Compare-and-set on run versions decides every race.
//!
//! - `dialect`, `postgres`, `sqlite`: what the databases do not say alike, and how each is opened.
//! - `sql`: the statements, once for both.
//! - `memory`: the same promises over maps.
//! - `rules`: what every implementation does alike.

mod dialect;
mod memory;
mod postgres;
mod rules;
mod sql;
mod sqlite;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Millis;
use crate::graph::model::Graph;
use crate::ids::{ParseError, RepoName, RunId, Sha, StackId, StackKey};
use crate::run::model::{AuditEntry, Dispatch, DriftSeen, Lock, Repo, Row, Run};
use crate::run::scene::{Changes, JobKind, NewJob, Scene};
use crate::run::status::{Mode, RunStatus};

pub use self::memory::MemoryStore;

/// Opens the database an URL names, `postgres://…` or `sqlite://…`, and brings its schema up to date.
///
/// SQLite files are created; a Postgres database must exist.
pub async fn open(database_url: &str, connections: u32) -> Result<Arc<dyn Store>> {
    match database_url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => Ok(Arc::new(sqlite::open(database_url, connections).await?)),
        Some("postgres" | "postgresql") => Ok(Arc::new(postgres::open(database_url, connections).await?)),
        // The URL itself may hold a password.
        _ => Err(StoreError::Db("the database URL must begin with postgres:// or sqlite://".into())),
    }
}

/// Looks at the database an URL names, and changes nothing: whether it is there, and how old its schema is.
pub async fn schema_of(database_url: &str) -> Result<Schema> {
    match database_url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => sqlite::schema_of(database_url).await,
        Some("postgres" | "postgresql") => postgres::schema_of(database_url).await,
        _ => Err(StoreError::Db("the database URL must begin with postgres:// or sqlite://".into())),
    }
}

/// How the schema of a database compares with what this program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    Current,
    /// So many migrations are missing; a server that starts makes them.
    Older(usize),
    /// A newer program made so many that this one does not know.
    Newer(usize),
}

impl Schema {
    /// Compares the versions of migrations that were made with those that this program has.
    fn compare(made: &BTreeSet<i64>, known: &BTreeSet<i64>) -> Self {
        match (made.difference(known).count(), known.difference(made).count()) {
            (0, 0) => Schema::Current,
            (0, missing) => Schema::Older(missing),
            (unknown, _) => Schema::Newer(unknown),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Someone else moved some of them first: load again and decide again.
    #[error("changed meanwhile: {0:?}")]
    Conflict(Vec<RunId>),
    /// A row we wrote ourselves no longer parses: a bug or a hand-edited database.
    #[error("{table} row {id} is unreadable")]
    Corrupt {
        table: &'static str,
        id: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("cannot use the database")]
    Db(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    pub fn corrupt(
        table: &'static str,
        id: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        StoreError::Corrupt { table, id: id.into(), source: source.into() }
    }
}

impl From<(&'static str, ParseError)> for StoreError {
    fn from((table, source): (&'static str, ParseError)) -> Self {
        StoreError::corrupt(table, source.text.clone(), source)
    }
}

pub type Result<T> = std::result::Result<T, StoreError>;

/// One App installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    pub id: i64,
    pub account: String,
    pub account_type: String,
    pub suspended: bool,
}

/// A webhook delivery as it was stored before it was acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// GitHub's delivery id.
    pub id: String,
    pub event: String,
    pub payload: String,
    pub received_at: Millis,
    pub attempts: u32,
}

/// What storing a delivery found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// New, or dead and queued again.
    Queued,
    /// Done, or still on its way.
    Known,
}

/// A claimed job of the outbox.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: String,
    pub kind: JobKind,
    pub payload: serde_json::Value,
    pub key: Option<String>,
    pub due_at: Millis,
    /// Earlier attempts that failed.
    pub attempts: u32,
    /// Raised each time the same key was asked for again; `finish` compares it.
    pub generation: i64,
}

/// How a claimed delivery or job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Try again at this time; counts as an attempt.
    Retry {
        at: Millis,
        error: String,
    },
    /// Given up; kept as a dead letter.
    Dead {
        error: String,
    },
    /// Not started, because it was not its turn: due again at this time, no attempt counted.
    Unstarted {
        at: Millis,
    },
}

/// Names one piece of the inbox or the outbox: `event:<delivery id>` or `job:<number>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueId {
    Event(String),
    Job(i64),
}

impl QueueId {
    /// `None` for what no piece can be called.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("event", id) if !id.is_empty() => Some(Self::Event(id.to_owned())),
            ("job", number) => number.parse().ok().map(Self::Job),
            _ => None,
        }
    }
}

impl std::fmt::Display for QueueId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Event(id) => write!(f, "event:{id}"),
            Self::Job(number) => write!(f, "job:{number}"),
        }
    }
}

/// A delivery or a job that waits, is being worked on, or is a dead letter, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    pub id: QueueId,
    /// The event's name, or the kind of the job.
    pub kind: String,
    pub key: Option<String>,
    /// Earlier attempts that failed.
    pub attempts: u32,
    /// When its turn comes; of a dead letter, when it died.
    pub due_at: Millis,
    /// Somebody works on it until then, or had died by then.
    pub claimed_until: Option<Millis>,
    pub dead: bool,
    /// Of the newest failed attempt; empty without one.
    pub last_error: String,
}

/// Which pieces of the queue are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueFilter {
    All,
    /// Only what was given up.
    Dead,
}

/// Who does something alone, and until when if not renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub holder: String,
    pub expires_at: Millis,
}

/// An API key; only its hash is ever stored.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ApiKey {
    pub id: String,
    pub name: String,
    /// SHA-256 hex of the whole key.
    pub key_hash: String,
    /// Its first characters, to recognise it by.
    pub prefix: String,
    pub created_by: String,
    pub created_at: Millis,
    pub expires_at: Option<Millis>,
    /// Empty means every repository.
    pub repos: Vec<String>,
    /// Any of `read`, `unlock`, `apply`.
    pub scopes: Vec<String>,
    pub last_used_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
}

/// What was last written to GitHub for one check or comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// GitHub's id; 0 when a person deleted it and it must not be made again.
    pub github_id: i64,
    /// Digest of what was written, so that equal content is not sent twice.
    pub digest: String,
    pub written_at: Millis,
}

/// Which runs a list shows; every field narrows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub repo_id: Option<i64>,
    pub pr_number: Option<i64>,
    pub mode: Option<Mode>,
    pub status: Option<RunStatus>,
    /// Not terminal, and not a finished plan.
    pub open_only: bool,
    pub sha: Option<Sha>,
    pub workflow_run_id: Option<i64>,
    /// Created before this `(time, id)`: the cursor of a list that runs newest first.
    pub before: Option<(Millis, RunId)>,
    pub limit: u32,
}

/// The newest state of a stack, as the overview and the stack list show it.
#[derive(Debug, Clone, PartialEq)]
pub struct StackRecord {
    pub id: StackId,
    pub repo_id: i64,
    pub key: StackKey,
    pub changed_at: Option<Millis>,
    pub removed_at: Option<Millis>,
    pub drift: Option<DriftSeen>,
    pub drift_issue: Option<i64>,
}

#[async_trait]
pub trait Store: Send + Sync {
    // -- reads ------------------------------------------------------------------------------------
    /// The scene of the pull request the run belongs to, or of the run alone.
    async fn scene(&self, run: &RunId) -> Result<Option<Scene>>;
    /// The scene of a pull request, also when it has no run yet. `None` when the repository is unknown.
    async fn pull_scene(&self, repo_id: i64, pr_number: i64) -> Result<Option<Scene>>;
    async fn run(&self, run: &RunId) -> Result<Option<Run>>;
    async fn rows(&self, run: &RunId) -> Result<Vec<Row>>;
    /// Newest first.
    async fn runs(&self, filter: &RunFilter) -> Result<Vec<Run>>;
    async fn plan_text(&self, run: &RunId, stack: &StackId) -> Result<Option<String>>;
    async fn graph(&self, repo_id: i64, sha: &Sha) -> Result<Option<Arc<Graph>>>;
    /// A graph with this client hash, uploaded for the same pull request or the default branch, and the commit it is stored
    /// under (design §14).
    async fn graph_by_tree_hash(&self, repo_id: i64, pr_number: i64, tree_hash: &str) -> Result<Option<Sha>>;
    /// The newest stored graph of a repository.
    async fn newest_graph(&self, repo_id: i64) -> Result<Option<Sha>>;
    async fn repo(&self, repo_id: i64) -> Result<Option<Repo>>;
    /// Compared without regard to case.
    async fn repo_by_name(&self, name: &RepoName) -> Result<Option<Repo>>;
    /// By full name.
    async fn repos(&self) -> Result<Vec<Repo>>;
    async fn installations(&self) -> Result<Vec<Installation>>;
    /// Every lock, by repository and stack key.
    async fn locks(&self, repo_id: Option<i64>) -> Result<Vec<Lock>>;
    /// Dispatches that have not completed, oldest first.
    async fn open_dispatches(&self) -> Result<Vec<Dispatch>>;
    async fn dispatch_by_workflow_run(&self, workflow_run_id: i64) -> Result<Option<Dispatch>>;
    async fn stacks(&self, repo_id: i64) -> Result<Vec<StackRecord>>;
    /// Newest first.
    async fn audit(&self, limit: u32, before_id: Option<i64>) -> Result<Vec<(i64, AuditEntry)>>;
    /// Audit rows of an action on a target since a time: rate limits and reminders.
    async fn audit_count(&self, action: &str, target: &str, pr_number: Option<i64>, since: Millis) -> Result<u32>;
    async fn was_claimed(&self, once: &str) -> Result<bool>;
    /// Run statuses and their numbers over all repositories.
    async fn runs_by_status(&self) -> Result<BTreeMap<RunStatus, u64>>;

    // -- the one write ----------------------------------------------------------------------------
    /// Everything in `changes`, or nothing. A moved version, a taken lock, a second open apply or a name claimed before is
    /// [`StoreError::Conflict`].
    async fn commit(&self, changes: Changes) -> Result<()>;

    // -- repositories -----------------------------------------------------------------------------
    async fn save_installation(&self, installation: &Installation) -> Result<()>;
    /// Forgets it with everything under it.
    async fn delete_installation(&self, id: i64) -> Result<()>;
    /// Inserts or updates name, branch, visibility and installation; configuration and graph stay. A name that another
    /// repository has is a conflict.
    async fn save_repo(&self, repo: &Repo) -> Result<()>;
    async fn save_config(
        &self,
        repo_id: i64,
        config: Option<&crate::config::model::RepoConfig>,
        sha: &str,
    ) -> Result<()>;
    async fn delete_repo(&self, repo_id: i64) -> Result<()>;
    async fn save_drift_issue(&self, stack: &StackId, issue: Option<i64>) -> Result<()>;
    async fn add_audit(&self, entry: &AuditEntry) -> Result<()>;

    // -- inbox ------------------------------------------------------------------------------------
    async fn store_delivery(&self, id: &str, event: &str, payload: &str, now: Millis) -> Result<Stored>;
    async fn claim_delivery(&self, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Delivery>>;
    /// Prolongs a claim while its work goes on. False when the caller does not hold it (any more): somebody else works on it,
    /// or nobody has to.
    async fn renew_delivery(&self, id: &str, worker: &str, now: Millis, lease_ms: Millis) -> Result<bool>;
    async fn finish_delivery(&self, id: &str, worker: &str, outcome: &Outcome, now: Millis) -> Result<()>;

    // -- outbox -----------------------------------------------------------------------------------
    /// A key that waits already takes the newest payload and the earlier time; a dead one lives again.
    async fn add_job(&self, job: &NewJob) -> Result<()>;
    async fn claim_job(&self, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Job>>;
    /// The same, of one kind alone.
    async fn claim_job_of(&self, kind: JobKind, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Job>>;
    /// As [`Store::renew_delivery`].
    async fn renew_job(&self, job: &Job, worker: &str, now: Millis, lease_ms: Millis) -> Result<bool>;
    /// `Done` or `Dead` of a keyed job that was asked for again meanwhile makes it due again at once. A caller whose lease went
    /// to somebody else changes nothing.
    async fn finish_job(&self, job: &Job, worker: &str, outcome: &Outcome, now: Millis) -> Result<()>;
    /// What is in inbox and outbox and not done, at most `limit` of it: earliest due first, deliveries before jobs.
    async fn queue(&self, filter: QueueFilter, limit: u32) -> Result<Vec<Queued>>;
    /// Puts a dead letter back, due now and with all its attempts, and writes the audit entry with it. False, and nothing
    /// written, when there is no such dead letter (any more).
    async fn revive(&self, id: &QueueId, now: Millis, audit: &AuditEntry) -> Result<bool>;
    /// The earliest time at which a delivery or job becomes due, `None` when nothing waits. A claimed one is due when its lease
    /// ends.
    async fn next_due(&self) -> Result<Option<Millis>>;

    // -- small things -----------------------------------------------------------------------------
    /// True once for each token id; false ever after, until it expires.
    async fn use_token_id(&self, jti: &str, expires_at: Millis, now: Millis) -> Result<bool>;
    /// A revocation stays and the newest use counts, whatever the caller had read. A hash of another key is a conflict.
    async fn save_api_key(&self, key: &ApiKey) -> Result<()>;
    /// Notes a use of the key, and nothing else about it; an earlier use than the noted one, or an unknown key, changes nothing.
    async fn touch_api_key(&self, id: &str, at: Millis) -> Result<()>;
    async fn api_key_by_hash(&self, hash: &str) -> Result<Option<ApiKey>>;
    async fn api_keys(&self) -> Result<Vec<ApiKey>>;
    async fn rendered(&self, scope: &str, name: &str) -> Result<Option<Rendered>>;
    /// All names of a scope.
    async fn rendered_in(&self, scope: &str) -> Result<BTreeMap<String, Rendered>>;
    async fn save_rendered(&self, scope: &str, name: &str, rendered: &Rendered) -> Result<()>;
    /// True when the caller now holds the lease: it was free, expired, or already the caller's.
    async fn take_lease(&self, name: &str, holder: &str, now: Millis, ttl_ms: Millis) -> Result<bool>;
    async fn release_lease(&self, name: &str, holder: &str) -> Result<()>;
    /// Who took it last and did not give it up; it may have expired.
    async fn lease(&self, name: &str) -> Result<Option<Lease>>;
    /// Called once by a server that starts. Where one process at a time serves (SQLite, memory), claims and leases of an
    /// earlier one end now; elsewhere they may be another replica's and end by themselves.
    async fn take_over(&self) -> Result<()>;
    /// Drops what retention no longer keeps; returns how many rows went.
    async fn prune(&self, now: Millis, keep: &Retention) -> Result<u64>;
    /// Answers when the database does.
    async fn ping(&self) -> Result<()>;
    /// Waits for what is under way and ends every connection; nothing can be asked afterwards. A SQLite file then holds
    /// everything by itself: its log is written into it and removed, unless another process has it open.
    async fn close(&self);
}

/// How long what is kept (spec 21 §8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    pub plan_text_ms: Millis,
    pub events_ms: Millis,
    pub drift_ms: Millis,
}
