//! The client against single answers of a served GitHub, and never against a wall clock.

mod examples;
mod subjects;

use std::time::Duration;

use serde_json::json;
use wiremock::matchers::{header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::send::REDIRECTS_MAX;
use super::*;
use crate::clock::HandClock;
use crate::github::api::{CheckStatus, Conclusion, GitHubError};
use crate::ids::RepoName;

const TEST_KEY: &str = include_str!("../../../tests/fixtures/keys/test-only-app.pem");
const NOW: Millis = 1_800_000_000_000;
const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

/// Writes down how long it was asked to wait.
#[derive(Default)]
struct NotedPause(Mutex<Vec<u64>>);

#[async_trait]
impl Pause for NotedPause {
    async fn pause(&self, delay: Duration) {
        self.0.lock().unwrap().push(delay.as_secs());
    }
}

fn settings(api_url: String) -> ClientSettings {
    ClientSettings {
        api_url,
        app_id: 77,
        private_key_pem: TEST_KEY.into(),
        clock: Arc::new(HandClock::at(NOW)),
        user_agent: "stackorder/test".to_owned(),
        writes: Allowance::default(),
    }
}

struct World {
    server: MockServer,
    client: GitHubClient,
    pauses: Arc<NotedPause>,
    repo: RepoRef,
}

impl World {
    /// A GitHub that hands out the token `first`, and a client below `/api/v3` of it.
    async fn new() -> Self {
        let world = Self::without_tokens().await;
        world.hand_out("first", 1).await;
        world
    }

    async fn without_tokens() -> Self {
        let server = MockServer::start().await;
        let pauses = Arc::new(NotedPause::default());
        let settings = settings(format!("{}/api/v3", server.uri()));
        let client = GitHubClient::with_pause(settings, pauses.clone()).unwrap();
        let repo = RepoRef { id: 1, installation_id: 9, name: RepoName::parse("acme/infra").unwrap() };
        Self { server, client, pauses, repo }
    }

    async fn hand_out(&self, token: &str, times: u64) {
        Mock::given(method("POST"))
            .and(path("/api/v3/app/installations/9/access_tokens"))
            .respond_with(
                ResponseTemplate::new(201).set_body_json(json!({"token": token, "expires_at": "2027-01-15T09:00:00Z"})),
            )
            .up_to_n_times(times)
            .mount(&self.server)
            .await;
    }

    /// Answers `verb` of a path below the repository.
    async fn answer(&self, verb: &str, tail: &str, answer: ResponseTemplate) {
        Mock::given(method(verb)).and(path(in_repo(tail))).respond_with(answer).mount(&self.server).await;
    }

    async fn answer_once(&self, verb: &str, tail: &str, answer: ResponseTemplate) {
        let mock = Mock::given(method(verb)).and(path(in_repo(tail))).respond_with(answer);
        mock.up_to_n_times(1).mount(&self.server).await;
    }

    /// How often a path below the repository was asked for.
    async fn asked(&self, tail: &str) -> usize {
        let requests = self.server.received_requests().await.unwrap();
        requests.iter().filter(|request| request.url.path() == in_repo(tail)).count()
    }

    fn pauses(&self) -> Vec<u64> {
        self.pauses.0.lock().unwrap().clone()
    }
}

fn in_repo(tail: &str) -> String {
    format!("/api/v3/repos/acme/infra{tail}")
}

fn ok(body: serde_json::Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(body)
}

fn facts() -> ResponseTemplate {
    ok(json!({"id": 1, "full_name": "acme/infra", "default_branch": "main", "private": true, "new": 1}))
}

fn a_check() -> Check {
    Check {
        name: "stackorder/plan".to_owned(),
        head_sha: Sha::parse(SHA).unwrap(),
        status: CheckStatus::Completed(Conclusion::ActionRequired),
        title: "t".to_owned(),
        summary: "s".to_owned(),
        text: String::new(),
        details_url: "https://stackorder.test/runs/1".to_owned(),
        external_id: "r".to_owned(),
    }
}

fn a_dispatch() -> DispatchRequest {
    let [branch, run_id, mode, wave, sha, stacks] = ["main", "r", "apply", "0", SHA, "[]"].map(str::to_owned);
    DispatchRequest { branch, run_id, mode, wave, sha, stacks }
}

#[tokio::test]
async fn every_call_carries_the_documented_headers_and_the_installations_token() {
    let world = World::new().await;
    Mock::given(method("GET"))
        .and(path(in_repo("")))
        .and(header("accept", "application/vnd.github+json"))
        .and(header("x-github-api-version", "2022-11-28"))
        .and(header("user-agent", "stackorder/test"))
        .and(header("authorization", "Bearer first"))
        .respond_with(facts())
        .mount(&world.server)
        .await;
    let repository = world.client.repository(&world.repo).await.unwrap();
    assert_eq!((repository.default_branch.as_str(), repository.private), ("main", true));
    let exchange = &world.server.received_requests().await.unwrap()[0];
    assert!(exchange.headers["authorization"].to_str().unwrap().starts_with("Bearer eyJ"));
}

#[tokio::test]
async fn the_bot_login_is_asked_for_once() {
    let world = World::without_tokens().await;
    let app = Mock::given(method("GET")).and(path("/api/v3/app")).respond_with(ok(json!({"slug": "stackorder"})));
    app.expect(1).mount(&world.server).await;
    for _ in 0..2 {
        assert_eq!(world.client.bot_login().await.unwrap(), "stackorder[bot]");
    }
}

#[tokio::test]
async fn lists_follow_the_next_link_to_its_end() {
    let world = World::new().await;
    let next = format!("<{}/api/v3/repositories/1/issues/7/comments?page=2>; rel=\"next\"", world.server.uri());
    let comment = |id| json!({"id": id, "user": {"login": "mona"}, "body": "hi"});
    Mock::given(path(in_repo("/issues/7/comments")))
        .and(query_param("per_page", "100"))
        .respond_with(ok(json!([comment(1)])).insert_header("link", next.as_str()))
        .mount(&world.server)
        .await;
    Mock::given(path("/api/v3/repositories/1/issues/7/comments"))
        .and(query_param("page", "2"))
        .respond_with(ok(json!([{"id": 2, "user": null, "body": null}])))
        .mount(&world.server)
        .await;
    let comments = world.client.comments(&world.repo, 7).await.unwrap();
    let seen: Vec<_> = comments.iter().map(|comment| (comment.id, comment.author.as_str())).collect();
    assert_eq!(seen, [(1, "mona"), (2, "")]);
}

#[tokio::test]
async fn no_token_follows_a_link_or_a_redirect_to_another_origin() {
    let elsewhere = MockServer::start().await;
    let world = World::new().await;
    let next = format!("<{}/x>; rel=\"next\"", elsewhere.uri());
    world.answer("GET", "/issues/7/comments", ok(json!([])).insert_header("link", next.as_str())).await;
    assert!(matches!(world.client.comments(&world.repo, 7).await, Err(GitHubError::Permanent { .. })));
    let moved = ResponseTemplate::new(301).insert_header("location", elsewhere.uri().as_str());
    world.answer("GET", "", moved).await;
    assert!(matches!(world.client.repository(&world.repo).await, Err(GitHubError::Permanent { .. })));
    assert!(elsewhere.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn reads_follow_a_renamed_repository_and_writes_do_not() {
    let world = World::new().await;
    let moved = |to: &str| ResponseTemplate::new(307).insert_header("location", to);
    world.answer("GET", "", moved("/api/v3/repositories/1")).await;
    Mock::given(path("/api/v3/repositories/1")).respond_with(facts()).expect(1).mount(&world.server).await;
    assert!(world.client.repository(&world.repo).await.is_ok());
    world.answer("POST", "/issues/7/comments", moved("/api/v3/repositories/1/issues/7/comments")).await;
    let refused = world.client.create_comment(&world.repo, 7, "hi").await;
    assert!(matches!(refused, Err(GitHubError::Permanent { status: 307, .. })));
}

#[tokio::test]
async fn a_circle_of_redirects_ends() {
    let world = World::new().await;
    world.answer("GET", "", ResponseTemplate::new(302).insert_header("location", in_repo("").as_str())).await;
    assert!(matches!(world.client.repository(&world.repo).await, Err(GitHubError::Permanent { status: 302, .. })));
    assert_eq!(world.asked("").await, 1 + REDIRECTS_MAX as usize);
}

#[tokio::test]
async fn a_refused_token_is_renewed_once() {
    let world = World::new().await;
    world.hand_out("second", 1).await;
    let asks_with =
        |token: &str| Mock::given(path(in_repo(""))).and(header("authorization", format!("Bearer {token}")));
    asks_with("first").respond_with(ResponseTemplate::new(401)).expect(1).mount(&world.server).await;
    asks_with("second").respond_with(facts()).expect(2).mount(&world.server).await;
    for _ in 0..2 {
        assert!(world.client.repository(&world.repo).await.is_ok());
    }
}

#[tokio::test]
async fn a_token_refused_twice_is_an_error_that_may_pass() {
    let world = World::new().await;
    world.hand_out("second", 1).await;
    world.answer("GET", "", ResponseTemplate::new(401).set_body_json(json!({"message": "Bad credentials"}))).await;
    match world.client.repository(&world.repo).await {
        Err(GitHubError::Temporary { message, .. }) => assert_eq!(message, "401 Bad credentials"),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.asked("").await, 2);
}

#[tokio::test]
async fn a_rate_limit_names_the_time_and_is_not_waited_for() {
    let world = World::new().await;
    let limited = ResponseTemplate::new(403)
        .insert_header("x-ratelimit-limit", "5000")
        .insert_header("x-ratelimit-remaining", "0")
        .insert_header("x-ratelimit-reset", "1800000060");
    world.answer("GET", "", limited).await;
    match world.client.repository(&world.repo).await {
        Err(GitHubError::Deferred { until, .. }) => assert_eq!(until, 1_800_000_061_000),
        other => panic!("{other:?}"),
    }
    // Nothing else is asked for this installation until then: GitHub shuts out longer whoever goes on.
    let next = world.client.pull_request(&world.repo, 1).await;
    assert!(matches!(next, Err(GitHubError::Deferred { until: 1_800_000_061_000, .. })), "{next:?}");
    assert_eq!(world.asked("/pulls/1").await, 0);
    assert!(world.pauses().is_empty());
    let quota = Quota { limit: 5000, remaining: 0, resets_at: 1_800_000_060_000 };
    assert_eq!(world.client.quota(9), Some(quota));
}

#[tokio::test]
async fn reads_survive_three_broken_answers_and_no_fourth() {
    let world = World::new().await;
    for _ in 0..3 {
        world.answer_once("GET", "", ResponseTemplate::new(502)).await;
    }
    world.answer_once("GET", "", facts()).await;
    assert!(world.client.repository(&world.repo).await.is_ok());
    assert_eq!(world.pauses(), [1, 2, 4]);

    world.answer("GET", "", ResponseTemplate::new(500)).await;
    let failed = world.client.repository(&world.repo).await;
    assert!(matches!(failed, Err(GitHubError::Temporary { .. })), "{failed:?}");
    assert_eq!(world.asked("").await, 4 + 4);
}

#[tokio::test]
async fn a_broken_answer_to_a_write_that_must_not_repeat_goes_to_the_caller() {
    let world = World::new().await;
    for tail in ["/issues/7/comments", "/check-runs", "/actions/workflows/stackorder-run.yml/dispatches"] {
        world.answer("POST", tail, ResponseTemplate::new(502)).await;
    }
    let repo = &world.repo;
    let failures = [
        world.client.create_comment(repo, 7, "hi").await.map(drop),
        world.client.create_check(repo, &a_check()).await.map(drop),
        world.client.dispatch(repo, &a_dispatch()).await.map(drop),
    ];
    for failure in failures {
        assert!(matches!(failure, Err(GitHubError::Temporary { .. })), "{failure:?}");
    }
    assert_eq!(world.asked("/issues/7/comments").await, 1);
    assert!(world.pauses().is_empty());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_temporary() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let pauses = Arc::new(NotedPause::default());
    let client = GitHubClient::with_pause(settings(format!("http://{closed}")), pauses.clone()).unwrap();
    let gone = client.installations().await;
    assert!(matches!(gone, Err(GitHubError::Temporary { .. })), "{gone:?}");
    assert_eq!(*pauses.0.lock().unwrap(), [1, 2, 4]);
}

#[tokio::test]
async fn an_installation_that_is_gone_is_not_taken_for_a_missing_file() {
    let world = World::without_tokens().await;
    let read = world.client.file(&world.repo, "stackorder.yaml", "main").await;
    assert!(matches!(read, Err(GitHubError::Permanent { status: 404, .. })), "{read:?}");
    let permission = world.client.permission(&world.repo, "mona").await;
    assert!(matches!(permission, Err(GitHubError::Permanent { status: 404, .. })), "{permission:?}");
}

#[tokio::test]
async fn a_list_without_an_end_is_an_error_not_a_part_of_it() {
    let world = World::new().await;
    let next = format!("<{}{}>; rel=\"next\"", world.server.uri(), in_repo("/pulls/7/reviews"));
    world.answer("GET", "/pulls/7/reviews", ok(json!([])).insert_header("link", next.as_str())).await;
    let reviews = world.client.reviews(&world.repo, 7).await;
    assert!(matches!(reviews, Err(GitHubError::Permanent { .. })), "{reviews:?}");
}

#[tokio::test]
async fn errors_name_the_object_and_never_the_token() {
    let world = World::new().await;
    world.answer("GET", "/pulls/7", ok(json!({"number": "seven"}))).await;
    for failure in [
        world.client.pull_request(&world.repo, 7).await.map(drop),
        world.client.pull_request(&world.repo, 8).await.map(drop),
    ] {
        let text = failure.unwrap_err().to_string();
        assert!(text.contains("of acme/infra") && !text.contains("first"), "{text}");
    }
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_by_name() {
    let refused = |settings| GitHubClient::new(settings).map(drop).unwrap_err().to_string();
    assert!(refused(settings("github.com".to_owned())).contains("github.com"));
    let settings = || settings("https://api.github.test".to_owned());
    assert!(refused(ClientSettings { private_key_pem: "no key".into(), ..settings() }).contains("private key"));
    assert!(refused(ClientSettings { user_agent: "a\nb".to_owned(), ..settings() }).contains("user agent"));
}
