//! The queue as an operator sees it, and dead letters put back into it.

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, QueryBuilder, Type};

use super::value::{column, text, unsigned};
use super::{SqlStore, end};
use crate::clock::Millis;
use crate::run::model::AuditEntry;
use crate::store::dialect::Dialect;
use crate::store::{QueueFilter, QueueId, Queued, Result};

impl<DB: Dialect> SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> bool: Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> Option<i64>: Encode<'q, DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn list_queue(&self, filter: QueueFilter, limit: u32) -> Result<Vec<Queued>> {
        let mut deliveries = QueryBuilder::<DB>::new(
            "select event, due_at, claimed_until, attempts, dead, last_error, id from deliveries where done_at is null",
        );
        let mut jobs = QueryBuilder::<DB>::new(
            "select kind, due_at, claimed_until, attempts, dead, last_error, id, key from jobs where true",
        );
        if filter == QueueFilter::Dead {
            deliveries.push(" and dead");
            jobs.push(" and dead");
        }
        deliveries.push(" order by due_at, received_at, id limit ").push_bind(i64::from(limit));
        jobs.push(" order by due_at, id limit ").push_bind(i64::from(limit));
        let mut found = Vec::new();
        for row in deliveries.build().fetch_all(&self.pool).await? {
            found.push(queued::<DB>(&row, QueueId::Event(column::<DB, _>(&row, 6)?), None)?);
        }
        for row in jobs.build().fetch_all(&self.pool).await? {
            found.push(queued::<DB>(&row, QueueId::Job(column::<DB, _>(&row, 6)?), column::<DB, _>(&row, 7)?)?);
        }
        // Each list is in its own order already, and stays so.
        found.sort_by_key(|one| one.due_at);
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(found)
    }

    pub(super) async fn put_back(&self, id: &QueueId, now: Millis, audit: &AuditEntry) -> Result<bool> {
        let mut tx = self.begin_write().await?;
        let outcome = Self::revive_dead(&mut tx, id, now, audit).await;
        end(tx, outcome).await
    }

    async fn revive_dead(conn: &mut DB::Connection, id: &QueueId, now: Millis, audit: &AuditEntry) -> Result<bool> {
        let mut revive = QueryBuilder::<DB>::new(match id {
            QueueId::Event(_) => "update deliveries",
            QueueId::Job(_) => "update jobs",
        });
        revive.push(" set dead = false, attempts = 0, last_error = '', due_at = ").push_bind(now);
        revive.push(" where dead and id = ");
        match id {
            QueueId::Event(id) => revive.push_bind(text(id)),
            QueueId::Job(id) => revive.push_bind(*id),
        };
        let revived = DB::rows_affected(&revive.build().execute(&mut *conn).await?) == 1;
        if revived {
            Self::insert_audit(conn, audit).await?;
        }
        Ok(revived)
    }
}

fn queued<DB: Dialect>(row: &DB::Row, id: QueueId, key: Option<String>) -> Result<Queued>
where
    for<'q> i64: Decode<'q, DB> + Type<DB>,
    for<'q> bool: Decode<'q, DB> + Type<DB>,
    for<'q> String: Decode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let table = match id {
        QueueId::Event(_) => "deliveries",
        QueueId::Job(_) => "jobs",
    };
    Ok(Queued {
        id,
        kind: column::<DB, _>(row, 0)?,
        key,
        due_at: column::<DB, _>(row, 1)?,
        claimed_until: column::<DB, _>(row, 2)?,
        attempts: unsigned(table, column::<DB, _>(row, 3)?)?,
        dead: column::<DB, _>(row, 4)?,
        last_error: column::<DB, _>(row, 5)?,
    })
}
