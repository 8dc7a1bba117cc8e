//! The REST API below `/api/v3`: one file per resource, each a `match` over method and path.
//!
//! - `call`: one request, who makes it, and what it may do. `reply`: answers and refusals. `paging`: lists.
//! - `meta`, `apps`, `accounts`, `repositories`, `settings`, `contents`, `git_data`, `commits`, `pulls`, `issues`,
//!   `checks`, `actions`, `deployments`: the routes.

mod accounts;
mod actions;
mod apps;
mod call;
mod checks;
mod commits;
mod contents;
mod deployments;
mod git_data;
mod issues;
mod meta;
mod paging;
mod pulls;
mod reply;
mod repositories;
mod settings;

pub use call::{Call, RawRequest, parse_query};
pub use reply::{Refusal, Reply};

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::auth::Caller;
use crate::hub::Hub;

/// A request that no route answers: a gap in the fake, or a mistake of its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnexpectedRequest {
    pub method: String,
    pub path: String,
}

type Answer = Result<Reply, Refusal>;
/// `None`: not a path of this resource.
type Route = fn(&Call) -> Option<Answer>;

const ROUTES: [Route; 13] = [
    meta::route,
    apps::route,
    accounts::route,
    repositories::route,
    settings::route,
    contents::route,
    git_data::route,
    commits::route,
    pulls::route,
    issues::route,
    checks::route,
    actions::route,
    deployments::route,
];

/// Answers one request. Blocks on git and on the engine, so it runs on a blocking thread.
pub fn serve(hub: &Arc<Hub>, raw: RawRequest) -> Response<Body> {
    let (method, path) = (raw.method.clone(), raw.path.clone());
    let sent = raw.body.clone();
    let if_none_match = raw.header("if-none-match").map(str::to_owned);
    let fault = hub.faults().rest(&method, &path);
    let mut reply = match fault.as_ref().filter(|fault| !fault.after_acting) {
        Some(fault) => Refusal::new(fault.status, "Server Error").into(),
        None if hub.faults().is_rate_limited() => Refusal::rate_limited(hub.now_ms()).into(),
        None => answer(hub, raw),
    };
    if let Some(fault) = fault.filter(|fault| fault.after_acting) {
        reply = Refusal::new(fault.status, "Server Error").into();
    }
    let reply = with_etag(reply, &method, if_none_match.as_deref());
    hub.journal.write(
        hub.now_ms(),
        "rest",
        json!({
            "method": method, "path": path, "status": reply.status,
            "request": serde_json::from_slice::<Value>(&sent).unwrap_or(Value::Null), "response": logged(&reply),
        }),
    );
    respond(hub, reply)
}

fn answer(hub: &Arc<Hub>, raw: RawRequest) -> Reply {
    let call = match Call::read(hub, raw) {
        Ok(call) => call,
        Err(refusal) => return refusal.into(),
    };
    for route in ROUTES {
        if let Some(answer) = route(&call) {
            return answer.unwrap_or_else(Reply::from);
        }
    }
    let unexpected = UnexpectedRequest { method: call.method.clone(), path: call.path.clone() };
    hub.unexpected.lock().expect("no panic while recording requests").push(unexpected);
    Refusal::not_found().into()
}

/// A list or object that did not change costs nothing to read again.
fn with_etag(mut reply: Reply, method: &str, if_none_match: Option<&str>) -> Reply {
    if method != "GET" || reply.status != 200 {
        return reply;
    }
    let Some(body) = &reply.body else { return reply };
    let digest = Sha256::digest(body.to_string().as_bytes());
    let tag: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("W/\"{tag}\"");
    if if_none_match.is_some_and(|known| known.split(',').any(|one| one.trim() == tag)) {
        reply.status = 304;
        reply.body = None;
    }
    reply.headers.push(("etag".to_owned(), tag));
    reply
}

/// Tokens stay out of the journal.
fn logged(reply: &Reply) -> Value {
    let mut body = reply.body.clone().unwrap_or(Value::Null);
    for secret in ["token", "access_token", "client_secret", "pem", "webhook_secret", "refresh_token"] {
        if body.get(secret).is_some_and(Value::is_string) {
            body[secret] = json!("***");
        }
    }
    body
}

fn respond(hub: &Hub, reply: Reply) -> Response<Body> {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = match (reply.raw, reply.body) {
        (Some(raw), _) => Body::from(raw),
        (None, Some(body)) => Body::from(body.to_string()),
        (None, None) => Body::empty(),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let reset = hub.now_ms().div_euclid(3_600_000) * 3600 + 3600;
    let standing = [
        ("date", http_date(hub.now_ms())),
        ("content-type", "application/json; charset=utf-8".to_owned()),
        ("x-github-api-version-selected", "2022-11-28".to_owned()),
        ("x-github-media-type", "github.v3; format=json".to_owned()),
        ("x-ratelimit-limit", "5000".to_owned()),
        ("x-ratelimit-remaining", "4999".to_owned()),
        ("x-ratelimit-used", "1".to_owned()),
        ("x-ratelimit-reset", reset.to_string()),
        ("x-ratelimit-resource", "core".to_owned()),
        ("x-github-request-id", uuid::Uuid::new_v4().simple().to_string()),
    ];
    let standing = standing.into_iter().map(|(name, value)| (name.to_owned(), value));
    for (name, value) in standing.chain(reply.headers) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// `Mon, 30 Nov 2026 10:49:39 GMT`, by the fake's own clock.
fn http_date(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default();
    at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// The app that a call is made through, for `performed_via_github_app`.
fn app_of(caller: &Caller) -> Option<i64> {
    match caller {
        Caller::App(app) | Caller::Installation { app, .. } => Some(*app),
        Caller::Job { .. } => Some(crate::state::apps::ACTIONS_APP),
        Caller::User { app, .. } => *app,
        Caller::Anonymous => None,
    }
}
