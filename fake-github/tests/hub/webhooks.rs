//! What an app is told, in which order, signed how.

use std::collections::BTreeSet;

use fake_github::ReviewState;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;

use crate::schema::{assert_answer, assert_payload};
use crate::world::{REPO, SECRET, World};

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_signed_and_carry_github_s_headers() {
    let world = World::new().await;
    let received = world.received().await;
    assert!(!received.is_empty());
    let mut ids = BTreeSet::new();
    for delivery in &received {
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(&delivery.body);
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(delivery.header("x-hub-signature-256"), format!("sha256={hex}"));
        assert!(delivery.header("x-hub-signature").starts_with("sha1="));
        assert!(delivery.header("user-agent").starts_with("GitHub-Hookshot/"));
        assert_eq!(delivery.header("content-type"), "application/json");
        assert_eq!(delivery.header("x-github-hook-installation-target-type"), "integration");
        assert_eq!(delivery.header("x-github-hook-installation-target-id"), world.app.id.to_string());
        assert!(!delivery.header("x-github-hook-id").is_empty());
        assert!(ids.insert(delivery.header("x-github-delivery").to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_match_github_s_schemas() {
    let world = World::new().await;
    let number = world.pull_request();
    world.hub.push(REPO, number, "More", "alice", &[("vpc/more.tf", Some(b"# more\n".to_vec()))]).unwrap();
    world.hub.comment(REPO, number, "alice", "robot apply");
    world.hub.review(REPO, number, "bob", ReviewState::Approve, "Good").unwrap();
    world.hub.set_draft(REPO, number, true, "alice");
    world.hub.set_draft(REPO, number, false, "alice");
    let token = world.installation_token().await;
    let head = world.hub.resolve(REPO, "topic").unwrap();
    let body = json!({"name": "plan", "head_sha": head, "conclusion": "success"});
    let check = world.call("POST", &format!("/repos/{REPO}/check-runs"), &token, Some(body)).await;
    assert!(world.hub.rerequest_check(check.body["id"].as_i64().unwrap(), "bob"));
    world.commit("release", "Release", &[("RELEASE", "1\n")]);
    world.hub.retarget(REPO, number, "release", "alice").unwrap();
    world.hub.merge(REPO, number, "alice").unwrap();
    world.hub.suspend_installation(world.installation, true);
    world.hub.suspend_installation(world.installation, false);
    world.hub.change_installation(world.installation, &[REPO], &[]);
    world.hub.uninstall_app(world.installation);

    let received = world.received().await;
    for delivery in &received {
        assert_payload(delivery.event(), &delivery.payload());
    }
    let names: BTreeSet<String> = received.iter().map(crate::world::Received::name).collect();
    let wanted = [
        "ping",
        "installation.created",
        "push",
        "check_suite.requested",
        "pull_request.opened",
        "pull_request.synchronize",
        "pull_request.converted_to_draft",
        "pull_request.ready_for_review",
        "pull_request.edited",
        "pull_request.closed",
        "pull_request_review.submitted",
        "issue_comment.created",
        "check_run.created",
        "check_run.completed",
        "check_run.rerequested",
        "installation.suspend",
        "installation.unsuspend",
        "installation_repositories.added",
        "installation.deleted",
    ];
    for name in wanted {
        assert!(names.contains(name), "no {name} among {names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_payload_of_an_opened_pull_request_does_not_know_its_mergeability() {
    let world = World::new().await;
    let number = world.pull_request();
    let received = world.received().await;
    let opened = received.iter().find(|delivery| delivery.name() == "pull_request.opened").unwrap().payload();
    assert_eq!((opened["number"].as_i64(), opened["pull_request"]["mergeable"].is_null()), (Some(number), true));
    assert_eq!(opened["pull_request"]["mergeable_state"], "unknown");
    assert_eq!(opened["installation"]["id"], world.installation);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delivery_stays_in_the_log_and_is_sent_again_only_when_asked() {
    let world = World::new().await;
    let number = world.pull_request();
    world.received().await;
    world.answer_webhooks_with(500);
    world.hub.comment(REPO, number, "alice", "robot plan");
    let before = world.received().await;
    let failed = before.last().unwrap();
    assert_eq!(failed.name(), "issue_comment.created");

    let list = world.call("GET", "/app/hook/deliveries?per_page=1", &world.app_token(), None).await;
    assert_answer("GET /app/hook/deliveries", 200, &list.body);
    assert_eq!(
        (list.body[0]["status_code"].as_i64(), list.body[0]["guid"].as_str()),
        (Some(500), Some(failed.header("x-github-delivery")))
    );
    let path = format!("/app/hook/deliveries/{}", list.body[0]["id"]);
    let one = world.call("GET", &path, &world.app_token(), None).await;
    assert_answer("GET /app/hook/deliveries/{delivery_id}", 200, &one.body);

    world.answer_webhooks_with(202);
    assert_eq!(world.call("POST", &format!("{path}/attempts"), &world.app_token(), None).await.status, 202);
    let after = world.received().await;
    assert_eq!(after.len(), before.len() + 1);
    assert_eq!(after.last().unwrap().header("x-github-delivery"), failed.header("x-github-delivery"));
    assert_eq!(after.last().unwrap().body, failed.body);
}
