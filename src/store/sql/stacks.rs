//! What a stored graph does to the stacks of its repository.

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, QueryBuilder, Type, query};

use super::SqlStore;
use super::commit::ROWS_PER_STATEMENT;
use super::graphs::GraphCache;
use super::scene::IDS_PER_STATEMENT;
use super::value::{column, from_json, text, to_json};
use crate::clock::Millis;
use crate::ids::{Sha, StackId, StackKey};
use crate::run::model::DriftSeen;
use crate::run::scene::StoredGraph;
use crate::store::dialect::Dialect;
use crate::store::rules::local_keys;
use crate::store::{Result, StackRecord};

impl<DB: Dialect> SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> Option<i64>: Encode<'q, DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn write_graph(conn: &mut DB::Connection, stored: &StoredGraph) -> Result<()> {
        query(
            "insert into graphs (repo_id, sha, tree_hash, content_hash, pr_number, created_at, body)
             values ($1, $2, $3, $4, $5, $6, $7)
             on conflict (repo_id, sha) do update set tree_hash = excluded.tree_hash,
             content_hash = excluded.content_hash, pr_number = excluded.pr_number, created_at = excluded.created_at,
             body = excluded.body",
        )
        .bind(stored.repo_id)
        .bind(text(&stored.sha))
        .bind(text(&stored.tree_hash))
        .bind(text(&stored.content_hash))
        .bind(stored.pr_number)
        .bind(stored.created_at)
        .bind(to_json(&stored.graph))
        .execute(&mut *conn)
        .await?;

        let keys: Vec<&str> = local_keys(&stored.graph).into_iter().collect();
        for keys in keys.chunks(ROWS_PER_STATEMENT) {
            let mut insert =
                QueryBuilder::<DB>::new("insert into stacks (id, repo_id, key, first_seen_at, last_seen_at) ");
            insert.push_values(keys, |mut values, key| {
                values
                    .push_bind(text(StackId::of(stored.repo_id, key)))
                    .push_bind(stored.repo_id)
                    .push_bind(text(key))
                    .push_bind(stored.created_at)
                    .push_bind(stored.created_at);
            });
            insert.push(" on conflict (id) do update set last_seen_at = excluded.last_seen_at, removed_at = null");
            insert.build().execute(&mut *conn).await?;
        }
        Ok(())
    }

    /// From now on this commit's graph says which stacks the repository has.
    pub(super) async fn write_default_graph(
        conn: &mut DB::Connection,
        cache: &GraphCache,
        repo_id: i64,
        sha: &Sha,
    ) -> Result<()> {
        query("update repos set default_graph = $2 where id = $1")
            .bind(repo_id)
            .bind(text(sha))
            .execute(&mut *conn)
            .await?;
        let stored = query("select created_at from graphs where repo_id = $1 and sha = $2")
            .bind(repo_id)
            .bind(text(sha))
            .fetch_optional(&mut *conn)
            .await?;
        let Some(stored) = stored else { return Ok(()) };
        let Some(graph) = Self::read_graph(conn, cache, repo_id, sha).await? else { return Ok(()) };
        let at: Millis = column::<DB, _>(&stored, 0)?;

        let present = local_keys(&graph);
        let (mut returned, mut gone) = (Vec::new(), Vec::new());
        let stacks = query("select id, key, removed_at from stacks where repo_id = $1")
            .bind(repo_id)
            .fetch_all(&mut *conn)
            .await?;
        for row in &stacks {
            let id: String = column::<DB, _>(row, 0)?;
            let key: String = column::<DB, _>(row, 1)?;
            let removed_at: Option<Millis> = column::<DB, _>(row, 2)?;
            match (present.contains(key.as_str()), removed_at) {
                (true, Some(_)) => returned.push(id),
                (false, None) => gone.push(id),
                (true, None) | (false, Some(_)) => {}
            }
        }
        Self::mark_removed(conn, &returned, None).await?;
        Self::mark_removed(conn, &gone, Some(at)).await
    }

    async fn mark_removed(conn: &mut DB::Connection, ids: &[String], at: Option<Millis>) -> Result<()> {
        for ids in ids.chunks(IDS_PER_STATEMENT) {
            let mut update = QueryBuilder::<DB>::new("update stacks set removed_at = ");
            update.push_bind(at).push(" where id in (");
            let mut list = update.separated(", ");
            for id in ids {
                list.push_bind(id.clone());
            }
            update.push(")");
            update.build().execute(&mut *conn).await?;
        }
        Ok(())
    }

    pub(super) async fn list_stacks(&self, repo_id: i64) -> Result<Vec<StackRecord>> {
        let mut stacks = query(
            "select id, key, changed_at, removed_at, drift_issue,
             (select body from drift where drift.stack_id = stacks.id order by checked_at desc, run_id desc limit 1)
             from stacks where repo_id = $1",
        )
        .bind(repo_id)
        .fetch_all(&self.pool)
        .await?
        .iter()
        .map(|row| {
            let id: String = column::<DB, _>(row, 0)?;
            let drift: Option<String> = column::<DB, _>(row, 5)?;
            Ok(StackRecord {
                id: StackId::parse(&id).map_err(|error| ("stacks", error))?,
                repo_id,
                key: StackKey::parse(&column::<DB, String>(row, 1)?).map_err(|error| ("stacks", error))?,
                changed_at: column::<DB, _>(row, 2)?,
                removed_at: column::<DB, _>(row, 3)?,
                drift: drift.map(|body| from_json::<DriftSeen>("drift", &id, &body)).transpose()?,
                drift_issue: column::<DB, _>(row, 4)?,
            })
        })
        .collect::<Result<Vec<StackRecord>>>()?;
        stacks.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(stacks)
    }

    pub(super) async fn write_drift_issue(&self, stack: &StackId, issue: Option<i64>) -> Result<()> {
        query("update stacks set drift_issue = $2 where id = $1")
            .bind(text(stack))
            .bind(issue)
            .execute(&self.writer)
            .await?;
        Ok(())
    }
}
