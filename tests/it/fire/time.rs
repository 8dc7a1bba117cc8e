//! The time that servers and GitHub go by: the machine's, or one that jumps ahead while everybody only waits for it.
//!
//! What a dead process had claimed comes free after half a minute, and what failed is tried again after a minute. In a
//! small test that is nearly all of its time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::PgConnection;
use stackorder::clock::{Clock as _, Millis, SECOND_MS, SystemClock};
use stackorder::demo::control::ControlDesk;

use super::field::ask;

/// Nothing has changed for so long: what still waits, waits for the clock.
const STILL_FOR: Duration = Duration::from_millis(1_500);
/// Longer than a lease, so that two jumps pass the first wait of what failed.
const JUMP_MS: Millis = 31 * SECOND_MS;
/// Everything that changes while anybody works.
const FINGERPRINT: &str = "select concat_ws(' ',
    (select count(*) from audit),
    (select string_agg(id || coalesce(claimed_by, '') || attempts, ',' order by id) from jobs),
    (select string_agg(id || coalesce(claimed_by, '') || attempts, ',' order by id) from deliveries where done_at is null),
    (select sum(version) from runs), (select sum(updated_at) from run_stacks))";

/// Which time counts.
#[derive(Clone)]
pub struct Time {
    clock: Arc<SystemClock>,
    /// One for each server, whose clock it moves.
    desks: Vec<Arc<ControlDesk>>,
}

/// Since when nothing has changed.
pub struct Stillness {
    since: Instant,
    fingerprint: String,
}

impl Default for Stillness {
    fn default() -> Self {
        Self { since: Instant::now(), fingerprint: String::new() }
    }
}

impl Time {
    pub fn of_the_machine() -> Self {
        Self { clock: Arc::default(), desks: Vec::new() }
    }

    pub async fn that_jumps(servers: usize) -> Self {
        let mut desks = Vec::new();
        for _ in 0..servers {
            desks.push(Arc::new(ControlDesk::open(0).await.unwrap()));
        }
        Self { clock: Arc::default(), desks }
    }

    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    pub fn desk(&self, server: usize) -> Option<Arc<ControlDesk>> {
        self.desks.get(server).cloned()
    }

    /// Jumps when nothing changed for a while; true when it did.
    pub async fn jump_if_still(&self, stillness: &mut Stillness, conn: &mut PgConnection) -> bool {
        if self.desks.is_empty() {
            return false;
        }
        let fingerprint = ask(conn, FINGERPRINT).await;
        if fingerprint != stillness.fingerprint {
            *stillness = Stillness { since: Instant::now(), fingerprint };
        }
        if stillness.since.elapsed() < STILL_FOR {
            return false;
        }
        let offset = self.clock.offset() + JUMP_MS;
        self.clock.set_offset(offset);
        self.desks.iter().for_each(|desk| desk.set_offset(offset));
        *stillness = Stillness::default();
        true
    }
}
