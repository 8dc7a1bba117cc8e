//! One server on a database, and the world around it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;
use stackorder::demo::ports::free_port;
use stackorder::demo::relay::{client, nobody, pass, serve};
use tokio::net::TcpListener;

use crate::jobs::Door;
use crate::servers::Server;
use crate::time::Time;
use crate::town::{Town, WEBHOOK_SECRET, Work};
use crate::{Database, lines};

/// The tool is not what is measured, and no tool is done at once.
const APPLY_TAKES: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(600);

/// One server, its GitHub, and when GitHub was asked for what.
pub struct Site {
    pub town: Arc<Town>,
    pub door: Arc<Door>,
    pub server: Arc<Server>,
    pub dispatched: Dispatched,
}

/// When GitHub was first asked for a wave of an apply, by run and wave.
pub type Dispatched = Arc<std::sync::Mutex<BTreeMap<(String, usize), Instant>>>;

impl Site {
    pub async fn start(root: &Path, database: &Database, work: Work) -> Self {
        let door = listener().await;
        let address = format!("127.0.0.1:{}", free_port(0).expect("a port is free"));
        let url = format!("http://{address}");
        let port = door.local_addr().expect("it is bound").port();
        let webhooks = format!("{url}/webhooks/github");
        let town = Arc::new(Town::build(root, work, webhooks, port, Time::of_the_machine(), None).await);
        let dispatched = Dispatched::default();
        let github = watched(town.github.base_url(), dispatched.clone()).await;
        let variables = [
            ("STACKORDER_BASE_URL", url.clone()),
            ("STACKORDER_LISTEN", address),
            ("DATABASE_URL", database.url()),
            ("GITHUB_APP_ID", town.app.id.to_string()),
            ("GITHUB_APP_PRIVATE_KEY", town.app.private_key_pem.clone()),
            ("GITHUB_WEBHOOK_SECRET", WEBHOOK_SECRET.to_owned()),
            ("GITHUB_API_URL", format!("{github}/api/v3")),
            ("GITHUB_WEB_URL", town.github.base_url().to_owned()),
            ("GITHUB_OIDC_ISSUER", town.github.oidc_issuer()),
            // This GitHub has no limits, and more happens here in a minute than elsewhere in an hour.
            ("GITHUB_WRITES_PER_MINUTE", "none".to_owned()),
            ("GITHUB_WRITES_PER_HOUR", "none".to_owned()),
        ];
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let server = Server::start(variables, None).await;
        let door = Door::open(door, url, work, APPLY_TAKES);
        Self { town, door, server, dispatched }
    }

    pub async fn until(&self, hope: &str, came_about: impl Fn() -> bool) {
        let started = Instant::now();
        while !came_about() {
            assert!(
                started.elapsed() < PATIENCE,
                "after {PATIENCE:?} still not so: {hope}; {:?}",
                self.server.complaints()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the inbox is empty, so that the next measurement is of itself alone.
    pub async fn worked_off(&self, database: &Database) {
        const LEFT: &str = "select count(*) from deliveries where done_at is null and not dead";
        loop {
            let left: i64 = match database {
                Database::Postgres(url) => {
                    let mut conn = sqlx::PgConnection::connect(url).await.expect("the database answers");
                    sqlx::query_scalar(LEFT).fetch_one(&mut conn).await.expect("a number")
                }
                Database::Sqlite(_) => {
                    let mut conn = SqliteConnection::connect(&database.url()).await.expect("the database answers");
                    sqlx::query_scalar(LEFT).fetch_one(&mut conn).await.expect("a number")
                }
            };
            if left == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A line to GitHub that notes when a wave was asked for. Returns its address.
async fn watched(github: &str, dispatched: Dispatched) -> String {
    let listener = listener().await;
    let own = format!("http://{}", listener.local_addr().expect("it is bound"));
    let state = (github.to_owned(), own.clone(), client(), dispatched);
    serve(listener, Router::new().fallback(note).with_state(Arc::new(state)));
    own
}

async fn note(
    State(line): State<Arc<(String, String, reqwest::Client, Dispatched)>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (github, own, http, dispatched) = line.as_ref();
    if uri.path().ends_with("/dispatches") {
        let asked: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let input = |name: &str| asked["inputs"][name].as_str().unwrap_or_default().to_owned();
        if let (Ok(wave), "apply") = (input("wave").parse(), input("mode").as_str()) {
            let mut dispatched = dispatched.lock().expect("no holder panics");
            dispatched.entry((input("run_id"), wave)).or_insert_with(Instant::now);
        }
    }
    match pass(http, github, &method, &uri, &headers, body).await {
        Ok(answer) => lines::with_links_to(answer, github, own),
        Err(error) => nobody(&error.to_string()),
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free")
}
