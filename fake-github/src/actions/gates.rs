//! Environments that hold jobs: reviewers, wait timers, the App's own rule.

use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

use super::model::{Environment, PendingDeployment};
use super::signals::{Busy, Working};

/// Every job that an environment holds.
#[derive(Debug)]
pub(super) struct Gates {
    busy: Busy,
    waiting: Mutex<Vec<Gate>>,
}

#[derive(Debug)]
struct Gate {
    run_id: i64,
    job_id: i64,
    actor: String,
    environment: Environment,
    reviewer_missing: bool,
    rule_missing: bool,
    since: i64,
    opens_at: i64,
    sender: oneshot::Sender<(Verdict, Working)>,
}

/// How the waiting ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Open,
    Rejected(String),
}

impl Gates {
    pub(super) fn new(busy: Busy) -> Self {
        Self { busy, waiting: Mutex::default() }
    }

    /// Holds a job; `None` when the environment has nothing to wait for.
    pub(super) fn hold(
        &self,
        run_id: i64,
        job_id: i64,
        actor: &str,
        environment: &Environment,
        now: i64,
    ) -> Option<oneshot::Receiver<(Verdict, Working)>> {
        let reviewer_missing = !environment.reviewers.is_empty();
        let timer = i64::from(environment.wait_timer_minutes) * 60_000;
        if !reviewer_missing && timer == 0 && !environment.protection_rule_app {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        self.lock().push(Gate {
            run_id,
            job_id,
            actor: actor.to_owned(),
            environment: environment.clone(),
            reviewer_missing,
            rule_missing: environment.protection_rule_app,
            since: now,
            opens_at: now + timer,
            sender,
        });
        Some(receiver)
    }

    /// A reviewer's answer; the environments it was for.
    pub(super) fn review(
        &self,
        run_id: i64,
        environments: &[String],
        approved: bool,
        reviewer: &str,
        comment: &str,
        now: i64,
    ) -> Vec<String> {
        let mut answered = self.answer(run_id, approved, comment, now, |gate| {
            let own = gate.environment.prevent_self_review && gate.actor == reviewer;
            let asked = environments.iter().any(|name| name.eq_ignore_ascii_case(&gate.environment.name));
            let meant = gate.reviewer_missing && asked && !own;
            gate.reviewer_missing &= !meant;
            meant
        });
        answered.sort();
        answered.dedup();
        answered
    }

    /// The App's answer to its rule.
    pub(super) fn answer_rule(&self, run_id: i64, environment: &str, approved: bool, comment: &str, now: i64) -> bool {
        let answered = self.answer(run_id, approved, comment, now, |gate| {
            let meant = gate.rule_missing && gate.environment.name.eq_ignore_ascii_case(environment);
            gate.rule_missing &= !meant;
            meant
        });
        !answered.is_empty()
    }

    /// Opens what only its timer held; the next moment at which that happens again.
    pub(super) fn look_at_timers(&self, now: i64) -> Option<i64> {
        let mut waiting = self.lock();
        self.open_ready(&mut waiting, now);
        waiting.iter().map(|gate| gate.opens_at).filter(|at| *at > now).min()
    }

    /// The job stopped waiting by itself.
    pub(super) fn forget(&self, job_id: i64) {
        self.lock().retain(|gate| gate.job_id != job_id);
    }

    /// Environments that hold jobs of a run, by name.
    pub(super) fn pending(&self, run_id: i64) -> Vec<PendingDeployment> {
        let mut pending: Vec<PendingDeployment> = Vec::new();
        for gate in self.lock().iter().filter(|gate| gate.run_id == run_id) {
            match pending.iter_mut().find(|p| p.environment == gate.environment.name) {
                Some(known) => known.job_ids.push(gate.job_id),
                None => pending.push(PendingDeployment {
                    run_id,
                    environment: gate.environment.name.clone(),
                    environment_id: gate.environment.id,
                    reviewers: gate.environment.reviewers.clone(),
                    wait_timer_minutes: gate.environment.wait_timer_minutes,
                    wait_timer_started_at: (gate.environment.wait_timer_minutes > 0).then_some(gate.since),
                    job_ids: vec![gate.job_id],
                }),
            }
        }
        pending.sort_by(|a, b| a.environment.cmp(&b.environment));
        pending
    }

    fn answer(
        &self,
        run_id: i64,
        approved: bool,
        comment: &str,
        now: i64,
        mut is_meant: impl FnMut(&mut Gate) -> bool,
    ) -> Vec<String> {
        let mut waiting = self.lock();
        let mut names = Vec::new();
        let mut i = 0;
        while i < waiting.len() {
            if waiting[i].run_id != run_id || !is_meant(&mut waiting[i]) {
                i += 1;
                continue;
            }
            names.push(waiting[i].environment.name.clone());
            if approved {
                i += 1;
            } else {
                // A job that no longer listens was cancelled meanwhile.
                let gate = waiting.remove(i);
                drop(gate.sender.send((Verdict::Rejected(comment.to_owned()), self.busy.begin())));
            }
        }
        self.open_ready(&mut waiting, now);
        names
    }

    fn open_ready(&self, waiting: &mut Vec<Gate>, now: i64) {
        let ready = |gate: &mut Gate| !gate.reviewer_missing && !gate.rule_missing && gate.opens_at <= now;
        for gate in waiting.extract_if(.., ready) {
            drop(gate.sender.send((Verdict::Open, self.busy.begin())));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Gate>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(reviewers: &[&str], minutes: u32) -> Environment {
        Environment {
            id: 1,
            name: "Production".to_owned(),
            reviewers: reviewers.iter().map(|r| (*r).to_owned()).collect(),
            wait_timer_minutes: minutes,
            ..Environment::default()
        }
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|n| (*n).to_owned()).collect()
    }

    #[tokio::test]
    async fn one_approval_opens_every_job_of_the_environment_once_its_timer_ran_out() {
        let gates = Gates::new(Busy::new());
        let first = gates.hold(1, 10, "mona", &environment(&["octocat"], 5), 0).unwrap();
        let second = gates.hold(1, 11, "mona", &environment(&["octocat"], 5), 0).unwrap();
        assert_eq!(gates.pending(1)[0].job_ids, [10, 11]);
        assert_eq!(gates.review(1, &names(&["production"]), true, "octocat", "", 0), ["Production"]);
        assert_eq!(gates.look_at_timers(0), Some(300_000));
        assert_eq!(gates.look_at_timers(300_000), None);
        assert_eq!(first.await.unwrap().0, Verdict::Open);
        assert_eq!(second.await.unwrap().0, Verdict::Open);
        assert!(gates.pending(1).is_empty());
    }

    #[tokio::test]
    async fn a_rejection_ends_the_waiting_and_nobody_reviews_their_own_run_where_that_is_prevented() {
        let gates = Gates::new(Busy::new());
        let mut guarded = environment(&["mona", "octocat"], 0);
        guarded.prevent_self_review = true;
        let held = gates.hold(1, 10, "mona", &guarded, 0).unwrap();
        assert!(gates.review(1, &names(&["Production"]), true, "mona", "", 0).is_empty());
        assert_eq!(gates.review(1, &names(&["Production"]), false, "octocat", "no", 0), ["Production"]);
        assert_eq!(held.await.unwrap().0, Verdict::Rejected("no".to_owned()));
        assert!(gates.hold(1, 10, "mona", &environment(&[], 0), 0).is_none());
    }

    #[tokio::test]
    async fn the_apps_own_rule_is_asked_besides_the_reviewers() {
        let gates = Gates::new(Busy::new());
        let mut guarded = environment(&["octocat"], 0);
        guarded.protection_rule_app = true;
        let held = gates.hold(1, 10, "mona", &guarded, 0).unwrap();
        assert!(!gates.answer_rule(1, "staging", true, "", 0));
        assert!(gates.answer_rule(1, "production", true, "", 0));
        assert!(!gates.answer_rule(1, "production", true, "", 0));
        assert_eq!(gates.pending(1).len(), 1);
        gates.review(1, &names(&["production"]), true, "octocat", "", 0);
        assert_eq!(held.await.unwrap().0, Verdict::Open);
    }
}
