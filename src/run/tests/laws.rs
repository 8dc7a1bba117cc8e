//! The invariants of spec 30 §1 on a scene, and a store of one scene that commits as the real ones do.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::clock::Millis;
use crate::graph::ordering::ordering;
use crate::ids::StackId;
use crate::run::model::Row;
use crate::run::next::Next;
use crate::run::scene::{Changes, Scene};
use crate::run::settle::settle;
use crate::run::status::{Mode, RowStatus, RunStatus, Trigger};

/// Writes the changes as a store does: versions are compared, a released lock must be held by whom it names, a taken one
/// must be free.
pub fn commit(scene: &mut Scene, changes: &Changes) {
    for run in &changes.new_runs {
        assert!(scene.runs.insert(run.id.clone(), run.clone()).is_none(), "a run is inserted once");
    }
    for (run, version) in &changes.runs {
        let old = scene.runs.insert(run.id.clone(), run.clone()).expect("a run that exists");
        assert_eq!((old.version, run.version), (*version, version + 1), "each write raises the version by one");
    }
    for row in &changes.rows {
        assert!(scene.runs.contains_key(&row.run_id), "a row of a run that exists");
        let rows = Arc::make_mut(scene.rows.entry(row.run_id.clone()).or_default());
        let old = rows.insert(row.key.clone(), row.clone());
        assert_ne!(old.as_ref(), Some(row), "only what differs is written");
    }
    for dispatch in &changes.dispatches {
        let old = scene.dispatches.insert(dispatch.id.clone(), dispatch.clone());
        assert_ne!(old.as_ref(), Some(dispatch), "only what differs is written");
    }
    for verdict in &changes.verdicts {
        let slot = (verdict.run_id.clone(), verdict.key.clone(), verdict.name.clone());
        scene.verdicts.insert(slot, verdict.clone());
    }
    for (stack, run) in &changes.locks_released {
        let held = scene.locks.values().find(|lock| lock.stack_id == *stack).expect("a lock that is held").clone();
        assert_eq!(held.run_id, *run, "a lock is released by whom it names");
        scene.locks_mut().remove(&held.key);
    }
    for lock in &changes.locks_taken {
        assert!(scene.locks_mut().insert(lock.key.clone(), lock.clone()).is_none(), "I1: one lock a stack");
    }
    for (_, key, at) in &changes.changed_at {
        scene.changed_at_mut().insert(key.clone(), *at);
    }
    if let Some(graph) = &changes.effects.default_graph {
        scene.repo.default_graph = Some(graph.clone());
    }
}

/// Everything that is true after every commit.
pub fn hold(before: &Scene, scene: &Scene, decided: &Scene, now: Millis) {
    whole(scene, decided);
    only_forward(before, scene);
    locks(scene);
    once(scene);
    blocked(scene);
    nothing_hangs(scene);
    settled(scene, now);
}

/// `Changes` carried all of the decision.
fn whole(scene: &Scene, decided: &Scene) {
    let mut decided = decided.clone();
    decided.rows.retain(|_, rows| !rows.is_empty());
    for run in decided.runs.values_mut() {
        run.version = scene.runs[&run.id].version;
    }
    assert_eq!(*scene, decided, "what was decided is what was written");
}

/// Statuses move as the tables of `status` and spec 21 §4 say; waves only grow.
fn only_forward(before: &Scene, scene: &Scene) {
    for run in before.runs.values() {
        let after = &scene.runs[&run.id];
        assert!(after.current_wave >= run.current_wave, "current_wave only grows");
        let repaired = run.mode != Mode::Apply && (run.status, after.status) == (RunStatus::Failed, RunStatus::Planned);
        assert!(
            !run.status.is_terminal() || after.status == run.status || repaired,
            "{} -> {}",
            run.status,
            after.status
        );
        for row in before.rows(&run.id) {
            row_forward(row, &scene.rows[&run.id][&row.key]);
        }
    }
}

fn row_forward(row: &Row, after: &Row) {
    use RowStatus::{Applied, Failed, Planned, Skipped, Unconfirmed, Unknown};
    let moved = row.status != after.status && row.status.is_terminal();
    let allowed = match (row.mode, row.status) {
        (Mode::Apply, Unknown) => matches!(after.status, Applied | Failed | Unconfirmed),
        (Mode::Plan | Mode::Drift, Unknown | Failed) => {
            matches!(after.status, Planned | Failed | Unconfirmed | Skipped)
        }
        // A repeated upload drops and takes up again.
        (Mode::Plan, Unconfirmed) => after.status == Skipped,
        (Mode::Plan, Skipped) => after.status == RowStatus::Pending,
        _ => false,
    };
    assert!(!moved || allowed, "{} {} row: {} -> {}", row.mode, row.key, row.status, after.status);
    assert!(row.claim.is_none() || row.claim == after.claim, "a claim stays");
}

/// I1, I9: locks are of stacks, and only apply runs hold any.
fn locks(scene: &Scene) {
    for (key, lock) in scene.locks.iter() {
        assert_eq!((&lock.key, &lock.stack_id), (key, &StackId::of(scene.repo.id, key.as_str())));
        if let Some(run) = scene.runs.get(&lock.run_id) {
            assert_eq!(run.mode, Mode::Apply, "I9: only an apply locks");
            assert!(!run.is_queued(), "who waits in the queue holds nothing");
            assert_eq!(run.pr_number, lock.pr_number);
        }
    }
}

/// I7, I17, and at most one open apply and one re-plan a wave.
fn once(scene: &Scene) {
    let mut bound = BTreeSet::new();
    for workflow_run in scene.dispatches.values().filter_map(|dispatch| dispatch.workflow_run_id) {
        assert!(bound.insert(workflow_run), "I7: workflow run {workflow_run} serves two dispatches");
    }
    let mut used = BTreeSet::new();
    for row in scene.rows.values().flat_map(|rows| rows.values()).filter(|row| row.claim.is_some()) {
        if let Some(plan) = &row.from_plan_run {
            assert!(used.insert((plan, &row.key)), "I17: the plan of {} is used twice", row.key);
        }
    }
    let open = scene.runs.values().filter(|run| run.mode == Mode::Apply && !run.status.is_terminal());
    assert!(open.count() <= 1, "one open apply a pull request");
    let mut replans = BTreeSet::new();
    for run in scene.runs.values().filter(|run| run.trigger == Trigger::Upstream) {
        assert!(replans.insert((&run.for_run, run.for_wave)), "one re-plan a wave");
    }
}

/// Every blocked row has a broken predecessor, and names only such.
fn blocked(scene: &Scene) {
    for row in scene.rows.values().flat_map(|rows| rows.values()).filter(|row| row.status == RowStatus::Blocked) {
        let graph = scene.graph_of(&scene.runs[&row.run_id]).expect("a graph that ordered it");
        let order = ordering(graph);
        let predecessors = order.all_predecessors(row.key.as_str());
        assert!(!row.blocked_by.is_empty());
        for by in &row.blocked_by {
            assert!(predecessors.contains(by.as_str()), "{} is blocked by {by}, which is no predecessor", row.key);
            let cause = &scene.rows[&row.run_id][by.as_str()];
            assert!(cause.status.is_broken() && cause.status != RowStatus::Blocked, "{by} is {}", cause.status);
        }
    }
}

/// Whatever has not ended waits for a dispatch that is open, for the pull request's own workflow run, or for a re-plan.
fn nothing_hangs(scene: &Scene) {
    let carried = |row: &Row| {
        let dispatch = row.dispatch_id.as_ref().and_then(|dispatch| scene.dispatches.get(dispatch));
        dispatch.is_some_and(|dispatch| dispatch.completed_at.is_none())
    };
    for run in scene.runs.values().filter(|run| !run.status.is_terminal() && run.status != RunStatus::Planned) {
        let waits = match run.mode {
            Mode::Plan | Mode::Drift => {
                let own_workflow = run.trigger == Trigger::PullRequest;
                own_workflow || scene.rows(&run.id).any(|row| !row.status.is_done_planning() && carried(row))
            }
            Mode::Apply => {
                let replanned = scene
                    .replan_of(&run.id, run.current_wave)
                    .is_some_and(|replan| matches!(replan.status, RunStatus::Pending | RunStatus::Planning));
                let mut wave = scene.rows(&run.id).filter(|row| row.wave == run.current_wave);
                run.is_queued()
                    || run.trigger == Trigger::Manual
                    || replanned
                    || wave.any(|row| !row.status.is_terminal() && carried(row))
            }
        };
        assert!(waits, "{} run {} is {} and waits for nothing", run.mode, run.id, run.status);
    }
}

/// I4: whatever was decided, settling again changes nothing.
fn settled(scene: &Scene, now: Millis) {
    for id in scene.runs.keys() {
        let mut next = Next::of(scene, now);
        settle(&mut next, id);
        let mut changes = next.into_changes();
        changes.effects.jobs.retain(|job| job.kind != crate::run::scene::JobKind::Render);
        assert!(changes.is_empty(), "settling {id} again changes something: {changes:?}");
    }
}
