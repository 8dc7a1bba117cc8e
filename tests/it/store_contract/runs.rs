//! Lists of runs, rows and dispatches.

use std::collections::BTreeMap;

use stackorder::run::model::{Dispatch, Run};
use stackorder::run::scene::Changes;
use stackorder::run::status::{Mode, RunStatus};
use stackorder::store::RunFilter;

use super::values::*;

fn all() -> RunFilter {
    RunFilter { limit: 100, ..RunFilter::default() }
}

async fn list(store: &AStore, filter: RunFilter) -> Vec<u32> {
    let runs = store.runs(&filter).await.unwrap();
    runs.iter().map(|run| u32::from_str_radix(&run.id.as_str()[24..], 16).unwrap()).collect()
}

pub async fn filters_narrow_the_list_of_runs(store: AStore) {
    with_repos(&store).await;
    let elsewhere = Run { repo_id: OTHER_REPO, ..plan(3, 1) };
    let reported = Run { workflow_run_id: 77, ..in_status(plan(2, 2), RunStatus::Planned) };
    store.commit(new_runs(&[&plan(1, 1), &reported, &elsewhere, &apply(4, 1)])).await.unwrap();

    assert_eq!(list(&store, all()).await, [4, 3, 2, 1]);
    assert_eq!(list(&store, RunFilter { repo_id: Some(REPO), ..all() }).await, [4, 2, 1]);
    assert_eq!(list(&store, RunFilter { repo_id: Some(REPO), pr_number: Some(1), ..all() }).await, [4, 1]);
    assert_eq!(list(&store, RunFilter { mode: Some(Mode::Apply), ..all() }).await, [4]);
    assert_eq!(list(&store, RunFilter { status: Some(RunStatus::Planned), ..all() }).await, [2]);
    assert_eq!(list(&store, RunFilter { sha: Some(sha(3)), ..all() }).await, [3]);
    assert_eq!(list(&store, RunFilter { workflow_run_id: Some(77), ..all() }).await, [2]);
    assert_eq!(list(&store, RunFilter { workflow_run_id: Some(0), ..all() }).await, [0; 0], "0 is no workflow run");
    assert_eq!(list(&store, RunFilter { limit: 2, ..all() }).await, [4, 3]);
}

pub async fn a_list_of_runs_continues_where_it_stopped(store: AStore) {
    with_repos(&store).await;
    let at = |number, created_at| Run { created_at, ..plan(number, 0) };
    let runs: Vec<Run> =
        [at(1, 10), at(2, 20), at(3, 10), at(4, 20), at(5, 10)].map(|run| Run { sha: sha(1), ..run }).into();
    let runs = runs.into_iter().map(|run| in_status(run, RunStatus::Planned)).collect();
    store.commit(Changes { new_runs: runs, ..changes() }).await.unwrap();

    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = store.runs(&RunFilter { before: before.clone(), limit: 2, ..RunFilter::default() }).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some((last.created_at, last.id.clone()));
        seen.extend(page.into_iter().map(|run| run.id));
    }
    assert_eq!(seen, [4, 2, 5, 3, 1].map(run_id));
}

pub async fn open_runs_are_those_that_wait_for_something(store: AStore) {
    with_repos(&store).await;
    let numbers = || 1_u32..;
    let plans = numbers().zip(RunStatus::ALL).map(|(number, status)| in_status(plan(number, 0), *status));
    let applies = numbers().zip(RunStatus::ALL).map(|(number, status)| in_status(apply(100 + number, 0), *status));
    let runs: Vec<Run> = plans.map(|run| Run { pr_number: i64::from(run.for_wave), ..run }).chain(applies).collect();
    store.commit(Changes { new_runs: runs, ..changes() }).await.unwrap();

    let open = store.runs(&RunFilter { open_only: true, ..all() }).await.unwrap();
    let open: Vec<(Mode, RunStatus)> = open.iter().map(|run| (run.mode, run.status)).collect();
    assert_eq!(
        open,
        [
            (Mode::Apply, RunStatus::Applying),
            (Mode::Apply, RunStatus::Planned),
            (Mode::Apply, RunStatus::Planning),
            (Mode::Apply, RunStatus::Pending),
            (Mode::Plan, RunStatus::Applying),
            (Mode::Plan, RunStatus::Planning),
            (Mode::Plan, RunStatus::Pending),
        ]
    );
}

pub async fn rows_come_by_key(store: AStore) {
    with_repos(&store).await;
    let run = plan(1, 1);
    let keys = ["b", "a/b", "a", "a-b", "B"];
    store.commit(Changes { rows: keys.map(|key| row(&run, key)).into(), ..new_runs(&[&run]) }).await.unwrap();
    let rows = store.rows(&run.id).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(), ["B", "a", "a-b", "a/b", "b"]);
}

pub async fn open_dispatches_come_oldest_first(store: AStore) {
    with_repos(&store).await;
    let run = apply(1, 1);
    let at = |number, dispatched_at| Dispatch { dispatched_at, ..dispatch(number, &run, number) };
    let done = Dispatch { completed_at: Some(30), conclusion: "success".into(), ..at(4, 1) };
    store
        .commit(Changes { dispatches: vec![at(1, 20), at(2, 10), at(3, 10), done], ..new_runs(&[&run]) })
        .await
        .unwrap();
    assert_eq!(store.open_dispatches().await.unwrap(), [at(2, 10), at(3, 10), at(1, 20)]);
}

pub async fn runs_are_counted_by_status(store: AStore) {
    with_repos(&store).await;
    assert!(store.runs_by_status().await.unwrap().is_empty());
    let planned = in_status(plan(3, 1), RunStatus::Planned);
    store.commit(new_runs(&[&plan(1, 1), &plan(2, 1), &planned])).await.unwrap();
    let counted = BTreeMap::from([(RunStatus::Pending, 2), (RunStatus::Planned, 1)]);
    assert_eq!(store.runs_by_status().await.unwrap(), counted);
}
