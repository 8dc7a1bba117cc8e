//! The store over maps under one mutex: for the simulation, and for tests that want no database.
//!
//! - `tables`: repositories, runs and what hangs on them; the one write.
//! - `queue`: inbox and outbox.

mod queue;
mod tables;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use self::queue::Queue;
use self::tables::{KeptGraph, Tables, refused, taken};
use super::rules::{audit_pr, clean};
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
use crate::run::status::{Mode, RunStatus};

/// Forgets everything when it is dropped.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    tables: Tables,
    queue: Queue,
    /// Numbered from 1 by position.
    audit: Vec<AuditEntry>,
    token_ids: BTreeMap<String, Millis>,
    api_keys: BTreeMap<String, ApiKey>,
    rendered: BTreeMap<(String, String), Rendered>,
    leases: BTreeMap<String, (String, Millis)>,
}

impl MemoryStore {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is made whole or on a copy, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn record(&mut self, entry: &AuditEntry) {
        self.audit.push(AuditEntry {
            actor: clean(&entry.actor).into_owned(),
            action: clean(&entry.action).into_owned(),
            target: clean(&entry.target).into_owned(),
            ..entry.clone()
        });
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn scene(&self, run: &RunId) -> Result<Option<Scene>> {
        Ok(self.state().tables.scene(run))
    }

    async fn pull_scene(&self, repo_id: i64, pr_number: i64) -> Result<Option<Scene>> {
        Ok(self.state().tables.pull_scene(repo_id, pr_number))
    }

    async fn run(&self, run: &RunId) -> Result<Option<Run>> {
        Ok(self.state().tables.runs.get(run).map(|run| Run::clone(run)))
    }

    async fn rows(&self, run: &RunId) -> Result<Vec<Row>> {
        Ok(self.state().tables.rows_of(run))
    }

    async fn runs(&self, filter: &RunFilter) -> Result<Vec<Run>> {
        let state = self.state();
        let mut runs: Vec<&Arc<Run>> = state.tables.runs.values().filter(|run| passes(run, filter)).collect();
        runs.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        Ok(runs.into_iter().take(limit).map(|run| Run::clone(run)).collect())
    }

    async fn plan_text(&self, run: &RunId, stack: &StackId) -> Result<Option<String>> {
        Ok(self.state().tables.plan_texts.get(&(run.clone(), stack.clone())).map(|text| text.to_string()))
    }

    async fn graph(&self, repo_id: i64, sha: &Sha) -> Result<Option<Arc<Graph>>> {
        let state = self.state();
        Ok(state.tables.graphs.get(&(repo_id, sha.clone())).map(|stored| Arc::clone(&stored.graph)))
    }

    async fn graph_by_tree_hash(&self, repo_id: i64, pr_number: i64, tree_hash: &str) -> Result<Option<Sha>> {
        let state = self.state();
        let default = state.tables.repos.get(&repo_id).and_then(|repo| repo.default_graph.as_ref());
        let counts = |sha: &Sha, stored: &KeptGraph| {
            !tree_hash.is_empty()
                && stored.tree_hash == *clean(tree_hash)
                && (stored.pr_number == pr_number || stored.pr_number == 0 || default == Some(sha))
        };
        Ok(state.tables.newest_graph(repo_id, counts))
    }

    async fn newest_graph(&self, repo_id: i64) -> Result<Option<Sha>> {
        Ok(self.state().tables.newest_graph(repo_id, |_, _| true))
    }

    async fn repo(&self, repo_id: i64) -> Result<Option<Repo>> {
        Ok(self.state().tables.repo(repo_id))
    }

    async fn repo_by_name(&self, name: &RepoName) -> Result<Option<Repo>> {
        let tables = &self.state().tables;
        let found = tables.repos.values().find(|repo| repo.full_name.same_as(name.as_str()));
        Ok(found.and_then(|repo| tables.repo(repo.id)))
    }

    async fn repos(&self) -> Result<Vec<Repo>> {
        let tables = &self.state().tables;
        let mut repos: Vec<Repo> = tables.repos.keys().filter_map(|id| tables.repo(*id)).collect();
        repos.sort_by(|a, b| a.full_name.cmp(&b.full_name));
        Ok(repos)
    }

    async fn installations(&self) -> Result<Vec<Installation>> {
        Ok(self.state().tables.installations.values().cloned().collect())
    }

    async fn locks(&self, repo_id: Option<i64>) -> Result<Vec<Lock>> {
        let state = self.state();
        let locks = state.tables.locks.values().filter(|lock| repo_id.is_none_or(|id| lock.repo_id == id));
        let mut locks: Vec<Lock> = locks.cloned().collect();
        locks.sort_by(|a, b| (a.repo_id, &a.key).cmp(&(b.repo_id, &b.key)));
        Ok(locks)
    }

    async fn open_dispatches(&self) -> Result<Vec<Dispatch>> {
        let state = self.state();
        let open = state.tables.dispatches.values().filter(|dispatch| dispatch.completed_at.is_none());
        let mut open: Vec<Dispatch> = open.map(|dispatch| Dispatch::clone(dispatch)).collect();
        open.sort_by(|a, b| (a.dispatched_at, &a.id).cmp(&(b.dispatched_at, &b.id)));
        Ok(open)
    }

    async fn dispatch_by_workflow_run(&self, workflow_run_id: i64) -> Result<Option<Dispatch>> {
        let state = self.state();
        let found = state.tables.dispatches.values().find(|one| one.workflow_run_id == Some(workflow_run_id));
        Ok(found.map(|dispatch| Dispatch::clone(dispatch)))
    }

    async fn stacks(&self, repo_id: i64) -> Result<Vec<StackRecord>> {
        Ok(self.state().tables.stacks(repo_id))
    }

    async fn audit(&self, limit: u32, before_id: Option<i64>) -> Result<Vec<(i64, AuditEntry)>> {
        let state = self.state();
        let numbered = (1_i64..).zip(&state.audit).filter(|(id, _)| before_id.is_none_or(|before| *id < before));
        let mut entries: Vec<(i64, AuditEntry)> = numbered.map(|(id, entry)| (id, entry.clone())).collect();
        entries.reverse();
        entries.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(entries)
    }

    async fn audit_count(&self, action: &str, target: &str, pr_number: Option<i64>, since: Millis) -> Result<u32> {
        let state = self.state();
        let counts = |entry: &&AuditEntry| {
            entry.action == *clean(action)
                && entry.target == *clean(target)
                && entry.at >= since
                && (pr_number.is_none() || audit_pr(entry) == pr_number)
        };
        Ok(u32::try_from(state.audit.iter().filter(counts).count()).unwrap_or(u32::MAX))
    }

    async fn was_claimed(&self, once: &str) -> Result<bool> {
        Ok(self.state().tables.once.contains(&*clean(once)))
    }

    async fn runs_by_status(&self) -> Result<BTreeMap<RunStatus, u64>> {
        let mut numbers = BTreeMap::new();
        for run in self.state().tables.runs.values() {
            *numbers.entry(run.status).or_default() += 1;
        }
        Ok(numbers)
    }

    async fn commit(&self, changes: Changes) -> Result<()> {
        let mut state = self.state();
        let mut tables = state.tables.clone();
        tables.write(&changes)?;
        // Nothing below can fail.
        state.tables = tables;
        for entry in &changes.effects.audit {
            state.record(entry);
        }
        for job in &changes.effects.jobs {
            state.queue.add_job(job);
        }
        Ok(())
    }

    async fn save_installation(&self, installation: &Installation) -> Result<()> {
        self.state().tables.installations.insert(installation.id, installation.clone());
        Ok(())
    }

    async fn delete_installation(&self, id: i64) -> Result<()> {
        self.state().tables.forget_installation(id);
        Ok(())
    }

    async fn save_repo(&self, repo: &Repo) -> Result<()> {
        let tables = &mut self.state().tables;
        if !tables.installations.contains_key(&repo.installation_id) {
            return Err(refused("a repository without its installation"));
        }
        let has_name = |other: &Repo| other.id != repo.id && other.full_name.same_as(repo.full_name.as_str());
        if tables.repos.values().any(has_name) {
            return Err(taken());
        }
        let (config, config_sha, default_graph) = match tables.repos.remove(&repo.id) {
            Some(stored) => (stored.config, stored.config_sha, stored.default_graph),
            None => (None, String::new(), None),
        };
        tables.repos.insert(repo.id, Repo { config, config_sha, default_graph, ..repo.clone() });
        Ok(())
    }

    async fn save_config(&self, repo_id: i64, config: Option<&RepoConfig>, sha: &str) -> Result<()> {
        if let Some(repo) = self.state().tables.repos.get_mut(&repo_id) {
            repo.config = config.cloned().map(Arc::new);
            repo.config_sha = sha.to_owned();
        }
        Ok(())
    }

    async fn delete_repo(&self, repo_id: i64) -> Result<()> {
        self.state().tables.forget_repo(repo_id);
        Ok(())
    }

    async fn save_drift_issue(&self, stack: &StackId, issue: Option<i64>) -> Result<()> {
        if let Some(stack) = Arc::make_mut(&mut self.state().tables.stacks).get_mut(stack) {
            stack.drift_issue = issue;
        }
        Ok(())
    }

    async fn add_audit(&self, entry: &AuditEntry) -> Result<()> {
        self.state().record(entry);
        Ok(())
    }

    async fn store_delivery(&self, id: &str, event: &str, payload: &str, now: Millis) -> Result<Stored> {
        Ok(self.state().queue.store_delivery(id, event, payload, now))
    }

    async fn claim_delivery(&self, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Delivery>> {
        Ok(self.state().queue.claim_delivery(worker, now, lease_ms))
    }

    async fn renew_delivery(&self, id: &str, worker: &str, now: Millis, lease_ms: Millis) -> Result<bool> {
        Ok(self.state().queue.renew_delivery(id, worker, now, lease_ms))
    }

    async fn finish_delivery(&self, id: &str, worker: &str, outcome: &Outcome, now: Millis) -> Result<()> {
        self.state().queue.finish_delivery(id, worker, outcome, now);
        Ok(())
    }

    async fn add_job(&self, job: &NewJob) -> Result<()> {
        self.state().queue.add_job(job);
        Ok(())
    }

    async fn claim_job(&self, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Job>> {
        Ok(self.state().queue.claim_job(None, worker, now, lease_ms))
    }

    async fn claim_job_of(&self, kind: JobKind, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Job>> {
        Ok(self.state().queue.claim_job(Some(kind), worker, now, lease_ms))
    }

    async fn renew_job(&self, job: &Job, worker: &str, now: Millis, lease_ms: Millis) -> Result<bool> {
        Ok(self.state().queue.renew_job(job, worker, now, lease_ms))
    }

    async fn finish_job(&self, job: &Job, worker: &str, outcome: &Outcome, now: Millis) -> Result<()> {
        self.state().queue.finish_job(job, worker, outcome, now);
        Ok(())
    }

    async fn queue(&self, filter: QueueFilter, limit: u32) -> Result<Vec<Queued>> {
        Ok(self.state().queue.list(filter, limit))
    }

    async fn revive(&self, id: &QueueId, now: Millis, audit: &AuditEntry) -> Result<bool> {
        let state = &mut *self.state();
        let revived = state.queue.revive(id, now);
        if revived {
            state.record(audit);
        }
        Ok(revived)
    }

    async fn next_due(&self) -> Result<Option<Millis>> {
        Ok(self.state().queue.next_due())
    }

    async fn use_token_id(&self, jti: &str, expires_at: Millis, now: Millis) -> Result<bool> {
        let mut state = self.state();
        let jti = clean(jti).into_owned();
        if state.token_ids.get(&jti).is_some_and(|expires_at| *expires_at > now) {
            return Ok(false);
        }
        state.token_ids.insert(jti, expires_at);
        Ok(true)
    }

    /// A revocation stays, and the newest use counts: a request that read the key earlier must not undo either.
    async fn save_api_key(&self, key: &ApiKey) -> Result<()> {
        let keys = &mut self.state().api_keys;
        if keys.values().any(|other| other.id != key.id && other.key_hash == key.key_hash) {
            return Err(StoreError::Conflict(Vec::new()));
        }
        let stored = keys.get(&key.id);
        let revoked_at = stored.and_then(|stored| stored.revoked_at).or(key.revoked_at);
        let last_used_at = stored.and_then(|stored| stored.last_used_at).max(key.last_used_at);
        keys.insert(key.id.clone(), ApiKey { revoked_at, last_used_at, ..key.clone() });
        Ok(())
    }

    async fn touch_api_key(&self, id: &str, at: Millis) -> Result<()> {
        if let Some(key) = self.state().api_keys.get_mut(id) {
            key.last_used_at = key.last_used_at.max(Some(at));
        }
        Ok(())
    }

    async fn api_key_by_hash(&self, hash: &str) -> Result<Option<ApiKey>> {
        Ok(self.state().api_keys.values().find(|key| key.key_hash == hash).cloned())
    }

    async fn api_keys(&self) -> Result<Vec<ApiKey>> {
        let mut keys: Vec<ApiKey> = self.state().api_keys.values().cloned().collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(keys)
    }

    async fn rendered(&self, scope: &str, name: &str) -> Result<Option<Rendered>> {
        Ok(self.state().rendered.get(&(scope.to_owned(), name.to_owned())).cloned())
    }

    async fn rendered_in(&self, scope: &str) -> Result<BTreeMap<String, Rendered>> {
        let state = self.state();
        let of_scope = state.rendered.iter().filter(|((of, _), _)| of == scope);
        Ok(of_scope.map(|((_, name), rendered)| (name.clone(), rendered.clone())).collect())
    }

    async fn save_rendered(&self, scope: &str, name: &str, rendered: &Rendered) -> Result<()> {
        self.state().rendered.insert((scope.to_owned(), name.to_owned()), rendered.clone());
        Ok(())
    }

    async fn take_lease(&self, name: &str, holder: &str, now: Millis, ttl_ms: Millis) -> Result<bool> {
        let leases = &mut self.state().leases;
        if leases.get(name).is_some_and(|(other, until)| other != holder && *until > now) {
            return Ok(false);
        }
        leases.insert(name.to_owned(), (holder.to_owned(), now.saturating_add(ttl_ms)));
        Ok(true)
    }

    async fn release_lease(&self, name: &str, holder: &str) -> Result<()> {
        let leases = &mut self.state().leases;
        if leases.get(name).is_some_and(|(other, _)| other == holder) {
            leases.remove(name);
        }
        Ok(())
    }

    async fn lease(&self, name: &str) -> Result<Option<Lease>> {
        let held = self.state().leases.get(name).cloned();
        Ok(held.map(|(holder, expires_at)| Lease { holder, expires_at }))
    }

    async fn take_over(&self) -> Result<()> {
        let state = &mut *self.state();
        state.leases.clear();
        state.queue.end_all_claims();
        Ok(())
    }

    async fn prune(&self, now: Millis, keep: &Retention) -> Result<u64> {
        let state = &mut *self.state();
        let before = |age_ms: Millis| now.saturating_sub(age_ms);
        let short_lived = state.token_ids.len() + state.leases.len();
        state.token_ids.retain(|_, expires_at| *expires_at >= now);
        state.leases.retain(|_, (_, until)| *until >= now);
        let gone = short_lived - state.token_ids.len() - state.leases.len()
            + state.tables.prune(before(keep.plan_text_ms), before(keep.drift_ms))
            + state.tables.forget_names(now)
            + state.queue.prune(before(keep.events_ms));
        Ok(u64::try_from(gone).unwrap_or(u64::MAX))
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn close(&self) {}
}

fn passes(run: &Run, filter: &RunFilter) -> bool {
    let RunFilter { repo_id, pr_number, mode, status, open_only, sha, workflow_run_id, before, limit: _ } = filter;
    repo_id.is_none_or(|wanted| run.repo_id == wanted)
        && pr_number.is_none_or(|wanted| run.pr_number == wanted)
        && mode.is_none_or(|wanted| run.mode == wanted)
        && status.is_none_or(|wanted| run.status == wanted)
        && (!open_only || is_open(run))
        && sha.as_ref().is_none_or(|wanted| run.sha == *wanted)
        && workflow_run_id.is_none_or(|wanted| wanted != 0 && run.workflow_run_id == wanted)
        && before.as_ref().is_none_or(|(at, id)| (run.created_at, &run.id) < (*at, id))
}

fn is_open(run: &Run) -> bool {
    !run.status.is_terminal() && (run.mode == Mode::Apply || run.status != RunStatus::Planned)
}
