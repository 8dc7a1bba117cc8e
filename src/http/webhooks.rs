//! `POST /webhooks/github`: verified, stored, acknowledged; worked off later (spec 20 §5.12).

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::Shared;
use super::call;
use super::errors::ApiError;
use crate::github::webhook::{self, Event};
use crate::store::Stored;

/// GitHub sends up to 25 MB; what we read of an event is far smaller.
pub const WEBHOOK_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Longest wait for the insert; GitHub waits for ten seconds itself.
const INSERT_MAX: Duration = Duration::from_secs(10);

pub async fn receive(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let body = call::read(&headers, body, WEBHOOK_BYTES_MAX).await?;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // Before headers and JSON: nothing unsigned is looked at.
    if !webhook::verify(&shared.webhook_secret, header("X-Hub-Signature-256"), &body) {
        return Err(ApiError::unauthorized("missing or wrong signature"));
    }
    let (Some(event), Some(delivery)) = (header("X-GitHub-Event"), header("X-GitHub-Delivery")) else {
        return Err(ApiError::invalid("X-GitHub-Event and X-GitHub-Delivery are required"));
    };
    let payload = String::from_utf8(body.into()).map_err(|_| ApiError::invalid("the body is not UTF-8"))?;
    // An event that is read is JSON; of any other, only that is known.
    let parsed = webhook::parse(event, &payload);
    let is_read = parsed.as_ref().is_ok_and(|event| !matches!(event, Event::Ping | Event::Other));
    if !is_read && serde_json::from_str::<serde::de::IgnoredAny>(&payload).is_err() {
        return Err(ApiError::invalid("the body is not JSON"));
    }
    match parsed {
        Ok(Event::Ping) => return Ok((StatusCode::OK, Json(json!({ "ok": true })))),
        // Signed and well formed, and there is nothing to keep it for.
        Ok(event) if event.is_for_nobody() => return Ok((StatusCode::ACCEPTED, Json(json!({ "queued": false })))),
        // What cannot be read is kept as a dead letter.
        Ok(_) | Err(_) => {}
    }
    let queued = store(&shared, delivery.to_owned(), event.to_owned(), payload).await? == Stored::Queued;
    Ok((StatusCode::ACCEPTED, Json(json!({ "queued": queued }))))
}

/// GitHub shows a delivery that could not be stored as failed, and it can be delivered again.
async fn store(shared: &Shared, delivery: String, event: String, payload: String) -> Result<Stored, ApiError> {
    let app = shared.app.clone();
    // A task of its own, so that GitHub's hanging up does not take the insert back.
    let insert = tokio::spawn(async move {
        let _arrival = app.bells.arrival();
        app.store.store_delivery(&delivery, &event, &payload, app.now()).await
    });
    match tokio::time::timeout(INSERT_MAX, insert).await {
        Ok(Ok(stored)) => stored.map_err(|error| ApiError::internal(&error)),
        Ok(Err(error)) => Err(ApiError::internal(&error)),
        Err(error) => Err(ApiError::internal(&error)),
    }
}
