//! Who decides when a server dies or a connection is cut: at moments that somebody on a line sees, spread over the work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::database_line::{Verdict, Watcher};
use super::servers::Server;
use super::wire::Seen;

/// Where a server can be struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// The delivery is in the inbox; nobody was told, nothing was done about it.
    AfterInboxInsert,
    /// The decision is committed; its effect was not begun.
    AfterCommitBeforeEffect,
    /// GitHub has started a workflow run; the outbox does not know.
    AfterDispatchBeforeAcknowledgement,
    /// GitHub has written a check, a comment or a reaction; the outbox does not know.
    AfterWritingBeforeAcknowledgement,
    /// The database does not know of the commit; the connection is cut.
    BeforeCommit,
    /// The database has committed; the connection is cut and the server does not know.
    CommitUnanswered,
}

impl Moment {
    /// Whether the process dies, not only a connection.
    fn is_deadly(self) -> bool {
        match self {
            Self::AfterInboxInsert
            | Self::AfterCommitBeforeEffect
            | Self::AfterDispatchBeforeAcknowledgement
            | Self::AfterWritingBeforeAcknowledgement => true,
            Self::BeforeCommit | Self::CommitUnanswered => false,
        }
    }
}

/// How often to strike at each moment, and how far apart: one in so many of its occurrences, about.
pub type Orders = BTreeMap<Moment, Order>;

#[derive(Debug, Clone, Copy)]
pub struct Order {
    pub times: u32,
    pub one_in: u32,
}

pub struct Gunner {
    state: Mutex<State>,
    servers: Mutex<Vec<Arc<Server>>>,
}

struct State {
    random: StdRng,
    orders: Orders,
    /// Occurrences until the next strike.
    left: BTreeMap<Moment, u32>,
    struck: BTreeMap<Moment, u32>,
    /// A server is dying or starting: the next strike waits, so that the other one lives.
    is_busy: bool,
}

impl Gunner {
    pub fn new(seed: u64, orders: Orders) -> Arc<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let left = orders.iter().map(|(moment, order)| (*moment, until_next(&mut random, *order))).collect();
        let state = State { random, orders, left, struck: BTreeMap::new(), is_busy: false };
        Arc::new(Self { state: Mutex::new(state), servers: Mutex::default() })
    }

    /// Nothing is struck before.
    pub fn aim_at(&self, servers: Vec<Arc<Server>>) {
        *self.servers.lock().unwrap() = servers;
    }

    pub fn cease(&self) {
        self.servers.lock().unwrap().clear();
    }

    pub fn struck(&self) -> BTreeMap<Moment, u32> {
        self.state.lock().unwrap().struck.clone()
    }

    /// A server has come to a moment, and waits there for the verdict.
    pub async fn at(self: &Arc<Self>, number: usize, moment: Moment) -> Verdict {
        let Some(server) = self.servers.lock().unwrap().get(number).cloned() else { return Verdict::Pass };
        if !self.wants(moment) {
            return Verdict::Pass;
        }
        if moment.is_deadly() {
            let (gunner, doomed) = (self.clone(), server.clone());
            // A task of its own: the connection that saw the moment ends with the process, and whoever followed it.
            let killed = tokio::spawn(async move {
                let killed = doomed.kill().await;
                if killed {
                    gunner.count(moment);
                }
                tokio::spawn(async move {
                    doomed.start_again().await;
                    gunner.state.lock().unwrap().is_busy = false;
                });
            });
            killed.await.expect("killing does not panic");
        } else {
            self.count(moment);
        }
        Verdict::Cut
    }

    fn count(&self, moment: Moment) {
        *self.state.lock().unwrap().struck.entry(moment).or_default() += 1;
    }

    fn wants(&self, moment: Moment) -> bool {
        let mut state = self.state.lock().unwrap();
        let Some(order) = state.orders.get(&moment).copied() else { return false };
        if state.struck.get(&moment).copied().unwrap_or(0) >= order.times {
            return false;
        }
        let left = state.left.entry(moment).or_default();
        *left = left.saturating_sub(1);
        if *left > 0 || state.is_busy {
            return false;
        }
        let next = until_next(&mut state.random, order);
        state.left.insert(moment, next);
        state.is_busy = moment.is_deadly();
        true
    }
}

fn until_next(random: &mut StdRng, order: Order) -> u32 {
    random.random_range(1..=order.one_in.saturating_mul(2).saturating_sub(1).max(1))
}

/// The gunner's eye on the database line of one server.
pub struct OnDatabaseLine {
    pub gunner: Arc<Gunner>,
    pub server: usize,
}

#[async_trait]
impl Watcher for OnDatabaseLine {
    async fn look(&self, seen: Seen) -> Verdict {
        let moment = match seen {
            Seen::DeliveryStored => Moment::AfterInboxInsert,
            Seen::DispatchCommitted => Moment::AfterCommitBeforeEffect,
            Seen::AboutToCommit => Moment::BeforeCommit,
            Seen::Committed => Moment::CommitUnanswered,
        };
        self.gunner.at(self.server, moment).await
    }
}
