//! `POST /webhooks/github`: verified, stored, acknowledged; worked off later (spec 20 §5.12).

use axum::Json;
use axum::body::Bytes;
use axum::extract::State as Extract;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::Shared;
use super::errors::ApiError;
use crate::github::webhook;
use crate::store::Stored;

/// GitHub sends up to 25 MB; what we read of an event is far smaller.
pub const WEBHOOK_BYTES_MAX: usize = 5 * 1024 * 1024;

pub async fn receive(
    Extract(shared): Extract<std::sync::Arc<Shared>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let body = body.map_err(|rejected| match rejected.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large("a delivery may have 5 MiB"),
        _ => ApiError::invalid("the body could not be read"),
    })?;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // Before headers and JSON: nothing unsigned is looked at.
    if !webhook::verify(&shared.webhook_secret, header("X-Hub-Signature-256"), &body) {
        return Err(ApiError::unauthorized("missing or wrong signature"));
    }
    let (Some(event), Some(delivery)) = (header("X-GitHub-Event"), header("X-GitHub-Delivery")) else {
        return Err(ApiError::invalid("X-GitHub-Event and X-GitHub-Delivery are required"));
    };
    let payload = std::str::from_utf8(&body).map_err(|_| ApiError::invalid("the body is not UTF-8"))?;
    if serde_json::from_str::<serde::de::IgnoredAny>(payload).is_err() {
        return Err(ApiError::invalid("the body is not JSON"));
    }
    if event == "ping" {
        return Ok((StatusCode::OK, Json(json!({ "ok": true }))).into_response());
    }
    let app = &shared.app;
    let stored = app.store.store_delivery(delivery, event, payload, app.now()).await;
    // GitHub shows a failed delivery, which can then be redelivered.
    let queued = stored.map_err(|error| ApiError::internal(&error))? == Stored::Queued;
    app.wake.notify_waiters();
    Ok((StatusCode::ACCEPTED, Json(json!({ "queued": queued }))).into_response())
}

pub async fn wrong_method() -> ApiError {
    ApiError::method_not_allowed("webhooks are posted")
}
