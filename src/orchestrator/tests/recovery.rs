//! What was lost, cut off or left half done is found again.

use super::*;
use crate::clock::SECOND_MS;
use crate::orchestrator::workers::LEASE_MS;
use crate::run::binding::{self, DispatchedJob};
use crate::run::model::Claim;
use crate::run::progress;
use crate::run::report;
use crate::run::scene::{JobKind, NewJob};

impl World {
    async fn dispatch(&self, dispatch: &Dispatch) -> Dispatch {
        let scene = self.app.store.scene(&dispatch.run_id).await.unwrap().unwrap();
        scene.dispatches[&dispatch.id].clone()
    }

    /// `stackorder apply vpc` at this head, whose job has claimed.
    pub(super) async fn half_applied(&self, head: Sha) -> RunId {
        self.plan(head.clone()).await;
        self.app.commented(&self.repo().await, 1, 5, "ada", "stackorder apply vpc").await.unwrap();
        let run = self.runs().await.into_iter().find(|run| run.mode == Mode::Apply).expect("the apply started");
        let job = DispatchedJob {
            git_ref: "refs/heads/main".to_owned(),
            workflow_run_id: 900,
            attempt: 1,
            environment: "default".to_owned(),
            check_run_id: 1,
        };
        let claim = Claim { at: self.app.now(), workflow_run_id: 900, attempt: 1, check_run_id: 1 };
        let subject = self.app.subject_of(&run.id).await.unwrap().unwrap();
        let claimed = self.app.decide(&subject, |next| {
            binding::bind_job(next, &run.id, &job, Some(&key("vpc")))?;
            report::on_claim(next, &run.id, &key("vpc"), &claim, head.as_str(), String::new())
        });
        claimed.await.unwrap().unwrap().unwrap();
        run.id
    }
}

#[tokio::test]
async fn a_stack_that_was_half_applied_and_is_taken_back_by_the_next_push_is_planned_again() {
    let world = World::new().await;
    world.half_applied(sha('a')).await;

    let (run, resolution) = world.resolve(sha('b'), &["eks/main.tf"]).await;

    let scene = world.app.store.scene(&run).await.unwrap().unwrap();
    let rows: Vec<String> = scene.rows(&run).map(|row| format!("{} {}", row.wave, row.key)).collect();
    assert_eq!(rows, ["1 eks", "0 vpc"]);
    assert_eq!(resolution.matrix.include.len(), 2, "its job is in the matrix");
    let warned =
        scene.runs[&run].warnings.iter().any(|warning| warning.contains("an apply of this pull request touched"));
    assert!(warned, "{:?}", scene.runs[&run].warnings);
}

#[tokio::test]
async fn a_dispatch_that_waited_too_long_is_given_up_by_its_sender() {
    let world = World::new().await;
    let dispatch = world.dispatched().await;
    world.clock.advance(30 * MINUTE_MS);

    world.app.reconcile().await.unwrap();
    assert_eq!(world.dispatch(&dispatch).await.completed_at, None, "it is asked to be sent");
    world.app.send_dispatch(&dispatch.run_id, &dispatch.id).await.unwrap();

    let given_up = world.dispatch(&dispatch).await;
    assert_eq!((given_up.sent_at, given_up.conclusion.as_str()), (None, "timed_out"));
    assert!(world.github.script().told.is_empty());
}

#[tokio::test]
async fn a_dispatch_that_is_given_up_while_github_keeps_its_sender_waiting_is_not_sent() {
    let world = World::new().await;
    let dispatch = world.dispatched().await;
    let clock = world.clock.clone();
    world.github.script().meanwhile = Some(Box::new(move || clock.advance(30 * MINUTE_MS)));

    world.app.send_dispatch(&dispatch.run_id, &dispatch.id).await.unwrap();

    assert_eq!(world.dispatch(&dispatch).await.sent_at, None);
    assert!(world.github.script().told.is_empty());
}

#[tokio::test]
async fn a_workflow_run_that_github_does_not_show_yet_is_not_gone() {
    let world = World::new().await;
    let dispatch = world.dispatched().await;
    let subject = world.app.subject_of(&dispatch.run_id).await.unwrap().unwrap();
    world.app.decide(&subject, |next| progress::bind(next, &dispatch.id, 900, 1)).await.unwrap();

    world.app.reconcile().await.unwrap();
    assert_eq!(world.dispatch(&dispatch).await.completed_at, None);

    world.clock.advance(MINUTE_MS);
    world.app.reconcile().await.unwrap();
    assert_eq!(world.dispatch(&dispatch).await.conclusion, "not_found");
}

#[tokio::test]
async fn slots_that_nobody_works_off_do_not_pile_up() {
    let world = World::new().await;
    for _ in 0..3 {
        world.app.tick("leader").await.unwrap();
        world.clock.advance(MINUTE_MS);
    }
    let mut waiting = Vec::new();
    while let Some(job) = world.app.store.claim_job("w", world.app.now(), LEASE_MS).await.unwrap() {
        waiting.push(job.kind);
    }
    assert_eq!(waiting.iter().filter(|kind| **kind == JobKind::Reconcile).count(), 1, "{waiting:?}");
}

#[tokio::test]
async fn a_leader_that_resigns_is_followed_at_once_and_one_that_died_within_its_lease() {
    let world = World::new().await;
    let leads = async |holder| {
        world.app.tick(holder).await.unwrap();
        !world.app.store.take_lease("scheduler", "nobody else", world.app.now(), 0).await.unwrap()
    };
    assert!(leads("a").await);
    world.app.resign("b").await.unwrap();
    assert!(
        !world.app.store.take_lease("scheduler", "b", world.app.now(), 1).await.unwrap(),
        "only the leader resigns"
    );
    world.app.resign("a").await.unwrap();
    assert!(world.app.store.take_lease("scheduler", "b", world.app.now(), 30 * SECOND_MS).await.unwrap());
    world.clock.advance(30 * SECOND_MS);
    assert!(leads("a").await, "b died");
}

#[tokio::test]
async fn failure_18_what_a_dead_process_had_claimed_is_worked_off_when_its_lease_ends() {
    let world = World::new().await;
    let job = NewJob::now(JobKind::Prune, serde_json::json!({}), world.app.now());
    world.app.store.add_job(&job).await.unwrap();
    world.app.store.claim_job("dead", world.app.now(), LEASE_MS).await.unwrap().unwrap();

    assert!(!work_one(&world.app, "alive", &KEEP).await.unwrap());
    world.clock.advance(LEASE_MS);
    assert!(work_one(&world.app, "alive", &KEEP).await.unwrap());
    assert_eq!(world.app.store.next_due().await.unwrap(), None);
}

#[tokio::test]
async fn a_merge_under_on_merge_frees_what_an_apply_before_the_merge_had_locked() {
    let world = World::new().await;
    let run = world.half_applied(sha('a')).await;
    let subject = world.app.subject_of(&run).await.unwrap().unwrap();
    let ended = world.app.decide(&subject, |next| {
        let dispatch = next.scene.row(&run, &key("vpc")).and_then(|row| row.dispatch_id.clone()).unwrap();
        progress::complete_dispatch(next, &dispatch, "failure");
    });
    ended.await.unwrap();
    let mut config = RepoConfig::default();
    config.apply.mode = ApplyMode::OnMerge;
    world.app.store.save_config(REPO, Some(&config), "").await.unwrap();
    {
        let pull = &mut world.github.script().pull;
        (pull.open, pull.merged, pull.merge_commit_sha) = (false, true, Some(sha('d')));
    }
    assert_eq!(world.app.store.locks(None).await.unwrap().len(), 1);

    world.app.pull_request_closed(&world.repo().await, 1).await.unwrap();

    assert!(world.app.store.locks(None).await.unwrap().is_empty(), "the merge itself was refused: its plan is used");
}
