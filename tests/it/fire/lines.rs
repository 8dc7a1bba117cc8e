//! From each server to GitHub: a line that sees what was asked for.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::Response;
use stackorder::demo::relay::{client, nobody, pass, serve};

use super::database_line::Verdict;
use super::gunner::{Gunner, Moment};

/// From one server to GitHub.
pub struct GitHubLine {
    /// `http://127.0.0.1:PORT` of GitHub, and of this line, which its answers name instead.
    github: String,
    own: String,
    gunner: Arc<Gunner>,
    server: usize,
    http: reqwest::Client,
}

impl GitHubLine {
    /// Listens on loopback for as long as the runtime lives. Returns its address.
    pub async fn open(github: &str, gunner: Arc<Gunner>, server: usize) -> String {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let own = format!("http://{}", listener.local_addr().unwrap());
        let line = Self { github: github.to_owned(), own: own.clone(), gunner, server, http: client() };
        serve(listener, Router::new().fallback(to_github).with_state(Arc::new(line)));
        own
    }
}

async fn to_github(
    State(line): State<Arc<GitHubLine>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let answer = match pass(&line.http, &line.github, &method, &uri, &headers, body).await {
        Ok(answer) => answer,
        Err(error) => return nobody(&error.to_string()),
    };
    let answer = with_links_to(answer, &line.github, &line.own);
    if answer.status().is_success()
        && let Some(effect) = effect_of(&method, uri.path())
        && line.gunner.at(line.server, effect).await == Verdict::Cut
    {
        return nobody("the connection was cut");
    }
    answer
}

/// Pages of a list are named by address, and only the line's own may be asked.
pub fn with_links_to(mut answer: Response, github: &str, own: &str) -> Response {
    if let Some(link) = answer.headers().get(header::LINK).and_then(|link| link.to_str().ok()) {
        let link = link.replace(github, own).parse().expect("an address for an address");
        answer.headers_mut().insert(header::LINK, link);
    }
    answer
}

/// What a job of the outbox is for. Tokens are asked for by the way.
fn effect_of(method: &Method, path: &str) -> Option<Moment> {
    let writes = [Method::POST, Method::PATCH, Method::PUT, Method::DELETE].contains(method);
    if !writes || path.ends_with("/access_tokens") {
        return None;
    }
    let is_dispatch = path.ends_with("/dispatches");
    Some(if is_dispatch {
        Moment::AfterDispatchBeforeAcknowledgement
    } else {
        Moment::AfterWritingBeforeAcknowledgement
    })
}
