//! What a decision may look at.

use stackorder::run::model::Run;
use stackorder::run::scene::{Changes, Effects};
use stackorder::run::status::RunStatus;

use super::values::*;

pub async fn a_run_without_a_pull_request_stands_alone(store: AStore) {
    with_repos(&store).await;
    let (alone, other) = (apply(1, 0), apply(2, 0));
    let write = Changes {
        rows: vec![row(&alone, "vpc"), row(&other, "app")],
        dispatches: vec![dispatch(1, &alone, 0), dispatch(2, &other, 0)],
        locks_taken: vec![lock(&alone, "vpc"), lock(&other, "app")],
        ..new_runs(&[&alone, &other])
    };
    store.commit(write).await.unwrap();

    let scene = store.scene(&alone.id).await.unwrap().unwrap();
    assert_eq!(scene.pr_number, 0);
    assert_eq!(scene.runs.keys().collect::<Vec<_>>(), [&alone.id]);
    assert_eq!(scene.rows[&alone.id].keys().collect::<Vec<_>>(), [&key("vpc")]);
    assert_eq!(scene.dispatches.len(), 1);
    assert_eq!(scene.locks.len(), 2, "all locks of the repository");
}

pub async fn a_scene_holds_the_whole_pull_request(store: AStore) {
    with_repos(&store).await;
    let superseded = in_status(plan(1, 1), RunStatus::Superseded);
    let mut planned = plan(2, 1);
    planned.graph_sha = Some(sha(2));
    let elsewhere = plan(3, 2);
    let write = Changes {
        rows: vec![row(&superseded, "vpc"), row(&planned, "vpc"), row(&planned, "app"), row(&elsewhere, "vpc")],
        dispatches: vec![dispatch(1, &planned, 0)],
        verdicts: vec![verdict(&planned, "vpc", "cost")],
        effects: Effects {
            graph: Some(stored_graph(2, &["vpc", "app"])),
            default_graph: Some(sha(2)),
            ..Effects::default()
        },
        ..new_runs(&[&superseded, &planned, &elsewhere])
    };
    store.commit(write).await.unwrap();
    store.commit(effects(Effects { graph: Some(stored_graph(9, &["x"])), ..Effects::default() })).await.unwrap();

    let scene = store.scene(&planned.id).await.unwrap().unwrap();
    assert_eq!(store.scene(&superseded.id).await.unwrap().unwrap(), scene);
    assert_eq!(store.pull_scene(REPO, 1).await.unwrap().unwrap(), scene);
    assert_eq!(scene.repo, store.repo(REPO).await.unwrap().unwrap());
    assert_eq!(scene.pr_number, 1);
    assert_eq!(scene.runs.keys().collect::<Vec<_>>(), [&superseded.id, &planned.id]);
    assert_eq!(scene.rows[&superseded.id].len(), 1);
    assert_eq!(
        scene.rows[&planned.id].values().cloned().collect::<Vec<_>>(),
        [row(&planned, "app"), row(&planned, "vpc")]
    );
    assert_eq!(scene.dispatches.into_values().collect::<Vec<_>>(), [dispatch(1, &planned, 0)]);
    assert_eq!(scene.verdicts.into_values().collect::<Vec<_>>(), [verdict(&planned, "vpc", "cost")]);
    assert_eq!(scene.graphs.keys().collect::<Vec<_>>(), [&sha(2)], "not every graph there is");
    assert_eq!(*scene.graphs[&sha(2)], graph(&["vpc", "app"]));
}

pub async fn a_scene_shows_locks_and_changes_of_the_whole_repository(store: AStore) {
    with_repos(&store).await;
    let (mine, theirs) = (apply(1, 1), apply(2, 2));
    let mut foreign = apply(3, 1);
    foreign.repo_id = OTHER_REPO;
    let write = Changes {
        locks_taken: vec![lock(&mine, "vpc"), lock(&theirs, "app"), lock(&foreign, "web")],
        changed_at: vec![(REPO, key("db"), 50), (OTHER_REPO, key("web"), 60)],
        ..new_runs(&[&mine, &theirs, &foreign])
    };
    store.commit(write).await.unwrap();

    let scene = store.scene(&mine.id).await.unwrap().unwrap();
    assert_eq!(scene.runs.keys().collect::<Vec<_>>(), [&mine.id]);
    assert_eq!(scene.locks.values().cloned().collect::<Vec<_>>(), [lock(&theirs, "app"), lock(&mine, "vpc")]);
    assert_eq!(*scene.changed_at, [(key("db"), 50)].into());
}

pub async fn a_scene_of_a_new_pull_request_is_empty(store: AStore) {
    with_repos(&store).await;
    let manual = plan(1, 0);
    store.commit(new_runs(&[&manual])).await.unwrap();

    let scene = store.pull_scene(REPO, 5).await.unwrap().unwrap();
    assert_eq!((scene.pr_number, scene.repo.id, scene.runs.len()), (5, REPO, 0));
    assert_eq!(store.pull_scene(REPO, 0).await.unwrap().unwrap().runs.len(), 0, "0 is no pull request");
    assert!(store.pull_scene(99, 5).await.unwrap().is_none());
}

/// More than one statement can name.
pub async fn a_scene_of_very_many_runs_is_whole(store: AStore) {
    with_repos(&store).await;
    let superseded = |number| Run { sha: sha(1), ..in_status(plan(number, 1), RunStatus::Superseded) };
    let runs: Vec<Run> = (1..=1_001).map(superseded).collect();
    let last = runs.last().expect("there are some");
    let rows = runs.iter().map(|run| row(run, "vpc")).collect();
    let write = Changes { rows, locks_taken: vec![lock(last, "app")], ..new_runs(&runs.iter().collect::<Vec<_>>()) };
    store.commit(write).await.unwrap();

    let scene = store.scene(&last.id).await.unwrap().unwrap();
    assert_eq!((scene.runs.len(), scene.rows.len(), scene.locks.len()), (runs.len(), runs.len(), 1));
}

pub async fn an_unknown_run_has_no_scene(store: AStore) {
    with_repos(&store).await;
    assert!(store.scene(&run_id(1)).await.unwrap().is_none());
    assert!(store.run(&run_id(1)).await.unwrap().is_none());
    assert!(store.rows(&run_id(1)).await.unwrap().is_empty());
}

pub async fn a_difference_of_two_scenes_can_be_committed(store: AStore) {
    with_repos(&store).await;
    let run = apply(1, 1);
    let write = Changes { rows: vec![row(&run, "vpc")], locks_taken: vec![lock(&run, "vpc")], ..new_runs(&[&run]) };
    store.commit(write).await.unwrap();

    let before = store.scene(&run.id).await.unwrap().unwrap();
    let mut after = before.clone();
    after.runs.get_mut(&run.id).unwrap().enter(RunStatus::Applying, 10);
    after.row_mut(&run.id, &key("vpc")).unwrap().note = "changed".into();
    after.locks_mut().clear();
    after.changed_at_mut().insert(key("vpc"), 11);
    store.commit(Changes::between(&before, after.clone(), Effects::default())).await.unwrap();

    after.runs.get_mut(&run.id).unwrap().version += 1;
    after.locks_version += 1;
    assert_eq!(store.scene(&run.id).await.unwrap().unwrap(), after);
}

pub async fn a_scene_shows_who_waits_in_other_pull_requests_first_come_first(store: AStore) {
    with_repos(&store).await;
    let waits = |number: u32, pr_number: i64, at: i64| Run {
        wants: vec![key("vpc")],
        created_at: at,
        ..in_status(apply(number, pr_number), RunStatus::Pending)
    };
    // The id decides between two of one millisecond; one that never waited, and one that does not any more, are none of them.
    let queued = [waits(1, 1, 30), waits(2, 2, 10), waits(4, 3, 20), waits(3, 4, 20)];
    let cut_off = in_status(apply(5, 5), RunStatus::Pending);
    let started = Run { wants: vec![key("vpc")], ..in_status(apply(6, 6), RunStatus::Applying) };
    let all: Vec<&Run> = queued.iter().chain([&cut_off, &started]).collect();
    store.commit(new_runs(&all)).await.unwrap();

    let numbers = |queue: Vec<Run>| queue.into_iter().map(|run| run.pr_number).collect::<Vec<_>>();
    assert_eq!(numbers(store.pull_scene(REPO, 9).await.unwrap().unwrap().queue), [2, 4, 3, 1]);
    assert_eq!(
        numbers(store.pull_scene(REPO, 4).await.unwrap().unwrap().queue),
        [2, 3, 1],
        "its own is among its runs"
    );
}
