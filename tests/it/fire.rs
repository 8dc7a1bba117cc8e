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
//! - `large`: one pull request of 300 stacks, with nothing going wrong, and GitHub's limits.
//!
//! `docs/under-fire.md` tells how to run it in full.

mod aftermath;
pub mod database_line;
mod field;
mod gunner;
mod jobs;
mod large;
mod lines;
mod servers;
mod time;
mod town;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use field::{AT_REST, Field, SERVERS, Terms};
use gunner::{Gunner, Moment, Order, Orders};
use time::Time;
use town::{Pull, Shape, Work};

use crate::databases::postgres_url;

/// Set to `full`, the tests do all that the acceptance asks for; set to `50x20`, they do it with 50 runs of 20 stacks.
const SIZE: &str = "STACKORDER_FIRE";
const SEED: u64 = 20_261_130;
const SMALL_MAX: Duration = Duration::from_secs(4 * 60);
const FULL_MAX: Duration = Duration::from_secs(15 * 60);

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_die_between_any_two_steps_apply_every_stack_once() {
    let (work, times) = match asked_for() {
        Some(work) => (work, [30, 30, 30, 20]),
        None => (Work { pulls: 6, stacks: 5, shape: Shape::Fans }, [3, 3, 2, 1]),
    };
    let moments = [
        Moment::AfterInboxInsert,
        Moment::AfterCommitBeforeEffect,
        Moment::AfterDispatchBeforeAcknowledgement,
        Moment::AfterWritingBeforeAcknowledgement,
    ];
    fight("servers_that_die_between_any_two_steps_apply_every_stack_once", work, &moments, &times).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_connection_cut_around_a_commit_loses_nothing_and_doubles_nothing() {
    let (work, times) = match asked_for() {
        Some(work) => (Work { pulls: work.pulls.div_ceil(10), shape: Shape::Chain, ..work }, [50, 50]),
        None => (Work { pulls: 3, stacks: 5, shape: Shape::Fans }, [6, 6]),
    };
    let moments = [Moment::BeforeCommit, Moment::CommitUnanswered];
    fight("a_database_connection_cut_around_a_commit_loses_nothing_and_doubles_nothing", work, &moments, &times).await;
}

/// More work than the small one of every `cargo test`.
fn asked_for() -> Option<Work> {
    let asked = std::env::var(SIZE).ok().filter(|asked| !asked.is_empty())?;
    let size = if asked == "full" { "200x20" } else { &asked };
    let (pulls, stacks) = size.split_once('x').expect("STACKORDER_FIRE is `full`, or runs and stacks as in `50x20`");
    let number = |text: &str| text.parse().expect("a number");
    Some(Work { pulls: number(pulls), stacks: number(stacks), shape: Shape::Fans })
}

/// How often a moment comes in all of the work, about: strikes are spread over the first third of it, and over more
/// where they wait for the last victim to be up again.
fn occurrences(moment: Moment, work: Work) -> usize {
    match moment {
        // Events of each job and of what it is part of.
        Moment::AfterInboxInsert => work.pulls * work.stacks * 6,
        // Two waves, and the plans in between.
        Moment::AfterCommitBeforeEffect | Moment::AfterDispatchBeforeAcknowledgement => work.pulls * 3,
        Moment::AfterWritingBeforeAcknowledgement => work.pulls * 8,
        Moment::BeforeCommit | Moment::CommitUnanswered => work.pulls * work.stacks * 16,
    }
}

/// Opens all pull requests, asks for all applies at once, waits for the end of it, and merges.
async fn fight(test_name: &str, work: Work, moments: &[Moment], times: &[u32]) {
    let Some(database_url) = postgres_url(test_name) else { return };
    let order = |(moment, times): (&Moment, &u32)| {
        let apart = occurrences(*moment, work) / (3 * *times as usize);
        (*moment, Order { times: *times, one_in: u32::try_from(apart).expect("a small number").max(1) })
    };
    let orders: Orders = moments.iter().zip(times).map(order).collect();
    let gunner = Gunner::new(SEED, orders.clone());
    let (time, deadline) = match asked_for() {
        Some(_) => (Time::of_the_machine(), FULL_MAX),
        None => (Time::that_jumps(SERVERS).await, SMALL_MAX),
    };
    let terms = Terms { work, time, deadline, keeps_limits: false };
    let field = Field::prepare(database_url, gunner.clone(), terms).await;
    gunner.aim_at(field.servers.clone());

    let many = work.pulls;
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

    let outcome = aftermath::check(&field, &pulls, work).await;
    for (moment, order) in &orders {
        let struck = gunner.struck().get(moment).copied().unwrap_or(0);
        assert_eq!(struck, order.times, "{moment:?}");
    }
    field.tell(&outcome);
    field.clear().await;
}
