//! What goes wrong at each boundary: a process that waits, dies, or is told less than what happened.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::task::Poll;

use super::chance::Chance;

/// Shared by every server, its store and its GitHub.
#[derive(Debug)]
pub struct Faults(Mutex<State>);

#[derive(Debug)]
struct State {
    chance: Chance,
    on: bool,
    /// Set when the process that is being polled died at a boundary.
    died: bool,
    counts: BTreeMap<&'static str, u64>,
}

/// Every fault there is, and everything else that a world must have met.
pub const ALL: [&str; 41] = [
    "a base was changed",
    "a commit conflicted for nothing",
    "a commit did not reach the database",
    "a commit was written and answered with an error",
    "a comment asked for locks to be freed",
    "a dispatch was answered without a run id",
    "a drift check ended",
    "a head was pushed while an apply ran",
    "a key asked for a lock to be freed",
    "a plan failed",
    "a plan was not confirmed",
    "a pull request was opened again",
    "a race was lost",
    "a reviewer rejected a deployment",
    "a runner vanished",
    "a server died after GitHub acted",
    "a server died after it committed",
    "a server died before a read",
    "a server died before it asked GitHub",
    "a server died before it committed",
    "a server was killed from outside",
    "a stack was applied with a key",
    "a stack was changed by hand",
    "a webhook came twice",
    "a webhook was lost",
    "a workflow run was run again",
    "an apply failed half-way",
    "an apply of a merge began",
    "an apply was promoted",
    "an apply was queued",
    "an apply was not confirmed",
    "an artifact was never uploaded",
    "artifacts expired",
    "GitHub acted and answered 502",
    "GitHub did not hear",
    "GitHub refused a dispatch",
    "GitHub took its time over a dispatch",
    "somebody lost the right to apply",
    "the database did not answer",
    "the job of an expired plan planned again",
    "webhooks changed places",
];

/// How often, one in so many crossings.
const WAITS: usize = 4;
const DIES: usize = 700;

impl Faults {
    pub fn new(chance: Chance) -> Self {
        Self(Mutex::new(State { chance, on: true, died: false, counts: BTreeMap::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("one thread")
    }

    /// From here on nothing goes wrong any more.
    pub fn stop(&self) {
        self.state().on = false;
    }

    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.state().counts.clone()
    }

    /// Whether this fault happens now; it is counted under its name.
    pub fn hits(&self, name: &'static str, one_in: usize) -> bool {
        let mut state = self.state();
        let hit = state.on && state.chance.one_in(one_in);
        if hit {
            *state.counts.entry(name).or_default() += 1;
        }
        hit
    }

    /// Something happened that is worth counting.
    pub fn met(&self, name: &'static str) {
        *self.state().counts.entry(name).or_default() += 1;
    }

    /// Whether the process that was polled last died on the way.
    pub fn take_death(&self) -> bool {
        std::mem::take(&mut self.state().died)
    }

    /// A boundary: others may go first, or the process ends here and never comes back.
    pub async fn cross(&self, dead_here: &'static str) {
        match self.step(dead_here) {
            Step::On => {}
            Step::Wait => others_go_first().await,
            Step::Die => std::future::pending().await,
        }
    }

    fn step(&self, dead_here: &'static str) -> Step {
        let mut state = self.state();
        if state.on && state.chance.one_in(DIES) {
            *state.counts.entry(dead_here).or_default() += 1;
            state.died = true;
            return Step::Die;
        }
        if state.chance.one_in(WAITS) { Step::Wait } else { Step::On }
    }
}

/// Everybody else may do something first.
pub async fn others_go_first() {
    let mut waited = false;
    let once = |_: &mut std::task::Context<'_>| {
        if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
    };
    std::future::poll_fn(once).await;
}

enum Step {
    On,
    Wait,
    Die,
}
