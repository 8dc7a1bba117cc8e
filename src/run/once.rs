//! Names claimed once that carry a time: how they are spelled, and when they cannot come again.
//!
//! A claimed name is a row that stays. Those of the schedule come every minute, so each tells from itself when it is over
//! and may be forgotten. Names of comments, merges, heads and deliveries carry no time: an event may bring one again for as
//! long as GitHub remembers it, and there are no more of them than of the runs, which are kept as well.

use crate::clock::{DAY_MS, HOUR_MS, Millis, parse_rfc3339, rfc3339};
use crate::ids::StackId;
use crate::run::scene::JobKind;

/// Kept so much longer than they matter: clocks of several servers differ, and a leader catches an hour up.
const KEPT_MS: Millis = 2 * DAY_MS;

const DRIFT_FIRE: &str = "schedule_drift";
const DRIFT_CHECK: &str = "drift";
const LOCK_REMINDER: &str = "lock_reminder";

/// One turn of a job that the clock brings.
pub fn slot(kind: JobKind, at: Millis) -> String {
    format!("{}:{at}", kind.as_str())
}

/// One fire of a repository's drift schedule.
pub fn drift_fire(repo_id: i64, fire: Millis) -> String {
    format!("{DRIFT_FIRE}:{repo_id}:{fire}")
}

/// The drift check of a stack within the hour of this time.
pub fn drift_check(stack: &StackId, at: Millis) -> String {
    format!("{DRIFT_CHECK}:{stack}:{}", at.div_euclid(HOUR_MS))
}

/// The reminder of a closed pull request's locks on the day of this time.
pub fn lock_reminder(repo_id: i64, pr_number: i64, at: Millis) -> String {
    let day = rfc3339(at);
    format!("{LOCK_REMINDER}:{repo_id}:{pr_number}:{}", day.get(..10).unwrap_or_default())
}

/// Whether nobody can ask for this name any more.
pub fn is_over(name: &str, now: Millis) -> bool {
    time_of(name).is_some_and(|time| time.saturating_add(KEPT_MS) < now)
}

/// The time that a name carries; `None` for a name that may come again whenever.
fn time_of(name: &str) -> Option<Millis> {
    let (kind, rest) = name.split_once(':')?;
    let last = rest.rsplit(':').next()?;
    match kind {
        DRIFT_CHECK => last.parse::<Millis>().ok()?.checked_mul(HOUR_MS),
        LOCK_REMINDER => parse_rfc3339(&format!("{last}T00:00:00Z")),
        DRIFT_FIRE => last.parse().ok(),
        kind => match JobKind::parse(kind).ok()? {
            JobKind::Reconcile
            | JobKind::MissedDeliveries
            | JobKind::OpenPullRequests
            | JobKind::Prune
            | JobKind::StaleLocks
            | JobKind::SyncInstallations => rest.parse().ok(),
            JobKind::SendDispatch
            | JobKind::Render
            | JobKind::React
            | JobKind::Comment
            | JobKind::DriftIssue
            | JobKind::LoadConfig
            | JobKind::ScheduleDrift
            | JobKind::DriftStack
            | JobKind::ForkNotice
            | JobKind::RerunWorkflow
            | JobKind::PlanDownstream
            | JobKind::AnswerDeployment => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Millis = 1_800_000_000_000;

    #[test]
    fn names_of_the_clock_are_over_two_days_after_their_time() {
        let stack = StackId::of(7, "stacks/prod/vpc:eu");
        let names = [
            slot(JobKind::Reconcile, NOON),
            slot(JobKind::SyncInstallations, NOON),
            drift_fire(7, NOON),
            drift_check(&stack, NOON),
            lock_reminder(7, 12, NOON),
        ];
        for name in names {
            assert!(!is_over(&name, NOON), "{name}");
            assert!(!is_over(&name, NOON + DAY_MS), "{name}");
            assert!(is_over(&name, NOON + KEPT_MS + DAY_MS), "{name}");
        }
    }

    #[test]
    fn names_of_events_are_never_over() {
        let names = [
            "comment:7:12345",
            "merge:7:12:1111111111111111111111111111111111111111",
            "merged:7:12:1111111111111111111111111111111111111111",
            "base_changed:7:12:1234",
            "replan_head:7:12:1111111111111111111111111111111111111111",
            "drift_closed:1234:5678:40",
            "drift:not-a-stack:not-an-hour",
            "reconcile:7:12",
            "lock_reminder:7:12:someday",
            "",
            ":",
        ];
        for name in names {
            assert!(!is_over(name, Millis::MAX), "{name}");
        }
    }
}
