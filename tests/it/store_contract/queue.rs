//! Inbox and outbox: who works on what, for how long, and what becomes of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use stackorder::run::scene::{Effects, JobKind, NewJob};
use stackorder::store::{Delivery, Job, Outcome, QueueFilter, QueueId, Stored};

use super::values::*;

const LEASE: i64 = 100;

async fn deliver(store: &AStore, id: &str, now: i64) -> Stored {
    store.store_delivery(id, "push", "{}", now).await.unwrap()
}

async fn take(store: &AStore, now: i64) -> Option<Delivery> {
    store.claim_delivery("w", now, LEASE).await.unwrap()
}

async fn claim(store: &AStore, now: i64) -> Option<Job> {
    store.claim_job("w", now, LEASE).await.unwrap()
}

async fn finish(store: &AStore, job: &Job, outcome: Outcome, now: i64) {
    store.finish_job(job, "w", &outcome, now).await.unwrap();
}

fn name(job: &Job) -> &str {
    job.payload["name"].as_str().unwrap()
}

fn retry(at: i64) -> Outcome {
    Outcome::Retry { at, error: "502".into() }
}

fn dead() -> Outcome {
    Outcome::Dead { error: "gone".into() }
}

pub async fn a_delivery_is_stored_once(store: AStore) {
    assert_eq!(store.next_due().await.unwrap(), None);
    assert_eq!(deliver(&store, "d1", 10).await, Stored::Queued);
    assert_eq!(deliver(&store, "d1", 20).await, Stored::Known);
    assert_eq!(store.next_due().await.unwrap(), Some(10));

    let delivery = take(&store, 30).await.unwrap();
    let expected =
        Delivery { id: "d1".into(), event: "push".into(), payload: "{}".into(), received_at: 10, attempts: 0 };
    assert_eq!(delivery, expected);
    assert_eq!(deliver(&store, "d1", 30).await, Stored::Known, "being worked on");
    store.finish_delivery("d1", "w", &Outcome::Done, 40).await.unwrap();
    assert_eq!(deliver(&store, "d1", 50).await, Stored::Known, "done");
    assert_eq!(take(&store, 10_000).await, None);
    assert_eq!(store.next_due().await.unwrap(), None);
}

pub async fn deliveries_that_come_at_once_are_all_stored_and_each_once(store: AStore) {
    let arriving: Vec<_> = (0..90)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { (number % 30, deliver(&store, &format!("d{:02}", number % 30), 10).await) })
        })
        .collect();
    let mut queued = Vec::new();
    for one in arriving {
        let (number, stored) = one.await.unwrap();
        queued.extend((stored == Stored::Queued).then_some(number));
    }
    queued.sort_unstable();
    assert_eq!(queued, (0..30).collect::<Vec<_>>());
    for number in 0..30 {
        assert_eq!(take(&store, 10).await.unwrap().id, format!("d{number:02}"));
    }
    assert_eq!(take(&store, 10).await, None);
}

pub async fn a_dead_delivery_can_be_delivered_again(store: AStore) {
    deliver(&store, "d1", 10).await;
    take(&store, 10).await.unwrap();
    store.finish_delivery("d1", "w", &dead(), 20).await.unwrap();
    assert_eq!(take(&store, 10_000).await, None);
    assert_eq!(store.next_due().await.unwrap(), None);

    assert_eq!(deliver(&store, "d1", 30).await, Stored::Queued);
    assert_eq!(store.next_due().await.unwrap(), Some(30));
    assert_eq!(take(&store, 30).await.unwrap().attempts, 0);
}

pub async fn deliveries_are_worked_off_oldest_first(store: AStore) {
    for (id, now) in [("d3", 30), ("d1", 10), ("d2", 10)] {
        deliver(&store, id, now).await;
    }
    assert_eq!(take(&store, 5).await, None, "not received yet");
    assert_eq!(take(&store, 40).await.unwrap().id, "d1");
    assert_eq!(take(&store, 40).await.unwrap().id, "d2");
    // One that failed waits behind those that were due earlier.
    store.finish_delivery("d1", "w", &retry(35), 40).await.unwrap();
    assert_eq!(take(&store, 40).await.unwrap().id, "d3");
    let again = take(&store, 40).await.unwrap();
    assert_eq!((again.id.as_str(), again.attempts), ("d1", 1));
    assert_eq!(take(&store, 40).await, None);
}

pub async fn an_expired_lease_is_an_attempt(store: AStore) {
    deliver(&store, "d1", 0).await;
    store.add_job(&job("j", 0)).await.unwrap();
    assert!(take(&store, 0).await.is_some() && claim(&store, 0).await.is_some());
    assert_eq!(store.next_due().await.unwrap(), Some(LEASE));
    assert!(take(&store, LEASE - 1).await.is_none() && claim(&store, LEASE - 1).await.is_none());

    let late = store.claim_delivery("v", LEASE, LEASE).await.unwrap().unwrap();
    let late_job = store.claim_job("v", LEASE, LEASE).await.unwrap().unwrap();
    assert_eq!((late.attempts, late_job.attempts), (1, 1));
}

pub async fn a_renewed_claim_lasts_longer_and_is_no_attempt(store: AStore) {
    deliver(&store, "d1", 0).await;
    store.add_job(&job("j", 0)).await.unwrap();
    take(&store, 0).await.unwrap();
    let claimed = claim(&store, 0).await.unwrap();

    let half = LEASE / 2;
    assert!(store.renew_delivery("d1", "w", half, LEASE).await.unwrap());
    assert!(store.renew_job(&claimed, "w", half, LEASE).await.unwrap());

    assert_eq!(store.next_due().await.unwrap(), Some(half + LEASE));
    let end = half + LEASE - 1;
    assert!(take(&store, end).await.is_none() && claim(&store, end).await.is_none(), "still held");
    // Late, but nobody has taken it.
    assert!(store.renew_delivery("d1", "w", end + 5, LEASE).await.unwrap());
    assert!(store.renew_job(&claimed, "w", end + 5, LEASE).await.unwrap());
    store.finish_delivery("d1", "w", &retry(end), end).await.unwrap();
    finish(&store, &claimed, retry(end), end).await;
    assert_eq!(take(&store, end).await.unwrap().attempts, 1, "the one that failed");
    assert_eq!(claim(&store, end).await.unwrap().attempts, 1);
}

pub async fn a_lost_claim_is_neither_renewed_nor_finished(store: AStore) {
    deliver(&store, "d1", 0).await;
    store.add_job(&job("j", 0)).await.unwrap();
    take(&store, 0).await.unwrap();
    let lost = claim(&store, 0).await.unwrap();
    store.claim_delivery("v", LEASE, LEASE).await.unwrap().unwrap();
    let job = store.claim_job("v", LEASE, LEASE).await.unwrap().unwrap();

    assert!(!store.renew_delivery("d1", "w", LEASE, 10 * LEASE).await.unwrap());
    assert!(!store.renew_job(&lost, "w", LEASE, 10 * LEASE).await.unwrap());
    store.finish_delivery("d1", "w", &Outcome::Done, LEASE).await.unwrap();
    finish(&store, &lost, Outcome::Done, LEASE).await;
    assert_eq!(store.next_due().await.unwrap(), Some(2 * LEASE), "the new holder's, to the moment");

    store.finish_delivery("d1", "v", &Outcome::Done, LEASE).await.unwrap();
    store.finish_job(&job, "v", &Outcome::Done, LEASE).await.unwrap();
    assert!(!store.renew_delivery("d1", "v", LEASE, LEASE).await.unwrap(), "nothing is left to hold");
    assert!(!store.renew_job(&job, "v", LEASE, LEASE).await.unwrap());
    assert!(!store.renew_delivery("none", "v", LEASE, LEASE).await.unwrap());
    assert_eq!(store.next_due().await.unwrap(), None);
}

pub async fn only_the_holder_finishes(store: AStore) {
    deliver(&store, "d1", 0).await;
    store.add_job(&keyed("k", "j", 0)).await.unwrap();
    take(&store, 0).await.unwrap();
    let slow = claim(&store, 0).await.unwrap();
    let delivery = store.claim_delivery("v", LEASE, LEASE).await.unwrap().unwrap();
    let job = store.claim_job("v", LEASE, LEASE).await.unwrap().unwrap();

    for outcome in [Outcome::Done, retry(0), dead(), Outcome::Unstarted { at: 0 }] {
        store.finish_delivery("d1", "w", &outcome, LEASE).await.unwrap();
        finish(&store, &slow, outcome, LEASE).await;
        assert_eq!(store.next_due().await.unwrap(), Some(2 * LEASE), "still held by the other");
    }
    store.finish_delivery(&delivery.id, "v", &Outcome::Done, LEASE).await.unwrap();
    store.finish_job(&job, "v", &Outcome::Done, LEASE).await.unwrap();
    assert_eq!(store.next_due().await.unwrap(), None);
}

pub async fn what_was_not_started_counts_no_attempt(store: AStore) {
    deliver(&store, "d1", 0).await;
    store.add_job(&job("j", 0)).await.unwrap();
    take(&store, 5).await.unwrap();
    let claimed = claim(&store, 5).await.unwrap();
    store.finish_delivery("d1", "w", &Outcome::Unstarted { at: 8 }, 6).await.unwrap();
    finish(&store, &claimed, Outcome::Unstarted { at: 9 }, 6).await;

    assert_eq!(store.next_due().await.unwrap(), Some(8));
    assert!(take(&store, 7).await.is_none() && claim(&store, 8).await.is_none());
    assert_eq!(take(&store, 8).await.unwrap().attempts, 0);
    assert_eq!(claim(&store, 9).await.unwrap(), Job { due_at: 9, ..claimed });
}

pub async fn jobs_wait_for_their_time(store: AStore) {
    for (name, due_at) in [("late", 30), ("first", 10), ("second", 10)] {
        store.add_job(&job(name, due_at)).await.unwrap();
    }
    assert_eq!(store.next_due().await.unwrap(), Some(10));
    assert_eq!(claim(&store, 9).await, None);
    assert_eq!(name(&claim(&store, 20).await.unwrap()), "first");
    let second = claim(&store, 20).await.unwrap();
    assert_eq!((name(&second), second.due_at, second.attempts, &second.key), ("second", 10, 0, &None));
    assert_eq!(claim(&store, 20).await, None);

    finish(&store, &second, retry(25), 20).await;
    assert_eq!(claim(&store, 24).await, None);
    let again = claim(&store, 25).await.unwrap();
    assert_eq!((name(&again), again.attempts), ("second", 1));
    finish(&store, &again, Outcome::Done, 25).await;
    assert_eq!(name(&claim(&store, 30).await.unwrap()), "late");
}

pub async fn a_key_waits_only_once(store: AStore) {
    for (name, due_at) in [("one", 20), ("two", 10), ("three", 30)] {
        store.add_job(&keyed("k", name, due_at)).await.unwrap();
    }
    store.commit(effects(Effects { jobs: vec![keyed("other", "x", 15)], ..Effects::default() })).await.unwrap();

    let claimed = claim(&store, 12).await.unwrap();
    assert_eq!((name(&claimed), claimed.due_at), ("three", 10), "newest content, earliest time");
    assert_eq!(claimed.key.as_deref(), Some("k"));
    finish(&store, &claimed, Outcome::Done, 12).await;
    assert_eq!(name(&claim(&store, 40).await.unwrap()), "x");
    assert_eq!(claim(&store, 40).await, None);
}

pub async fn a_kind_is_claimed_alone(store: AStore) {
    for (kind, name, due_at) in
        [(JobKind::Render, "first", 0), (JobKind::SendDispatch, "second", 1), (JobKind::SendDispatch, "late", 9)]
    {
        store.add_job(&NewJob::now(kind, json!({ "name": name }), due_at)).await.unwrap();
    }
    let claim_dispatch = || store.claim_job_of(JobKind::SendDispatch, "w", 5, LEASE);
    let dispatch = claim_dispatch().await.unwrap().unwrap();
    assert_eq!((dispatch.kind, name(&dispatch)), (JobKind::SendDispatch, "second"));
    assert_eq!(claim_dispatch().await.unwrap(), None, "the other one is not due");
    assert_eq!(name(&claim(&store, 5).await.unwrap()), "first");
}

pub async fn a_key_asked_for_again_during_its_work_runs_again(store: AStore) {
    store.add_job(&keyed("k", "one", 0)).await.unwrap();
    let claimed = claim(&store, 0).await.unwrap();
    finish(&store, &claimed, retry(0), 0).await;
    let claimed = claim(&store, 0).await.unwrap();
    store.add_job(&keyed("k", "two", 500)).await.unwrap();
    assert_eq!(claim(&store, 50).await, None, "one at a time");

    finish(&store, &claimed, Outcome::Done, 50).await;
    let again = claim(&store, 50).await.unwrap();
    assert_eq!((name(&again), again.due_at, again.attempts), ("two", 50, 0));
    assert!(again.generation > claimed.generation);
    finish(&store, &again, Outcome::Done, 50).await;
    assert_eq!(store.next_due().await.unwrap(), None);
}

pub async fn a_key_asked_for_again_is_not_lost_when_its_job_dies(store: AStore) {
    store.add_job(&keyed("k", "one", 0)).await.unwrap();
    let claimed = claim(&store, 0).await.unwrap();
    store.add_job(&keyed("k", "two", 0)).await.unwrap();
    finish(&store, &claimed, dead(), 10).await;
    let again = claim(&store, 10).await.unwrap();
    assert_eq!((name(&again), again.attempts), ("two", 0));
}

pub async fn a_dead_key_lives_again(store: AStore) {
    store.add_job(&keyed("k", "one", 0)).await.unwrap();
    let claimed = claim(&store, 0).await.unwrap();
    finish(&store, &claimed, dead(), 0).await;
    assert_eq!(claim(&store, 1000).await, None);

    store.add_job(&keyed("k", "two", 50)).await.unwrap();
    assert_eq!(claim(&store, 49).await, None);
    let again = claim(&store, 50).await.unwrap();
    assert_eq!((name(&again), again.attempts, again.due_at), ("two", 0, 50));
}

pub async fn a_finished_key_is_free_again(store: AStore) {
    store.add_job(&keyed("k", "one", 0)).await.unwrap();
    let first = claim(&store, 0).await.unwrap();
    finish(&store, &first, Outcome::Done, 0).await;
    store.add_job(&keyed("k", "two", 0)).await.unwrap();
    let second = claim(&store, 0).await.unwrap();
    assert_ne!(first.id, second.id);
    finish(&store, &first, Outcome::Done, 0).await;
    assert_eq!(store.next_due().await.unwrap(), Some(LEASE), "a late finish of the first does not end the second");
}

pub async fn errors_are_cut_and_dead_jobs_stay(store: AStore) {
    let long = "é\0".repeat(10_000);
    deliver(&store, "d1", 0).await;
    store.add_job(&job("j", 0)).await.unwrap();
    take(&store, 0).await.unwrap();
    let claimed = claim(&store, 0).await.unwrap();
    store.finish_delivery("d1", "w", &Outcome::Retry { at: 5, error: long.clone() }, 0).await.unwrap();
    finish(&store, &claimed, Outcome::Dead { error: long }, 0).await;
    assert_eq!(claim(&store, 1000).await, None);
    assert_eq!(take(&store, 5).await.unwrap().attempts, 1);
}

pub async fn racing_workers_share_the_jobs(store: AStore) {
    const JOBS: usize = 24;
    for number in 0..JOBS {
        store.add_job(&job(&number.to_string(), 0)).await.unwrap();
        deliver(&store, &format!("d{number}"), 0).await;
    }
    let workers: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|worker| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while let Some(job) = store.claim_job(worker, 0, LEASE).await.unwrap() {
                    store.finish_job(&job, worker, &Outcome::Done, 0).await.unwrap();
                    seen.push(name(&job).to_owned());
                }
                while let Some(delivery) = store.claim_delivery(worker, 0, LEASE).await.unwrap() {
                    store.finish_delivery(&delivery.id, worker, &Outcome::Done, 0).await.unwrap();
                    seen.push(delivery.id);
                }
                seen
            })
        })
        .collect();
    let mut seen = Vec::new();
    for worker in workers {
        seen.extend(worker.await.unwrap());
    }
    assert_eq!(seen.len(), 2 * JOBS);
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 2 * JOBS, "each once");
}

pub async fn taking_over_ends_claims_and_leases_at_once_or_leaves_them_to_end(store: AStore) {
    store.add_job(&job("one", 0)).await.unwrap();
    deliver(&store, "d", 0).await;
    assert!(claim(&store, 0).await.is_some() && take(&store, 0).await.is_some());
    assert!(store.take_lease("leader", "dead", 0, LEASE).await.unwrap());

    store.take_over().await.unwrap();

    // Where one process serves, the dead one's work is free now; elsewhere it is another replica's until it ends.
    let freed = claim(&store, 1).await.is_some();
    assert_eq!(take(&store, 1).await.is_some(), freed);
    assert_eq!(store.take_lease("leader", "new", 1, LEASE).await.unwrap(), freed);
    // Its own new claim holds until later than the dead one's would have.
    assert_eq!(claim(&store, LEASE).await.is_some(), !freed);
}

/// Id, kind, key, attempts, time, whether somebody works on it, whether it is dead, the last error.
type Seen = (String, String, Option<String>, u32, i64, bool, bool, String);

async fn seen(store: &AStore, filter: QueueFilter, limit: u32) -> Vec<Seen> {
    let listed = store.queue(filter, limit).await.unwrap();
    listed
        .into_iter()
        .map(|one| {
            let claimed = one.claimed_until.is_some();
            (one.id.to_string(), one.kind, one.key, one.attempts, one.due_at, claimed, one.dead, one.last_error)
        })
        .collect()
}

/// A dead delivery, one that is done, one that waits; a dead job with a key, one that is worked on, one that waits.
async fn a_mixed_queue(store: &AStore) {
    for (id, now) in [("dead", 1), ("done", 2), ("waits", 30)] {
        deliver(store, id, now).await;
    }
    assert_eq!(take(store, 5).await.unwrap().id, "dead");
    store.finish_delivery("dead", "w", &dead(), 7).await.unwrap();
    assert_eq!(take(store, 5).await.unwrap().id, "done");
    store.finish_delivery("done", "w", &Outcome::Done, 7).await.unwrap();
    store.add_job(&keyed("k", "dies", 1)).await.unwrap();
    let dying = claim(store, 1).await.unwrap();
    finish(store, &dying, dead(), 9).await;
    store.add_job(&job("worked on", 20)).await.unwrap();
    claim(store, 20).await.unwrap();
    store.add_job(&job("waits", 30)).await.unwrap();
}

pub async fn an_operator_sees_what_waits_what_is_worked_on_and_what_is_dead(store: AStore) {
    assert_eq!(seen(&store, QueueFilter::All, 10).await, []);
    a_mixed_queue(&store).await;
    let all = seen(&store, QueueFilter::All, 10).await;
    let short: Vec<(&str, &str, i64, bool, bool)> =
        all.iter().map(|one| (one.0.as_str(), one.1.as_str(), one.4, one.5, one.6)).collect();
    let expected = [
        ("event:dead", "push", 7, false, true),
        ("job:1", "render", 9, false, true),
        ("job:2", "comment", 20, true, false),
        ("event:waits", "push", 30, false, false),
        ("job:3", "comment", 30, false, false),
    ];
    assert_eq!(short, expected, "earliest due first, deliveries before jobs, nothing that is done");
    assert_eq!((all[0].3, all[0].7.as_str()), (1, "gone"));
    assert_eq!((all[1].2.as_deref(), all[1].3, all[1].7.as_str()), (Some("k"), 1, "gone"));
    assert_eq!((&all[2].2, all[2].3, all[2].7.as_str()), (&None, 0, ""));
    assert_eq!(seen(&store, QueueFilter::All, 2).await, all[..2], "no more than asked for");
    assert_eq!(store.queue(QueueFilter::All, 3).await.unwrap()[2].claimed_until, Some(20 + LEASE));
}

pub async fn only_dead_letters_are_listed_where_only_they_are_asked_for(store: AStore) {
    a_mixed_queue(&store).await;
    let ids: Vec<String> = seen(&store, QueueFilter::Dead, 10).await.into_iter().map(|one| one.0).collect();
    assert_eq!(ids, ["event:dead", "job:1"]);
    assert_eq!(seen(&store, QueueFilter::Dead, 1).await.len(), 1);
}

pub async fn a_dead_letter_is_put_back_once_and_that_is_audited(store: AStore) {
    a_mixed_queue(&store).await;
    for (id, at) in [("event:dead", 40), ("job:1", 41)] {
        let parsed = QueueId::parse(id).unwrap();
        assert_eq!(parsed.to_string(), id);
        let entry = audit(at, "queue_retry", id, 0);
        assert!(store.revive(&parsed, at, &entry).await.unwrap());
        assert!(!store.revive(&parsed, at + 1, &entry).await.unwrap(), "it is none any more");
    }
    let audited = store.audit(10, None).await.unwrap();
    assert_eq!(audited.iter().map(|(_, entry)| entry.target.as_str()).collect::<Vec<_>>(), ["job:1", "event:dead"]);
    assert_eq!(seen(&store, QueueFilter::Dead, 10).await, []);

    assert_eq!(take(&store, 39).await.unwrap().id, "waits", "not before its time");
    let again = take(&store, 40).await.unwrap();
    assert_eq!((again.id.as_str(), again.attempts), ("dead", 0), "with all its attempts");
    assert_eq!(name(&claim(&store, 40).await.unwrap()), "waits");
    let again = claim(&store, 41).await.unwrap();
    assert_eq!((name(&again), again.attempts, again.key.as_deref()), ("dies", 0, Some("k")));
    assert_eq!(seen(&store, QueueFilter::All, 10).await.iter().filter(|one| !one.7.is_empty()).count(), 0);
}

pub async fn what_is_no_dead_letter_is_not_put_back(store: AStore) {
    a_mixed_queue(&store).await;
    let before = seen(&store, QueueFilter::All, 10).await;
    for id in ["event:done", "event:waits", "event:nowhere", "job:2", "job:3", "job:99"] {
        let id = QueueId::parse(id).unwrap();
        assert!(!store.revive(&id, 50, &audit(50, "queue_retry", "x", 0)).await.unwrap(), "{id}");
    }
    assert_eq!(seen(&store, QueueFilter::All, 10).await, before);
    assert!(store.audit(10, None).await.unwrap().is_empty());
    for text in ["", "dead", "event:", "job:x", "jobs:1", "job:"] {
        assert_eq!(QueueId::parse(text), None, "{text:?}");
    }
}
