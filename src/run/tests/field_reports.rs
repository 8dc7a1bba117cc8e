//! What broke for others, as one decision after another (field reports on locks, waves, drift, artifacts and races).

use std::collections::BTreeSet;

use super::story::{Story, key, result, sha};
use crate::run::close;
use crate::run::dispatching;
use crate::run::plan_start;
use crate::run::progress;
use crate::run::report::{self, Refused, Reporter};
use crate::run::scene::JobKind;
use crate::run::status::{Mode, RowStatus, RunStatus, Trigger};
use crate::run::supersede;

fn all_new() -> Story {
    Story::planned("vpc +1, eks +1, apps +1, svpc +1")
}

/// `s000` to `s299`, independent, all changed at `a` and planned.
fn wide(number: usize) -> (Story, Vec<String>) {
    let stacks: Vec<String> = (0..number).map(|at| format!("p{at:03}")).collect();
    let mut story = Story::of(&stacks.join(", "));
    story.resolved('a', &stacks.join(", "));
    for stack in &stacks {
        story.plans(&format!("{stack} +1"));
    }
    (story, stacks)
}

/// How many stacks each open dispatch of the mode carries, and all of them.
fn carried(story: &Story, mode: &str) -> (Vec<usize>, Vec<String>) {
    let by_dispatch: Vec<Vec<String>> = story
        .dispatched()
        .iter()
        .filter(|line| line.starts_with(mode))
        .map(|line| line.split_once(": ").unwrap().1.split(' ').map(str::to_owned).collect())
        .collect();
    let mut all: Vec<String> = by_dispatch.concat();
    all.sort();
    (by_dispatch.iter().map(Vec::len).collect(), all)
}

// -- locks ------------------------------------------------------------------------------------------

#[test]
fn bl_077_stacks_that_a_rebase_left_alone_stayed_locked() {
    let mut story = all_new();
    story.apply("vpc eks apps");
    assert_eq!(story.locks(), "apps #1, eks #1, vpc #1");

    story.resolved('b', "vpc");

    assert_eq!(story.locks(), "vpc #1");
    assert_eq!(story.audited(), ["unlock acme/infra//apps via new_head", "unlock acme/infra//eks via new_head"]);
}

#[test]
fn bl_078_a_second_push_was_refused_by_the_lock_of_its_own_pull_request() {
    let mut story = all_new();
    story.apply("vpc");
    story.jobs("vpc !");
    story.resolved('b', "vpc");
    story.plans("vpc +1");
    assert_eq!(story.locks(), "vpc #1", "kept from the first apply");

    let second = story.apply("vpc");

    assert_eq!(story.scene.locks["vpc"].run_id, second);
    story.jobs("vpc +1");
    assert_eq!(story.applied(), "applied: vpc applied");
}

#[test]
fn bl_080_the_lock_of_the_older_of_two_quick_pushes_was_never_freed() {
    let mut story = all_new();
    let first = story.apply("vpc");
    story.step(|next| supersede::head_moved(next, &sha('b')));
    assert_eq!(story.scene.runs[&first].status, RunStatus::Superseded);
    assert!(story.claim_of(&first, "vpc", 1).is_err(), "its job applies nothing any more");

    story.resolved('b', "vpc");
    story.plans("vpc +1");
    let second = story.apply("vpc");

    // One commit frees the old one's and takes the new one's: there is no second place that could still hold it.
    assert_eq!(story.changes.locks_released.len(), 1);
    assert_eq!(story.changes.locks_taken.len(), 1);
    assert_eq!((story.locks().as_str(), &story.scene.locks["vpc"].run_id), ("vpc #1", &second));
    story.jobs("vpc +1");
    story.step(|next| close::merged(next, &sha('b'), true));
    assert_eq!(story.locks(), "");
}

#[test]
fn bl_086_a_closed_pull_request_kept_locks_of_what_it_had_never_applied() {
    let mut story = all_new();
    story.apply("vpc eks");
    story.jobs("vpc !");
    assert_eq!(story.locks(), "eks #1, vpc #1");

    story.step(|next| close::closed(next, true));

    assert_eq!(story.locks(), "vpc #1", "what a job claimed stays");
    assert!(story.comments()[0].contains("`vpc`"), "and is announced: {:?}", story.comments());
    assert!(!story.comments()[0].contains("`eks`"));
}

// -- waves and cycles -------------------------------------------------------------------------------

#[test]
fn bl_040_the_plan_of_a_stack_that_reads_a_new_one_was_a_failure_for_good() {
    let mut story = Story::of("vpc <= ecs");
    story.resolved('a', "vpc, ecs");
    let failed = {
        let id = story.newest(|run| run.mode == Mode::Plan).id.clone();
        let reporter = Reporter::PullRequestJob { number: 1, workflow_run_id: 100, attempt: 1 };
        let mut failed = result(Mode::Plan, "!", "");
        failed.error_text = "outputs.vpc_id: this object does not have an attribute".to_owned();
        story.step(|next| report::on_result(next, &id, &key("ecs"), &reporter, &failed)).unwrap();
        id
    };
    story.plans("vpc +1");
    let early = story.scene.row(&failed, &key("ecs")).unwrap();
    assert!(early.error_text.contains("vpc_id"), "the early plan's words are kept");

    story.apply("");
    story.jobs("vpc +1");
    let replan = story.replan().id.clone();
    story.plan_result(&replan, "ecs", "+3").unwrap();

    assert_eq!(story.applied(), "applied: ecs skipped, vpc applied");
    assert_eq!(story.row("ecs").note, "its plan changed after vpc was applied");
    story.apply("");
    story.jobs("ecs +3");
    assert_eq!(story.applied(), "applied: ecs applied, vpc applied");
}

#[test]
fn bl_090_a_later_group_was_applied_although_an_earlier_one_had_failed() {
    let mut story = Story::of("test <- prod, lone <- other");
    story.resolved('a', "test, prod, lone, other");
    story.plans("test +1, prod +1, lone +1, other +1");
    story.apply("");
    story.jobs("test !, lone +1");

    assert_eq!(story.applied(), "failed: lone applied, other planned, prod blocked, test failed");
    assert_eq!(story.row("prod").blocked_by, ["test"]);
    assert!(story.dispatched().is_empty(), "neither the blocked one nor an independent one of a later wave begins");
}

#[test]
fn bl_091_one_command_was_not_enough_for_three_waves() {
    let mut story = Story::of("dev <- rc <- staging");
    story.resolved('a', "dev, rc, staging");
    story.plans("dev =, rc =, staging =");
    story.apply("");
    let started = |story: &Story| {
        let rows = story.scene.rows(&story.run().id).filter(|row| row.dispatch_id.is_some());
        rows.map(|row| row.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(started(&story), ["dev"]);
    story.jobs("dev =");
    assert_eq!(started(&story), ["dev", "rc"]);
    story.jobs("rc =");
    assert_eq!(started(&story), ["dev", "rc", "staging"]);
    story.jobs("staging =");
    assert_eq!(story.applied(), "applied: dev applied, rc applied, staging applied");
    let applies = story.scene.runs.values().filter(|run| run.mode == Mode::Apply).count();
    assert_eq!(applies, 1, "one request, one run");
}

#[test]
fn bl_091_what_a_wave_waits_for_is_looked_up_when_it_opens_and_not_before() {
    let mut story = Story::of("dev <- rc");
    story.resolved('a', "dev, rc");
    story.plans("dev +1, rc ~1");
    story.apply("");
    story.jobs("dev +1");

    // `dev` has just changed, so `rc` is planned with what it made, in the same run.
    let replan = story.replan().id.clone();
    story.plan_result(&replan, "rc", "~1").unwrap();
    assert!(story.row("rc").dispatch_id.is_some());
    story.jobs("rc ~1");
    assert_eq!(story.applied(), "applied: dev applied, rc applied");
}

#[test]
fn bl_093_a_wave_of_three_hundred_stacks_started_nothing() {
    let (mut story, stacks) = wide(300);
    story.policy(|policy| policy.apply.max_parallel = 0);
    story.apply("");
    story.plan_again('a', "");

    for mode in ["apply", "plan"] {
        let (sizes, all) = carried(&story, mode);
        assert!(sizes.len() > 1 && sizes.iter().all(|size| *size <= 256), "{mode}: {sizes:?}");
        assert_eq!(all, stacks, "none lost, none doubled, all of one run");
    }
}

// -- drift ------------------------------------------------------------------------------------------

/// A drift run of `vpc`, as the schedule starts it.
fn drift(story: &mut Story) -> crate::ids::RunId {
    let id = story.run_id();
    let affected = story.resolution("vpc").affected.remove(0);
    story.step(|next| {
        let mut run = plan_start::blank_run(next, id.clone(), sha('a'), Mode::Drift, Trigger::Schedule, "stackorder");
        run.pr_number = 0;
        run.waves = 1;
        let row = plan_start::pending_row(&run, &affected, next.now).unwrap();
        plan_start::start(next, run, vec![row])
    })
}

#[test]
fn bl_108_a_drift_check_that_failed_for_days_was_taken_for_drift_and_applied() {
    let mut story = Story::of("vpc");
    let failed = drift(&mut story);
    story.plan_result(&failed, "vpc", "!").unwrap();
    assert_eq!(story.scene.runs[&failed].status, RunStatus::Failed);
    assert!(story.changes.effects.drift.is_empty(), "a failed check says neither drifted nor clean");

    let drifted = drift(&mut story);
    story.plan_result(&drifted, "vpc", "~1").unwrap();
    assert!(story.changes.effects.drift[0].drifted);
    let kinds: BTreeSet<JobKind> = story.changes.effects.jobs.iter().map(|job| job.kind).collect();
    assert!(!kinds.contains(&JobKind::SendDispatch), "what drifted is told, and nothing is started: {kinds:?}");
    assert!(story.scene.runs.values().all(|run| run.mode == Mode::Drift));
    assert!(story.scene.locks.is_empty());
}

// -- artifacts --------------------------------------------------------------------------------------

#[test]
fn bl_140_an_apply_looked_for_its_plan_under_a_name_nobody_had_uploaded() {
    let mut story = all_new();
    story.apply("vpc");
    let run = story.run();
    let plan = story.row("vpc").from_plan_run.clone().unwrap();
    let entry = dispatching::entry(run, story.row("vpc"), "");

    // What the plan's own job said of it, word for word.
    let planned = story.scene.row(&plan, &key("vpc")).unwrap();
    assert_eq!(entry.plan_run_id, super::story::PLAN_WORKFLOW, "the workflow run that uploaded it");
    assert_eq!((&entry.artifact, &entry.bundle_sha256), (&planned.plan_artifact, &planned.bundle_sha256));
    assert!(!entry.artifact.is_empty() && !entry.bundle_sha256.is_empty());
    assert_eq!(entry.plan_digest, planned.plan_digest);
}

// -- races ------------------------------------------------------------------------------------------

#[test]
fn bl_146_plans_of_an_earlier_commit_were_applied_with_those_of_a_later_one() {
    let mut story = Story::of("a, b");
    story.resolved('a', "a, b");
    story.plans("a +1, b +1");
    story.resolved('b', "a");
    story.plans("a +2");

    story.apply("");

    assert_eq!(story.applied(), "applying: a planned");
    assert_eq!(story.dispatched(), ["apply 0 production: a"]);
    assert_eq!(story.row("a").plan_digest, "+2");
}

#[test]
fn bl_148_an_apply_whose_outcome_nobody_knew_was_tried_again_with_the_same_plan() {
    let mut story = all_new();
    story.apply("vpc");
    story.claim("vpc").unwrap();
    let first = story.run().id.clone();
    story.dispatch_ends(&first, "vpc");

    assert_eq!(story.applied(), "failed: apps skipped, eks skipped, svpc skipped, vpc unknown");
    assert!(story.dispatched().is_empty(), "nothing is applied again by itself");
    let plan = story.view('a').rows["vpc"].clone();
    assert_eq!(plan.used_by_run, Some(first), "the plan was consumed when the apply began");
    // Even an apply that got past the gate, and is not planned again first, finds no job that may use it.
    story.scene.changed_at_mut().clear();
    story.apply("vpc");
    assert!(matches!(story.claim("vpc"), Err(Refused::Conflict(reason)) if reason.contains("was used by apply run")));
}

#[test]
fn bl_151_what_may_run_together_was_started_one_by_one() {
    let (mut story, stacks) = wide(15);
    story.policy(|policy| policy.apply.max_parallel = 15);
    story.apply("");
    assert_eq!(carried(&story, "apply"), (vec![15], stacks.clone()));
    for stack in &stacks {
        story.claim(stack).unwrap();
    }
    let id = story.run().id.clone();
    let in_flight = story.scene.rows(&id).filter(|row| row.status == RowStatus::Applying).count();
    assert_eq!(in_flight, 15, "all at once");
}

#[test]
fn bl_152_a_run_that_github_cancelled_was_shown_as_running_for_ever() {
    // A plan is dispatched again, once.
    let mut story = all_new();
    let plan = story.plan_again('a', "vpc");
    let dispatch = story.dispatch_of(&plan, "vpc");
    story.step(|next| progress::dispatch_again(next, &dispatch));
    assert_eq!(story.dispatched(), ["plan 0 default: vpc"]);
    let again = story.dispatch_of(&plan, "vpc");
    assert_ne!(again, dispatch);
    story.step(|next| progress::dispatch_again(next, &again));
    assert!(story.dispatched().is_empty());
    assert_eq!(story.scene.runs[&plan].status, RunStatus::Failed);

    // An apply is not: what its job did is unknown.
    let mut story = all_new();
    story.apply("vpc");
    let dispatch = story.dispatch_of(&story.run().id.clone(), "vpc");
    story.step(|next| progress::complete_dispatch(next, &dispatch, "cancelled"));
    assert_eq!(story.row("vpc").status, RowStatus::Unknown);
    assert_eq!(story.run().status, RunStatus::Failed);
    assert_eq!(story.scene.dispatches[&dispatch].conclusion, "cancelled");
}

#[test]
fn bl_152_no_workflow_of_ours_leaves_waiting_to_a_concurrency_group() {
    let dispatched = [
        include_str!("../../../actions/.github/workflows/run.yml"),
        include_str!("../../../demo/repository/.github/workflows/stackorder-run.yml"),
    ];
    for workflow in dispatched {
        assert!(!workflow.lines().any(|line| line.trim_start().starts_with("concurrency:")), "{workflow}");
    }
}
