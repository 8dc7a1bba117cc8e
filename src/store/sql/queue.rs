//! Inbox and outbox: claimed under a lease, finished by who holds it.

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, QueryBuilder, Type, query};

use super::SqlStore;
use super::value::{column, from_json, text, to_json, unsigned};
use crate::clock::Millis;
use crate::run::scene::{JobKind, NewJob};
use crate::store::dialect::Dialect;
use crate::store::rules::error_text;
use crate::store::{Delivery, Job, Outcome, Result, StoreError};

impl<DB: Dialect> SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> Option<String>: Encode<'q, DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn next_delivery(&self, worker: &str, now: Millis, lease_ms: Millis) -> Result<Option<Delivery>> {
        let mut claim = QueryBuilder::<DB>::new("update deliveries set");
        push_claim(&mut claim, worker, now, lease_ms);
        claim.push(" where id = (select id from deliveries where done_at is null and not dead");
        push_claimable(&mut claim, now);
        claim.push(" order by due_at, received_at, id limit 1");
        claim.push(DB::SKIP_LOCKED);
        claim.push(") returning id, event, payload, received_at, attempts");
        let Some(row) = claim.build().fetch_optional(&self.writer).await? else { return Ok(None) };
        Ok(Some(Delivery {
            id: column::<DB, _>(&row, 0)?,
            event: column::<DB, _>(&row, 1)?,
            payload: column::<DB, _>(&row, 2)?,
            received_at: column::<DB, _>(&row, 3)?,
            attempts: unsigned("deliveries", column::<DB, _>(&row, 4)?)?,
        }))
    }

    pub(super) async fn prolong_delivery(&self, id: &str, worker: &str, now: Millis, lease_ms: Millis) -> Result<bool> {
        let mut renew = QueryBuilder::<DB>::new("update deliveries set claimed_until = ");
        renew.push_bind(now.saturating_add(lease_ms));
        renew.push(" where id = ").push_bind(text(id)).push(" and claimed_by = ").push_bind(text(worker));
        Ok(DB::rows_affected(&renew.build().execute(&self.writer).await?) == 1)
    }

    pub(super) async fn end_delivery(&self, id: &str, worker: &str, outcome: &Outcome, now: Millis) -> Result<()> {
        let mut end = QueryBuilder::<DB>::new("update deliveries set claimed_by = null, claimed_until = null");
        match outcome {
            Outcome::Done => {
                end.push(", done_at = ").push_bind(now);
            }
            Outcome::Retry { at, error } => push_failure(&mut end, *at, error),
            Outcome::Dead { error } => {
                push_failure(&mut end, now, error);
                end.push(", dead = true");
            }
            Outcome::Unstarted { at } => {
                end.push(", due_at = ").push_bind(*at);
            }
        }
        end.push(" where id = ").push_bind(text(id)).push(" and claimed_by = ").push_bind(text(worker));
        end.build().execute(&self.writer).await?;
        Ok(())
    }

    pub(super) async fn queue_job(&self, job: &NewJob) -> Result<()> {
        let mut conn = self.writer.acquire().await?;
        Self::insert_job(&mut conn, job).await
    }

    /// A key that waits already takes the newest payload and the earlier time; one that is being worked on keeps its time
    /// and runs again afterwards; a dead one lives again.
    pub(super) async fn insert_job(conn: &mut DB::Connection, job: &NewJob) -> Result<()> {
        query(
            "insert into jobs (kind, payload, key, due_at, attempts, generation, dead, last_error)
             values ($1, $2, $3, $4, 0, 0, false, '')
             on conflict (key) do update set kind = excluded.kind, payload = excluded.payload,
             generation = jobs.generation + 1,
             due_at = case when jobs.dead then excluded.due_at
                 when jobs.claimed_by is not null or jobs.due_at <= excluded.due_at then jobs.due_at
                 else excluded.due_at end,
             attempts = case when jobs.dead then 0 else jobs.attempts end,
             last_error = case when jobs.dead then '' else jobs.last_error end,
             dead = false",
        )
        .bind(text(job.kind.as_str()))
        .bind(to_json(&job.payload))
        .bind(job.key.as_ref().map(text))
        .bind(job.due_at)
        .execute(&mut *conn)
        .await?;
        Ok(())
    }

    pub(super) async fn next_job(
        &self,
        kind: Option<JobKind>,
        worker: &str,
        now: Millis,
        lease_ms: Millis,
    ) -> Result<Option<Job>> {
        let mut claim = QueryBuilder::<DB>::new("update jobs set");
        push_claim(&mut claim, worker, now, lease_ms);
        claim.push(" where id = (select id from jobs where not dead");
        if let Some(kind) = kind {
            claim.push(" and kind = ").push_bind(text(kind.as_str()));
        }
        push_claimable(&mut claim, now);
        claim.push(" order by due_at, id limit 1");
        claim.push(DB::SKIP_LOCKED);
        claim.push(") returning id, kind, payload, key, due_at, attempts, generation");
        let Some(row) = claim.build().fetch_optional(&self.writer).await? else { return Ok(None) };
        let id = column::<DB, i64>(&row, 0)?.to_string();
        Ok(Some(Job {
            kind: JobKind::parse(&column::<DB, String>(&row, 1)?).map_err(|error| ("jobs", error))?,
            payload: from_json("jobs", &id, &column::<DB, String>(&row, 2)?)?,
            key: column::<DB, _>(&row, 3)?,
            due_at: column::<DB, _>(&row, 4)?,
            attempts: unsigned("jobs", column::<DB, _>(&row, 5)?)?,
            generation: column::<DB, _>(&row, 6)?,
            id,
        }))
    }

    pub(super) async fn prolong_job(&self, job: &Job, worker: &str, now: Millis, lease_ms: Millis) -> Result<bool> {
        let mut renew = QueryBuilder::<DB>::new("update jobs set claimed_until = ");
        renew.push_bind(now.saturating_add(lease_ms));
        push_holder(&mut renew, job, worker)?;
        Ok(DB::rows_affected(&renew.build().execute(&self.writer).await?) == 1)
    }

    pub(super) async fn end_job(&self, job: &Job, worker: &str, outcome: &Outcome, now: Millis) -> Result<()> {
        let mut end = match outcome {
            Outcome::Done => QueryBuilder::<DB>::new("delete from jobs"),
            Outcome::Retry { .. } | Outcome::Dead { .. } | Outcome::Unstarted { .. } => {
                QueryBuilder::new("update jobs set claimed_by = null, claimed_until = null")
            }
        };
        match outcome {
            Outcome::Done => {}
            Outcome::Unstarted { at } => {
                end.push(", due_at = ").push_bind(*at);
            }
            Outcome::Retry { at, error } => push_failure(&mut end, *at, error),
            Outcome::Dead { error } => {
                push_failure(&mut end, now, error);
                end.push(", dead = true");
            }
        }
        push_holder(&mut end, job, worker)?;
        let ends = matches!(outcome, Outcome::Done | Outcome::Dead { .. });
        if ends {
            end.push(" and generation = ").push_bind(job.generation);
        }
        let done = end.build().execute(&self.writer).await?;
        if ends && DB::rows_affected(&done) == 0 {
            // Asked for again while it was being worked on (or no longer ours, then nothing happens).
            let mut again = QueryBuilder::<DB>::new(
                "update jobs set claimed_by = null, claimed_until = null, attempts = 0, due_at = ",
            );
            again.push_bind(now);
            push_holder(&mut again, job, worker)?;
            again.build().execute(&self.writer).await?;
        }
        Ok(())
    }

    pub(super) async fn earliest_due(&self) -> Result<Option<Millis>> {
        // What is claimed comes back when its lease ends.
        let row = query(
            "select min(due) from (
                 select coalesce(claimed_until, due_at) as due from deliveries where done_at is null and not dead
                 union all
                 select coalesce(claimed_until, due_at) as due from jobs where not dead
             ) as waiting",
        )
        .fetch_one(&self.pool)
        .await?;
        column::<DB, _>(&row, 0)
    }
}

/// A claim whose lease ran out was an attempt.
fn push_claim<DB: Dialect>(claim: &mut QueryBuilder<DB>, worker: &str, now: Millis, lease_ms: Millis)
where
    for<'q> i64: Encode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Type<DB>,
{
    claim.push(" claimed_by = ").push_bind(text(worker));
    claim.push(", claimed_until = ").push_bind(now.saturating_add(lease_ms));
    claim.push(", attempts = attempts + case when claimed_by is null then 0 else 1 end");
    claim.push(", last_error = case when claimed_by is null then last_error else 'claim expired' end");
}

fn push_claimable<DB: Dialect>(claim: &mut QueryBuilder<DB>, now: Millis)
where
    for<'q> i64: Encode<'q, DB> + Type<DB>,
{
    claim.push(" and due_at <= ").push_bind(now);
    claim.push(" and (claimed_until is null or claimed_until <= ").push_bind(now).push(")");
}

fn push_failure<DB: Dialect>(end: &mut QueryBuilder<DB>, due_at: Millis, error: &str)
where
    for<'q> i64: Encode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Type<DB>,
{
    end.push(", attempts = attempts + 1, due_at = ").push_bind(due_at);
    end.push(", last_error = ").push_bind(error_text(error));
}

fn push_holder<DB: Dialect>(end: &mut QueryBuilder<DB>, job: &Job, worker: &str) -> Result<()>
where
    for<'q> i64: Encode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Type<DB>,
{
    let id: i64 = job.id.parse().map_err(|error| StoreError::corrupt("jobs", &job.id, error))?;
    end.push(" where id = ").push_bind(id).push(" and claimed_by = ").push_bind(text(worker));
    Ok(())
}
