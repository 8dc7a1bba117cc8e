//! `/healthz`: the process answers; `/readyz`: the database does.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::Shared;
use super::errors::ApiError;

/// Longest wait for the database.
const PROBE_MAX: Duration = Duration::from_secs(2);

pub async fn healthz() -> Json<Value> {
    Json(body())
}

pub async fn readyz(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, ApiError> {
    match tokio::time::timeout(PROBE_MAX, shared.app.store.ping()).await {
        Ok(Ok(())) => Ok(Json(body())),
        Ok(Err(_)) | Err(_) => Err(ApiError::unavailable("the database does not answer")),
    }
}

fn body() -> Value {
    json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") })
}
