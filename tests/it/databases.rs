//! Databases for tests: an empty one for each test, on every engine this machine has.
//!
//! Postgres comes from `STACKORDER_TEST_DATABASE_URL` (a database in which schemas may be created), else from a private
//! server that this process starts once and that ends with it. With neither, tests on Postgres say that they did not run
//! (`machine`).
//!
//! Each test has a schema of its own, not a database: a new schema takes 10 ms, a new database copies 7 MB.

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use stackorder::demo::ports::free_port;
use stackorder::store::{self, MemoryStore, Store};

use crate::machine::{not_run, say};

/// Connections of a store under test: enough for the racing tasks of one test, few enough for many tests at once.
const CONNECTIONS: u32 = 4;

/// The engines a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Memory,
    Sqlite,
    Postgres,
}

/// Runs the test once for each engine, each time with an empty store.
pub async fn each_store<F, Fut>(test_name: &str, test: F)
where
    F: Fn(Arc<dyn Store>) -> Fut,
    Fut: Future<Output = ()>,
{
    for engine in [Engine::Memory, Engine::Sqlite, Engine::Postgres] {
        with_store(engine, test_name, &test).await;
    }
}

/// Runs the test with an empty store of this engine, or says that it cannot.
pub async fn with_store<F, Fut>(engine: Engine, test_name: &str, test: F)
where
    F: FnOnce(Arc<dyn Store>) -> Fut,
    Fut: Future<Output = ()>,
{
    match engine {
        Engine::Memory => test(Arc::new(MemoryStore::default())).await,
        Engine::Sqlite => {
            let dir = tempfile::tempdir().unwrap();
            test(store::open(&sqlite_url(dir.path()), CONNECTIONS).await.unwrap()).await;
        }
        Engine::Postgres => {
            let Some(url) = postgres_url(test_name) else { return };
            test(store::open(&url, CONNECTIONS).await.unwrap()).await;
            // After a failure it stays to be looked at, as long as its server does.
            drop_schema(&url);
        }
    }
}

pub fn sqlite_url(dir: &Path) -> String {
    format!("sqlite://{}", dir.join("test.db").display())
}

/// The URL of a new, empty Postgres schema, or `None` after saying that the test did not run.
pub fn postgres_url(test_name: &str) -> Option<String> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);

    let Some(server) = SERVER.get_or_init(Server::find) else {
        not_run(test_name, "postgres");
        return None;
    };
    let schema = format!("test_{}_{}", std::process::id(), SCHEMAS.fetch_add(1, Ordering::Relaxed));
    run_statement(server.url.clone(), format!("create schema {schema}"));
    let joint = if server.url.contains('?') { '&' } else { '?' };
    Some(format!("{}{joint}{SEARCH_PATH}{schema}", server.url))
}

/// The option of a connection that makes the schema the one where everything is looked for and created.
const SEARCH_PATH: &str = "options=-csearch_path%3D";

/// For a server that outlives the tests.
fn drop_schema(url: &str) {
    let (_, schema) = url.rsplit_once(SEARCH_PATH).expect("postgres_url made it");
    run_statement(url.to_owned(), format!("drop schema {schema} cascade"));
}

/// On a thread of its own: the caller may or may not be inside a runtime.
fn run_statement(url: String, statement: String) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut conn = PgConnection::connect(&url).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut conn).await.unwrap();
            conn.close().await.unwrap();
        });
    })
    .join()
    .unwrap();
}

struct Server {
    url: String,
    /// The shell that keeps the private server stops it when this end of the pipe closes, however this process ends.
    _leash: Option<ChildStdin>,
}

impl Server {
    fn find() -> Option<Self> {
        match std::env::var("STACKORDER_TEST_DATABASE_URL") {
            Ok(url) if !url.is_empty() => Some(Self { url, _leash: None }),
            _ => Self::start(),
        }
    }

    /// `initdb` and `pg_ctl` in a folder of their own, as the user `postgres` when we are root: they refuse root.
    fn start() -> Option<Self> {
        let bin = postgres_programs()?;
        let dir = tempfile::Builder::new().prefix("stackorder-postgres-").tempdir().ok()?.keep();
        let port = free_port(0).ok()?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(KEEP_POSTGRES).arg("sh").arg(&bin).arg(&dir).arg(port.to_string());
        // Of its own process group, so that Ctrl-C at `cargo test` does not end the shell before it cleans up.
        shell.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        if std::fs::metadata(&dir).is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0) {
            let (uid, gid) = postgres_user()?;
            chown(&dir, Some(uid), Some(gid)).ok()?;
            shell.uid(uid).gid(gid);
        }
        let mut child = shell.spawn().ok()?;
        let leash = child.stdin.take();
        let mut answer = String::new();
        BufReader::new(child.stdout.take()?).read_line(&mut answer).ok()?;
        if answer.trim() != "ready" {
            say(&format!("the private Postgres did not start: {}", answer.trim()));
            return None;
        }
        Some(Self { url: format!("postgres://postgres@127.0.0.1:{port}/postgres"), _leash: leash })
    }
}

/// `$1` programs, `$2` folder, `$3` port. Answers one line, then waits for the end of its input.
const KEEP_POSTGRES: &str = r#"
exec 2>"$2/errors"
if "$1/initdb" -D "$2/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$2/initdb" &&
    "$1/pg_ctl" -D "$2/data" -w -s -l "$2/log" start -o \
        "-p $3 -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c full_page_writes=off -c wal_init_zero=off -c max_connections=300" >"$2/start"
then
    echo ready
    cat >/dev/null
    "$1/pg_ctl" -D "$2/data" -s -m immediate stop
else
    tr '\n' ' ' <"$2/errors"; echo
fi
rm -rf "$2"
"#;

/// The folder with `initdb` and `pg_ctl`: on `PATH`, or where Debian keeps them (newest first).
fn postgres_programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    debian.sort();
    folders.extend(debian.into_iter().rev());
    folders.into_iter().find(|folder| ["initdb", "pg_ctl"].iter().all(|name| folder.join(name).is_file()))
}

/// User and group number of the unprivileged user `postgres`.
fn postgres_user() -> Option<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields: Vec<&str> = users.lines().find(|line| line.starts_with("postgres:"))?.split(':').collect();
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}
