//! The store over SQL, once for both databases.
//!
//! - `value`: from rows to values and back.
//! - `scene`, `runs`: what decisions and lists read.
//! - `commit`: the one write.
//! - `arrivals`: what comes into the inbox; `queue`: inbox and outbox from there on.
//! - `dead_letters`: what an operator sees of both and puts back.
//! - `repos`, `stacks`, `graphs`: installations, repositories and what they consist of.
//! - `small`: audit, keys, leases and the like; `retention`: what goes when its time is over.

mod arrivals;
mod commit;
mod dead_letters;
mod graphs;
mod queue;
mod repos;
mod retention;
mod runs;
mod scene;
mod small;
mod stacks;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, Pool, Transaction, Type};

use self::arrivals::Arrivals;
use self::graphs::GraphCache;
use super::dialect::Dialect;
use super::{
    ApiKey, Delivery, Installation, Job, Lease, Outcome, QueueFilter, QueueId, Queued, Rendered, Result, Retention,
    RunFilter, StackRecord, Store, StoreError, Stored,
};
use crate::clock::Millis;
use crate::config::model::RepoConfig;
use crate::graph::model::Graph;
use crate::ids::{RepoName, RunId, Sha, StackId};
use crate::run::model::{AuditEntry, Dispatch, Lock, Repo, Row, Run};
use crate::run::scene::{Changes, JobKind, NewJob, Scene};
use crate::run::status::RunStatus;

pub struct SqlStore<DB: Dialect> {
    pool: Pool<DB>,
    /// The same pool, or the one connection of a database that has one writer: waiting for it here is fair and short, while
    /// SQLite's own waiting sleeps and tries again.
    writer: Pool<DB>,
    graphs: GraphCache,
    arrivals: Arrivals,
}

impl<DB: Dialect> SqlStore<DB> {
    pub(super) fn new(pool: Pool<DB>, writer: Pool<DB>) -> Self {
        Self { pool, writer, graphs: GraphCache::default(), arrivals: Arrivals::default() }
    }

    async fn begin_read(&self) -> Result<Transaction<'static, DB>> {
        Ok(self.pool.begin_with(DB::BEGIN_READ).await?)
    }

    async fn begin_write(&self) -> Result<Transaction<'static, DB>> {
        Ok(self.writer.begin_with(DB::BEGIN_WRITE).await?)
    }
}

/// Commits on success. A failed transaction is rolled back before the caller hears of it, so that its locks are gone.
async fn end<DB: Dialect, T>(tx: Transaction<'static, DB>, outcome: Result<T>) -> Result<T> {
    match outcome {
        Ok(value) => {
            tx.commit().await?;
            Ok(value)
        }
        Err(error) => {
            // The first error is the one worth telling; a connection that cannot roll back is dropped with its transaction.
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

/// Postgres aborts one of two transactions that wait for each other, or that cannot be put in a row.
const SERIALIZATION_FAILURE: &str = "40001";
const DEADLOCK_DETECTED: &str = "40P01";

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let lost_race = error.as_database_error().is_some_and(|error| {
            error.is_unique_violation()
                || error.code().is_some_and(|code| matches!(code.as_ref(), SERIALIZATION_FAILURE | DEADLOCK_DETECTED))
        });
        if lost_race { StoreError::Conflict(Vec::new()) } else { StoreError::Db(Box::new(error)) }
    }
}

/// Each method is written where its subject is; this is the list.
#[async_trait]
impl<DB: Dialect> Store for SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> bool: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> Option<String>: Encode<'q, DB>,
    for<'q> Option<i64>: Encode<'q, DB>,
    usize: ColumnIndex<DB::Row>,
{
    async fn scene(&self, run: &RunId) -> Result<Option<Scene>> {
        self.load_scene(run).await
    }

    async fn pull_scene(&self, repo_id: i64, pr_number: i64) -> Result<Option<Scene>> {
        self.load_pull_scene(repo_id, pr_number).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<Run>> {
        self.find_run(run).await
    }

    async fn rows(&self, run: &RunId) -> Result<Vec<Row>> {
        self.list_rows(run).await
    }

    async fn runs(&self, filter: &RunFilter) -> Result<Vec<Run>> {
        self.list_runs(filter).await
    }

    async fn plan_text(&self, run: &RunId, stack: &StackId) -> Result<Option<String>> {
        self.find_plan_text(run, stack).await
    }

    async fn graph(&self, repo_id: i64, sha: &Sha) -> Result<Option<Arc<Graph>>> {
        self.find_graph(repo_id, sha).await
    }

    async fn graph_by_tree_hash(&self, repo_id: i64, pr_number: i64, tree_hash: &str) -> Result<Option<Sha>> {
        self.find_graph_by_tree_hash(repo_id, pr_number, tree_hash).await
    }

    async fn newest_graph(&self, repo_id: i64) -> Result<Option<Sha>> {
        self.find_newest_graph(repo_id).await
    }

    async fn repo(&self, repo_id: i64) -> Result<Option<Repo>> {
        self.find_repo(repo_id).await
    }

    async fn repo_by_name(&self, name: &RepoName) -> Result<Option<Repo>> {
        self.find_repo_by_name(name).await
    }

    async fn repos(&self) -> Result<Vec<Repo>> {
        self.list_repos().await
    }

    async fn installations(&self) -> Result<Vec<Installation>> {
        self.list_installations().await
    }

    async fn locks(&self, repo_id: Option<i64>) -> Result<Vec<Lock>> {
        self.list_locks(repo_id).await
    }

    async fn open_dispatches(&self) -> Result<Vec<Dispatch>> {
        self.list_open_dispatches().await
    }

    async fn dispatch_by_workflow_run(&self, workflow_run_id: i64) -> Result<Option<Dispatch>> {
        self.find_dispatch_by_workflow_run(workflow_run_id).await
    }

    async fn stacks(&self, repo_id: i64) -> Result<Vec<StackRecord>> {
        self.list_stacks(repo_id).await
    }

    async fn audit(&self, limit: u32, before_id: Option<i64>) -> Result<Vec<(i64, AuditEntry)>> {
        self.list_audit(limit, before_id).await
    }

    async fn audit_count(&self, action: &str, target: &str, pr_number: Option<i64>, since: Millis) -> Result<u32> {
        self.count_audit(action, target, pr_number, since).await
    }

    async fn was_claimed(&self, once: &str) -> Result<bool> {
        self.is_claimed(once).await
    }

    async fn runs_by_status(&self) -> Result<BTreeMap<RunStatus, u64>> {
        self.count_runs_by_status().await
    }

    async fn commit(&self, changes: Changes) -> Result<()> {
        self.write_changes(&changes).await
    }

    async fn save_installation(&self, installation: &Installation) -> Result<()> {
        self.write_installation(installation).await
    }

    async fn delete_installation(&self, id: i64) -> Result<()> {
        self.forget_installation(id).await
    }

    async fn save_repo(&self, repo: &Repo) -> Result<()> {
        self.write_repo(repo).await
    }

    async fn save_config(&self, repo_id: i64, config: Option<&RepoConfig>, sha: &str) -> Result<()> {
        self.write_config(repo_id, config, sha).await
    }

    async fn delete_repo(&self, repo_id: i64) -> Result<()> {
        self.forget_repo(repo_id).await
    }

    async fn save_drift_issue(&self, stack: &StackId, issue: Option<i64>) -> Result<()> {
        self.write_drift_issue(stack, issue).await
    }

    async fn add_audit(&self, entry: &AuditEntry) -> Result<()> {
        self.write_audit(entry).await
    }

    async fn store_delivery(&self, id: &str, event: &str, payload: &str, now: Millis) -> Result<Stored> {
        self.queue_delivery(id, event, payload, now).await
    }

    async fn claim_delivery(&self, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Delivery>> {
        self.next_delivery(worker, now, lease_ms).await
    }

    async fn renew_delivery(&self, id: &str, worker: &str, now: Millis, lease_ms: Millis) -> Result<bool> {
        self.prolong_delivery(id, worker, now, lease_ms).await
    }

    async fn finish_delivery(&self, id: &str, worker: &str, outcome: &Outcome, now: Millis) -> Result<()> {
        self.end_delivery(id, worker, outcome, now).await
    }

    async fn add_job(&self, job: &NewJob) -> Result<()> {
        self.queue_job(job).await
    }

    async fn claim_job(&self, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Job>> {
        self.next_job(None, worker, now, lease_ms).await
    }

    async fn claim_job_of(&self, kind: JobKind, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Job>> {
        self.next_job(Some(kind), worker, now, lease_ms).await
    }

    async fn renew_job(&self, job: &Job, worker: &str, now: Millis, lease_ms: Millis) -> Result<bool> {
        self.prolong_job(job, worker, now, lease_ms).await
    }

    async fn finish_job(&self, job: &Job, worker: &str, outcome: &Outcome, now: Millis) -> Result<()> {
        self.end_job(job, worker, outcome, now).await
    }

    async fn queue(&self, filter: QueueFilter, limit: u32) -> Result<Vec<Queued>> {
        self.list_queue(filter, limit).await
    }

    async fn revive(&self, id: &QueueId, now: Millis, audit: &AuditEntry) -> Result<bool> {
        self.put_back(id, now, audit).await
    }

    async fn next_due(&self) -> Result<Option<Millis>> {
        self.earliest_due().await
    }

    async fn use_token_id(&self, jti: &str, expires_at: Millis, now: Millis) -> Result<bool> {
        self.claim_token_id(jti, expires_at, now).await
    }

    async fn save_api_key(&self, key: &ApiKey) -> Result<()> {
        self.write_api_key(key).await
    }

    async fn touch_api_key(&self, id: &str, at: Millis) -> Result<()> {
        self.stamp_api_key(id, at).await
    }

    async fn api_key_by_hash(&self, hash: &str) -> Result<Option<ApiKey>> {
        self.find_api_key(hash).await
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>> {
        self.list_api_keys().await
    }

    async fn rendered(&self, scope: &str, name: &str) -> Result<Option<Rendered>> {
        self.find_rendered(scope, name).await
    }

    async fn rendered_in(&self, scope: &str) -> Result<BTreeMap<String, Rendered>> {
        self.list_rendered(scope).await
    }

    async fn save_rendered(&self, scope: &str, name: &str, rendered: &Rendered) -> Result<()> {
        self.write_rendered(scope, name, rendered).await
    }

    async fn take_lease(&self, name: &str, holder: &str, now: Millis, ttl_ms: Millis) -> Result<bool> {
        self.claim_lease(name, holder, now, ttl_ms).await
    }

    async fn release_lease(&self, name: &str, holder: &str) -> Result<()> {
        self.drop_lease(name, holder).await
    }

    async fn lease(&self, name: &str) -> Result<Option<Lease>> {
        self.find_lease(name).await
    }

    async fn take_over(&self) -> Result<()> {
        if DB::ONE_PROCESS { self.end_all_claims().await } else { Ok(()) }
    }

    async fn prune(&self, now: Millis, keep: &Retention) -> Result<u64> {
        self.drop_expired(now, keep).await
    }

    async fn ping(&self) -> Result<()> {
        self.answer().await
    }

    async fn close(&self) {
        self.pool.close().await;
        self.writer.close().await;
    }
}
