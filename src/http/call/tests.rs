use axum::http::HeaderValue;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::*;

fn headers(kind: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !kind.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
    }
    headers
}

/// Status and body of a refusal.
async fn shown(refused: ApiError) -> (u16, Value) {
    let response = refused.into_response();
    let status = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap())
}

/// Field (empty for none) and message of a body's refusal.
async fn refusal<T: DeserializeOwned>(body: &str) -> (String, String) {
    let refused = parsed::<T>(&headers(""), body.as_bytes()).err().unwrap_or_else(|| panic!("taken: {body}"));
    let (status, shown) = shown(refused).await;
    assert_eq!((status, shown["code"].as_str()), (400, Some("invalid")), "{body}");
    let field = shown["details"]["field"].as_str().unwrap_or("").to_owned();
    (field, shown["message"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_field_that_is_missing_or_of_the_wrong_type_is_named() {
    let cases = [
        (refusal::<CreateRunRequest>(r#"{"repo": 5}"#).await, "repo", "expected a string"),
        (refusal::<CreateRunRequest>(r#"{"pr_number": "7"}"#).await, "pr_number", "expected i64"),
        (refusal::<CreateRunRequest>(r#"{"mode": "destroy"}"#).await, "mode", "destroy"),
        (refusal::<CreateRunRequest>(r#"{"run_id": "latest"}"#).await, "run_id", "latest"),
        (refusal::<CreateRunRequest>(r#"{"stacks": ["a", 5]}"#).await, "stacks[1]", "expected a string"),
        (refusal::<StackResult>(r#"{"mode": "plan"}"#).await, "status", "is required"),
        (refusal::<StackResult>(r#"{"mode": "plan", "status": "fine"}"#).await, "status", "fine"),
        (refusal::<CheckVerdict>(r#"{"status": "maybe"}"#).await, "status", "maybe"),
        (refusal::<GraphUploadRequest>(r#"{"graph": {"stacks": [{}]}}"#).await, "graph.stacks[0].key", "is required"),
        (refusal::<ClaimRequest>(r#"{"sha": "", "workflow_run_attempt": -1}"#).await, "workflow_run_attempt", "u32"),
    ];
    for ((field, message), wanted, reason) in cases {
        assert_eq!(field, wanted, "{message}");
        assert!(message.starts_with(&format!("{wanted}: ")) && message.contains(reason), "{message}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_one_object_is_refused_without_repeating_it() {
    let (deep, deep_within) = ("[".repeat(100_000), format!(r#"{{"later": {}"#, "[".repeat(100_000)));
    let cases = [
        ("", "takes a JSON body"),
        (" \n", "takes a JSON body"),
        ("sha=1", "must be a JSON object"),
        ("[]", "must be a JSON object"),
        (r#"{"repo": "#, "not JSON"),
        (deep.as_str(), "must be a JSON object"),
        (deep_within.as_str(), "not JSON"),
        (r#"{"repo": "a/b", "repo": "hunter2"}"#, "duplicate field"),
        (r#""hunter2""#, "must be a JSON object"),
        ("null", "must be a JSON object"),
        (r#"{"repo": "a/b"} {}"#, "exactly one JSON value"),
        (r#"{"repo": "a/b"},"#, "exactly one JSON value"),
    ];
    for (body, reason) in cases {
        let (field, message) = refusal::<CreateRunRequest>(body).await;
        assert_eq!(field, "", "{message}");
        assert!(message.contains(reason) && !message.contains("hunter2"), "{message}");
    }
}

#[tokio::test]
async fn any_kind_of_json_is_json_and_nothing_else_is() {
    let body = br#"{"repo": "acme/infra"}"#;
    for kind in ["", "application/json", "Application/JSON; charset=utf-8", "application/vnd.stackorder.v1+json"] {
        assert!(parsed::<CreateRunRequest>(&headers(kind), body).is_ok(), "{kind}");
    }
    for kind in ["text/plain", "text/json", "application/x-www-form-urlencoded", "json", ";"] {
        let refused = parsed::<CreateRunRequest>(&headers(kind), body).err().unwrap_or_else(|| panic!("taken: {kind}"));
        assert_eq!(shown(refused).await.0, 400, "{kind}");
    }
}

#[tokio::test]
async fn unknown_fields_are_ignored() {
    let body = br#"{"repo": "acme/infra", "of_a_later_version": {"deep": [1]}}"#;
    assert_eq!(parsed::<CreateRunRequest>(&headers(""), body).ok().unwrap().repo, "acme/infra");
}

#[tokio::test]
async fn an_empty_mode_trigger_or_run_is_none() {
    let body = br#"{"mode": "", "trigger": null, "run_id": ""}"#;
    let request = parsed::<CreateRunRequest>(&headers(""), body).ok().unwrap();
    assert_eq!((request.mode, request.trigger, request.run_id), (None, None, None));
}

#[tokio::test]
async fn a_body_over_the_limit_is_told_its_size_and_the_limit() {
    let mut announced = HeaderMap::new();
    announced.insert(header::CONTENT_LENGTH, HeaderValue::from_static("11"));
    assert_eq!(read(&announced, Body::from("0123456789"), 10).await.unwrap().len(), 10);
    for (headers, size) in [(announced, "11"), (HeaderMap::new(), "more than 10")] {
        let refused = read(&headers, Body::from("0123456789+"), 10).await.unwrap_err();
        let message = format!("the body has {size} bytes, and this route takes at most 10");
        assert_eq!(shown(refused).await, (413, json!({ "code": "invalid", "message": message })));
    }
}
