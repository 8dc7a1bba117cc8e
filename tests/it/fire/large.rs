//! One pull request of 300 stacks, and what GitHub saw of it: every limit is kept, and everything ends right.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use stackorder::clock::{HOUR_MS, MINUTE_MS, Millis, parse_rfc3339};

use super::aftermath;
use super::field::{AT_REST, Field, SERVERS, Terms};
use super::gunner::Gunner;
use super::time::Time;
use super::town::{Shape, Work};
use crate::databases::postgres_url;

/// GitHub's limits, as its documents state them.
const WRITES_PER_MINUTE_MAX: usize = 80;
const WRITES_PER_HOUR_MAX: usize = 500;
const INPUTS_CHARACTERS_MAX: usize = 65_535;
const MATRIX_MAX: usize = 256;

const STACKS: usize = 300;
const DEADLINE: Duration = Duration::from_secs(5 * 60);

#[tokio::test(flavor = "multi_thread")]
async fn bl_121_one_pull_request_of_300_stacks_stays_within_every_limit_of_github() {
    let test = "bl_121_one_pull_request_of_300_stacks_stays_within_every_limit_of_github";
    let Some(database_url) = postgres_url(test) else { return };
    let work = Work { pulls: 1, stacks: STACKS, shape: Shape::Fans };
    let time = Time::that_jumps(SERVERS).await;
    let terms = Terms { work, time, deadline: DEADLINE, keeps_limits: true };
    let field = Field::prepare(database_url, Gunner::new(1, BTreeMap::new()), terms).await;
    // Each server counts its own writes.
    field.servers[1].kill().await;

    let pulls = field.town.open_pull_requests();
    let planned = "select count(*) from runs where mode = 'plan' and trigger = 'pull_request' and status = 'planned'";
    field.until(&format!("select ({planned}) = 1"), "it is planned").await;
    field.until(AT_REST, "nothing moves").await;
    field.town.github.comment(&pulls[0].repo, pulls[0].number, "alice", "stackorder apply");
    field.until("select count(*) = 1 from runs where mode = 'apply' and status = 'applied'", "it is applied").await;
    field.until(AT_REST, "nothing moves").await;
    field.town.github.merge(&pulls[0].repo, pulls[0].number, "alice").unwrap();
    field.until("select count(*) = 0 from locks", "all locks are released").await;
    field.until(AT_REST, "nothing moves").await;

    field.tell(&aftermath::check(&field, &pulls, work).await);
    let calls = field.calls();
    let refused: Vec<&Value> = calls.iter().filter(|call| call["status"].as_u64() >= Some(400)).collect();
    assert!(refused.iter().all(|call| call["status"] == 404 && call["method"] == "GET"), "{refused:#?}");
    writes_are_counted(&field, &calls);
    dispatches_are_small(&field, &calls);
    one_comment_and_few_checks(&field, &calls);
    field.clear().await;
}

/// What an installation writes, and when.
fn writes(calls: &[Value]) -> impl Iterator<Item = (Millis, &str)> {
    let written = calls.iter().filter(|call| call["method"] != "GET");
    let paths =
        written.map(|call| (parse_rfc3339(call["at"].as_str().unwrap()).unwrap(), call["path"].as_str().unwrap()));
    // Tokens are the App's own; they create no content.
    paths.filter(|(_, path)| !path.ends_with("/access_tokens"))
}

fn writes_are_counted(field: &Field, calls: &[Value]) {
    let all: Vec<Millis> = writes(calls).map(|(at, _)| at).collect();
    let most_within = |window: Millis| {
        all.iter().map(|end| all.iter().filter(|at| **at <= *end && **at > end - window).count()).max().unwrap_or(0)
    };
    let (minute, hour) = (most_within(MINUTE_MS), most_within(HOUR_MS));
    field.tell(&format!("{} writes, at most {minute} in a minute and {hour} in an hour", all.len()));
    assert!(minute <= WRITES_PER_MINUTE_MAX, "{minute} writes in a minute");
    assert!(hour <= WRITES_PER_HOUR_MAX, "{hour} writes in an hour");
}

fn dispatches_are_small(field: &Field, calls: &[Value]) {
    let dispatches: Vec<&Value> =
        calls.iter().filter(|call| call["path"].as_str().is_some_and(|path| path.ends_with("/dispatches"))).collect();
    let mut carried: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut longest = 0;
    for dispatch in &dispatches {
        let inputs = &dispatch["request"]["inputs"];
        longest = longest.max(inputs.to_string().chars().count());
        let entries: Vec<Value> = serde_json::from_str(inputs["stacks"].as_str().unwrap()).unwrap();
        assert!(entries.len() <= MATRIX_MAX, "{} entries", entries.len());
        let text = |name: &str| inputs[name].as_str().unwrap().to_owned();
        *carried.entry((text("mode"), text("wave"))).or_default() += entries.len();
    }
    field.tell(&format!("{} dispatches, the longest of {longest} characters: {carried:?}", dispatches.len()));
    assert!(longest <= INPUTS_CHARACTERS_MAX);
    let applied: usize = carried.iter().filter(|((mode, _), _)| mode == "apply").map(|(_, entries)| entries).sum();
    assert_eq!(applied, STACKS);
}

fn one_comment_and_few_checks(field: &Field, calls: &[Value]) {
    let created = |tail: &str| {
        let posted = calls.iter().filter(|call| call["method"] == "POST" && call["status"] == 201);
        posted.filter(|call| call["path"].as_str().is_some_and(|path| path.ends_with(tail))).collect::<Vec<_>>()
    };
    let checks: Vec<&str> =
        created("/check-runs").iter().filter_map(|check| check["request"]["name"].as_str()).collect();
    field.tell(&format!("checks: {checks:?}; {} comments", created("/comments").len()));
    assert_eq!(checks, ["stackorder/resolve", "stackorder/plan", "stackorder/apply"], "no check of a single stack");
}
