//! Stored graphs, and the stacks they make known.

use serde_json::json;
use stackorder::graph::model::Stack;
use stackorder::ids::StackId;
use stackorder::run::model::{DriftSeen, Run};
use stackorder::run::scene::{Changes, Effects, StoredGraph};

use super::values::*;

fn with_graph(graph: StoredGraph) -> Changes {
    effects(Effects { graph: Some(graph), ..Effects::default() })
}

pub async fn a_graph_is_replaced_by_a_newer_upload(store: AStore) {
    with_repos(&store).await;
    assert!(store.graph(REPO, &sha(1)).await.unwrap().is_none());
    for keys in [&["vpc"][..], &["vpc", "app"], &["db"]] {
        store.commit(with_graph(stored_graph(1, keys))).await.unwrap();
        assert_eq!(*store.graph(REPO, &sha(1)).await.unwrap().unwrap(), graph(keys));
        assert_eq!(*store.graph(REPO, &sha(1)).await.unwrap().unwrap(), graph(keys), "from memory");
    }
    assert!(store.graph(OTHER_REPO, &sha(1)).await.unwrap().is_none());
}

pub async fn a_graph_makes_its_own_stacks_known(store: AStore) {
    with_repos(&store).await;
    let mut stored = stored_graph(1, &["vpc", "app"]);
    let external = Stack { key: "acme/apps//web".into(), external: true, ..Stack::default() };
    stored.graph.stacks.push(external);
    store.commit(with_graph(stored)).await.unwrap();

    let stacks = store.stacks(REPO).await.unwrap();
    assert_eq!(stacks.iter().map(|stack| stack.key.as_str()).collect::<Vec<_>>(), ["app", "vpc"]);
    assert_eq!(stacks[0].id, StackId::of(REPO, "app"));
    assert_eq!((stacks[0].changed_at, stacks[0].removed_at, stacks[0].drift_issue), (None, None, None));
    assert!(store.stacks(OTHER_REPO).await.unwrap().is_empty());

    store.save_drift_issue(&stack("app"), Some(12)).await.unwrap();
    store.commit(with_graph(stored_graph(2, &["app"]))).await.unwrap();
    assert_eq!(store.stacks(REPO).await.unwrap()[0].drift_issue, Some(12));
    store.save_drift_issue(&stack("app"), None).await.unwrap();
    assert_eq!(store.stacks(REPO).await.unwrap()[0].drift_issue, None);
}

pub async fn a_tree_hash_counts_for_its_pull_request_and_the_default_branch(store: AStore) {
    with_repos(&store).await;
    let of = |number, pr_number| StoredGraph { pr_number, tree_hash: "tree".into(), ..stored_graph(number, &["vpc"]) };
    for graph in [of(1, 1), of(2, 1), of(3, 2)] {
        store.commit(with_graph(graph)).await.unwrap();
    }
    let found = async |pr_number, hash: &str| store.graph_by_tree_hash(REPO, pr_number, hash).await.unwrap();

    assert_eq!(found(1, "tree").await, Some(sha(2)), "the newest of the pull request");
    assert_eq!(found(2, "tree").await, Some(sha(3)));
    assert_eq!(found(3, "tree").await, None);
    assert_eq!(found(1, "other").await, None);

    // A graph without a hash matches nothing, not even the question without one.
    store.commit(with_graph(StoredGraph { tree_hash: String::new(), ..of(4, 1) })).await.unwrap();
    assert_eq!(found(1, "").await, None);

    store.commit(effects(Effects { default_graph: Some(sha(1)), ..Effects::default() })).await.unwrap();
    assert_eq!(found(3, "tree").await, Some(sha(1)));
    assert_eq!(store.graph_by_tree_hash(OTHER_REPO, 1, "tree").await.unwrap(), None);
}

pub async fn the_newest_graph_is_found(store: AStore) {
    with_repos(&store).await;
    assert_eq!(store.newest_graph(REPO).await.unwrap(), None);
    for number in [1, 3, 2] {
        store.commit(with_graph(stored_graph(number, &["vpc"]))).await.unwrap();
    }
    assert_eq!(store.newest_graph(REPO).await.unwrap(), Some(sha(3)));
    assert_eq!(store.newest_graph(OTHER_REPO).await.unwrap(), None);
}

pub async fn stacks_outside_the_default_graph_are_removed(store: AStore) {
    with_repos(&store).await;
    store.commit(with_graph(stored_graph(1, &["app", "db"]))).await.unwrap();
    store.commit(with_graph(stored_graph(2, &["app", "vpc"]))).await.unwrap();
    let removed = async || {
        let stacks = store.stacks(REPO).await.unwrap();
        let removed = stacks.into_iter().filter(|stack| stack.removed_at.is_some());
        removed.map(|stack| stack.key.to_string()).collect::<Vec<_>>()
    };
    let make_default = async |number| {
        let write = effects(Effects { default_graph: Some(sha(number)), ..Effects::default() });
        store.commit(write).await.unwrap();
    };

    assert_eq!(removed().await, [""; 0]);
    make_default(2).await;
    assert_eq!(store.repo(REPO).await.unwrap().unwrap().default_graph, Some(sha(2)));
    assert_eq!(removed().await, ["db"]);
    make_default(1).await;
    assert_eq!(removed().await, ["vpc"]);

    // Seen again in a pull request.
    store.commit(with_graph(stored_graph(3, &["vpc"]))).await.unwrap();
    assert_eq!(removed().await, [""; 0]);

    // Graph and pointer in one commit; a commit without a graph removes nothing.
    let both = Effects { graph: Some(stored_graph(4, &["app"])), default_graph: Some(sha(4)), ..Effects::default() };
    store.commit(effects(both)).await.unwrap();
    assert_eq!(removed().await, ["db", "vpc"]);
    make_default(9).await;
    assert_eq!(removed().await, ["db", "vpc"]);
    assert_eq!(store.repo(REPO).await.unwrap().unwrap().default_graph, Some(sha(9)));
}

pub async fn the_newest_drift_of_a_stack_counts(store: AStore) {
    with_repos(&store).await;
    let seen = |run: u32, checked_at, drifted| DriftSeen {
        stack_id: stack("vpc"),
        repo_id: REPO,
        key: key("vpc"),
        run_id: run_id(run),
        checked_at,
        drifted,
        summary: serde_json::from_value(json!(null)).unwrap(),
    };
    let runs: Vec<Run> = (1..=2).map(|number| plan(number, 0)).collect();
    store.commit(new_runs(&[&runs[0], &runs[1]])).await.unwrap();
    for drift in [seen(2, 20, true), seen(1, 10, false), seen(1, 10, true)] {
        store.commit(effects(Effects { drift: vec![drift], ..Effects::default() })).await.unwrap();
    }
    let stacks = store.stacks(REPO).await.unwrap();
    assert_eq!(stacks.len(), 1);
    assert_eq!(stacks[0].drift, Some(seen(2, 20, true)));
}
