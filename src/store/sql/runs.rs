//! Runs, rows, dispatches and locks as lists ask for them.

use std::collections::BTreeMap;

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, QueryBuilder, Type, query};

use super::SqlStore;
use super::value::{column, from_json, text};
use crate::ids::{RunId, StackId, StackKey};
use crate::run::model::{Dispatch, Lock, Row, Run};
use crate::run::status::RunStatus;
use crate::store::dialect::Dialect;
use crate::store::{Result, RunFilter, StoreError};

impl<DB: Dialect> SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn find_run(&self, id: &RunId) -> Result<Option<Run>> {
        let mut conn = self.pool.acquire().await?;
        Self::read_run(&mut conn, id).await
    }

    pub(super) async fn read_run(conn: &mut DB::Connection, id: &RunId) -> Result<Option<Run>> {
        let found =
            query("select version, id, body from runs where id = $1").bind(text(id)).fetch_optional(&mut *conn).await?;
        found.as_ref().map(Self::run_from).transpose()
    }

    /// From `version, id, body`.
    pub(super) fn run_from(row: &DB::Row) -> Result<Run> {
        let id: String = column::<DB, _>(row, 1)?;
        let body: String = column::<DB, _>(row, 2)?;
        let run: Run = from_json("runs", &id, &body)?;
        Ok(Run { version: column::<DB, _>(row, 0)?, ..run })
    }

    pub(super) async fn list_rows(&self, run: &RunId) -> Result<Vec<Row>> {
        let found =
            query("select body from run_stacks where run_id = $1").bind(text(run)).fetch_all(&self.pool).await?;
        let mut rows = found
            .iter()
            .map(|row| from_json("run_stacks", run.as_str(), &column::<DB, String>(row, 0)?))
            .collect::<Result<Vec<Row>>>()?;
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(rows)
    }

    pub(super) async fn list_runs(&self, filter: &RunFilter) -> Result<Vec<Run>> {
        // Named one by one, so that nothing is forgotten when a field joins.
        let RunFilter { repo_id, pr_number, mode, status, open_only, sha, workflow_run_id, before, limit } = filter;
        let mut select = QueryBuilder::<DB>::new("select version, id, body from runs where true");
        if let Some(repo_id) = repo_id {
            select.push(" and repo_id = ").push_bind(*repo_id);
        }
        if let Some(pr_number) = pr_number {
            select.push(" and pr_number = ").push_bind(*pr_number);
        }
        if let Some(mode) = mode {
            select.push(" and mode = ").push_bind(text(mode.as_str()));
        }
        if let Some(status) = status {
            select.push(" and status = ").push_bind(text(status.as_str()));
        }
        if *open_only {
            // Word for word as in the partial index `runs_open`.
            select.push(
                " and (status in ('pending', 'planning', 'applying') or (status = 'planned' and mode = 'apply'))",
            );
        }
        if let Some(sha) = sha {
            select.push(" and sha = ").push_bind(text(sha));
        }
        if let Some(workflow_run_id) = workflow_run_id {
            select.push(" and workflow_run_id <> 0 and workflow_run_id = ").push_bind(*workflow_run_id);
        }
        if let Some((at, id)) = before {
            select.push(" and (created_at, id) < (").push_bind(*at).push(", ").push_bind(text(id)).push(")");
        }
        select.push(" order by created_at desc, id desc limit ").push_bind(i64::from(*limit));
        select.build().fetch_all(&self.pool).await?.iter().map(Self::run_from).collect()
    }

    pub(super) async fn find_plan_text(&self, run: &RunId, stack: &StackId) -> Result<Option<String>> {
        let found = query("select content from plan_texts where run_id = $1 and stack_id = $2")
            .bind(text(run))
            .bind(text(stack))
            .fetch_optional(&self.pool)
            .await?;
        found.map(|row| column::<DB, _>(&row, 0)).transpose()
    }

    pub(super) async fn list_locks(&self, repo_id: Option<i64>) -> Result<Vec<Lock>> {
        let mut conn = self.pool.acquire().await?;
        Self::read_locks(&mut conn, repo_id).await
    }

    pub(super) async fn read_locks(conn: &mut DB::Connection, repo_id: Option<i64>) -> Result<Vec<Lock>> {
        let mut select =
            QueryBuilder::<DB>::new("select repo_id, pr_number, taken_at, stack_id, key, run_id, reason from locks");
        if let Some(repo_id) = repo_id {
            select.push(" where repo_id = ").push_bind(repo_id);
        }
        let mut locks = select
            .build()
            .fetch_all(&mut *conn)
            .await?
            .iter()
            .map(|row| {
                Ok(Lock {
                    repo_id: column::<DB, _>(row, 0)?,
                    pr_number: column::<DB, _>(row, 1)?,
                    taken_at: column::<DB, _>(row, 2)?,
                    stack_id: StackId::parse(&column::<DB, String>(row, 3)?).map_err(|error| ("locks", error))?,
                    key: StackKey::parse(&column::<DB, String>(row, 4)?).map_err(|error| ("locks", error))?,
                    run_id: RunId::parse(&column::<DB, String>(row, 5)?).map_err(|error| ("locks", error))?,
                    reason: column::<DB, _>(row, 6)?,
                })
            })
            .collect::<Result<Vec<Lock>>>()?;
        locks.sort_by(|a, b| (a.repo_id, &a.key).cmp(&(b.repo_id, &b.key)));
        Ok(locks)
    }

    pub(super) async fn list_open_dispatches(&self) -> Result<Vec<Dispatch>> {
        query("select id, body from dispatches where completed_at is null order by dispatched_at, id")
            .fetch_all(&self.pool)
            .await?
            .iter()
            .map(Self::dispatch_from)
            .collect()
    }

    pub(super) async fn find_dispatch_by_workflow_run(&self, workflow_run_id: i64) -> Result<Option<Dispatch>> {
        let found = query("select id, body from dispatches where workflow_run_id = $1")
            .bind(workflow_run_id)
            .fetch_optional(&self.pool)
            .await?;
        found.as_ref().map(Self::dispatch_from).transpose()
    }

    fn dispatch_from(row: &DB::Row) -> Result<Dispatch> {
        let id: String = column::<DB, _>(row, 0)?;
        from_json("dispatches", &id, &column::<DB, String>(row, 1)?)
    }

    pub(super) async fn count_runs_by_status(&self) -> Result<BTreeMap<RunStatus, u64>> {
        query("select status, count(*) from runs group by status")
            .fetch_all(&self.pool)
            .await?
            .iter()
            .map(|row| {
                let status: String = column::<DB, _>(row, 0)?;
                let number: i64 = column::<DB, _>(row, 1)?;
                let number = u64::try_from(number).map_err(|error| StoreError::corrupt("runs", &status, error))?;
                Ok((RunStatus::parse(&status).map_err(|error| ("runs", error))?, number))
            })
            .collect()
    }
}
