//! What holds for every answer of the server, whichever route gives it.

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::RUN;
use super::world::{REPOSITORY, World, sent};

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_a_route_does_not_take_is_answered_with_those_it_does() {
    let world = World::new().await;
    let before = world.state().await;
    let (run, repo) = (format!("/v1/runs/{RUN}"), format!("/v1/repos/{REPOSITORY}/runs"));
    for (method, path, allowed) in [
        (Method::GET, "/v1/runs", "POST"),
        (Method::DELETE, run.as_str(), "GET,HEAD"),
        (Method::POST, repo.as_str(), "GET,HEAD"),
        (Method::PUT, "/v1/unlock", "POST"),
        (Method::POST, "/healthz", "GET,HEAD"),
        (Method::PATCH, "/webhooks/github", "POST"),
    ] {
        let answer = sent(world.request(method, path)).await;
        answer.refuses(path, 405, "invalid");
        assert_eq!(answer.headers["allow"], allowed, "{path}");
    }
    assert_eq!(world.state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn head_is_answered_like_get_but_without_a_body() {
    let world = World::new().await;
    let key = world.key("ci", &["--scope", "read"]).await;
    for (path, status) in
        [("/healthz", 200), ("/readyz", 200), ("/v1/audit", 200), ("/v1/nonsense", 404), ("/v1/runs/latest", 404)]
    {
        let [get, head] = [Method::GET, Method::HEAD].map(|method| world.request(method, path).bearer_auth(&key));
        let (get, head) = (sent(get).await, sent(head).await);
        assert_eq!((get.status.as_u16(), head.status.as_u16(), head.text.as_str()), (status, status, ""), "{path}");
        for answer in [&get, &head] {
            answer.carries_what_every_answer_does(path);
            assert_eq!(answer.headers["content-type"], "application/json", "{path}");
        }
        assert_eq!(get.headers.get("content-length"), head.headers.get("content-length"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_refused_carries_what_every_answer_does_and_a_policy() {
    let world = World::new().await;
    for (method, path) in [(Method::GET, "/"), (Method::GET, "/nowhere"), (Method::POST, "/runs")] {
        let answer = sent(world.request(method, path)).await;
        answer.carries_what_every_answer_does(path);
        assert!(
            answer.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'self'"),
            "{path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_one_line_of_the_log_without_what_was_sent() {
    let world = World::new().await;
    let named = |request: RequestBuilder, id: &str| request.header("X-Request-Id", id.to_owned());
    let unsigned = world.post("/webhooks/github").header("X-Hub-Signature-256", "sha256=hunter2").body("hunter2");
    let no_key = world.get("/v1/audit?cursor=hunter2").bearer_auth("sk_hunter2");
    let no_number =
        world.post("/v1/runs").bearer_auth(world.token()).json(&json!({ "repo": REPOSITORY, "pr_number": "hunter2" }));
    for (id, request, status, code, path) in [
        ("no-signature", unsigned, 401, "unauthorized", "/webhooks/github"),
        ("no-key", no_key, 401, "unauthorized", "/v1/audit"),
        ("no-number", no_number, 400, "invalid", "/v1/runs"),
    ] {
        let answer = sent(named(request, id)).await;
        assert_eq!((answer.status.as_u16(), answer.headers["x-request-id"].to_str().unwrap()), (status, id));
        let line = world.logged(id).await;
        assert_eq!((&line["fields"]["status"], &line["fields"]["code"]), (&json!(status), &json!(code)), "{line}");
        assert_eq!(line["span"]["path"], path, "{line}");
    }
    assert_eq!(world.logged("no-number").await["fields"]["field"], "pr_number");
    assert!(!world.log().contains("hunter2"), "{}", world.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_told_to_stop_leaves_everything_in_one_file() {
    let mut world = World::new().await;
    let before = world.state().await;
    let (ended, files) = tokio::task::block_in_place(|| world.stop());
    assert!(ended.success(), "{ended}: {}", world.log());
    assert_eq!(files, ["server.db"]);
    assert_eq!(world.state().await, before);
}
