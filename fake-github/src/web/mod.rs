//! What a browser or a runner finds outside the API: pages, OIDC, logs, artifacts, sign-in.
//!
//! - `services`: id tokens, logs and artifacts of jobs.

mod services;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use serde_json::Value;

use crate::hub::Hub;
use crate::rest::RawRequest;

/// Answers one request. Blocks on git and on the engine, so it runs on a blocking thread.
pub fn serve(hub: &Arc<Hub>, request: RawRequest) -> Response<Body> {
    if let Some(answer) = services::serve(hub, &request) {
        return answer;
    }
    answer(StatusCode::NOT_FOUND, "text/plain", "Not Found")
}

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}

fn json(status: StatusCode, body: &Value) -> Response<Body> {
    answer(status, "application/json", body.to_string())
}
