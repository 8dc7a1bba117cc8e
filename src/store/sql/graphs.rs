//! Stored graphs, and the few parsed ones that decisions ask for again and again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::{ColumnIndex, Decode, Encode, Executor, IntoArguments, Type, query};

use super::SqlStore;
use super::value::{column, from_json, text};
use crate::graph::model::Graph;
use crate::ids::Sha;
use crate::store::Result;
use crate::store::dialect::Dialect;

/// Most bytes of stored graphs that are kept parsed: the open pull requests that move at one time, hundreds of them in
/// repositories of a hundred stacks, a dozen in those of thousands.
const CACHED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Parsed graphs by repository, commit and content; the least recently used one goes first.
#[derive(Default)]
pub(super) struct GraphCache(Mutex<Cached>);

/// Repository, commit, and the digest of the content, which is empty when nobody knows.
pub(super) type CacheKey = (i64, Sha, String);

#[derive(Default)]
struct Cached {
    graphs: BTreeMap<CacheKey, Kept>,
    bytes: usize,
    uses: u64,
}

struct Kept {
    graph: Arc<Graph>,
    /// Of the stored text.
    bytes: usize,
    used: u64,
}

impl GraphCache {
    fn get(&self, key: &CacheKey) -> Option<Arc<Graph>> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.uses += 1;
        let now = cached.uses;
        let kept = cached.graphs.get_mut(key)?;
        kept.used = now;
        Some(Arc::clone(&kept.graph))
    }

    fn put(&self, key: CacheKey, graph: &Arc<Graph>, bytes: usize) {
        if bytes > CACHED_BYTES_MAX {
            return;
        }
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.uses += 1;
        let kept = Kept { graph: Arc::clone(graph), bytes, used: cached.uses };
        cached.bytes += bytes;
        if let Some(replaced) = cached.graphs.insert(key, kept) {
            cached.bytes -= replaced.bytes;
        }
        while cached.bytes > CACHED_BYTES_MAX {
            let oldest = cached.graphs.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone());
            let Some(dropped) = oldest.and_then(|key| cached.graphs.remove(&key)) else { return };
            cached.bytes -= dropped.bytes;
        }
    }
}

impl<DB: Dialect> SqlStore<DB>
where
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn find_graph(&self, repo_id: i64, sha: &Sha) -> Result<Option<Arc<Graph>>> {
        let mut conn = self.pool.acquire().await?;
        Self::read_graph(&mut conn, &self.graphs, repo_id, sha).await
    }

    pub(super) async fn read_graph(
        conn: &mut DB::Connection,
        cache: &GraphCache,
        repo_id: i64,
        sha: &Sha,
    ) -> Result<Option<Arc<Graph>>> {
        let found = query("select content_hash from graphs where repo_id = $1 and sha = $2")
            .bind(repo_id)
            .bind(text(sha))
            .fetch_optional(&mut *conn)
            .await?;
        let Some(row) = found else { return Ok(None) };
        let key = (repo_id, sha.clone(), column::<DB, _>(&row, 0)?);
        Self::read_graph_of(conn, cache, key).await
    }

    /// Reads the body only when no parsed copy with the same content is at hand.
    pub(super) async fn read_graph_of(
        conn: &mut DB::Connection,
        cache: &GraphCache,
        key: CacheKey,
    ) -> Result<Option<Arc<Graph>>> {
        // An empty digest says nothing about the content.
        if !key.2.is_empty()
            && let Some(graph) = cache.get(&key)
        {
            return Ok(Some(graph));
        }
        let (repo_id, sha, _) = key;
        let found = query("select content_hash, body from graphs where repo_id = $1 and sha = $2")
            .bind(repo_id)
            .bind(text(&sha))
            .fetch_optional(&mut *conn)
            .await?;
        let Some(row) = found else { return Ok(None) };
        let hash: String = column::<DB, _>(&row, 0)?;
        let body: String = column::<DB, _>(&row, 1)?;
        let graph: Arc<Graph> = Arc::new(from_json("graphs", sha.as_str(), &body)?);
        cache.put((repo_id, sha, hash), &graph, body.len());
        Ok(Some(graph))
    }

    pub(super) async fn find_graph_by_tree_hash(
        &self,
        repo_id: i64,
        pr_number: i64,
        tree_hash: &str,
    ) -> Result<Option<Sha>> {
        if tree_hash.is_empty() {
            return Ok(None);
        }
        let found = query(
            "select sha from graphs where repo_id = $1 and tree_hash = $2
             and (pr_number = $3 or pr_number = 0 or sha = (select default_graph from repos where id = $1))
             order by created_at desc, sha desc limit 1",
        )
        .bind(repo_id)
        .bind(text(tree_hash))
        .bind(pr_number)
        .fetch_optional(&self.pool)
        .await?;
        found.map(|row| sha_of::<DB>(&row)).transpose()
    }

    pub(super) async fn find_newest_graph(&self, repo_id: i64) -> Result<Option<Sha>> {
        let found = query("select sha from graphs where repo_id = $1 order by created_at desc, sha desc limit 1")
            .bind(repo_id)
            .fetch_optional(&self.pool)
            .await?;
        found.map(|row| sha_of::<DB>(&row)).transpose()
    }
}

fn sha_of<DB: Dialect>(row: &DB::Row) -> Result<Sha>
where
    for<'q> String: Decode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let sha: String = column::<DB, _>(row, 0)?;
    Sha::parse(&sha).map_err(|error| ("graphs", error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> CacheKey {
        (1, Sha::parse(&format!("{number:040x}")).unwrap(), "h".to_owned())
    }

    #[test]
    fn the_graph_that_was_used_longest_ago_is_dropped() {
        const QUARTER: usize = CACHED_BYTES_MAX / 4;
        let cache = GraphCache::default();
        for number in 0..4 {
            cache.put(key(number), &Arc::default(), QUARTER);
        }
        assert!(cache.get(&key(0)).is_some());
        cache.put(key(4), &Arc::default(), QUARTER);
        assert!(cache.get(&key(0)).is_some());
        assert!(cache.get(&key(1)).is_none());
        assert!(cache.get(&key(2)).is_some());
    }

    #[test]
    fn a_graph_that_comes_again_counts_once_and_one_that_is_too_large_is_not_kept() {
        let cache = GraphCache::default();
        for _ in 0..10 {
            cache.put(key(0), &Arc::default(), CACHED_BYTES_MAX / 2);
        }
        cache.put(key(1), &Arc::default(), CACHED_BYTES_MAX / 2);
        assert!(cache.get(&key(0)).is_some());
        cache.put(key(2), &Arc::default(), CACHED_BYTES_MAX + 1);
        assert!(cache.get(&key(2)).is_none());
        assert!(cache.get(&key(1)).is_some());
    }
}
