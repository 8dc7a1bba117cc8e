//! Kills the server's process three times inside every step, at seeded moments, and starts it again on the same database.
//!
//! A moment is an amount of what the fake GitHub has seen since the step began, not a time: the same seed strikes at the
//! same place of the story on a fast machine and on a slow one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fake_github::Hub;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::Mutex;

use crate::demo::laptop::Laptop;
use crate::demo::server_process::ServerProcess;

/// Kills in each step.
const KILLS: usize = 3;
/// Bytes of the journal among which the moments are drawn: a step writes at least as much.
const JOURNAL_SPAN: std::ops::Range<u64> = 500..60_000;
/// How often the journal is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(3);

pub struct Killer {
    seed: u64,
    journal: PathBuf,
    server: Arc<Mutex<ServerProcess>>,
    hub: Arc<Hub>,
}

impl Killer {
    pub fn new(seed: u64, laptop: &Laptop) -> Self {
        Self { seed, journal: laptop.dir().join("github.ndjson"), server: laptop.server(), hub: laptop.hub().clone() }
    }

    /// Runs the step while the server dies at its moments. Moments that the step did not reach come at its end.
    pub async fn during<T>(&self, number: u64, step: impl Future<Output = T>) -> T {
        let mut random = rand::rngs::StdRng::seed_from_u64(self.seed.wrapping_mul(1_000).wrapping_add(number));
        let mut moments: Vec<u64> = (0..KILLS).map(|_| random.random_range(JOURNAL_SPAN)).collect();
        moments.sort_unstable();
        let begun = self.written();
        let mut kills = 0;
        let mut redelivered = BTreeSet::new();
        tokio::pin!(step);
        let outcome = loop {
            tokio::select! {
                outcome = &mut step => break outcome,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            self.redeliver_failed(&mut redelivered);
            if moments.get(kills).is_some_and(|moment| self.written() - begun >= *moment) {
                // The step goes on while the server is down.
                tokio::select! {
                    outcome = &mut step => break outcome,
                    () = self.strike() => kills += 1,
                }
            }
        };
        // A strike that the step's end interrupted has left the server down.
        self.raise().await;
        while kills < KILLS {
            self.strike().await;
            kills += 1;
        }
        outcome
    }

    async fn strike(&self) {
        let mut server = self.server.lock().await;
        // A step that keeps the server down on purpose is not helped up.
        if !server.is_up() {
            return;
        }
        let restarted = async {
            server.kill().await?;
            server.start().await
        };
        if let Err(error) = restarted.await {
            anstream::println!("    the server did not come back: {error:#}");
        }
    }

    /// GitHub never repeats a delivery by itself: an operator does, from the App's page. What fell into a kill fails there.
    fn redeliver_failed(&self, redelivered: &mut BTreeSet<i64>) {
        for delivery in self.hub.deliveries() {
            let failed = delivery.delivered_at.is_some() && !(200..300).contains(&delivery.status_code);
            if failed && !self.hub.faults().loses(&delivery.event, &delivery.payload) && redelivered.insert(delivery.id)
            {
                self.hub.redeliver(delivery.id);
            }
        }
    }

    async fn raise(&self) {
        let mut server = self.server.lock().await;
        if let Err(error) = server.start().await {
            anstream::println!("    the server did not come back: {error:#}");
        }
    }

    fn written(&self) -> u64 {
        std::fs::metadata(&self.journal).map_or(0, |data| data.len())
    }
}
