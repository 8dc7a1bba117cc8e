//! What GitHub's own services answer: issuer metadata, id tokens of jobs, logs, artifact archives.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::json;

use crate::hub::Hub;
use crate::oidc;
use crate::rest::{RawRequest, parse_query};
use crate::state::apps::Grant;

use super::{answer, json};

pub fn serve(hub: &Hub, request: &RawRequest) -> Option<Response<Body>> {
    let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    Some(match parts.as_slice() {
        ["_services", "token", ".well-known", "openid-configuration"] => {
            json(StatusCode::OK, &oidc::discovery(&hub.oidc_issuer()))
        }
        ["_services", "token", ".well-known", "jwks"] => json(StatusCode::OK, &oidc::jwks()),
        ["_services", "id-token", run, job] => id_token(hub, request, run, job),
        ["_services", "logs", job] => logs(hub, job),
        ["_services", "artifacts", id] => artifact(hub, id),
        _ => return None,
    })
}

fn id_token(hub: &Hub, request: &RawRequest, run: &str, job: &str) -> Response<Body> {
    let refused = |status, message: &str| json(status, &json!({"message": message}));
    let bearer = request.header("authorization").and_then(|value| value.split_once(' ')).map(|(_, token)| token.trim());
    let grant = bearer.and_then(|token| hub.lock().tokens.get(token).cloned());
    let Some(Grant::IdToken { job: granted_job, run: granted_run }) = grant else {
        return refused(StatusCode::UNAUTHORIZED, "Bad credentials");
    };
    if job != granted_job.to_string() || run != granted_run.to_string() {
        return refused(StatusCode::FORBIDDEN, "The token belongs to another job");
    }
    let Some((run, job)) = hub.engine().run(granted_run).zip(hub.engine().job(granted_job)) else {
        return refused(StatusCode::NOT_FOUND, "The job is gone");
    };
    let query = parse_query(&request.query);
    match hub.id_token(&run, &job, query.get("audience").map(String::as_str)) {
        Ok(token) => json(StatusCode::OK, &json!({"count": token.len(), "value": token})),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error:#}")),
    }
}

fn logs(hub: &Hub, job: &str) -> Response<Body> {
    match job.parse().ok().and_then(|job| hub.engine().job(job)) {
        Some(job) => answer(StatusCode::OK, "text/plain; charset=utf-8", hub.engine().logs(job.id)),
        None => answer(StatusCode::NOT_FOUND, "text/plain", "Not Found"),
    }
}

fn artifact(hub: &Hub, id: &str) -> Response<Body> {
    match id.parse().ok().and_then(|id| hub.engine().artifact_archive(id)) {
        Some(bytes) => answer(StatusCode::OK, "application/zip", bytes),
        None => answer(StatusCode::NOT_FOUND, "text/plain", "Not Found"),
    }
}
