//! A running fake with an organisation, people, a repository, an installed app and a receiver of its webhooks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use fake_github::actions::host::{RunnerOptions, Timing};
use fake_github::{App, AppSetup, FakeGitHub, Options, RepositorySetup};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

/// Noon of 29 November 2026.
pub const NOON: i64 = 1_795_953_600_000;
pub const REPO: &str = "acme/infra";
pub const SECRET: &str = "It's a Secret to Everybody";

#[derive(Clone)]
pub struct Received {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn event(&self) -> &str {
        self.header("x-github-event")
    }

    pub fn payload(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// `pull_request.opened`, `push`.
    pub fn name(&self) -> String {
        match self.payload()["action"].as_str() {
            Some(action) => format!("{}.{action}", self.event()),
            None => self.event().to_owned(),
        }
    }
}

struct Receiver {
    received: Mutex<Vec<Received>>,
    status: AtomicU16,
}

pub struct World {
    pub hub: FakeGitHub,
    pub app: App,
    pub installation: i64,
    pub client: reqwest::Client,
    pub directory: tempfile::TempDir,
    receiver: Arc<Receiver>,
    now: Arc<AtomicI64>,
}

pub struct Answered {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
    pub text: String,
}

impl World {
    pub async fn new() -> World {
        let directory = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicI64::new(NOON));
        let clock = now.clone();
        let hub = FakeGitHub::start(Options {
            root: directory.path().to_owned(),
            port: 0,
            clock: Arc::new(move || clock.load(Ordering::SeqCst)),
            runner: RunnerOptions {
                root: directory.path().join("runner"),
                tool_cache: directory.path().join("tools"),
                path: Vec::new(),
                env: BTreeMap::new(),
                parallel_jobs: 2,
                timing: Timing::default(),
            },
            journal: Some(directory.path().join("github.ndjson")),
        })
        .await
        .unwrap();
        let receiver = Arc::new(Receiver { received: Mutex::new(Vec::new()), status: AtomicU16::new(202) });
        let url = receive(receiver.clone()).await;
        for login in ["alice", "bob", "mallory"] {
            hub.create_user(login);
        }
        hub.create_organization("acme");
        hub.create_team("acme", "platform", &["alice"]);
        let collaborators = BTreeMap::from([("bob".to_owned(), "write".to_owned())]);
        let setup = RepositorySetup { private: true, collaborators, ..RepositorySetup::default() };
        hub.create_repository(REPO, setup).unwrap();
        hub.set_collaborator(REPO, "alice", fake_github::Role::Admin);
        let app = hub.create_app(AppSetup {
            slug: "robot".to_owned(),
            permissions: permissions(&[
                ("actions", "write"),
                ("checks", "write"),
                ("contents", "write"),
                ("deployments", "write"),
                ("issues", "write"),
                ("members", "read"),
                ("pull_requests", "write"),
                ("statuses", "write"),
                ("actions_variables", "read"),
            ]),
            events: EVENTS.iter().map(|event| (*event).to_owned()).collect(),
            webhook_url: Some(url),
            webhook_secret: Some(SECRET.to_owned()),
            ..AppSetup::default()
        });
        let installation = hub.install_app(app.id, "acme", &[]);
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let world = World { hub, app, installation, client, directory, receiver, now };
        world.commit("main", "Start", &[("README.md", "# infra\n"), ("vpc/main.tf", "# vpc\n")]);
        world
    }

    pub fn commit(&self, branch: &str, message: &str, files: &[(&str, &str)]) -> String {
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, Some(text.as_bytes().to_vec()))).collect();
        self.hub.commit(REPO, branch, message, "alice", &files).unwrap()
    }

    /// A pull request of alice's that changes one file.
    pub fn pull_request(&self) -> i64 {
        self.commit("topic", "Change the vpc", &[("vpc/main.tf", "# a bigger vpc\n")]);
        self.hub.open_pull_request(REPO, "topic", "main", "A bigger vpc", "Because.", "alice").unwrap()
    }

    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub fn now_s(&self) -> i64 {
        self.now.load(Ordering::SeqCst) / 1000
    }

    pub fn answer_webhooks_with(&self, status: u16) {
        self.receiver.status.store(status, Ordering::SeqCst);
    }

    /// What arrived so far, once nothing moves any more.
    pub async fn received(&self) -> Vec<Received> {
        tokio::time::timeout(Duration::from_secs(30), self.hub.idle()).await.expect("the fake comes to rest");
        self.receiver.received.lock().unwrap().clone()
    }

    pub async fn received_names(&self) -> Vec<String> {
        self.received().await.iter().map(Received::name).collect()
    }

    pub fn jwt(&self, issuer: &str, issued: i64, expires: i64) -> String {
        let key = EncodingKey::from_rsa_pem(self.app.private_key_pem.as_bytes()).unwrap();
        let claims = json!({"iss": issuer, "iat": issued, "exp": expires});
        jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &key).unwrap()
    }

    pub fn app_token(&self) -> String {
        self.jwt(&self.app.id.to_string(), self.now_s() - 60, self.now_s() + 540)
    }

    pub async fn installation_token(&self) -> String {
        let path = format!("/app/installations/{}/access_tokens", self.installation);
        let answer = self.call("POST", &path, &self.app_token(), None).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.body["token"].as_str().unwrap().to_owned()
    }

    pub async fn call(&self, method: &str, path: &str, token: &str, body: Option<Value>) -> Answered {
        self.call_with(method, path, token, body, &[]).await
    }

    pub async fn call_with(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> Answered {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.hub.api_url()) };
        let mut request = self.client.request(method.parse().unwrap(), url).header("user-agent", "test");
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let text = answer.text().await.unwrap();
        Answered { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::Null), text }
    }
}

pub const EVENTS: [&str; 9] = [
    "pull_request",
    "pull_request_review",
    "issue_comment",
    "push",
    "check_run",
    "check_suite",
    "workflow_run",
    "workflow_job",
    "deployment_protection_rule",
];

pub fn permissions(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(name, level)| ((*name).to_owned(), (*level).to_owned())).collect()
}

async fn receive(receiver: Arc<Receiver>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/webhook", listener.local_addr().unwrap());
    let app = axum::Router::new().fallback(record).with_state(receiver);
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

async fn record(State(receiver): State<Arc<Receiver>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    receiver.received.lock().unwrap().push(Received { headers, body });
    StatusCode::from_u16(receiver.status.load(Ordering::SeqCst)).unwrap()
}
