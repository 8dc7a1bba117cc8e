//! The HTTP lines: from the world to whichever server is up, and from each server to GitHub.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::response::Response;

use super::database_line::Verdict;
use super::gunner::{Gunner, Moment};
use super::servers::Server;

/// The largest body that is passed on.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What belongs to one connection and not to the message.
const HOP_BY_HOP: [HeaderName; 4] =
    [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// A load balancer in front of the servers: each request goes to the next one, and to the other when nobody listens there.
pub struct Front {
    servers: Vec<Arc<Server>>,
    next: AtomicUsize,
    http: reqwest::Client,
}

impl Front {
    /// Listens on an address that was bound before the servers were told of it.
    pub fn open(listener: tokio::net::TcpListener, servers: Vec<Arc<Server>>) {
        let front = Arc::new(Self { servers, next: AtomicUsize::new(0), http: client() });
        serve(listener, Router::new().fallback(to_a_server).with_state(front));
    }
}

async fn to_a_server(
    State(front): State<Arc<Front>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut why = String::new();
    let first = front.next.fetch_add(1, Ordering::Relaxed);
    for turn in 0..front.servers.len() {
        let server = &front.servers[(first + turn) % front.servers.len()];
        match pass(&front.http, &server.url, &method, &uri, &headers, body.clone()).await {
            Ok(answer) => return answer,
            // Nothing was sent: the next one may have it. Otherwise nobody knows what happened, as with any balancer.
            Err(error) if error.is_connect() => why = error.to_string(),
            Err(error) => return nobody(&format!("{error:?}")),
        }
    }
    nobody(&why)
}

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

/// The same request to somebody else.
pub async fn pass(
    http: &reqwest::Client,
    base: &str,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Response, reqwest::Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = http.request(method.clone(), format!("{base}{path}")).body(body);
    for (name, value) in headers.iter().filter(|(name, _)| !HOP_BY_HOP.contains(name)) {
        request = request.header(name, value);
    }
    let answer = request.send().await?;
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers().iter().filter(|(name, _)| !HOP_BY_HOP.contains(name)) {
        response = response.header(name, value);
    }
    Ok(response.body(Body::from(answer.bytes().await?)).expect("parts of a valid answer"))
}

pub fn nobody(why: &str) -> Response {
    let mut gone = Response::new(Body::from(format!("nobody answers: {why}")));
    *gone.status_mut() = StatusCode::BAD_GATEWAY;
    gone
}

/// Connections are not kept: one to a server that died would be found out by the next request only.
pub fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap()
}

pub fn serve(listener: tokio::net::TcpListener, router: Router) {
    let router = router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    tokio::spawn(async move { axum::serve(listener, router).await });
}
