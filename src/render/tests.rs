//! The texts as people read them, and the laws that hold for every scene.

use insta::assert_snapshot;

use self::scenes::*;
use super::check::{Check, CheckStatus};
use super::{checks, drift, outcome, refusal, run_comment, sticky};
use crate::gate::Refusal;
use crate::guide::Topic;
use crate::ids::StackId;
use crate::run::model::DriftSeen;
use crate::run::scene::Scene;
use crate::run::status::{Mode, RowStatus, RunStatus, SkipReason, Trigger, VerdictStatus};

mod comments;
mod laws;
mod scenes;

/// `name | status | title`, one line a check.
fn listed(checks: &[Check]) -> String {
    let line = |check: &Check| {
        let status = match check.status {
            CheckStatus::Queued => "queued",
            CheckStatus::InProgress => "in progress",
            CheckStatus::Completed(conclusion) => conclusion.as_str(),
        };
        format!("{} | {status} | {}", check.name, check.title)
    };
    checks.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn desired(scene: &Scene) -> String {
    listed(&checks::desired(scene, &context()))
}

/// Without the marks that keep GitHub from linking and mentioning.
fn visible(text: &str) -> String {
    text.replace('\u{200b}', "")
}

fn find(scene: &Scene, name: &str) -> Check {
    checks::desired(scene, &context()).into_iter().find(|check| check.name == name).unwrap()
}

#[test]
fn a_registered_run_waits_for_its_resolve() {
    let mut scene = scene();
    add_run(&mut scene, Mode::Plan, Trigger::PullRequest, 'a', RunStatus::Pending);
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | in progress | Reading the stacks
    stackorder/plan | queued | Waiting for resolve
    ");
}

#[test]
fn planned_stacks_have_green_checks_with_their_counts() {
    let (mut scene, plan) = planned();
    verdict(&mut scene, &plan, "vpc", "policy", VerdictStatus::Warn, "one bucket is public");
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 3 stacks affected in 3 waves
    stackorder/plan | success | 3 stacks in 3 waves: 3 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/plan: vpc | success | 2 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/policy: vpc | neutral | warn: one bucket is public
    stackorder/plan: eks | success | No changes
    stackorder/plan: apps | success | 1 to add, 0 to change, 0 to destroy, 0 to replace
    ");
}

#[test]
fn case_023_one_failed_plan_turns_the_roll_up_red_at_once() {
    let (mut scene, plan) = planned();
    scene.runs.get_mut(&plan).unwrap().status = RunStatus::Planning;
    add_row(&mut scene, &plan, "eks", 1, RowStatus::Failed).exit_code = Some(1);
    add_row(&mut scene, &plan, "apps", 2, RowStatus::Pending);
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 3 stacks affected in 3 waves
    stackorder/plan | failure | 1 failed of 3 stacks
    stackorder/plan: vpc | success | 2 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/plan: eks | failure | Failed with exit code 1
    stackorder/plan: apps | queued | Queued
    ");
}

#[test]
fn case_157_an_unconfirmed_plan_is_no_green_light() {
    let (mut scene, plan) = planned();
    add_row(&mut scene, &plan, "eks", 1, RowStatus::Unconfirmed);
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 3 stacks affected in 3 waves
    stackorder/plan | action_required | Unconfirmed: the server did not confirm 1 plan
    stackorder/plan: vpc | success | 2 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/plan: eks | neutral | Unconfirmed: the server did not confirm this plan
    stackorder/plan: apps | success | 1 to add, 0 to change, 0 to destroy, 0 to replace
    ");
}

#[test]
fn a_cycle_is_spelled_out() {
    let mut scene = scene();
    let plan = add_run(&mut scene, Mode::Plan, Trigger::PullRequest, 'a', RunStatus::Failed);
    let run = scene.runs.get_mut(&plan).unwrap();
    run.waves = 0;
    run.cycles = vec![vec!["a".to_owned(), "b".to_owned(), "a".to_owned()]];
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | failure | Dependency cycle: a → b → a
    stackorder/plan | failure | Dependency cycle: a → b → a
    ");
    assert_snapshot!(find(&scene, "stackorder/resolve").summary, @"
    These stacks wait for each other:

    - `a` → `b` → `a`

    Remove one of the edges, or list an edge that was only inferred under `ignore_inferred`.

    [run page](https://so.test/runs/00000000-0000-4000-8000-000000000001)
    ");
}

#[test]
fn case_001_002_nothing_affected_is_green_everywhere_before_a_merge_and_has_no_apply_on_merge() {
    let mut scene = scene();
    let plan = add_run(&mut scene, Mode::Plan, Trigger::PullRequest, 'a', RunStatus::Planned);
    scene.runs.get_mut(&plan).unwrap().waves = 0;
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | No stacks affected
    stackorder/plan | success | No stacks affected
    stackorder/apply | success | No stacks affected, nothing to apply
    ");
    policy(&mut scene, |config| config.apply.mode = crate::config::model::ApplyMode::OnMerge);
    assert!(!desired(&scene).contains("stackorder/apply"));
}

#[test]
fn a_dispatch_that_github_refused_leaves_no_check_waiting() {
    let mut scene = scene();
    let plan = add_run(&mut scene, Mode::Plan, Trigger::Comment, 'a', RunStatus::Failed);
    scene.runs.get_mut(&plan).unwrap().warn("GitHub answered 404");
    add_row(&mut scene, &plan, "vpc", 0, RowStatus::Pending);
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 1 stack affected in 1 wave
    stackorder/plan | failure | GitHub answered 404
    stackorder/plan: vpc | cancelled | Not planned: its job was never started
    ");
}

#[test]
fn an_apply_says_what_each_stack_waits_for() {
    let (mut scene, apply) = applying(
        RunStatus::Applying,
        &[("vpc", 0, RowStatus::Applying), ("eks", 1, RowStatus::Planned), ("apps", 2, RowStatus::Planned)],
    );
    scene.row_mut(&apply, &key("vpc")).unwrap().waiting_for_approval = true;
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 3 stacks affected in 3 waves
    stackorder/plan | success | 3 stacks in 3 waves: 3 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/apply | in progress | Applying wave 0 of 3: 0 of 3 stacks done
    stackorder/plan: vpc | success | 2 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/plan: eks | success | No changes
    stackorder/plan: apps | success | 1 to add, 0 to change, 0 to destroy, 0 to replace
    stackorder/apply: apps | queued | Waiting for wave 1
    stackorder/apply: eks | queued | Waiting for wave 0
    stackorder/apply: vpc | in progress | Waiting for approval of production
    ");
}

#[test]
fn a_wave_that_is_planned_again_says_so() {
    let (mut scene, apply) = replanning();
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 3 stacks affected in 3 waves
    stackorder/plan | in progress | Planning: 2 of 3 stacks done
    stackorder/apply | in progress | Planning 1 stack again before wave 1
    stackorder/plan: vpc | success | 2 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/plan: eks | in progress | Planning
    stackorder/plan: apps | success | 1 to add, 0 to change, 0 to destroy, 0 to replace
    stackorder/apply: apps | queued | Waiting for wave 1
    stackorder/apply: eks | queued | Planning again after vpc
    stackorder/apply: vpc | success | 1 added, 0 changed, 0 destroyed, 0 replaced
    ");
    scene.runs.get_mut(&apply).unwrap().status = RunStatus::Failed;
    assert!(find(&scene, "stackorder/apply: apps").title.starts_with("Never reached"));
}

/// `vpc` is applied, and `eks` is planned again before wave 1.
fn replanning() -> (Scene, crate::ids::RunId) {
    let (mut scene, apply) = applying(
        RunStatus::Applying,
        &[("vpc", 0, RowStatus::Applied), ("eks", 1, RowStatus::Planned), ("apps", 2, RowStatus::Planned)],
    );
    scene.runs.get_mut(&apply).unwrap().current_wave = 1;
    scene.row_mut(&apply, &key("eks")).unwrap().behind = vec!["vpc".to_owned()];
    let replan = add_run(&mut scene, Mode::Plan, Trigger::Upstream, 'a', RunStatus::Planning);
    let run = scene.runs.get_mut(&replan).unwrap();
    run.for_run = Some(apply.clone());
    run.for_wave = 1;
    add_row(&mut scene, &replan, "eks", 0, RowStatus::Planning);
    (scene, apply)
}

/// `eks` has a new plan after `vpc`, and `apps` waits for it.
fn with_a_new_plan() -> (Scene, crate::ids::RunId) {
    let (mut scene, apply) = replanning();
    scene.runs.get_mut(&apply).unwrap().status = RunStatus::Applied;
    let row = scene.row_mut(&apply, &key("eks")).unwrap();
    row.status = RowStatus::Skipped;
    row.skip_reason = Some(SkipReason::PlanChanged);
    row.note = "its plan changed after vpc was applied".to_owned();
    let row = scene.row_mut(&apply, &key("apps")).unwrap();
    row.status = RowStatus::Skipped;
    row.skip_reason = Some(SkipReason::Waits);
    row.behind = vec!["eks".to_owned()];
    row.note = "waits for eks".to_owned();
    let replan = scene.replan_of(&apply, 1).unwrap().id.clone();
    scene.runs.get_mut(&replan).unwrap().status = RunStatus::Planned;
    scene.runs.get_mut(&replan).unwrap().taken_over = true;
    let row = scene.row_mut(&replan, &key("eks")).unwrap();
    row.status = RowStatus::Planned;
    with_counts(row, 2, 3);
    (scene, apply)
}

/// `eks` failed after its job claimed it, `apps` is blocked by it.
fn broken() -> (Scene, crate::ids::RunId) {
    let (mut scene, apply) = applying(
        RunStatus::Failed,
        &[("vpc", 0, RowStatus::Applied), ("eks", 1, RowStatus::Failed), ("apps", 2, RowStatus::Blocked)],
    );
    scene.runs.get_mut(&apply).unwrap().current_wave = 1;
    let row = scene.row_mut(&apply, &key("eks")).unwrap();
    row.exit_code = Some(1);
    row.error_text = "Error: quota exceeded\n".to_owned();
    row.job_url = "https://github.test/acme/infra/actions/runs/9/job/1".to_owned();
    claim(row);
    scene.row_mut(&apply, &key("apps")).unwrap().blocked_by = vec!["eks".to_owned()];
    (scene, apply)
}

#[test]
fn case_122_a_new_plan_after_its_upstream_waits_for_a_person() {
    let (mut scene, apply) = with_a_new_plan();
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 3 stacks affected in 3 waves
    stackorder/plan | success | 3 stacks in 3 waves: 5 to add, 0 to change, 4 to destroy, 0 to replace
    stackorder/apply | action_required | 1 stack has a new plan after its upstream; review it and comment stackorder apply
    stackorder/plan: vpc | success | 2 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/plan: eks | success | 2 to add, 0 to change, 3 to destroy, 0 to replace
    stackorder/plan: apps | success | 1 to add, 0 to change, 0 to destroy, 0 to replace
    stackorder/apply: apps | action_required | Waits for eks
    stackorder/apply: eks | action_required | Its plan changed after vpc was applied
    stackorder/apply: vpc | success | 1 added, 0 changed, 0 destroyed, 0 replaced
    ");
    let run = scene.runs.get_mut(&apply).unwrap();
    run.trigger = Trigger::PullRequest;
    run.sha = sha('d');
    assert_snapshot!(find(&scene, "stackorder/apply").title, @"1 stack has a new plan after its upstream; review it and ask for the apply on the run page");
}

#[test]
fn a_failed_stack_blocks_what_is_behind_it() {
    let (scene, _) = broken();
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 3 stacks affected in 3 waves
    stackorder/plan | success | 3 stacks in 3 waves: 3 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/apply | failure | 1 failed, 1 blocked of 3 stacks
    stackorder/plan: vpc | success | 2 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/plan: eks | success | No changes
    stackorder/plan: apps | success | 1 to add, 0 to change, 0 to destroy, 0 to replace
    stackorder/apply: apps | failure | Blocked by eks
    stackorder/apply: eks | failure | Failed with exit code 1
    stackorder/apply: vpc | success | 1 added, 0 changed, 0 destroyed, 0 replaced
    ");
}

#[test]
fn case_065_a_stack_whose_wave_was_never_reached_is_cancelled() {
    let (mut scene, apply) = broken();
    add_row(&mut scene, &apply, "dns", 2, RowStatus::Planned);
    let unreached = find(&scene, "stackorder/apply: dns");
    assert_eq!(unreached.status, CheckStatus::Completed(super::check::Conclusion::Cancelled));
    assert!(unreached.title.starts_with("Never reached"), "{}", unreached.title);
}

#[test]
fn case_076_an_unknown_result_points_to_the_state_lock_only_if_a_job_claimed_it() {
    let rows = [("vpc", 0, RowStatus::Unknown), ("eks", 0, RowStatus::Unknown)];
    let (mut scene, apply) = applying(RunStatus::Failed, &rows);
    claim(scene.row_mut(&apply, &key("vpc")).unwrap());
    let claimed = find(&scene, "stackorder/apply: vpc");
    let unclaimed = find(&scene, "stackorder/apply: eks");
    assert!(claimed.summary.contains("`stackorder unlock --force-state vpc`"), "{}", claimed.summary);
    assert_eq!(unclaimed.title, "Never started; nothing was applied");
    assert!(!unclaimed.summary.contains("unlock"), "{}", unclaimed.summary);
    assert!(claimed.summary.contains(&Topic::ApplyUnknown.link()), "{}", claimed.summary);
    assert!(unclaimed.summary.contains(&Topic::ApplyNeverStarted.link()), "{}", unclaimed.summary);
}

#[test]
fn case_063_160_a_subset_keeps_the_check_open_until_the_rest_is_applied() {
    let (mut scene, apply) = applying(RunStatus::Applied, &[("vpc", 0, RowStatus::Applied)]);
    not_selected(add_row(&mut scene, &apply, "eks", 0, RowStatus::Skipped));
    not_selected(add_row(&mut scene, &apply, "apps", 0, RowStatus::Skipped));
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 3 stacks affected in 3 waves
    stackorder/plan | success | 3 stacks in 3 waves: 3 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/apply | action_required | 2 of 3 stacks still to be applied
    stackorder/plan: vpc | success | 2 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/plan: eks | success | No changes
    stackorder/plan: apps | success | 1 to add, 0 to change, 0 to destroy, 0 to replace
    stackorder/apply: apps | neutral | Not in the requested subset
    stackorder/apply: eks | neutral | Not in the requested subset
    stackorder/apply: vpc | success | 1 added, 0 changed, 0 destroyed, 0 replaced
    ");

    let mut partly = scene.clone();
    policy(&mut partly, |config| config.apply.require_complete = false);
    assert_snapshot!(find(&partly, "stackorder/apply").title, @"1 stack applied, 2 skipped: 1 added, 0 changed, 0 destroyed, 0 replaced");

    let rest =
        add_apply(&mut scene, RunStatus::Applied, &[("eks", 0, RowStatus::Noop), ("apps", 1, RowStatus::Applied)]);
    not_selected(add_row(&mut scene, &rest, "vpc", 0, RowStatus::Skipped));
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 3 stacks affected in 3 waves
    stackorder/plan | success | 3 stacks in 3 waves: 3 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/apply | success | 1 stack applied, 1 skipped: 1 added, 0 changed, 0 destroyed, 0 replaced
    stackorder/plan: vpc | success | 2 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/plan: eks | success | No changes
    stackorder/plan: apps | success | 1 to add, 0 to change, 0 to destroy, 0 to replace
    stackorder/apply: apps | success | 1 added, 0 changed, 0 destroyed, 0 replaced
    stackorder/apply: eks | success | Nothing to apply
    stackorder/apply: vpc | success | 1 added, 0 changed, 0 destroyed, 0 replaced
    ");
}

#[test]
fn a_superseded_apply_of_the_head_is_cancelled() {
    let (scene, _) = applying(RunStatus::Superseded, &[("vpc", 0, RowStatus::Planned)]);
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 3 stacks affected in 3 waves
    stackorder/plan | success | 3 stacks in 3 waves: 3 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/apply | cancelled | Superseded by bbbbbbb
    stackorder/plan: vpc | success | 2 to add, 0 to change, 1 to destroy, 0 to replace
    stackorder/plan: eks | success | No changes
    stackorder/plan: apps | success | 1 to add, 0 to change, 0 to destroy, 0 to replace
    stackorder/apply: vpc | cancelled | Superseded by bbbbbbb
    ");
}

#[test]
fn what_a_superseded_commit_has_is_ended_and_verdicts_are_left_alone() {
    let (mut scene, plan) = planned();
    scene.runs.get_mut(&plan).unwrap().status = RunStatus::Superseded;
    scene.runs.get_mut(&plan).unwrap().superseded_by = sha('b').to_string();
    let names = [
        "stackorder/apply",
        "stackorder/apply: vpc",
        "stackorder/plan",
        "stackorder/plan-cost: vpc",
        "stackorder/plan: vpc",
        "stackorder/resolve",
    ];
    let names = names.map(str::to_owned).into();
    assert_snapshot!(listed(&checks::superseded(&scene, &plan, &names, &context())), @"
    stackorder/apply | cancelled | Superseded by bbbbbbb
    stackorder/apply: vpc | cancelled | Superseded by bbbbbbb
    stackorder/plan | neutral | Superseded by bbbbbbb
    stackorder/plan: vpc | neutral | Superseded by bbbbbbb
    ");

    // An apply that had claimed a stack runs on at its commit.
    add_apply(&mut scene, RunStatus::Applying, &[("vpc", 0, RowStatus::Applying)]);
    assert!(!listed(&checks::superseded(&scene, &plan, &names, &context())).contains("stackorder/apply"));
}

#[test]
fn after_a_merge_the_apply_stands_at_the_merge_commit() {
    let (mut scene, _) = planned();
    policy(&mut scene, |config| config.apply.mode = crate::config::model::ApplyMode::OnMerge);
    let apply = add_run(&mut scene, Mode::Apply, Trigger::PullRequest, 'd', RunStatus::Applied);
    for stack in ["vpc", "eks", "apps"] {
        with_counts(add_row(&mut scene, &apply, stack, 0, RowStatus::Applied), 1, 0);
    }
    let checks = checks::desired(&scene, &context());
    let at = |letter: char| checks.iter().filter(|check| check.head_sha == sha(letter)).cloned().collect::<Vec<_>>();
    assert!(at('a').iter().all(|check| !check.name.starts_with("stackorder/apply")));
    assert_snapshot!(listed(&at('d')), @"
    stackorder/apply | success | 3 stacks applied: 3 added, 0 changed, 0 destroyed, 0 replaced
    stackorder/apply: apps | success | 1 added, 0 changed, 0 destroyed, 0 replaced
    stackorder/apply: eks | success | 1 added, 0 changed, 0 destroyed, 0 replaced
    stackorder/apply: vpc | success | 1 added, 0 changed, 0 destroyed, 0 replaced
    ");
}

#[test]
fn stacks_have_checks_of_their_own_only_while_they_are_few() {
    let many = |number: usize| {
        let mut scene = scene();
        let plan = add_run(&mut scene, Mode::Plan, Trigger::PullRequest, 'a', RunStatus::Planning);
        for at in 0..number {
            let status = if at == 0 { RowStatus::Planned } else { RowStatus::Pending };
            add_row(&mut scene, &plan, &format!("stack-{at:03}"), 0, status);
        }
        checks::desired(&scene, &context()).iter().filter(|check| check.name.starts_with("stackorder/plan: ")).count()
    };
    assert_eq!([many(10), many(11), many(20), many(21)], [10, 1, 1, 0]);
}

#[test]
fn the_check_of_a_stack_says_where_it_stands() {
    let (mut scene, plan) = planned();
    lock(&mut scene, "vpc", 7);
    verdict(&mut scene, &plan, "vpc", "policy", VerdictStatus::Pass, "all good");
    let row = scene.row_mut(&plan, &key("vpc")).unwrap();
    row.plan_artifact = "stackorder-plan-vpc".to_owned();
    row.plan_artifact_expires_at = Some(1_791_000_000_000);
    row.job_url = "https://github.test/acme/infra/actions/runs/9/job/1".to_owned();
    row.plan_digest = "5ca1ab1e".to_owned();
    row.bundle_sha256 = "c0ffee".to_owned();
    let mut context = context();
    context.plan_texts.insert((plan, key("vpc")), "  + resource \"x\" \"y\" {}\n".to_owned());
    let check =
        checks::desired(&scene, &context).into_iter().find(|check| check.name == "stackorder/plan: vpc").unwrap();
    assert_snapshot!(visible(&check.summary), @r"
    |  |  |
    | --- | --- |
    | Mode | plan |
    | Stack | `vpc` |
    | Wave | 0 |
    | Environment | `production` |
    | Run | [run page](https://so.test/runs/00000000-0000-4000-8000-000000000001) |
    | Job | [job log](https://github.test/acme/infra/actions/runs/9/job/1) |
    | Why | its files changed |

    **Locked by [\#7](https://github.test/acme/infra/pull/7)** since 2026-09-27T08:00:00Z. Plans still run; an apply is refused until the lock is released.

    | Add | Change | Destroy | Replace |
    | --- | --- | --- | --- |
    | 2 | 0 | 1 | 0 |

    | Check | Verdict | Summary | Details |
    | --- | --- | --- | --- |
    | `policy` | pass | all good | – |

    Plan artifact `stackorder-plan-vpc`, until 2026-10-03T04:00:00Z

    Plan digest `5ca1ab1e`

    Bundle `c0ffee`, which its job proves before it applies
    ");
    assert_snapshot!(check.text, @r#"
    ```hcl
      + resource "x" "y" {}
    ```
    "#);
}

#[test]
fn bl_040_a_stack_that_waits_for_a_new_one_was_shown_as_a_failure() {
    let mut scene = scene();
    let plan = add_run(&mut scene, Mode::Plan, Trigger::PullRequest, 'a', RunStatus::Failed);
    with_counts(add_row(&mut scene, &plan, "vpc", 0, RowStatus::Planned), 2, 0);
    let eks = add_row(&mut scene, &plan, "eks", 1, RowStatus::Failed);
    (eks.exit_code, eks.error_text) = (Some(1), "outputs.vpc_id: no such attribute".to_owned());
    assert_snapshot!(desired(&scene), @"
    stackorder/resolve | success | 2 stacks affected in 2 waves
    stackorder/plan | action_required | 1 of 2 stacks to be planned after what they wait for
    stackorder/plan: vpc | success | 2 to add, 0 to change, 0 to destroy, 0 to replace
    stackorder/plan: eks | neutral | Waits for vpc
    ");
    let check = find(&scene, "stackorder/plan: eks");
    assert!(check.text.contains("no such attribute"), "what the early plan said is kept: {}", check.text);
    let comment = visible(&sticky::comment(&scene, &context()).unwrap());
    assert!(comment.contains("### Stackorder: planned") && comment.contains("waits for vpc"), "{comment}");
    assert!(!comment.contains("Repair what failed"), "{comment}");

    // Once `vpc` is there, a plan that fails has failed.
    scene.changed_at_mut().insert(key("vpc"), 5);
    assert_eq!(find(&scene, "stackorder/plan: eks").title, "Failed with exit code 1");
    assert_eq!(find(&scene, "stackorder/plan").title, "1 failed of 2 stacks");
}

#[test]
fn bl_084_a_plan_made_while_another_pull_request_had_applied_and_not_merged_said_nothing_of_it() {
    let (mut scene, _) = planned();
    lock(&mut scene, "vpc", 7);
    let comment = visible(&sticky::comment(&scene, &context()).unwrap());
    let banner = comment.split("**Locked by others").nth(1).expect("a banner");
    assert!(banner.starts_with(": an apply of these is refused until the lock is released**"), "{banner}");
    assert!(banner.contains(r"`vpc` by [\#7](https://github.test/acme/infra/pull/7) since"), "{banner}");
    let check = find(&scene, "stackorder/plan: vpc");
    assert!(visible(&check.summary).contains(r"**Locked by [\#7](https://github.test/acme/infra/pull/7)**"));
}

#[test]
fn bl_086_a_discarded_lock_did_not_keep_the_pull_request_from_merging() {
    let (mut scene, plan) = planned();
    let apply = add_run(&mut scene, Mode::Apply, Trigger::Comment, 'a', RunStatus::Applied);
    for (stack, wave) in [("vpc", 0), ("eks", 1), ("apps", 2)] {
        let row = add_row(&mut scene, &apply, stack, wave, RowStatus::Applied);
        row.from_plan_run = Some(plan.clone());
        if stack != "vpc" {
            not_selected(row);
        }
    }
    // Nothing is locked any more, and still the required check waits for every stack of the head.
    assert!(scene.locks.is_empty());
    let check = find(&scene, "stackorder/apply");
    assert_eq!(check.title, "2 of 3 stacks still to be applied");
    assert_eq!(check.status, CheckStatus::Completed(super::check::Conclusion::ActionRequired));
}

#[test]
fn bl_142_one_expired_plan_spoiled_what_was_said_of_the_others() {
    let mut scene = scene();
    let plan = add_run(&mut scene, Mode::Plan, Trigger::PullRequest, 'a', RunStatus::Planned);
    for number in 0..10 {
        let row = add_row(&mut scene, &plan, &format!("s{number}"), 0, RowStatus::Planned);
        with_counts(row, 1, 0);
        row.plan_artifact = format!("plan-{number}");
        let at = if number == 3 { context().now - 1 } else { context().now + 1 };
        row.plan_artifact_expires_at = Some(at);
    }
    let checks = checks::desired(&scene, &context());
    let said = |what: &str| checks.iter().filter(|check| check.summary.contains(what)).count();
    assert_eq!((said(", expired since"), said(", until ")), (1, 9));
    assert!(find(&scene, "stackorder/plan: s3").summary.contains("its job plans it again"));
    assert_eq!(
        find(&scene, "stackorder/plan").title,
        "10 stacks in 1 wave: 10 to add, 0 to change, 0 to destroy, 0 to replace"
    );
}
