//! What has to be true when the fire is out: in the database, at GitHub, and in the ledger of what the jobs did.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sqlx::{PgConnection, Row as _};

use super::field::{Field, ask};
use super::town::{Pull, Work};

/// Checks everything, and returns what is worth telling.
pub async fn check(field: &Field, pulls: &[Pull], work: Work) -> String {
    let all = work.pulls * work.stacks;
    let mut conn = field.connect().await;
    applied_exactly_once(field, all);
    let claims = claimed_exactly_once(&mut conn, all).await;
    let dispatches = served_by_one_workflow_run_each(&mut conn).await;
    let duplicates = workflow_runs_beside(field, &dispatches, &claims);
    nothing_is_left(&mut conn).await;
    told_once(field, pulls);
    let unexpected = field.town.github.unexpected_requests();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    let panics: Vec<String> =
        field.servers.iter().flat_map(|server| server.complaints()).filter(|line| line.contains("panicked")).collect();
    assert!(panics.is_empty(), "{panics:#?}");
    let deliveries: i64 = ask(&mut conn, "select count(*) from deliveries").await;
    let ledger = field.door.ledger();
    format!(
        "{all} results accepted, {deliveries} deliveries, {} dispatches, {duplicates} workflow runs besides that applied nothing, {} jobs refused, \
         {} calls made again, {} starts of servers",
        dispatches.len(),
        ledger.refused.len(),
        ledger.retried,
        field.servers.iter().map(|server| server.starts()).sum::<u32>(),
    )
}

/// The truth is what the jobs did, not what the database says of it.
fn applied_exactly_once(field: &Field, all: usize) {
    let ledger = field.door.ledger();
    assert!(ledger.broken.is_empty(), "{:#?}", ledger.broken);
    assert!(ledger.out_of_order.is_empty(), "{:#?}", ledger.out_of_order);
    assert_eq!(ledger.applied.len(), all, "stacks that were applied");
    let twice: Vec<_> = ledger.applied.iter().filter(|(_, runs)| runs.len() != 1).collect();
    assert!(twice.is_empty(), "applied more than once: {twice:#?}");
    assert_eq!(ledger.accepted.len(), all, "stacks whose result was accepted");
    assert!(ledger.accepted.values().all(|results| *results == 1), "no job reports twice");
}

/// A workflow run for each claimed row: every row of every apply run, once.
async fn claimed_exactly_once(conn: &mut PgConnection, all: usize) -> BTreeSet<i64> {
    let rows = sqlx::query(
        "select runs.status, run_stacks.status, run_stacks.body from run_stacks join runs on runs.id = run_id
         where runs.mode = 'apply'",
    )
    .fetch_all(&mut *conn)
    .await
    .unwrap();
    assert_eq!(rows.len(), all, "rows of apply runs");
    let mut claims = BTreeSet::new();
    for row in rows {
        let (run, status): (String, String) = (row.get(0), row.get(1));
        let body: Value = serde_json::from_str(row.get(2)).unwrap();
        assert_eq!((run.as_str(), status.as_str()), ("applied", "applied"), "{body}");
        assert!(body["late_evidence"].is_null(), "{body}");
        claims.insert(body["claim"]["workflow_run_id"].as_i64().unwrap_or_else(|| panic!("never claimed: {body}")));
    }
    let audited: i64 = ask(conn, "select count(*) from audit where action = 'claimed'").await;
    let different: i64 =
        ask(conn, "select count(distinct (target, details)) from audit where action = 'claimed'").await;
    assert_eq!((audited, different), (all as i64, all as i64), "claims in the audit log");
    claims
}

/// I6 and I7: the workflow run of each dispatch.
async fn served_by_one_workflow_run_each(conn: &mut PgConnection) -> BTreeMap<i64, String> {
    let rows = sqlx::query("select id, workflow_run_id, mode from dispatches").fetch_all(&mut *conn).await.unwrap();
    let many = rows.len();
    let served: BTreeMap<i64, String> = rows
        .into_iter()
        .map(|row| {
            let run: Option<i64> = row.get(1);
            (run.unwrap_or_else(|| panic!("{} was never served", row.get::<String, _>(0))), row.get(2))
        })
        .collect();
    assert_eq!(served.len(), many, "a workflow run serves two dispatches");
    served
}

/// Only runs that serve a dispatch claimed; how many there are besides, because GitHub was asked twice.
fn workflow_runs_beside(field: &Field, dispatches: &BTreeMap<i64, String>, claims: &BTreeSet<i64>) -> usize {
    let applying: BTreeSet<i64> =
        dispatches.iter().filter(|(_, mode)| mode.as_str() == "apply").map(|(run, _)| *run).collect();
    assert_eq!(*claims, applying, "workflow runs that claimed, and those that serve an apply");
    let mut beside = 0;
    for repo in field.town.repositories() {
        for run in field.town.github.engine().runs(&repo) {
            assert!(run.conclusion.is_some(), "{} of {repo} has not ended", run.title);
            if run.event == "workflow_dispatch" {
                beside += usize::from(!dispatches.contains_key(&run.id));
            }
        }
    }
    beside
}

async fn nothing_is_left(conn: &mut PgConnection) {
    for (what, question) in [
        ("locks", "select count(*) from locks"),
        ("jobs", "select count(*) from jobs"),
        ("dead or open deliveries", "select count(*) from deliveries where dead or done_at is null"),
        ("runs that did not end well", "select count(*) from runs where status not in ('applied', 'planned')"),
        ("open dispatches", "select count(*) from dispatches where completed_at is null"),
    ] {
        let left: i64 = ask(conn, question).await;
        assert_eq!(left, 0, "{what}");
    }
}

/// Every pull request was told the same, and each thing once.
fn told_once(field: &Field, pulls: &[Pull]) {
    for pull in pulls {
        let comments: Vec<String> = field
            .town
            .github
            .comments(&pull.repo, pull.number)
            .into_iter()
            .filter(|comment| comment.via_app.is_some())
            .map(|comment| comment.body.lines().next().unwrap_or_default().to_owned())
            .collect();
        let different: BTreeSet<&String> = comments.iter().collect();
        assert_eq!(different.len(), comments.len(), "{}#{} was told twice: {comments:#?}", pull.repo, pull.number);
        let mut checks = BTreeMap::<String, usize>::new();
        for check in field.town.github.all_check_runs(&pull.repo, &pull.head) {
            if check.app == field.town.app.id {
                assert_eq!(check.conclusion.as_deref(), Some("success"), "{}#{}: {check:#?}", pull.repo, pull.number);
                *checks.entry(check.name).or_default() += 1;
            }
        }
        let twice: Vec<_> = checks.iter().filter(|(_, many)| **many > 1).collect();
        assert!(twice.is_empty(), "{}#{} has checks twice: {twice:?}", pull.repo, pull.number);
    }
}
