//! SQLite: one file, one writer, one node.

use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::pool::PoolOptions;
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqliteJournalMode, SqliteQueryResult};

use super::dialect::Dialect;
use super::sql::SqlStore;
use super::{Result, StoreError};

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// How long a writer waits for the one before it.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

impl Dialect for Sqlite {
    const BEGIN_WRITE: &'static str = "begin immediate";
    // A deferred transaction reads from one snapshot of the write-ahead log.
    const BEGIN_READ: &'static str = "begin";
    const SKIP_LOCKED: &'static str = "";

    fn rows_affected(done: &SqliteQueryResult) -> u64 {
        done.rows_affected()
    }
}

pub(super) async fn open(database_url: &str, connections: u32) -> Result<SqlStore<Sqlite>> {
    let options = SqliteConnectOptions::from_str(database_url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true);
    // Every connection to `:memory:` is a database of its own: there must be one, and it must stay.
    let in_memory = database_url.contains(":memory:") || database_url.contains("mode=memory");
    let pool = PoolOptions::<Sqlite>::new()
        .max_connections(if in_memory { 1 } else { connections.max(1) })
        .min_connections(u32::from(in_memory))
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(options)
        .await?;

    // sqlx locks nothing here on SQLite, so the write lock is taken around all of them: two servers may start at once.
    let mut tx = pool.begin_with(Sqlite::BEGIN_WRITE).await?;
    MIGRATIONS.run_direct(None, &mut *tx, false).await.map_err(|error| StoreError::Db(error.into()))?;
    tx.commit().await?;
    Ok(SqlStore::new(pool))
}
