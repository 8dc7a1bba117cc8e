//! The scene of one decision, read from one snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, QueryBuilder, Type, query};

use super::graphs::GraphCache;
use super::value::{column, from_json, text};
use super::{SqlStore, end};
use crate::clock::Millis;
use crate::ids::{DispatchId, RunId, Sha, StackId, StackKey};
use crate::run::model::{Dispatch, Lock, Row, Run, Verdict};
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
        // With the other runs of its pull request. Number 0 is no pull request: its runs have nothing to do with each other.
        let rows = query(
            "select version, id, body from runs where id = $1
             union all select other.version, other.id, other.body from runs
             join runs as other on other.repo_id = runs.repo_id and other.pr_number = runs.pr_number and other.id <> runs.id
             where runs.id = $1 and runs.pr_number > 0",
        )
        .bind(text(id))
        .fetch_all(&mut *conn)
        .await?;
        let runs = rows.iter().map(Self::run_from).collect::<Result<Vec<Run>>>()?;
        let Some((repo_id, pr_number)) = runs.first().map(|run| (run.repo_id, run.pr_number)) else { return Ok(None) };
        Self::scene_of(conn, cache, repo_id, pr_number, runs).await
    }

    async fn scene_of_pull(
        conn: &mut DB::Connection,
        cache: &GraphCache,
        repo_id: i64,
        pr_number: i64,
    ) -> Result<Option<Scene>> {
        let rows = query("select version, id, body from runs where repo_id = $1 and pr_number = $2 and pr_number > 0")
            .bind(repo_id)
            .bind(pr_number)
            .fetch_all(&mut *conn)
            .await?;
        let runs = rows.iter().map(Self::run_from).collect::<Result<Vec<Run>>>()?;
        Self::scene_of(conn, cache, repo_id, pr_number, runs).await
    }

    async fn scene_of(
        conn: &mut DB::Connection,
        cache: &GraphCache,
        repo_id: i64,
        pr_number: i64,
        runs: Vec<Run>,
    ) -> Result<Option<Scene>> {
        let Some(repo) = Self::read_repo(conn, repo_id).await? else { return Ok(None) };
        let ids: Vec<RunId> = runs.iter().map(|run| run.id.clone()).collect();
        let shas: BTreeSet<Sha> =
            runs.iter().filter_map(|run| run.graph_sha.clone()).chain(repo.default_graph.clone()).collect();
        let parts = Self::read_parts(conn, repo_id, pr_number, &ids, &shas).await?;
        let mut graphs = BTreeMap::new();
        for (sha, content) in parts.graphs {
            if let Some(graph) = Self::read_graph_of(conn, cache, (repo_id, sha.clone(), content)).await? {
                graphs.insert(sha, graph);
            }
        }
        Ok(Some(Scene {
            pr_number,
            rows: parts.rows.into_iter().map(|(run, rows)| (run, Arc::new(rows))).collect(),
            dispatches: parts.dispatches,
            verdicts: parts.verdicts,
            locks: Arc::new(parts.locks),
            queue: parts.queue,
            locks_version: parts.locks_version,
            changed_at: Arc::new(parts.changed_at),
            graphs,
            runs: runs.into_iter().map(|run| (run.id.clone(), run)).collect(),
            repo,
        }))
    }

    /// Everything but runs and the graphs themselves. In one statement, unless there are very many runs: a scene is read for
    /// each decision, and each statement is a way to the database and back. What the whole repository has many of comes as
    /// one row: a row costs more than what is in it.
    async fn read_parts(
        conn: &mut DB::Connection,
        repo_id: i64,
        pr_number: i64,
        runs: &[RunId],
        shas: &BTreeSet<Sha>,
    ) -> Result<Parts> {
        let mut parts = Parts::default();
        let mut select = Self::select_of_repo(repo_id, pr_number);
        for ids in runs.chunks(IDS_PER_STATEMENT) {
            for of_runs in [
                " union all select 'row', run_id, 0, body from run_stacks where run_id in (",
                " union all select 'dispatch', id, 0, body from dispatches where run_id in (",
                " union all select 'verdict', run_id, 0, body from checks where run_id in (",
            ] {
                push_list(select.push(of_runs), ids);
            }
            if ids.len() == IDS_PER_STATEMENT {
                parts.take_all::<DB>(repo_id, &select.build().fetch_all(&mut *conn).await?)?;
                select = QueryBuilder::new("select '', '', cast(0 as bigint), '' where 1 = 0");
            }
        }
        let shas: Vec<&Sha> = shas.iter().collect();
        for shas in shas.chunks(IDS_PER_STATEMENT) {
            select.push(" union all select 'graph', sha, 0, content_hash from graphs where repo_id = ");
            push_list(select.push_bind(repo_id).push(" and sha in ("), shas);
        }
        parts.take_all::<DB>(repo_id, &select.build().fetch_all(&mut *conn).await?)?;
        // First come, first served.
        parts.queue.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(parts)
    }

    /// Of the repository as a whole: what a part is, whose, a number, and a text.
    fn select_of_repo(repo_id: i64, pr_number: i64) -> QueryBuilder<DB> {
        let (rows, array) = (DB::JSON_ROWS, DB::JSON_ARRAY);
        let mut select = QueryBuilder::<DB>::new("select 'version', '' as id, locks_version, '' as body from repos");
        select.push(" where id = ").push_bind(repo_id);
        select.push(format!(
            " union all select 'locks', '', 0,
             coalesce(cast({rows}({array}(stack_id, key, run_id, pr_number, taken_at, reason)) as text), '[]')
             from locks where repo_id = "
        ));
        select.push_bind(repo_id);
        select.push(format!(
            " union all select 'changed', '', 0, coalesce(cast({rows}({array}(key, changed_at)) as text), '[]')
             from stacks where changed_at is not null and repo_id = "
        ));
        select.push_bind(repo_id);
        // Applies of other pull requests that wait.
        select.push(" union all select 'queued', id, version, body from runs");
        select.push(" where mode = 'apply' and status = 'pending' and repo_id = ").push_bind(repo_id);
        select.push(" and pr_number <> ").push_bind(pr_number);
        select
    }
}

fn push_list<DB: Dialect>(select: &mut QueryBuilder<DB>, items: &[impl AsRef<str>])
where
    for<'q> String: Encode<'q, DB> + Type<DB>,
{
    let mut list = select.separated(", ");
    for item in items {
        list.push_bind(text(item));
    }
    select.push(")");
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
    /// The digest of each graph's content, by commit.
    graphs: BTreeMap<Sha, String>,
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
            let number: i64 = column::<DB, _>(row, 2)?;
            let body: String = column::<DB, _>(row, 3)?;
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
                "graph" => {
                    self.graphs.insert(Sha::parse(&id).map_err(|error| ("graphs", error))?, body);
                }
                "locks" => self.take_locks(repo_id, &body)?,
                "changed" => {
                    let all: Vec<(StackKey, Millis)> = from_json("stacks", "changed_at", &body)?;
                    self.changed_at = all.into_iter().collect();
                }
                _ => self.locks_version = number,
            }
        }
        Ok(())
    }

    fn take_locks(&mut self, repo_id: i64, body: &str) -> Result<()> {
        let all: Vec<(StackId, StackKey, RunId, i64, Millis, String)> = from_json("locks", "", body)?;
        let locks = all.into_iter().map(|(stack_id, key, run_id, pr_number, taken_at, reason)| {
            (key.clone(), Lock { stack_id, key, repo_id, run_id, pr_number, taken_at, reason })
        });
        self.locks = locks.collect();
        Ok(())
    }
}
