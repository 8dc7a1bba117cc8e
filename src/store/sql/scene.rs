//! The scene of one decision, read from one snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, QueryBuilder, Type, query};

use super::graphs::GraphCache;
use super::value::{column, from_json, text};
use super::{SqlStore, end};
use crate::clock::Millis;
use crate::ids::{DispatchId, RunId, Sha, StackId, StackKey};
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

        let parts = Self::read_parts(conn, repo.id, pr_number, &ids).await?;
        Ok(Scene {
            pr_number,
            rows: parts.rows.into_iter().map(|(run, rows)| (run, Arc::new(rows))).collect(),
            dispatches: parts.dispatches,
            verdicts: parts.verdicts,
            locks: parts.locks,
            queue: parts.queue,
            locks_version: parts.locks_version,
            changed_at: parts.changed_at,
            graphs,
            runs: runs.into_iter().map(|run| (run.id.clone(), run)).collect(),
            repo,
        })
    }

    /// Everything but runs and graphs. In one statement, unless there are very many runs: a scene is read for each decision,
    /// and each statement is a way to the database and back.
    async fn read_parts(conn: &mut DB::Connection, repo_id: i64, pr_number: i64, runs: &[RunId]) -> Result<Parts> {
        let mut select = QueryBuilder::<DB>::new(
            "select 'version', '' as id, '' as key, '' as run_id, locks_version, 0 as at, '' as body from repos where id = ",
        );
        select.push_bind(repo_id);
        select.push(" union all select 'lock', stack_id, key, run_id, pr_number, taken_at, reason from locks");
        select.push(" where repo_id = ").push_bind(repo_id);
        select.push(" union all select 'changed', '', key, '', 0, changed_at, '' from stacks");
        select.push(" where changed_at is not null and repo_id = ").push_bind(repo_id);
        // Applies of other pull requests that wait.
        select.push(" union all select 'queued', id, '', '', version, 0, body from runs");
        select.push(" where mode = 'apply' and status = 'pending' and repo_id = ").push_bind(repo_id);
        select.push(" and pr_number <> ").push_bind(pr_number);

        let mut parts = Parts::default();
        for (number, ids) in runs.chunks(IDS_PER_STATEMENT).enumerate() {
            if number > 0 {
                parts.take_all::<DB>(repo_id, &select.build().fetch_all(&mut *conn).await?)?;
                select = QueryBuilder::new("select '', '', '', '', 0, 0, '' where 1 = 0");
            }
            for of_runs in [
                " union all select 'row', run_id, '', '', 0, 0, body from run_stacks where run_id in (",
                " union all select 'dispatch', id, '', '', 0, 0, body from dispatches where run_id in (",
                " union all select 'verdict', run_id, '', '', 0, 0, body from checks where run_id in (",
            ] {
                let mut list = select.push(of_runs).separated(", ");
                for id in ids {
                    list.push_bind(text(id));
                }
                select.push(")");
            }
        }
        parts.take_all::<DB>(repo_id, &select.build().fetch_all(&mut *conn).await?)?;
        // First come, first served.
        parts.queue.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(parts)
    }
}

/// What [`SqlStore::read_parts`] reads.
#[derive(Default)]
struct Parts {
    rows: BTreeMap<RunId, BTreeMap<StackKey, Row>>,
    dispatches: BTreeMap<DispatchId, Dispatch>,
    verdicts: BTreeMap<(RunId, StackKey, String), Verdict>,
    locks: BTreeMap<StackKey, Lock>,
    queue: Vec<Run>,
    changed_at: BTreeMap<StackKey, Millis>,
    locks_version: i64,
}

impl Parts {
    fn take_all<DB: Dialect>(&mut self, repo_id: i64, found: &[DB::Row]) -> Result<()>
    where
        for<'q> i64: Decode<'q, DB> + Type<DB>,
        for<'q> String: Decode<'q, DB> + Type<DB>,
        usize: ColumnIndex<DB::Row>,
    {
        for row in found {
            let part: String = column::<DB, _>(row, 0)?;
            let id: String = column::<DB, _>(row, 1)?;
            let number: i64 = column::<DB, _>(row, 4)?;
            let body: String = column::<DB, _>(row, 6)?;
            match part.as_str() {
                "row" => {
                    let row: Row = from_json("run_stacks", &id, &body)?;
                    self.rows.entry(row.run_id.clone()).or_default().insert(row.key.clone(), row);
                }
                "dispatch" => {
                    let dispatch: Dispatch = from_json("dispatches", &id, &body)?;
                    self.dispatches.insert(dispatch.id.clone(), dispatch);
                }
                "verdict" => {
                    let one: Verdict = from_json("checks", &id, &body)?;
                    self.verdicts.insert((one.run_id.clone(), one.key.clone(), one.name.clone()), one);
                }
                "queued" => {
                    let run: Run = from_json("runs", &id, &body)?;
                    let run = Run { version: number, ..run };
                    self.queue.extend(run.is_queued().then_some(run));
                }
                "version" => self.locks_version = number,
                part => {
                    let key: String = column::<DB, _>(row, 2)?;
                    let key = StackKey::parse(&key).map_err(|error| ("stacks", error))?;
                    let at: Millis = column::<DB, _>(row, 5)?;
                    if part == "changed" {
                        self.changed_at.insert(key, at);
                        continue;
                    }
                    let lock = Lock {
                        stack_id: StackId::parse(&id).map_err(|error| ("locks", error))?,
                        key: key.clone(),
                        repo_id,
                        run_id: RunId::parse(&column::<DB, String>(row, 3)?).map_err(|error| ("locks", error))?,
                        pr_number: number,
                        taken_at: at,
                        reason: body,
                    };
                    self.locks.insert(key, lock);
                }
            }
        }
        Ok(())
    }
}
