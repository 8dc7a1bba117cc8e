//! How fast the server stands between GitHub and its database, on Postgres and on SQLite: `cargo bench --bench server`, or a
//! part of it, such as `cargo bench --bench server -- Postgres waves`.
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
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!("| Database | Bare inserts | Webhooks | ratio | p99 at half load | Wave to wave, middle | p99 |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let of = |names: &[&'static str]| {
        let named: Vec<&str> = names.iter().copied().filter(|name| asked.iter().any(|word| word == name)).collect();
        if named.is_empty() { names.to_vec() } else { named }
    };
    for engine in of(&["Postgres", "SQLite"]) {
        runtime.block_on(measure(engine, &of(&["webhooks", "waves"])));
    }
}

async fn measure(engine: &str, parts: &[&str]) {
    let root = tempfile::tempdir().expect("a directory");
    let database = match engine {
        "Postgres" => match databases::postgres_url("the benchmark of the server") {
            Some(url) => Database::Postgres(url),
            None => return,
        },
        _ => Database::Sqlite(root),
    };
    let mut cells = vec!["–".to_owned(); 6];
    if parts.contains(&"webhooks") {
        let found = webhooks::measure(&database).await;
        cells[0] = format!("{:.0}/s", found.bare);
        cells[1] = format!("{:.0}/s", found.stored);
        cells[2] = format!("{:.2} (goal 0.5)", found.stored / found.bare);
        cells[3] = format!("{} (goal 50 ms)", millis(found.p99));
        eprintln!("{engine}: {}", cells[..4].join(", "));
    }
    if parts.contains(&"waves") {
        let waves = waves::measure(&database).await;
        cells[4] = millis(middle(&waves));
        cells[5] = format!("{} of {} (goal 100 ms)", millis(p99(&waves)), waves.len());
    }
    println!("| {engine} | {} |", cells.join(" | "));
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
