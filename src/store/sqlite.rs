//! SQLite: one file, one writer, one node.

use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::pool::PoolOptions;
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteQueryResult};
use sqlx::{Connection as _, Pool};

use super::dialect::Dialect;
use super::sql::SqlStore;
use super::{Result, Schema, StoreError};

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// How long a writer waits for the one before it.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

impl Dialect for Sqlite {
    const BEGIN_WRITE: &'static str = "begin immediate";
    // A deferred transaction reads from one snapshot of the write-ahead log.
    const BEGIN_READ: &'static str = "begin";
    const SKIP_LOCKED: &'static str = "";
    const JSON_ROWS: &'static str = "json_group_array";
    const JSON_ARRAY: &'static str = "json_array";
    const ONE_PROCESS: bool = true;

    fn rows_affected(done: &SqliteQueryResult) -> u64 {
        done.rows_affected()
    }
}

pub(super) async fn open(database_url: &str, connections: u32) -> Result<SqlStore<Sqlite>> {
    let options = SqliteConnectOptions::from_str(database_url)?
        .create_if_missing(true)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true);
    look_at(&options).await?;
    let options = options.journal_mode(SqliteJournalMode::Wal);
    let writer = pool_of(1).min_connections(1).connect_with(options.clone()).await?;

    if let Err(error) = migrate(&writer).await {
        writer.close().await;
        return Err(error);
    }

    // Every connection to `:memory:` is a database of its own, so there can be only one.
    let in_memory = database_url.contains(":memory:") || database_url.contains("mode=memory");
    let pool = if in_memory { writer.clone() } else { pool_of(connections.max(1)).connect_with(options).await? };
    Ok(SqlStore::new(pool, writer))
}

/// A file that is not there stays so.
pub(super) async fn schema_of(database_url: &str) -> Result<Schema> {
    let options = SqliteConnectOptions::from_str(database_url)?.create_if_missing(false).busy_timeout(BUSY_TIMEOUT);
    let mut conn = SqliteConnection::connect_with(&options).await?;
    let made = async {
        let tables = "select count(*) from sqlite_schema where name = '_sqlx_migrations'";
        match sqlx::query_scalar::<_, i64>(tables).fetch_one(&mut conn).await? {
            0 => Ok(Vec::new()),
            _ => sqlx::query_scalar("select version from _sqlx_migrations where success").fetch_all(&mut conn).await,
        }
    };
    let made: std::result::Result<Vec<i64>, sqlx::Error> = made.await;
    conn.close().await?;
    Ok(Schema::compare(&made?.into_iter().collect(), &MIGRATIONS.iter().map(|one| one.version).collect()))
}

/// Reads the schema. A connection that fails while it is made closes at its own pace, and the process may end before it has
/// removed the log that it began beside a damaged file; this one is closed here.
async fn look_at(options: &SqliteConnectOptions) -> Result<()> {
    let mut conn = SqliteConnection::connect_with(options).await?;
    let schema = sqlx::query("select count(*) from sqlite_schema").execute(&mut conn).await;
    conn.close().await?;
    schema?;
    Ok(())
}

/// All migrations or none of them. sqlx locks nothing here on SQLite, so the write lock is taken around all of them: two
/// servers may start at once.
async fn migrate(writer: &Pool<Sqlite>) -> Result<()> {
    let mut tx = writer.begin_with(Sqlite::BEGIN_WRITE).await?;
    MIGRATIONS.run_direct(None, &mut *tx, false).await.map_err(|error| StoreError::Db(error.into()))?;
    Ok(tx.commit().await?)
}

/// Connections to a file cost nothing while they idle, and do not break.
fn pool_of(connections: u32) -> PoolOptions<Sqlite> {
    PoolOptions::new().max_connections(connections).idle_timeout(None).max_lifetime(None).test_before_acquire(false)
}
