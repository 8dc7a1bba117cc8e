//! Repositories, runs and what hangs on them, with the constraints that the schema states in SQL.
//!
//! A commit works on a copy that replaces the original when nothing failed, so it needs no undo. The copy shares every table
//! that the commit does not write to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::clock::Millis;
use crate::graph::model::Graph;
use crate::ids::{DispatchId, RunId, Sha, StackId, StackKey};
use crate::run::model::{Dispatch, DriftSeen, Lock, Repo, Row, Run, Verdict};
use crate::run::once;
use crate::run::scene::{Changes, Scene, StoredGraph};
use crate::run::status::{Mode, RunStatus, Trigger};
use crate::store::rules::{clean, local_keys, runs_of};
use crate::store::{Installation, Result, StackRecord, StoreError};

#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) installations: BTreeMap<i64, Installation>,
    /// `suspended` is the installation's, see [`Tables::repo`].
    pub(super) repos: BTreeMap<i64, Repo>,
    pub(super) graphs: Arc<BTreeMap<(i64, Sha), KeptGraph>>,
    pub(super) stacks: Arc<BTreeMap<StackId, StackRecord>>,
    pub(super) runs: Arc<BTreeMap<RunId, Arc<Run>>>,
    /// Shared with the scenes that were loaded.
    rows: Arc<BTreeMap<RunId, Arc<BTreeMap<StackKey, Row>>>>,
    pub(super) plan_texts: Arc<BTreeMap<(RunId, StackId), Arc<str>>>,
    verdicts: Arc<BTreeMap<(RunId, StackId, String), Arc<Verdict>>>,
    pub(super) dispatches: Arc<BTreeMap<DispatchId, Arc<Dispatch>>>,
    pub(super) locks: BTreeMap<StackId, Lock>,
    pub(super) drift: Arc<BTreeMap<(StackId, RunId), Arc<DriftSeen>>>,
    pub(super) once: Arc<BTreeSet<String>>,
    /// By repository; absent is 0.
    locks_versions: BTreeMap<i64, i64>,
}

/// A stored graph, shared with everyone who reads it.
#[derive(Debug, Clone)]
pub(super) struct KeptGraph {
    pub(super) tree_hash: String,
    pub(super) pr_number: i64,
    pub(super) created_at: Millis,
    pub(super) graph: Arc<Graph>,
}

/// What a database would refuse by a foreign key or a check.
pub(super) fn refused(what: impl Into<String>) -> StoreError {
    StoreError::Db(what.into().into())
}

/// What a unique index would refuse.
pub(super) fn taken() -> StoreError {
    StoreError::Conflict(Vec::new())
}

impl Tables {
    pub(super) fn repo(&self, id: i64) -> Option<Repo> {
        let repo = self.repos.get(&id)?;
        let suspended = self.installations.get(&repo.installation_id).is_some_and(|one| one.suspended);
        Some(Repo { suspended, ..repo.clone() })
    }

    /// Sorted by key.
    pub(super) fn rows_of(&self, run: &RunId) -> Vec<Row> {
        self.rows.get(run).into_iter().flat_map(|rows| rows.values()).cloned().collect()
    }

    fn row(&self, run: &RunId, stack: &StackId) -> Option<&Row> {
        self.rows.get(run)?.values().find(|row| row.stack_id == *stack)
    }

    pub(super) fn scene(&self, id: &RunId) -> Option<Scene> {
        let run = self.runs.get(id)?;
        if run.pr_number > 0 {
            return self.pull_scene(run.repo_id, run.pr_number);
        }
        Some(self.scene_of(self.repo(run.repo_id)?, 0, vec![run]))
    }

    pub(super) fn pull_scene(&self, repo_id: i64, pr_number: i64) -> Option<Scene> {
        let repo = self.repo(repo_id)?;
        let of_pull = |run: &&Arc<Run>| run.repo_id == repo_id && run.pr_number == pr_number && pr_number > 0;
        let runs = self.runs.values().filter(of_pull).collect();
        Some(self.scene_of(repo, pr_number, runs))
    }

    fn scene_of(&self, repo: Repo, pr_number: i64, runs: Vec<&Arc<Run>>) -> Scene {
        let runs: BTreeMap<RunId, Run> = runs.into_iter().map(|run| (run.id.clone(), Run::clone(run))).collect();
        let rows = runs.keys().filter_map(|run| Some((run.clone(), Arc::clone(self.rows.get(run)?)))).collect();
        let dispatches = self.dispatches.values().filter(|one| runs.contains_key(&one.run_id));
        let verdicts = self.verdicts.values().filter(|one| runs.contains_key(&one.run_id));
        let locks = self.locks.values().filter(|lock| lock.repo_id == repo.id);
        let stacks = self.stacks.values().filter(|stack| stack.repo_id == repo.id);
        let shas = runs.values().filter_map(|run| run.graph_sha.as_ref()).chain(repo.default_graph.as_ref());
        let graphs = shas.filter_map(|sha| {
            let stored = self.graphs.get(&(repo.id, sha.clone()))?;
            Some((sha.clone(), Arc::clone(&stored.graph)))
        });
        Scene {
            pr_number,
            dispatches: dispatches.map(|one| (one.id.clone(), Dispatch::clone(one))).collect(),
            verdicts: verdicts
                .map(|one| ((one.run_id.clone(), one.key.clone(), one.name.clone()), Verdict::clone(one)))
                .collect(),
            locks: Arc::new(locks.map(|lock| (lock.key.clone(), lock.clone())).collect()),
            queue: self.queue(repo.id, pr_number),
            locks_version: self.locks_versions.get(&repo.id).copied().unwrap_or_default(),
            changed_at: Arc::new(stacks.filter_map(|stack| Some((stack.key.clone(), stack.changed_at?))).collect()),
            graphs: graphs.collect(),
            rows,
            runs,
            repo,
        }
    }

    fn queue(&self, repo_id: i64, except_pr: i64) -> Vec<Run> {
        let waits = |run: &&Arc<Run>| run.repo_id == repo_id && run.pr_number != except_pr && run.is_queued();
        let mut queue: Vec<Run> = self.runs.values().filter(waits).map(|run| Run::clone(run)).collect();
        queue.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        queue
    }

    /// In the order of the SQL (checks, then unique indexes, then foreign keys), so that the same commit fails for the same
    /// reason.
    pub(super) fn write(&mut self, changes: &Changes) -> Result<()> {
        self.write_in_order(changes).map_err(|error| match error {
            StoreError::Conflict(moved) if moved.is_empty() => StoreError::Conflict(runs_of(changes)),
            error => error,
        })
    }

    fn write_in_order(&mut self, changes: &Changes) -> Result<()> {
        let effects = &changes.effects;
        if let Some(version) = changes.locks_version {
            let stored = self.locks_versions.entry(changes.repo_id).or_default();
            if *stored != version {
                return Err(taken());
            }
            *stored += 1;
        }
        for name in &effects.once {
            if !Arc::make_mut(&mut self.once).insert(clean(name).into_owned()) {
                return Err(taken());
            }
        }
        self.update_runs(&changes.runs)?;
        for run in &changes.new_runs {
            check_apply(run)?;
            if self.runs.contains_key(&run.id) {
                return Err(taken());
            }
            self.put_run(run)?;
        }
        for row in &changes.rows {
            if !self.runs.contains_key(&row.run_id) {
                return Err(refused("a row without its run"));
            }
            let rows = Arc::make_mut(&mut self.rows).entry(row.run_id.clone()).or_default();
            Arc::make_mut(rows).insert(row.key.clone(), row.clone());
        }
        for dispatch in &changes.dispatches {
            self.put_dispatch(dispatch)?;
        }
        for verdict in &changes.verdicts {
            if self.row(&verdict.run_id, &verdict.stack_id).is_none() {
                return Err(refused("a verdict without its row"));
            }
            let id = (verdict.run_id.clone(), verdict.stack_id.clone(), verdict.name.clone());
            Arc::make_mut(&mut self.verdicts).insert(id, Arc::new(verdict.clone()));
        }
        self.release_locks(changes)?;
        for lock in &changes.locks_taken {
            self.take_lock(lock)?;
        }
        for (repo_id, key, at) in &changes.changed_at {
            let stack = self.stack(*repo_id, key)?;
            // Only ever later: two applies of one stack may be recorded in either order.
            stack.changed_at = stack.changed_at.max(Some(*at));
        }
        for drift in &effects.drift {
            self.stack(drift.repo_id, &drift.key)?;
            Arc::make_mut(&mut self.drift)
                .insert((drift.stack_id.clone(), drift.run_id.clone()), Arc::new(drift.clone()));
        }
        for plan in &effects.plan_texts {
            let id = (plan.run_id.clone(), plan.stack_id.clone());
            if self.row(&plan.run_id, &plan.stack_id).is_none() {
                return Err(refused("a plan text without its row"));
            }
            Arc::make_mut(&mut self.plan_texts).insert(id, clean(&plan.text).into());
        }
        if let Some(graph) = &effects.graph {
            self.put_graph(graph)?;
        }
        if let Some(sha) = &effects.default_graph {
            self.make_default(changes.repo_id, sha);
        }
        Ok(())
    }

    fn update_runs(&mut self, runs: &[(Run, i64)]) -> Result<()> {
        let mut moved = Vec::new();
        for (run, version) in runs {
            if self.runs.get(&run.id).is_some_and(|stored| stored.version == *version) {
                self.put_run(run)?;
            } else {
                moved.push(run.id.clone());
            }
        }
        if moved.is_empty() { Ok(()) } else { Err(StoreError::Conflict(moved)) }
    }

    fn put_run(&mut self, run: &Run) -> Result<()> {
        check_apply(run)?;
        let others = || self.runs.values().filter(|other| other.id != run.id);
        let same_pull = |other: &Run| other.repo_id == run.repo_id && other.pr_number == run.pr_number;
        let replans =
            |other: &Run| run.for_run.is_some() && other.for_run == run.for_run && other.for_wave == run.for_wave;
        if (is_open_apply(run) && others().any(|other| same_pull(other) && is_open_apply(other)))
            || (is_open_plan(run)
                && others().any(|other| same_pull(other) && other.sha == run.sha && is_open_plan(other)))
            || others().any(|other| replans(other))
        {
            return Err(taken());
        }
        if !self.repos.contains_key(&run.repo_id) {
            return Err(refused("a run without its repository"));
        }
        Arc::make_mut(&mut self.runs).insert(run.id.clone(), Arc::new(run.clone()));
        Ok(())
    }

    fn put_dispatch(&mut self, dispatch: &Dispatch) -> Result<()> {
        let slot = |one: &Dispatch| (one.run_id.clone(), one.wave, one.environment.clone(), one.mode, one.chunk);
        let collides = self.dispatches.values().filter(|other| other.id != dispatch.id).any(|other| {
            let same_workflow_run =
                dispatch.workflow_run_id.is_some() && other.workflow_run_id == dispatch.workflow_run_id;
            same_workflow_run || slot(other) == slot(dispatch)
        });
        if collides {
            return Err(taken());
        }
        if !self.runs.contains_key(&dispatch.run_id) {
            return Err(refused("a dispatch without its run"));
        }
        Arc::make_mut(&mut self.dispatches).insert(dispatch.id.clone(), Arc::new(dispatch.clone()));
        Ok(())
    }

    fn release_locks(&mut self, changes: &Changes) -> Result<()> {
        let mut unseen = BTreeSet::new();
        for (stack, holder) in &changes.locks_released {
            if self.locks.get(stack).is_none_or(|lock| lock.run_id != *holder) {
                return Err(StoreError::Conflict(vec![holder.clone()]));
            }
            self.locks.remove(stack);
            if !changes.runs.iter().any(|(run, _)| run.id == *holder) {
                unseen.insert(holder);
            }
        }
        // The holder may be a run of another pull request: whoever decides about it now must load it again.
        for holder in unseen {
            if let Some(run) = Arc::make_mut(&mut self.runs).get_mut(holder) {
                Arc::make_mut(run).version += 1;
            }
        }
        Ok(())
    }

    fn take_lock(&mut self, lock: &Lock) -> Result<()> {
        self.stack(lock.repo_id, &lock.key)?;
        if self.locks.contains_key(&lock.stack_id) {
            return Err(taken());
        }
        if !self.runs.contains_key(&lock.run_id) {
            return Err(refused("a lock without its run"));
        }
        let reason = clean(&lock.reason).into_owned();
        self.locks.insert(lock.stack_id.clone(), Lock { reason, ..lock.clone() });
        Ok(())
    }

    /// The record of a stack, made when there is none yet.
    fn stack(&mut self, repo_id: i64, key: &StackKey) -> Result<&mut StackRecord> {
        if !self.repos.contains_key(&repo_id) {
            return Err(refused("a stack without its repository"));
        }
        let id = StackId::of(repo_id, key.as_str());
        Ok(Arc::make_mut(&mut self.stacks).entry(id.clone()).or_insert_with(|| StackRecord {
            id,
            repo_id,
            key: key.clone(),
            changed_at: None,
            removed_at: None,
            drift: None,
            drift_issue: None,
        }))
    }

    fn put_graph(&mut self, stored: &StoredGraph) -> Result<()> {
        for key in local_keys(&stored.graph) {
            let key = StackKey::parse(key).map_err(|error| ("graphs", error))?;
            self.stack(stored.repo_id, &key)?.removed_at = None;
        }
        if !self.repos.contains_key(&stored.repo_id) {
            return Err(refused("a graph without its repository"));
        }
        let kept = KeptGraph {
            tree_hash: clean(&stored.tree_hash).into_owned(),
            pr_number: stored.pr_number,
            created_at: stored.created_at,
            graph: Arc::new(stored.graph.clone()),
        };
        Arc::make_mut(&mut self.graphs).insert((stored.repo_id, stored.sha.clone()), kept);
        Ok(())
    }

    /// The commit of the newest graph that counts.
    pub(super) fn newest_graph(&self, repo_id: i64, counts: impl Fn(&Sha, &KeptGraph) -> bool) -> Option<Sha> {
        let of_repo = self.graphs.iter().filter(|((of, sha), stored)| *of == repo_id && counts(sha, stored));
        of_repo.max_by_key(|((_, sha), stored)| (stored.created_at, sha)).map(|((_, sha), _)| sha.clone())
    }

    fn make_default(&mut self, repo_id: i64, sha: &Sha) {
        if let Some(repo) = self.repos.get_mut(&repo_id) {
            repo.default_graph = Some(sha.clone());
        }
        let Some(stored) = self.graphs.get(&(repo_id, sha.clone())) else { return };
        let present = local_keys(&stored.graph);
        for stack in Arc::make_mut(&mut self.stacks).values_mut().filter(|stack| stack.repo_id == repo_id) {
            if present.contains(stack.key.as_str()) {
                stack.removed_at = None;
            } else {
                stack.removed_at.get_or_insert(stored.created_at);
            }
        }
    }

    pub(super) fn stacks(&self, repo_id: i64) -> Vec<StackRecord> {
        let mut stacks: Vec<StackRecord> = self
            .stacks
            .values()
            .filter(|stack| stack.repo_id == repo_id)
            .map(|stack| StackRecord { drift: self.newest_drift(&stack.id).cloned(), ..stack.clone() })
            .collect();
        stacks.sort_by(|a, b| a.key.cmp(&b.key));
        stacks
    }

    fn newest_drift(&self, stack: &StackId) -> Option<&DriftSeen> {
        let seen = self.drift.values().filter(|drift| drift.stack_id == *stack);
        seen.map(Arc::as_ref).max_by(|a, b| (a.checked_at, &a.run_id).cmp(&(b.checked_at, &b.run_id)))
    }

    pub(super) fn forget_installation(&mut self, id: i64) {
        self.installations.remove(&id);
        let repos: Vec<i64> =
            self.repos.values().filter(|repo| repo.installation_id == id).map(|repo| repo.id).collect();
        for repo in repos {
            self.forget_repo(repo);
        }
    }

    pub(super) fn forget_repo(&mut self, id: i64) {
        let runs: BTreeSet<RunId> =
            self.runs.values().filter(|run| run.repo_id == id).map(|run| run.id.clone()).collect();
        self.repos.remove(&id);
        Arc::make_mut(&mut self.graphs).retain(|(repo_id, _), _| *repo_id != id);
        Arc::make_mut(&mut self.stacks).retain(|_, stack| stack.repo_id != id);
        self.locks.retain(|_, lock| lock.repo_id != id && !runs.contains(&lock.run_id));
        Arc::make_mut(&mut self.drift).retain(|_, drift| drift.repo_id != id);
        Arc::make_mut(&mut self.runs).retain(|run, _| !runs.contains(run));
        Arc::make_mut(&mut self.rows).retain(|run, _| !runs.contains(run));
        Arc::make_mut(&mut self.plan_texts).retain(|(run, _), _| !runs.contains(run));
        Arc::make_mut(&mut self.verdicts).retain(|(run, ..), _| !runs.contains(run));
        Arc::make_mut(&mut self.dispatches).retain(|_, dispatch| !runs.contains(&dispatch.run_id));
    }

    /// Drops claimed names that cannot come again; answers how many.
    pub(super) fn forget_names(&mut self, now: Millis) -> usize {
        let before = self.once.len();
        Arc::make_mut(&mut self.once).retain(|name| !once::is_over(name, now));
        before - self.once.len()
    }

    /// Drops plan texts and drift from before these times; answers how many.
    pub(super) fn prune(&mut self, plan_text_before: Millis, drift_before: Millis) -> usize {
        let before = self.plan_texts.len() + self.drift.len();
        let fresh =
            |run: &RunId, stack: &StackId| self.row(run, stack).is_none_or(|row| row.updated_at >= plan_text_before);
        let kept = self.plan_texts.iter().filter(|((run, stack), _)| fresh(run, stack));
        self.plan_texts = Arc::new(kept.map(|(id, text)| (id.clone(), text.clone())).collect());
        let mut newest: BTreeMap<StackId, (Millis, RunId)> = BTreeMap::new();
        for drift in self.drift.values() {
            let at = (drift.checked_at, drift.run_id.clone());
            let kept = newest.entry(drift.stack_id.clone()).or_insert_with(|| at.clone());
            *kept = at.max(kept.clone());
        }
        Arc::make_mut(&mut self.drift).retain(|(stack, run), drift| {
            drift.checked_at >= drift_before || newest.get(stack).is_some_and(|(_, kept)| kept == run)
        });
        before - self.plan_texts.len() - self.drift.len()
    }
}

/// I10: nothing scheduled, pushed or re-requested can apply, and every apply has somebody who asked for it.
fn check_apply(run: &Run) -> Result<()> {
    let may_apply = matches!(run.trigger, Trigger::Comment | Trigger::PullRequest | Trigger::Manual);
    if run.mode == Mode::Apply && (run.requested_by.is_empty() || !may_apply) {
        return Err(refused("an apply that nobody asked for"));
    }
    Ok(())
}

fn is_open_apply(run: &Run) -> bool {
    run.mode == Mode::Apply
        && run.pr_number > 0
        && matches!(run.status, RunStatus::Pending | RunStatus::Planned | RunStatus::Applying)
}

fn is_open_plan(run: &Run) -> bool {
    run.mode == Mode::Plan
        && run.trigger == Trigger::PullRequest
        && matches!(run.status, RunStatus::Pending | RunStatus::Planning)
}
