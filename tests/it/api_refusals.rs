//! What the server's API and webhook receiver refuse, asked over HTTP of a real process: the status and body of spec 20,
//! and not one row changed.
//!
//! - `every_answer`: methods, headers, names of requests, lines of the log, and what a stop leaves.
//! - `world`: the process, the fake GitHub behind it, tokens and signatures.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use world::{ISSUER_KEY, KEY_ID, OTHER_KEY, REPOSITORY, STRANGER, World, sent, signature, signed};

mod every_answer;
pub mod world;

const RUN: &str = "00000000-0000-4000-8000-000000000000";

// -- webhooks -------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_not_github_s_is_never_looked_at() {
    let world = World::new().await;
    let before = world.state().await;
    let good = br#"{"zen": "Keep it logically awesome."}"#;
    let deliver = |name: &str, value: &str, body: &[u8]| {
        let request =
            world.post("/webhooks/github").header("X-GitHub-Event", "push").header("X-GitHub-Delivery", "d-1");
        request.header(name, value).body(body.to_vec())
    };
    let mut upper = signature(good);
    upper.make_ascii_uppercase();
    let wrong = [
        ("no signature", deliver("X-Nothing", "", good)),
        ("the old kind of signature", deliver("X-Hub-Signature", "sha1=0000", good)),
        ("the signature of another body", deliver("X-Hub-Signature-256", &signature(b"{}"), good)),
        ("a signature that is cut off", deliver("X-Hub-Signature-256", &signature(good)[..70], good)),
        ("a signature without its kind", deliver("X-Hub-Signature-256", &signature(good)[7..], good)),
        ("another kind in capitals", deliver("X-Hub-Signature-256", &upper, good)),
        // Nothing else is looked at before the signature.
        ("unsigned and no JSON", deliver("X-Hub-Signature-256", "sha256=", b"\xff{")),
        ("unsigned and without headers", world.post("/webhooks/github")),
    ];
    for (what, request) in wrong {
        sent(request).await.refuses(what, 401, "unauthorized");
    }
    assert!(world.deliveries().await.is_empty());
    assert_eq!(world.state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_delivery_that_is_malformed_is_refused_and_an_unknown_one_changes_nothing() {
    let world = World::new().await;
    let before = world.state().await;
    let deliver = |event: Option<&str>, delivery: Option<&str>, body: &[u8]| {
        let mut request = world.post("/webhooks/github").header("X-Hub-Signature-256", signature(body));
        for (name, value) in [("X-GitHub-Event", event), ("X-GitHub-Delivery", delivery)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        request.body(body.to_vec())
    };
    let malformed = [
        ("no event", deliver(None, Some("d-1"), b"{}")),
        ("no delivery", deliver(Some("push"), None, b"{}")),
        ("no body", deliver(Some("push"), Some("d-1"), b"")),
        ("no JSON", deliver(Some("push"), Some("d-1"), b"payload=%7B%7D")),
        ("more than JSON", deliver(Some("push"), Some("d-1"), b"{} {}")),
        ("no UTF-8", deliver(Some("push"), Some("d-1"), b"\"\xff\"")),
    ];
    for (what, request) in malformed {
        sent(request).await.refuses(what, 400, "invalid");
    }
    let large = format!("\"{}\"", "x".repeat(5 * 1024 * 1024));
    sent(deliver(Some("push"), Some("d-1"), large.as_bytes())).await.refuses("6 MiB", 413, "invalid");
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let answer = sent(world.request(method, "/webhooks/github")).await;
        answer.refuses("not a POST", 405, "invalid");
        assert_eq!(answer.headers["allow"], "POST");
    }
    assert!(world.deliveries().await.is_empty());

    assert_eq!(sent(deliver(Some("ping"), Some("d-2"), b"{}")).await.status, 200);
    // Stored, acknowledged, and then of no consequence.
    let taken = [("unheard_of", "d-3", "{}"), ("pull_request", "d-4", "{}"), ("push", "d-5", r#"{"ref": 5}"#)];
    for (event, id, body) in taken {
        let answer = sent(deliver(Some(event), Some(id), body.as_bytes())).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (202, r#"{"queued":true}"#), "{event}");
        let again = sent(deliver(Some(event), Some(id), body.as_bytes())).await;
        assert_eq!(again.status, 202, "{event} again");
    }
    assert_eq!(world.state().await, before);
    // A check that nobody asks for again: GitHub tells of every one there is.
    let check = include_str!("../fixtures/webhooks/check_run.rerequested.json");
    for (id, body, queued) in
        [("d-6", check.replacen("\"rerequested\"", "\"created\"", 1), false), ("d-7", check.to_owned(), true)]
    {
        let answer = sent(deliver(Some("check_run"), Some(id), body.as_bytes())).await;
        assert_eq!((answer.status.as_u16(), answer.text), (202, format!(r#"{{"queued":{queued}}}"#)), "{id}");
    }
    let stored: Vec<String> = world.deliveries().await.into_keys().collect();
    assert_eq!(stored, ["d-3", "d-4", "d-5", "d-7"]);
}

// -- credentials ----------------------------------------------------------------------------------------

/// A request that would do something for whoever may.
fn register(world: &World) -> RequestBuilder {
    world.post("/v1/runs").json(&json!({ "repo": REPOSITORY, "sha": "0".repeat(40), "pr_number": 7 }))
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_16_a_call_without_a_usable_credential_is_unauthorized() {
    let world = World::new().await;
    let expired = world.key("expired", &["--scope", "apply", "--scope", "read", "--scope", "unlock"]).await;
    world.tamper("update api_keys set body = json_set(body, '$.expires_at', 1) where body like '%\"expired\"%'").await;
    let before = world.state().await;
    let (good, now) = (world.token(), world.claims()["iat"].as_i64().unwrap());
    let bearer = |value: String| register(&world).header("Authorization", value);
    let token = |changes: Value| register(&world).bearer_auth(world.token_with(changes));
    let unsigned = {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(json!({ "alg": "none", "kid": KEY_ID })), part(world.claims()))
    };
    let mut bent = good.clone().into_bytes();
    let middle = bent.len() / 2;
    bent[middle] = if bent[middle] == b'A' { b'B' } else { b'A' };
    let wrong = [
        ("nothing", register(&world)),
        ("nothing after Bearer", bearer("Bearer ".to_owned())),
        ("another scheme", bearer(format!("Basic {good}"))),
        ("two words", bearer(format!("Bearer {good} {good}"))),
        ("two headers", bearer(format!("Bearer {good}")).header("Authorization", format!("Bearer {}", world.token()))),
        ("no token at all", bearer("Bearer of news".to_owned())),
        ("a token that is too long", bearer(format!("Bearer {}", "x".repeat(70_000)))),
        ("an unsigned token", bearer(format!("Bearer {unsigned}"))),
        ("a token with a bent claim", bearer(format!("Bearer {}", String::from_utf8(bent).unwrap()))),
        ("a token of another key", bearer(format!("Bearer {}", signed(&world.claims(), KEY_ID, OTHER_KEY)))),
        ("a token of an unknown key", bearer(format!("Bearer {}", signed(&world.claims(), "unheard-of", ISSUER_KEY)))),
        ("another audience", token(json!({ "aud": "https://github.com/acme" }))),
        ("no audience", token(json!({ "aud": null }))),
        ("another issuer", token(json!({ "iss": "https://token.actions.githubusercontent.com" }))),
        ("an expired token", token(json!({ "exp": now - 61 }))),
        ("a token without an end", token(json!({ "exp": null }))),
        ("an old token", token(json!({ "iat": now - 601 }))),
        ("a token of tomorrow", token(json!({ "iat": now + 86_400, "exp": now + 90_000 }))),
        ("a token that is not valid yet", token(json!({ "nbf": now + 3600 }))),
        ("a token without an id", token(json!({ "jti": null }))),
        ("a token without a repository", token(json!({ "repository": null }))),
        ("an unknown API key", bearer("Bearer sk_0000".to_owned())),
        ("an expired API key", bearer(format!("Bearer {expired}"))),
    ];
    for (what, request) in wrong {
        sent(request).await.refuses(what, 401, "unauthorized");
    }
    // Of a kind that the route does not take.
    let stacks = format!("/v1/repos/{REPOSITORY}/stacks");
    for (what, request) in [
        ("a job unlocks", world.post("/v1/unlock")),
        ("a job lists", world.get(&stacks)),
        ("a job plans again", world.post(&format!("/v1/runs/{RUN}/rerun"))),
        ("a job asks for an apply", world.post(&format!("/v1/runs/{RUN}/apply"))),
    ] {
        sent(request.bearer_auth(world.token())).await.refuses(what, 401, "unauthorized");
    }
    assert_eq!(world.state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_16_a_token_is_good_for_one_call_and_a_revoked_key_for_none() {
    let world = World::new().await;
    let key = world.key("soon-gone", &["--scope", "read"]).await;
    let before = world.state().await;
    let token = world.token();
    let read = |token: &str| world.get(&format!("/v1/runs/{RUN}")).bearer_auth(token);
    sent(read(&token)).await.refuses("an unknown run", 404, "not_found");
    sent(read(&token)).await.refuses("the same token again", 401, "unauthorized");
    sent(read(&key)).await.refuses("an unknown run", 404, "not_found");
    sent(read(&key)).await.refuses("a key may be used again", 404, "not_found");
    assert_eq!(world.state().await, before);

    world.tamper("update api_keys set revoked_at = 1, body = json_set(body, '$.revoked_at', 1)").await;
    let before = world.state().await;
    sent(read(&key)).await.refuses("a revoked key", 401, "unauthorized");
    assert_eq!(world.state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_16_a_good_credential_for_something_else_is_forbidden() {
    let world = World::new().await;
    let reader = world.key("reader", &["--scope", "read"]).await;
    let elsewhere =
        world.key("elsewhere", &["--scope", "read", "--scope", "apply", "--scope", "unlock", "--repo", STRANGER]).await;
    let mut before = world.state().await;
    let stranger = world.ids[STRANGER].to_string();
    let token = |changes: Value| register(&world).bearer_auth(world.token_with(changes));
    let body = |changes: Value| {
        let mut body = json!({ "repo": REPOSITORY, "sha": "0".repeat(40), "pr_number": 7 });
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        world.post("/v1/runs").json(&body).bearer_auth(world.token())
    };
    let manual = json!({
        "repo": REPOSITORY, "sha": "0".repeat(40), "mode": "apply", "trigger": "manual", "stacks": ["stacks/vpc"],
    });
    let unlock = json!({ "repo": REPOSITORY, "stack_key": "stacks/vpc", "reason": "because" });
    let wrong = [
        ("a repository without the App", token(json!({ "repository": STRANGER, "repository_id": stranger }))),
        ("another's name", token(json!({ "repository_id": stranger }))),
        ("another's number", token(json!({ "repository": STRANGER }))),
        ("a job that a push started", token(json!({ "event_name": "push" }))),
        ("a job of another pull request", token(json!({ "ref": "refs/pull/8/merge" }))),
        ("a job of no pull request", token(json!({ "ref": "refs/heads/main" }))),
        ("a pull request's job that would apply", body(json!({ "mode": "apply" }))),
        ("a job for another repository", body(json!({ "repo": STRANGER }))),
        ("a job for another pull request", body(json!({ "pr_number": 8 }))),
        ("a key that may only read applies", world.post("/v1/runs").json(&manual).bearer_auth(&reader)),
        ("a key that may only read unlocks", world.post("/v1/unlock").json(&unlock).bearer_auth(&reader)),
    ];
    for (what, request) in wrong {
        sent(request).await.refuses(what, 403, "forbidden");
    }
    // Hidden and missing are the same answer.
    for path in ["stacks", "runs"] {
        let hidden = sent(world.get(&format!("/v1/repos/{REPOSITORY}/{path}")).bearer_auth(&elsewhere)).await;
        let missing = sent(world.get(&format!("/v1/repos/acme/missing/{path}")).bearer_auth(&elsewhere)).await;
        hidden.refuses("a hidden repository", 404, "not_found");
        assert_eq!((hidden.status, hidden.text), (missing.status, missing.text));
    }
    let applies_elsewhere = sent(world.post("/v1/runs").json(&manual).bearer_auth(&elsewhere)).await;
    assert!([403, 404].contains(&applies_elsewhere.status.as_u16()), "{}", applies_elsewhere.text);

    // What a key was forbidden is told, and nothing else has changed.
    let audit = sent(world.get("/v1/audit?actor=apikey:reader").bearer_auth(&reader)).await;
    let audit: Value = serde_json::from_str(&audit.text).unwrap();
    let forbidden: Vec<&str> =
        audit["items"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(forbidden, ["unlock_refused", "manual_apply"]);
    let mut after = world.state().await;
    before.remove("audit");
    after.remove("audit");
    assert_eq!(after, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_hands_out_keys_and_takes_them_back() {
    let world = World::new().await;
    let giver = world.key("giver", &["--scope", "keys", "--scope", "read", "--repo", REPOSITORY]).await;
    let reader = world.key("reader", &["--scope", "read"]).await;
    let before = world.state().await;
    let ask = |key: &str, body: Value| world.post("/v1/keys").json(&body).bearer_auth(key);
    let good = json!({ "name": "nightly", "scopes": ["read"], "repos": [REPOSITORY], "days": 1 });
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        ask(&giver, body)
    };
    sent(ask(&reader, good.clone())).await.refuses("a key that may only read", 403, "forbidden");
    sent(world.get("/v1/keys").bearer_auth(&reader)).await.refuses("a key that may only read", 403, "forbidden");
    sent(with("name", json!("giver"))).await.refuses("a name that is taken", 409, "conflict");
    for (field, value) in [
        ("name", json!("a b")),
        ("scopes", json!([])),
        ("scopes", json!(["all"])),
        ("repos", json!(["acme"])),
        ("days", json!(0)),
        ("days", json!("1")),
    ] {
        let answer = sent(with(field, value)).await;
        answer.refuses(field, 400, "invalid");
        assert!(answer.text.contains(field), "{}", answer.text);
    }
    let delete = |name: &str| world.request(Method::DELETE, &format!("/v1/keys/{name}")).bearer_auth(&giver);
    for unknown in ["reader", "nobody", "%2f"] {
        sent(delete(unknown)).await.refuses(unknown, 404, "not_found");
    }
    assert_eq!(world.state().await, before);

    let beyond = [
        ("more than it may", with("scopes", json!(["apply"]))),
        ("every repository", with("repos", json!([]))),
        ("longer than it lives", with("days", json!(3650))),
    ];
    for (what, request) in beyond {
        sent(request).await.refuses(what, 403, "forbidden");
    }
    let audit = sent(world.get("/v1/audit?action=api_key_refused").bearer_auth(&giver)).await;
    let refused: Value = serde_json::from_str(&audit.text).unwrap();
    let reasons: Vec<&Value> =
        refused["items"].as_array().unwrap().iter().map(|entry| &entry["details"]["reason"]).collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert_eq!(reasons[2], "this key may not apply itself");

    let made = sent(ask(&giver, good.clone())).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let nightly = serde_json::from_str::<Value>(&made.text).unwrap()["key"].as_str().unwrap().to_owned();
    let stacks = || world.get(&format!("/v1/repos/{REPOSITORY}/stacks")).bearer_auth(&nightly);
    assert_eq!(sent(stacks()).await.status, 200);
    let listed = sent(world.get("/v1/keys").bearer_auth(&giver)).await;
    let names: Value = serde_json::from_str(&listed.text).unwrap();
    let names: Vec<&str> = names["items"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["giver", "nightly"]);
    assert!(!listed.text.contains(&nightly) && !listed.text.contains("hash"), "{}", listed.text);
    assert_eq!(sent(delete("nightly")).await.status, 204);
    sent(stacks()).await.refuses("a revoked key", 401, "unauthorized");
    sent(delete("nightly")).await.refuses("a revoked key", 404, "not_found");
}

// -- bodies and ids -------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_what_the_route_takes_is_refused() {
    let world = World::new().await;
    let key = world.key("ci", &["--scope", "read", "--scope", "apply", "--scope", "unlock"]).await;
    let before = world.state().await;
    let run = |part: &str| format!("/v1/runs/{RUN}{part}");
    let routes = [
        "/v1/runs".to_owned(),
        run("/graph"),
        run("/stacks/stacks%2Fvpc/result"),
        run("/stacks/stacks%2Fvpc/claim"),
        run("/stacks/stacks%2Fvpc/checks/policy"),
    ];
    for route in &routes {
        let post = |body: &str| world.post(route).bearer_auth(world.token()).body(body.to_owned());
        let kind = |kind: &str| post("{}").header("Content-Type", kind);
        let wrong = [
            ("no body", post("")),
            ("no JSON", post("repo=acme")),
            ("half a body", post("{\"repo\": ")),
            ("a list", post("[1]")),
            ("a text", post("\"repo\"")),
            ("two values", post("{\"repo\": \"acme/infra\"} {}")),
            ("deep nesting", post(&"[".repeat(100_000))),
            ("a form", kind("application/x-www-form-urlencoded")),
            ("plain text", kind("text/plain; charset=utf-8")),
            ("something like JSON", kind("text/json")),
        ];
        for (what, request) in wrong {
            sent(request).await.refuses(&format!("{what} at {route}"), 400, "invalid");
        }
    }
    // Only a re-run may come without words, and then it is the run that is looked for.
    for (route, body, status) in
        [("/rerun", "", 404), ("/rerun", "{}", 404), ("/rerun", "[]", 400), ("/apply", "", 400)]
    {
        let answer = sent(world.post(&run(route)).bearer_auth(&key).body(body)).await;
        answer.refuses(&format!("{body:?} at {route}"), status, if status == 404 { "not_found" } else { "invalid" });
    }
    let create = |body: Value| world.post("/v1/runs").bearer_auth(world.token()).json(&body);
    let at = |part: &str, body: Value| world.post(&run(part)).bearer_auth(world.token()).json(&body);
    let (result, claim, check) =
        ("/stacks/stacks%2Fvpc/result", "/stacks/stacks%2Fvpc/claim", "/stacks/stacks%2Fvpc/checks/policy");
    for (field, request) in [
        ("repo", create(json!({ "repo": 5 }))),
        ("pr_number", create(json!({ "repo": REPOSITORY, "pr_number": "7" }))),
        ("mode", create(json!({ "repo": REPOSITORY, "mode": "destroy" }))),
        ("run_id", create(json!({ "repo": REPOSITORY, "run_id": "latest" }))),
        ("sha", create(json!({ "repo": REPOSITORY, "pr_number": 7 }))),
        ("graph", at("/graph", json!({}))),
        ("graph.stacks[0].key", at("/graph", json!({ "graph": { "stacks": [{ "key": 5 }] } }))),
        ("changed_paths[1]", at("/graph", json!({ "graph": { "repo": "", "sha": "" }, "changed_paths": ["a", 5] }))),
        ("mode", at(result, json!({ "status": "success" }))),
        ("status", at(result, json!({ "mode": "plan", "status": "fine" }))),
        ("summary.adds", at(result, json!({ "mode": "plan", "status": "success", "summary": { "adds": "one" } }))),
        ("workflow_run_attempt", at(claim, json!({ "sha": "", "workflow_run_attempt": "1" }))),
        ("status", at(check, json!({ "status": "maybe" }))),
        ("force_state", world.post("/v1/unlock").bearer_auth(&key).json(&json!({ "force_state": "yes" }))),
        ("stacks[0]", world.post(&run("/apply")).bearer_auth(&key).json(&json!({ "stacks": [5] }))),
    ] {
        let refused = sent(request).await.refuses(field, 400, "invalid");
        assert_eq!(refused["details"]["field"], field, "{refused}");
        assert!(refused["message"].as_str().unwrap().starts_with(&format!("{field}: ")), "{refused}");
    }

    let manual = |body: Value| world.post("/v1/runs").bearer_auth(&key).json(&body);
    for (field, body) in [
        (
            "trigger",
            json!({ "repo": REPOSITORY, "sha": "0".repeat(40), "mode": "apply", "trigger": "push", "stacks": ["a"] }),
        ),
        (
            "mode",
            json!({ "repo": REPOSITORY, "sha": "0".repeat(40), "mode": "plan", "trigger": "manual", "stacks": ["a"] }),
        ),
        ("stacks", json!({ "repo": REPOSITORY, "sha": "0".repeat(40), "mode": "apply", "trigger": "manual" })),
    ] {
        let refused = sent(manual(body)).await.refuses(field, 400, "invalid");
        assert_eq!(refused["details"]["field"], field);
    }
    for (field, body) in [("repo", json!({})), ("stack_key", json!({ "repo": REPOSITORY }))] {
        let refused = sent(world.post("/v1/unlock").bearer_auth(&key).json(&body)).await.refuses(field, 400, "invalid");
        assert_eq!(refused["details"]["field"], field);
    }
    assert_eq!(world.state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_its_limit_is_too_large_and_one_under_it_is_read() {
    const MIB: usize = 1024 * 1024;
    let world = World::new().await;
    let before = world.state().await;
    let limits = [
        ("/v1/runs".to_owned(), MIB),
        (format!("/v1/runs/{RUN}/graph"), 8 * MIB),
        (format!("/v1/runs/{RUN}/stacks/a/result"), 4 * MIB),
        (format!("/v1/runs/{RUN}/stacks/a/claim"), MIB),
        (format!("/v1/runs/{RUN}/stacks/a/checks/policy"), MIB),
    ];
    for (route, limit) in &limits {
        // A body of spaces is read to its end, and found to be no JSON.
        for (bytes, status) in [(*limit, 400), (limit + 1, 413)] {
            let request = world.post(route).bearer_auth(world.token()).body(" ".repeat(bytes));
            let refused = sent(request).await.refuses(&format!("{bytes} bytes at {route}"), status, "invalid");
            let message = refused["message"].as_str().unwrap();
            assert_eq!(
                message.contains(&format!("{bytes} bytes")) && message.contains(&limit.to_string()),
                status == 413
            );
        }
    }
    assert_eq!(world.state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_names_nothing_is_not_found() {
    let world = World::new().await;
    let key = world.key("ci", &["--scope", "read", "--scope", "apply", "--scope", "unlock"]).await;
    let before = world.state().await;
    for id in [RUN, "latest", "00000000", "..%2F..%2Fhealthz"] {
        let job = |part: &str, body: Value| {
            world.post(&format!("/v1/runs/{id}{part}")).bearer_auth(world.token()).json(&body)
        };
        let graph = json!({ "repo": REPOSITORY, "sha": "0".repeat(40), "tree_hash": "", "stacks": [], "edges": [] });
        let sha = "0".repeat(40);
        // Only a dispatched job may claim, so only such a one learns that there is no such run.
        let changes =
            json!({ "event_name": "workflow_dispatch", "ref": "refs/heads/main", "environment": "production" });
        let dispatched =
            world.post(&format!("/v1/runs/{id}/stacks/stacks%2Fvpc/claim")).bearer_auth(world.token_with(changes));
        for (what, request) in [
            ("a run, by a key", world.get(&format!("/v1/runs/{id}")).bearer_auth(&key)),
            ("a run to plan again", world.post(&format!("/v1/runs/{id}/rerun")).bearer_auth(&key)),
            ("a run to apply", world.post(&format!("/v1/runs/{id}/apply")).bearer_auth(&key).json(&json!({}))),
            ("a run, by a job", world.get(&format!("/v1/runs/{id}")).bearer_auth(world.token())),
            ("a graph", job("/graph", json!({ "graph": graph }))),
            ("a result", job("/stacks/stacks%2Fvpc/result", json!({ "mode": "plan", "status": "success" }))),
            ("a claim", dispatched.json(&json!({ "sha": sha, "workflow_run_attempt": 1 }))),
            ("a verdict", job("/stacks/stacks%2Fvpc/checks/policy", json!({ "status": "pass" }))),
            ("no stack's name", job("/stacks/..%2Fvpc/result", json!({ "mode": "plan", "status": "success" }))),
        ] {
            sent(request).await.refuses(&format!("{what} of {id}"), 404, "not_found");
        }
    }
    let unlock = json!({ "repo": REPOSITORY, "stack_key": "stacks/vpc", "reason": "because" });
    let nowhere = json!({ "repo": "acme/missing", "stack_key": "stacks/vpc", "reason": "because" });
    for (what, request) in [
        ("a repository", world.get("/v1/repos/acme/missing/runs").bearer_auth(&key)),
        ("no repository's name", world.get("/v1/repos/acme/%20/stacks").bearer_auth(&key)),
        ("a stack to unlock", world.post("/v1/unlock").bearer_auth(&key).json(&unlock)),
        ("a repository to unlock in", world.post("/v1/unlock").bearer_auth(&key).json(&nowhere)),
        ("a route", world.get("/v1/nonsense").bearer_auth(&key)),
        ("a route, without a credential", world.post("/v1/nonsense/too")),
        ("the root of the routes", world.get("/v1/")),
        ("a route to sign in", world.get("/auth/nonsense")),
        ("the root of signing in", world.post("/auth/")),
    ] {
        sent(request).await.refuses(what, 404, "not_found");
    }
    assert_eq!(world.state().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_refuses_parameters_it_does_not_understand() {
    let world = World::new().await;
    let key = world.key("ci", &["--scope", "read"]).await;
    let before = world.state().await;
    let [runs, stacks] = ["runs", "stacks"].map(|list| format!("/v1/repos/{REPOSITORY}/{list}"));
    for list in [runs.as_str(), &stacks, "/v1/audit"] {
        for (field, query) in [
            ("limit", "limit=0"),
            ("limit", "limit=-1"),
            ("limit", "limit=%2B1"),
            ("limit", "limit=many"),
            ("limit", "limit="),
            ("cursor", "cursor=!"),
            ("cursor", "cursor=_w"),
        ] {
            let answer = sent(world.get(&format!("{list}?{query}")).bearer_auth(&key)).await;
            assert_eq!(answer.refuses(&format!("{list}?{query}"), 400, "invalid")["details"]["field"], field);
        }
        sent(world.get(&format!("{list}?limit=1&limit=2")).bearer_auth(&key)).await.refuses("twice", 400, "invalid");
        for query in ["limit=1", "limit=9999", "limit=99999999999999999999", "of_a_later_version=1"] {
            let answer = sent(world.get(&format!("{list}?{query}")).bearer_auth(&key)).await;
            assert_eq!(answer.status, 200, "{list}?{query}: {}", answer.text);
            answer.carries_what_every_answer_does(list);
        }
    }
    for (field, query) in [("mode", "mode=destroy"), ("status", "status=fine"), ("pr", "pr=0"), ("pr", "pr=%2B7")] {
        let answer = sent(world.get(&format!("{runs}?{query}")).bearer_auth(&key)).await;
        assert_eq!(answer.refuses(query, 400, "invalid")["details"]["field"], field);
    }
    assert_eq!(world.state().await, before);
}
