//! What jobs and API keys call under `/v1` (spec 20 §5.1–§5.5, §5.8).

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State as Extract};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::errors::ApiError;
use super::{Shared, auth};
use crate::ids::{RunId, StackKey};

type Body = Result<Bytes, BytesRejection>;
type Shares = Extract<std::sync::Arc<Shared>>;

pub async fn create(Extract(shared): Shares, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = auth::caller(&shared, &headers).await?;
    let (answer, created) = shared.app.create_run(&caller, &json(&headers, body)?).await?;
    Ok(answered(if created { StatusCode::CREATED } else { StatusCode::OK }, answer))
}

pub async fn read(Extract(shared): Shares, Path(id): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = auth::caller(&shared, &headers).await?;
    Ok(answered(StatusCode::OK, shared.app.read_run(&caller, &run_id(&id)?).await?))
}

pub async fn graph(
    Extract(shared): Shares,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = auth::caller(&shared, &headers).await?;
    let request = json(&headers, body)?;
    Ok(answered(StatusCode::OK, shared.app.upload_graph(&caller, &run_id(&id)?, request).await?))
}

pub async fn result(
    Extract(shared): Shares,
    Path((id, key)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = auth::caller(&shared, &headers).await?;
    let request = json(&headers, body)?;
    let answer = shared.app.report_result(&caller, &run_id(&id)?, &stack_key(&key)?, &request).await?;
    Ok(answered(StatusCode::OK, answer))
}

pub async fn claim(
    Extract(shared): Shares,
    Path((id, key)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = auth::caller(&shared, &headers).await?;
    let request = json(&headers, body)?;
    let answer = shared.app.claim(&caller, &run_id(&id)?, &stack_key(&key)?, &request).await?;
    Ok(answered(StatusCode::OK, answer))
}

pub async fn verdict(
    Extract(shared): Shares,
    Path((id, key, name)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = auth::caller(&shared, &headers).await?;
    let request = json(&headers, body)?;
    let answer = shared.app.report_verdict(&caller, &run_id(&id)?, &stack_key(&key)?, &name, &request).await?;
    Ok(answered(StatusCode::OK, answer))
}

pub async fn unlock(Extract(shared): Shares, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let key = auth::key(&shared, &headers).await?;
    Ok(answered(StatusCode::OK, shared.app.unlock(&key, &json(&headers, body)?).await?))
}

/// Exactly one JSON value, of the right type, within the route's limit.
fn json<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, ApiError> {
    let body = body.map_err(|rejected| match rejected.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large("the body is larger than this route takes"),
        _ => ApiError::invalid("the body could not be read"),
    })?;
    if let Some(kind) = headers.get(header::CONTENT_TYPE) {
        let kind = kind.to_str().unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        if kind != "application/json" && !(kind.starts_with("application/") && kind.ends_with("+json")) {
            return Err(ApiError::invalid(format!("the body must be JSON, not {kind:?}")));
        }
    }
    serde_json::from_slice(&body)
        .map_err(|error| ApiError::invalid(format!("the body is not what this route takes: {error}")))
}

/// A path id that is no UUID names nothing.
fn run_id(text: &str) -> Result<RunId, ApiError> {
    RunId::parse(text).map_err(|_| ApiError::not_found("no such run"))
}

fn stack_key(text: &str) -> Result<StackKey, ApiError> {
    StackKey::parse(text).map_err(|_| ApiError::not_found("no such stack"))
}

pub(super) fn answered(status: StatusCode, body: impl Serialize) -> Response {
    let mut response = (status, Json(body)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
