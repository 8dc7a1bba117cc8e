//! What a browser or a runner finds outside the API: pages, sign-in, OIDC, logs, artifacts.
//!
//! - `services`: id tokens, logs and artifacts of jobs. `oauth`: sign-in for apps, and registering one by manifest.
//! - `html`: escaping and the page around everything. `markdown`: comments as people see them.
//! - `overview`, `pulls`, `issues`, `runs`: the pages. `forms`: what their buttons do.
//!
//! There are no passwords: whoever opens a page picks whom to act as. Forms are plain POSTs and need no script.

mod forms;
mod html;
mod issues;
mod markdown;
mod oauth;
mod overview;
mod pulls;
mod runs;
mod services;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::hub::Hub;
use crate::rest::{RawRequest, parse_query};
use crate::state::accounts::Kind;

/// One request of a person: who they act as, where, with which form.
pub struct Visit {
    pub hub: Arc<Hub>,
    pub login: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub form: BTreeMap<String, String>,
}

/// The cookie that remembers whom a browser acts as.
const COOKIE: &str = "fake_github_user";

/// Answers one request. Blocks on git and on the engine, so it runs on a blocking thread.
pub fn serve(hub: &Arc<Hub>, request: RawRequest) -> Response<Body> {
    if let Some(answer) = services::serve(hub, &request) {
        return answer;
    }
    let visit = visit(hub, &request);
    let parts: Vec<&str> = visit.path.trim_matches('/').split('/').collect();
    if let Some(answer) = oauth::serve(&visit, &request, &parts) {
        return answer;
    }
    if request.method == "POST" {
        return match same_origin(hub, &request) {
            true => forms::serve(&visit, &parts),
            false => page(&visit, StatusCode::FORBIDDEN, "Refused", "<p>This form was sent from another site.</p>"),
        };
    }
    let found = match parts.as_slice() {
        [""] => Some(overview::home(&visit)),
        ["avatars", id] => return avatar(id),
        [owner, name] => overview::repository(&visit, &format!("{owner}/{name}")),
        [owner, name, "pulls"] => pulls::list(&visit, &format!("{owner}/{name}")),
        [owner, name, "pull", number] => pulls::pull(&visit, &format!("{owner}/{name}"), number),
        [owner, name, "issues"] => issues::list(&visit, &format!("{owner}/{name}")),
        [owner, name, "issues", number] => issues::issue(&visit, &format!("{owner}/{name}"), number),
        [owner, name, "actions"] => runs::list(&visit, &format!("{owner}/{name}")),
        [owner, name, "actions", "runs", id, ..] => runs::run(&visit, &format!("{owner}/{name}"), id),
        [owner, name, "runs", id] => pulls::check(&visit, &format!("{owner}/{name}"), id),
        [owner, name, "settings", "environments"] => overview::environments(&visit, &format!("{owner}/{name}")),
        _ => None,
    };
    match found {
        Some((title, body)) => page(&visit, StatusCode::OK, &title, &body),
        None => page(&visit, StatusCode::NOT_FOUND, "Not found", "<p>There is nothing here.</p>"),
    }
}

fn visit(hub: &Arc<Hub>, request: &RawRequest) -> Visit {
    let chosen = cookie(request).filter(|login| hub.lock().account(login).is_some());
    let form = match request.header("content-type") {
        Some(kind) if kind.starts_with("application/x-www-form-urlencoded") => {
            parse_query(&String::from_utf8_lossy(&request.body))
        }
        _ => BTreeMap::new(),
    };
    let path = percent_encoding::percent_decode_str(&request.path).decode_utf8_lossy().into_owned();
    let login = chosen.or_else(|| people(hub).into_iter().next()).unwrap_or_default();
    Visit { hub: hub.clone(), login, path, query: parse_query(&request.query), form }
}

fn cookie(request: &RawRequest) -> Option<String> {
    let pairs = request.header("cookie")?.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value.to_owned()).next()
}

/// A browser names the page a form came from; other programs name none.
fn same_origin(hub: &Hub, request: &RawRequest) -> bool {
    request.header("origin").is_none_or(|origin| origin == hub.base_url() || origin == "null")
}

/// Everyone a visitor may act as, by name.
fn people(hub: &Hub) -> Vec<String> {
    let state = hub.lock();
    state.accounts.values().filter(|account| account.kind == Kind::User).map(|account| account.login.clone()).collect()
}

fn page(visit: &Visit, status: StatusCode, title: &str, body: &str) -> Response<Body> {
    let text = html::page(visit, &people(&visit.hub), title, body);
    let mut response = answer(status, "text/html; charset=utf-8", text);
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; form-action *; frame-ancestors 'none'";
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

/// Back to a page after a form.
fn see_other(location: &str) -> Response<Body> {
    let mut response = answer(StatusCode::SEE_OTHER, "text/plain", "");
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn avatar(id: &str) -> Response<Body> {
    let hue = id.bytes().fold(0_u32, |hue, byte| (hue * 31 + u32::from(byte)) % 360);
    let svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40'><circle cx='20' cy='20' r='20' fill='hsl({hue} 60% 55%)'/></svg>"
    );
    answer(StatusCode::OK, "image/svg+xml", svg)
}

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn json(status: StatusCode, body: &Value) -> Response<Body> {
    answer(status, "application/json", body.to_string())
}
