//! What time brings: one leader writes the due jobs, any process works them off (spec 22 §6).

use croner::parser::CronParser;
use jiff::tz::TimeZone;
use serde_json::json;

use super::{App, Result};
use crate::clock::{DAY_MS, HOUR_MS, MINUTE_MS, Millis, SECOND_MS};
use crate::run::once;
use crate::run::scene::{JobKind, NewJob};

/// A leader that stopped gives its place up after this.
const LEADER_TTL_MS: Millis = 30 * SECOND_MS;
/// The leader's lease.
pub const LEADER: &str = "scheduler";
/// A leader that was away catches up this far, and only the newest fire of each schedule.
const CATCH_UP_MS: Millis = HOUR_MS;

impl App {
    /// One tick: takes or keeps the lead, and enqueues every slot that is due. Slots are named, so that a slot is worked once
    /// whoever writes it.
    pub async fn tick(&self, holder: &str) -> Result<()> {
        let now = self.now();
        if !self.store.take_lease(LEADER, holder, now, LEADER_TTL_MS).await? {
            return Ok(());
        }
        self.slot(JobKind::Reconcile, now, MINUTE_MS, 0).await?;
        self.slot(JobKind::MissedDeliveries, now, HOUR_MS, 0).await?;
        self.slot(JobKind::OpenPullRequests, now, HOUR_MS, 0).await?;
        self.slot(JobKind::Prune, now, HOUR_MS, 0).await?;
        self.slot(JobKind::StaleLocks, now, DAY_MS, 8 * HOUR_MS).await?;
        self.slot(JobKind::SyncInstallations, now, DAY_MS, 4 * HOUR_MS).await?;
        for repo in self.store.repos().await?.into_iter().filter(|repo| !repo.suspended) {
            let policy = repo.policy();
            let schedule = &policy.drift.schedule;
            if schedule.is_empty() {
                continue;
            }
            match last_fire(schedule, now) {
                Ok(Some(fire)) if fire > now - CATCH_UP_MS => {
                    let once = once::drift_fire(repo.id, fire);
                    if !self.store.was_claimed(&once).await? {
                        let payload = json!({ "repo_id": repo.id, "fire": fire });
                        self.enqueue_once(once, NewJob::now(JobKind::ScheduleDrift, payload, now)).await?;
                    }
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(repo = %repo.full_name, schedule, error, "the drift schedule is ignored"),
            }
        }
        self.bells.ring_all();
        Ok(())
    }

    /// A process that stops lets another one lead at once.
    pub async fn resign(&self, holder: &str) -> Result<()> {
        Ok(self.store.release_lease(LEADER, holder).await?)
    }

    /// What a process does once when it starts.
    pub async fn enqueue_start(&self) -> Result<()> {
        let now = self.now();
        for kind in [JobKind::SyncInstallations, JobKind::MissedDeliveries, JobKind::OpenPullRequests] {
            self.store.add_job(&NewJob::keyed(kind, format!("{}:start", kind.as_str()), json!({}), now)).await?;
        }
        self.bells.ring_all();
        Ok(())
    }

    async fn slot(&self, kind: JobKind, now: Millis, every: Millis, offset: Millis) -> Result<()> {
        let slot = (now - offset).div_euclid(every) * every + offset;
        let once = once::slot(kind, slot);
        // A daily slot of long ago is not caught up.
        if now - slot > CATCH_UP_MS || self.store.was_claimed(&once).await? {
            return Ok(());
        }
        // Keyed, so that slots which GitHub keeps waiting do not pile up: one runs, and runs again if others came due meanwhile.
        self.enqueue_once(once, NewJob::keyed(kind, kind.as_str().to_owned(), json!({}), now)).await
    }

    /// The name and the job in one commit; a second writer loses and does nothing.
    async fn enqueue_once(&self, once: String, job: NewJob) -> Result<()> {
        let changes = crate::run::scene::Changes {
            effects: crate::run::scene::Effects { once: vec![once], jobs: vec![job], ..Default::default() },
            ..Default::default()
        };
        match self.store.commit(changes).await {
            Ok(()) | Err(crate::store::StoreError::Conflict(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The newest time at or before `now` at which a schedule fires; UTC unless it starts with `CRON_TZ=<zone> `.
fn last_fire(schedule: &str, now: Millis) -> std::result::Result<Option<Millis>, String> {
    let trimmed = schedule.trim();
    let zoned = trimmed.strip_prefix("CRON_TZ=").or_else(|| trimmed.strip_prefix("TZ="));
    let (zone, fields) = match zoned.and_then(|rest| rest.split_once(' ')) {
        Some((zone, fields)) => (TimeZone::get(zone).map_err(|error| error.to_string())?, fields.trim()),
        None => (TimeZone::UTC, trimmed),
    };
    let cron = CronParser::new().parse(fields).map_err(|error| error.to_string())?;
    let now = jiff::Timestamp::from_millisecond(now).map_err(|error| error.to_string())?.to_zoned(zone);
    match cron.find_previous_occurrence(&now, true) {
        Ok(fire) => Ok(Some(fire.timestamp().as_millisecond())),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::parse_rfc3339;

    fn fire(schedule: &str, now: &str) -> Option<String> {
        let now = parse_rfc3339(now).unwrap();
        last_fire(schedule, now).unwrap().map(crate::clock::rfc3339)
    }

    #[test]
    fn the_newest_fire_is_found_in_the_schedules_own_zone() {
        assert_eq!(fire("30 5 * * 1-5", "2026-11-30T06:00:00Z").unwrap(), "2026-11-30T05:30:00Z");
        assert_eq!(fire("30 5 * * 1-5", "2026-11-29T06:00:00Z").unwrap(), "2026-11-27T05:30:00Z");
        assert_eq!(fire("CRON_TZ=Europe/Rome 30 5 * * *", "2026-11-30T06:00:00Z").unwrap(), "2026-11-30T04:30:00Z");
        assert_eq!(fire("30 5 * * *", "2026-11-30T05:30:00Z").unwrap(), "2026-11-30T05:30:00Z");
    }

    #[test]
    fn a_schedule_that_makes_no_sense_is_an_error() {
        assert!(last_fire("not a schedule", 0).is_err());
        assert!(last_fire("CRON_TZ=Nowhere/Land 30 5 * * *", 0).is_err());
    }
}
