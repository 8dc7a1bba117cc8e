//! Webhooks that GitHub could not deliver: GitHub does not try again by itself, so we ask it to (design §3, spec 24 §2).
//!
//! What arrives twice is known by its id and handled once, so asking once too often does no harm.

use std::collections::BTreeMap;

use super::{App, Result};
use crate::clock::{DAY_MS, Millis};
use crate::github::api::{GitHubError, HookDelivery};

/// GitHub delivers again what it tried within the last three days.
const KEPT_MS: Millis = 3 * DAY_MS;
/// Attempts of one delivery after which asking again is no use: what made us refuse it so often will not change.
const ATTEMPTS_MAX: usize = 5;
/// Deliveries asked for in one look; the next look is for the rest.
const ASKED_MAX: usize = 500;

impl App {
    /// Asks for each delivery again of which no attempt was accepted, oldest first.
    pub(super) async fn ask_for_missed_deliveries(&self) -> Result<()> {
        let log = self.github.hook_deliveries(self.now() - KEPT_MS).await?;
        let missed = missed(&log);
        let asked = missed.len().min(ASKED_MAX);
        if asked > 0 {
            tracing::warn!(
                asked,
                left = missed.len() - asked,
                "webhooks were not delivered; GitHub is asked for them again"
            );
        }
        for attempt in &missed[..asked] {
            match self.github.redeliver(*attempt).await {
                // Too old by now, or of a hook that is gone.
                Ok(()) | Err(GitHubError::NotFound { .. } | GitHubError::Permanent { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The newest attempt of each delivery that never arrived, by the time of the first.
fn missed(log: &[HookDelivery]) -> Vec<i64> {
    let mut attempts: BTreeMap<&str, Vec<&HookDelivery>> = BTreeMap::new();
    for attempt in log {
        attempts.entry(&attempt.guid).or_default().push(attempt);
    }
    let lost = attempts
        .into_values()
        .filter(|of_one| of_one.len() < ATTEMPTS_MAX && of_one.iter().all(|attempt| !attempt.accepted));
    let order = |attempt: &&HookDelivery| (attempt.delivered_at, attempt.id);
    let mut lost: Vec<(Millis, i64)> = lost
        .filter_map(|of_one| {
            let first = of_one.iter().copied().min_by_key(order)?;
            let newest = of_one.iter().copied().max_by_key(order)?;
            Some((first.delivered_at, newest.id))
        })
        .collect();
    lost.sort_unstable();
    lost.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(id: i64, guid: &str, accepted: bool) -> HookDelivery {
        HookDelivery { id, guid: guid.to_owned(), delivered_at: id, accepted }
    }

    #[test]
    fn the_newest_attempt_of_what_never_arrived_is_asked_for_oldest_delivery_first() {
        let log = [
            attempt(9, "b", false),
            attempt(8, "c", true),
            attempt(7, "a", false),
            attempt(4, "c", false),
            attempt(3, "a", false),
            attempt(2, "b", false),
        ];
        assert_eq!(missed(&log), [9, 7]);
        assert!(missed(&[]).is_empty());
    }

    #[test]
    fn what_failed_too_often_is_left_alone() {
        let log: Vec<_> = (0..5).map(|id| attempt(id, "a", false)).collect();
        assert_eq!(missed(&log[..4]), [3]);
        assert!(missed(&log).is_empty());
    }
}
