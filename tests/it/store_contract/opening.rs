//! What only databases have: opening them, and several servers on one of them.

use std::sync::Arc;

use stackorder::run::scene::Effects;
use stackorder::store::{self, Schema, Store, StoreError};

use super::values::*;
use crate::databases::{each_store, postgres_url, sqlite_url};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_serves_several_servers() {
    let dir = tempfile::tempdir().unwrap();
    serves_several_servers(sqlite_url(dir.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_serves_several_servers() {
    let Some(url) = postgres_url("postgres_serves_several_servers") else { return };
    serves_several_servers(url).await;
}

/// They start at once on an empty database, and see what another wrote although each remembers parsed graphs.
async fn serves_several_servers(url: String) {
    let opening: Vec<_> = (0..3)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { store::open(&url, 2).await.unwrap() })
        })
        .collect();
    let mut servers: Vec<Arc<dyn Store>> = Vec::new();
    for server in opening {
        servers.push(server.await.unwrap());
    }

    with_repos(&servers[0]).await;
    for keys in [&["vpc"][..], &["app"]] {
        let write = effects(Effects { graph: Some(stored_graph(1, keys)), ..Effects::default() });
        servers[0].commit(write).await.unwrap();
        for server in &servers {
            assert_eq!(*server.graph(REPO, &sha(1)).await.unwrap().unwrap(), graph(keys));
        }
    }
    drop(servers);
    let reopened = store::open(&url, 2).await.unwrap();
    assert_eq!(reopened.repos().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_at_a_sqlite_schema_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let url = sqlite_url(dir.path());
    assert!(matches!(store::schema_of(&url).await, Err(StoreError::Db(_))), "a file that is not there");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "and that is not made");
    // SQLite takes an empty file for an empty database.
    std::fs::write(dir.path().join("test.db"), "").unwrap();
    a_schema_grows_up(&url).await;
    assert!(matches!(store::schema_of("mysql://x").await, Err(StoreError::Db(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_at_a_postgres_schema_changes_nothing() {
    let Some(url) = postgres_url("looking_at_a_postgres_schema_changes_nothing") else { return };
    a_schema_grows_up(&url).await;
}

async fn a_schema_grows_up(url: &str) {
    for _ in 0..2 {
        assert!(matches!(store::schema_of(url).await.unwrap(), Schema::Older(missing) if missing > 0));
    }
    store::open(url, 1).await.unwrap().close().await;
    assert_eq!(store::schema_of(url).await.unwrap(), Schema::Current);
}

#[tokio::test]
async fn a_database_in_memory_lives_as_long_as_its_store() {
    let store = store::open("sqlite::memory:", 4).await.unwrap();
    with_repos(&store).await;
    assert_eq!(store.repos().await.unwrap().len(), 2);
}

#[tokio::test]
async fn every_store_starts_empty() {
    each_store("every_store_starts_empty", |store| async move {
        assert!(store.installations().await.unwrap().is_empty());
        assert!(store.runs_by_status().await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn other_schemes_are_refused_without_showing_the_url() {
    for url in ["mysql://root:secret@host/db", "test.db", ""] {
        let error = store::open(url, 1).await.err().unwrap();
        let chain = format!("{error}: {}", std::error::Error::source(&error).unwrap());
        assert_eq!(chain, "cannot use the database: the database URL must begin with postgres:// or sqlite://");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_sqlite_store_is_one_file_with_everything_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = store::open(&sqlite_url(dir.path()), 4).await.unwrap();
    with_repos(&store).await;
    // Every connection is in use once, so that each of them has to end.
    let reads: Vec<_> = (0..4)
        .map(|_| {
            tokio::spawn({
                let store = store.clone();
                async move { store.repos().await }
            })
        })
        .collect();
    for read in reads {
        read.await.unwrap().unwrap();
    }
    store.close().await;
    assert!(store.ping().await.is_err());

    let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["test.db"]);
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(dir.path().join("test.db"), copy.path().join("test.db")).unwrap();
    let copied = store::open(&sqlite_url(copy.path()), 1).await.unwrap();
    assert_eq!(copied.repos().await.unwrap().len(), 2);
}
