//! Every route's answer against GitHub's own schema, and the rules that schemas do not say.

use fake_github::actions::model::Environment;
use fake_github::{Protection, RequiredCheck, ReviewState};
use serde_json::{Value, json};

use crate::schema::assert_answer;
use crate::world::{REPO, World};

/// Reads each path and checks the answer against the schema of its operation.
async fn assert_reads(world: &World, token: &str, cases: &[(&str, String)]) {
    for (operation, path) in cases {
        let answer = world.call("GET", path, token, None).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert_answer(&format!("GET {operation}"), 200, &answer.body);
        for header in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "etag"] {
            assert!(answer.headers.contains_key(header), "{path} has no {header}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repository_answers_match_github_s_schemas() {
    let world = World::new().await;
    let token = world.installation_token().await;
    let number = world.pull_request();
    let head = world.hub.resolve(REPO, "topic").unwrap();
    let tag = world.hub.tag(REPO, "v1.0.0", "main", Some("First"), "alice").unwrap();
    let tree = world.hub.resolve(REPO, "main").unwrap();
    let blob = world.call("GET", &format!("/repos/{REPO}/contents/README.md"), &token, None).await.body["sha"].clone();
    let blob = blob.as_str().unwrap().to_owned();
    world.hub.protect_branch(
        REPO,
        "main",
        Protection {
            required_checks: vec![RequiredCheck { context: "plan".to_owned(), app_id: Some(world.app.id) }],
            required_approvals: 1,
            ..Protection::default()
        },
    );
    let reviewers = vec!["alice".to_owned(), "platform".to_owned()];
    world.hub.set_environment(
        REPO,
        Environment { name: "production".to_owned(), reviewers, wait_timer_minutes: 5, ..Environment::default() },
    );
    world.hub.set_variable(REPO, None, "REGION", "eu-central-1");
    let at = |rest: &str| format!("/repos/{REPO}{rest}");
    let base = "/repos/{owner}/{repo}";
    let cases = [
        ("", String::new()),
        ("/branches", "/branches".to_owned()),
        ("/branches/{branch}", "/branches/main".to_owned()),
        ("/rules/branches/{branch}", "/rules/branches/main".to_owned()),
        ("/collaborators", "/collaborators".to_owned()),
        ("/collaborators/{username}/permission", "/collaborators/bob/permission".to_owned()),
        ("/teams", "/teams".to_owned()),
        ("/environments", "/environments".to_owned()),
        ("/environments/{environment_name}", "/environments/production".to_owned()),
        ("/actions/variables", "/actions/variables".to_owned()),
        ("/actions/oidc/customization/sub", "/actions/oidc/customization/sub".to_owned()),
        ("/contents/{path}", "/contents/vpc/main.tf".to_owned()),
        ("/contents/{path}", "/contents/vpc?ref=topic".to_owned()),
        ("/git/ref/{ref}", "/git/ref/heads/main".to_owned()),
        ("/git/matching-refs/{ref}", "/git/matching-refs/tags/v1".to_owned()),
        ("/git/tags/{tag_sha}", format!("/git/tags/{tag}")),
        ("/git/trees/{tree_sha}", format!("/git/trees/{tree}?recursive=1")),
        ("/git/blobs/{file_sha}", format!("/git/blobs/{blob}")),
        ("/git/commits/{commit_sha}", format!("/git/commits/{head}")),
        ("/commits", "/commits".to_owned()),
        ("/commits/{ref}", format!("/commits/{head}")),
        ("/commits/{ref}/status", format!("/commits/{head}/status")),
        ("/commits/{commit_sha}/pulls", format!("/commits/{head}/pulls")),
        ("/compare/{basehead}", "/compare/main...topic".to_owned()),
        ("/pulls/{pull_number}/files", format!("/pulls/{number}/files")),
        ("/pulls/{pull_number}/commits", format!("/pulls/{number}/commits")),
        ("/actions/workflows", "/actions/workflows".to_owned()),
        ("/actions/runs", "/actions/runs?event=workflow_dispatch&per_page=100".to_owned()),
        ("/actions/artifacts", "/actions/artifacts".to_owned()),
        ("/labels", "/labels".to_owned()),
    ];
    let cases: Vec<(String, String)> = cases.map(|(route, path)| (format!("{base}{route}"), at(&path))).to_vec();
    let cases: Vec<(&str, String)> = cases.iter().map(|(route, path)| (route.as_str(), path.clone())).collect();
    assert_reads(&world, &token, &cases).await;
    assert!(world.hub.unexpected_requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn account_answers_match_github_s_schemas() {
    let world = World::new().await;
    let app = world.app_token();
    let id = world.installation;
    assert_reads(
        &world,
        &app,
        &[
            ("/app", "/app".to_owned()),
            ("/app/installations", "/app/installations".to_owned()),
            ("/app/installations/{installation_id}", format!("/app/installations/{id}")),
            ("/app/hook/config", "/app/hook/config".to_owned()),
            ("/repos/{owner}/{repo}/installation", format!("/repos/{REPO}/installation")),
            ("/orgs/{org}/installation", "/orgs/acme/installation".to_owned()),
        ],
    )
    .await;
    let token = world.installation_token().await;
    assert_reads(
        &world,
        &token,
        &[
            ("/installation/repositories", "/installation/repositories".to_owned()),
            ("/orgs/{org}/members", "/orgs/acme/members".to_owned()),
            ("/orgs/{org}/memberships/{username}", "/orgs/acme/memberships/alice".to_owned()),
            ("/orgs/{org}/repos", "/orgs/acme/repos".to_owned()),
            ("/orgs/{org}/teams", "/orgs/acme/teams".to_owned()),
            ("/orgs/{org}/teams/{team_slug}", "/orgs/acme/teams/platform".to_owned()),
            ("/orgs/{org}/teams/{team_slug}/members", "/orgs/acme/teams/platform/members".to_owned()),
            (
                "/orgs/{org}/teams/{team_slug}/memberships/{username}",
                "/orgs/acme/teams/platform/memberships/alice".to_owned(),
            ),
            ("/apps/{app_slug}", "/apps/robot".to_owned()),
            ("/users/{username}", "/users/alice".to_owned()),
            ("/rate_limit", "/rate_limit".to_owned()),
            ("/versions", "/versions".to_owned()),
        ],
    )
    .await;
    let person = world.hub.user_token("alice");
    assert_reads(
        &world,
        &person,
        &[
            ("/user", "/user".to_owned()),
            ("/user/orgs", "/user/orgs".to_owned()),
            ("/user/installations", "/user/installations".to_owned()),
            ("/user/installations/{installation_id}/repositories", format!("/user/installations/{id}/repositories")),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_match_github_s_schemas() {
    let world = World::new().await;
    let token = world.installation_token().await;
    let number = world.pull_request();
    world.hub.review(REPO, number, "bob", ReviewState::Approve, "Good").unwrap();
    let base = format!("/repos/{REPO}");
    let write = async |method: &str, operation: &str, path: String, status: u16, body: Value| {
        let answer = world.call(method, &path, &token, Some(body)).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text);
        assert_answer(&format!("{method} /repos/{{owner}}/{{repo}}{operation}"), status, &answer.body);
        answer.body
    };

    let comments = format!("{base}/issues/{number}/comments");
    let comment = write("POST", "/issues/{issue_number}/comments", comments.clone(), 201, json!({"body": "hi"})).await;
    assert_eq!(comment["user"]["login"], "robot[bot]");
    let id = comment["id"].as_i64().unwrap();
    let own = format!("{base}/issues/comments/{id}");
    write("PATCH", "/issues/comments/{comment_id}", own.clone(), 200, json!({"body": "ho"})).await;
    let reactions = format!("{own}/reactions");
    for status in [201, 200] {
        let operation = "/issues/comments/{comment_id}/reactions";
        write("POST", operation, reactions.clone(), status, json!({"content": "eyes"})).await;
    }
    let drift = json!({"title": "Drift", "body": "x", "labels": ["drift"]});
    let issue = write("POST", "/issues", format!("{base}/issues"), 201, drift).await;
    let issue = format!("{base}/issues/{}", issue["number"]);
    let closed = write("PATCH", "/issues/{issue_number}", issue.clone(), 200, json!({"state": "closed"})).await;
    assert_eq!(closed["state"], "closed");

    let reads = [
        ("/issues", format!("{base}/issues?state=all&labels=drift")),
        ("/issues/{issue_number}", issue),
        ("/issues/{issue_number}/comments", comments),
        ("/issues/comments/{comment_id}", own.clone()),
        ("/issues/comments/{comment_id}/reactions", reactions),
        ("/pulls", format!("{base}/pulls?state=all")),
        ("/pulls/{pull_number}", format!("{base}/pulls/{number}")),
        ("/pulls/{pull_number}/reviews", format!("{base}/pulls/{number}/reviews")),
    ];
    let reads = reads.map(|(operation, path)| (format!("/repos/{{owner}}/{{repo}}{operation}"), path));
    let reads: Vec<_> = reads.iter().map(|(operation, path)| (operation.as_str(), path.clone())).collect();
    assert_reads(&world, &token, &reads).await;
    assert_eq!(world.call("DELETE", &own, &token, None).await.status, 204);
    assert_eq!(world.call("GET", &own, &token, None).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_match_github_s_schemas_and_keep_its_limits() {
    let world = World::new().await;
    let token = world.installation_token().await;
    world.pull_request();
    let head = world.hub.resolve(REPO, "topic").unwrap();
    let path = format!("/repos/{REPO}/check-runs");
    let body = json!({"name": "plan", "head_sha": head, "status": "in_progress", "external_id": "run-1"});
    let created = world.call("POST", &path, &token, Some(body)).await;
    assert_eq!(created.status, 201, "{}", created.text);
    assert_answer("POST /repos/{owner}/{repo}/check-runs", 201, &created.body);
    assert_eq!(created.body["pull_requests"][0]["number"], 1);
    let own = format!("{path}/{}", created.body["id"]);

    let output = json!({"title": "Planned", "summary": "é".repeat(65_535), "text": "x"});
    let done = json!({"conclusion": "success", "output": output});
    let updated = world.call("PATCH", &own, &token, Some(done)).await;
    assert_eq!(updated.status, 200, "{}", updated.text);
    assert_answer("PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}", 200, &updated.body);
    assert_eq!(
        (updated.body["status"].as_str(), updated.body["conclusion"].as_str()),
        (Some("completed"), Some("success"))
    );
    for field in ["summary", "text"] {
        let mut output = json!({"title": "t", "summary": "s"});
        output[field] = json!("x".repeat(65_536));
        let refused = world.call("PATCH", &own, &token, Some(json!({"output": output}))).await;
        assert_eq!(refused.status, 422, "{field}");
    }

    let suite = created.body["check_suite"]["id"].clone();
    let cases = [
        ("/repos/{owner}/{repo}/check-runs/{check_run_id}", own.clone()),
        ("/repos/{owner}/{repo}/check-runs/{check_run_id}/annotations", format!("{own}/annotations")),
        ("/repos/{owner}/{repo}/check-suites/{check_suite_id}", format!("/repos/{REPO}/check-suites/{suite}")),
        (
            "/repos/{owner}/{repo}/commits/{ref}/check-runs",
            format!("/repos/{REPO}/commits/{head}/check-runs?check_name=plan"),
        ),
        ("/repos/{owner}/{repo}/commits/{ref}/check-suites", format!("/repos/{REPO}/commits/topic/check-suites")),
    ];
    assert_reads(&world, &token, &cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comment_may_have_65536_characters_and_no_more() {
    let world = World::new().await;
    let token = world.installation_token().await;
    let number = world.pull_request();
    let path = format!("/repos/{REPO}/issues/{number}/comments");
    assert_eq!(world.call("POST", &path, &token, Some(json!({"body": "é".repeat(65_536)}))).await.status, 201);
    let refused = world.call("POST", &path, &token, Some(json!({"body": "x".repeat(65_537)}))).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("body is too long (maximum is 65536 characters)"), "{}", refused.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paged_by_links_and_unchanged_ones_cost_nothing() {
    let world = World::new().await;
    let token = world.installation_token().await;
    let number = world.pull_request();
    for text in ["a", "b", "c"] {
        world.hub.comment(REPO, number, "bob", text);
    }
    let path = format!("/repos/{REPO}/issues/{number}/comments?per_page=2");
    let first = world.call("GET", &path, &token, None).await;
    let link = first.headers["link"].to_str().unwrap();
    assert_eq!(first.body.as_array().unwrap().len(), 2);
    let next = link.split(", ").find(|link| link.ends_with("rel=\"next\"")).unwrap();
    let next = next.trim_start_matches('<').split('>').next().unwrap();
    let second = world.call("GET", next, &token, None).await;
    assert_eq!(second.body[0]["body"], "c");
    assert!(!second.headers["link"].to_str().unwrap().contains("rel=\"next\""));

    let tag = first.headers["etag"].to_str().unwrap();
    let again = world.call_with("GET", &path, &token, None, &[("if-none-match", tag)]).await;
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    world.hub.comment(REPO, number, "bob", "d");
    world.hub.edit_comment(first.body[0]["id"].as_i64().unwrap(), "changed", "bob");
    assert_eq!(world.call_with("GET", &path, &token, None, &[("if-none-match", tag)]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatch_needs_a_workflow_a_branch_and_few_inputs() {
    let world = World::new().await;
    let token = world.installation_token().await;
    let path = format!("/repos/{REPO}/actions/workflows/run.yml/dispatches");
    let call = async |body: Value| world.call("POST", &path, &token, Some(body)).await;
    assert_eq!(call(json!({"ref": "main"})).await.status, 404);
    let no_ref = call(json!({"ref": "nowhere"})).await;
    assert_eq!((no_ref.status, no_ref.body["message"].as_str()), (422, Some("No ref found for: nowhere")));
    let many: serde_json::Map<String, Value> = (0..26).map(|n| (format!("i{n}"), json!("x"))).collect();
    assert_eq!(call(json!({"ref": "main", "inputs": many})).await.status, 422);
    let large = json!({"stacks": "x".repeat(65_536)});
    assert_eq!(call(json!({"ref": "main", "inputs": large})).await.status, 422);
}
