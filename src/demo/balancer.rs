//! In front of several servers: each request goes to the next one, and to another when nobody listens there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;

use super::relay::{client, nobody, pass, serve};

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
