//! What is not kept for ever, and goes once an hour (spec 21 §8, spec 30 §11.4).

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, QueryBuilder, Type, query};

use super::value::column;
use super::{SqlStore, end};
use crate::clock::Millis;
use crate::run::once;
use crate::store::dialect::Dialect;
use crate::store::{Result, Retention};

/// Names read in one statement; those of them that go are as many parameters of the next, and SQLite takes 32,766.
const NAMES_PER_PAGE: i64 = 5_000;

impl<DB: Dialect> SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn drop_expired(&self, now: Millis, keep: &Retention) -> Result<u64> {
        let mut tx = self.begin_write().await?;
        let outcome = Self::delete_expired(&mut tx, now, keep).await;
        end(tx, outcome).await
    }

    async fn delete_expired(conn: &mut DB::Connection, now: Millis, keep: &Retention) -> Result<u64> {
        // Each deletes what is older than `$1`.
        let statements = [
            (
                keep.plan_text_ms,
                "delete from plan_texts where exists (select 1 from run_stacks
                 where run_stacks.run_id = plan_texts.run_id and run_stacks.stack_id = plan_texts.stack_id
                 and run_stacks.updated_at < $1)",
            ),
            (
                keep.events_ms,
                "delete from deliveries where received_at < $1 and (done_at is not null or claimed_by is null)",
            ),
            // A dead job became due when it died.
            (keep.events_ms, "delete from jobs where dead and due_at < $1"),
            // The newest of each stack stays.
            (
                keep.drift_ms,
                "delete from drift where checked_at < $1 and exists (select 1 from drift as newer
                 where newer.stack_id = drift.stack_id
                 and (newer.checked_at, newer.run_id) > (drift.checked_at, drift.run_id))",
            ),
            (0, "delete from oidc_jtis where expires_at < $1"),
            (0, "delete from leases where expires_at < $1"),
        ];
        let mut gone = 0;
        for (age_ms, statement) in statements {
            let done = query(statement).bind(now.saturating_sub(age_ms)).execute(&mut *conn).await?;
            gone += DB::rows_affected(&done);
        }
        Ok(gone + Self::delete_names(conn, now).await?)
    }

    /// Names claimed once that cannot come again: they alone know it, so all are looked at, some at a time.
    async fn delete_names(conn: &mut DB::Connection, now: Millis) -> Result<u64> {
        let mut gone = 0;
        let mut last = String::new();
        loop {
            let page = query("select name from once where name > $1 order by name limit $2")
                .bind(last)
                .bind(NAMES_PER_PAGE)
                .fetch_all(&mut *conn)
                .await?;
            let names = page.iter().map(|row| column::<DB, String>(row, 0)).collect::<Result<Vec<String>>>()?;
            let Some(newest) = names.last().cloned() else { return Ok(gone) };
            last = newest;
            let over: Vec<&String> = names.iter().filter(|name| once::is_over(name, now)).collect();
            if over.is_empty() {
                continue;
            }
            let mut delete = QueryBuilder::<DB>::new("delete from once where name in (");
            let mut list = delete.separated(", ");
            for name in over {
                list.push_bind(name.clone());
            }
            delete.push(")");
            gone += DB::rows_affected(&delete.build().execute(&mut *conn).await?);
        }
    }
}
