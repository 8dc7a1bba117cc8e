//! Concurrency groups: one running, one pending, a newcomer replaces the pending one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::signals::{Busy, Stop, Working};

/// All groups of all repositories, by repository and lower-case name.
#[derive(Debug)]
pub(super) struct Groups {
    busy: Busy,
    groups: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_ticket: u64,
    by_key: BTreeMap<Key, Group>,
}

type Key = (String, String);

#[derive(Debug)]
struct Group {
    running: Ticket,
    pending: Option<(Ticket, oneshot::Sender<Handover>)>,
}

#[derive(Debug)]
struct Ticket {
    number: u64,
    stop: Stop,
    /// Set once it was asked to stop: it counts as work until it left, even if it was only waiting.
    stopping: Option<Working>,
}

/// The right to run in a group, until dropped.
#[derive(Debug)]
pub(super) struct Permit {
    groups: Arc<Groups>,
    key: Key,
    number: u64,
}

/// What ends a wait.
pub(super) type Handover = (Option<Permit>, Working);

/// The answer to whoever wants into a group.
pub(super) enum Entry {
    Running(Permit),
    /// The permit comes later, or `None` when a newcomer takes the place; its `stop` is set then.
    Pending(oneshot::Receiver<Handover>),
}

impl Groups {
    pub(super) fn new(busy: Busy) -> Arc<Self> {
        Arc::new(Self { busy, groups: Mutex::default() })
    }

    /// Enters a group. What runs there is asked to stop first when `cancel_in_progress`.
    pub(super) fn enter(self: &Arc<Self>, repo: &str, name: &str, stop: &Stop, cancel_in_progress: bool) -> Entry {
        let mut state = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        state.next_ticket += 1;
        let ticket = Ticket { number: state.next_ticket, stop: stop.clone(), stopping: None };
        let key = (repo.to_owned(), name.to_lowercase());
        let Some(group) = state.by_key.get_mut(&key) else {
            let permit = Permit { groups: Arc::clone(self), key: key.clone(), number: ticket.number };
            state.by_key.insert(key, Group { running: ticket, pending: None });
            return Entry::Running(permit);
        };
        if cancel_in_progress {
            group.running.stopping.get_or_insert_with(|| self.busy.begin());
            group.running.stop.set();
        }
        let (sender, receiver) = oneshot::channel();
        if let Some((replaced, sender)) = group.pending.replace((ticket, sender)) {
            replaced.stop.set();
            // It may have stopped waiting for another reason.
            drop(sender.send((None, self.busy.begin())));
        }
        Entry::Pending(receiver)
    }

    fn leave(self: &Arc<Self>, key: &Key, number: u64) {
        let handover = {
            let mut state = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(group) = state.by_key.get_mut(key).filter(|group| group.running.number == number) else { return };
            match group.pending.take() {
                None => {
                    state.by_key.remove(key);
                    return;
                }
                Some((next, sender)) => {
                    let permit = Permit { groups: Arc::clone(self), key: key.clone(), number: next.number };
                    group.running = next;
                    (sender, permit)
                }
            }
        };
        let (sender, permit) = handover;
        // Nobody waits any more: the permit comes back and frees the group as it drops, outside of the lock.
        drop(sender.send((Some(permit), self.busy.begin())));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let groups = Arc::clone(&self.groups);
        groups.leave(&self.key, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_newcomer_takes_the_pending_place_and_waits_for_the_running_one() {
        let groups = Groups::new(Busy::new());
        let stops = [Stop::new(), Stop::new(), Stop::new()];
        let Entry::Running(first) = groups.enter("a/b", "G", &stops[0], false) else { panic!("the group was free") };
        let Entry::Pending(second) = groups.enter("a/b", "g", &stops[1], false) else { panic!("one runs") };
        let Entry::Pending(third) = groups.enter("a/b", "g", &stops[2], true) else { panic!("one runs") };
        assert!(second.await.unwrap().0.is_none());
        assert!(stops[0].is_set() && stops[1].is_set() && !stops[2].is_set());
        drop(first);
        drop(third.await.unwrap());
        assert!(matches!(groups.enter("a/b", "g", &stops[2], false), Entry::Running(_)));
    }

    #[test]
    fn repositories_do_not_share_groups() {
        let groups = Groups::new(Busy::new());
        let _first = groups.enter("a/b", "g", &Stop::new(), false);
        assert!(matches!(groups.enter("a/c", "g", &Stop::new(), false), Entry::Running(_)));
    }
}
