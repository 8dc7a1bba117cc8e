//! Who may call what.

use std::time::Duration;

use serde_json::json;

use crate::schema::assert_answer;
use crate::world::{REPO, World};

#[tokio::test(flavor = "multi_thread")]
async fn an_app_signs_in_with_its_id_or_its_client_id() {
    let world = World::new().await;
    for issuer in [world.app.id.to_string(), world.app.client_id.clone()] {
        let token = world.jwt(&issuer, world.now_s() - 60, world.now_s() + 600);
        let answer = world.call("GET", "/app", &token, None).await;
        assert_eq!((answer.status, answer.body["slug"].as_str()), (200, Some("robot")));
        assert_answer("GET /app", 200, &answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jwt_is_refused_with_github_s_words() {
    let world = World::new().await;
    let (id, now) = (world.app.id.to_string(), world.now_s());
    let cases = [
        (world.jwt(&id, now, now + 601), 401, "'Expiration time' claim ('exp') is too far in the future"),
        (world.jwt(&id, now - 600, now - 1), 401, "'Expiration time' claim ('exp') is in the past"),
        (world.jwt("4711", now, now + 60), 404, "Integration not found"),
        ("ey.not.jwt".to_owned(), 401, "A JSON web token could not be decoded"),
        ("ghs_unknown".to_owned(), 401, "Bad credentials"),
    ];
    for (token, status, message) in cases {
        let answer = world.call("GET", "/app", &token, None).await;
        assert_eq!((answer.status, answer.body["message"].as_str()), (status, Some(message)));
        assert!(answer.body["documentation_url"].is_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_token_ends_after_an_hour() {
    let world = World::new().await;
    let token = world.installation_token().await;
    let path = format!("/repos/{REPO}");
    assert_eq!(world.call("GET", &path, &token, None).await.status, 200);
    world.advance(Duration::from_secs(3600));
    assert_eq!(world.call("GET", &path, &token, None).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrowed_token_reaches_no_further_than_it_asked_for() {
    let world = World::new().await;
    let path = format!("/app/installations/{}/access_tokens", world.installation);
    let body = json!({"repositories": ["infra"], "permissions": {"checks": "read"}});
    let answer = world.call("POST", &path, &world.app_token(), Some(body)).await;
    assert_answer("POST /app/installations/{installation_id}/access_tokens", 201, &answer.body);
    let token = answer.body["token"].as_str().unwrap().to_owned();

    let body = json!({"name": "x", "head_sha": world.hub.resolve(REPO, "main")});
    let refused = world.call("POST", &format!("/repos/{REPO}/check-runs"), &token, Some(body)).await;
    assert_eq!(refused.status, 403);
    assert_eq!(refused.body["message"], "Resource not accessible by integration");

    let wider = json!({"permissions": {"administration": "write"}});
    assert_eq!(world.call("POST", &path, &world.app_token(), Some(wider)).await.status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_repository_does_not_exist_for_those_who_cannot_see_it() {
    let world = World::new().await;
    let outsider = world.hub.user_token("mallory");
    for token in ["", outsider.as_str()] {
        assert_eq!(world.call("GET", &format!("/repos/{REPO}"), token, None).await.status, 404);
    }
    world.hub.suspend_installation(world.installation, true);
    let path = format!("/app/installations/{}/access_tokens", world.installation);
    assert_eq!(world.call("POST", &path, &world.app_token(), None).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_version_is_gone_and_an_unknown_route_is_recorded() {
    let world = World::new().await;
    let token = world.installation_token().await;
    let old = world.call_with("GET", "/rate_limit", &token, None, &[("x-github-api-version", "2020-01-01")]).await;
    assert_eq!(old.status, 410);
    assert_eq!(world.call("GET", "/gists", &token, None).await.status, 404);
    let unexpected = world.hub.unexpected_requests();
    assert_eq!(unexpected.len(), 1);
    assert_eq!((unexpected[0].method.as_str(), unexpected[0].path.as_str()), ("GET", "/gists"));
}
