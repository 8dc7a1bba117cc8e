//! Between jobs and server: every report reaches the server twice, the second time with a fresh token of the same job.
//!
//! A network that repeats a request would repeat its token too, and the server takes each token once; so the second one is
//! what a runner that asks again would send.

use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fake_github::Hub;

use super::relay::{client, nobody, pass, serve};

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
        let doubler = Arc::new(Self { server_url: server_url.to_owned(), hub, http: client() });
        serve(listener, Router::new().fallback(pass_on).with_state(doubler));
        Ok(address)
    }

    /// A new token of the job that this token is of.
    fn fresh_token(&self, authorization: &str) -> Option<HeaderValue> {
        let claims = authorization.strip_prefix("Bearer ")?.split('.').nth(1)?;
        let claims: serde_json::Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        let run_id: i64 = claims["run_id"].as_str()?.parse().ok()?;
        let check_run_id: i64 = claims["check_run_id"].as_str()?.parse().ok()?;
        let engine = self.hub.engine();
        let run = engine.run(run_id)?;
        let job = engine.jobs(run_id).into_iter().find(|job| job.check_run_id == check_run_id)?;
        let token = self.hub.id_token(&run, &job, claims["aud"].as_str()).ok()?;
        HeaderValue::try_from(format!("Bearer {token}")).ok()
    }
}

async fn pass_on(
    State(doubler): State<Arc<Doubler>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let send = async |headers: &HeaderMap| {
        pass(&doubler.http, &doubler.server_url, &method, &uri, headers, body.clone()).await
    };
    let answer = match send(&headers).await {
        Ok(answer) => answer,
        Err(error) => return nobody(&error.to_string()),
    };
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if method == Method::POST
        && let Some(again) = authorization.and_then(|authorization| doubler.fresh_token(authorization))
    {
        let mut headers = headers.clone();
        headers.insert(header::AUTHORIZATION, again);
        // Whatever comes of it: the job has its answer.
        let _ = send(&headers).await;
    }
    answer
}
