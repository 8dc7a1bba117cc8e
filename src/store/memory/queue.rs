//! Inbox and outbox over maps.

use std::collections::BTreeMap;

use crate::clock::Millis;
use crate::run::scene::{JobKind, NewJob};
use crate::store::rules::{clean, error_text};
use crate::store::{Delivery, Job, Outcome, QueueFilter, QueueId, Queued, Stored};

#[derive(Debug, Default)]
pub(super) struct Queue {
    deliveries: BTreeMap<String, Letter>,
    /// Deliveries that are done, by when they came: they are known, and nobody looks at them again.
    done: BTreeMap<String, Millis>,
    jobs: BTreeMap<i64, Task>,
    /// The number of the newest job; never given twice.
    last_job: i64,
}

/// What a delivery and a job have in common.
#[derive(Debug, Default)]
struct Turn {
    due_at: Millis,
    attempts: u32,
    claim: Option<(String, Millis)>,
    dead: bool,
    last_error: String,
}

#[derive(Debug)]
struct Letter {
    turn: Turn,
    event: String,
    payload: String,
    received_at: Millis,
}

#[derive(Debug)]
struct Task {
    turn: Turn,
    job: NewJob,
    generation: i64,
}

impl Turn {
    fn at(due_at: Millis) -> Self {
        Self { due_at, ..Self::default() }
    }

    fn is_claimable(&self, now: Millis) -> bool {
        !self.dead && self.due_at <= now && self.claim.as_ref().is_none_or(|(_, until)| *until <= now)
    }

    fn is_held_by(&self, worker: &str) -> bool {
        self.claim.as_ref().is_some_and(|(holder, _)| *holder == *clean(worker))
    }

    /// A claim whose lease ran out was an attempt.
    fn claim(&mut self, worker: &str, until: Millis) {
        if self.claim.is_some() {
            self.attempts += 1;
            self.last_error = "claim expired".to_owned();
        }
        self.claim = Some((clean(worker).into_owned(), until));
    }

    fn renew(&mut self, worker: &str, until: Millis) -> bool {
        let held = self.is_held_by(worker);
        if held {
            self.claim = Some((clean(worker).into_owned(), until));
        }
        held
    }

    fn fail(&mut self, at: Millis, error: &str) {
        self.attempts += 1;
        self.due_at = at;
        self.last_error = error_text(error);
    }

    fn shown(&self, id: QueueId, kind: &str, key: Option<String>) -> Queued {
        Queued {
            id,
            kind: kind.to_owned(),
            key,
            attempts: self.attempts,
            due_at: self.due_at,
            claimed_until: self.claim.as_ref().map(|(_, until)| *until),
            dead: self.dead,
            last_error: self.last_error.clone(),
        }
    }

    fn due(&self) -> Option<Millis> {
        if self.dead { None } else { Some(self.claim.as_ref().map_or(self.due_at, |(_, until)| *until)) }
    }
}

impl Queue {
    pub(super) fn store_delivery(&mut self, id: &str, event: &str, payload: &str, now: Millis) -> Stored {
        let id = clean(id).into_owned();
        if self.done.contains_key(&id) {
            return Stored::Known;
        }
        match self.deliveries.get_mut(&id) {
            Some(letter) if letter.turn.dead => {
                letter.turn = Turn::at(now);
                Stored::Queued
            }
            Some(_) => Stored::Known,
            None => {
                let letter = Letter {
                    turn: Turn::at(now),
                    event: clean(event).into_owned(),
                    payload: clean(payload).into_owned(),
                    received_at: now,
                };
                self.deliveries.insert(id, letter);
                Stored::Queued
            }
        }
    }

    /// Whoever held them is gone.
    pub(super) fn end_all_claims(&mut self) {
        let letters = self.deliveries.values_mut().map(|letter| &mut letter.turn);
        let tasks = self.jobs.values_mut().map(|task| &mut task.turn);
        for (_, until) in letters.chain(tasks).filter_map(|turn| turn.claim.as_mut()) {
            *until = 0;
        }
    }

    pub(super) fn claim_delivery(&mut self, worker: &str, now: Millis, lease_ms: Millis) -> Option<Delivery> {
        let claimable = self.deliveries.iter_mut().filter(|(_, one)| one.turn.is_claimable(now));
        // The first of equals has the smallest id.
        let (id, letter) = claimable.min_by_key(|(_, one)| (one.turn.due_at, one.received_at))?;
        letter.turn.claim(worker, now.saturating_add(lease_ms));
        Some(Delivery {
            id: id.clone(),
            event: letter.event.clone(),
            payload: letter.payload.clone(),
            received_at: letter.received_at,
            attempts: letter.turn.attempts,
        })
    }

    pub(super) fn renew_delivery(&mut self, id: &str, worker: &str, now: Millis, lease_ms: Millis) -> bool {
        let letter = self.deliveries.get_mut(&*clean(id));
        letter.is_some_and(|letter| letter.turn.renew(worker, now.saturating_add(lease_ms)))
    }

    pub(super) fn finish_delivery(&mut self, id: &str, worker: &str, outcome: &Outcome, now: Millis) {
        let Some(letter) = self.deliveries.get_mut(&*clean(id)) else { return };
        if !letter.turn.is_held_by(worker) {
            return;
        }
        letter.turn.claim = None;
        match outcome {
            Outcome::Done => {
                self.done.insert(clean(id).into_owned(), letter.received_at);
                self.deliveries.remove(&*clean(id));
            }
            Outcome::Retry { at, error } => letter.turn.fail(*at, error),
            Outcome::Dead { error } => {
                letter.turn.fail(now, error);
                letter.turn.dead = true;
            }
            Outcome::Unstarted { at } => letter.turn.due_at = *at,
        }
    }

    pub(super) fn add_job(&mut self, job: &NewJob) {
        let key = job.key.as_ref().map(|key| clean(key).into_owned());
        let waiting = self.jobs.values_mut().find(|task| key.is_some() && task.job.key == key);
        let Some(task) = waiting else {
            self.last_job += 1;
            let task = Task { turn: Turn::at(job.due_at), job: NewJob { key, ..job.clone() }, generation: 0 };
            self.jobs.insert(self.last_job, task);
            return;
        };
        task.generation += 1;
        task.job = NewJob { key, ..job.clone() };
        if task.turn.dead {
            task.turn = Turn::at(job.due_at);
        } else if task.turn.claim.is_none() {
            task.turn.due_at = task.turn.due_at.min(job.due_at);
        }
    }

    pub(super) fn claim_job(
        &mut self,
        kind: Option<JobKind>,
        worker: &str,
        now: Millis,
        lease_ms: Millis,
    ) -> Option<Job> {
        let wanted = self.jobs.iter_mut().filter(|(_, task)| kind.is_none_or(|kind| task.job.kind == kind));
        let claimable = wanted.filter(|(_, task)| task.turn.is_claimable(now));
        let (id, task) = claimable.min_by_key(|(id, task)| (task.turn.due_at, **id))?;
        task.turn.claim(worker, now.saturating_add(lease_ms));
        Some(Job {
            id: id.to_string(),
            kind: task.job.kind,
            payload: task.job.payload.clone(),
            key: task.job.key.clone(),
            due_at: task.turn.due_at,
            attempts: task.turn.attempts,
            generation: task.generation,
        })
    }

    pub(super) fn renew_job(&mut self, job: &Job, worker: &str, now: Millis, lease_ms: Millis) -> bool {
        let task = job.id.parse().ok().and_then(|id: i64| self.jobs.get_mut(&id));
        task.is_some_and(|task| task.turn.renew(worker, now.saturating_add(lease_ms)))
    }

    pub(super) fn finish_job(&mut self, job: &Job, worker: &str, outcome: &Outcome, now: Millis) {
        let Ok(id) = job.id.parse::<i64>() else { return };
        let Some(task) = self.jobs.get_mut(&id) else { return };
        if !task.turn.is_held_by(worker) {
            return;
        }
        task.turn.claim = None;
        let asked_again = task.generation != job.generation;
        match outcome {
            Outcome::Done | Outcome::Dead { .. } if asked_again => {
                task.turn.attempts = 0;
                task.turn.due_at = now;
            }
            Outcome::Done => {
                self.jobs.remove(&id);
            }
            Outcome::Retry { at, error } => task.turn.fail(*at, error),
            Outcome::Dead { error } => {
                task.turn.fail(now, error);
                task.turn.dead = true;
            }
            Outcome::Unstarted { at } => task.turn.due_at = *at,
        }
    }

    pub(super) fn list(&self, filter: QueueFilter, limit: u32) -> Vec<Queued> {
        let letters = self.deliveries.iter().map(|(id, letter)| {
            let order = (letter.turn.due_at, 0, letter.received_at, id.as_str(), 0);
            (order, letter.turn.shown(QueueId::Event(id.clone()), &letter.event, None))
        });
        let tasks = self.jobs.iter().map(|(id, task)| {
            let order = (task.turn.due_at, 1, 0, "", *id);
            (order, task.turn.shown(QueueId::Job(*id), task.job.kind.as_str(), task.job.key.clone()))
        });
        let mut found: Vec<_> =
            letters.chain(tasks).filter(|(_, one)| filter == QueueFilter::All || one.dead).collect();
        found.sort_by_key(|(order, _)| *order);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        found.into_iter().take(limit).map(|(_, one)| one).collect()
    }

    /// Whether it was a dead letter.
    pub(super) fn revive(&mut self, id: &QueueId, now: Millis) -> bool {
        let turn = match id {
            QueueId::Event(id) => self.deliveries.get_mut(&*clean(id)).map(|letter| &mut letter.turn),
            QueueId::Job(id) => self.jobs.get_mut(id).map(|task| &mut task.turn),
        };
        let Some(turn) = turn.filter(|turn| turn.dead) else { return false };
        *turn = Turn::at(now);
        true
    }

    pub(super) fn next_due(&self) -> Option<Millis> {
        let letters = self.deliveries.values().filter_map(|letter| letter.turn.due());
        letters.chain(self.jobs.values().filter_map(|task| task.turn.due())).min()
    }

    /// Drops deliveries that are done or that nobody works on, and dead jobs, from before this time; answers how many.
    pub(super) fn prune(&mut self, before: Millis) -> usize {
        let had = self.deliveries.len() + self.done.len() + self.jobs.len();
        self.deliveries.retain(|_, letter| letter.received_at >= before || letter.turn.claim.is_some());
        self.done.retain(|_, received_at| *received_at >= before);
        // A dead job became due when it died.
        self.jobs.retain(|_, task| !(task.turn.dead && task.turn.due_at < before));
        had - self.deliveries.len() - self.done.len() - self.jobs.len()
    }
}
