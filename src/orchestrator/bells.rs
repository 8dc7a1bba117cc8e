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
use crate::run::scene::JobKind;

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

    /// Jobs of these kinds, due then, were committed: now for those that are due, and in time for those that are due within
    /// seconds.
    pub(super) fn ring_for(&self, jobs: &[(JobKind, Millis)], now: Millis) {
        for (kind, due_at) in jobs {
            let queue = if *kind == JobKind::SendDispatch { Queue::Dispatches } else { Queue::Outbox };
            match u64::try_from(due_at - now) {
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn rings(bells: &Bells, queue: Queue) -> bool {
        is_ready(bells.of(queue).notified())
    }

    #[tokio::test]
    async fn each_job_rings_the_workers_of_its_queue_when_it_is_due() {
        let bells = Bells::default();
        bells.ring_for(&[(JobKind::SendDispatch, 1_000)], 1_000);
        assert!(rings(&bells, Queue::Dispatches) && !rings(&bells, Queue::Outbox));

        bells.ring_for(&[(JobKind::Render, 1_005)], 1_000);
        assert!(!rings(&bells, Queue::Outbox), "it is not due");
        bells.of(Queue::Outbox).notified().await;

        bells.ring_for(&[(JobKind::Render, 1_000_000)], 1_000);
        tokio::task::yield_now().await;
        assert!(!rings(&bells, Queue::Outbox), "whoever looks then finds it");
    }

    #[tokio::test]
    async fn a_burst_is_waited_for_and_a_stream_that_never_ends_is_not() {
        let bells = Bells::default();
        let few: Vec<_> = (1..BURST).map(|_| bells.arrival()).collect();
        assert!(is_ready(bells.after_a_burst()));
        let one_more = bells.arrival();
        assert!(!is_ready(bells.after_a_burst()));
        bells.after_a_burst().await;

        assert!(!rings(&bells, Queue::Inbox), "nothing is stored yet");
        drop((few, one_more));
        assert!(rings(&bells, Queue::Inbox) && is_ready(bells.after_a_burst()));
    }
}
