//! Each subject: what is asked, and how the answer becomes our types.

use serde_json::json;
use wiremock::matchers::{body_json, header, header_exists, method, path, query_param};
use wiremock::{Mock, ResponseTemplate};

use super::{NOW, SHA, World, a_check, a_dispatch, in_repo, ok};
use crate::github::api::{Api, GitHubError, Membership, Permission, ReviewState};

fn workflow_run(id: i64, created_at: &str) -> serde_json::Value {
    json!({"id": id, "run_attempt": 2, "display_title": "stackorder apply", "event": "workflow_dispatch",
        "path": ".github/workflows/stackorder-run.yml@main", "head_sha": SHA, "status": "queued", "conclusion": null,
        "created_at": created_at})
}

#[tokio::test]
async fn case_149_a_dispatch_gives_the_id_of_its_workflow_run() {
    let world = World::new().await;
    let inputs = json!({"run_id": "r", "mode": "apply", "wave": "0", "sha": SHA, "stacks": "[]"});
    Mock::given(method("POST"))
        .and(path(in_repo("/actions/workflows/stackorder-run.yml/dispatches")))
        .and(body_json(json!({"ref": "main", "inputs": inputs, "return_run_details": true})))
        .respond_with(ok(json!({"workflow_run_id": 42, "run_url": "", "html_url": ""})))
        .expect(1)
        .mount(&world.server)
        .await;
    assert_eq!(world.client.dispatch(&world.repo, &a_dispatch()).await.unwrap(), Some(42));
}

#[tokio::test]
async fn a_dispatch_without_an_answer_has_no_id() {
    let world = World::new().await;
    let tail = "/actions/workflows/stackorder-run.yml/dispatches";
    world.answer_once("POST", tail, ResponseTemplate::new(204)).await;
    assert_eq!(world.client.dispatch(&world.repo, &a_dispatch()).await.unwrap(), None);
    // Acted, then garbled: asking again would start a second workflow run.
    world.answer_once("POST", tail, ResponseTemplate::new(200).set_body_string("<html>")).await;
    assert_eq!(world.client.dispatch(&world.repo, &a_dispatch()).await.unwrap(), None);
}

#[tokio::test]
async fn case_149_a_dispatch_drops_the_field_that_an_older_server_refuses_and_nothing_else() {
    let world = World::new().await;
    let tail = "/actions/workflows/stackorder-run.yml/dispatches";
    let refused = json!({"message": "Invalid request.", "errors": ["\"return_run_details\" is not a permitted key."]});
    world.answer_once("POST", tail, ResponseTemplate::new(422).set_body_json(refused)).await;
    world.answer_once("POST", tail, ResponseTemplate::new(204)).await;
    assert_eq!(world.client.dispatch(&world.repo, &a_dispatch()).await.unwrap(), None);
    let requests = world.server.received_requests().await.unwrap();
    let last: serde_json::Value = serde_json::from_slice(&requests.last().unwrap().body).unwrap();
    assert!(last.get("return_run_details").is_none());

    let undeclared = json!({"message": "Unexpected inputs provided: [\"wave\"]"});
    world.answer_once("POST", tail, ResponseTemplate::new(422).set_body_json(undeclared)).await;
    let failed = world.client.dispatch(&world.repo, &a_dispatch()).await;
    assert!(matches!(failed, Err(GitHubError::Permanent { status: 422, .. })), "{failed:?}");
    assert_eq!(world.asked(tail).await, 3);
}

#[tokio::test]
async fn polling_runs_again_costs_no_quota_while_nothing_changes() {
    let world = World::new().await;
    let runs = path(in_repo("/actions/workflows/stackorder-run.yml/runs"));
    Mock::given(runs)
        .and(header("if-none-match", "\"v1\""))
        .respond_with(ResponseTemplate::new(304))
        .with_priority(1)
        .expect(1)
        .mount(&world.server)
        .await;
    let listed = json!({"total_count": 3, "workflow_runs": [
        workflow_run(1, "2027-01-15T08:00:10Z"),
        workflow_run(3, "2027-01-15T08:00:40Z"),
        workflow_run(2, "2027-01-15T08:00:40Z"),
    ]});
    Mock::given(path(in_repo("/actions/workflows/stackorder-run.yml/runs")))
        .and(query_param("event", "workflow_dispatch"))
        .and(query_param("created", ">=2027-01-15T08:00:00Z"))
        .respond_with(ok(listed).insert_header("etag", "\"v1\""))
        .expect(1)
        .mount(&world.server)
        .await;
    // The second poll is ten seconds later, within the same minute.
    for (since, ids) in [(NOW + 5_000, vec![3, 2, 1]), (NOW + 15_000, vec![3, 2])] {
        let found = world.client.dispatched_runs(&world.repo, since).await.unwrap();
        assert_eq!(found.iter().map(|run| run.id).collect::<Vec<_>>(), ids);
        assert_eq!(found[0].path, ".github/workflows/stackorder-run.yml");
        assert_eq!((found[0].attempt, found[0].completed), (2, false));
    }
}

#[tokio::test]
async fn files_are_decoded_and_large_ones_read_raw() {
    let world = World::new().await;
    let repo = &world.repo;
    let small = json!({"type": "file", "encoding": "base64", "content": "bW9k\nZTo=\n"});
    world.answer("GET", "/contents/a%20b/stackorder.yaml", ok(small)).await;
    let read = world.client.file(repo, "a b/stackorder.yaml", "main").await.unwrap();
    assert_eq!(read.as_deref(), Some(&b"mode:"[..]));

    Mock::given(path(in_repo("/contents/CODEOWNERS")))
        .and(header("accept", "application/vnd.github.raw+json"))
        .respond_with(ResponseTemplate::new(200).set_body_string("* @mona"))
        .with_priority(1)
        .mount(&world.server)
        .await;
    world.answer("GET", "/contents/CODEOWNERS", ok(json!({"type": "file", "encoding": "none", "content": ""}))).await;
    let read = world.client.file(repo, "CODEOWNERS", "main").await.unwrap();
    assert_eq!(read.as_deref(), Some(&b"* @mona"[..]));

    world.answer("GET", "/contents/docs", ok(json!([{"type": "file"}]))).await;
    world.answer("GET", "/contents/sub", ok(json!({"type": "submodule"}))).await;
    for absent in ["docs", "sub", "nowhere", "a/../b", ""] {
        assert_eq!(world.client.file(repo, absent, "main").await.unwrap(), None, "{absent:?}");
    }
}

#[tokio::test]
async fn a_comparison_names_both_sides_of_a_rename_and_says_when_it_was_cut() {
    let world = World::new().await;
    let files = json!([{"filename": "b.tf"}, {"filename": "c.tf", "previous_filename": "a.tf"}]);
    world
        .answer(
            "GET",
            "/compare/feature%2Fx...main",
            ok(json!({"commits": [{"sha": "1"}, {"sha": "2"}], "files": files})),
        )
        .await;
    let found = world.client.compare(&world.repo, "feature/x", "main").await.unwrap();
    assert_eq!(found.files, ["a.tf", "b.tf", "c.tf"]);
    assert_eq!((found.truncated, found.commits), (false, vec!["1".to_owned(), "2".to_owned()]));

    let many: Vec<_> = (0..300).map(|n| json!({"filename": format!("{n}.tf")})).collect();
    world.answer("GET", "/compare/a...b", ok(json!({"files": many}))).await;
    assert!(world.client.compare(&world.repo, "a", "b").await.unwrap().truncated);
}

#[tokio::test]
async fn permissions_read_the_real_role_and_strangers_have_none() {
    let world = World::new().await;
    for (login, answer, expected) in [
        ("a", json!({"permission": "write", "role_name": "maintain"}), Permission::Maintain),
        ("b", json!({"permission": "read", "role_name": "triage"}), Permission::Triage),
        ("c", json!({"permission": "write", "role_name": "release team"}), Permission::Write),
        ("d", json!({"permission": "admin"}), Permission::Admin),
    ] {
        world.answer("GET", &format!("/collaborators/{login}/permission"), ok(answer)).await;
        assert_eq!(world.client.permission(&world.repo, login).await.unwrap(), expected);
    }
    for nobody in ["unknown", "..", ""] {
        assert_eq!(world.client.permission(&world.repo, nobody).await.unwrap(), Permission::None);
    }
}

#[tokio::test]
async fn membership_tells_no_from_not_allowed_to_know() {
    let world = World::new().await;
    for (login, answer, expected) in [
        ("in", ok(json!({"state": "active", "role": "member"})), Membership::Active),
        ("invited", ok(json!({"state": "pending"})), Membership::None),
        ("out", ResponseTemplate::new(404), Membership::None),
        (
            "hidden",
            ResponseTemplate::new(403).set_body_json(json!({"message": "Resource not accessible"})),
            Membership::Unreadable,
        ),
    ] {
        let membership = format!("/api/v3/orgs/acme/teams/platform/memberships/{login}");
        Mock::given(path(membership)).respond_with(answer).mount(&world.server).await;
        assert_eq!(world.client.membership(&world.repo, "acme", "platform", login).await.unwrap(), expected);
    }
    let limited = ResponseTemplate::new(403).insert_header("retry-after", "5");
    Mock::given(path("/api/v3/orgs/acme/teams/platform/memberships/x"))
        .respond_with(limited)
        .mount(&world.server)
        .await;
    let asked = world.client.membership(&world.repo, "acme", "platform", "x").await;
    assert!(matches!(asked, Err(GitHubError::Deferred { .. })));
}

#[tokio::test]
async fn checks_name_their_commit_only_when_they_are_created() {
    let world = World::new().await;
    let mut expected = json!({"name": "stackorder/plan", "status": "completed", "conclusion": "action_required",
        "details_url": "https://stackorder.test/runs/1", "external_id": "r",
        "output": {"title": "t", "summary": "s", "text": ""}});
    let check = a_check();
    Mock::given(method("PATCH"))
        .and(path(in_repo("/check-runs/5")))
        .and(body_json(&expected))
        .respond_with(ok(json!({})))
        .expect(1)
        .mount(&world.server)
        .await;
    world.client.update_check(&world.repo, 5, &check).await.unwrap();
    expected["head_sha"] = json!(SHA);
    Mock::given(method("POST"))
        .and(path(in_repo("/check-runs")))
        .and(header_exists("content-type"))
        .and(body_json(&expected))
        .respond_with(ResponseTemplate::new(201).set_body_json(json!({"id": 5})))
        .mount(&world.server)
        .await;
    assert_eq!(world.client.create_check(&world.repo, &check).await.unwrap(), 5);
}

#[tokio::test]
async fn a_pull_request_of_a_deleted_fork_is_a_fork() {
    let world = World::new().await;
    let pull = |head_repo: serde_json::Value| {
        json!({"number": 7, "title": "t", "state": "closed", "merged": true, "draft": false, "user": {"login": "mona"},
            "head": {"ref": "x", "sha": SHA, "repo": head_repo}, "base": {"ref": "main", "sha": SHA, "repo": {"id": 1}},
            "mergeable": null, "mergeable_state": "unknown", "merge_commit_sha": SHA,
            "merged_by": {"login": "octocat"}})
    };
    world.answer_once("GET", "/pulls/7", ok(pull(json!(null)))).await;
    world.answer_once("GET", "/pulls/7", ok(pull(json!({"id": 1})))).await;
    let gone = world.client.pull_request(&world.repo, 7).await.unwrap();
    assert!(gone.from_fork && gone.merged && !gone.open);
    assert_eq!(gone.merged_by.as_deref(), Some("octocat"));
    assert!(!world.client.pull_request(&world.repo, 7).await.unwrap().from_fork);
}

#[tokio::test]
async fn a_merged_pull_request_without_its_merge_commit_is_asked_for_again() {
    let world = World::new().await;
    let pull = json!({"number": 7, "title": "t", "state": "closed", "merged": true, "draft": false, "user": null,
        "head": {"ref": "x", "sha": SHA, "repo": null}, "base": {"ref": "main", "sha": SHA, "repo": {"id": 1}},
        "merge_commit_sha": null});
    world.answer("GET", "/pulls/7", ok(pull)).await;
    let asked = world.client.pull_request(&world.repo, 7).await;
    assert!(matches!(asked, Err(GitHubError::Temporary { .. })), "{asked:?}");
}

#[tokio::test]
async fn unknown_review_states_decide_nothing() {
    let world = World::new().await;
    let review = |state: &str| {
        let at = "2027-01-15T08:00:00Z";
        json!({"user": {"login": "mona"}, "state": state, "commit_id": SHA, "submitted_at": at})
    };
    let given =
        json!([review("APPROVED"), review("SHRUGGED"), {"user": null, "state": "COMMENTED", "commit_id": null}]);
    world.answer("GET", "/pulls/7/reviews", ok(given)).await;
    let reviews = world.client.reviews(&world.repo, 7).await.unwrap();
    let seen: Vec<_> = reviews.iter().map(|review| (review.state, review.submitted_at)).collect();
    assert_eq!(seen, [(ReviewState::Approved, NOW), (ReviewState::Commented, 0)]);
}

#[tokio::test]
async fn what_is_gone_or_answered_already_is_fine() {
    let world = World::new().await;
    world.client.delete_comment(&world.repo, 5).await.unwrap();
    let edited = world.client.edit_comment(&world.repo, 5, "x").await;
    assert!(matches!(edited, Err(GitHubError::NotFound { .. })));
    let tail = "/actions/runs/8/deployment_protection_rule";
    world.answer("POST", tail, ResponseTemplate::new(422).set_body_json(json!({"message": "No pending rule"}))).await;
    world.client.answer_protection_rule(&world.repo, 8, "prod", true, "fine").await.unwrap();
}

#[tokio::test]
async fn issues_leave_pull_requests_out() {
    let world = World::new().await;
    Mock::given(path(in_repo("/issues")))
        .and(query_param("labels", "stackorder-drift"))
        .and(query_param("state", "open"))
        .respond_with(ok(
            json!([{"number": 1, "title": "a", "body": null}, {"number": 2, "title": "b", "pull_request": {}}]),
        ))
        .mount(&world.server)
        .await;
    let issues = world.client.issues(&world.repo, "stackorder-drift").await.unwrap();
    assert_eq!(issues.iter().map(|issue| issue.number).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn jobs_say_where_they_stand_and_environments_who_is_waited_for() {
    let world = World::new().await;
    let job = json!({"id": 5, "name": "apply wave 0 a", "status": "waiting", "html_url": null});
    world.answer("GET", "/actions/runs/8/jobs", ok(json!({"total_count": 1, "jobs": [job]}))).await;
    let jobs = world.client.jobs(&world.repo, 8).await.unwrap();
    assert_eq!((jobs[0].name.as_str(), jobs[0].status.as_str()), ("apply wave 0 a", "waiting"));
    let job = |runner: serde_json::Value, steps: serde_json::Value| json!({"id": 5, "name": "a", "status": "completed", "html_url": null, "runner_id": runner, "steps": steps});
    let ended =
        [job(json!(null), json!([])), job(json!(0), json!([])), job(json!(3), json!([])), job(json!(0), json!([{}]))];
    world.answer("GET", "/actions/runs/9/jobs", ok(json!({"total_count": 4, "jobs": ended}))).await;
    let started: Vec<bool> = world.client.jobs(&world.repo, 9).await.unwrap().iter().map(|job| job.started).collect();
    assert_eq!(started, [false, false, true, true]);
    let pending = |name: &str| json!({"environment": {"id": 1, "name": name}, "wait_timer": 0});
    let waiting = json!([pending("prod"), pending("dev"), pending("prod")]);
    world.answer("GET", "/actions/runs/8/pending_deployments", ok(waiting)).await;
    assert_eq!(world.client.pending_deployments(&world.repo, 8).await.unwrap(), ["dev", "prod"]);
}

#[tokio::test]
async fn a_commit_is_its_first_line_and_its_author_if_github_knows_one() {
    let world = World::new().await;
    let sha = crate::ids::Sha::parse(SHA).unwrap();
    for (author, login) in [(json!({"login": "mona"}), "mona"), (json!({}), ""), (json!(null), "")] {
        let commit = json!({"sha": SHA, "commit": {"message": "subject\n\nbody"}, "author": author});
        world.answer_once("GET", &format!("/commits/{SHA}"), ok(commit)).await;
        let read = world.client.commit(&world.repo, &sha).await.unwrap();
        assert_eq!(read, ("subject".to_owned(), login.to_owned()));
    }
}

#[tokio::test]
async fn a_rerun_whose_answer_is_unclear_is_not_repeated() {
    let world = World::new().await;
    world.answer("POST", "/actions/runs/8/rerun", ResponseTemplate::new(502)).await;
    assert!(matches!(world.client.rerun(&world.repo, 8).await, Err(GitHubError::Temporary { .. })));
    assert_eq!(world.asked("/actions/runs/8/rerun").await, 1);
}

#[tokio::test]
async fn a_suspended_installation_is_not_taken_for_a_missing_permission() {
    let world = World::without_tokens().await;
    let suspended =
        ResponseTemplate::new(403).set_body_json(json!({"message": "This installation has been suspended"}));
    let exchange = path("/api/v3/app/installations/9/access_tokens");
    Mock::given(exchange).respond_with(suspended).mount(&world.server).await;
    let asked = world.client.membership(&world.repo, "acme", "platform", "mona").await;
    assert!(matches!(asked, Err(GitHubError::Permanent { status: 403, .. })), "{asked:?}");
}

#[tokio::test]
async fn what_would_be_too_much_to_write_now_is_not_sent_and_what_is_urgent_is() {
    let world = World::new().await;
    let created = || ResponseTemplate::new(201).set_body_json(json!({"id": 5}));
    world.answer("POST", "/check-runs", created()).await;
    world.answer("POST", "/issues/3/comments", created()).await;
    world.answer("POST", "/actions/workflows/stackorder-run.yml/dispatches", ResponseTemplate::new(204)).await;
    let of_stack = crate::github::api::Check { name: "stackorder/plan: vpc".to_owned(), ..a_check() };
    let roll_up = crate::github::api::Check { name: "stackorder/plan".to_owned(), ..a_check() };

    for _ in 0..40 {
        world.client.create_check(&world.repo, &of_stack).await.unwrap();
    }
    let held = world.client.create_check(&world.repo, &of_stack).await;
    assert!(matches!(held, Err(GitHubError::Deferred { until, .. }) if until == NOW + 60_000), "{held:?}");
    assert_eq!(world.asked("/check-runs").await, 40);
    assert_eq!(world.client.edit_every(&world.repo), 5_434);

    for _ in 0..24 {
        world.client.create_comment(&world.repo, 3, "hello").await.unwrap();
    }
    let held = world.client.create_comment(&world.repo, 3, "hello").await;
    assert!(matches!(held, Err(GitHubError::Deferred { .. })), "{held:?}");
    world.client.create_check(&world.repo, &roll_up).await.unwrap();
    for _ in 0..40 {
        world.client.dispatch(&world.repo, &a_dispatch()).await.unwrap();
    }
    let other = crate::github::api::RepoRef { installation_id: 10, ..world.repo.clone() };
    assert_eq!(world.client.edit_every(&other), 5_000, "each installation has its own budget");
}

#[tokio::test]
async fn the_log_of_the_webhook_is_read_as_far_as_asked_and_no_further() {
    let world = World::without_tokens().await;
    let log = "/api/v3/app/hook/deliveries";
    let attempt = |id: i64, at: &str, status: i64| {
        json!({"id": id, "guid": format!("g{id}"), "delivered_at": at, "redelivery": false, "duration": 0.1,
            "status": "?", "status_code": status, "event": "push", "action": null})
    };
    let page = |from: &str, entries: serde_json::Value| {
        let next = format!("<{}{log}?per_page=100&cursor={from}>; rel=\"next\"", world.server.uri());
        ok(entries).insert_header("link", next.as_str())
    };
    let mount = async |cursor: Option<&str>, answer: ResponseTemplate| {
        let mock = Mock::given(method("GET")).and(path(log)).and(query_param("per_page", "100"));
        let mock = match cursor {
            Some(cursor) => mock.and(query_param("cursor", cursor)).respond_with(answer),
            None => mock.and(wiremock::matchers::query_param_is_missing("cursor")).respond_with(answer),
        };
        mock.expect(1).mount(&world.server).await;
    };
    let newest = json!([attempt(9, "2027-01-15T08:00:00Z", 0), attempt(8, "2027-01-15T07:59:00Z", 202)]);
    let older = json!([attempt(7, "2027-01-15T07:58:00Z", 503), attempt(6, "2027-01-12T00:00:00Z", 500)]);
    mount(None, page("a", newest)).await;
    // A third page, if it were asked for, would be an unknown route.
    mount(Some("a"), page("b", older)).await;
    let found = world.client.hook_deliveries(NOW - 3 * 86_400_000).await.unwrap();
    let found: Vec<_> = found.iter().map(|one| (one.id, one.guid.as_str(), one.accepted)).collect();
    assert_eq!(found, [(9, "g9", false), (8, "g8", true), (7, "g7", false)]);

    Mock::given(method("POST"))
        .and(path(format!("{log}/9/attempts")))
        .respond_with(ResponseTemplate::new(202).set_body_json(json!({})))
        .expect(1)
        .mount(&world.server)
        .await;
    world.client.redeliver(9).await.unwrap();
    assert!(matches!(world.client.redeliver(1).await, Err(GitHubError::NotFound { .. })));
}
