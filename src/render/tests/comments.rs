//! The comments: the sticky one, those of runs and outcomes, refusals, and the drift issue.

use super::*;

#[test]
fn the_sticky_comment_shows_the_plans() {
    let (mut scene, plan) = planned();
    lock(&mut scene, "eks", 7);
    scene.runs.get_mut(&plan).unwrap().warn("docs/x.tf:3: not understood");
    add_apply(&mut scene, RunStatus::Applying, &[("vpc", 0, RowStatus::Applying)]);
    let mut context = context();
    context.plan_texts.insert((plan, key("vpc")), "  + resource \"x\" \"y\" {}\n".to_owned());
    assert_snapshot!(visible(&sticky::comment(&scene, &context).unwrap()), @r#"
    <!-- stackorder:sticky -->
    ### Stackorder: planned

    plan · [aaaaaaa](https://github.test/acme/infra/commit/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) · [run page](https://so.test/runs/00000000-0000-4000-8000-000000000001)

    3 stacks in 3 waves: 3 to add, 0 to change, 1 to destroy, 0 to replace

    **Applies**

    - [aaaaaaa](https://github.test/acme/infra/commit/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) applying, by octocat, [run page](https://so.test/runs/00000000-0000-4000-8000-000000000002)

    **Locked by others: an apply of these is refused until the lock is released**

    - `eks` by [\#7](https://github.test/acme/infra/pull/7) since 2026-09-27T08:00:00Z

    ```mermaid
    flowchart LR
      subgraph wave0["wave 0"]
        s0["vpc"]
      end
      subgraph wave1["wave 1"]
        s1["eks"]
      end
      subgraph wave2["wave 2"]
        s2["apps"]
      end
      s0 --> s1
      s1 --> s2
    ```

    | Wave | Stack | Environment | Add | Change | Destroy | Replace | Status | Job |
    | --- | --- | --- | --- | --- | --- | --- | --- | --- |
    | 0 | `vpc` | production | 2 | 0 | 1 | 0 | planned | – |
    | 1 | `eks` | production | 0 | 0 | 0 | 0 | planned | – |
    | 2 | `apps` | production | 1 | 0 | 0 | 0 | planned | – |

    <details><summary><code>vpc</code>: planned, 2 to add, 0 to change, 1 to destroy, 0 to replace</summary>

    ```hcl
      + resource "x" "y" {}
    ```

    </details>
    <details><summary><code>apps</code>: planned, 1 to add, 0 to change, 0 to destroy, 0 to replace</summary>

    Add 1:

    - `terraform_data.new[0]`

    </details>

    <details><summary>Why these stacks</summary>

    - `vpc`: its files changed
    - `eks`: it depends on an affected stack, via `vpc`
    - `apps`: it depends on an affected stack, via `vpc`

    </details>

    **1 warning**

    - docs/x.tf:3: not understood

    ---
    `stackorder plan [stacks]` plans again · `stackorder apply [stacks]` applies · `stackorder unlock [stacks]` releases locks · `stackorder help` explains
    "#);
}

#[test]
fn a_stack_planned_again_by_itself_keeps_its_wave_in_the_table() {
    let (mut scene, _) = planned();
    let again = add_run(&mut scene, Mode::Plan, Trigger::Comment, 'a', RunStatus::Planned);
    with_counts(add_row(&mut scene, &again, "apps", 0, RowStatus::Planned), 5, 0);
    let body = sticky::comment(&scene, &context()).unwrap();
    assert!(body.contains("| 2 | `apps` | production | 5 |"), "{body}");
}

#[test]
fn without_a_plan_run_there_is_no_sticky_comment() {
    assert_eq!(sticky::comment(&scene(), &context()), None);
}

#[test]
fn a_superseded_head_says_that_it_waits() {
    let (mut scene, plan) = planned();
    scene.runs.get_mut(&plan).unwrap().status = RunStatus::Superseded;
    scene.runs.get_mut(&plan).unwrap().superseded_by = sha('b').to_string();
    assert_snapshot!(sticky::comment(&scene, &context()).unwrap(), @"
    <!-- stackorder:sticky -->
    ### Stackorder: superseded

    plan · [aaaaaaa](https://github.test/acme/infra/commit/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) · [run page](https://so.test/runs/00000000-0000-4000-8000-000000000001)

    Superseded by bbbbbbb; waiting for the plans of the new head.

    ---
    `stackorder plan [stacks]` plans again · `stackorder apply [stacks]` applies · `stackorder unlock [stacks]` releases locks · `stackorder help` explains
    ");
}

#[test]
fn the_run_comment_lists_who_has_to_approve() {
    let (mut scene, apply) =
        applying(RunStatus::Applying, &[("vpc", 0, RowStatus::Applying), ("eks", 1, RowStatus::Planned)]);
    scene.row_mut(&apply, &key("vpc")).unwrap().waiting_for_approval = true;
    let mut context = context();
    let pending = vec![("staging".to_owned(), 78), ("production".to_owned(), 77), ("production".to_owned(), 77)];
    context.pending.insert(apply.clone(), pending);
    assert_snapshot!(run_comment::comment(&scene, &apply, &context).unwrap(), @"
    <!-- stackorder:run:00000000-0000-4000-8000-000000000002 -->
    ### Stackorder apply: applying

    [aaaaaaa](https://github.test/acme/infra/commit/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) · requested by octocat · [run page](https://so.test/runs/00000000-0000-4000-8000-000000000002)

    Applying wave 0 of 3: 0 of 2 stacks done

    **Waiting for approval**

    - `production`: [approve or reject](https://github.test/acme/infra/actions/runs/77)
    - `staging`: [approve or reject](https://github.test/acme/infra/actions/runs/78)

    | Wave | Stack | Environment | Add | Change | Destroy | Replace | Status | Job |
    | --- | --- | --- | --- | --- | --- | --- | --- | --- |
    | 0 | `vpc` | production | 1 | 0 | 0 | 0 | waiting for approval | – |
    | 1 | `eks` | production | 1 | 0 | 0 | 0 | planned | – |
    ");
}

#[test]
fn only_applies_that_began_have_a_run_comment() {
    let (mut scene, apply) = applying(RunStatus::Applying, &[("vpc", 0, RowStatus::Planned)]);
    let plan = scene.newest_plan_run().unwrap().id.clone();
    assert_eq!(run_comment::comment(&scene, &plan, &context()), None);
    scene.runs.get_mut(&apply).unwrap().started_at = None;
    assert_eq!(run_comment::comment(&scene, &apply, &context()), None);
    scene.runs.get_mut(&apply).unwrap().started_at = Some(1);
    scene.runs.get_mut(&apply).unwrap().trigger = Trigger::Manual;
    assert_eq!(run_comment::comment(&scene, &apply, &context()), None);
}

#[test]
fn the_outcome_of_a_good_apply() {
    let (mut scene, apply) =
        applying(RunStatus::Applied, &[("vpc", 0, RowStatus::Applied), ("eks", 1, RowStatus::Noop)]);
    not_selected(add_row(&mut scene, &apply, "apps", 0, RowStatus::Skipped));
    assert_snapshot!(outcome::comment(&scene, &apply, &context()), @"
    **Applied [aaaaaaa](https://github.test/acme/infra/commit/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa)**, asked for by octocat: 1 stack applied: 1 added, 0 changed, 0 destroyed, 0 replaced; nothing to apply in 1 stack.

    Left out, because the request did not name it: `apps`.

    2 locks stay with this pull request until it is merged or `stackorder unlock` releases them.

    [run page](https://so.test/runs/00000000-0000-4000-8000-000000000002)
    ");
}

#[test]
fn the_outcome_of_a_failed_apply_says_what_to_do_next() {
    let (scene, apply) = broken();
    assert_snapshot!(outcome::comment(&scene, &apply, &context()), @"
    **Apply of [aaaaaaa](https://github.test/acme/infra/commit/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) failed in wave 1**, asked for by octocat.

    `eks` failed with exit code 1, [job](https://github.test/acme/infra/actions/runs/9/job/1)

    ```text
    Error: quota exceeded
    ```

    Blocked:

    - `apps` by `eks`

    Applied: `vpc`.

    1 later wave was not dispatched.

    3 locks stay with this pull request until it is merged or `stackorder unlock` releases them.

    **Next**

    - The plan of `eks` was used: comment `stackorder plan eks`, then comment `stackorder apply`. [why and what to do](https://github.com/stackorder/stackorder/blob/main/docs/troubleshooting.md#f2-an-apply-failed)

    [run page](https://so.test/runs/00000000-0000-4000-8000-000000000002)
    ");
}

#[test]
fn the_outcome_of_unknown_results_tells_claimed_from_unclaimed() {
    let rows = [("vpc", 0, RowStatus::Unknown), ("eks", 0, RowStatus::Unknown)];
    let (mut scene, apply) = applying(RunStatus::Failed, &rows);
    claim(scene.row_mut(&apply, &key("vpc")).unwrap());
    assert_snapshot!(outcome::comment(&scene, &apply, &context()), @"
    **Apply of [aaaaaaa](https://github.test/acme/infra/commit/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) failed in wave 0**, asked for by octocat.

    `eks` unknown: nothing was applied

    `vpc` unknown

    2 later waves were not dispatched.

    2 locks stay with this pull request until it is merged or `stackorder unlock` releases them.

    **Next**

    - Nobody knows what the jobs of `vpc` did; the state may be partly changed. Read the job log, release the state lock with the tool if the runner died, run `stackorder unlock --force-state vpc`, then comment `stackorder plan vpc`. [why and what to do](https://github.com/stackorder/stackorder/blob/main/docs/troubleshooting.md#unknown-the-job-may-have-applied)
    - In `eks` nothing was applied: comment `stackorder apply` again. [why and what to do](https://github.com/stackorder/stackorder/blob/main/docs/troubleshooting.md#unknown-nothing-was-applied)

    [run page](https://so.test/runs/00000000-0000-4000-8000-000000000002)
    ");
}

#[test]
fn case_122_the_outcome_shows_old_and_new_counts_of_a_new_plan() {
    let (scene, apply) = with_a_new_plan();
    assert_snapshot!(outcome::comment(&scene, &apply, &context()), @"
    **Applied [aaaaaaa](https://github.test/acme/infra/commit/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa)**, asked for by octocat: 1 stack applied: 1 added, 0 changed, 0 destroyed, 0 replaced.

    **1 stack has a new plan after its upstream; review it and comment `stackorder apply`.** [why and what to do](https://github.com/stackorder/stackorder/blob/main/docs/troubleshooting.md#f24-a-plan-changes-after-its-upstream-is-applied)

    | Stack | After | Old plan | New plan | Run | Why it waits |
    | --- | --- | --- | --- | --- | --- |
    | `eks` | `vpc` | 1 to add, 0 to change, 0 to destroy, 0 to replace | 2 to add, 0 to change, 3 to destroy, 0 to replace | [run page](https://so.test/runs/00000000-0000-4000-8000-000000000003) | its plan changed after vpc was applied |

    These wait for them:

    - `apps` waits for eks

    3 locks stay with this pull request until it is merged or `stackorder unlock` releases them.

    [run page](https://so.test/runs/00000000-0000-4000-8000-000000000002)
    ");
}

#[test]
fn a_plan_that_failed_after_its_upstream_has_to_be_made_again() {
    let (mut scene, apply) = replanning();
    scene.runs.get_mut(&apply).unwrap().status = RunStatus::Failed;
    scene.row_mut(&apply, &key("eks")).unwrap().status = RowStatus::Failed;
    let body = outcome::comment(&scene, &apply, &context());
    let next = "- In `eks` nothing was applied: comment `stackorder plan eks`, then comment `stackorder apply`.";
    assert!(body.contains(next), "{body}");
}

#[test]
fn an_apply_that_runs_on_at_an_older_head_keeps_its_checks_there() {
    let (mut scene, apply) = applying(RunStatus::Applying, &[("vpc", 0, RowStatus::Applying)]);
    let old = scene.newest_plan_run().unwrap().id.clone();
    scene.runs.get_mut(&old).unwrap().status = RunStatus::Superseded;
    let new = add_run(&mut scene, Mode::Plan, Trigger::PullRequest, 'b', RunStatus::Planning);
    add_row(&mut scene, &new, "vpc", 0, RowStatus::Planning);
    // A later re-plan of the old apply does not make the old commit the head again.
    let replan = add_run(&mut scene, Mode::Plan, Trigger::Upstream, 'a', RunStatus::Planning);
    scene.runs.get_mut(&replan).unwrap().for_run = Some(apply);
    scene.runs.get_mut(&replan).unwrap().for_wave = 1;
    let checks = checks::desired(&scene, &context());
    let at = |letter: char| checks.iter().filter(|check| check.head_sha == sha(letter)).cloned().collect::<Vec<_>>();
    assert_snapshot!(listed(&at('a')), @"
    stackorder/apply | in progress | Applying wave 0 of 3: 0 of 1 stack done
    stackorder/apply: vpc | in progress | Applying in production
    ");
    assert!(listed(&at('b')).starts_with("stackorder/resolve | success"));
    assert!(sticky::comment(&scene, &context()).unwrap().contains("[bbbbbbb]"));
}

#[test]
fn a_refusal_names_every_reason_by_layer() {
    let refusal = |layer, name: &str, reason: &str, stacks: &[&str]| Refusal {
        layer,
        name: name.to_owned(),
        reason: reason.to_owned(),
        stacks: stacks.iter().map(|stack| key(stack)).collect(),
        help: Topic::TooFewApprovals.url(),
    };
    let refusals = [
        refusal(2, "approvals", "0 of 1 approvals", &[]),
        refusal(1, "authorization", "`octocat` is in no allowed team", &["stacks/prod/vpc"]),
    ];
    assert_snapshot!(refusal::comment("stackorder apply stacks/prod/vpc", &refusals), @"
    **Refused: `stackorder apply stacks/prod/vpc`.** Nothing has started.

    - **Layer 1, authorization** (`stacks/prod/vpc`): `octocat` is in no allowed team [why and what to do](https://github.com/stackorder/stackorder/blob/main/docs/troubleshooting.md#refused-too-few-approvals)
    - **Layer 2, approvals**: 0 of 1 approvals [why and what to do](https://github.com/stackorder/stackorder/blob/main/docs/troubleshooting.md#refused-too-few-approvals)

    These are Stackorder's own checks. Environment reviewers and the role's trust policy gate the job besides.
    Repair the points above and comment `stackorder apply stacks/prod/vpc` again; `stackorder help` lists the commands.
    ");

    let many = vec![refusal(3, "plan", "failed", &[]); 53];
    let text = refusal::comment("stackorder apply", &many);
    assert_eq!(text.matches("- **Layer 3, plan**: failed [why and what to do](").count(), 50);
    assert!(text.contains("\n… and 3 more\n"), "{text}");
}

#[test]
fn the_drift_issue_does_not_change_with_the_time_of_the_check() {
    let seen = DriftSeen {
        stack_id: StackId::of(1, "vpc"),
        repo_id: 1,
        key: key("vpc"),
        run_id: id(1),
        checked_at: 1,
        drifted: true,
        summary: Some(counts(0, 2)),
    };
    let later = DriftSeen { checked_at: 2, run_id: id(2), ..seen.clone() };
    let body = drift::issue_body("acme/infra", &key("vpc"), &seen, "https://so.test");
    assert_eq!(body, drift::issue_body("acme/infra", &key("vpc"), &later, "https://so.test"));
    assert_snapshot!(body, @"
    `vpc` in acme/infra has drifted: 0 to add, 0 to change, 2 to destroy, 0 to replace.

    The [stack page](https://so.test/stacks/0623241e-3f6f-88e9-8966-b3fb518caf76) says when it was checked and shows the whole plan.

    Destroy 2:

    - `terraform_data.old[0]`
    - `terraform_data.old[1]`

    What is deployed differs from the default branch. Either change the code to match and merge it, or apply the code again: open a pull request that touches the stack, review its plan, and apply it. This issue closes itself when a check finds no drift.
    ");
}
