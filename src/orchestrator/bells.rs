//! Bells for the workers of this process: whoever leaves work rings one of those who do such work.
//!
//! A bell that nobody hears costs nothing: idle workers look every two seconds, for what other processes leave and for what
//! time brings.

use tokio::sync::Notify;

use crate::run::scene::{JobKind, NewJob};

/// What a worker takes its work from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Deliveries of webhooks.
    Inbox,
    /// Jobs of every kind.
    Outbox,
    /// Of the jobs only the dispatches: the next wave does not wait until checks and comments are written.
    Dispatches,
}

impl Queue {
    pub const ALL: [Queue; 3] = [Queue::Inbox, Queue::Outbox, Queue::Dispatches];

    pub fn as_str(self) -> &'static str {
        match self {
            Queue::Inbox => "inbox",
            Queue::Outbox => "outbox",
            Queue::Dispatches => "dispatches",
        }
    }
}

#[derive(Debug, Default)]
pub struct Bells {
    inbox: Notify,
    outbox: Notify,
    dispatches: Notify,
}

impl Bells {
    pub fn of(&self, queue: Queue) -> &Notify {
        match queue {
            Queue::Inbox => &self.inbox,
            Queue::Outbox => &self.outbox,
            Queue::Dispatches => &self.dispatches,
        }
    }

    /// One delivery or job came in there.
    pub fn ring(&self, queue: Queue) {
        self.of(queue).notify_one();
    }

    /// Jobs were committed.
    pub(super) fn ring_for(&self, jobs: &[NewJob]) {
        for job in jobs {
            self.ring(if job.kind == JobKind::SendDispatch { Queue::Dispatches } else { Queue::Outbox });
        }
    }

    /// Much may have become due at once.
    pub(super) fn ring_all(&self) {
        for queue in Queue::ALL {
            self.of(queue).notify_waiters();
        }
    }
}
