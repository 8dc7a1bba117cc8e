//! How fast the server stands between GitHub and its database (`cargo bench --bench server`), on Postgres and on SQLite.
//!
//! - How many webhooks are stored and acknowledged in a second, as a ratio of the bare inserts of the same row, taken in
//!   turns so that a busy machine slows both sides; and how long one takes at half that load.
//! - How long it takes from the last report of a wave until GitHub is asked for the next one, with 50 runs in flight.
//!
//! The world around the server is that of `tests/it/fire`. Prints the table of `docs/performance.md`.

#![expect(dead_code, reason = "the tests use more of their world than a measurement does")]

#[path = "../tests/it/fire/database_line.rs"]
mod database_line;
#[path = "../tests/it/databases.rs"]
mod databases;
#[path = "../tests/it/fire/field.rs"]
mod field;
#[path = "../tests/it/fire/gunner.rs"]
mod gunner;
#[path = "../tests/it/fire/jobs.rs"]
mod jobs;
#[path = "../tests/it/fire/lines.rs"]
mod lines;
#[path = "../tests/it/machine.rs"]
mod machine;
#[path = "../tests/it/fire/servers.rs"]
mod servers;
#[path = "../tests/it/fire/time.rs"]
mod time;
#[path = "../tests/it/fire/town.rs"]
mod town;
#[path = "../tests/it/fire/wire.rs"]
mod wire;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use tempfile::TempDir;
use tokio::net::TcpListener;

use jobs::Door;
use servers::Server;
use time::Time;
use town::{Shape, Town, WEBHOOK_SECRET, Work};

/// As many clients as GitHub's deliveries come in at once on a busy day.
const CLIENTS: usize = 8;
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(5);
/// An event of GitHub's documents, 6.8 KB, of a repository that the server does not know: what is worked off afterwards is
/// as little as can be.
const EVENT: &str = "push";
const PAYLOAD: &str = include_str!("../tests/fixtures/webhooks/push.json");
/// Runs in flight, and one wave after the other in each: 1,000 samples.
const WAVES: Work = Work { pulls: 50, stacks: 21, shape: Shape::Chain };
/// The tool is not what is measured, and no tool is done at once.
const APPLY_TAKES: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(600);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!("| Database | Bare inserts | Webhooks | ratio | p99 at half load | Wave to wave, middle | p99 |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for engine in ["Postgres", "SQLite"] {
        runtime.block_on(measure(engine));
    }
}

async fn measure(engine: &str) {
    let root = tempfile::tempdir().expect("a directory");
    let database = match engine {
        "Postgres" => match databases::postgres_url("the benchmark of the server") {
            Some(url) => Database::Postgres(url),
            None => return,
        },
        _ => Database::Sqlite(root),
    };
    let webhooks = webhooks(&database).await;
    eprintln!("{engine}: {:.0} and {:.0} a second, {}", webhooks.bare, webhooks.stored, millis(webhooks.p99));
    let waves = waves(&database).await;
    println!(
        "| {engine} | {:.0}/s | {:.0}/s | {:.2} (goal 0.5) | {} (goal 50 ms) | {} | {} of {} (goal 100 ms) |",
        webhooks.bare,
        webhooks.stored,
        webhooks.stored / webhooks.bare,
        millis(webhooks.p99),
        millis(middle(&waves)),
        millis(p99(&waves)),
        waves.len(),
    );
}

enum Database {
    Postgres(String),
    /// In this directory.
    Sqlite(TempDir),
}

impl Database {
    fn url(&self) -> String {
        match self {
            Self::Postgres(url) => url.clone(),
            Self::Sqlite(root) => databases::sqlite_url(root.path()),
        }
    }
}

// -- webhooks ---------------------------------------------------------------------------------------------------------

struct Webhooks {
    /// In a second.
    bare: f64,
    stored: f64,
    p99: Duration,
}

async fn webhooks(database: &Database) -> Webhooks {
    let root = tempfile::tempdir().expect("a directory");
    let site = Site::start(root.path(), database, Work { pulls: 1, stacks: 1, shape: Shape::Chain }).await;
    let sender = Arc::new(Sender::to(&site.server.url));
    let (mut bare, mut stored) = (Vec::new(), Vec::new());
    // The first round fills caches and is not counted.
    for _ in 0..=ROUNDS {
        bare.push(bare_inserts(database, root.path()).await);
        stored.push(sender.as_many_as_go().await);
        site.worked_off(database).await;
    }
    let [bare, stored] = [bare, stored].map(|mut rounds| {
        rounds.remove(0);
        rounds.sort_by(f64::total_cmp);
        rounds[ROUNDS / 2]
    });
    let times = sender.at_a_rate(stored / 2.0).await;
    site.server.kill().await;
    Webhooks { bare, stored, p99: p99(&times) }
}

/// Sends deliveries that were never sent before.
struct Sender {
    url: String,
    http: reqwest::Client,
    sent: AtomicUsize,
    signature: String,
}

impl Sender {
    fn to(server: &str) -> Self {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).expect("HMAC takes a key of any length");
        mac.update(PAYLOAD.as_bytes());
        let digest: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            url: format!("{server}/webhooks/github"),
            http: reqwest::Client::builder().no_proxy().build().expect("a client"),
            sent: AtomicUsize::new(0),
            signature: format!("sha256={digest}"),
        }
    }

    async fn send(&self) {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let request = self
            .http
            .post(&self.url)
            .header("X-GitHub-Event", EVENT)
            .header("X-GitHub-Delivery", format!("delivery-{number}"))
            .header("X-Hub-Signature-256", &self.signature)
            .body(PAYLOAD);
        let answer = request.send().await.expect("the server answers");
        assert_eq!(answer.status().as_u16(), 202);
        answer.bytes().await.expect("the whole answer");
    }

    /// How many a second, each client sending the next one when the last is acknowledged.
    async fn as_many_as_go(self: &Arc<Self>) -> f64 {
        let started = Instant::now();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let sender = self.clone();
                tokio::spawn(async move {
                    let mut sent = 0_u32;
                    while started.elapsed() < ROUND {
                        sender.send().await;
                        sent += 1;
                    }
                    sent
                })
            })
            .collect();
        let mut sent = 0;
        for client in clients {
            sent += client.await.expect("no client fails");
        }
        f64::from(sent) / started.elapsed().as_secs_f64()
    }

    /// How long each takes from the moment at which it should have been sent, whoever is late.
    async fn at_a_rate(self: &Arc<Self>, per_second: f64) -> Vec<Duration> {
        let every = Duration::from_secs_f64(CLIENTS as f64 / per_second);
        let started = tokio::time::Instant::now();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let sender = self.clone();
                tokio::spawn(async move {
                    let mut times = Vec::new();
                    let mut due = started + every.mul_f64(number as f64 / CLIENTS as f64);
                    while started.elapsed() < 2 * ROUND {
                        tokio::time::sleep_until(due).await;
                        sender.send().await;
                        times.push(due.elapsed());
                        due += every;
                    }
                    times
                })
            })
            .collect();
        let mut times = Vec::new();
        for client in clients {
            times.extend(client.await.expect("no client fails"));
        }
        times.sort();
        times
    }
}

/// What the database does by itself: the same row into the same table, with as many clients; SQLite has one writer.
async fn bare_inserts(database: &Database, dir: &std::path::Path) -> f64 {
    let insert = |id: &str| {
        format!(
            "insert into bare (id, event, payload, received_at, due_at, attempts, dead, last_error)
             values ({id}, '{EVENT}', '{}', 1, 1, 0, false, '') on conflict (id) do nothing",
            PAYLOAD.replace('\'', "''"),
        )
    };
    match database {
        Database::Postgres(url) => {
            let mut conn = sqlx::PgConnection::connect(url).await.expect("the database answers");
            let make = "create table if not exists bare (like deliveries including all)";
            conn.execute(make).await.expect("a table like the inbox");
            conn.close().await.expect("the connection ends");
            let script = dir.join("insert.sql");
            // A colon begins a variable of pgbench.
            let statement = insert("gen_random_uuid()::text").replace(['\n'], " ");
            let mut file = std::fs::File::create(&script).expect("a file");
            writeln!(file, "{statement};").expect("a file takes a line");
            pgbench(url, &script)
        }
        Database::Sqlite(root) => {
            let options = SqliteConnectOptions::new()
                .filename(root.path().join("bare.db"))
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal);
            let mut conn = SqliteConnection::connect_with(&options).await.expect("a file");
            let make = "create table if not exists bare (id text primary key, event text not null, payload text not null,
                received_at integer not null, due_at integer not null, attempts integer not null, claimed_by text,
                claimed_until integer, done_at integer, dead integer not null, last_error text not null) strict;
                create index if not exists bare_due on bare (due_at, received_at, id) where done_at is null and not dead;
                create index if not exists bare_received on bare (received_at);";
            conn.execute(make).await.expect("a table like the inbox");
            let statement = insert("hex(randomblob(16))");
            let started = Instant::now();
            let mut sent = 0_u32;
            while started.elapsed() < ROUND {
                conn.execute(AssertSqlSafe(statement.clone())).await.expect("a row");
                sent += 1;
            }
            f64::from(sent) / started.elapsed().as_secs_f64()
        }
    }
}

fn pgbench(url: &str, script: &std::path::Path) -> f64 {
    let mut command = Command::new("pgbench");
    command.args(["-n", "-c", &CLIENTS.to_string(), "-j", "2", "-T", &ROUND.as_secs().to_string(), "-f"]);
    let output = command.arg(script).arg(url).output().expect("pgbench is needed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}

// -- waves ------------------------------------------------------------------------------------------------------------

/// From each report that ends a wave to GitHub's being asked for the next one, sorted.
async fn waves(database: &Database) -> Vec<Duration> {
    let root = tempfile::tempdir().expect("a directory");
    let site = Site::start(root.path(), database, WAVES).await;
    let town = site.town.clone();
    let pulls = tokio::task::spawn_blocking(move || town.open_pull_requests()).await.expect("pull requests are opened");
    let planned = |pull: &town::Pull| {
        let checks = site.town.github.all_check_runs(&pull.repo, &pull.head);
        checks.iter().any(|check| check.name == "stackorder/plan" && check.conclusion.as_deref() == Some("success"))
    };
    site.until("all plans are there", || pulls.iter().all(planned)).await;
    site.town.github.idle().await;
    for pull in &pulls {
        site.town.github.comment(&pull.repo, pull.number, "alice", "stackorder apply");
    }
    let all = WAVES.pulls * WAVES.stacks;
    site.until("all stacks are applied", || site.door.ledger().accepted.len() == all).await;

    let ledger = site.door.ledger();
    assert!(ledger.broken.is_empty(), "{:?}", ledger.broken);
    let dispatched = site.dispatched.lock().expect("no holder panics");
    let mut times: Vec<Duration> = dispatched
        .iter()
        .filter_map(|((run, wave), at)| {
            // A chain: one stack a wave, of the same number.
            let report = format!("%2Fs{:02}/result", wave.checked_sub(1)?);
            let of_it = |path: &&String| path.starts_with(&format!("/v1/runs/{run}/")) && path.ends_with(&report);
            let sent = ledger.sent.iter().find(|(path, _)| of_it(path))?.1;
            Some(at.duration_since(*sent))
        })
        .collect();
    assert_eq!(times.len(), WAVES.pulls * (WAVES.stacks - 1), "waves after waves");
    times.sort();
    drop((ledger, dispatched));
    site.server.kill().await;
    times
}

/// One server, its GitHub, and when GitHub was asked for what.
struct Site {
    town: Arc<Town>,
    door: Arc<Door>,
    server: Arc<Server>,
    dispatched: Dispatched,
}

/// When GitHub was first asked for a wave of an apply, by run and wave.
type Dispatched = Arc<std::sync::Mutex<BTreeMap<(String, usize), Instant>>>;

impl Site {
    async fn start(root: &std::path::Path, database: &Database, work: Work) -> Self {
        let [door, listen] = [free_port().await, free_port().await];
        let address = listen.local_addr().expect("it is bound");
        drop(listen);
        let url = format!("http://{address}");
        let port = door.local_addr().expect("it is bound").port();
        let webhooks = format!("{url}/webhooks/github");
        let town = Arc::new(Town::build(root, work, webhooks, port, Time::of_the_machine()).await);
        let dispatched = Dispatched::default();
        let github = watched(town.github.base_url(), dispatched.clone()).await;
        let variables = [
            ("STACKORDER_BASE_URL", url.clone()),
            ("STACKORDER_LISTEN", address.to_string()),
            ("DATABASE_URL", database.url()),
            ("GITHUB_APP_ID", town.app.id.to_string()),
            ("GITHUB_APP_PRIVATE_KEY", town.app.private_key_pem.clone()),
            ("GITHUB_WEBHOOK_SECRET", WEBHOOK_SECRET.to_owned()),
            ("GITHUB_API_URL", format!("{github}/api/v3")),
            ("GITHUB_WEB_URL", town.github.base_url().to_owned()),
            ("GITHUB_OIDC_ISSUER", town.github.oidc_issuer()),
        ];
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let server = Server::start(variables, None).await;
        let door = Door::open(door, url, work, APPLY_TAKES);
        Self { town, door, server, dispatched }
    }

    async fn until(&self, hope: &str, came_about: impl Fn() -> bool) {
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
    async fn worked_off(&self, database: &Database) {
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
    let listener = free_port().await;
    let own = format!("http://{}", listener.local_addr().expect("it is bound"));
    let state = (github.to_owned(), own.clone(), lines::client(), dispatched);
    lines::serve(listener, Router::new().fallback(note).with_state(Arc::new(state)));
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
    match lines::pass(http, github, &method, &uri, &headers, body).await {
        Ok(answer) => lines::with_links_to(answer, github, own),
        Err(_) => lines::nobody(),
    }
}

async fn free_port() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free")
}

fn middle(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() / 2]
}

fn p99(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() * 99 / 100]
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
