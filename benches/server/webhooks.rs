//! How many webhooks are stored and acknowledged, against the bare inserts of the same row.

use std::io::Write as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use crate::site::Site;
use crate::town::{Shape, WEBHOOK_SECRET, Work};
use crate::{Database, p99};

/// As many clients as GitHub's deliveries come in at once on a busy day.
const CLIENTS: usize = 8;
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(5);
/// An event of GitHub's documents, 6.8 KB, of a repository that the server does not know: what is worked off afterwards is
/// as little as can be.
const EVENT: &str = "push";
const PAYLOAD: &str = include_str!("../../tests/fixtures/webhooks/push.json");

pub struct Webhooks {
    /// In a second.
    pub bare: f64,
    pub stored: f64,
    /// At half that load.
    pub p99: Duration,
}

/// Both in turns, then some at half the load.
pub async fn measure(database: &Database) -> Webhooks {
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
