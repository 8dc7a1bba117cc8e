//! Kills the server's process three times inside every step, at seeded moments, and starts it again on the same database.
//!
//! A moment is an amount of what the fake GitHub has seen since the step began, not a time: the same seed strikes at the
//! same place of the story on a fast machine and on a slow one.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use fake_github::Hub;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::Mutex;

use crate::demo::laptop::Laptop;
use crate::demo::server_process::ServerProcess;

/// Kills in each step.
const KILLS: usize = 3;
/// How often the journal is looked at for the next moment.
const LOOK_EVERY: Duration = Duration::from_millis(3);
/// How often failed deliveries are looked for.
const REDELIVER_EVERY: Duration = Duration::from_millis(50);

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

    /// Runs a step, during which the journal grows by at least `journal_bytes`, while the server dies at its moments.
    ///
    /// # Errors
    ///
    /// What the step fails with, or that it met fewer kills than it should have.
    pub async fn during(
        &self,
        number: u64,
        journal_bytes: u64,
        step: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        let mut random = rand::rngs::StdRng::seed_from_u64(self.seed.wrapping_mul(1_000).wrapping_add(number));
        let mut moments: Vec<u64> = (0..KILLS).map(|_| random.random_range(0..journal_bytes)).collect();
        moments.sort_unstable();
        let begun = self.written();
        let struck = AtomicUsize::new(0);
        let outcome = tokio::select! {
            outcome = step => outcome,
            never = self.strike_at(begun, &moments, &struck) => match never {},
            never = self.redeliver_failed() => match never {},
        };
        // A strike that the step's end interrupted has left the server down.
        self.server.lock().await.start().await?;
        outcome?;
        let (struck, seen) = (struck.into_inner(), self.written() - begun);
        ensure!(struck == KILLS, "the server was killed {struck} times: the moments are {moments:?} of {seen} bytes");
        Ok(())
    }

    /// Strikes at each moment, then waits for the step to end.
    async fn strike_at(&self, begun: u64, moments: &[u64], struck: &AtomicUsize) -> Infallible {
        for moment in moments {
            while self.written() - begun < *moment || !self.strike(struck).await {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        std::future::pending().await
    }

    /// False while the step keeps the server down on purpose: its moment comes once it is up again.
    async fn strike(&self, struck: &AtomicUsize) -> bool {
        let mut server = self.server.lock().await;
        if !server.is_up() {
            return false;
        }
        let killed = server.kill().await;
        struck.fetch_add(1, Ordering::Relaxed);
        let restarted = match killed {
            Ok(()) => server.start().await,
            Err(error) => Err(error),
        };
        if let Err(error) = restarted {
            anstream::println!("    the server did not come back: {error:#}");
        }
        true
    }

    /// GitHub never repeats a delivery by itself: an operator does, from the App's page. What fell into a kill fails there.
    async fn redeliver_failed(&self) -> Infallible {
        let mut asked_for = BTreeSet::new();
        loop {
            // While it is down they would only fail again.
            if self.server.try_lock().is_ok_and(|server| server.is_up()) {
                for delivery in self.hub.failed_deliveries() {
                    if asked_for.insert(delivery) {
                        self.hub.redeliver(delivery);
                    }
                }
            }
            tokio::time::sleep(REDELIVER_EVERY).await;
        }
    }

    fn written(&self) -> u64 {
        std::fs::metadata(&self.journal).map_or(0, |data| data.len())
    }
}
