//! In front of several servers: each request goes to the next one, and to another when nobody listens there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::response::Response;

/// The largest body that is passed on.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What belongs to one connection and not to the message.
const HOP_BY_HOP: [HeaderName; 4] =
    [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

pub struct Balancer {
    /// `http://127.0.0.1:PORT` of each.
    servers: Vec<String>,
    next: AtomicUsize,
    http: reqwest::Client,
}

impl Balancer {
    /// Serves for as long as the runtime lives.
    pub fn open(listener: tokio::net::TcpListener, servers: Vec<String>) {
        let balancer = Arc::new(Self { servers, next: AtomicUsize::new(0), http: client() });
        serve(listener, Router::new().fallback(to_a_server).with_state(balancer));
    }
}

async fn to_a_server(
    State(balancer): State<Arc<Balancer>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut why = String::new();
    let first = balancer.next.fetch_add(1, Ordering::Relaxed);
    for turn in 0..balancer.servers.len() {
        let server = &balancer.servers[(first + turn) % balancer.servers.len()];
        match pass(&balancer.http, server, &method, &uri, &headers, body.clone()).await {
            Ok(answer) => return answer,
            // Nothing was sent: the next one may have it. Otherwise nobody knows what happened, as with any balancer.
            Err(error) if error.is_connect() => why = error.to_string(),
            Err(error) => return nobody(&format!("{error:?}")),
        }
    }
    nobody(&why)
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
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut response = Response::new(Body::from(answer.bytes().await?));
    *response.status_mut() = status;
    for (name, value) in headers.iter().filter(|(name, _)| !HOP_BY_HOP.contains(name)) {
        response.headers_mut().append(name, value.clone());
    }
    Ok(response)
}

/// What a balancer answers when it has no answer.
pub fn nobody(why: &str) -> Response {
    let mut gone = Response::new(Body::from(format!("nobody answers: {why}")));
    *gone.status_mut() = StatusCode::BAD_GATEWAY;
    gone
}

/// Connections are not kept: one to a server that died would be found out by the next request only.
pub fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .build()
        .expect("nothing that can fail was asked for")
}

pub fn serve(listener: tokio::net::TcpListener, router: Router) {
    let router = router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    tokio::spawn(async move { axum::serve(listener, router).await });
}
