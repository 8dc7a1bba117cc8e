//! Applies that wait for the locks of others, from request to promotion (spec 30 §7.6).

use super::*;
use crate::config::model::OnConflict;
use crate::gate::facts::Comparison;
use crate::run::binding::{self, DispatchedJob};
use crate::run::model::{Claim, Lock};
use crate::run::progress;
use crate::run::report::{self, Reporter};
use crate::run::status::RowStatus;

impl World {
    /// A repository whose applies queue.
    async fn queueing(mode: ApplyMode) -> Self {
        let world = Self::new().await;
        let mut config = RepoConfig::default();
        config.apply.mode = mode;
        config.apply.on_conflict = Some(OnConflict::Queue);
        world.app.store.save_config(REPO, Some(&config), "f").await.unwrap();
        world
    }

    /// `stackorder …` on the pull request, by Ada.
    async fn says(&self, number: i64, comment: i64, text: &str) {
        self.clock.advance(1000);
        self.app.commented(&self.repo().await, number, comment, "ada", text).await.unwrap();
    }

    /// Pull request `number` at a head of its own plans these stacks.
    async fn planned_by(&self, number: i64, stacks: &[&str]) -> Sha {
        let head = sha(char::from_digit(u32::try_from(number).unwrap() + 9, 16).unwrap());
        self.is_about(number);
        self.clock.advance(1000);
        let Caller::Job { mut claims, repo } = self.plan_job().await else { unreachable!() };
        claims.git_ref = format!("refs/pull/{number}/merge");
        claims.run_id = 100 + number;
        let job = Caller::Job { claims, repo };
        let request = CreateRunRequest {
            repo: "acme/infra".to_owned(),
            sha: head.to_string(),
            pr_number: number,
            ..CreateRunRequest::default()
        };
        let run = self.app.create_run(&job, &request).await.unwrap().run_id;
        let upload = GraphUploadRequest {
            graph: crate::graph::model::Graph { tree_hash: "same".to_owned(), ..graph("vpc, eks, apps") },
            changed_paths: stacks.iter().map(|stack| format!("{stack}/main.tf")).collect(),
            base_sha: String::new(),
            config: None,
            stacks: Vec::new(),
            base: Default::default(),
        };
        self.app.upload_graph(&job, &run, upload).await.unwrap();
        for stack in stacks {
            let planned = result(Mode::Plan, "+1", &format!("{stack}-{head}"));
            self.github.script().artifacts.push(ArtifactFacts {
                id: 1,
                name: planned.plan_artifact.clone(),
                expired: false,
                expires_at: None,
            });
            self.app.report_result(&job, &run, &key(stack), &planned).await.unwrap();
        }
        head
    }

    /// GitHub is asked about this pull request from now on.
    fn is_about(&self, number: i64) {
        let mut script = self.github.script();
        script.pull.number = number;
        script.pull.head_sha = sha(char::from_digit(u32::try_from(number).unwrap() + 9, 16).unwrap());
    }

    async fn asks(&self, number: i64, comment: i64) {
        self.is_about(number);
        self.says(number, comment, "stackorder apply").await;
    }

    async fn apply_of(&self, number: i64) -> Run {
        let filter = RunFilter { pr_number: Some(number), mode: Some(Mode::Apply), limit: 1, ..RunFilter::default() };
        self.app.store.runs(&filter).await.unwrap().remove(0)
    }

    async fn status_of(&self, number: i64) -> RunStatus {
        self.apply_of(number).await.status
    }

    /// `vpc #1, eks #2`, by key.
    async fn locked(&self) -> String {
        let locks: Vec<Lock> = self.app.store.locks(Some(REPO)).await.unwrap();
        locks.iter().map(|lock| format!("{} {}", lock.key, lock.holder())).collect::<Vec<_>>().join(", ")
    }

    async fn merged(&self, number: i64) {
        self.is_about(number);
        {
            let mut script = self.github.script();
            script.pull.open = false;
            script.pull.merged = true;
            script.pull.merged_by = Some("ada".to_owned());
            script.pull.merge_commit_sha = Some(script.pull.head_sha.clone());
        }
        self.clock.advance(1000);
        self.app.pull_request_closed(&self.repo().await, number).await.unwrap();
        self.github.script().pull.open = true;
        self.github.script().pull.merged = false;
    }

    /// Every job of the run's open dispatches claims and reports.
    async fn applies(&self, number: i64, text: &str) {
        let run = self.apply_of(number).await;
        let subject = Subject::Pull { repo_id: REPO, number };
        let rows = self.app.store.rows(&run.id).await.unwrap();
        for row in rows.into_iter().filter(|row| row.status == RowStatus::Planned && row.dispatch_id.is_some()) {
            let result = result(Mode::Apply, text, "b");
            let workflow_run_id = 1_000 + i64::from(u8::try_from(row.key.as_str().len()).unwrap()) + 100 * number;
            let job = DispatchedJob {
                git_ref: "refs/heads/main".to_owned(),
                workflow_run_id,
                attempt: 1,
                environment: row.environment.clone(),
                check_run_id: 1,
            };
            let claim = Claim { at: self.app.now(), workflow_run_id, attempt: 1, check_run_id: 1 };
            let reporter = Reporter::DispatchedJob { workflow_run_id, attempt: 1, check_run_id: 1 };
            self.clock.advance(1000);
            let reported = self.app.decide(&subject, |next| {
                binding::bind_job(next, &run.id, &job, Some(&row.key)).unwrap();
                report::on_claim(next, &run.id, &row.key, &claim, run.sha.as_str(), String::new()).unwrap();
                report::on_result(next, &run.id, &row.key, &reporter, &result).unwrap();
            });
            reported.await.unwrap();
        }
    }

    async fn comments(&self) -> Vec<String> {
        let mut bodies = Vec::new();
        while let Some(job) = self.app.store.claim_job("worker", self.app.now(), 1000).await.unwrap() {
            self.app.store.finish_job(&job, "worker", &Outcome::Done, self.app.now()).await.unwrap();
            if let (JobKind::Comment, Some(body)) = (job.kind, job.payload["body"].as_str()) {
                bodies.push(format!("#{} {body}", job.payload["pr_number"]));
            }
        }
        bodies
    }
}

#[tokio::test]
async fn case_119_an_apply_refused_by_locks_alone_is_queued_and_starts_when_they_are_gone() {
    let world = World::queueing(ApplyMode::BeforeMerge).await;
    for (number, stacks) in [(1, &["vpc"][..]), (2, &["vpc", "eks"][..]), (3, &["eks"][..]), (4, &["apps"][..])] {
        world.planned_by(number, stacks).await;
    }
    world.asks(1, 11).await;
    world.comments().await;
    world.asks(2, 12).await;
    let told = world.comments().await.remove(0);
    assert!(told.starts_with("#2 **Queued: `stackorder apply`.** It starts by itself"), "{told}");
    assert!(told.contains("- `vpc`: #1 has held the lock since 1970-01-01"), "{told}");
    world.asks(3, 13).await;
    let told = world.comments().await.remove(0);
    assert!(told.contains("- `eks`: #2 has waited for it since 1970-01-01"), "nobody overtakes: {told}");
    world.asks(4, 14).await;
    assert_eq!(world.locked().await, "apps #4, vpc #1");
    assert!(world.apply_of(2).await.is_queued() && world.apply_of(3).await.is_queued());

    world.applies(1, "=").await;
    assert!(world.apply_of(2).await.is_queued(), "the lock stays until the merge");
    world.merged(1).await;
    assert_eq!(world.locked().await, "apps #4, eks #2, vpc #2");
    assert!(world.apply_of(3).await.is_queued());

    world.applies(2, "=").await;
    world.merged(2).await;
    assert_eq!((world.locked().await.as_str(), world.status_of(3).await), ("apps #4, eks #3", RunStatus::Applying));
}

#[tokio::test]
async fn a_merge_waits_for_the_apply_before_it() {
    let world = World::queueing(ApplyMode::OnMerge).await;
    world.planned_by(1, &["vpc"]).await;
    world.planned_by(2, &["vpc"]).await;
    world.merged(1).await;
    world.comments().await;
    world.merged(2).await;
    let told = world.comments().await.remove(0);
    assert!(told.starts_with("#2 **Queued: `stackorder apply (on merge)`.**"), "{told}");
    assert_eq!((world.locked().await.as_str(), world.status_of(2).await), ("vpc #1", RunStatus::Pending));

    world.applies(1, "=").await;
    assert_eq!((world.locked().await.as_str(), world.status_of(2).await), ("vpc #2", RunStatus::Applying));
    world.applies(2, "+1").await;
    assert_eq!((world.locked().await.as_str(), world.status_of(2).await), ("", RunStatus::Applied));
}

#[tokio::test]
async fn what_the_apply_before_it_made_stale_is_planned_again_when_its_turn_comes() {
    let world = World::queueing(ApplyMode::OnMerge).await;
    world.planned_by(1, &["vpc"]).await;
    world.planned_by(2, &["vpc"]).await;
    world.merged(1).await;
    world.merged(2).await;

    world.applies(1, "+1").await;

    let rows = world.app.store.rows(&world.apply_of(2).await.id).await.unwrap();
    assert_eq!((rows[0].behind.as_slice(), &rows[0].dispatch_id), (&["vpc".to_owned()][..], &None));
    let replans = world.runs().await.into_iter().filter(|run| run.trigger == Trigger::Upstream);
    assert_eq!(replans.map(|run| run.pr_number).collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn every_way_out_of_the_queue_lets_the_next_one_in() {
    for way in ["unlock", "close", "push", "free by key"] {
        let world = World::queueing(ApplyMode::BeforeMerge).await;
        world.planned_by(1, &["vpc"]).await;
        world.planned_by(2, &["vpc", "eks"]).await;
        world.planned_by(3, &["eks"]).await;
        for number in [1, 2, 3] {
            world.asks(number, 10 + number).await;
        }
        world.is_about(2);
        let repo = world.repo().await;
        match way {
            "unlock" => world.says(2, 20, "stackorder unlock").await,
            "close" => {
                world.github.script().pull.open = false;
                world.app.pull_request_closed(&repo, 2).await.unwrap();
            }
            "push" => {
                world.github.script().pull.head_sha = sha('f');
                world.app.head_moved(&repo, 2).await.unwrap();
            }
            _ => {
                let request = UnlockRequest {
                    repo: "acme/infra".to_owned(),
                    stack_key: "vpc".to_owned(),
                    reason: "by hand".to_owned(),
                    ..UnlockRequest::default()
                };
                world.app.unlock(&api_key(&["unlock"], &[]), &request).await.unwrap();
                assert_eq!(world.locked().await, "eks #2, vpc #2");
                continue;
            }
        }
        assert!(world.status_of(2).await.is_terminal(), "{way}");
        assert_eq!(
            (world.locked().await.as_str(), world.status_of(3).await),
            ("eks #3, vpc #1", RunStatus::Applying),
            "{way}"
        );
    }
}

#[tokio::test]
async fn a_missing_workflow_ends_whoever_would_meet_it_next() {
    let world = World::queueing(ApplyMode::OnMerge).await;
    for number in [1, 2, 3] {
        world.planned_by(number, &["vpc"]).await;
    }
    for number in [1, 2, 3] {
        world.merged(number).await;
    }
    let dispatch = world.dispatches().await.remove(0);
    let subject = Subject::Pull { repo_id: REPO, number: 1 };
    world.app.decide(&subject, |next| progress::reject_dispatch(next, &dispatch.id, 404, "Not Found")).await.unwrap();
    for number in [1, 2, 3] {
        assert_eq!(world.status_of(number).await, RunStatus::Failed, "#{number}");
    }
    assert_eq!((world.locked().await.as_str(), world.dispatches().await.len()), ("", 0));
    let told = world.comments().await;
    assert!(
        told.iter().any(|text| text.starts_with("#3 **Apply of") && text.contains("stackorder-run.yml")),
        "{told:?}"
    );
}

#[tokio::test]
async fn an_apply_that_would_wait_for_itself_is_refused() {
    let world = World::queueing(ApplyMode::BeforeMerge).await;
    world.planned_by(1, &["vpc", "eks"]).await;
    world.planned_by(2, &["eks", "vpc"]).await;
    for (number, comment, text) in [(1, 11, "stackorder apply vpc"), (2, 12, "stackorder apply eks")] {
        world.is_about(number);
        world.says(number, comment, text).await;
        world.applies(number, "+1").await;
    }
    world.is_about(1);
    world.says(1, 13, "stackorder apply eks").await;
    assert!(world.apply_of(1).await.is_queued());
    world.comments().await;
    world.is_about(2);
    world.says(2, 14, "stackorder apply vpc").await;
    let told = world.comments().await;
    assert!(told.iter().any(|text| text.starts_with("#2 **Refused: `stackorder apply vpc`.**")), "{told:?}");
    assert!(world.apply_of(1).await.is_queued());
}

#[tokio::test]
async fn a_queued_apply_is_refused_a_second_time_and_a_manual_run_does_not_overtake_it() {
    let world = World::queueing(ApplyMode::BeforeMerge).await;
    world.planned_by(1, &["vpc"]).await;
    world.planned_by(2, &["vpc", "eks"]).await;
    world.asks(1, 11).await;
    world.asks(2, 12).await;
    world.comments().await;
    world.clock.advance(10 * crate::clock::MINUTE_MS);
    world.asks(2, 13).await;
    let told = world.comments().await.remove(0);
    assert!(told.contains("waits in the queue; it starts by itself"), "{told}");

    let apply = Caller::Key(api_key(&["apply"], &[]));
    let by_hand = CreateRunRequest { stacks: vec!["eks".to_owned()], ..manual() };
    let answer = world.app.create_run(&apply, &by_hand).await;
    match answer {
        Err(CallError::Locked { conflicts, .. }) => assert_eq!(conflicts[0].pr_number, 2),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn what_a_lost_event_left_in_the_queue_is_served_by_reconcile() {
    let world = World::queueing(ApplyMode::BeforeMerge).await;
    world.planned_by(1, &["vpc"]).await;
    world.planned_by(2, &["vpc"]).await;
    world.asks(1, 11).await;
    world.asks(2, 12).await;
    let waiting = world.apply_of(2).await;
    let lock = world.app.store.locks(None).await.unwrap().remove(0);
    // A lock that went in a commit which did not look at the queue.
    let changes = Changes {
        repo_id: REPO,
        locks_released: vec![(lock.stack_id.clone(), lock.run_id.clone())],
        ..Changes::default()
    };
    world.app.store.commit(changes).await.unwrap();
    assert!(world.apply_of(2).await.is_queued());
    world.clock.advance(3 * crate::clock::MINUTE_MS);
    world.app.reconcile().await.unwrap();
    assert_eq!((world.locked().await.as_str(), world.status_of(2).await), ("vpc #2", RunStatus::Applying));
    assert_eq!(world.apply_of(2).await.id, waiting.id);
}

/// #2 was promoted when #1 was merged, #3 waits for it; and its first dispatch waits to be sent.
async fn promoted() -> (World, Dispatch) {
    let world = World::queueing(ApplyMode::BeforeMerge).await;
    for number in [1, 2, 3] {
        world.planned_by(number, &["vpc"]).await;
    }
    for number in [1, 2, 3] {
        world.asks(number, 10 + number).await;
    }
    world.applies(1, "=").await;
    world.merged(1).await;
    assert_eq!(world.status_of(2).await, RunStatus::Applying);
    world.is_about(2);
    world.comments().await;
    world.github.script().told.clear();
    let run = world.apply_of(2).await.id;
    let dispatch = world.dispatches().await.into_iter().find(|one| one.run_id == run).unwrap();
    (world, dispatch)
}

#[tokio::test]
async fn a_promoted_apply_whose_head_moved_unseen_is_not_dispatched() {
    let (world, dispatch) = promoted().await;
    world.github.script().pull.head_sha = sha('f');
    world.app.send_dispatch(&dispatch.run_id, &dispatch.id).await.unwrap();
    assert_eq!(world.status_of(2).await, RunStatus::Superseded);
    assert!(world.github.script().told.is_empty());
}

#[tokio::test]
async fn a_promoted_apply_whose_pull_request_was_closed_unseen_is_not_dispatched() {
    let (world, dispatch) = promoted().await;
    world.github.script().pull.open = false;
    world.app.send_dispatch(&dispatch.run_id, &dispatch.id).await.unwrap();
    assert_eq!(world.status_of(2).await, RunStatus::Failed);
    assert!(world.github.script().told.is_empty());
    assert_eq!((world.locked().await.as_str(), world.status_of(3).await), ("vpc #3", RunStatus::Applying));
}

/// The gate refuses an apply whose base moved on under it, and the merge that lets a queued one in is what moves it.
#[tokio::test]
async fn a_promoted_apply_whose_base_moved_on_under_it_takes_nothing_back() {
    let (world, dispatch) = promoted().await;
    world.github.script().ahead =
        Comparison { files: vec!["vpc/main.tf".to_owned()], truncated: false, commits: vec![sha('e').to_string()] };
    world.app.send_dispatch(&dispatch.run_id, &dispatch.id).await.unwrap();
    assert_eq!(world.status_of(2).await, RunStatus::Failed);
    assert!(world.github.script().told.is_empty());
    assert_eq!((world.locked().await.as_str(), world.status_of(3).await), ("vpc #3", RunStatus::Applying));
    let told = world.comments().await;
    let text = "#2 **Apply of bbbbbbb abandoned before it began:** vpc: `main` has moved on under it since this branch left \
                it (eeeeeee); update the branch and plan again.";
    assert!(told.iter().any(|comment| comment == text), "{told:?}");
}

#[tokio::test]
async fn a_promoted_apply_beside_what_moved_on_is_dispatched() {
    let (world, dispatch) = promoted().await;
    world.github.script().ahead =
        Comparison { files: vec!["eks/main.tf".to_owned()], truncated: false, commits: vec![sha('e').to_string()] };
    world.app.send_dispatch(&dispatch.run_id, &dispatch.id).await.unwrap();
    assert_eq!(world.github.script().told, ["dispatch apply"]);
}

#[tokio::test]
async fn nobody_is_promoted_while_the_installation_is_suspended() {
    let world = World::queueing(ApplyMode::BeforeMerge).await;
    world.planned_by(1, &["vpc"]).await;
    let apply = Caller::Key(api_key(&["apply"], &[]));
    let by_hand = CreateRunRequest { stacks: vec!["vpc".to_owned()], ..manual() };
    let by_hand = world.app.create_run(&apply, &by_hand).await.unwrap().run_id;
    world.asks(1, 11).await;
    assert!(world.apply_of(1).await.is_queued());

    let mut installation =
        Installation { id: 1, account: "acme".into(), account_type: "Organization".into(), suspended: true };
    world.app.store.save_installation(&installation).await.unwrap();
    world.app.report_result(&apply, &by_hand, &key("vpc"), &result(Mode::Apply, "+1", "b")).await.unwrap();
    assert_eq!(world.locked().await, "");
    assert!(world.apply_of(1).await.is_queued(), "its dispatch could not be sent");

    installation.suspended = false;
    world.app.store.save_installation(&installation).await.unwrap();
    world.clock.advance(3 * crate::clock::MINUTE_MS);
    world.app.reconcile().await.unwrap();
    assert_eq!((world.locked().await.as_str(), world.status_of(1).await), ("vpc #1", RunStatus::Applying));
}

#[tokio::test]
async fn a_merge_asks_anew_for_what_a_comment_asked_for_before_the_mode_changed() {
    let world = World::queueing(ApplyMode::BeforeMerge).await;
    world.planned_by(1, &["vpc"]).await;
    world.planned_by(2, &["vpc"]).await;
    world.asks(1, 11).await;
    world.asks(2, 12).await;
    let asked = world.apply_of(2).await;
    let mut config = RepoConfig::default();
    config.apply.mode = ApplyMode::OnMerge;
    world.app.store.save_config(REPO, Some(&config), "g").await.unwrap();

    world.merged(2).await;
    assert_eq!(world.app.store.run(&asked.id).await.unwrap().unwrap().status, RunStatus::Failed);
    let merge = world.apply_of(2).await;
    assert!(merge.is_queued() && merge.is_merge_apply(), "{merge:?}");
}
