//! The store behind the boundary that may fail: commits conflict, get lost, or are answered with an error although they
//! were written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use stackorder::clock::{Millis, SECOND_MS};
use stackorder::config::model::RepoConfig;
use stackorder::graph::model::Graph;
use stackorder::ids::{RepoName, RunId, Sha, StackId};
use stackorder::run::model::{AuditEntry, Dispatch, Lock, Repo, Row, Run};
use stackorder::run::scene::{Changes, JobKind, NewJob, Scene};
use stackorder::run::status::RunStatus;
use stackorder::store::*;

use super::faults::Faults;
use super::laws::Laws;

/// Checks and comments are written this late.
const RENDER_AFTER_MS: Millis = 8 * SECOND_MS;

pub struct Database {
    pub inner: Arc<MemoryStore>,
    pub faults: Arc<Faults>,
    pub laws: Arc<Mutex<Laws>>,
}

fn lost() -> StoreError {
    StoreError::Db("the connection was lost".into())
}

/// A rendering waits for the next ones, which replace it, as GitHub's limits make it wait in production.
fn wait_to_render(job: &mut NewJob) {
    if job.kind == JobKind::Render && job.key.is_some() {
        job.due_at += RENDER_AFTER_MS;
    }
}

impl Database {
    async fn read(&self) -> Result<()> {
        self.faults.cross("a server died before a read").await;
        if self.faults.hits("the database did not answer", 400) { Err(lost()) } else { Ok(()) }
    }
}

#[async_trait]
impl Store for Database {
    async fn commit(&self, mut changes: Changes) -> Result<()> {
        changes.effects.jobs.iter_mut().for_each(wait_to_render);
        self.faults.cross("a server died before it committed").await;
        if self.faults.hits("a commit conflicted for nothing", 60) {
            return Err(StoreError::Conflict(Vec::new()));
        }
        if self.faults.hits("a commit did not reach the database", 200) {
            return Err(lost());
        }
        let written = self.inner.commit(changes.clone()).await;
        match &written {
            Ok(()) => self.laws.lock().expect("one thread").committed(&changes),
            Err(StoreError::Conflict(_)) => self.laws.lock().expect("one thread").conflicts += 1,
            Err(_) => {}
        }
        if written.is_ok() && self.faults.hits("a commit was written and answered with an error", 200) {
            return Err(lost());
        }
        self.faults.cross("a server died after it committed").await;
        written
    }

    async fn take_over(&self) -> Result<()> {
        // Two servers share this database: neither takes the other's claims.
        Ok(())
    }

    async fn close(&self) {}

    async fn scene(&self, run: &RunId) -> Result<Option<Scene>> {
        self.read().await?;
        self.inner.scene(run).await
    }
    async fn pull_scene(&self, repo_id: i64, pr_number: i64) -> Result<Option<Scene>> {
        self.read().await?;
        self.inner.pull_scene(repo_id, pr_number).await
    }
    async fn run(&self, run: &RunId) -> Result<Option<Run>> {
        self.read().await?;
        self.inner.run(run).await
    }
    async fn rows(&self, run: &RunId) -> Result<Vec<Row>> {
        self.read().await?;
        self.inner.rows(run).await
    }
    async fn runs(&self, filter: &RunFilter) -> Result<Vec<Run>> {
        self.read().await?;
        self.inner.runs(filter).await
    }
    async fn plan_text(&self, run: &RunId, stack: &StackId) -> Result<Option<String>> {
        self.read().await?;
        self.inner.plan_text(run, stack).await
    }
    async fn graph(&self, repo_id: i64, sha: &Sha) -> Result<Option<Arc<Graph>>> {
        self.read().await?;
        self.inner.graph(repo_id, sha).await
    }
    async fn graph_by_tree_hash(&self, repo_id: i64, pr_number: i64, tree_hash: &str) -> Result<Option<Sha>> {
        self.read().await?;
        self.inner.graph_by_tree_hash(repo_id, pr_number, tree_hash).await
    }
    async fn newest_graph(&self, repo_id: i64) -> Result<Option<Sha>> {
        self.read().await?;
        self.inner.newest_graph(repo_id).await
    }
    async fn repo(&self, repo_id: i64) -> Result<Option<Repo>> {
        self.read().await?;
        self.inner.repo(repo_id).await
    }
    async fn repo_by_name(&self, name: &RepoName) -> Result<Option<Repo>> {
        self.read().await?;
        self.inner.repo_by_name(name).await
    }
    async fn repos(&self) -> Result<Vec<Repo>> {
        self.read().await?;
        self.inner.repos().await
    }
    async fn installations(&self) -> Result<Vec<Installation>> {
        self.read().await?;
        self.inner.installations().await
    }
    async fn locks(&self, repo_id: Option<i64>) -> Result<Vec<Lock>> {
        self.read().await?;
        self.inner.locks(repo_id).await
    }
    async fn open_dispatches(&self) -> Result<Vec<Dispatch>> {
        self.read().await?;
        self.inner.open_dispatches().await
    }
    async fn dispatch_by_workflow_run(&self, workflow_run_id: i64) -> Result<Option<Dispatch>> {
        self.read().await?;
        self.inner.dispatch_by_workflow_run(workflow_run_id).await
    }
    async fn stacks(&self, repo_id: i64) -> Result<Vec<StackRecord>> {
        self.read().await?;
        self.inner.stacks(repo_id).await
    }
    async fn audit(&self, limit: u32, before_id: Option<i64>) -> Result<Vec<(i64, AuditEntry)>> {
        self.read().await?;
        self.inner.audit(limit, before_id).await
    }
    async fn audit_count(&self, action: &str, target: &str, pr_number: Option<i64>, since: Millis) -> Result<u32> {
        self.read().await?;
        self.inner.audit_count(action, target, pr_number, since).await
    }
    async fn was_claimed(&self, once: &str) -> Result<bool> {
        self.read().await?;
        self.inner.was_claimed(once).await
    }
    async fn runs_by_status(&self) -> Result<BTreeMap<RunStatus, u64>> {
        self.read().await?;
        self.inner.runs_by_status().await
    }
    async fn save_installation(&self, installation: &Installation) -> Result<()> {
        self.read().await?;
        self.inner.save_installation(installation).await
    }
    async fn delete_installation(&self, id: i64) -> Result<()> {
        self.read().await?;
        self.inner.delete_installation(id).await
    }
    async fn save_repo(&self, repo: &Repo) -> Result<()> {
        self.read().await?;
        self.inner.save_repo(repo).await
    }
    async fn save_config(&self, repo_id: i64, config: Option<&RepoConfig>, sha: &str) -> Result<()> {
        self.read().await?;
        self.inner.save_config(repo_id, config, sha).await
    }
    async fn delete_repo(&self, repo_id: i64) -> Result<()> {
        self.read().await?;
        self.inner.delete_repo(repo_id).await
    }
    async fn save_drift_issue(&self, stack: &StackId, issue: Option<i64>) -> Result<()> {
        self.read().await?;
        self.inner.save_drift_issue(stack, issue).await
    }
    async fn add_audit(&self, entry: &AuditEntry) -> Result<()> {
        self.read().await?;
        self.inner.add_audit(entry).await
    }
    async fn store_delivery(&self, id: &str, event: &str, payload: &str, now: Millis) -> Result<Stored> {
        self.read().await?;
        self.inner.store_delivery(id, event, payload, now).await
    }
    async fn claim_delivery(&self, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Delivery>> {
        self.read().await?;
        self.inner.claim_delivery(worker, now, lease_ms).await
    }
    async fn renew_delivery(&self, id: &str, worker: &str, now: Millis, lease_ms: Millis) -> Result<bool> {
        self.read().await?;
        self.inner.renew_delivery(id, worker, now, lease_ms).await
    }
    async fn finish_delivery(&self, id: &str, worker: &str, outcome: &Outcome, now: Millis) -> Result<()> {
        self.read().await?;
        self.inner.finish_delivery(id, worker, outcome, now).await
    }
    async fn add_job(&self, job: &NewJob) -> Result<()> {
        self.read().await?;
        self.laws.lock().expect("one thread").added(job);
        let mut job = job.clone();
        wait_to_render(&mut job);
        self.inner.add_job(&job).await
    }
    async fn claim_job(&self, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Job>> {
        self.read().await?;
        self.inner.claim_job(worker, now, lease_ms).await
    }
    async fn claim_job_of(&self, kind: JobKind, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Job>> {
        self.read().await?;
        self.inner.claim_job_of(kind, worker, now, lease_ms).await
    }
    async fn renew_job(&self, job: &Job, worker: &str, now: Millis, lease_ms: Millis) -> Result<bool> {
        self.read().await?;
        self.inner.renew_job(job, worker, now, lease_ms).await
    }
    async fn finish_job(&self, job: &Job, worker: &str, outcome: &Outcome, now: Millis) -> Result<()> {
        self.read().await?;
        self.inner.finish_job(job, worker, outcome, now).await
    }
    async fn queue(&self, filter: QueueFilter, limit: u32) -> Result<Vec<Queued>> {
        self.read().await?;
        self.inner.queue(filter, limit).await
    }
    async fn revive(&self, id: &QueueId, now: Millis, audit: &AuditEntry) -> Result<bool> {
        self.read().await?;
        self.inner.revive(id, now, audit).await
    }
    async fn next_due(&self) -> Result<Option<Millis>> {
        self.read().await?;
        self.inner.next_due().await
    }
    async fn use_token_id(&self, jti: &str, expires_at: Millis, now: Millis) -> Result<bool> {
        self.read().await?;
        self.inner.use_token_id(jti, expires_at, now).await
    }
    async fn save_api_key(&self, key: &ApiKey) -> Result<()> {
        self.read().await?;
        self.inner.save_api_key(key).await
    }
    async fn touch_api_key(&self, id: &str, at: Millis) -> Result<()> {
        self.read().await?;
        self.inner.touch_api_key(id, at).await
    }
    async fn api_key_by_hash(&self, hash: &str) -> Result<Option<ApiKey>> {
        self.read().await?;
        self.inner.api_key_by_hash(hash).await
    }
    async fn api_keys(&self) -> Result<Vec<ApiKey>> {
        self.read().await?;
        self.inner.api_keys().await
    }
    async fn rendered(&self, scope: &str, name: &str) -> Result<Option<Rendered>> {
        self.read().await?;
        self.inner.rendered(scope, name).await
    }
    async fn rendered_in(&self, scope: &str) -> Result<BTreeMap<String, Rendered>> {
        self.read().await?;
        self.inner.rendered_in(scope).await
    }
    async fn save_rendered(&self, scope: &str, name: &str, rendered: &Rendered) -> Result<()> {
        self.read().await?;
        self.inner.save_rendered(scope, name, rendered).await
    }
    async fn take_lease(&self, name: &str, holder: &str, now: Millis, ttl_ms: Millis) -> Result<bool> {
        self.read().await?;
        self.inner.take_lease(name, holder, now, ttl_ms).await
    }
    async fn release_lease(&self, name: &str, holder: &str) -> Result<()> {
        self.read().await?;
        self.inner.release_lease(name, holder).await
    }
    async fn lease(&self, name: &str) -> Result<Option<Lease>> {
        self.read().await?;
        self.inner.lease(name).await
    }
    async fn prune(&self, now: Millis, keep: &Retention) -> Result<u64> {
        self.read().await?;
        self.inner.prune(now, keep).await
    }
    async fn ping(&self) -> Result<()> {
        self.read().await?;
        self.inner.ping().await
    }
}
