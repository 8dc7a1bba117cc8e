//! The rows of the failure table (spec 00 §8) that the server handles, each from the fault to the way out.

use super::github::Answer;
use super::*;
use crate::clock::HOUR_MS;
use crate::run::scene::NewJob;

impl World {
    /// What GitHub is told to start, in order.
    fn started(&self) -> Vec<String> {
        self.github.script().told.iter().filter(|told| told.starts_with("dispatch")).cloned().collect()
    }

    /// The newest plan that the server started.
    async fn newest_plan(&self) -> RunId {
        let filter = RunFilter { mode: Some(Mode::Plan), limit: 1, ..RunFilter::default() };
        self.app.store.runs(&filter).await.unwrap().pop().expect("a plan").id
    }

    /// The newest comment that tells something once.
    fn last_note(&self) -> String {
        self.notes().pop().expect("a comment")
    }

    /// `key status` of each row of a run.
    async fn rows(&self, run: &RunId) -> Vec<String> {
        let mut rows: Vec<String> =
            self.app.store.rows(run).await.unwrap().iter().map(|row| format!("{} {}", row.key, row.status)).collect();
        rows.sort();
        rows
    }

    /// The workflow run that serves the newest apply's only dispatch ends without a word.
    async fn falls_silent(&self) {
        let dispatch = self.dispatches().await.remove(0);
        let id = dispatch.workflow_run_id.unwrap_or(900);
        let facts = WorkflowRunFacts {
            id,
            title: format!("stackorder apply {} wave 0", dispatch.run_id),
            completed: true,
            conclusion: "success".to_owned(),
            ..served(&dispatch)
        };
        self.app.workflow_run_changed(&self.repo().await, &facts).await.unwrap();
        self.settle().await;
    }
}

#[tokio::test]
async fn failure_01_a_failed_plan_refuses_the_apply_and_stops_no_other_plan() {
    let world = World::new().await;
    let (run, _) = world.resolve(sha('a'), &["vpc/main.tf", "eks/main.tf"]).await;
    let job = world.plan_job().await;
    world.app.report_result(&job, &run, &key("vpc"), &result(Mode::Plan, "!", "")).await.unwrap();
    world.settle().await;
    assert_eq!(world.check('a', "stackorder/plan").unwrap(), "failure | 1 failed of 2 stacks");
    let eks = result(Mode::Plan, "+1", "eks");
    world.uploads(&eks);
    world.app.report_result(&job, &run, &key("eks"), &eks).await.unwrap();
    world.settle().await;
    assert_eq!(
        world.check('a', "stackorder/plan: eks").unwrap(),
        "success | 1 to add, 0 to change, 0 to destroy, 0 to replace"
    );

    world.comment(5, "ada", "stackorder apply").await;
    let refused = "**Layer 3, plans for the head commit** (`vpc`): planning did not succeed; repair it and plan again";
    assert!(world.last_note().contains(refused), "{}", world.last_note());

    world.comment(6, "ada", "stackorder plan vpc").await;
    world.replanned(&world.newest_plan().await, "vpc", "+1").await;
    assert!(world.check('a', "stackorder/plan").unwrap().starts_with("success"));
    world.comment(7, "ada", "stackorder apply").await;
    assert_eq!(world.applied().await, "applying: eks planned, vpc planned");
}

#[tokio::test]
async fn failure_02_a_failed_apply_lets_its_wave_finish_and_dispatches_no_other() {
    let world = World::new().await;
    let changed = ["vpc/main.tf", "eks/main.tf", "apps/main.tf", "svpc/main.tf"];
    world.planned_as(1, upload("vpc <- eks <- apps, svpc", &changed)).await;
    world.comment(5, "ada", "stackorder apply").await;

    world.jobs("vpc !").await;
    assert_eq!(world.applied().await, "applying: apps blocked, eks blocked, svpc planned, vpc failed");
    world.jobs("svpc +1").await;
    assert_eq!(world.applied().await, "failed: apps blocked, eks blocked, svpc applied, vpc failed");
    assert_eq!(world.started(), ["dispatch apply"], "wave 0 and no later one");
    assert_eq!(world.locks().await, "apps #1, eks #1, svpc #1, vpc #1");
    assert_eq!(world.check('a', "stackorder/apply").unwrap(), "failure | 1 failed, 2 blocked of 4 stacks");

    world.comment(6, "ada", "stackorder apply").await;
    assert!(world.last_note().contains("its plan was used by apply run"), "{}", world.last_note());
    world.comment(7, "ada", "stackorder plan vpc").await;
    world.replanned(&world.newest_plan().await, "vpc", "+1").await;
    world.comment(8, "ada", "stackorder apply").await;
    assert_eq!(world.applied().await, "applying: apps planned, eks planned, svpc applied, vpc planned");
}

#[tokio::test]
async fn failure_05_what_no_webhook_tells_is_asked_for_every_minute() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.github.script().answer_to_dispatch = Answer::Lost;
    world.comment(5, "ada", "stackorder plan").await;
    let reconciled = async || {
        world.app.reconcile().await.unwrap();
        world.settle().await;
    };
    world.github.script().answer_to_dispatch = Answer::Taken;
    world.clock.advance(MINUTE_MS - 1);
    reconciled().await;
    assert_eq!(world.started().len(), 1);
    world.clock.advance(1);
    reconciled().await;
    assert_eq!(world.started().len(), 2, "unsent, so it is sent again");

    let dispatch = world.dispatches().await.remove(0);
    assert_eq!((dispatch.sent_at.is_some(), dispatch.workflow_run_id), (true, None));
    world.github.script().dispatched = vec![served(&dispatch)];
    world.clock.advance(MINUTE_MS);
    reconciled().await;
    assert_eq!(world.dispatches().await[0].workflow_run_id, Some(900), "bound by its title");

    world.github.script().dispatched[0].completed = true;
    world.clock.advance(MINUTE_MS);
    reconciled().await;
    assert!(world.dispatches().await.is_empty());
    assert_eq!(world.rows(&dispatch.run_id).await, ["eks unknown", "vpc unknown"]);
}

#[tokio::test]
async fn failure_05_a_dispatch_that_nobody_picked_up_within_half_an_hour_is_given_up() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.comment(5, "ada", "stackorder apply vpc").await;
    let run = world.apply().await.id;
    for _ in 0..29 {
        world.clock.advance(MINUTE_MS);
        world.app.reconcile().await.unwrap();
    }
    assert_eq!(world.applied().await, "applying: eks skipped, vpc planned");

    world.clock.advance(MINUTE_MS);
    world.app.reconcile().await.unwrap();

    assert_eq!(world.applied().await, "failed: eks skipped, vpc unknown");
    let warnings = world.app.store.run(&run).await.unwrap().unwrap().warnings;
    assert!(warnings[0].starts_with("workflow run not found: .github/workflows/stackorder-run.yml"), "{warnings:?}");
}

#[tokio::test]
async fn failure_06_a_runner_that_died_leaves_an_unknown_result_its_locks_and_a_used_plan() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.comment(5, "ada", "stackorder apply").await;
    world.claim(&world.apply().await.id, "vpc").await.unwrap();

    world.falls_silent().await;

    assert_eq!(world.applied().await, "failed: eks blocked, vpc unknown");
    assert_eq!(world.locks().await, "eks #1, vpc #1");
    let advice = {
        let script = world.github.script();
        script.checks.values().find(|check| check.name == "stackorder/apply: vpc").unwrap().summary.clone()
    };
    assert!(advice.contains("`stackorder unlock --force-state vpc`"), "{advice}");
    world.comment(6, "ada", "stackorder apply").await;
    assert!(world.last_note().contains("its plan was used by apply run"), "{}", world.last_note());

    let unclaimed = World::new().await;
    unclaimed.plan(sha('a')).await;
    unclaimed.comment(5, "ada", "stackorder apply vpc").await;
    unclaimed.falls_silent().await;
    let told = unclaimed.check('a', "stackorder/apply: vpc").unwrap();
    assert_eq!(told, "failure | Never started; nothing was applied");
    unclaimed.comment(6, "ada", "stackorder apply vpc").await;
    assert_eq!(unclaimed.applied().await, "applying: eks skipped, vpc planned", "its plan was not used");
}

#[tokio::test]
async fn failure_07_a_new_head_takes_the_place_of_the_plans_and_of_an_apply_that_claimed_nothing() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.settle().await;
    world.github.script().pull.head_sha = sha('b');
    world.pull_request("pushed", "synchronize").await;

    assert_eq!(world.check('a', "stackorder/plan").unwrap(), "neutral | Superseded by bbbbbbb");
    assert_eq!(world.check('a', "stackorder/plan: vpc").unwrap(), "neutral | Superseded by bbbbbbb");
    world.comment(5, "ada", "stackorder apply").await;
    assert!(world.last_note().contains("head commit bbbbbbb has no plan yet"), "{}", world.last_note());

    world.plan(sha('b')).await;
    world.comment(6, "ada", "stackorder apply vpc").await;
    let apply = world.apply().await.id;
    world.github.script().pull.head_sha = sha('c');
    world.pull_request("pushed again", "synchronize").await;
    assert_eq!(world.apply().await.status, RunStatus::Superseded);
    assert_eq!(world.check('b', "stackorder/apply").unwrap(), "cancelled | Superseded by ccccccc");
    assert!(matches!(refused(world.claim(&apply, "vpc").await), Refused::Superseded(_)));
}

#[tokio::test]
async fn failure_08_bl_123_a_dispatch_that_github_rejects_fails_its_run_and_says_what_to_repair() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.github.script().answer_to_dispatch = Answer::Rejected;

    world.comment(5, "ada", "stackorder apply vpc").await;

    let run = world.apply().await;
    assert_eq!(run.status, RunStatus::Failed);
    assert!(run.warnings[0].contains("GitHub answered 422"), "{:?}", run.warnings);
    let told = world.notes().into_iter().find(|note| note.starts_with("**No apply was started:**")).expect("a comment");
    for name in ["stackorder-run.yml", "`main`", "`run_id`", "`mode`", "`wave`", "`sha`", "`stacks`"] {
        assert!(told.contains(name), "{name} in {told}");
    }
    world.clock.advance(2 * MINUTE_MS);
    world.app.reconcile().await.unwrap();
    world.settle().await;
    assert_eq!(world.started(), ["dispatch apply"], "it is not asked for again");

    world.github.script().answer_to_dispatch = Answer::Taken;
    world.comment(6, "ada", "stackorder apply vpc").await;
    world.jobs("vpc +1").await;
    assert_eq!(world.applied().await, "applied: eks skipped, vpc applied");
}

#[tokio::test]
async fn failure_09_of_a_dispatch_that_was_started_twice_one_applies() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.github.script().answer_to_dispatch = Answer::Lost;
    world.comment(5, "ada", "stackorder apply vpc").await;
    world.github.script().answer_to_dispatch = Answer::Taken;
    world.clock.advance(MINUTE_MS);
    world.app.reconcile().await.unwrap();
    world.settle().await;
    assert_eq!(world.started(), ["dispatch apply", "dispatch apply"]);

    let run = world.apply().await.id;
    let Caller::Job { mut claims, repo } = world.job(&run, "vpc").await else { unreachable!() };
    world.claim(&run, "vpc").await.unwrap();
    claims.run_id += 500;
    let duplicate = Caller::Job { claims, repo };
    let request = ClaimRequest { sha: sha('a').to_string(), workflow_run_attempt: 1 };
    let claimed = world.app.claim(&duplicate, &run, &key("vpc"), &request).await.map(drop);
    assert!(matches!(refused(claimed), Refused::Forbidden(_)));
    let report = result(Mode::Apply, "!", "");
    let reported = world.app.report_result(&duplicate, &run, &key("vpc"), &report).await;
    assert!(matches!(refused(reported), Refused::Forbidden(_)));

    world
        .app
        .report_result(&world.job(&run, "vpc").await, &run, &key("vpc"), &result(Mode::Apply, "+1", ""))
        .await
        .unwrap();
    assert_eq!(world.applied().await, "applied: eks skipped, vpc applied");
}

#[tokio::test]
async fn failure_13_the_daily_reminder_is_due_at_eight() {
    let world = World::new().await;
    let day = 24 * HOUR_MS;
    let mut reminders = Vec::new();
    for minute in [7 * 60 + 59, 8 * 60, 8 * 60 + 1, 12 * 60, 24 * 60 + 8 * 60] {
        world.at(day + minute * MINUTE_MS);
        world.app.tick("leader").await.unwrap();
        while let Some(job) = world.app.store.claim_job("w", world.app.now(), MINUTE_MS).await.unwrap() {
            world.app.store.finish_job(&job, "w", &Outcome::Done, world.app.now()).await.unwrap();
            if job.kind == JobKind::StaleLocks {
                reminders.push(minute);
            }
        }
    }
    assert_eq!(reminders, [8 * 60, 24 * 60 + 8 * 60]);
}

#[tokio::test]
async fn failure_17_a_command_that_breaks_off_is_retried_until_it_is_decided_once() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.github.script().is_mute = true;
    world.comment(5, "ada", "stackorder apply vpc").await;
    assert_eq!((world.runs().await.len(), world.notes().len()), (1, 0));

    world.github.script().is_mute = false;
    world.clock.advance(MINUTE_MS);
    world.settle().await;
    assert_eq!((world.runs().await.len(), world.locks().await.as_str()), (2, "vpc #1"));
    world.deliver("again", "issue_comment", commented(5, "ada", "stackorder apply vpc")).await;
    assert_eq!(world.runs().await.len(), 2);
}

#[tokio::test]
async fn failure_17_a_command_among_the_dead_letters_is_answered_and_may_be_commented_again() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.github.script().is_mute = true;
    world.comment(5, "ada", "stackorder apply vpc").await;
    for minutes in [1, 5, 30, 120] {
        assert!(world.notes().is_empty(), "before {minutes}");
        world.clock.advance(minutes * MINUTE_MS);
        world.settle().await;
    }
    let told = "**`stackorder apply vpc` broke off.** An internal error stopped it; the server log has it. \
                Nothing retries it any more, so comment it once more.";
    assert_eq!(world.notes(), [told]);

    world.github.script().is_mute = false;
    world.deliver("again", "issue_comment", commented(5, "ada", "stackorder apply vpc")).await;
    assert_eq!(world.runs().await.len(), 1, "it was decided");
    world.comment(6, "ada", "stackorder apply vpc").await;
    assert_eq!(world.locks().await, "vpc #1");
}

#[tokio::test]
async fn failure_18_what_fails_is_tried_five_times_with_growing_waits() {
    let world = World::new().await;
    world.github.script().is_down = true;
    let payload = json!({ "repo_id": REPO, "pr_number": 1, "name": "note", "body": "hello" });
    world.app.store.add_job(&NewJob::now(JobKind::Comment, payload, world.app.now())).await.unwrap();

    let mut waits = Vec::new();
    world.settle().await;
    while let Some(due) = world.app.store.next_due().await.unwrap() {
        waits.push((due - world.app.now()) / MINUTE_MS);
        world.at(due);
        world.settle().await;
    }
    assert_eq!(waits, [1, 5, 30, 120]);

    world.github.script().is_down = false;
    world.clock.advance(24 * HOUR_MS);
    world.settle().await;
    assert!(world.notes().is_empty(), "it is a dead letter");
}

#[tokio::test]
async fn failure_22_a_wiped_database_forgets_locks_and_history_and_the_next_pull_request_rebuilds_the_graph() {
    let before = World::new().await;
    before.plan(sha('a')).await;
    before.comment(5, "ada", "stackorder apply vpc").await;
    before.jobs("vpc +1").await;
    let stickies = |world: &World| {
        let comments = world.github.script().comments.clone();
        comments.iter().filter(|(_, comment)| comment.body.starts_with("<!-- stackorder:sticky -->")).count()
    };
    assert_eq!((before.locks().await.as_str(), stickies(&before)), ("vpc #1", 1));

    let after = World::over(before.github.clone(), before.clock.clone()).await;
    assert_eq!((after.locks().await.as_str(), after.runs().await.len()), ("", 0));
    let by_hand = after.app.create_run(&Caller::Key(api_key(&["apply"], &[])), &manual()).await;
    assert!(matches!(refused(by_hand), Refused::Invalid { field: "stacks", .. }), "no stack is known");

    after.plan(sha('b')).await;
    after.comment(6, "ada", "stackorder apply vpc").await;
    after.jobs("vpc =").await;
    assert_eq!(after.applied().await, "applied: eks skipped, vpc applied");
    assert!(after.app.store.graph(REPO, &sha('b')).await.unwrap().is_some());
    assert_eq!(stickies(&after), 1, "the comment is found again");
}

#[tokio::test]
async fn failure_23_a_plan_workflow_that_was_cancelled_turns_the_check_red_and_is_repaired() {
    let world = World::new().await;
    let (run, _) = world.resolve(sha('a'), &["vpc/main.tf", "eks/main.tf"]).await;
    let planned = result(Mode::Plan, "+1", "vpc");
    world.uploads(&planned);
    world.app.report_result(&world.plan_job().await, &run, &key("vpc"), &planned).await.unwrap();
    world.settle().await;
    assert_eq!(world.check('a', "stackorder/plan").unwrap(), "in progress | Planning: 1 of 2 stacks done");
    let facts = WorkflowRunFacts {
        id: 100,
        attempt: 1,
        title: String::new(),
        event: "pull_request".to_owned(),
        path: ".github/workflows/stackorder-plan.yml".to_owned(),
        head_branch: "topic".to_owned(),
        head_sha: sha('a').to_string(),
        completed: true,
        conclusion: "cancelled".to_owned(),
        created_at: 0,
    };
    // The event is lost; reconcile asks.
    world.github.script().plan_runs = vec![facts];
    world.clock.advance(MINUTE_MS);
    world.app.reconcile().await.unwrap();
    world.settle().await;

    assert_eq!(world.rows(&run).await, ["eks unknown", "vpc planned"]);
    assert!(world.check('a', "stackorder/plan").unwrap().starts_with("failure"));
    world.comment(5, "ada", "stackorder plan eks").await;
    world.replanned(&world.newest_plan().await, "eks", "+1").await;
    assert!(world.check('a', "stackorder/plan").unwrap().starts_with("success"));
}

#[tokio::test]
async fn failure_24_a_plan_that_changed_after_its_upstream_waits_for_a_second_request() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.comment(5, "ada", "stackorder apply").await;
    world.jobs("vpc +1").await;
    let replan = world.newest_plan().await;
    assert_eq!(world.rows(&replan).await, ["eks pending"], "it is planned again after vpc");

    world.replanned(&replan, "eks", "+2").await;

    assert_eq!(world.applied().await, "applied: eks skipped, vpc applied");
    assert_eq!(world.locks().await, "eks #1, vpc #1");
    let asks = "1 stack has a new plan after its upstream; review it and comment stackorder apply";
    assert_eq!(world.check('a', "stackorder/apply").unwrap(), format!("action_required | {asks}"));

    world.comment(6, "ada", "stackorder apply").await;
    world.jobs("eks +2").await;
    assert_eq!(world.applied().await, "applied: eks applied, vpc applied");
    assert!(world.check('a', "stackorder/apply").unwrap().starts_with("success"));
}
