//! Bells for the workers of this process: whoever leaves work rings one of those who do such work.
//!
//! Deliveries that are just being stored are counted here, too: a burst is stored first and worked off then.
//!
//! A bell that nobody hears costs nothing: idle workers look every two seconds, for what other processes leave and for what
//! time brings.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Millis;
use crate::run::scene::{JobKind, NewJob};

/// What is due later than this is found by whoever looks.
const SOON_MS: u64 = 2_000;

/// So many deliveries being stored at one time are a burst.
const BURST: usize = 4;
/// How often, and how often at most, a worker looks whether one is over: 50 ms.
const BURST_LOOK: Duration = Duration::from_millis(5);
const BURST_LOOKS_MAX: u32 = 10;

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

#[derive(Debug, Clone, Default)]
pub struct Bells {
    inbox: Arc<Notify>,
    outbox: Arc<Notify>,
    dispatches: Arc<Notify>,
    arriving: Arc<AtomicUsize>,
}

/// A delivery that is being stored.
#[derive(Debug)]
pub struct Arrival(Bells);

impl Drop for Arrival {
    fn drop(&mut self) {
        self.0.arriving.fetch_sub(1, Ordering::Relaxed);
        self.0.ring(Queue::Inbox);
    }
}

impl Bells {
    pub fn of(&self, queue: Queue) -> &Notify {
        match queue {
            Queue::Inbox => &self.inbox,
            Queue::Outbox => &self.outbox,
            Queue::Dispatches => &self.dispatches,
        }
    }

    /// A delivery is being stored until this is dropped.
    pub fn arrival(&self) -> Arrival {
        self.arriving.fetch_add(1, Ordering::Relaxed);
        Arrival(self.clone())
    }

    /// Waits while many deliveries come in at once: GitHub gives each ten seconds to be stored, and nobody counts the time until
    /// it is worked off. Not for long, so that a stream that never ends is worked off, too.
    pub(super) async fn after_a_burst(&self) {
        let mut looks = 0;
        while looks < BURST_LOOKS_MAX && self.arriving.load(Ordering::Relaxed) >= BURST {
            looks += 1;
            tokio::time::sleep(BURST_LOOK).await;
        }
    }

    /// One delivery or job came in there.
    pub fn ring(&self, queue: Queue) {
        self.of(queue).notify_one();
    }

    /// Jobs were committed: now for those that are due, and in time for those that are due within seconds.
    pub(super) fn ring_for(&self, jobs: &[NewJob], now: Millis) {
        for job in jobs {
            let queue = if job.kind == JobKind::SendDispatch { Queue::Dispatches } else { Queue::Outbox };
            match u64::try_from(job.due_at - now) {
                Ok(wait @ 1..SOON_MS) => {
                    let bells = self.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(wait)).await;
                        bells.ring(queue);
                    });
                }
                Ok(SOON_MS..) => {}
                Ok(0) | Err(_) => self.ring(queue),
            }
        }
    }

    /// Much may have become due at once.
    pub(super) fn ring_all(&self) {
        for queue in Queue::ALL {
            self.of(queue).notify_waiters();
        }
    }
}
