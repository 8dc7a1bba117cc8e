//! What goes wrong on purpose.

use serde_json::json;

use crate::world::{REPO, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_delivery_never_arrives_but_can_be_redelivered() {
    let world = World::new().await;
    let number = world.pull_request();
    let before = world.received().await.len();
    world.hub.faults().lose_webhooks(|event, _| event == "issue_comment");
    world.hub.comment(REPO, number, "alice", "robot plan");
    assert_eq!(world.received().await.len(), before);
    let lost = world.hub.deliveries().pop().unwrap();
    assert_eq!((lost.event.as_str(), lost.status_code), ("issue_comment", 0));
    world.hub.redeliver(lost.id).unwrap();
    assert_eq!(world.received_names().await.last().unwrap(), "issue_comment.created");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubled_delivery_arrives_twice_under_one_id() {
    let world = World::new().await;
    let number = world.pull_request();
    let before = world.received().await.len();
    world.hub.faults().double_webhooks(true);
    world.hub.comment(REPO, number, "alice", "robot plan");
    let received = world.received().await;
    let ids: Vec<&str> = received[before..].iter().map(|delivery| delivery.header("x-github-delivery")).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn held_deliveries_arrive_in_the_order_they_are_released_in() {
    let world = World::new().await;
    let number = world.pull_request();
    let before = world.received().await.len();
    world.hub.faults().hold();
    for text in ["first", "second"] {
        world.hub.comment(REPO, number, "alice", text);
    }
    assert_eq!((world.received().await.len(), world.hub.faults().held_count()), (before, 2));
    world.hub.release_in_order(|deliveries| deliveries.reverse());
    let received = world.received().await;
    let texts: Vec<_> =
        received[before..].iter().map(|delivery| delivery.payload()["comment"]["body"].clone()).collect();
    assert_eq!(texts, ["second", "first"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_fails_before_or_after_it_acted() {
    let world = World::new().await;
    let token = world.installation_token().await;
    let number = world.pull_request();
    let path = format!("/repos/{REPO}/issues/{number}/comments");
    let post = async || world.call("POST", &path, &token, Some(json!({"body": "x"}))).await.status;

    world.hub.faults().fail_rest("POST", &path, 502, 1, false);
    assert_eq!((post().await, world.hub.comments(REPO, number).len()), (502, 0));
    world.hub.faults().fail_rest("POST", &path, 502, 1, true);
    assert_eq!((post().await, world.hub.comments(REPO, number).len()), (502, 1));
    assert_eq!((post().await, world.hub.comments(REPO, number).len()), (201, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_limit_and_slow_mergeability_look_like_github_s() {
    let world = World::new().await;
    let token = world.installation_token().await;
    let path = format!("/repos/{REPO}/pulls/{}", world.pull_request());
    world.hub.faults().rate_limit(1);
    let refused = world.call("GET", &path, &token, None).await;
    assert_eq!((refused.status, refused.headers["x-ratelimit-remaining"].to_str().unwrap()), (403, "0"));

    world.hub.faults().mergeability_unknown(1);
    let unknown = world.call("GET", &path, &token, None).await.body;
    assert!(unknown["mergeable"].is_null());
    assert_eq!(world.call("GET", &path, &token, None).await.body["mergeable"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_names_every_call_webhook_and_push_but_no_token() {
    let world = World::new().await;
    let token = world.installation_token().await;
    world.pull_request();
    world.received().await;
    let journal = std::fs::read_to_string(world.directory.path().join("github.ndjson")).unwrap();
    assert!(!journal.contains(&token));
    let kinds: std::collections::BTreeSet<String> = journal
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["push", "rest", "webhook"]);
}
