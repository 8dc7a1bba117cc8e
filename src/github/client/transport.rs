//! One attempt of one call: octocrab on top, our own HTTP client below.
//!
//! Octocrab's default stack follows redirects of every method, retries by its own rules and adds its own `User-Agent`.
//! So it is given a service that does none of this, and `client` decides about each answer.

use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, IF_NONE_MATCH, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use octocrab::{AuthState, OctoBody, Octocrab, OctocrabBuilder};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use super::call::Call;
use crate::causes::chain;

/// Longest that one attempt may take, answer included.
const ATTEMPT_MAX: Duration = Duration::from_secs(30);
/// Largest answer that is read: a recursive tree of 100,000 entries is about a quarter of it.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

const API_VERSION: &str = "2022-11-28";

/// A complete answer, of any status.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    Network(String),
    TooLarge,
}

pub(super) struct Transport {
    octocrab: Octocrab,
    user_agent: HeaderValue,
}

impl Transport {
    /// Must be called within a Tokio runtime: octocrab starts a task for its queue.
    pub fn new(user_agent: HeaderValue) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        let service = tower::service_fn(move |request: Request<OctoBody>| {
            let http = http.clone();
            async move {
                let request = reqwest::Request::try_from(request.map(reqwest::Body::wrap))?;
                let answer: Response<reqwest::Body> = http.execute(request).await?.into();
                Ok::<_, reqwest::Error>(answer)
            }
        });
        let built = OctocrabBuilder::new_empty().with_service(service).with_auth(AuthState::None).build();
        let octocrab = match built {
            Ok(octocrab) => octocrab,
            Err(never) => match never {},
        };
        Ok(Self { octocrab, user_agent })
    }

    /// Sends the call once, to `url`, which is the call's own or one that GitHub redirected to.
    pub async fn attempt(
        &self,
        call: &Call,
        url: &Url,
        token: &SecretString,
        etag: Option<&HeaderValue>,
    ) -> Result<Answer, NoAnswer> {
        let request = self.request(call, url, token, etag)?;
        let exchange = async {
            let answer = self.octocrab.execute(request).await.map_err(|error| NoAnswer::Network(chain(&error)))?;
            let (head, body) = answer.into_parts();
            let body = read(Body::new(body)).await?;
            Ok(Answer { status: head.status, headers: head.headers, body })
        };
        match tokio::time::timeout(ATTEMPT_MAX, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err(NoAnswer::Network(format!("no answer within {} s", ATTEMPT_MAX.as_secs()))),
        }
    }

    fn request(
        &self,
        call: &Call,
        url: &Url,
        token: &SecretString,
        etag: Option<&HeaderValue>,
    ) -> Result<Request<OctoBody>, NoAnswer> {
        let unsendable = |error: &dyn std::error::Error| NoAnswer::Network(chain(error));
        let mut bearer =
            HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())).map_err(|error| unsendable(&error))?;
        bearer.set_sensitive(true);
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(url.as_str())
            .header(ACCEPT, call.accept)
            .header("x-github-api-version", API_VERSION)
            .header(USER_AGENT, self.user_agent.clone())
            .header(AUTHORIZATION, bearer);
        if let Some(etag) = etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        let body = match &call.body {
            Some(json) => {
                request = request.header(CONTENT_TYPE, "application/json");
                OctoBody::from(json.to_string())
            }
            None => OctoBody::empty(),
        };
        request.body(body).map_err(|error| unsendable(&error))
    }
}

/// Reads a body up to the limit and not a byte further.
async fn read(mut body: Body) -> Result<Vec<u8>, NoAnswer> {
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| NoAnswer::Network(chain(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > ANSWER_BYTES_MAX {
            return Err(NoAnswer::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}
