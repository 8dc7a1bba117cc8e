//! How fast the server stands between GitHub and its database (`cargo bench --bench server`), on Postgres and on SQLite.
//!
//! - How many webhooks are stored and acknowledged in a second, as a ratio of the bare inserts of the same row, taken in
//!   turns so that a busy machine slows both sides; and how long one takes at half that load.
//! - How long it takes from the last report of a wave until GitHub is asked for the next one, with 50 runs in flight.
//!
//! The world around the server is that of `tests/it/fire`. Prints the table of `docs/performance.md`.
//!
//! - `webhooks`, `waves`: the two measurements; `site`: the server that they are of.

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
#[path = "../tests/it/workflows.rs"]
mod workflows;

#[path = "server/site.rs"]
mod site;
#[path = "server/waves.rs"]
mod waves;
#[path = "server/webhooks.rs"]
mod webhooks;

use std::time::Duration;

use tempfile::TempDir;

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
    let webhooks = webhooks::measure(&database).await;
    eprintln!("{engine}: {:.0} and {:.0} a second, {}", webhooks.bare, webhooks.stored, millis(webhooks.p99));
    let waves = waves::measure(&database).await;
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

fn middle(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() / 2]
}

fn p99(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() * 99 / 100]
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
