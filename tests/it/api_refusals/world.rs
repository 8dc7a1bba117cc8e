//! A server process on a SQLite file, the fake GitHub it works for, and requests of every shape.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fake_github::actions::host::RunnerOptions;
use fake_github::{AppSetup, FakeGitHub, Options, RepositorySetup};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use sha2::Sha256;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};
use stackorder::clock::{Clock as _, SystemClock};
use tempfile::TempDir;

pub const REPOSITORY: &str = "acme/infra";
/// On GitHub, but the App is not installed on it.
pub const STRANGER: &str = "acme/secrets";
const WEBHOOK_SECRET: &str = "the secret of these tests";
/// The audience of the server's tokens: its public address, which nobody has to reach here.
pub const BASE_URL: &str = "http://stackorder.test";
/// What the App subscribes to.
const EVENTS: [&str; 8] = [
    "pull_request",
    "issue_comment",
    "push",
    "check_run",
    "check_suite",
    "workflow_run",
    "workflow_job",
    "deployment_protection_rule",
];
const PATIENCE: Duration = Duration::from_secs(60);

/// What the fake signs its own tokens with; its public half is served by it.
pub const ISSUER_KEY: &str = include_str!("../../../fake-github/src/keys/oidc.test-key.pem");
/// Of nobody.
pub const OTHER_KEY: &str = include_str!("../../fixtures/keys/test-only-oidc-other.pem");
pub const KEY_ID: &str = "fake-github-oidc-1";

pub struct World {
    url: String,
    pub issuer: String,
    /// GitHub's numbers of the two repositories.
    pub ids: BTreeMap<&'static str, i64>,
    http: reqwest::Client,
    server: Server,
    /// What the server has logged since it serves.
    log: Arc<Mutex<Vec<Value>>>,
    database: PathBuf,
    pub github: FakeGitHub,
    /// GitHub's number of the App.
    app: i64,
    root: TempDir,
}

/// An answer, read to its end.
pub struct Answer {
    pub status: StatusCode,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

/// Ends with the test.
pub struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl World {
    pub async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let github = FakeGitHub::start(Options {
            root: root.path().join("github"),
            port: 0,
            clock: Arc::new(now_ms),
            runner: RunnerOptions {
                root: root.path().join("runner"),
                tool_cache: root.path().join("tools"),
                path: Vec::new(),
                env: BTreeMap::new(),
                parallel_jobs: 1,
                timing: Default::default(),
            },
            journal: None,
        })
        .await
        .unwrap();
        let mut ids = BTreeMap::new();
        for name in [REPOSITORY, STRANGER] {
            ids.insert(name, github.create_repository(name, RepositorySetup::default()).unwrap());
            let files: [(&str, Option<Vec<u8>>); 1] = [("README.md", Some(b"Stacks.\n".to_vec()))];
            github.commit(name, "main", "Begin", "alice", &files).unwrap();
        }
        let permissions = ["contents", "pull_requests", "checks", "actions", "issues", "members", "deployments"];
        let app = github.create_app(AppSetup {
            slug: "stackorder".to_owned(),
            owner: "acme".to_owned(),
            permissions: permissions.iter().map(|name| ((*name).to_owned(), "write".to_owned())).collect(),
            events: EVENTS.map(str::to_owned).into(),
            webhook_secret: Some(WEBHOOK_SECRET.to_owned()),
            ..AppSetup::default()
        });
        github.install_app(app.id, "acme", &[REPOSITORY]);
        let database = root.path().join("server.db");
        let variables = [
            ("STACKORDER_BASE_URL", BASE_URL.to_owned()),
            ("STACKORDER_LISTEN", "127.0.0.1:0".to_owned()),
            ("DATABASE_URL", format!("sqlite://{}", database.display())),
            ("GITHUB_APP_ID", app.id.to_string()),
            ("GITHUB_APP_PRIVATE_KEY", app.private_key_pem.clone()),
            ("GITHUB_WEBHOOK_SECRET", WEBHOOK_SECRET.to_owned()),
            ("GITHUB_API_URL", github.api_url()),
            ("GITHUB_WEB_URL", github.base_url().to_owned()),
            ("GITHUB_OIDC_ISSUER", github.oidc_issuer()),
        ];
        let (server, address, log) = serve(&variables);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let issuer = github.oidc_issuer();
        let url = format!("http://{address}");
        let world = Self { url, issuer, ids, http, server, log, database, github, app: app.id, root };
        world.settled().await;
        world
    }

    /// From now on the server gets GitHub's webhooks; until then it knows only what it is sent by a test.
    pub fn hear(&self) {
        self.github.set_webhook_url(self.app, &format!("{}/webhooks/github", self.url));
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where the fake keeps what people clone and push.
    pub fn bare_repository(&self) -> PathBuf {
        self.root.path().join(format!("github/git/{REPOSITORY}.git"))
    }

    /// A key made as operators make one.
    pub async fn key(&self, name: &str, flags: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_stackorder"))
            .args(["admin", "keys", "create", "--name", name, "--format", "json"])
            .args(flags)
            .env_clear()
            .env("DATABASE_URL", format!("sqlite://{}", self.database.display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        made["key"].as_str().unwrap().to_owned()
    }

    /// Runs one statement on the server's database: what no operator and no request can bring about.
    pub async fn tamper(&self, statement: &'static str) {
        let mut conn = self.connect().await;
        sqlx::query(statement).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }

    async fn connect(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(&self.database).busy_timeout(PATIENCE);
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    /// Waits until the server knows its repository and has nothing left to do.
    pub async fn settled(&self) {
        const OPEN: &str = "select (select count(*) from repos) = 1 and (select count(*) from jobs where not dead) = 0 \
             and (select count(*) from deliveries where done_at is null and not dead) = 0";
        let mut conn = self.connect().await;
        let started = Instant::now();
        while !sqlx::query_scalar::<_, bool>(OPEN).fetch_one(&mut conn).await.unwrap() {
            assert!(started.elapsed() < PATIENCE, "the server does not come to rest");
            tokio::task::yield_now().await;
        }
        conn.close().await.unwrap();
    }

    /// Every row of every table, as text. Left out is what a refused request may leave behind: that a token was seen, a
    /// delivery stored, a key used; and what the server writes by itself as time goes by.
    pub async fn state(&self) -> BTreeMap<String, Vec<String>> {
        self.settled().await;
        let mut conn = self.connect().await;
        let tables: Vec<String> = sqlx::query_scalar(
            "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by name",
        )
        .fetch_all(&mut conn)
        .await
        .unwrap();
        let mut state = BTreeMap::new();
        for table in tables {
            if ["oidc_jtis", "deliveries", "leases", "once", "jobs", "_sqlx_migrations"].contains(&table.as_str()) {
                continue;
            }
            let columns: Vec<String> = sqlx::query(AssertSqlSafe(format!("pragma table_info({table})")))
                .fetch_all(&mut conn)
                .await
                .unwrap()
                .iter()
                .map(|column| column.get::<String, _>("name"))
                .filter(|column| column != "last_used_at")
                .map(|column| match (table.as_str(), column.as_str()) {
                    ("api_keys", "body") => "json_remove(body, '$.last_used_at')".to_owned(),
                    _ => format!("quote({column})"),
                })
                .collect();
            let query = format!("select {} from {table} order by 1", columns.join(" || ' ' || "));
            state.insert(table, sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(&mut conn).await.unwrap());
        }
        // No command was taken and no dispatch is on its way: the only kinds of these that a request brings about.
        let asked: Vec<String> = sqlx::query_scalar("select name from once where name like 'comment:%' order by name")
            .fetch_all(&mut conn)
            .await
            .unwrap();
        state.insert("once".to_owned(), asked);
        conn.close().await.unwrap();
        state
    }

    /// Events of the deliveries that were stored, by their ids.
    pub async fn deliveries(&self) -> BTreeMap<String, String> {
        let mut conn = self.connect().await;
        let rows = sqlx::query("select id, event from deliveries").fetch_all(&mut conn).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// The one line of the log that tells of this refused request.
    pub async fn logged(&self, request_id: &str) -> Value {
        let started = Instant::now();
        loop {
            let found: Vec<Value> = {
                let log = self.log.lock().unwrap();
                let of_it = |line: &&Value| line["span"]["id"] == request_id;
                log.iter().filter(of_it).cloned().collect()
            };
            match found.as_slice() {
                [line] => return line.clone(),
                [] => assert!(started.elapsed() < PATIENCE, "nothing is logged of {request_id}"),
                more => panic!("{more:?}"),
            }
            tokio::task::yield_now().await;
        }
    }

    /// All that was logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().iter().map(|line| format!("{line}\n")).collect()
    }

    /// Asks the server to stop, waits until it has, and lists the files of its database.
    pub fn stop(&mut self) -> (std::process::ExitStatus, Vec<String>) {
        let process = rustix::process::Pid::from_child(&self.server.0);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        let ended = self.server.0.wait().unwrap();
        let place = self.database.parent().unwrap();
        let names = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<String> = names.filter(|name| name.starts_with("server.db")).collect();
        files.sort();
        (ended, files)
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    pub fn post(&self, path: &str) -> RequestBuilder {
        self.request(Method::POST, path)
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    /// The claims of a job of the repository's pull request 7, as GitHub would vouch for it now.
    pub fn claims(&self) -> Value {
        let now = now_ms().div_euclid(1000);
        json!({
            "jti": uuid::Uuid::new_v4().to_string(), "iss": self.issuer, "aud": BASE_URL, "sub": "nobody reads this",
            "ref": "refs/pull/7/merge", "repository": REPOSITORY, "repository_id": self.ids[REPOSITORY].to_string(),
            "actor": "alice", "run_id": "4711", "run_attempt": "1", "event_name": "pull_request",
            "job_workflow_ref": "stackorder/actions/.github/workflows/plan.yml@refs/tags/v1", "check_run_id": "4712",
            "nbf": now - 600, "iat": now, "exp": now + 300,
        })
    }

    /// A token that is in order.
    pub fn token(&self) -> String {
        signed(&self.claims(), KEY_ID, ISSUER_KEY)
    }

    /// A token with some claims changed; null takes one away.
    pub fn token_with(&self, changes: Value) -> String {
        let mut claims = self.claims();
        for (name, value) in changes.as_object().unwrap() {
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(name);
            } else {
                claims[name] = value.clone();
            }
        }
        signed(&claims, KEY_ID, ISSUER_KEY)
    }
}

pub fn signed(claims: &Value, key_id: &str, key: &str) -> String {
    let header = Header { kid: Some(key_id.to_owned()), ..Header::new(Algorithm::RS256) };
    jsonwebtoken::encode(&header, claims, &EncodingKey::from_rsa_pem(key.as_bytes()).unwrap()).unwrap()
}

/// `X-Hub-Signature-256` of a body.
pub fn signature(body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).unwrap();
    mac.update(body);
    let digest: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digest}")
}

pub async fn sent(request: RequestBuilder) -> Answer {
    let answer = request.send().await.unwrap();
    Answer { status: answer.status(), headers: answer.headers().clone(), text: answer.text().await.unwrap() }
}

impl Answer {
    #[track_caller]
    pub fn carries_what_every_answer_does(&self, what: &str) {
        let always = [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
        ];
        for (name, value) in always {
            assert_eq!(self.headers.get(name).map(|value| value.as_bytes()), Some(value.as_bytes()), "{what}: {name}");
        }
        assert_eq!(self.headers["x-request-id"].len(), 36, "{what}");
        assert!(!self.headers.contains_key("strict-transport-security"), "{what}: nobody comes over https here");
    }

    /// It is the error body of the API: this status, this code, a message for people and nothing unknown.
    #[track_caller]
    pub fn refuses(&self, what: &str, status: u16, code: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{what}: {}", self.text);
        let body: Value = serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{what}: {:?}", self.text));
        assert_eq!(body["code"], code, "{what}: {body}");
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{what}: {body}");
        let known = ["code", "message", "details"];
        assert!(body.as_object().unwrap().keys().all(|name| known.contains(&name.as_str())), "{what}: {body}");
        assert_eq!(self.headers["content-type"], "application/json", "{what}");
        self.carries_what_every_answer_does(what);
        let challenge = self.headers.get("www-authenticate").map(|value| value.to_str().unwrap());
        assert_eq!(challenge, (status == 401).then_some("Bearer realm=\"stackorder\""), "{what}");
        body
    }
}

/// The server's process, its address and its log, once it says that it serves.
pub fn serve(variables: &[(&str, String)]) -> (Server, String, Arc<Mutex<Vec<Value>>>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stackorder"))
        .arg("serve")
        .env_clear()
        .envs(variables.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let server = Server(child);
    let mut said = Vec::new();
    for line in log.by_ref() {
        let line = line.unwrap();
        let entry: Value = serde_json::from_str(&line).unwrap_or_default();
        if entry["fields"]["message"] == "serving" {
            let address = entry["fields"]["address"].as_str().unwrap().to_owned();
            let later = Arc::<Mutex<Vec<Value>>>::default();
            let writer = later.clone();
            std::thread::spawn(move || {
                for line in log.map_while(Result::ok) {
                    writer.lock().unwrap().push(serde_json::from_str(&line).unwrap_or(Value::String(line)));
                }
            });
            return (server, address, later);
        }
        said.push(line);
    }
    panic!("the server ended: {said:#?}");
}

fn now_ms() -> i64 {
    SystemClock::default().now()
}
