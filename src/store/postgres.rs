//! Postgres: any number of servers on one database.

use std::str::FromStr;
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::migrate::Migrator;
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgQueryResult, Postgres};

use super::dialect::Dialect;
use super::sql::SqlStore;
use super::{Result, Schema, StoreError};

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// A connection that nobody used for so long may have gone with a restart of the database, and is asked before it is used.
const RESTED: Duration = Duration::from_secs(1);

impl Dialect for Postgres {
    const BEGIN_WRITE: &'static str = "begin";
    const BEGIN_READ: &'static str = "begin isolation level repeatable read read only";
    const SKIP_LOCKED: &'static str = " for update skip locked";
    const JSON_ROWS: &'static str = "json_agg";
    const JSON_ARRAY: &'static str = "json_build_array";
    const ONE_PROCESS: bool = false;

    fn rows_affected(done: &PgQueryResult) -> u64 {
        done.rows_affected()
    }
}

/// Of the one schema that the connection looks at first, like every statement of the store.
pub(super) async fn schema_of(database_url: &str) -> Result<Schema> {
    let mut conn = PgConnection::connect_with(&PgConnectOptions::from_str(database_url)?).await?;
    let made = async {
        let table: Option<String> =
            sqlx::query_scalar("select cast(to_regclass('_sqlx_migrations') as text)").fetch_one(&mut conn).await?;
        match table {
            Some(_) => {
                sqlx::query_scalar("select version from _sqlx_migrations where success").fetch_all(&mut conn).await
            }
            None => Ok(Vec::new()),
        }
    };
    let made: std::result::Result<Vec<i64>, sqlx::Error> = made.await;
    conn.close().await?;
    Ok(Schema::compare(&made?.into_iter().collect(), &MIGRATIONS.iter().map(|one| one.version).collect()))
}

pub(super) async fn open(database_url: &str, connections: u32) -> Result<SqlStore<Postgres>> {
    let options = PgConnectOptions::from_str(database_url)?;
    // A pool tries again for half a minute and then tells only that it waited; one connection tells why, at once.
    PgConnection::connect_with(&options).await?.close().await?;
    let pool = PoolOptions::<Postgres>::new()
        .max_connections(connections.max(1))
        // Asking each time whether the connection is there would be a way to the database and back for every statement.
        .test_before_acquire(false)
        .before_acquire(|conn, meta| {
            Box::pin(async move {
                if meta.idle_for > RESTED {
                    conn.ping().await?;
                }
                Ok(true)
            })
        })
        .connect_with(options)
        .await?;
    // Under sqlx's advisory lock: servers that start at once migrate one after the other.
    MIGRATIONS.run(&pool).await.map_err(|error| StoreError::Db(error.into()))?;
    Ok(SqlStore::new(pool.clone(), pool))
}
