//! The one write: everything or nothing, and who wins.

use std::sync::Arc;

use stackorder::ids::StackId;
use stackorder::run::model::{Run, Verdict};
use stackorder::run::scene::{Changes, Effects, PlanText};
use stackorder::run::status::{Mode, RowStatus, RunStatus, Trigger, VerdictStatus};
use stackorder::store::StoreError;

use super::values::*;

pub async fn a_commit_is_read_back_as_it_was_written(store: AStore) {
    with_repos(&store).await;
    let run = plan(1, 1);
    let write = Changes {
        rows: vec![row(&run, "vpc"), row(&run, "app")],
        dispatches: vec![dispatch(1, &run, 0)],
        verdicts: vec![verdict(&run, "vpc", "cost")],
        effects: Effects {
            plan_texts: vec![PlanText { run_id: run.id.clone(), stack_id: stack("vpc"), text: "+ one".into() }],
            audit: vec![audit(5, "command", "acme/infra", 1)],
            jobs: vec![job("first", 5)],
            ..Effects::default()
        },
        ..new_runs(&[&run])
    };
    store.commit(write).await.unwrap();

    assert_eq!(store.run(&run.id).await.unwrap(), Some(run.clone()));
    assert_eq!(store.rows(&run.id).await.unwrap(), [row(&run, "app"), row(&run, "vpc")]);
    assert_eq!(store.open_dispatches().await.unwrap(), [dispatch(1, &run, 0)]);
    assert_eq!(store.plan_text(&run.id, &stack("vpc")).await.unwrap().as_deref(), Some("+ one"));
    assert_eq!(store.plan_text(&run.id, &stack("app")).await.unwrap(), None);
    assert_eq!(store.audit(10, None).await.unwrap()[0].1, audit(5, "command", "acme/infra", 1));
    assert_eq!(store.claim_job("w", 5, 100).await.unwrap().unwrap().payload, job("first", 5).payload);

    let (moved, version) = next(&run, |run| run.status = RunStatus::Planned);
    let planned = with_status(row(&run, "vpc"), RowStatus::Planned);
    let failing = Verdict { status: VerdictStatus::Fail, ..verdict(&run, "vpc", "cost") };
    let write = Changes {
        runs: vec![(moved.clone(), version)],
        rows: vec![planned.clone()],
        verdicts: vec![failing.clone()],
        effects: Effects {
            plan_texts: vec![PlanText { run_id: run.id.clone(), stack_id: stack("vpc"), text: "+ two".into() }],
            ..Effects::default()
        },
        ..changes()
    };
    store.commit(write).await.unwrap();

    assert_eq!(store.run(&run.id).await.unwrap(), Some(moved));
    assert_eq!(store.rows(&run.id).await.unwrap(), [row(&run, "app"), planned]);
    assert_eq!(store.plan_text(&run.id, &stack("vpc")).await.unwrap().as_deref(), Some("+ two"));
    let scene = store.scene(&run.id).await.unwrap().unwrap();
    assert_eq!(scene.verdicts.into_values().collect::<Vec<_>>(), [failing]);
}

pub async fn a_moved_version_is_a_conflict_that_names_the_run(store: AStore) {
    with_repos(&store).await;
    let (first, second, third) = (plan(1, 1), plan(2, 1), plan(3, 1));
    store.commit(new_runs(&[&first, &second, &third])).await.unwrap();
    let stale = [next(&first, |_| ()), next(&second, |_| ()), next(&third, |_| ())];
    store.commit(Changes { runs: vec![stale[0].clone(), stale[2].clone()], ..changes() }).await.unwrap();

    let outcome = store.commit(Changes { runs: stale.to_vec(), ..changes() }).await;
    assert_eq!(conflict(outcome), [first.id, third.id]);
    assert_eq!(store.run(&second.id).await.unwrap().unwrap().version, 1);

    let unknown = next(&plan(9, 1), |_| ());
    assert_eq!(conflict(store.commit(Changes { runs: vec![unknown], ..changes() }).await), [run_id(9)]);
}

pub async fn a_conflict_leaves_nothing_behind(store: AStore) {
    with_repos(&store).await;
    let (run, holder) = (plan(1, 1), apply(2, 2));
    let write = Changes { locks_taken: vec![lock(&holder, "vpc")], ..new_runs(&[&run, &holder]) };
    store.commit(write).await.unwrap();

    // The lock is the last thing to fail but for effects.
    let fresh = apply(3, 3);
    let write = Changes {
        runs: vec![next(&run, |run| run.status = RunStatus::Planned)],
        rows: vec![row(&fresh, "vpc")],
        dispatches: vec![dispatch(1, &fresh, 0)],
        locks_taken: vec![lock(&fresh, "app"), lock(&fresh, "vpc")],
        changed_at: vec![(REPO, key("vpc"), 9)],
        effects: Effects {
            once: vec!["name".into()],
            jobs: vec![job("never", 1)],
            audit: vec![audit(1, "never", "x", 1)],
            graph: Some(stored_graph(1, &["vpc"])),
            ..Effects::default()
        },
        ..new_runs(&[&fresh])
    };
    assert_eq!(conflict(store.commit(write).await), [run.id.clone(), fresh.id.clone()]);

    assert_eq!(store.run(&run.id).await.unwrap(), Some(run));
    assert_eq!(store.run(&fresh.id).await.unwrap(), None);
    assert!(store.rows(&fresh.id).await.unwrap().is_empty());
    assert!(store.open_dispatches().await.unwrap().is_empty());
    assert_eq!(store.locks(None).await.unwrap(), [lock(&holder, "vpc")]);
    assert!(!store.was_claimed("name").await.unwrap());
    assert_eq!(store.next_due().await.unwrap(), None);
    assert!(store.audit(10, None).await.unwrap().is_empty());
    assert_eq!(store.newest_graph(REPO).await.unwrap(), None);
}

pub async fn of_two_racing_commits_one_wins(store: AStore) {
    with_repos(&store).await;
    let run = plan(1, 1);
    store.commit(new_runs(&[&run])).await.unwrap();

    let tasks: Vec<_> = ["left", "right"]
        .into_iter()
        .map(|name| {
            let store = Arc::clone(&store);
            let write = Changes { runs: vec![next(&run, |run| run.warn(name))], ..changes() };
            tokio::spawn(async move { store.commit(write).await })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(()) => won += 1,
            lost => assert_eq!(conflict(lost), [run_id(1)]),
        }
    }

    assert_eq!(won, 1);
    let stored = store.run(&run.id).await.unwrap().unwrap();
    assert_eq!((stored.version, stored.warnings.len()), (2, 1));
}

pub async fn a_second_open_apply_of_a_pull_request_is_a_conflict(store: AStore) {
    with_repos(&store).await;
    let first = apply(1, 1);
    store.commit(new_runs(&[&first, &apply(2, 2), &apply(3, 0), &apply(4, 0)])).await.unwrap();
    let applying = Run { status: RunStatus::Applying, ..apply(5, 1) };
    assert_eq!(conflict(store.commit(new_runs(&[&applying])).await), [run_id(5)]);

    // In one commit the old one ends before the new one begins.
    let write = Changes { runs: vec![next(&first, |run| run.status = RunStatus::Failed)], ..new_runs(&[&applying]) };
    store.commit(write).await.unwrap();

    // One that had ended cannot come back beside it.
    let ended = store.run(&first.id).await.unwrap().unwrap();
    let write = Changes { runs: vec![next(&ended, |run| run.status = RunStatus::Planned)], ..changes() };
    assert_eq!(conflict(store.commit(write).await), [first.id]);
}

pub async fn a_second_open_plan_of_a_commit_is_a_conflict(store: AStore) {
    with_repos(&store).await;
    let same = |number, status| Run { sha: sha(1), status, ..plan(number, 1) };
    store.commit(new_runs(&[&same(1, RunStatus::Planning)])).await.unwrap();
    assert_eq!(conflict(store.commit(new_runs(&[&same(2, RunStatus::Pending)])).await), [run_id(2)]);

    let asked_for = Run { trigger: Trigger::Comment, ..same(3, RunStatus::Pending) };
    store.commit(new_runs(&[&same(4, RunStatus::Planned), &asked_for, &plan(5, 1)])).await.unwrap();
}

pub async fn a_second_replan_of_a_wave_is_a_conflict(store: AStore) {
    with_repos(&store).await;
    let replan =
        |number, wave| Run { trigger: Trigger::Upstream, for_run: Some(run_id(1)), for_wave: wave, ..plan(number, 1) };
    store.commit(new_runs(&[&apply(1, 1), &replan(2, 1), &replan(3, 2)])).await.unwrap();
    assert_eq!(conflict(store.commit(new_runs(&[&replan(4, 1)])).await), [run_id(4)]);
    assert_eq!(store.run(&run_id(2)).await.unwrap(), Some(replan(2, 1)));
}

pub async fn only_people_apply(store: AStore) {
    with_repos(&store).await;
    for (number, trigger) in (1..).zip(Trigger::ALL) {
        let run = Run { trigger: *trigger, ..apply(number, i64::from(number)) };
        let outcome = store.commit(new_runs(&[&run])).await;
        match trigger {
            Trigger::PullRequest | Trigger::Comment | Trigger::Manual => outcome.unwrap(),
            Trigger::Push | Trigger::Schedule | Trigger::Rerequest | Trigger::Upstream => {
                assert!(matches!(outcome, Err(StoreError::Db(_))), "{trigger}: {outcome:?}");
            }
        }
    }
    let nobody = Run { requested_by: String::new(), ..apply(99, 99) };
    assert!(matches!(store.commit(new_runs(&[&nobody])).await, Err(StoreError::Db(_))));
}

pub async fn every_status_can_be_stored(store: AStore) {
    with_repos(&store).await;
    let mut number = 0;
    for status in RunStatus::ALL {
        for mode in Mode::ALL {
            number += 1;
            let trigger = if *mode == Mode::Apply { Trigger::Manual } else { Trigger::Schedule };
            let run = Run { mode: *mode, trigger, status: *status, ..plan(number, 0) };
            store.commit(new_runs(&[&run])).await.unwrap();
        }
    }
    let run = plan(100, 0);
    let statuses = RowStatus::ALL.iter().zip('a'..);
    let rows = statuses.map(|(status, name)| with_status(row(&run, &name.to_string()), *status)).collect();
    let verdicts =
        VerdictStatus::ALL.iter().map(|status| Verdict { status: *status, ..verdict(&run, "a", status.as_str()) });
    let write = Changes { rows, verdicts: verdicts.collect(), ..new_runs(&[&run]) };
    store.commit(write.clone()).await.unwrap();
    assert_eq!(store.rows(&run.id).await.unwrap(), write.rows);
}

pub async fn a_name_is_claimed_once(store: AStore) {
    with_repos(&store).await;
    let claim = |number| Changes {
        effects: Effects { once: vec!["comment:7:42".into()], ..Effects::default() },
        ..new_runs(&[&plan(number, 1)])
    };
    assert!(!store.was_claimed("comment:7:42").await.unwrap());
    store.commit(claim(1)).await.unwrap();
    assert!(store.was_claimed("comment:7:42").await.unwrap());
    assert_eq!(conflict(store.commit(claim(2)).await), [run_id(2)]);
    assert_eq!(store.run(&run_id(2)).await.unwrap(), None);
}

pub async fn a_dispatch_is_unique_within_its_run(store: AStore) {
    with_repos(&store).await;
    let run = apply(1, 1);
    store.commit(Changes { dispatches: vec![dispatch(1, &run, 0)], ..new_runs(&[&run]) }).await.unwrap();

    let twin = Changes { runs: vec![next(&run, |_| ())], dispatches: vec![dispatch(2, &run, 0)], ..changes() };
    assert_eq!(conflict(store.commit(twin).await), [run_id(1)]);

    let mut sent = dispatch(1, &run, 0);
    sent.sent_at = Some(3000);
    sent.workflow_run_id = Some(77);
    let write =
        Changes { runs: vec![next(&run, |_| ())], dispatches: vec![sent.clone(), dispatch(2, &run, 1)], ..changes() };
    store.commit(write).await.unwrap();
    assert_eq!(store.open_dispatches().await.unwrap(), [sent.clone(), dispatch(2, &run, 1)]);
    assert_eq!(store.dispatch_by_workflow_run(77).await.unwrap(), Some(sent));
    assert_eq!(store.dispatch_by_workflow_run(78).await.unwrap(), None);
}

pub async fn a_workflow_run_serves_one_dispatch(store: AStore) {
    with_repos(&store).await;
    let run = apply(1, 1);
    let served = |number, wave| {
        let mut dispatch = dispatch(number, &run, wave);
        dispatch.workflow_run_id = Some(77);
        dispatch
    };
    store.commit(Changes { dispatches: vec![served(1, 0)], ..new_runs(&[&run]) }).await.unwrap();
    let write = Changes { runs: vec![next(&run, |_| ())], dispatches: vec![served(2, 1)], ..changes() };
    assert_eq!(conflict(store.commit(write).await), [run_id(1)]);
    assert_eq!(store.open_dispatches().await.unwrap(), [served(1, 0)]);
}

pub async fn a_stack_has_one_lock(store: AStore) {
    with_repos(&store).await;
    let (first, second) = (apply(1, 1), apply(2, 2));
    store.commit(Changes { locks_taken: vec![lock(&first, "vpc")], ..new_runs(&[&first]) }).await.unwrap();
    let write = Changes { locks_taken: vec![lock(&second, "vpc")], ..new_runs(&[&second]) };
    assert_eq!(conflict(store.commit(write).await), [second.id]);
    assert_eq!(store.locks(Some(REPO)).await.unwrap(), [lock(&first, "vpc")]);
    assert_eq!(store.locks(Some(OTHER_REPO)).await.unwrap(), []);
    assert_eq!(store.stacks(REPO).await.unwrap()[0].id, stack("vpc"), "a locked stack is known");
}

pub async fn a_lock_moves_to_another_run_in_one_commit(store: AStore) {
    with_repos(&store).await;
    let (first, second) = (in_status(apply(1, 1), RunStatus::Failed), apply(2, 1));
    store.commit(Changes { locks_taken: vec![lock(&first, "vpc")], ..new_runs(&[&first]) }).await.unwrap();
    let write = Changes {
        runs: vec![next(&first, |_| ())],
        locks_released: vec![(stack("vpc"), first.id.clone())],
        locks_taken: vec![lock(&second, "vpc")],
        ..new_runs(&[&second])
    };
    store.commit(write).await.unwrap();
    assert_eq!(store.locks(None).await.unwrap(), [lock(&second, "vpc")]);
    assert_eq!(store.run(&first.id).await.unwrap().unwrap().version, 2, "counted once");
}

pub async fn releasing_a_lock_of_someone_else_is_a_conflict(store: AStore) {
    with_repos(&store).await;
    let (first, second) = (apply(1, 1), apply(2, 2));
    let write = Changes { locks_taken: vec![lock(&first, "vpc")], ..new_runs(&[&first, &second]) };
    store.commit(write).await.unwrap();
    let release = |holder: &Run, id: StackId| Changes { locks_released: vec![(id, holder.id.clone())], ..changes() };
    assert_eq!(conflict(store.commit(release(&second, stack("vpc"))).await), [second.id]);
    assert_eq!(conflict(store.commit(release(&first, stack("app"))).await), [run_id(1)]);
    assert_eq!(store.locks(None).await.unwrap(), [lock(&first, "vpc")]);
}

pub async fn releasing_a_lock_touches_its_holder(store: AStore) {
    with_repos(&store).await;
    let holder = apply(1, 1);
    let write = Changes { locks_taken: vec![lock(&holder, "vpc"), lock(&holder, "app")], ..new_runs(&[&holder]) };
    store.commit(write).await.unwrap();
    let released = vec![(stack("vpc"), holder.id.clone()), (stack("app"), holder.id.clone())];
    store.commit(Changes { locks_released: released, ..changes() }).await.unwrap();

    assert!(store.locks(None).await.unwrap().is_empty());
    assert_eq!(store.run(&holder.id).await.unwrap().unwrap().version, 2, "once, not once a lock");
    let late = Changes { runs: vec![next(&holder, |_| ())], ..changes() };
    assert_eq!(conflict(store.commit(late).await), [holder.id]);
}

pub async fn racing_commits_take_a_lock_once(store: AStore) {
    with_repos(&store).await;
    let tasks: Vec<_> = (1..=4_u32)
        .map(|number| {
            let store = Arc::clone(&store);
            let run = apply(number, i64::from(number));
            // In opposite orders, which is how deadlocks are made.
            let mut locks = vec![lock(&run, "app"), lock(&run, "vpc")];
            if number % 2 == 0 {
                locks.reverse();
            }
            let write = Changes { locks_taken: locks, ..new_runs(&[&run]) };
            tokio::spawn(async move { store.commit(write).await })
        })
        .collect();
    let mut winners = Vec::new();
    for (number, task) in (1..).zip(tasks) {
        match task.await.unwrap() {
            Ok(()) => winners.push(number),
            lost => assert_eq!(conflict(lost), [run_id(number)]),
        }
    }

    assert_eq!(winners.len(), 1);
    let winner = apply(winners[0], i64::from(winners[0]));
    assert_eq!(store.locks(None).await.unwrap(), [lock(&winner, "app"), lock(&winner, "vpc")]);
}

pub async fn a_stack_changes_only_forward(store: AStore) {
    with_repos(&store).await;
    for at in [20, 30, 10] {
        store.commit(Changes { changed_at: vec![(REPO, key("vpc"), at)], ..changes() }).await.unwrap();
    }
    assert_eq!(store.stacks(REPO).await.unwrap()[0].changed_at, Some(30));
}

pub async fn rows_of_unknown_runs_are_refused(store: AStore) {
    with_repos(&store).await;
    let run = plan(1, 1);
    let lonely = [
        Changes { rows: vec![row(&run, "vpc")], ..changes() },
        Changes { dispatches: vec![dispatch(1, &run, 0)], ..changes() },
        Changes { verdicts: vec![verdict(&run, "vpc", "cost")], ..changes() },
        Changes { locks_taken: vec![lock(&run, "vpc")], ..changes() },
        new_runs(&[&Run { repo_id: 99, ..run.clone() }]),
    ];
    for write in lonely {
        let outcome = store.commit(write.clone()).await;
        assert!(matches!(outcome, Err(StoreError::Db(_))), "{write:?}: {outcome:?}");
    }
}

pub async fn many_rows_go_into_one_commit(store: AStore) {
    with_repos(&store).await;
    let run = plan(1, 1);
    let keys: Vec<String> = (0..1500).map(|number| format!("s/{number:04}")).collect();
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let write = Changes {
        rows: names.iter().map(|key| row(&run, key)).collect(),
        effects: Effects { graph: Some(stored_graph(1, &names)), default_graph: Some(sha(1)), ..Effects::default() },
        ..new_runs(&[&run])
    };
    store.commit(write).await.unwrap();
    assert_eq!(store.rows(&run.id).await.unwrap().len(), 1500);
    assert_eq!(store.stacks(REPO).await.unwrap().iter().filter(|stack| stack.removed_at.is_none()).count(), 1500);
}

pub async fn commits_that_move_locks_or_queue_of_a_repository_happen_one_after_the_other(store: AStore) {
    with_repos(&store).await;
    let (one, other) = (apply(1, 1), apply(2, 2));
    store.commit(new_runs(&[&one, &other])).await.unwrap();
    let seen = store.pull_scene(REPO, 1).await.unwrap().unwrap().locks_version;
    let take = |run: &Run, key: &str| Changes {
        locks_version: Some(seen),
        locks_taken: vec![lock(run, key)],
        runs: vec![next(run, |_| {})],
        ..changes()
    };
    let (first, second) = tokio::join!(store.commit(take(&one, "vpc")), store.commit(take(&other, "eks")));
    let lost = [first, second].into_iter().filter_map(Result::err).collect::<Vec<_>>();
    assert_eq!(lost.len(), 1, "different stacks, yet one of them has to look again: {lost:?}");
    assert!(matches!(lost[0], StoreError::Conflict(_)), "{lost:?}");
    let scene = store.pull_scene(REPO, 1).await.unwrap().unwrap();
    assert_eq!((scene.locks.len(), scene.locks_version), (1, seen + 1));
}
