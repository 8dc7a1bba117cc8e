//! What keeps a pull request from being merged.

use fake_github::{Protection, RequiredCheck, ReviewState};
use serde_json::json;

use crate::world::{REPO, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_waits_for_the_right_app_s_check_and_an_approval() {
    let world = World::new().await;
    let number = world.pull_request();
    let rules = Protection {
        required_checks: vec![RequiredCheck { context: "plan".to_owned(), app_id: Some(world.app.id) }],
        required_approvals: 1,
        ..Protection::default()
    };
    world.hub.protect_branch(REPO, "main", rules);
    assert_eq!(world.hub.merge_blockers(REPO, number).len(), 2);

    let other = world.hub.create_app(fake_github::AppSetup {
        slug: "other".to_owned(),
        permissions: crate::world::permissions(&[("checks", "write")]),
        ..fake_github::AppSetup::default()
    });
    let installation = world.hub.install_app(other.id, "acme", &[]);
    let head = world.hub.resolve(REPO, "topic").unwrap();
    let green = json!({"name": "plan", "head_sha": head, "conclusion": "success"});
    let jwt = world.jwt(&other.id.to_string(), world.now_s(), world.now_s() + 60);
    let path = format!("/app/installations/{installation}/access_tokens");
    let forged = world.call("POST", &path, &jwt, None).await.body["token"].as_str().unwrap().to_owned();
    let checks = format!("/repos/{REPO}/check-runs");
    assert_eq!(world.call("POST", &checks, &forged, Some(green.clone())).await.status, 201);
    assert_eq!(world.hub.merge_blockers(REPO, number).len(), 2, "another app's check does not count");

    let token = world.installation_token().await;
    world.call("POST", &checks, &token, Some(green)).await;
    world.hub.review(REPO, number, "alice", ReviewState::Approve, "mine").unwrap();
    assert!(world.hub.merge(REPO, number, "alice").unwrap_err().contains("approving review"));
    world.hub.review(REPO, number, "bob", ReviewState::Approve, "fine").unwrap();
    let sha = world.hub.merge(REPO, number, "alice").unwrap();
    assert_eq!(world.hub.resolve(REPO, "main").unwrap(), sha);
    assert_eq!(world.hub.file(REPO, "main", "vpc/main.tf").unwrap(), b"# a bigger vpc\n");
    let closed = world.hub.issue(REPO, number).unwrap();
    assert!(!closed.open);
    assert_eq!(closed.pull.unwrap().merge_commit_sha, Some(sha));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_makes_a_pull_request_dirty_until_it_is_resolved() {
    let world = World::new().await;
    let token = world.installation_token().await;
    let number = world.pull_request();
    let path = format!("/repos/{REPO}/pulls/{number}");
    world.commit("main", "Elsewhere", &[("vpc/main.tf", "# a smaller vpc\n")]);
    let pull = world.call("GET", &path, &token, None).await.body;
    assert_eq!((pull["mergeable"].as_bool(), pull["mergeable_state"].as_str()), (Some(false), Some("dirty")));
    assert!(world.hub.merge(REPO, number, "alice").is_err());
    let refused = world.call("PUT", &format!("{path}/merge"), &token, Some(json!({}))).await;
    assert_eq!(refused.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_s_pull_request_brings_its_commits_along() {
    let world = World::new().await;
    let fork = world.hub.fork(REPO, "mallory").unwrap();
    let sha = world.hub.commit(&fork, "evil", "Try", "mallory", &[("x", Some(b"x\n".to_vec()))]).unwrap();
    let number = world.hub.open_pull_request(REPO, "mallory:evil", "main", "Try", "", "mallory").unwrap();
    let pull = world.hub.issue(REPO, number).unwrap().pull.unwrap();
    assert!(pull.is_fork_of(REPO));
    assert_eq!(world.hub.resolve(REPO, &format!("refs/pull/{number}/head")), Some(sha));
    let newer = world.hub.push(REPO, number, "Again", "mallory", &[("y", Some(b"y\n".to_vec()))]).unwrap();
    assert_eq!(world.hub.issue(REPO, number).unwrap().pull.unwrap().head_sha, newer);
}
