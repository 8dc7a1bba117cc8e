//! How much one installation writes to GitHub, and what goes first (design §8).
//!
//! GitHub refuses an installation that writes too much, and refuses it everything for a while. So what we write is counted here,
//! and what can wait is held back before GitHub has to say so. A second server process counts its own writes: where two run,
//! GitHub's own answer is the last word, and the retry table of spec 24 §3 follows it.

use std::collections::VecDeque;

use crate::clock::{HOUR_MS, MINUTE_MS, Millis, SECOND_MS};

/// What a write is for, most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Without it nothing goes on: dispatches, answers to protection rules, re-runs. Counted, never held back.
    Progress,
    /// The checks that a merge may wait for.
    RollUp,
    /// Comments, reactions, issues.
    Comment,
    /// A check of one stack; the roll-up and the comment say the same.
    Detail,
}

impl Urgency {
    /// How much of an allowance is left to what is more urgent, in percent.
    fn kept_back(self) -> u32 {
        match self {
            Urgency::Progress => 0,
            Urgency::RollUp => 5,
            Urgency::Comment => 20,
            Urgency::Detail => 50,
        }
    }
}

/// What one installation may write. Nothing for no limit, as on an Enterprise Server that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    pub per_minute: Option<u32>,
    pub per_hour: Option<u32>,
}

impl Allowance {
    pub const UNLIMITED: Self = Self { per_minute: None, per_hour: None };
}

impl Default for Allowance {
    /// GitHub's limits for requests that create content.
    fn default() -> Self {
        Self { per_minute: Some(80), per_hour: Some(500) }
    }
}

/// The quota of one installation, as the newest answer told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pub limit: u32,
    pub remaining: u32,
    pub resets_at: Millis,
}

impl Quota {
    /// Until when what is left of it is kept for what is more urgent: a fifth of each share, because reads live on it, too.
    fn held_until(&self, urgency: Urgency, now: Millis) -> Option<Millis> {
        let kept = u64::from(self.limit) * u64::from(urgency.kept_back()) / 500;
        (self.resets_at > now && u64::from(self.remaining) < kept).then_some(self.resets_at)
    }
}

/// Shortest time between two edits of the same comment or check.
const EDIT_EVERY_MS: Millis = 5 * SECOND_MS;
/// Longest, when the hour's allowance is nearly spent.
const EDIT_EVERY_MAX_MS: Millis = MINUTE_MS;

/// The writes of one installation within the last hour.
#[derive(Debug, Default)]
pub struct Budget {
    /// Oldest first.
    writes: VecDeque<Millis>,
    /// GitHub's own word.
    closed_until: Millis,
}

impl Budget {
    /// GitHub said that it wants no call before this time.
    pub fn close(&mut self, until: Millis) {
        self.closed_until = self.closed_until.max(until);
    }

    pub fn closed_until(&self, now: Millis) -> Option<Millis> {
        (self.closed_until > now).then_some(self.closed_until)
    }

    /// Counts one write. An error is the time before which this one must not be made.
    pub fn spend(
        &mut self,
        urgency: Urgency,
        allowance: Allowance,
        quota: Option<Quota>,
        now: Millis,
    ) -> Result<(), Millis> {
        // A clock that was set back must not make old writes young.
        let now = now.max(self.writes.back().copied().unwrap_or(now));
        while self.writes.front().is_some_and(|at| *at <= now - HOUR_MS) {
            self.writes.pop_front();
        }
        if urgency != Urgency::Progress {
            let windows = [(MINUTE_MS, allowance.per_minute), (HOUR_MS, allowance.per_hour)];
            let full = windows.into_iter().filter_map(|(window, most)| self.full_until(window, most?, urgency, now));
            let spent = quota.and_then(|quota| quota.held_until(urgency, now));
            if let Some(until) = full.chain(spent).max() {
                return Err(until);
            }
        }
        self.writes.push_back(now);
        Ok(())
    }

    fn full_until(&self, window: Millis, most: u32, urgency: Urgency, now: Millis) -> Option<Millis> {
        let share = u64::from(most) * u64::from(100 - urgency.kept_back()) / 100;
        // An allowance of one write still allows one.
        let share = usize::try_from(share.max(1)).unwrap_or(usize::MAX);
        // The write that must have left the window before another one fits.
        let leaves = *self.writes.get(self.writes.len().checked_sub(share)?)? + window;
        (leaves > now).then_some(leaves)
    }

    /// Shortest time between two edits of the same comment or check: longer as the hour's allowance shrinks, and none where there
    /// is no limit to keep.
    pub fn edit_every(&self, allowance: Allowance) -> Millis {
        if allowance == Allowance::UNLIMITED {
            return 0;
        }
        let Some(most) = allowance.per_hour.map(i64::from).filter(|most| *most > 0) else { return EDIT_EVERY_MS };
        let written = i64::try_from(self.writes.len()).unwrap_or(most);
        let left = (most - written).max(1);
        (EDIT_EVERY_MS * most / left).clamp(EDIT_EVERY_MS, EDIT_EVERY_MAX_MS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Millis = 1_800_000_000_000;
    const ALL: [Urgency; 4] = [Urgency::Progress, Urgency::RollUp, Urgency::Comment, Urgency::Detail];

    fn spent(budget: &mut Budget, urgency: Urgency, now: Millis) -> usize {
        let mut count = 0;
        while count < 10_000 && budget.spend(urgency, Allowance::default(), None, now).is_ok() {
            count += 1;
        }
        count
    }

    #[test]
    fn each_urgency_leaves_its_share_to_what_is_more_urgent() {
        let mut budget = Budget::default();
        assert_eq!(spent(&mut budget, Urgency::Detail, NOW), 40);
        assert_eq!(spent(&mut budget, Urgency::Comment, NOW), 24);
        assert_eq!(spent(&mut budget, Urgency::RollUp, NOW), 12);
        assert_eq!(spent(&mut budget, Urgency::Progress, NOW), 10_000, "what the rest waits for is never held back");
    }

    #[test]
    fn what_is_held_back_learns_when_it_may_come_back() {
        let mut budget = Budget::default();
        let detail = |budget: &mut Budget, now| budget.spend(Urgency::Detail, Allowance::default(), None, now);
        assert_eq!(detail(&mut budget, NOW), Ok(()));
        (1..40).for_each(|second| assert_eq!(detail(&mut budget, NOW + second * 100), Ok(())));
        assert_eq!(detail(&mut budget, NOW + 4_000), Err(NOW + MINUTE_MS));
        assert_eq!(detail(&mut budget, NOW + MINUTE_MS), Ok(()));
        assert_eq!(detail(&mut budget, NOW + MINUTE_MS), Err(NOW + MINUTE_MS + 100));
    }

    #[test]
    fn the_hour_has_an_allowance_of_its_own() {
        let mut budget = Budget::default();
        let written: usize = (0..60).map(|minute| spent(&mut budget, Urgency::Detail, NOW + minute * MINUTE_MS)).sum();
        assert_eq!(written, 250);
        assert_eq!(spent(&mut budget, Urgency::Detail, NOW + HOUR_MS), 40);
    }

    #[test]
    fn a_quota_that_runs_out_is_kept_for_what_is_urgent_until_it_is_whole_again() {
        let quota = |remaining| Some(Quota { limit: 5_000, remaining, resets_at: NOW + HOUR_MS });
        let may = |urgency, remaining| {
            Budget::default().spend(urgency, Allowance::default(), quota(remaining), NOW).map_err(|until| until - NOW)
        };
        assert_eq!(may(Urgency::Detail, 500), Ok(()));
        assert_eq!(may(Urgency::Detail, 499), Err(HOUR_MS));
        assert_eq!(may(Urgency::Comment, 200), Ok(()));
        assert_eq!(may(Urgency::Comment, 199), Err(HOUR_MS));
        assert_eq!(may(Urgency::RollUp, 49), Err(HOUR_MS));
        assert_eq!(may(Urgency::Progress, 0), Ok(()));
        let over = Some(Quota { limit: 5_000, remaining: 0, resets_at: NOW });
        assert_eq!(Budget::default().spend(Urgency::Detail, Allowance::default(), over, NOW), Ok(()));
    }

    #[test]
    fn edits_come_further_apart_as_the_allowance_shrinks() {
        let mut budget = Budget::default();
        let allowance = Allowance { per_minute: None, per_hour: Some(100) };
        let mut apart = vec![budget.edit_every(allowance)];
        for _ in 0..99 {
            budget.spend(Urgency::Progress, allowance, None, NOW).unwrap();
            apart.push(budget.edit_every(allowance));
        }
        assert!(apart.is_sorted());
        assert_eq!((apart[0], apart[50], apart[75], apart[99]), (5_000, 10_000, 20_000, 60_000));
        assert_eq!(budget.edit_every(Allowance { per_minute: Some(80), per_hour: None }), 5_000);
        assert_eq!(budget.edit_every(Allowance::UNLIMITED), 0, "nobody is spared by waiting");
    }

    proptest! {
        /// Whatever comes in whatever order, no window holds more than its allowance of what can be held back.
        #[test]
        fn no_window_ever_holds_more_than_its_allowance(
            steps in proptest::collection::vec((0..20_000_i64, 1..4_usize), 1..600),
        ) {
            let allowance = Allowance { per_minute: Some(20), per_hour: Some(90) };
            let (mut budget, mut now, mut written) = (Budget::default(), NOW, Vec::new());
            for (later, urgency) in steps {
                now += later;
                match budget.spend(ALL[urgency], allowance, None, now) {
                    Ok(()) => written.push(now),
                    Err(until) => prop_assert!(until > now && until <= now + HOUR_MS),
                }
            }
            for (window, most) in [(MINUTE_MS, 20), (HOUR_MS, 90)] {
                for end in &written {
                    let within = written.iter().filter(|at| **at <= *end && **at > end - window).count();
                    prop_assert!(within <= most, "{} writes within {} ms", within, window);
                }
            }
        }
    }
}
