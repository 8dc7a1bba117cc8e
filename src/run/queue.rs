//! Applies that wait until others free their stacks (spec 30 §7.6): first in, first out on each stack.
//!
//! A queued apply is a run that is `pending` and knows what it [wants](Run::wants); it holds no lock and has no dispatch.
//! Who frees a stack, or leaves the queue, promotes in the same commit: [`Line`] says who comes next, [`promote`] starts it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use super::apply_start;
use super::model::{Lock, Release, Run};
use super::next::Next;
use super::plan_view::PlanView;
use super::scene::{Effects, NewJob, Scene};
use super::status::{Mode, RowStatus, Trigger};
use super::supersede;
use crate::clock::Millis;
use crate::ids::{RunId, Sha, StackKey};

/// Why a stack is not free for a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Hold<'a> {
    /// Another pull request, or a manual run, holds its lock.
    Locked(&'a Lock),
    /// Another pull request asked for it before and waits, too.
    Waits(&'a Run),
}

impl Hold<'_> {
    pub fn pr_number(&self) -> i64 {
        match self {
            Hold::Locked(lock) => lock.pr_number,
            Hold::Waits(run) => run.pr_number,
        }
    }
}

/// Locks and queued applies of one repository, as a decision leaves them.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub locks: Arc<BTreeMap<StackKey, Lock>>,
    /// First come, first.
    pub queue: Vec<Run>,
    pub changed_at: Arc<BTreeMap<StackKey, Millis>>,
}

impl Line {
    /// The queue of the repository with the scene's own queued apply in its place.
    pub fn of(scene: &Scene) -> Self {
        let own = scene.runs.values().filter(|run| run.is_queued());
        let mut queue: Vec<Run> = scene.queue.iter().chain(own).cloned().collect();
        queue.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Self { locks: scene.locks.clone(), queue, changed_at: scene.changed_at.clone() }
    }

    /// What keeps a request of this pull request (0: of a manual run) from starting, by stack: one reason each.
    pub fn holds(&self, pr_number: i64, wants: &BTreeSet<StackKey>) -> BTreeMap<StackKey, Hold<'_>> {
        self.holds_before(self.queue.len(), pr_number, wants)
    }

    /// What a queued apply waits for.
    pub fn holds_of(&self, id: &RunId) -> BTreeMap<StackKey, Hold<'_>> {
        match self.queue.iter().position(|run| run.id == *id) {
            Some(at) => {
                let run = &self.queue[at];
                self.holds_before(at, run.pr_number, &run.wants.iter().cloned().collect())
            }
            None => BTreeMap::new(),
        }
    }

    /// From 1: how many queued applies that want one of its stacks came before it, and itself.
    pub fn place_of(&self, id: &RunId) -> Option<usize> {
        let at = self.queue.iter().position(|run| run.id == *id)?;
        let wants = &self.queue[at].wants;
        Some(1 + self.queue[..at].iter().filter(|before| before.wants.iter().any(|key| wants.contains(key))).count())
    }

    /// Waiting would never end: whoever holds a stack, or comes before on it, waits in the end for this very pull request.
    pub fn closes_a_circle(&self, pr_number: i64, wants: &BTreeSet<StackKey>) -> bool {
        let mut seen = BTreeSet::new();
        let number_of = |(_, hold): (StackKey, Hold<'_>)| hold.pr_number();
        let mut open: Vec<i64> =
            self.all_holds_before(self.queue.len(), pr_number, wants).into_iter().map(number_of).collect();
        while let Some(number) = open.pop() {
            if number == pr_number && number != 0 {
                return true;
            }
            if !seen.insert(number) {
                continue;
            }
            for (at, run) in self.queue.iter().enumerate().filter(|(_, run)| run.pr_number == number) {
                let wants = run.wants.iter().cloned().collect();
                open.extend(self.all_holds_before(at, number, &wants).into_iter().map(number_of));
            }
        }
        false
    }

    fn holds_before(&self, end: usize, pr_number: i64, wants: &BTreeSet<StackKey>) -> BTreeMap<StackKey, Hold<'_>> {
        let mut holds = BTreeMap::new();
        for (key, hold) in self.all_holds_before(end, pr_number, wants) {
            holds.entry(key).or_insert(hold);
        }
        holds
    }

    /// Everyone who comes before: the holders of the locks, then those who wait, in their order.
    fn all_holds_before(&self, end: usize, pr_number: i64, wants: &BTreeSet<StackKey>) -> Vec<(StackKey, Hold<'_>)> {
        let is_foreign = |lock: &Lock| lock.pr_number == 0 || lock.pr_number != pr_number;
        let locks = wants.iter().filter_map(|key| self.locks.get(key)).filter(|lock| is_foreign(lock));
        let mut holds: Vec<(StackKey, Hold<'_>)> = locks.map(|lock| (lock.key.clone(), Hold::Locked(lock))).collect();
        // What waits for this pull request itself cannot come before it.
        let mut stuck: BTreeSet<&StackKey> =
            self.locks.values().filter(|lock| !is_foreign(lock)).map(|lock| &lock.key).collect();
        for run in &self.queue[..end] {
            if run.pr_number == pr_number {
                continue;
            }
            if run.wants.iter().any(|key| stuck.contains(key)) {
                stuck.extend(&run.wants);
                continue;
            }
            let shared = run.wants.iter().filter(|key| wants.contains(*key));
            holds.extend(shared.map(|key| (key.clone(), Hold::Waits(run))));
        }
        holds
    }
}

/// Notes a new apply as waiting for its selected stacks.
pub(super) fn enter(next: &mut Next, id: &RunId) {
    let selected = next.scene.rows(id).filter(|row| row.status == RowStatus::Planned);
    let wants: Vec<StackKey> = selected.map(|row| row.key.clone()).collect();
    // Whoever came before stays so, whatever the clocks of two servers say.
    let last = next.scene.queue.last().map(|before| before.created_at);
    let run = next.run_mut(id);
    run.created_at = last.map_or(run.created_at, |last| run.created_at.max(last + 1));
    run.wants.clone_from(&wants);
    let run = &next.scene.runs[id];
    let details = json!({ "repo": next.scene.repo.full_name, "pr": run.pr_number, "stacks": wants });
    let actor = run.requested_by.clone();
    next.audit(&actor, "apply_queued", format!("run:{id}"), details);
    next.render(id);
}

/// The turn of a queued apply has come. Everything it was let through with is judged again, then it takes its locks and opens
/// its first wave; what no longer holds ends it.
pub fn promote(next: &mut Next, id: &RunId) {
    let run = next.scene.runs[id].clone();
    if let Some(head) = newer_head(&next.scene, &run) {
        return supersede::apply(next, id, head.as_str());
    }
    if let Some(reason) = stale(&next.scene, &run) {
        return supersede::abandon(next, id, &reason);
    }
    let details = json!({ "repo": next.scene.repo.full_name, "pr": run.pr_number, "stacks": run.wants });
    next.audit("stackorder", "apply_promoted", format!("run:{id}"), details);
    apply_start::begin(next, id);
}

/// Takes a queued apply out of the queue.
pub fn leave(next: &mut Next, id: &RunId, reason: &str) {
    supersede::abandon(next, id, reason);
}

/// The queued apply of the scene's pull request.
pub fn own(scene: &Scene) -> Option<&Run> {
    scene.runs.values().find(|run| run.is_queued())
}

/// A plan of a later head has come in; an apply of a merge commit is superseded by nothing.
fn newer_head(scene: &Scene, run: &Run) -> Option<Sha> {
    let newer = |other: &&Run| {
        other.mode == Mode::Plan
            && other.trigger == Trigger::PullRequest
            && other.sha != run.sha
            && other.created_at > run.created_at
    };
    let newest = scene.newest_first().into_iter().find(newer).filter(|_| run.trigger == Trigger::Comment);
    newest.map(|other| other.sha.clone())
}

fn stale(scene: &Scene, run: &Run) -> Option<String> {
    match run.release_at_end {
        Some(Release::Merge) if run.trigger == Trigger::Comment => {
            return Some("the pull request is merged".to_owned());
        }
        Some(Release::Closed) => return Some("the pull request is no longer open".to_owned()),
        Some(Release::Merge | Release::NewHead) | None => {}
    }
    let selected: Vec<_> = scene.rows(&run.id).filter(|row| row.status == RowStatus::Planned).collect();
    // Of a merge, the plans of its commit come before those of the head that was merged.
    let planned_at = selected.iter().filter_map(|row| scene.run(row.from_plan_run.as_ref()?)).map(|plan| &plan.sha);
    let heads: BTreeSet<&Sha> = planned_at.filter(|sha| **sha != run.sha).collect();
    let commits: Vec<&Sha> = std::iter::once(&run.sha).chain(heads).collect();
    let view = PlanView::of(scene, &commits);
    let changed = view.changed_since(selected.into_iter());
    (!changed.is_empty()).then(|| format!("the plans of {} changed", changed.join(", ")))
}

/// Comments and checks of those who still wait say their place: they are written anew when somebody enters or leaves.
pub fn show_places(effects: &mut Effects, line: &Line, now: Millis) {
    for run in &line.queue {
        effects.add_job(NewJob::rendering(run.repo_id, run.pr_number, now));
    }
}
