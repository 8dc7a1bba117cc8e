//! The JSON API and the webhook receiver (spec 20): routing, callers, errors. Handlers of ten lines.
//!
//! - `call`: from a request to caller, path, body and query; `auth`: tokens and keys to callers.
//! - `errors`: every refusal as status, code and body.
//! - `runs`: what jobs and keys call; `lists`, `audit`: what keys read; `keys`: keys that make keys.
//! - `webhooks`: store, then acknowledge.
//! - `health`: `/healthz` and `/readyz`.
//! - `request_id`, `headers`: what every answer carries, the pages' too.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::middleware::{from_fn, map_response};
use axum::routing::{any, delete, get, post};
use secrecy::SecretString;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use crate::github::oidc::OidcVerifier;
use crate::orchestrator::App;

pub(crate) mod audit;
mod auth;
mod call;
pub mod errors;
pub(crate) mod headers;
mod health;
mod keys;
pub(crate) mod lists;
mod request_id;
mod runs;
mod webhooks;

#[cfg(test)]
mod tests;

/// What every handler reaches.
pub struct Shared {
    pub app: Arc<App>,
    pub oidc: OidcVerifier,
    pub webhook_secret: SecretString,
}

/// All routes but the pages.
pub fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/runs", post(runs::create))
        .route("/v1/runs/{id}", get(runs::read))
        .route("/v1/runs/{id}/graph", post(runs::graph))
        .route("/v1/runs/{id}/rerun", post(runs::rerun))
        .route("/v1/runs/{id}/apply", post(runs::apply))
        .route("/v1/runs/{id}/stacks/{key}/result", post(runs::result))
        .route("/v1/runs/{id}/stacks/{key}/claim", post(runs::claim))
        .route("/v1/runs/{id}/stacks/{key}/checks/{name}", post(runs::verdict))
        .route("/v1/unlock", post(runs::unlock))
        .route("/v1/repos/{owner}/{repo}/runs", get(lists::runs))
        .route("/v1/repos/{owner}/{repo}/stacks", get(lists::stacks))
        .route("/v1/audit", get(audit::show))
        .route("/v1/keys", get(keys::list).post(keys::create))
        .route("/v1/keys/{name}", delete(keys::revoke))
        .route("/webhooks/github", post(webhooks::receive))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .method_not_allowed_fallback(wrong_method)
        .route("/v1/", any(unknown))
        .route("/v1/{*rest}", any(unknown))
        .route("/auth/", any(unknown))
        .route("/auth/{*rest}", any(unknown))
        .layer(CatchPanicLayer::custom(errors::panicked))
        .layer(map_response(headers::secured))
        .with_state(shared)
}

/// Puts around all routes what holds for each: a name for the request, and https for good once it was https.
pub fn around(routes: Router, base_url: &str) -> Router {
    let strict = base_url.starts_with("https://").then_some(headers::STRICT_TRANSPORT);
    routes
        .layer(SetResponseHeaderLayer::overriding(header::STRICT_TRANSPORT_SECURITY, strict))
        .layer(from_fn(request_id::identify))
}

async fn unknown() -> errors::ApiError {
    errors::ApiError::not_found("no such route")
}

/// `Allow` is the router's to say.
async fn wrong_method() -> errors::ApiError {
    errors::ApiError::method_not_allowed("this route takes other methods, named in Allow")
}
