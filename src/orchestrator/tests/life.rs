//! Merges and what follows them, applies that a crash cut off, runs by hand, and who the App works for.

use std::collections::BTreeSet;

use super::*;
use crate::clock::{DAY_MS, HOUR_MS};
use crate::github::api::{HookDelivery, InstallationFacts, Reaction};
use crate::github::webhook::InstallationEvent;
use crate::run::apply_start::{self, ApplyRequest};
use crate::run::plan_view::PlanView;
use crate::run::status::RowStatus;

impl World {
    async fn on_merge(&self) {
        self.policy(|policy| policy.apply.mode = ApplyMode::OnMerge).await;
    }

    /// An apply of `vpc` and `eks` as a process left it that died before it had dispatched anything.
    async fn cut_off(&self) -> RunId {
        self.plan(sha('a')).await;
        let id = self.app.new_run_id();
        let selected: BTreeSet<_> = ["vpc", "eks"].map(key).into();
        let request = ApplyRequest {
            id: id.clone(),
            sha: sha('a'),
            trigger: Trigger::Comment,
            requested_by: "ada".to_owned(),
            environments: selected.iter().map(|key| (key.clone(), "default".to_owned())).collect(),
            waves: [(key("vpc"), 0), (key("eks"), 1)].into(),
            selected,
            behind_from_start: Default::default(),
        };
        let subject = Subject::Pull { repo_id: REPO, number: 1 };
        let started = self.app.decide(&subject, |next| {
            let view = PlanView::of(&next.scene, &[&sha('a')]);
            let plans = view.rows.values().map(|row| (row.key.clone(), (*row).clone())).collect();
            apply_start::start(next, &request, &plans);
            next.scene.dispatches.clear();
            for row in next.scene.rows_mut(&id) {
                row.dispatch_id = None;
            }
            next.effects.jobs.clear();
        });
        started.await.unwrap().unwrap();
        self.settle().await;
        assert_eq!(self.applied().await, "applying: eks planned, vpc planned");
        id
    }
}

#[tokio::test]
async fn case_084_failure_12_an_apply_that_was_never_dispatched_is_dispatched_after_two_minutes() {
    let world = World::new().await;
    world.cut_off().await;
    world.clock.advance(2 * MINUTE_MS - 1);
    world.app.reconcile().await.unwrap();
    assert!(world.dispatches().await.is_empty());

    world.clock.advance(1);
    world.app.reconcile().await.unwrap();
    world.app.reconcile().await.unwrap();
    world.settle().await;

    let told = world.github.script().told.clone();
    assert_eq!(told.iter().filter(|told| *told == "dispatch apply").count(), 1, "{told:?}");
    world.jobs("vpc =, eks +1").await;
    assert_eq!(world.applied().await, "applied: eks applied, vpc applied");
}

#[tokio::test]
async fn case_084_failure_12_an_apply_whose_plans_changed_meanwhile_is_given_up() {
    let world = World::new().await;
    let id = world.cut_off().await;
    world.clock.advance(1000);
    world.comment(5, "ada", "stackorder plan vpc").await;
    world.clock.advance(2 * MINUTE_MS);

    world.app.reconcile().await.unwrap();
    world.settle().await;

    assert_eq!((world.apply().await.status, world.locks().await.as_str()), (RunStatus::Failed, ""));
    let scene = world.app.store.scene(&id).await.unwrap().unwrap();
    assert!(scene.runs[&id].warnings[0].contains("abandoned before it began"), "{:?}", scene.runs[&id].warnings);
    let notes = world.notes();
    assert!(
        notes.contains(&"**Apply of aaaaaaa abandoned before it began:** the plans of vpc changed.".to_owned()),
        "{notes:?}"
    );
}

#[tokio::test]
async fn case_085_failure_12_an_apply_that_was_never_dispatched_gives_way_to_a_new_head_and_keeps_its_locks() {
    let world = World::new().await;
    let id = world.cut_off().await;
    world.github.script().pull.head_sha = sha('b');
    world.clock.advance(2 * MINUTE_MS);

    world.app.reconcile().await.unwrap();
    world.settle().await;

    assert_eq!(world.app.store.run(&id).await.unwrap().unwrap().status, RunStatus::Superseded);
    assert_eq!(world.locks().await, "eks #1, vpc #1");
    assert!(world.dispatches().await.is_empty());
    assert!(world.notes()[0].starts_with("**The apply of aaaaaaa gave way to bbbbbbb.**"), "{:?}", world.notes());
}

#[tokio::test]
async fn case_075_while_a_workflow_run_lives_that_may_serve_several_dispatches_none_of_them_times_out() {
    let world = World::new().await;
    world.policy(|policy| drop(policy.environments.insert("svpc/".to_owned(), "staging".to_owned()))).await;
    world.planned_as(1, upload("vpc, svpc", &["vpc/main.tf", "svpc/main.tf"])).await;
    world.comment(5, "ada", "stackorder apply").await;
    let dispatches = world.dispatches().await;
    let title = format!("stackorder apply {} wave 0", dispatches[0].run_id);
    world.github.script().dispatched = vec![WorkflowRunFacts { title, ..served(&dispatches[0]) }];
    for _ in 0..40 {
        world.clock.advance(MINUTE_MS);
        world.app.reconcile().await.unwrap();
    }
    let open = world.dispatches().await;
    assert_eq!(open.iter().map(|dispatch| dispatch.workflow_run_id).collect::<Vec<_>>(), [None, None]);
    assert_eq!(world.applied().await, "applying: svpc planned, vpc planned");

    world.github.script().dispatched[0].completed = true;
    world.clock.advance(MINUTE_MS);
    world.app.reconcile().await.unwrap();
    assert_eq!(world.applied().await, "failed: svpc unknown, vpc unknown");
}

#[tokio::test]
async fn case_086_a_merge_that_is_told_twice_applies_once() {
    let world = World::new().await;
    world.on_merge().await;
    world.plan(sha('a')).await;

    world.merge("first").await;
    world.merge("second").await;

    let runs = world.runs().await;
    assert_eq!(runs.iter().filter(|run| run.mode == Mode::Apply).count(), 1);
    assert_eq!((world.apply().await.trigger, world.apply().await.sha), (Trigger::PullRequest, sha('d')));
}

#[tokio::test]
async fn case_087_a_merge_elsewhere_is_a_close() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.comment(5, "ada", "stackorder apply vpc").await;
    world.jobs("vpc +1").await;
    world.comment(6, "ada", "stackorder apply eks").await;
    assert_eq!(world.locks().await, "eks #1, vpc #1");
    world.on_merge().await;
    world.github.script().pull.base_ref = "release".to_owned();

    world.merge("merged").await;

    assert_eq!(world.locks().await, "vpc #1", "as after a close, what was applied stays locked");
    assert!(world.notes().iter().any(|note| note.starts_with("**Closed with 1 lock held.**")), "{:?}", world.notes());
    assert_eq!(world.repo().await.default_graph, None);
    let applies = world.runs().await.into_iter().filter(|run| run.mode == Mode::Apply);
    assert!(applies.into_iter().all(|run| run.trigger == Trigger::Comment), "the merge applies nothing");
}

#[tokio::test]
async fn case_088_a_renamed_default_branch_is_stored_and_used() {
    let world = World::new().await;
    let push = |reference: &str| json!({ "ref": reference, "after": sha('e'), "repository": { "id": REPO, "full_name": "acme/infra", "default_branch": "trunk" } });
    world.github.script().root_file = Some("version: 1\nplan_output: summary\n");
    let payload = push("refs/heads/trunk").to_string();
    world.app.store.store_delivery("d", "push", &payload, world.app.now()).await.unwrap();
    world.settle().await;

    let repo = world.repo().await;
    assert_eq!(repo.default_branch, "trunk");
    assert_eq!(repo.policy().plan_output.as_str(), "summary", "a push to it is one to the default branch");
    // A pull request into the former name is none into the default branch any more.
    world.plan(sha('a')).await;
    world.comment(5, "ada", "stackorder apply").await;
    assert!(world.notes()[0].contains("pull request targets `main`"), "{:?}", world.notes());
    world.github.script().pull.base_ref = "trunk".to_owned();
    world.comment(6, "ada", "stackorder apply vpc").await;
    assert_eq!(world.locks().await, "vpc #1");
}

#[tokio::test]
async fn case_089_a_merge_by_somebody_outside_the_teams_is_refused_once() {
    let world = World::new().await;
    world.on_merge().await;
    world.policy(|policy| policy.apply.allowed_teams = vec!["sre".to_owned()]).await;
    world.plan(sha('a')).await;

    world.merge("first").await;
    world.merge("second").await;

    let notes = world.notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("**Refused: `stackorder apply (on merge)`.** Nothing has started."), "{}", notes[0]);
    assert!(notes[0].contains("**Layer 1, authorization**: ada is in none of the teams"), "{}", notes[0]);
    assert!(world.runs().await.iter().all(|run| run.mode == Mode::Plan));
    assert_eq!(world.locks().await, "");
}

#[tokio::test]
async fn case_090_a_merge_without_an_apply_leaves_a_new_graph_and_no_lock() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.settle().await;
    let before = world.runs().await.len();

    world.merge("merged").await;

    assert_eq!(world.repo().await.default_graph, Some(sha('a')), "whose stacks are checked for drift");
    assert_eq!((world.locks().await.as_str(), world.runs().await.len()), ("", before));
    assert_eq!(world.notes(), Vec::<String>::new());
}

#[tokio::test]
async fn case_104_failure_15_an_invalid_file_of_the_default_branch_leaves_the_configuration_as_it_was() {
    let world = World::new().await;
    let push = json!({ "ref": "refs/heads/main", "after": sha('e') });
    world.github.script().root_file = Some("apply: { require_approvals: 2 }\n");
    world.deliver("good", "push", push.clone()).await;
    assert_eq!(world.repo().await.policy().apply.require_approvals, 2);

    world.github.script().root_file = Some("apply: { require_approvals: none }\n");
    world.deliver("bad", "push", push).await;

    assert_eq!(world.repo().await.policy().apply.require_approvals, 2);
    let audit = world.app.store.audit(10, None).await.unwrap();
    let invalid = audit.iter().find(|(_, entry)| entry.action == "config_invalid").expect("it is on record");
    assert_eq!(invalid.1.target, "repo:acme/infra");
    assert!(invalid.1.details["error"].as_str().unwrap().contains("apply.require_approvals"), "{invalid:?}");
}

#[tokio::test]
async fn case_105_for_a_suspended_installation_nothing_is_done() {
    let world = World::new().await;
    world.policy(|policy| policy.drift.schedule = "* * * * *".to_owned()).await;
    let dispatch = world.dispatched().await;
    let facts =
        InstallationFacts { id: 1, account: "acme".into(), account_type: "Organization".into(), suspended: true };
    let event =
        InstallationEvent { action: "suspend".to_owned(), installation: facts.clone(), repositories: Vec::new() };
    world.app.installation_changed(event).await.unwrap();
    assert!(world.repo().await.suspended);
    let runs = world.runs().await;

    // An event, a drift schedule and check, and what reconcile would resend and later give up.
    world.comment(5, "ada", "stackorder plan").await;
    world.clock.advance(HOUR_MS);
    world.app.tick("leader").await.unwrap();
    world.app.drift_stack(&world.repo().await, &key("vpc")).await.unwrap();
    world.app.reconcile().await.unwrap();
    world.settle().await;

    assert_eq!(world.runs().await, runs);
    assert_eq!(world.dispatches().await, [dispatch]);
    let script = world.github.script();
    assert!(script.told.is_empty() && script.reactions.is_empty() && script.checks.is_empty(), "{:?}", script.told);
}

#[tokio::test]
async fn case_113_one_stack_written_in_two_ways_is_one_row() {
    let world = World::new().await;
    let job = world.plan_job().await;
    let request =
        CreateRunRequest { pr_number: 1, sha: sha('a').to_string(), repo: "acme/infra".into(), ..Default::default() };
    let planned = world.app.create_run(&job, &request).await.unwrap().run_id;
    world.app.upload_graph(&job, &planned, upload("stacks/prod/vpc", &["stacks/prod/vpc/main.tf"])).await.unwrap();
    let stacks = ["./stacks/prod/vpc/", "stacks/prod/vpc"].map(str::to_owned).to_vec();

    let apply = Caller::Key(api_key(&["apply"], &[]));
    let started = world.app.create_run(&apply, &CreateRunRequest { stacks, ..manual() }).await.unwrap();

    let rows = world.app.store.rows(&started.run_id).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| (row.key.as_str(), row.status)).collect::<Vec<_>>(),
        [("stacks/prod/vpc", RowStatus::Planned)]
    );
}

#[tokio::test]
async fn case_114_a_run_by_hand_of_an_unknown_stack_is_refused_and_leaves_nothing() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    let before = world.runs().await;

    let stacks = vec!["vpc".to_owned(), "nowhere".to_owned()];
    let apply = Caller::Key(api_key(&["apply"], &[]));
    let answer = world.app.create_run(&apply, &CreateRunRequest { stacks, ..manual() }).await;

    match refused(answer) {
        Refused::Invalid { field: "stacks", reason } => assert!(reason.contains("nowhere"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!((world.runs().await, world.locks().await), (before, String::new()));
}

#[tokio::test]
async fn case_095_a_run_by_hand_refuses_applies_and_further_ones() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    let apply = Caller::Key(api_key(&["apply"], &[]));
    world.app.create_run(&apply, &manual()).await.unwrap();
    let before = world.runs().await.len();

    world.clock.advance(1000);
    world.comment(5, "ada", "stackorder apply vpc").await;
    assert!(world.notes()[0].contains("**Layer 5, locks** (`vpc`): a manual run has held the lock since"));

    match world.app.create_run(&apply, &manual()).await {
        Err(CallError::Locked { conflicts, .. }) => assert_eq!(conflicts[0].stack_key, "vpc"),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.runs().await.len(), before);
}

#[tokio::test]
async fn case_092_a_lock_that_is_freed_by_the_api_is_told_to_its_holder() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.comment(5, "ada", "stackorder apply vpc").await;
    let request = UnlockRequest {
        repo: "acme/infra".to_owned(),
        stack_key: "vpc".to_owned(),
        reason: "the runner is gone".to_owned(),
        ..UnlockRequest::default()
    };

    let reader = api_key(&["read"], &[]);
    assert!(matches!(world.app.unlock(&reader, &request).await, Err(CallError::Refused(Refused::Forbidden(_)))));
    let trail = world.app.store.audit(1, None).await.unwrap();
    assert_eq!((trail[0].1.action.as_str(), trail[0].1.actor.as_str()), ("unlock_refused", "apikey:ci"));
    let key = api_key(&["unlock"], &[]);
    assert_eq!(world.app.unlock(&key, &request).await.unwrap().released.len(), 1);
    world.settle().await;

    assert_eq!(world.locks().await, "");
    let told = world.notes().pop().expect("a comment");
    assert!(told.contains("`vpc`") && told.contains("apikey:ci") && told.contains("the runner is gone"), "{told}");
    assert_eq!(world.app.unlock(&key, &request).await.unwrap().released.len(), 0);
}

#[tokio::test]
async fn case_091_failure_13_locks_of_a_closed_pull_request_are_called_to_mind_daily_and_only_while_it_is_closed() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.comment(5, "ada", "stackorder apply vpc").await;
    world.jobs("vpc +1").await;
    world.github.script().pull.open = false;
    world.pull_request("closed", "closed").await;
    let told = |world: &World| world.notes().iter().filter(|note| note.starts_with("**Closed with")).count();
    assert_eq!(told(&world), 1);

    // Not within the first day, then once a day.
    for (hours, reminders) in [(23, 1), (1, 2), (1, 2), (23, 3)] {
        world.clock.advance(hours * HOUR_MS);
        world.app.remind_of_locks().await.unwrap();
        world.settle().await;
        assert_eq!(told(&world), reminders, "{hours}");
    }
    world.github.script().pull.open = true;
    world.clock.advance(24 * HOUR_MS);
    world.app.remind_of_locks().await.unwrap();
    world.settle().await;
    assert_eq!((told(&world), world.locks().await.as_str()), (3, "vpc #1"));
}

#[tokio::test]
async fn case_151_a_head_that_nobody_registered_is_planned_again_once() {
    let world = World::new().await;
    let facts = WorkflowRunFacts { completed: true, ..plan_workflow() };
    world.github.script().plan_runs = vec![facts];
    for _ in 0..2 {
        world.app.enqueue_start().await.unwrap();
        world.settle().await;
    }
    assert_eq!(world.github.script().told, ["rerun 55"]);

    // GitHub could not be asked: the next look is not an hour away.
    let unheard = World::new().await;
    unheard.github.script().plan_runs = vec![WorkflowRunFacts { completed: true, ..plan_workflow() }];
    unheard.github.script().is_mute = true;
    unheard.app.enqueue_start().await.unwrap();
    unheard.settle().await;
    unheard.github.script().is_mute = false;
    unheard.clock.advance(MINUTE_MS);
    unheard.settle().await;
    assert_eq!(unheard.github.script().told, ["rerun 55"]);

    // So it does when GitHub wants to hear nothing for a while, and not only at the next look in an hour.
    let limited = World::new().await;
    limited.github.script().plan_runs = vec![WorkflowRunFacts { completed: true, ..plan_workflow() }];
    limited.github.script().limited_until = Some(limited.clock.now() + MINUTE_MS);
    limited.app.enqueue_start().await.unwrap();
    limited.settle().await;
    limited.github.script().limited_until = None;
    limited.clock.advance(MINUTE_MS);
    limited.settle().await;
    assert_eq!(limited.github.script().told, ["rerun 55"]);

    let planned = World::new().await;
    planned.plan(sha('a')).await;
    planned.settle().await;
    planned.github.script().told.clear();
    planned.github.script().plan_runs = vec![WorkflowRunFacts { completed: true, ..plan_workflow() }];
    planned.app.enqueue_start().await.unwrap();
    planned.settle().await;
    assert!(planned.github.script().told.is_empty(), "its head has a plan run");
}

#[tokio::test]
async fn a_plan_workflow_is_run_again_from_the_outbox_unless_somebody_has_begun_another_attempt() {
    for (attempt, expected) in [(1, &["rerun 55"][..]), (2, &[])] {
        let world = World::new().await;
        world.github.script().plan_runs = vec![WorkflowRunFacts { completed: true, ..plan_workflow() }];
        world.github.script().is_down = true;
        world.app.enqueue_start().await.unwrap();
        world.settle().await;
        assert!(world.github.script().told.is_empty());

        world.github.script().plan_runs = vec![WorkflowRunFacts { completed: true, attempt, ..plan_workflow() }];
        world.github.script().is_down = false;
        world.clock.advance(MINUTE_MS);
        world.settle().await;
        assert_eq!(world.github.script().told, expected, "attempt {attempt}");
    }
}

#[tokio::test]
async fn a_command_at_a_head_without_a_graph_runs_its_plan_workflow_again_and_says_so() {
    let world = World::new().await;
    world.github.script().plan_runs = vec![WorkflowRunFacts { completed: true, ..plan_workflow() }];
    world.comment(5, "ada", "stackorder plan").await;
    assert!(world.github.script().told.contains(&"rerun 55".to_owned()));
    assert!(world.github.script().reactions.contains(&(5, Reaction::Rocket)));

    // GitHub knows the run no more by the time it is asked.
    let gone = World::new().await;
    gone.github.script().plan_runs = vec![WorkflowRunFacts { completed: true, ..plan_workflow() }];
    gone.github.script().forgets_runs = true;
    gone.comment(5, "ada", "stackorder plan").await;
    let told = gone.notes();
    assert!(told.iter().any(|note| note.contains("GitHub did not run the plan workflow again")), "{told:?}");
    assert!(!gone.github.script().reactions.contains(&(5, Reaction::Rocket)));
}

/// The run of the plan workflow of the head.
fn plan_workflow() -> WorkflowRunFacts {
    WorkflowRunFacts {
        id: 55,
        attempt: 1,
        title: String::new(),
        event: "pull_request".to_owned(),
        path: String::new(),
        head_branch: "topic".to_owned(),
        head_sha: sha('a').to_string(),
        completed: false,
        conclusion: String::new(),
        created_at: 0,
    }
}

#[tokio::test]
async fn bl_114_webhooks_that_did_not_arrive_are_asked_for_at_start_and_every_hour() {
    let world = World::new().await;
    let attempt = |id: i64, guid: &str, accepted| HookDelivery {
        id,
        guid: guid.to_owned(),
        delivered_at: world.clock.now() - 10_000 + id,
        accepted,
    };
    let too_old = HookDelivery { delivered_at: -4 * DAY_MS, ..attempt(1, "old", false) };
    world.github.script().deliveries =
        vec![attempt(4, "lost", false), attempt(3, "arrived", true), attempt(2, "late", false), too_old];
    world.app.enqueue_start().await.unwrap();
    world.settle().await;
    assert_eq!(world.github.script().redelivered, [2, 4]);

    // One of them arrived since.
    world.github.script().deliveries.insert(0, attempt(5, "late", true));
    world.clock.advance(HOUR_MS);
    world.app.tick("server").await.unwrap();
    world.settle().await;
    assert_eq!(world.github.script().redelivered, [2, 4, 4]);
}
