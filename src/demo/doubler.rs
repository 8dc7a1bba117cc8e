//! Between jobs and server: every report reaches the server twice, the second time with a fresh token of the same job.
//!
//! A network that repeats a request would repeat its token too, and the server takes each token once; so the second one is
//! what a runner that asks again would send.

use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fake_github::Hub;

/// The largest body that is passed on: a graph.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

pub struct Doubler {
    server_url: String,
    hub: Arc<Hub>,
    http: reqwest::Client,
}

impl Doubler {
    /// Listens on loopback for as long as the process lives. Returns its address.
    pub async fn start(server_url: &str, hub: Arc<Hub>) -> anyhow::Result<String> {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on loopback")?;
        let address = format!("http://{}", listener.local_addr()?);
        let http = reqwest::Client::builder().no_proxy().build()?;
        let doubler = Arc::new(Self { server_url: server_url.to_owned(), hub, http });
        let router = Router::new()
            .fallback(pass_on)
            .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(doubler);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(address)
    }

    async fn send(
        &self,
        method: &Method,
        uri: &Uri,
        authorization: Option<&str>,
        body: Bytes,
    ) -> Option<(StatusCode, Bytes)> {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.server_url)).body(body);
        request = request.header(header::CONTENT_TYPE, "application/json");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let answer = request.send().await.ok()?;
        Some((answer.status(), answer.bytes().await.ok()?))
    }

    /// A new token of the job that this token is of.
    fn fresh_token(&self, authorization: &str) -> Option<String> {
        let claims = authorization.strip_prefix("Bearer ")?.split('.').nth(1)?;
        let claims: serde_json::Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        let run_id: i64 = claims["run_id"].as_str()?.parse().ok()?;
        let check_run_id: i64 = claims["check_run_id"].as_str()?.parse().ok()?;
        let engine = self.hub.engine();
        let run = engine.run(run_id)?;
        let job = engine.jobs(run_id).into_iter().find(|job| job.check_run_id == check_run_id)?;
        let token = self.hub.id_token(&run, &job, claims["aud"].as_str()).ok()?;
        Some(format!("Bearer {token}"))
    }
}

async fn pass_on(
    State(doubler): State<Arc<Doubler>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((status, answer)) = doubler.send(&method, &uri, authorization, body.clone()).await else {
        let mut gone = Response::new(Body::from("the server does not answer"));
        *gone.status_mut() = StatusCode::BAD_GATEWAY;
        return gone;
    };
    if method == Method::POST
        && let Some(again) = authorization.and_then(|authorization| doubler.fresh_token(authorization))
    {
        doubler.send(&method, &uri, Some(&again), body).await;
    }
    let mut response = Response::new(Body::from(answer));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
