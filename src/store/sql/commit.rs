//! The one write: everything of a decision, or nothing.

use std::collections::BTreeSet;

use sqlx::query::Query;
use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, QueryBuilder, Type, query};

use super::value::{text, to_json};
use super::{SqlStore, end};
use crate::clock::Millis;
use crate::ids::StackId;
use crate::run::model::{Dispatch, DriftSeen, Lock, Row, Run, Verdict};
use crate::run::scene::{Changes, PlanText};
use crate::store::dialect::Dialect;
use crate::store::rules::runs_of;
use crate::store::{Result, StoreError};

/// Rows in one `insert`: ten columns each stay far below what either database binds at most (32,766 in SQLite).
pub(super) const ROWS_PER_STATEMENT: usize = 200;

const INSERT_RUN: &str = "insert into runs
    (id, repo_id, sha, pr_number, trigger, mode, status, requested_by, for_run, for_wave, workflow_run_id, created_at,
     version, body)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

const UPDATE_RUN: &str = "update runs set
    repo_id = $2, sha = $3, pr_number = $4, trigger = $5, mode = $6, status = $7, requested_by = $8, for_run = $9,
    for_wave = $10, workflow_run_id = $11, created_at = $12, version = $13, body = $14
    where id = $1 and version = $15";

impl<DB: Dialect> SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> bool: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> Option<String>: Encode<'q, DB>,
    for<'q> Option<i64>: Encode<'q, DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn write_changes(&self, changes: &Changes) -> Result<()> {
        let mut tx = self.begin_write().await?;
        let outcome = self.write_all(&mut tx, changes).await;
        match end(tx, outcome).await {
            // A unique index cannot say whose turn it was; all of them are loaded again.
            Err(StoreError::Conflict(moved)) if moved.is_empty() => Err(StoreError::Conflict(runs_of(changes))),
            done => done,
        }
    }

    async fn write_all(&self, conn: &mut DB::Connection, changes: &Changes) -> Result<()> {
        let effects = &changes.effects;
        if let Some(version) = changes.locks_version {
            let done = query("update repos set locks_version = locks_version + 1 where id = $1 and locks_version = $2")
                .bind(changes.repo_id)
                .bind(version)
                .execute(&mut *conn)
                .await?;
            if DB::rows_affected(&done) == 0 {
                return Err(StoreError::Conflict(Vec::new()));
            }
        }
        for name in &effects.once {
            query("insert into once (name) values ($1)").bind(text(name)).execute(&mut *conn).await?;
        }
        Self::update_runs(conn, &changes.runs).await?;
        for run in &changes.new_runs {
            bind_run(query(INSERT_RUN), run).execute(&mut *conn).await?;
        }
        Self::write_rows(conn, &changes.rows).await?;
        Self::write_dispatches(conn, &changes.dispatches).await?;
        Self::write_verdicts(conn, &changes.verdicts).await?;
        Self::release_locks(conn, changes).await?;
        Self::take_locks(conn, &changes.locks_taken).await?;
        for (repo_id, key, at) in &changes.changed_at {
            Self::see_stacks(conn, *repo_id, [key.as_str()], *at).await?;
            // Only ever later: two applies of one stack may be recorded in either order.
            query("update stacks set changed_at = $2 where id = $1 and (changed_at is null or changed_at < $2)")
                .bind(text(StackId::of(*repo_id, key.as_str())))
                .bind(*at)
                .execute(&mut *conn)
                .await?;
        }
        Self::write_drift(conn, &effects.drift).await?;
        Self::write_plan_texts(conn, &effects.plan_texts).await?;
        if let Some(graph) = &effects.graph {
            Self::write_graph(conn, graph).await?;
        }
        if let Some(sha) = &effects.default_graph {
            Self::write_default_graph(conn, &self.graphs, changes.repo_id, sha).await?;
        }
        for entry in &effects.audit {
            Self::insert_audit(conn, entry).await?;
        }
        for job in &effects.jobs {
            Self::insert_job(conn, job).await?;
        }
        Ok(())
    }

    async fn update_runs(conn: &mut DB::Connection, runs: &[(Run, i64)]) -> Result<()> {
        let mut moved = Vec::new();
        for (run, version) in runs {
            let done = bind_run(query(UPDATE_RUN), run).bind(*version).execute(&mut *conn).await?;
            if DB::rows_affected(&done) == 0 {
                moved.push(run.id.clone());
            }
        }
        if moved.is_empty() { Ok(()) } else { Err(StoreError::Conflict(moved)) }
    }

    async fn write_rows(conn: &mut DB::Connection, rows: &[Row]) -> Result<()> {
        for rows in rows.chunks(ROWS_PER_STATEMENT) {
            let mut insert =
                QueryBuilder::<DB>::new("insert into run_stacks (run_id, stack_id, status, updated_at, body) ");
            insert.push_values(rows, |mut values, row| {
                values
                    .push_bind(text(&row.run_id))
                    .push_bind(text(&row.stack_id))
                    .push_bind(text(row.status.as_str()))
                    .push_bind(row.updated_at)
                    .push_bind(to_json(row));
            });
            insert.push(
                " on conflict (run_id, stack_id) do update
                 set status = excluded.status, updated_at = excluded.updated_at, body = excluded.body",
            );
            insert.build().execute(&mut *conn).await?;
        }
        Ok(())
    }

    async fn write_dispatches(conn: &mut DB::Connection, dispatches: &[Dispatch]) -> Result<()> {
        for dispatch in dispatches {
            query(
                "insert into dispatches
                 (id, run_id, wave, environment, mode, chunk, workflow_run_id, dispatched_at, completed_at, body)
                 values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
                 on conflict (id) do update set run_id = excluded.run_id, wave = excluded.wave,
                 environment = excluded.environment, mode = excluded.mode, chunk = excluded.chunk,
                 workflow_run_id = excluded.workflow_run_id,
                 dispatched_at = excluded.dispatched_at, completed_at = excluded.completed_at, body = excluded.body",
            )
            .bind(text(&dispatch.id))
            .bind(text(&dispatch.run_id))
            .bind(i64::from(dispatch.wave))
            .bind(text(&dispatch.environment))
            .bind(text(dispatch.mode.as_str()))
            .bind(i64::from(dispatch.chunk))
            .bind(dispatch.workflow_run_id)
            .bind(dispatch.dispatched_at)
            .bind(dispatch.completed_at)
            .bind(to_json(dispatch))
            .execute(&mut *conn)
            .await?;
        }
        Ok(())
    }

    async fn write_verdicts(conn: &mut DB::Connection, verdicts: &[Verdict]) -> Result<()> {
        for verdict in verdicts {
            query(
                "insert into checks (run_id, stack_id, name, status, body) values ($1, $2, $3, $4, $5)
                 on conflict (run_id, stack_id, name) do update set status = excluded.status, body = excluded.body",
            )
            .bind(text(&verdict.run_id))
            .bind(text(&verdict.stack_id))
            .bind(text(&verdict.name))
            .bind(text(verdict.status.as_str()))
            .bind(to_json(verdict))
            .execute(&mut *conn)
            .await?;
        }
        Ok(())
    }

    async fn release_locks(conn: &mut DB::Connection, changes: &Changes) -> Result<()> {
        let mut unseen = BTreeSet::new();
        for (stack, holder) in &changes.locks_released {
            let done = query("delete from locks where stack_id = $1 and run_id = $2")
                .bind(text(stack))
                .bind(text(holder))
                .execute(&mut *conn)
                .await?;
            if DB::rows_affected(&done) == 0 {
                return Err(StoreError::Conflict(vec![holder.clone()]));
            }
            if !changes.runs.iter().any(|(run, _)| run.id == *holder) {
                unseen.insert(holder);
            }
        }
        // The holder may be a run of another pull request: whoever decides about it now must load it again.
        for holder in unseen {
            query("update runs set version = version + 1 where id = $1").bind(text(holder)).execute(&mut *conn).await?;
        }
        Ok(())
    }

    async fn take_locks(conn: &mut DB::Connection, locks: &[Lock]) -> Result<()> {
        for lock in locks {
            Self::see_stacks(conn, lock.repo_id, [lock.key.as_str()], lock.taken_at).await?;
            query(
                "insert into locks (stack_id, repo_id, key, run_id, pr_number, taken_at, reason)
                 values ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(text(&lock.stack_id))
            .bind(lock.repo_id)
            .bind(text(&lock.key))
            .bind(text(&lock.run_id))
            .bind(lock.pr_number)
            .bind(lock.taken_at)
            .bind(text(&lock.reason))
            .execute(&mut *conn)
            .await?;
        }
        Ok(())
    }

    async fn write_drift(conn: &mut DB::Connection, seen: &[DriftSeen]) -> Result<()> {
        for drift in seen {
            Self::see_stacks(conn, drift.repo_id, [drift.key.as_str()], drift.checked_at).await?;
            query(
                "insert into drift (stack_id, run_id, repo_id, checked_at, body) values ($1, $2, $3, $4, $5)
                 on conflict (stack_id, run_id) do update set checked_at = excluded.checked_at, body = excluded.body",
            )
            .bind(text(&drift.stack_id))
            .bind(text(&drift.run_id))
            .bind(drift.repo_id)
            .bind(drift.checked_at)
            .bind(to_json(drift))
            .execute(&mut *conn)
            .await?;
        }
        Ok(())
    }

    async fn write_plan_texts(conn: &mut DB::Connection, texts: &[PlanText]) -> Result<()> {
        for plan in texts {
            query(
                "insert into plan_texts (run_id, stack_id, content) values ($1, $2, $3)
                 on conflict (run_id, stack_id) do update set content = excluded.content",
            )
            .bind(text(&plan.run_id))
            .bind(text(&plan.stack_id))
            .bind(text(&plan.text))
            .execute(&mut *conn)
            .await?;
        }
        Ok(())
    }

    /// Makes sure that the stacks exist, without calling them seen in a graph.
    async fn see_stacks<'k>(
        conn: &mut DB::Connection,
        repo_id: i64,
        keys: impl IntoIterator<Item = &'k str> + Send,
        at: Millis,
    ) -> Result<()> {
        let keys: Vec<&str> = keys.into_iter().collect();
        for keys in keys.chunks(ROWS_PER_STATEMENT) {
            let mut insert =
                QueryBuilder::<DB>::new("insert into stacks (id, repo_id, key, first_seen_at, last_seen_at) ");
            insert.push_values(keys, |mut values, key| {
                values
                    .push_bind(text(StackId::of(repo_id, key)))
                    .push_bind(repo_id)
                    .push_bind(text(key))
                    .push_bind(at)
                    .push_bind(at);
            });
            insert.push(" on conflict (id) do nothing");
            insert.build().execute(&mut *conn).await?;
        }
        Ok(())
    }
}

fn bind_run<'q, DB>(query: Query<'q, DB, DB::Arguments>, run: &Run) -> Query<'q, DB, DB::Arguments>
where
    DB: Dialect,
    for<'e> i64: Encode<'e, DB> + Type<DB>,
    for<'e> String: Encode<'e, DB> + Type<DB>,
    for<'e> Option<String>: Encode<'e, DB>,
{
    query
        .bind(text(&run.id))
        .bind(run.repo_id)
        .bind(text(&run.sha))
        .bind(run.pr_number)
        .bind(text(run.trigger.as_str()))
        .bind(text(run.mode.as_str()))
        .bind(text(run.status.as_str()))
        .bind(text(&run.requested_by))
        .bind(run.for_run.as_ref().map(text))
        .bind(i64::from(run.for_wave))
        .bind(run.workflow_run_id)
        .bind(run.created_at)
        .bind(run.version)
        .bind(to_json(run))
}
