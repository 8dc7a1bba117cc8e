//! What must be true after every commit, whoever made it, and at every step of the infrastructure.
//!
//! The laws keep their own picture of runs, rows and locks, made of nothing but what was committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stackorder::graph::ordering::Ordering;
use stackorder::ids::{DispatchId, RunId, StackId, StackKey};
use stackorder::run::model::{Dispatch, Lock, Row, Run};
use stackorder::run::scene::{Changes, NewJob};
use stackorder::run::status::{Mode, RowStatus, RunStatus, Trigger};

use super::github::NAME;

/// Every law that is asked again and again. The numbers are those of spec 30 §1.
pub const ALL: [&str; 41] = [
    "I1 one lock a stack",
    "I10 every apply has a requester and a trigger",
    "I15 every apply is in the audit log",
    "I15 every claim is in the audit log",
    "I15 every release of a lock is in the audit log",
    "I16 after a whole apply every plan is empty",
    "I17 a plan is used once",
    "I17 no apply begins with a used plan",
    "I2 an apply takes all of its locks at once",
    "I3 an apply appears with its rows",
    "I5 nothing is asked of GitHub before it is committed",
    "I4 a run that goes on has something to wait for",
    "I6 a dispatch is unique",
    "I7 a workflow run serves one dispatch",
    "I8 rows move as their table says",
    "I9 only applies lock",
    "a claim holds its stack's lock",
    "a claim stays",
    "a closed dispatch is bound no more",
    "a drifted stack has one open issue, and no other has any",
    "a lock has a living reason",
    "a queued apply waits for a stack that somebody holds",
    "a lock is released by whom it names",
    "a locked stack is not checked for drift",
    "a result is counted once",
    "a row is applied by one job",
    "an ended run stays as it ended",
    "an apply before the merge keeps its locks",
    "an apply has its approvals",
    "an apply that was claimed gives way to nothing",
    "every apply rests on plans",
    "every dispatch is closed",
    "every run ends",
    "no wave opens after a broken one",
    "nobody overtakes a queued apply",
    "no stack applies before its predecessors of the run are done",
    "two jobs never apply one stack at once",
    "versions rise by one",
    "waves only grow",
    "what was approved is what is applied",
    "who applies may apply",
];

/// The committed state, and what has been broken so far.
#[derive(Default)]
pub struct Laws {
    pub order: Arc<Ordering>,
    pub runs: BTreeMap<RunId, Run>,
    pub rows: BTreeMap<RunId, BTreeMap<StackKey, Row>>,
    pub dispatches: BTreeMap<DispatchId, Dispatch>,
    pub locks: BTreeMap<StackId, Lock>,
    /// The bundle that each apply was let through with.
    pub approved: BTreeMap<(RunId, StackKey), String>,
    /// The job that began to apply each row.
    pub appliers: BTreeMap<(RunId, StackKey), i64>,
    /// Stacks whose lock a person took away while somebody applied them: whoever comes next may meet them.
    pub freed: BTreeSet<StackKey>,
    /// Applies that began, with the comment that asked for them, and that ended well, since somebody asked.
    pub begun: Vec<(RunId, Option<i64>)>,
    pub done: Vec<RunId>,
    /// Lost races, seen by whoever lost them.
    pub conflicts: u64,
    /// Transitions met: mode, from, to.
    pub moves: BTreeMap<(Mode, &'static str, &'static str), u64>,
    pub run_moves: BTreeMap<(Mode, &'static str, &'static str), u64>,
    /// How often each law was asked.
    pub asked: BTreeMap<&'static str, u64>,
    pub broken: Vec<String>,
}

impl Laws {
    pub fn law(&mut self, name: &'static str, holds: bool, what: impl FnOnce() -> String) {
        *self.asked.entry(name).or_default() += 1;
        if !holds {
            self.broken.push(format!("{name}: {}", what()));
        }
    }

    fn row(&self, run: &RunId, key: &str) -> Option<&Row> {
        self.rows.get(run)?.get(key)
    }

    /// Takes a commit over and asks every law that it may have broken.
    pub fn committed(&mut self, changes: &Changes) {
        let before: BTreeMap<RunId, Run> = changes
            .runs
            .iter()
            .filter_map(|(run, _)| Some((run.id.clone(), self.runs.get(&run.id)?.clone())))
            .collect();
        let promoted: BTreeSet<RunId> =
            before.values().filter(|run| run.is_queued()).map(|run| run.id.clone()).collect();
        self.runs_written(changes);
        self.nobody_is_overtaken(changes);
        self.locks_written(changes);
        self.dispatches_written(changes);
        self.rows_written(changes);
        let touched: BTreeSet<RunId> =
            changes.new_runs.iter().chain(changes.runs.iter().map(|(run, _)| run)).map(|run| run.id.clone()).collect();
        for (id, old) in before {
            self.moves_on(&old, &id, changes);
        }
        for id in touched {
            self.nothing_hangs(&id);
            let is_new = changes.new_runs.iter().any(|new| new.id == id);
            let is_promoted = promoted.contains(&id);
            if is_new || is_promoted {
                self.starts_whole(&id, is_new, changes);
            }
        }
    }

    fn runs_written(&mut self, changes: &Changes) {
        for run in &changes.new_runs {
            let has_cause = matches!(run.trigger, Trigger::Comment | Trigger::PullRequest | Trigger::Manual);
            let may_apply = run.mode != Mode::Apply || (has_cause && !run.requested_by.is_empty());
            self.law("I10 every apply has a requester and a trigger", may_apply, || format!("{run:?}"));
            self.runs.insert(run.id.clone(), run.clone());
            if run.mode == Mode::Drift {
                let keys = changes.rows.iter().filter(|row| row.run_id == run.id).map(|row| &row.key);
                let locked: Vec<&Lock> =
                    keys.filter_map(|key| self.locks.values().find(|lock| lock.key == *key)).collect();
                let (is_free, locked) = (locked.is_empty(), format!("{locked:?}"));
                self.law("a locked stack is not checked for drift", is_free, || locked);
            }
            if run.mode == Mode::Apply {
                let comment = changes.effects.once.iter().find_map(|name| name.strip_prefix("comment:"));
                let id = comment.and_then(|name| name.split(':').nth(1)).and_then(|id| id.parse().ok());
                self.begun.push((run.id.clone(), id));
            }
        }
        for (run, version) in &changes.runs {
            let Some(old) = self.runs.insert(run.id.clone(), run.clone()) else {
                self.law("runs are inserted before they change", false, || run.id.to_string());
                continue;
            };
            if run.status == RunStatus::Applied && old.status != RunStatus::Applied {
                self.done.push(run.id.clone());
            }
            if old.is_queued() && run.status == RunStatus::Applying {
                self.begun.push((run.id.clone(), None));
            }
            *self.run_moves.entry((run.mode, old.status.as_str(), run.status.as_str())).or_default() += 1;
            self.law("versions rise by one", old.version == *version && run.version == version + 1, || {
                format!("{} {} -> {}", run.id, old.version, run.version)
            });
            let repaired = run.mode != Mode::Apply && old.status == RunStatus::Failed;
            let claimed = self.rows.get(&run.id).into_iter().flat_map(BTreeMap::values).any(|row| row.claim.is_some());
            let gives_way = run.mode == Mode::Apply && run.status == RunStatus::Superseded;
            if gives_way {
                self.law(
                    "an apply that was claimed gives way to nothing",
                    !claimed || old.status == run.status,
                    || format!("{} was superseded by {}", run.id, run.superseded_by),
                );
            }
            let stays = !old.status.is_terminal() || old.status == run.status || repaired;
            self.law("an ended run stays as it ended", stays, || {
                format!("{} {} {} -> {}", run.mode, run.id, old.status, run.status)
            });
            self.law("waves only grow", run.current_wave >= old.current_wave, || run.id.to_string());
        }
    }

    /// A job added by itself: what it is about has been committed.
    pub fn added(&mut self, job: &NewJob) {
        let text = |name: &str| job.payload.get(name).and_then(|value| value.as_str());
        let runs = [text("run_id"), text("outcome_of")].into_iter().flatten();
        let has_runs = runs.map(RunId::parse).all(|id| id.is_ok_and(|id| self.runs.contains_key(&id)));
        let dispatch = text("dispatch_id").map(DispatchId::parse);
        let has_dispatch = dispatch.is_none_or(|id| id.is_ok_and(|id| self.dispatches.contains_key(&id)));
        self.law("I5 nothing is asked of GitHub before it is committed", has_runs && has_dispatch, || {
            format!("{job:?}")
        });
    }

    fn locks_written(&mut self, changes: &Changes) {
        for (stack, run) in &changes.locks_released {
            let held = self.locks.remove(stack);
            self.freed_by_a_person(held.as_ref(), changes);
            let fits = held.as_ref().is_some_and(|lock| lock.run_id == *run);
            self.law("a lock is released by whom it names", fits, || format!("{stack} {run} {held:?}"));
            let is_taken_over = changes.locks_taken.iter().any(|lock| lock.stack_id == *stack);
            let key = held.map(|lock| lock.key.to_string()).unwrap_or_default();
            let target = format!("{NAME}//{key}");
            let told = changes.effects.audit.iter().any(|entry| entry.action == "unlock" && entry.target == target);
            self.law("I15 every release of a lock is in the audit log", is_taken_over || told, || {
                format!("{key} {:?}", changes.effects.audit)
            });
        }
        // Whoever decides about a run whose lock went without it must load it again.
        let unseen = changes.locks_released.iter().map(|(_, run)| run);
        let unseen: BTreeSet<&RunId> =
            unseen.filter(|id| !changes.runs.iter().any(|(run, _)| run.id == **id)).collect();
        for id in unseen {
            if let Some(run) = self.runs.get_mut(id) {
                run.version += 1;
            }
        }
        for lock in &changes.locks_taken {
            let free = self.locks.insert(lock.stack_id.clone(), lock.clone()).is_none();
            self.law("I1 one lock a stack", free, || lock.key.to_string());
            let applies = self.runs.get(&lock.run_id).is_some_and(|run| run.mode == Mode::Apply);
            self.law("I9 only applies lock", applies, || format!("{lock:?}"));
        }
    }

    /// Whose lock a person takes away may be at work: two may then meet at one stack, and the person was told so.
    fn freed_by_a_person(&mut self, held: Option<&Lock>, changes: &Changes) {
        let Some(held) = held else { return };
        let target = format!("{NAME}//{}", held.key);
        let by_person = changes
            .effects
            .audit
            .iter()
            .any(|entry| entry.action == "unlock" && entry.target == target && entry.actor != "stackorder");
        let runs = self.runs.get(&held.run_id).is_some_and(|run| !run.status.is_terminal());
        if by_person && runs {
            self.freed.insert(held.key.clone());
        }
    }

    fn dispatches_written(&mut self, changes: &Changes) {
        for dispatch in &changes.dispatches {
            let same = |other: &&Dispatch| {
                other.id != dispatch.id
                    && (&other.run_id, other.wave, &other.environment, other.mode, other.chunk)
                        == (&dispatch.run_id, dispatch.wave, &dispatch.environment, dispatch.mode, dispatch.chunk)
            };
            let unique = self.dispatches.values().find(same).is_none();
            self.law("I6 a dispatch is unique", unique, || format!("{dispatch:?}"));
            let bound = dispatch.workflow_run_id;
            let twice = |other: &Dispatch| other.id != dispatch.id && bound.is_some() && other.workflow_run_id == bound;
            let serves_one = !self.dispatches.values().any(twice);
            self.law("I7 a workflow run serves one dispatch", serves_one, || format!("{dispatch:?}"));
            let old = self.dispatches.insert(dispatch.id.clone(), dispatch.clone());
            let is_open = |old: &Dispatch| old.completed_at.is_none();
            let same = |old: &Dispatch| old.workflow_run_id == dispatch.workflow_run_id;
            let stays = old.as_ref().is_none_or(|old| is_open(old) || same(old));
            self.law("a closed dispatch is bound no more", stays, || format!("{old:?} -> {dispatch:?}"));
        }
    }

    fn rows_written(&mut self, changes: &Changes) {
        self.results_counted(changes);
        for row in &changes.rows {
            let old = self.rows.entry(row.run_id.clone()).or_default().insert(row.key.clone(), row.clone());
            let Some(old) = old else {
                if row.mode == Mode::Apply {
                    self.is_unused(row);
                    self.approved.insert((row.run_id.clone(), row.key.clone()), row.bundle_sha256.clone());
                }
                continue;
            };
            if old.status != row.status {
                *self.moves.entry((row.mode, old.status.as_str(), row.status.as_str())).or_default() += 1;
            }
            self.law("a claim stays", old.claim.is_none() || old.claim == row.claim, || format!("{row:?}"));
            if old.claim.is_none() && row.claim.is_some() {
                self.claimed(row, changes);
            }
            let late = old.status.is_terminal() && row.status != old.status;
            let repaired = match (row.mode, old.status) {
                (Mode::Apply, RowStatus::Unknown) => {
                    matches!(row.status, RowStatus::Applied | RowStatus::Failed | RowStatus::Unconfirmed)
                }
                (Mode::Apply, _) => false,
                (Mode::Plan | Mode::Drift, from) => {
                    matches!(from, RowStatus::Unknown | RowStatus::Failed | RowStatus::Unconfirmed | RowStatus::Skipped)
                }
            };
            self.law("I8 rows move as their table says", !late || repaired, || {
                format!("{} {} {} -> {}", row.mode, row.key, old.status, row.status)
            });
        }
    }

    /// A stack changes with what is told of it, and not again with the same.
    fn results_counted(&mut self, changes: &Changes) {
        for (_, key, _) in &changes.changed_at {
            let is_told = changes.rows.iter().filter(|row| row.key == *key).any(|row| {
                let old = self.row(&row.run_id, key.as_str());
                old.is_none_or(|old| old.status != row.status || old.late_evidence != row.late_evidence)
            });
            self.law("a result is counted once", is_told, || key.to_string());
        }
    }

    /// A row of an apply that begins: nobody has used its plan and not come to a good end with it.
    fn is_unused(&mut self, row: &Row) {
        if row.status != RowStatus::Planned {
            return;
        }
        let plan = row.from_plan_run.as_ref().and_then(|plan| self.row(plan, row.key.as_str()));
        let user = plan.and_then(|plan| plan.used_by_run.as_ref()).and_then(|run| self.row(run, row.key.as_str()));
        let spent = user.filter(|user| user.status != RowStatus::Applied).map(|user| user.run_id.to_string());
        self.law("I17 no apply begins with a used plan", spent.is_none(), || format!("{} {spent:?}", row.key));
    }

    fn claimed(&mut self, row: &Row, changes: &Changes) {
        let lock = self.locks.values().find(|lock| lock.key == row.key).cloned();
        let holds = lock.as_ref().is_some_and(|lock| lock.run_id == row.run_id);
        self.law("a claim holds its stack's lock", holds, || format!("{} {lock:?}", row.key));
        let order = self.order.clone();
        for before in order.all_predecessors(row.key.as_str()) {
            let Some(upstream) = self.row(&row.run_id, before) else { continue };
            let (status, done) = (upstream.status, upstream.status.is_terminal() && !upstream.status.is_broken());
            self.law("no stack applies before its predecessors of the run are done", done, || {
                format!("{} in {} while {before} is {status}", row.key, row.run_id)
            });
        }
        let used = self.rows.values().flat_map(BTreeMap::values).filter(|other| {
            other.run_id != row.run_id
                && other.mode == Mode::Apply
                && other.key == row.key
                && other.claim.is_some()
                && other.from_plan_run == row.from_plan_run
                && row.from_plan_run.is_some()
        });
        let used: Vec<String> = used.map(|other| other.run_id.to_string()).collect();
        self.law("I17 a plan is used once", used.is_empty(), || format!("{} {used:?}", row.key));
        let of_row =
            |details: &BTreeMap<String, serde_json::Value>| details.get("stack") == Some(&row.key.as_str().into());
        let told = changes.effects.audit.iter().any(|entry| entry.action == "claimed" && of_row(&entry.details));
        self.law("I15 every claim is in the audit log", told, || row.key.to_string());
    }

    /// What one commit may do to an apply: the next wave only after a whole one, and no lock goes with its end.
    fn moves_on(&mut self, old: &Run, id: &RunId, changes: &Changes) {
        let run = self.runs[id].clone();
        if run.current_wave > old.current_wave {
            let rows = self.rows.get(id).into_iter().flat_map(BTreeMap::values);
            let broken: Vec<String> =
                rows.filter(|row| row.status.is_broken()).map(|row| format!("{} {}", row.key, row.status)).collect();
            self.law("no wave opens after a broken one", broken.is_empty(), || format!("{id} {broken:?}"));
        }
        let ends = !old.status.is_terminal() && matches!(run.status, RunStatus::Failed | RunStatus::Applied);
        let keeps = ends && run.mode == Mode::Apply && run.trigger == Trigger::Comment && run.release_at_end.is_none();
        let is_abandoned = changes.effects.audit.iter().any(|entry| entry.action == "apply_abandoned");
        if keeps && !is_abandoned {
            let gone: Vec<&StackId> =
                changes.locks_released.iter().filter(|(_, of)| of == id).map(|(stack, _)| stack).collect();
            self.law("an apply before the merge keeps its locks", gone.is_empty(), || format!("{id} {gone:?}"));
        }
    }

    /// A run that has not ended waits for something that can still happen.
    fn nothing_hangs(&mut self, id: &RunId) {
        let run = self.runs[id].clone();
        if run.status.is_terminal() || run.mode != Mode::Apply || run.trigger == Trigger::Manual {
            return;
        }
        let wave = run.current_wave;
        let mut rows = self.rows.get(id).into_iter().flat_map(BTreeMap::values);
        let waits = rows.any(|row| row.wave == wave && !row.status.is_terminal());
        let replan = self
            .runs
            .values()
            .any(|other| other.for_run.as_ref() == Some(id) && other.for_wave == wave && !other.taken_over);
        let queued = run.status == RunStatus::Pending;
        self.law("I4 a run that goes on has something to wait for", waits || replan || queued, || format!("{run:?}"));
    }

    /// I2, I3: an apply appears with its rows and all of its locks.
    fn starts_whole(&mut self, id: &RunId, is_new: bool, changes: &Changes) {
        let run = self.runs[id].clone();
        let gives_way = run.status == RunStatus::Superseded || (!is_new && run.status.is_terminal());
        if run.mode != Mode::Apply || run.status == RunStatus::Pending || gives_way {
            return;
        }
        let rows: Vec<Row> = self.rows.get(id).into_iter().flat_map(BTreeMap::values).cloned().collect();
        self.law("I3 an apply appears with its rows", !rows.is_empty(), || id.to_string());
        for row in rows.iter().filter(|row| row.status != RowStatus::Skipped) {
            let locked = self.locks.get(&row.stack_id).is_some_and(|lock| lock.run_id == *id);
            let ended = run.status.is_terminal();
            self.law("I2 an apply takes all of its locks at once", locked || ended, || format!("{id} {}", row.key));
        }
        let plans: BTreeSet<&RunId> = rows.iter().filter_map(|row| row.from_plan_run.as_ref()).collect();
        self.law("every apply rests on plans", !plans.is_empty() || run.trigger == Trigger::Manual, || id.to_string());
        let told = changes.effects.audit.iter().any(|entry| {
            matches!(entry.action.as_str(), "command" | "apply_requested" | "manual_apply" | "apply_promoted")
        });
        let caused = told || run.trigger == Trigger::PullRequest;
        self.law("I15 every apply is in the audit log", caused, || format!("{:?}", changes.effects.audit));
    }

    /// First come, first served: who takes a stack comes before everyone who waits for it, unless those wait for a stack that
    /// the pull request holds itself.
    fn nobody_is_overtaken(&mut self, changes: &Changes) {
        for lock in &changes.locks_taken {
            let Some(taker) = self.runs.get(&lock.run_id).cloned() else { continue };
            let number = taker.pr_number;
            let is_own = |held: &&Lock| number != 0 && held.pr_number == number;
            let mut stuck: BTreeSet<StackKey> =
                self.locks.values().filter(is_own).map(|held| held.key.clone()).collect();
            if stuck.contains(&lock.key) {
                continue;
            }
            let mut before: Vec<&Run> = self
                .runs
                .values()
                .filter(|run| run.is_queued() && run.created_at < taker.created_at && run.pr_number != number)
                .collect();
            before.sort_by_key(|run| run.created_at);
            let mut overtaken = None;
            for run in before {
                if run.wants.iter().any(|key| stuck.contains(key)) {
                    stuck.extend(run.wants.iter().cloned());
                } else if run.wants.contains(&lock.key) {
                    overtaken = Some(run.id.clone());
                }
            }
            self.law("nobody overtakes a queued apply", overtaken.is_none(), || {
                format!("{} takes {} before {overtaken:?}", taker.id, lock.key)
            });
        }
    }

    /// A lock is held for somebody who may still come back to it.
    pub fn lock_at_rest(&mut self, lock: &Lock, is_open: bool, is_merged: bool) {
        let was_claimed = self.rows.values().flat_map(BTreeMap::values).any(|row| {
            row.key == lock.key
                && row.claim.is_some()
                && self.runs.get(&row.run_id).is_some_and(|run| run.pr_number == lock.pr_number)
        });
        let lives = is_open || (!is_merged && was_claimed);
        self.law("a lock has a living reason", lives, || format!("{lock:?} open {is_open} merged {is_merged}"));
    }

    /// Everything that is left when nothing goes wrong any more.
    pub fn at_rest(&mut self) {
        let runs: Vec<Run> = self.runs.values().cloned().collect();
        for run in runs {
            if run.is_queued() {
                let waits_for = |lock: &Lock| lock.pr_number != run.pr_number && run.wants.contains(&lock.key);
                let stands_behind = |other: &Run| {
                    other.is_queued()
                        && other.created_at < run.created_at
                        && other.wants.iter().any(|key| run.wants.contains(key))
                };
                let waits = self.locks.values().any(waits_for) || self.runs.values().any(stands_behind);
                self.law("a queued apply waits for a stack that somebody holds", waits, || format!("{run:?}"));
                continue;
            }
            let ended = run.status.is_terminal() || (run.mode != Mode::Apply && run.status == RunStatus::Planned);
            self.law("every run ends", ended, || format!("{} {} is {}", run.mode, run.id, run.status));
        }
        let open: Vec<Dispatch> =
            self.dispatches.values().filter(|dispatch| dispatch.completed_at.is_none()).cloned().collect();
        self.law("every dispatch is closed", open.is_empty(), || format!("{open:?}"));
    }
}
