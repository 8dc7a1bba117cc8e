//! Two servers on one Postgres under fire: processes die and connections are cut at exact moments while many runs are in
//! flight, and in the end every stack was applied once.
//!
//! Nothing of this is in the servers. What passes between them and Postgres, and between them and GitHub, passes through
//! lines of the test, which see the very bytes of a moment and hold them back while the process dies.
//!
//! - `wire`, `database_line`: the Postgres protocol, and the line that reads it; `lines`: those of HTTP.
//! - `gunner`: when to strike; `servers`: processes that die and start again.
//! - `town`: the repositories at GitHub; `jobs`: what the runners do; `time`: which clock counts; `field`: all of it.
//! - `aftermath`: what has to be true afterwards.
//!
//! `docs/under-fire.md` tells how to run it in full.

mod aftermath;
mod database_line;
mod field;
mod gunner;
mod jobs;
mod lines;
mod servers;
mod time;
mod town;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use field::{AT_REST, Field, SERVERS};
use gunner::{Gunner, Moment, Order, Orders};
use time::Time;
use town::{Pull, Shape, Work};

use crate::databases::postgres_url;
use crate::machine::say;

/// Set to `full`, the tests do all that the acceptance asks for.
const FULL: &str = "STACKORDER_FIRE";
const SEED: u64 = 20_261_130;

struct Battle {
    work: Work,
    orders: Orders,
    deadline: Duration,
}

fn is_full() -> bool {
    std::env::var(FULL).is_ok_and(|value| value == "full")
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_die_between_any_two_steps_apply_every_stack_once() {
    let order = |times, one_in| Order { times, one_in };
    let battle = if is_full() {
        Battle {
            work: Work { pulls: 200, stacks: 20, shape: Shape::Fans },
            orders: BTreeMap::from([
                (Moment::AfterInboxInsert, order(30, 120)),
                (Moment::AfterCommitBeforeEffect, order(30, 15)),
                (Moment::AfterDispatchBeforeAcknowledgement, order(30, 15)),
                (Moment::AfterWritingBeforeAcknowledgement, order(20, 80)),
            ]),
            deadline: Duration::from_secs(15 * 60),
        }
    } else {
        Battle {
            work: Work { pulls: 6, stacks: 5, shape: Shape::Fans },
            orders: BTreeMap::from([
                (Moment::AfterInboxInsert, order(3, 20)),
                (Moment::AfterCommitBeforeEffect, order(3, 2)),
                (Moment::AfterDispatchBeforeAcknowledgement, order(2, 3)),
                (Moment::AfterWritingBeforeAcknowledgement, order(1, 20)),
            ]),
            deadline: Duration::from_secs(4 * 60),
        }
    };
    fight("servers_that_die_between_any_two_steps_apply_every_stack_once", battle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_connection_cut_around_a_commit_loses_nothing_and_doubles_nothing() {
    let order = |times, one_in| Order { times, one_in };
    let (work, times, one_in) = if is_full() {
        (Work { pulls: 20, stacks: 20, shape: Shape::Fans }, 50, 30)
    } else {
        (Work { pulls: 3, stacks: 5, shape: Shape::Fans }, 6, 12)
    };
    let battle = Battle {
        work,
        orders: BTreeMap::from([
            (Moment::BeforeCommit, order(times, one_in)),
            (Moment::CommitUnanswered, order(times, one_in)),
        ]),
        deadline: Duration::from_secs(if is_full() { 15 * 60 } else { 4 * 60 }),
    };
    fight("a_database_connection_cut_around_a_commit_loses_nothing_and_doubles_nothing", battle).await;
}

/// Opens all pull requests, asks for all applies at once, waits for the end of it, and merges.
async fn fight(test_name: &str, battle: Battle) {
    let Some(database_url) = postgres_url(test_name) else { return };
    let gunner = Gunner::new(SEED, battle.orders.clone());
    let time = if is_full() { Time::of_the_machine() } else { Time::that_jumps(SERVERS).await };
    let field = Field::prepare(database_url, battle.work, gunner.clone(), time, battle.deadline).await;
    gunner.aim_at(field.servers.clone());

    let many = battle.work.pulls;
    let town = field.town.clone();
    let pulls = Arc::new(tokio::task::spawn_blocking(move || town.open_pull_requests()).await.unwrap());
    field.tell("all pull requests are open");
    let planned = "select count(*) from runs where mode = 'plan' and trigger = 'pull_request' and status = 'planned'";
    field.until(&format!("select ({planned}) = {many}"), "all are planned").await;
    field.until(AT_REST, "nothing moves").await;

    for Pull { repo, number, .. } in pulls.iter() {
        field.town.github.comment(repo, *number, "alice", "stackorder apply");
    }
    let ended = "select count(*) from runs where mode = 'apply' and status in ('applied', 'failed')";
    field.until(&format!("select ({ended}) = {many}"), "all have ended").await;
    field.until(AT_REST, "nothing moves").await;
    gunner.cease();

    let (town, merging) = (field.town.clone(), pulls.clone());
    tokio::task::spawn_blocking(move || {
        for pull in merging.iter() {
            town.github.merge(&pull.repo, pull.number, "alice").unwrap();
        }
    })
    .await
    .unwrap();
    field.until("select count(*) = 0 from locks", "all locks are released").await;
    field.until(AT_REST, "nothing moves").await;

    let outcome = aftermath::check(&field, &pulls, battle.work).await;
    for (moment, order) in &battle.orders {
        let struck = gunner.struck().get(moment).copied().unwrap_or(0);
        assert_eq!(struck, order.times, "{moment:?}");
    }
    say(&format!("fire: {outcome}; struck {:?}", gunner.struck()));
    field.clear().await;
}
