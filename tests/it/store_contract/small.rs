//! Audit, token ids, keys, leases, retention.

use std::collections::BTreeMap;
use std::sync::Arc;

use stackorder::clock::DAY_MS;
use stackorder::run::model::{AuditEntry, DriftSeen, Lock};
use stackorder::run::once;
use stackorder::run::scene::{Changes, Effects, JobKind, PlanText};
use stackorder::store::{ApiKey, Lease, Outcome, Rendered, Retention};

use super::values::*;

pub async fn the_database_answers(store: AStore) {
    store.ping().await.unwrap();
}

pub async fn audit_comes_newest_first(store: AStore) {
    for at in 1..=5 {
        store.add_audit(&audit(at, "command", "acme/infra", at)).await.unwrap();
    }
    let newest = store.audit(2, None).await.unwrap();
    assert_eq!(newest.iter().map(|(_, entry)| entry.at).collect::<Vec<_>>(), [5, 4]);
    assert_eq!(newest[0].1, audit(5, "command", "acme/infra", 5));
    let older = store.audit(10, Some(newest[1].0)).await.unwrap();
    assert_eq!(older.iter().map(|(_, entry)| entry.at).collect::<Vec<_>>(), [3, 2, 1]);
}

pub async fn audit_is_counted_by_target_and_time(store: AStore) {
    for (at, action, target, pr) in
        [(10, "command", "a/b", 1), (20, "command", "a/b", 2), (30, "command", "a/c", 1), (30, "unlock", "a/b", 1)]
    {
        store.add_audit(&audit(at, action, target, pr)).await.unwrap();
    }
    store.add_audit(&AuditEntry { details: BTreeMap::new(), ..audit(40, "command", "a/b", 0) }).await.unwrap();
    let count = async |pr, since| store.audit_count("command", "a/b", pr, since).await.unwrap();
    assert_eq!(count(None, 0).await, 3);
    assert_eq!(count(None, 20).await, 2, "that moment included");
    assert_eq!(count(None, 41).await, 0);
    assert_eq!(count(Some(1), 0).await, 1);
    assert_eq!(count(Some(0), 0).await, 0);
}

pub async fn a_token_id_is_used_once(store: AStore) {
    assert!(store.use_token_id("t1", 100, 10).await.unwrap());
    assert!(!store.use_token_id("t1", 200, 10).await.unwrap());
    assert!(!store.use_token_id("t1", 200, 99).await.unwrap());
    assert!(store.use_token_id("t2", 100, 10).await.unwrap());
    assert!(store.use_token_id("t1", 300, 100).await.unwrap(), "expired");
    assert!(!store.use_token_id("t1", 300, 101).await.unwrap());
}

fn api_key(id: &str) -> ApiKey {
    ApiKey {
        id: id.into(),
        name: "ci".into(),
        key_hash: format!("hash-{id}"),
        prefix: "so_1234567".into(),
        created_by: "ann".into(),
        created_at: 10,
        expires_at: Some(500),
        repos: vec!["acme/infra".into()],
        scopes: vec!["read".into()],
        last_used_at: None,
        revoked_at: None,
    }
}

pub async fn an_api_key_is_found_by_its_hash(store: AStore) {
    store.save_api_key(&api_key("k2")).await.unwrap();
    store.save_api_key(&ApiKey { created_at: 5, ..api_key("k3") }).await.unwrap();
    store.save_api_key(&api_key("k1")).await.unwrap();
    assert_eq!(store.api_key_by_hash("hash-k1").await.unwrap(), Some(api_key("k1")));
    assert_eq!(store.api_key_by_hash("hash-k9").await.unwrap(), None);
    let ids: Vec<String> = store.api_keys().await.unwrap().into_iter().map(|key| key.id).collect();
    assert_eq!(ids, ["k3", "k1", "k2"], "oldest first");
    assert_eq!(conflict(store.save_api_key(&ApiKey { key_hash: "hash-k1".into(), ..api_key("k9") }).await), []);
}

pub async fn a_revoked_key_stays_revoked(store: AStore) {
    store.save_api_key(&api_key("k")).await.unwrap();
    store.save_api_key(&ApiKey { last_used_at: Some(30), ..api_key("k") }).await.unwrap();
    store.save_api_key(&ApiKey { revoked_at: Some(40), ..api_key("k") }).await.unwrap();
    // A request that had read the key before stamps its use.
    store.save_api_key(&ApiKey { last_used_at: Some(20), ..api_key("k") }).await.unwrap();
    let stored = store.api_key_by_hash("hash-k").await.unwrap().unwrap();
    assert_eq!((stored.revoked_at, stored.last_used_at), (Some(40), Some(30)));
}

pub async fn noting_a_use_of_a_key_changes_nothing_else(store: AStore) {
    store.save_api_key(&ApiKey { revoked_at: Some(40), ..api_key("k") }).await.unwrap();
    for at in [30, 20] {
        store.touch_api_key("k", at).await.unwrap();
        let stored = store.api_key_by_hash("hash-k").await.unwrap().unwrap();
        assert_eq!(stored, ApiKey { revoked_at: Some(40), last_used_at: Some(30), ..api_key("k") });
    }
    store.touch_api_key("nobody", 50).await.unwrap();
    assert_eq!(store.api_keys().await.unwrap().len(), 1);
}

pub async fn what_was_rendered_is_remembered(store: AStore) {
    let rendered = |github_id, digest: &str| Rendered {
        github_id,
        digest: digest.into(),
        written_at: 1_800_000_000_000 + github_id,
    };
    assert_eq!(store.rendered("pr:7:1", "comment").await.unwrap(), None);
    store.save_rendered("pr:7:1", "comment", &rendered(5, "a")).await.unwrap();
    store.save_rendered("pr:7:1", "comment", &rendered(6, "b")).await.unwrap();
    store.save_rendered("pr:7:1", "check", &rendered(7, "c")).await.unwrap();
    store.save_rendered("pr:7:2", "check", &rendered(8, "d")).await.unwrap();
    assert_eq!(store.rendered("pr:7:1", "comment").await.unwrap(), Some(rendered(6, "b")));
    let expected = BTreeMap::from([("check".into(), rendered(7, "c")), ("comment".into(), rendered(6, "b"))]);
    assert_eq!(store.rendered_in("pr:7:1").await.unwrap(), expected);
    assert!(store.rendered_in("pr:7").await.unwrap().is_empty());
}

pub async fn a_lease_has_one_holder(store: AStore) {
    let take = async |holder, now| store.take_lease("scheduler", holder, now, 100).await.unwrap();
    assert!(take("a", 0).await);
    assert!(!take("b", 50).await);
    assert!(take("a", 50).await, "prolonged by its holder");
    assert!(!take("b", 149).await);
    assert!(take("b", 150).await, "expired");
    assert!(!take("a", 150).await);
    store.release_lease("scheduler", "a").await.unwrap();
    assert!(!take("a", 150).await, "only the holder releases");
    store.release_lease("scheduler", "b").await.unwrap();
    assert!(take("a", 150).await);
    assert!(store.take_lease("other", "b", 150, 100).await.unwrap());
}

pub async fn racing_holders_get_one_lease(store: AStore) {
    let tasks: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|holder| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let lease = store.take_lease("l", holder, 0, 100).await.unwrap();
                let token = store.use_token_id("t", 100, 0).await.unwrap();
                (lease, token)
            })
        })
        .collect();
    let (mut leases, mut tokens) = (0, 0);
    for task in tasks {
        let (lease, token) = task.await.unwrap();
        leases += u32::from(lease);
        tokens += u32::from(token);
    }
    assert_eq!((leases, tokens), (1, 1));
}

pub async fn the_holder_of_a_lease_is_known(store: AStore) {
    assert_eq!(store.lease("scheduler").await.unwrap(), None);
    assert!(store.take_lease("scheduler", "a", 0, 100).await.unwrap());
    assert_eq!(store.lease("scheduler").await.unwrap(), Some(Lease { holder: "a".into(), expires_at: 100 }));
    assert!(store.take_lease("scheduler", "b", 150, 100).await.unwrap());
    assert_eq!(store.lease("scheduler").await.unwrap(), Some(Lease { holder: "b".into(), expires_at: 250 }));
    store.release_lease("scheduler", "b").await.unwrap();
    assert_eq!(store.lease("scheduler").await.unwrap(), None);
}

/// Keeps everything else.
const FOR_EVER: Retention = Retention { plan_text_ms: i64::MAX, events_ms: i64::MAX, drift_ms: i64::MAX };

async fn claim_names(store: &AStore, names: &[String]) {
    store.commit(effects(Effects { once: names.to_vec(), ..Effects::default() })).await.unwrap();
}

pub async fn names_of_the_clock_are_forgotten_and_names_of_events_stay(store: AStore) {
    let stays = ["comment:7:1", "merge:7:1:abc", "merged:7:1:abc", "drift_closed:s:r:40", "a name"].map(str::to_owned);
    let old = [
        once::slot(JobKind::Reconcile, 60_000),
        once::slot(JobKind::SyncInstallations, 0),
        once::drift_fire(REPO, 0),
        once::drift_check(&stack("vpc"), 0),
        once::lock_reminder(REPO, 1, 0),
    ];
    let now = 30 * DAY_MS;
    let fresh = [once::slot(JobKind::Reconcile, now - DAY_MS), once::drift_check(&stack("vpc"), now)];
    for names in [&stays[..], &old[..], &fresh[..]] {
        claim_names(&store, names).await;
    }
    assert_eq!(store.prune(now, &FOR_EVER).await.unwrap(), 5);
    for name in stays.iter().chain(&fresh) {
        assert!(store.was_claimed(name).await.unwrap(), "{name}");
    }
    for name in &old {
        assert!(!store.was_claimed(name).await.unwrap(), "{name}");
    }
    assert_eq!(store.prune(now, &FOR_EVER).await.unwrap(), 0);
}

pub async fn many_names_are_forgotten_in_one_pass(store: AStore) {
    let old: Vec<String> = (0..5_500).map(|minute| once::slot(JobKind::Reconcile, minute * 60_000)).collect();
    let stays: Vec<String> = (0..500).map(|comment| format!("comment:7:{comment}")).collect();
    claim_names(&store, &old).await;
    claim_names(&store, &stays).await;
    assert_eq!(store.prune(400 * DAY_MS, &FOR_EVER).await.unwrap(), 5_500);
    assert!(store.was_claimed(&stays[499]).await.unwrap());
}

pub async fn old_things_are_pruned(store: AStore) {
    with_repos(&store).await;
    let run = plan(1, 1);
    let text = |key| PlanText { run_id: run.id.clone(), stack_id: stack(key), text: "+".into() };
    let seen = |key_text: &str, run: u32, checked_at| DriftSeen {
        stack_id: stack(key_text),
        repo_id: REPO,
        key: key(key_text),
        run_id: run_id(run),
        checked_at,
        drifted: false,
        summary: None,
    };
    let mut fresh = row(&run, "fresh");
    fresh.updated_at = 9_000;
    let write = Changes {
        rows: vec![row(&run, "old"), fresh],
        effects: Effects {
            plan_texts: vec![text("old"), text("fresh")],
            drift: vec![seen("old", 1, 10), seen("old", 2, 20), seen("fresh", 1, 10), seen("fresh", 2, 9_000)],
            ..Effects::default()
        },
        ..new_runs(&[&run])
    };
    store.commit(write).await.unwrap();
    for (id, at) in [("done", 1), ("held", 2), ("waits", 3), ("new", 9_000)] {
        store.store_delivery(id, "push", "{}", at).await.unwrap();
    }
    store.claim_delivery("w", 4, 100).await.unwrap();
    store.finish_delivery("done", "w", &Outcome::Done, 4).await.unwrap();
    assert_eq!(store.claim_delivery("w", 4, 100_000).await.unwrap().unwrap().id, "held");
    store.add_job(&keyed("k", "dead", 0)).await.unwrap();
    let job = store.claim_job("w", 0, 100).await.unwrap().unwrap();
    store.finish_job(&job, "w", &Outcome::Dead { error: "x".into() }, 1).await.unwrap();
    store.use_token_id("t", 50, 0).await.unwrap();
    store.take_lease("l", "a", 0, 50).await.unwrap();
    store.take_lease("held", "a", 0, 50_000).await.unwrap();

    let keep = Retention { plan_text_ms: 1000, events_ms: 1000, drift_ms: 1000 };
    // One text, one done and one waiting delivery, one dead job, two older drift rows, one token id, one lease.
    assert_eq!(store.prune(10_000, &keep).await.unwrap(), 8);
    assert_eq!(store.prune(10_000, &keep).await.unwrap(), 0);

    assert_eq!(store.plan_text(&run.id, &stack("old")).await.unwrap(), None);
    assert!(store.plan_text(&run.id, &stack("fresh")).await.unwrap().is_some());
    assert_eq!(store.rows(&run.id).await.unwrap().len(), 2, "the summary stays");
    let stacks = store.stacks(REPO).await.unwrap();
    assert_eq!(stacks.iter().map(|stack| stack.drift.as_ref().unwrap().checked_at).collect::<Vec<_>>(), [9_000, 20]);
    assert_eq!(store.claim_delivery("w", 20_000, 100).await.unwrap().unwrap().id, "new");
    assert!(!store.take_lease("held", "b", 10_000, 1).await.unwrap());
}

pub async fn nul_characters_are_dropped(store: AStore) {
    with_repos(&store).await;
    let run = apply(1, 1);
    let write = Changes {
        rows: vec![row(&run, "vpc")],
        locks_taken: vec![Lock { reason: "by\0 ann".into(), ..lock(&run, "vpc") }],
        effects: Effects {
            once: vec!["a\0b".into()],
            plan_texts: vec![PlanText { run_id: run.id.clone(), stack_id: stack("vpc"), text: "+\0 one".into() }],
            audit: vec![audit(1, "com\0mand", "a/b", 1)],
            ..Effects::default()
        },
        ..new_runs(&[&run])
    };
    store.commit(write).await.unwrap();
    assert_eq!(store.plan_text(&run.id, &stack("vpc")).await.unwrap().as_deref(), Some("+ one"));
    assert_eq!(store.locks(None).await.unwrap()[0].reason, "by ann");
    assert!(store.was_claimed("ab").await.unwrap() && store.was_claimed("a\0b").await.unwrap());
    assert_eq!(store.audit_count("command", "a/b", None, 0).await.unwrap(), 1);
    store.store_delivery("d\0", "pu\0sh", "{\0}", 0).await.unwrap();
    let delivery = store.claim_delivery("w\0", 0, 1).await.unwrap().unwrap();
    assert_eq!((delivery.id.as_str(), delivery.event.as_str(), delivery.payload.as_str()), ("d", "push", "{}"));
    store.finish_delivery("d", "w", &Outcome::Done, 0).await.unwrap();
    assert_eq!(store.next_due().await.unwrap(), None);
}
