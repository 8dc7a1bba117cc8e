//! The server's API as a job or a laptop calls it (spec 12 §5, 20 §5).
//!
//! "Unreachable" is a value of its own: what follows from it is each command's decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::{StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::environment::Environment;
use super::stop::Stop;
use crate::api::{
    CheckJson, CheckVerdict, ClaimRequest, ClaimResponse, CreateRunRequest, CreateRunResponse, ErrorBody,
    GRAPH_BYTES_MAX, GraphUploadRequest, RESULT_BYTES_MAX, RunStackJson, StackResult, UnlockRequest, UnlockResponse,
};
use crate::graph::resolution::Resolution;
use crate::guide::Topic;
use crate::ids::{RunId, StackKey};

/// Each attempt ends after this.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Waits before the second, third and fourth attempt of a call.
pub const RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(800), Duration::from_secs(2)];

/// The same for calls about a run. The server that registered it was there a moment ago, and while one is replaced it is away
/// for some seconds; a plan that is not reported has to be made again, and an apply looked into by a person.
pub const RUN_RETRY_DELAYS: [Duration; 7] = [
    RETRY_DELAYS[0],
    RETRY_DELAYS[1],
    RETRY_DELAYS[2],
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(30),
];

/// Why a call gave no answer to work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server understood and said no.
    #[error("{0}")]
    Refused(String),
    /// The server says that the call itself is wrong.
    #[error("{0}")]
    Failed(String),
    /// Nobody knows whether the call arrived.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
}

impl CallError {
    /// For commands that mean nothing without the server's word.
    pub fn fail_closed(self) -> Stop {
        match self {
            CallError::Refused(text) => Stop::Refused(text),
            CallError::Unreachable(_) => Stop::refused(Topic::ServerUnreachable, self),
            CallError::Failed(text) => Stop::Failed(text),
        }
    }

    /// For commands where an unreachable server is an error like another.
    pub fn or_failed(self) -> Stop {
        match self {
            CallError::Refused(text) => Stop::Refused(text),
            CallError::Failed(_) | CallError::Unreachable(_) => Stop::Failed(self.to_string()),
        }
    }
}

/// How a call proves where it comes from.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A token from GitHub for each attempt, since the server takes each only once.
    Oidc {
        url: String,
        request_token: SecretString,
        audience: String,
    },
    ApiKey(SecretString),
}

/// A client. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Server {
    base: String,
    credential: Option<Credential>,
    http: reqwest::Client,
    retry_delays: Vec<Duration>,
    run_retry_delays: Vec<Duration>,
    /// A call was given up and none was answered since: the next stacks of the job do not wait a minute each for a server
    /// that is away.
    gave_up: Arc<AtomicBool>,
}

impl Server {
    /// The server that a command talks to; `None` when there is none, or outside of Actions no API key for it.
    pub fn of(flag: Option<&str>, env: &Environment) -> Result<Option<Self>, Stop> {
        let Some(url) = flag.or_else(|| env.get("STACKORDER_SERVER_URL")).map(str::trim).filter(|url| !url.is_empty())
        else {
            return Ok(None);
        };
        let base = base_of(url)?;
        let credential = if env.is_actions() {
            let audience = env.get("STACKORDER_OIDC_AUDIENCE").unwrap_or(&base).trim_end_matches('/').to_owned();
            let url = env.get("ACTIONS_ID_TOKEN_REQUEST_URL");
            let token = env.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN");
            url.zip(token).map(|(url, token)| Credential::Oidc {
                url: url.to_owned(),
                request_token: SecretString::from(token.to_owned()),
                audience,
            })
        } else {
            match env.get("STACKORDER_API_KEY") {
                Some(key) => Some(Credential::ApiKey(SecretString::from(key.trim().to_owned()))),
                None => return Ok(None),
            }
        };
        let http = client()?;
        Ok(Some(Self {
            base,
            credential,
            http,
            retry_delays: RETRY_DELAYS.to_vec(),
            run_retry_delays: RUN_RETRY_DELAYS.to_vec(),
            gave_up: Arc::default(),
        }))
    }

    /// The same with other waits between attempts, and other ones of calls about a run.
    pub fn with_retry_delays(self, retry_delays: Vec<Duration>, run_retry_delays: Vec<Duration>) -> Self {
        Self { retry_delays, run_retry_delays, ..self }
    }

    /// The same for a job that has seconds left: no call takes longer for being about a run.
    pub fn in_a_hurry(&self) -> Self {
        self.clone().with_retry_delays(self.retry_delays.clone(), self.retry_delays.clone())
    }

    pub async fn create_run(&self, request: &CreateRunRequest) -> Result<CreateRunResponse, CallError> {
        self.call("/v1/runs", request, &self.retry_delays).await
    }

    pub async fn upload_graph(&self, run: &RunId, request: &GraphUploadRequest) -> Result<Resolution, CallError> {
        check_size("graph", request, GRAPH_BYTES_MAX)?;
        self.call(&format!("/v1/runs/{run}/graph"), request, &self.run_retry_delays).await
    }

    pub async fn claim(&self, run: &RunId, key: &StackKey, request: &ClaimRequest) -> Result<ClaimResponse, CallError> {
        self.call(&format!("{}/claim", stack_path(run, key)), request, &self.run_retry_delays).await
    }

    pub async fn result(&self, run: &RunId, key: &StackKey, result: &StackResult) -> Result<RunStackJson, CallError> {
        check_size("result", result, RESULT_BYTES_MAX)?;
        self.call(&format!("{}/result", stack_path(run, key)), result, &self.run_retry_delays).await
    }

    pub async fn check(
        &self,
        run: &RunId,
        key: &StackKey,
        name: &str,
        verdict: &CheckVerdict,
    ) -> Result<CheckJson, CallError> {
        self.call(
            &format!("{}/checks/{}", stack_path(run, key), percent_encoded(name)),
            verdict,
            &self.run_retry_delays,
        )
        .await
    }

    pub async fn unlock(&self, request: &UnlockRequest) -> Result<UnlockResponse, CallError> {
        self.call("/v1/unlock", request, &self.retry_delays).await
    }

    async fn call<B: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        delays: &[Duration],
    ) -> Result<A, CallError> {
        let url = format!("{}{path}", self.base);
        let body = serde_json::to_vec(body).expect("the API's shapes have text keys");
        let delays = if self.gave_up.load(Ordering::Relaxed) { &self.retry_delays } else { delays };
        let mut delays = delays.iter();
        loop {
            let attempt = self.attempt(&url, body.clone()).await;
            if !matches!(attempt, Attempt::Again(_)) {
                self.gave_up.store(false, Ordering::Relaxed);
            }
            let reason = match attempt {
                Attempt::Answered(bytes) => {
                    return serde_json::from_slice(&bytes)
                        .map_err(|error| CallError::Failed(format!("{path}: the answer is not understood: {error}")));
                }
                Attempt::Final(error) => return Err(error),
                Attempt::Again(reason) => reason,
            };
            tracing::debug!(%path, %reason, "attempt failed");
            match delays.next() {
                Some(delay) => tokio::time::sleep(*delay).await,
                None => {
                    self.gave_up.store(true, Ordering::Relaxed);
                    return Err(CallError::Unreachable(reason));
                }
            }
        }
    }

    async fn attempt(&self, url: &str, body: Vec<u8>) -> Attempt {
        let token = match self.token().await {
            Ok(token) => token,
            Err(attempt) => return attempt,
        };
        let request = self
            .http
            .post(url)
            .bearer_auth(token.expose_secret())
            .header("Content-Type", "application/json")
            .body(body);
        let (status, bytes) = match send(request).await {
            Ok(answer) => answer,
            Err(reason) => return Attempt::Again(reason),
        };
        if status.is_success() {
            return Attempt::Answered(bytes);
        }
        if status.is_server_error() {
            return Attempt::Again(format!("{url} answered {status}"));
        }
        Attempt::Final(refusal(url, status, &bytes))
    }

    async fn token(&self) -> Result<SecretString, Attempt> {
        match &self.credential {
            None => Err(Attempt::Final(CallError::Unreachable(
                "the job gets no OIDC token: give it the permission `id-token: write`".to_owned(),
            ))),
            Some(Credential::ApiKey(key)) => Ok(key.clone()),
            Some(Credential::Oidc { url, request_token, audience }) => {
                let separator = if url.contains('?') { '&' } else { '?' };
                let url = format!("{url}{separator}audience={}", percent_encoded(audience));
                let request = self.http.get(&url).bearer_auth(request_token.expose_secret());
                let (status, bytes) =
                    send(request).await.map_err(|reason| Attempt::Again(format!("OIDC token: {reason}")))?;
                if !status.is_success() {
                    return Err(Attempt::Again(format!("OIDC token: GitHub answered {status}")));
                }
                #[derive(serde::Deserialize)]
                struct Token {
                    value: String,
                }
                serde_json::from_slice::<Token>(&bytes)
                    .map(|token| SecretString::from(token.value))
                    .map_err(|_| Attempt::Again("OIDC token: GitHub's answer holds none".to_owned()))
            }
        }
    }
}

enum Attempt {
    Answered(Vec<u8>),
    Again(String),
    Final(CallError),
}

/// A client that follows no redirect, so that no credential reaches another host.
pub(super) fn client() -> Result<reqwest::Client, Stop> {
    reqwest::Client::builder()
        .timeout(ATTEMPT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("stackorder/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| Stop::failed(format!("cannot make an HTTP client: {error}")))
}

/// Status and body; an error text without the address, which may hold secrets of a proxy.
pub(super) async fn send(request: reqwest::RequestBuilder) -> Result<(StatusCode, Vec<u8>), String> {
    let mut response = request.send().await.map_err(chain)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(chain)? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((status, body))
}

fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn refusal(url: &str, status: StatusCode, bytes: &[u8]) -> CallError {
    let body: ErrorBody = serde_json::from_slice(bytes).unwrap_or_else(|_| ErrorBody {
        code: String::new(),
        message: format!("{url} answered {status}"),
        details: None,
    });
    let mut text = body.message.clone();
    if let Some(details) = body.details.filter(|details| !details.is_null()) {
        text = format!("{text}\n{}", shown(&details));
    }
    if status.is_redirection() {
        return CallError::Failed(format!("{text}: --server must name the address that answers itself"));
    }
    match (status.as_u16(), body.code.as_str()) {
        (403 | 409 | 423, code) => CallError::Refused(format!("{text}\n{}", topic_of(status, code).hint())),
        (_, "") => CallError::Failed(text),
        (_, code) => CallError::Failed(format!("{code}: {text}")),
    }
}

/// Which refusal of the server it is.
fn topic_of(status: StatusCode, code: &str) -> Topic {
    match (status.as_u16(), code) {
        (423, _) => Topic::LockMissing,
        (403, _) => Topic::ServerForbids,
        (_, "superseded") => Topic::RunSuperseded,
        (_, "refused") => Topic::ServerRefuses,
        _ => Topic::ServerConflict,
    }
}

/// Details for people: one line per entry of a list or an object.
fn shown(details: &serde_json::Value) -> String {
    let plain = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match details {
        serde_json::Value::Object(members) => {
            members.iter().map(|(name, value)| format!("  {name}: {}", plain(value))).collect::<Vec<_>>().join("\n")
        }
        serde_json::Value::Array(entries) => {
            entries.iter().map(|entry| format!("  {}", plain(entry))).collect::<Vec<_>>().join("\n")
        }
        other => format!("  {}", plain(other)),
    }
}

/// The address as requests begin with it. The text is not repeated: it may hold a password, and errors get around.
fn base_of(url: &str) -> Result<String, Stop> {
    let is_web = |parsed: &Url| matches!(parsed.scheme(), "https" | "http") && parsed.has_host();
    let Some(parsed) = Url::parse(url).ok().filter(is_web) else {
        return Err(Stop::failed("--server is not a URL such as https://stackorder.example.com"));
    };
    let is_plain = parsed.username().is_empty() && parsed.password().is_none();
    if !is_plain || parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(Stop::failed(
            "--server holds a user name, a password or a query: write no more than https://stackorder.example.com, \
             a job proves itself by its OIDC token and a person by STACKORDER_API_KEY",
        ));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

fn check_size<B: Serialize>(what: &str, body: &B, bytes_max: usize) -> Result<(), CallError> {
    let size = serde_json::to_vec(body).map_or(0, |bytes| bytes.len());
    if size <= bytes_max {
        return Ok(());
    }
    Err(CallError::Failed(format!("the {what} has {size} bytes, the server takes at most {bytes_max}")))
}

fn stack_path(run: &RunId, key: &StackKey) -> String {
    format!("/v1/runs/{run}/stacks/{}", percent_encoded(key.as_str()))
}

/// Everything but unreserved characters as `%XX`, so that a key is one segment of a path.
pub(super) fn percent_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}
