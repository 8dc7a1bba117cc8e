//! The scene being changed: what a decision works on.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use super::model::{AuditEntry, Lock, Row, Run};
use super::queue::Line;
use super::scene::{Changes, Effects, JobKind, NewJob, Scene};
use super::status::{Mode, Trigger};
use super::transitions::{self, Cause};
use crate::clock::Millis;
use crate::config::model::RepoConfig;
use crate::graph::model::Graph;
use crate::graph::ordering::{Ordering, ordering};
use crate::ids::{RunId, Sha, StackKey};

/// A copy of the loaded scene that the decision changes, with the effects it asks for.
pub struct Next<'a> {
    before: &'a Scene,
    pub scene: Scene,
    pub effects: Effects,
    pub now: Millis,
    /// The default branch's configuration (I11).
    pub policy: Arc<RepoConfig>,
    /// Orders of the scene's graphs that were asked for: making one walks all edges.
    orderings: RefCell<BTreeMap<Sha, Arc<Ordering>>>,
    /// Why nothing can be dispatched in this repository now, whoever asks: its queued applies end, too.
    pub undispatchable: Option<String>,
    cause: Option<Cause>,
}

impl<'a> Next<'a> {
    pub fn of(before: &'a Scene, now: Millis) -> Self {
        Self {
            before,
            scene: before.clone(),
            effects: Effects::default(),
            now,
            policy: before.repo.policy(),
            orderings: RefCell::default(),
            undispatchable: None,
            cause: None,
        }
    }

    /// Locks and queue as this decision leaves them, if others wait and it freed a stack, moved the queue, or found that nobody
    /// can go on.
    pub fn line_to_serve(&self) -> Option<Line> {
        // Nothing is dispatched while the installation is suspended; reconcile serves the line when it is back.
        if self.scene.queue.is_empty() || self.scene.repo.suspended {
            return None;
        }
        let (before, line) = (Line::of(self.before), Line::of(&self.scene));
        let moved = before.queue != line.queue || before.locks != line.locks || self.undispatchable.is_some();
        moved.then_some(line)
    }

    pub fn into_changes(mut self) -> Changes {
        self.show_locks_to_others();
        let moved = transitions::audit_entry(self.before, &self.scene, self.cause.as_ref(), self.now);
        self.effects.audit.extend(moved);
        Changes::between(self.before, self.scene, self.effects)
    }

    /// On whose word all this happens, for the audit. The first to say so is right: what follows from an event is its doing.
    pub fn caused_by(&mut self, actor: impl Into<String>, event: &'static str) {
        self.cause.get_or_insert_with(|| Cause { actor: actor.into(), event });
    }

    /// The comments of other pull requests say who locks their stacks: they are written anew when that changes.
    fn show_locks_to_others(&mut self) {
        let (before, after) = (&self.before.locks, &self.scene.locks);
        let holder = |locks: &BTreeMap<StackKey, Lock>, key: &StackKey| locks.get(key).map(|lock| lock.pr_number);
        let moved: BTreeSet<&StackKey> =
            before.keys().chain(after.keys()).filter(|key| holder(before, key) != holder(after, key)).collect();
        if moved.is_empty() {
            return;
        }
        let payload = json!({ "repo_id": self.scene.repo.id, "locks_of": moved });
        self.add_job(NewJob { kind: JobKind::Render, payload, key: None, due_at: self.now });
    }

    pub fn run_mut(&mut self, id: &RunId) -> &mut Run {
        self.scene.runs.get_mut(id).expect("a decision names runs of its own scene")
    }

    pub fn add_run(&mut self, run: Run, rows: Vec<Row>) {
        let by_key: BTreeMap<StackKey, Row> = rows.into_iter().map(|row| (row.key.clone(), row)).collect();
        self.scene.rows.insert(run.id.clone(), Arc::new(by_key));
        self.scene.runs.insert(run.id.clone(), run);
    }

    pub fn audit(&mut self, actor: &str, action: &str, target: String, details: serde_json::Value) {
        let details = match details {
            serde_json::Value::Object(map) => map.into_iter().collect(),
            other => BTreeMap::from([("value".to_owned(), other)]),
        };
        self.effects.audit.push(AuditEntry {
            at: self.now,
            actor: actor.to_owned(),
            action: action.to_owned(),
            target,
            details,
        });
    }

    /// Checks and comments of the run's pull request, or of the run, are written anew. Coalesced by key.
    pub fn render(&mut self, id: &RunId) {
        let run = &self.scene.runs[id];
        if run.mode == Mode::Drift || run.trigger == Trigger::Manual {
            return;
        }
        let job = match run.pr_number {
            0 => NewJob::keyed(JobKind::Render, format!("render:run:{id}"), json!({ "run_id": id }), self.now),
            number => NewJob::rendering(run.repo_id, number, self.now),
        };
        self.add_job(job);
    }

    /// One comment on the scene's pull request. `name` makes it unique: the same name is never posted twice.
    pub fn comment(&mut self, name: String, body: String) {
        if self.scene.pr_number == 0 {
            return;
        }
        let payload = json!({
            "repo_id": self.scene.repo.id, "pr_number": self.scene.pr_number, "name": name, "body": body,
        });
        self.add_job(NewJob::keyed(
            JobKind::Comment,
            format!("comment:{}:{name}", self.scene.repo.id),
            payload,
            self.now,
        ));
    }

    /// The stack was changed, or may have been: what was planned before is behind it (spec 30 §6.2a "Changed at").
    pub fn stack_changed(&mut self, key: &StackKey) {
        let at = self.scene.changed_at_mut().entry(key.clone()).or_insert(self.now);
        *at = self.now.max(*at);
    }

    /// A job whose key is already among the new ones is not added twice.
    pub fn add_job(&mut self, job: NewJob) {
        self.effects.add_job(job);
    }

    pub fn graph_of(&self, id: &RunId) -> Option<Arc<Graph>> {
        self.scene.graph_of(self.scene.run(id)?).cloned()
    }

    /// The order of the run's graph; of no stacks when it has none.
    pub fn ordering_of(&self, id: &RunId) -> Arc<Ordering> {
        let Some(sha) = self.scene.run(id).and_then(|run| run.graph_sha.as_ref()) else { return Arc::default() };
        let Some(graph) = self.scene.graphs.get(sha) else { return Arc::default() };
        let mut known = self.orderings.borrow_mut();
        known.entry(sha.clone()).or_insert_with(|| Arc::new(ordering(graph))).clone()
    }
}
