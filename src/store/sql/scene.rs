//! The scene of one decision, read from one snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, QueryBuilder, Type, query};

use super::graphs::GraphCache;
use super::value::{column, from_json, text};
use super::{SqlStore, end};
use crate::ids::{DispatchId, RunId, Sha, StackKey};
use crate::run::model::{Dispatch, Lock, Repo, Row, Run, Verdict};
use crate::run::scene::Scene;
use crate::store::Result;
use crate::store::dialect::Dialect;

/// Ids in one `in (…)`: far below what either database binds at most (32,766 in SQLite).
pub(super) const IDS_PER_STATEMENT: usize = 500;

impl<DB: Dialect> SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> bool: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn load_scene(&self, run: &RunId) -> Result<Option<Scene>> {
        let mut tx = self.begin_read().await?;
        let outcome = Self::scene_of_run(&mut tx, &self.graphs, run).await;
        end(tx, outcome).await
    }

    pub(super) async fn load_pull_scene(&self, repo_id: i64, pr_number: i64) -> Result<Option<Scene>> {
        let mut tx = self.begin_read().await?;
        let outcome = Self::scene_of_pull(&mut tx, &self.graphs, repo_id, pr_number).await;
        end(tx, outcome).await
    }

    async fn scene_of_run(conn: &mut DB::Connection, cache: &GraphCache, id: &RunId) -> Result<Option<Scene>> {
        let Some(run) = Self::read_run(conn, id).await? else { return Ok(None) };
        if run.pr_number > 0 {
            return Self::scene_of_pull(conn, cache, run.repo_id, run.pr_number).await;
        }
        let Some(repo) = Self::read_repo(conn, run.repo_id).await? else { return Ok(None) };
        Self::scene_of(conn, cache, repo, 0, vec![run]).await.map(Some)
    }

    async fn scene_of_pull(
        conn: &mut DB::Connection,
        cache: &GraphCache,
        repo_id: i64,
        pr_number: i64,
    ) -> Result<Option<Scene>> {
        let Some(repo) = Self::read_repo(conn, repo_id).await? else { return Ok(None) };
        // Number 0 is no pull request: its runs have nothing to do with each other.
        let rows = query("select version, id, body from runs where repo_id = $1 and pr_number = $2 and pr_number > 0")
            .bind(repo_id)
            .bind(pr_number)
            .fetch_all(&mut *conn)
            .await?;
        let runs = rows.iter().map(Self::run_from).collect::<Result<Vec<Run>>>()?;
        Self::scene_of(conn, cache, repo, pr_number, runs).await.map(Some)
    }

    async fn scene_of(
        conn: &mut DB::Connection,
        cache: &GraphCache,
        repo: Repo,
        pr_number: i64,
        runs: Vec<Run>,
    ) -> Result<Scene> {
        let ids: Vec<RunId> = runs.iter().map(|run| run.id.clone()).collect();
        let shas: BTreeSet<Sha> =
            runs.iter().filter_map(|run| run.graph_sha.clone()).chain(repo.default_graph.clone()).collect();
        let mut graphs = BTreeMap::new();
        for sha in shas {
            if let Some(graph) = Self::read_graph(conn, cache, repo.id, &sha).await? {
                graphs.insert(sha, graph);
            }
        }

        let mut rows: BTreeMap<RunId, BTreeMap<StackKey, Row>> = BTreeMap::new();
        for row in
            Self::bodies::<Row>(conn, "run_stacks", "select run_id, body from run_stacks where run_id in (", &ids)
                .await?
        {
            rows.entry(row.run_id.clone()).or_default().insert(row.key.clone(), row);
        }
        let dispatches =
            Self::bodies::<Dispatch>(conn, "dispatches", "select id, body from dispatches where run_id in (", &ids)
                .await?;
        let verdicts =
            Self::bodies::<Verdict>(conn, "checks", "select run_id, body from checks where run_id in (", &ids).await?;

        Ok(Scene {
            pr_number,
            rows: rows.into_iter().map(|(run, rows)| (run, Arc::new(rows))).collect(),
            dispatches: dispatches.into_iter().map(|one| (one.id.clone(), one)).collect::<BTreeMap<DispatchId, _>>(),
            verdicts: verdicts
                .into_iter()
                .map(|one| ((one.run_id.clone(), one.key.clone(), one.name.clone()), one))
                .collect(),
            locks: Self::read_locks(conn, Some(repo.id))
                .await?
                .into_iter()
                .map(|lock| (lock.key.clone(), lock))
                .collect::<BTreeMap<StackKey, Lock>>(),
            queue: Self::read_queue(conn, repo.id, pr_number).await?,
            locks_version: Self::read_locks_version(conn, repo.id).await?,
            changed_at: Self::read_changed_at(conn, repo.id).await?,
            graphs,
            runs: runs.into_iter().map(|run| (run.id.clone(), run)).collect(),
            repo,
        })
    }

    /// The values of a table that belong to these runs; `select` names an id and the body, and ends in `in (`.
    async fn bodies<T: serde::de::DeserializeOwned>(
        conn: &mut DB::Connection,
        table: &'static str,
        select: &'static str,
        runs: &[RunId],
    ) -> Result<Vec<T>> {
        let mut values = Vec::new();
        for ids in runs.chunks(IDS_PER_STATEMENT) {
            let mut statement = QueryBuilder::<DB>::new(select);
            let mut list = statement.separated(", ");
            for id in ids {
                list.push_bind(text(id));
            }
            statement.push(")");
            for row in statement.build().fetch_all(&mut *conn).await? {
                let id: String = column::<DB, _>(&row, 0)?;
                let body: String = column::<DB, _>(&row, 1)?;
                values.push(from_json(table, &id, &body)?);
            }
        }
        Ok(values)
    }

    /// Applies of other pull requests that wait, first come first.
    async fn read_queue(conn: &mut DB::Connection, repo_id: i64, except_pr: i64) -> Result<Vec<Run>> {
        let rows = query(
            "select version, id, body from runs
             where repo_id = $1 and pr_number <> $2 and mode = 'apply' and status = 'pending'
             order by created_at, id",
        )
        .bind(repo_id)
        .bind(except_pr)
        .fetch_all(&mut *conn)
        .await?;
        let runs = rows.iter().map(Self::run_from).collect::<Result<Vec<Run>>>()?;
        Ok(runs.into_iter().filter(Run::is_queued).collect())
    }

    async fn read_locks_version(conn: &mut DB::Connection, repo_id: i64) -> Result<i64> {
        let row = query("select locks_version from repos where id = $1").bind(repo_id).fetch_one(&mut *conn).await?;
        column::<DB, _>(&row, 0)
    }

    async fn read_changed_at(conn: &mut DB::Connection, repo_id: i64) -> Result<BTreeMap<StackKey, i64>> {
        let rows = query("select key, changed_at from stacks where repo_id = $1 and changed_at is not null")
            .bind(repo_id)
            .fetch_all(&mut *conn)
            .await?;
        rows.iter()
            .map(|row| {
                let key: String = column::<DB, _>(row, 0)?;
                let key = StackKey::parse(&key).map_err(|error| ("stacks", error))?;
                Ok((key, column::<DB, _>(row, 1)?))
            })
            .collect()
    }
}
