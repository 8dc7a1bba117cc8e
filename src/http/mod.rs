//! The JSON API and the webhook receiver (spec 20): routing, callers, errors. Handlers of ten lines.
//!
//! - `auth`: tokens and keys to callers.
//! - `errors`: every refusal as status, code and body.
//! - `runs`: what jobs and keys call; `lists`: what keys read.
//! - `webhooks`: store, then acknowledge.
//! - `health`: `/healthz` and `/readyz`.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use secrecy::SecretString;
use tower_http::catch_panic::CatchPanicLayer;

use crate::api::{BODY_BYTES_MAX, GRAPH_BYTES_MAX, RESULT_BYTES_MAX};
use crate::github::oidc::OidcVerifier;
use crate::orchestrator::App;

mod auth;
pub mod errors;
mod health;
pub(crate) mod lists;
mod runs;
mod webhooks;

/// What every handler reaches.
pub struct Shared {
    pub app: Arc<App>,
    pub oidc: OidcVerifier,
    pub webhook_secret: SecretString,
}

pub type State = axum::extract::State<Arc<Shared>>;

/// All routes but the pages.
pub fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/runs", post(runs::create))
        .route("/v1/runs/{id}", get(runs::read))
        .route("/v1/runs/{id}/graph", post(runs::graph).layer(DefaultBodyLimit::max(GRAPH_BYTES_MAX)))
        .route("/v1/runs/{id}/stacks/{key}/result", post(runs::result).layer(DefaultBodyLimit::max(RESULT_BYTES_MAX)))
        .route("/v1/runs/{id}/stacks/{key}/claim", post(runs::claim))
        .route("/v1/runs/{id}/stacks/{key}/checks/{name}", post(runs::verdict))
        .route("/v1/unlock", post(runs::unlock))
        .route("/v1/repos/{owner}/{repo}/runs", get(lists::runs))
        .route("/v1/repos/{owner}/{repo}/stacks", get(lists::stacks))
        .route("/v1/audit", get(lists::audit))
        .route("/v1/{*rest}", axum::routing::any(unknown))
        .route(
            "/webhooks/github",
            post(webhooks::receive)
                .fallback(webhooks::wrong_method)
                .layer(DefaultBodyLimit::max(webhooks::WEBHOOK_BYTES_MAX)),
        )
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(CatchPanicLayer::custom(errors::panicked))
        .with_state(shared)
}

async fn unknown() -> errors::ApiError {
    errors::ApiError::not_found("no such route")
}
