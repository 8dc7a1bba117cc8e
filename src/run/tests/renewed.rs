//! Plans behind an upstream are made again before their wave (spec 30 §6.2a).

use super::story::{Story, key, sha};
use crate::api::CheckVerdict;
use crate::run::progress;
use crate::run::report;
use crate::run::report::Refused;
use crate::run::status::{RowStatus, RunStatus, SkipReason, Trigger, VerdictStatus};
use crate::run::supersede;

/// `vpc` has been applied with changes; `apps`, which comes right after it, is being planned again.
fn behind(outcomes: &str) -> Story {
    let mut story = Story::of("vpc <= apps <- top, vpc <- other");
    story.resolved('a', "vpc, apps, top, other");
    story.plans(outcomes);
    story.apply("");
    story.jobs("vpc +1");
    story
}

/// The re-plan of the current wave reports.
fn renewed(story: &mut Story, outcomes: &str) {
    let id = story.replan().id.clone();
    for part in outcomes.split(',').map(str::trim) {
        let (stack, outcome) = part.split_once(' ').unwrap();
        story.plan_result(&id, stack, outcome).unwrap();
    }
}

const USUAL: &str = "vpc +1, apps +1, top +1, other +1";

#[test]
fn case_121_a_fresh_plan_with_the_same_addresses_is_applied() {
    let mut story = behind(USUAL);
    let replan = story.replan().clone();
    assert_eq!((replan.trigger, replan.for_wave, replan.sha), (Trigger::Upstream, 1, sha('a')));
    assert_eq!(story.row("apps").behind, ["vpc"]);
    assert_eq!(story.dispatched().iter().filter(|line| line.starts_with("plan 0 default")).count(), 1);

    renewed(&mut story, "apps +1, other +1");

    assert_eq!(story.row("apps").from_plan_run, Some(replan.id));
    assert!(story.dispatched().contains(&"apply 1 production: apps other".to_owned()));
    story.jobs("apps +1, other +1");
    renewed(&mut story, "top +1");
    story.jobs("top +1");
    assert_eq!(story.applied(), "applied: apps applied, other applied, top applied, vpc applied");
}

#[test]
fn case_122_a_fresh_plan_with_other_actions_waits_for_a_new_request() {
    let mut story = behind(USUAL);

    renewed(&mut story, "apps +2, other +1");
    assert_eq!(story.applied(), "applying: apps skipped, other planned, top skipped, vpc applied");
    assert_eq!(story.row("apps").note, "its plan changed after vpc was applied");
    assert_eq!(
        (story.row("top").skip_reason, story.row("top").note.as_str()),
        (Some(SkipReason::Waits), "waits for apps")
    );

    story.jobs("other +1");
    assert_eq!(story.applied(), "applied: apps skipped, other applied, top skipped, vpc applied");
    assert_eq!(story.locks(), "apps #1, other #1, top #1, vpc #1");
}

#[test]
fn case_123_the_next_request_applies_what_waited_from_its_fresh_plan() {
    let mut story = behind(USUAL);
    renewed(&mut story, "apps +2, other +1");
    story.jobs("other +1");

    story.apply("");
    assert_eq!(story.applied(), "applying: apps planned, other applied, top planned, vpc applied");
    story.jobs("apps +2");
    renewed(&mut story, "top +1");
    story.jobs("top +1");

    assert_eq!(story.applied(), "applied: apps applied, other applied, top applied, vpc applied");
}

#[test]
fn case_124_a_wave_with_one_row_behind_waits_as_a_whole() {
    let mut story = Story::of("vpc <= apps, svc <- web");
    story.resolved('a', "vpc, svc, apps, web");
    story.plans("vpc +1, svc =, apps +1, web +1");
    story.apply("");
    story.jobs("vpc +1, svc =");
    assert_eq!(story.dispatched().iter().filter(|line| line.starts_with("apply 1")).count(), 0);

    renewed(&mut story, "apps +1");

    assert!(story.dispatched().contains(&"apply 1 production: apps web".to_owned()));
}

#[test]
fn case_125_a_fresh_plan_that_fails_fails_its_row_and_the_others_are_dispatched() {
    let mut story = behind(USUAL);

    renewed(&mut story, "apps !, other +1");
    assert_eq!(story.applied(), "applying: apps failed, other planned, top blocked, vpc applied");
    assert_eq!(story.row("apps").error_text, "its plan after vpc failed");

    story.jobs("other +1");
    assert_eq!(story.run().status, RunStatus::Failed);
}

#[test]
fn case_126_a_re_plan_whose_job_vanished_is_unknown_and_nothing_was_applied() {
    let mut story = behind(USUAL);
    let replan = story.replan().id.clone();
    renewed(&mut story, "other +1");

    story.dispatch_ends(&replan, "apps");

    assert_eq!(
        (story.row("apps").status, story.row("apps").note.as_str()),
        (RowStatus::Unknown, "nothing was applied")
    );
    assert_eq!(story.row("top").blocked_by, ["apps"]);
    assert!(!story.scene.changed_at.contains_key("apps"));
}

#[test]
fn an_unconfirmed_fresh_plan_is_unconfirmed_and_nothing_was_applied() {
    let mut story = behind(USUAL);

    renewed(&mut story, "apps ?, other +1");

    assert_eq!(
        (story.row("apps").status, story.row("apps").note.as_str()),
        (RowStatus::Unconfirmed, "nothing was applied")
    );
    assert_eq!(story.row("top").status, RowStatus::Blocked);
}

#[test]
fn a_re_plan_whose_dispatch_was_rejected_fails_its_rows_with_githubs_reason() {
    let mut story = behind(USUAL);
    let replan = story.replan().id.clone();
    let dispatch = story.dispatch_of(&replan, "apps");

    story.step(|next| progress::reject_dispatch(next, &dispatch, 404, "no such file"));

    assert_eq!(story.applied(), "failed: apps failed, other failed, top blocked, vpc applied");
    assert!(story.row("apps").error_text.starts_with("GitHub answered 404"));
    assert_eq!(story.view_rows('a'), "apps planned, other planned, top planned, vpc planned");
}

#[test]
fn case_127_a_plan_that_failed_under_a_new_upstream_is_made_again_and_waits() {
    let mut story = Story::of("vpc <= apps");
    story.resolved('a', "vpc, apps");
    story.plans("vpc +1, apps !");
    story.apply("");
    assert_eq!(story.row("apps").behind, ["vpc"]);

    story.jobs("vpc +1");
    renewed(&mut story, "apps +1");
    assert_eq!(story.applied(), "applied: apps skipped, vpc applied");

    story.apply("");
    story.jobs("apps +1");
    assert_eq!(story.applied(), "applied: apps applied, vpc applied");
}

#[test]
fn case_129_a_failing_verdict_on_the_fresh_plan_leaves_the_row_out() {
    let mut story = behind(USUAL);
    let replan = story.replan().id.clone();
    let reporter = report::Reporter::DispatchedJob { workflow_run_id: 1, attempt: 1, check_run_id: 1 };
    let verdict = CheckVerdict {
        status: VerdictStatus::Fail,
        summary: String::new(),
        details: String::new(),
        details_url: String::new(),
    };
    story
        .step(|next| report::on_verdict(next, &replan, &key("apps"), &reporter, "policy", &verdict).map(drop))
        .unwrap();

    renewed(&mut story, "apps +1, other +1");

    assert_eq!(
        (story.row("apps").status, story.row("apps").note.as_str()),
        (RowStatus::Skipped, "verdict fail from policy")
    );
    assert_eq!(story.row("apps").skip_reason, Some(SkipReason::Verdict));
}

#[test]
fn a_required_verdict_that_is_missing_leaves_the_row_out() {
    let mut story = Story::of("vpc <= apps");
    story.policy(|policy| policy.apply.required_checks = vec!["policy".to_owned()]);
    story.resolved('a', "vpc, apps");
    story.plans("vpc +1, apps +1");
    story.apply("");
    story.jobs("vpc +1");

    renewed(&mut story, "apps +1");

    assert_eq!(story.row("apps").note, "no verdict from policy");
}

#[test]
fn case_060_an_upstream_that_changed_turns_a_propagated_noop_into_a_fresh_plan() {
    let mut story = Story::of("vpc <= apps, vpc <- other");
    story.resolved('a', "vpc, apps reads_state, other dependent");
    story.plans("vpc o1, apps =, other =");
    story.apply("");
    story.jobs("vpc o1");

    renewed(&mut story, "apps ~1, other =");

    assert_eq!(story.applied(), "applied: apps skipped, other noop, vpc applied");
}

#[test]
fn case_130_the_last_results_make_one_re_plan_and_one_dispatch() {
    let mut story = behind(USUAL);
    let apply = story.run().id.clone();
    story.reports("vpc", "+1").unwrap();
    assert_eq!(story.scene.runs.values().filter(|run| run.for_run.as_ref() == Some(&apply)).count(), 1);

    renewed(&mut story, "apps +1, other +1");
    let dispatch = story.dispatch_of(&apply, "apps");
    let replan = story.replan().id.clone();
    story.plan_result(&replan, "apps", "+1").unwrap();

    assert_eq!(story.dispatch_of(&apply, "apps"), dispatch);
    assert_eq!(story.scene.dispatches_of(&apply).count(), 2);
}

#[test]
fn case_131_a_stack_whose_upstream_a_former_request_applied_is_planned_again_in_wave_0() {
    let mut story = Story::of("vpc <= apps");
    story.resolved('a', "vpc, apps");
    story.plans("vpc +1, apps +1");
    story.apply("vpc");
    story.jobs("vpc +1");

    story.apply("apps");
    assert_eq!((story.replan().for_wave, story.run().status), (0, RunStatus::Applying));

    renewed(&mut story, "apps +1");
    story.jobs("apps +1");
    assert_eq!(story.applied(), "applied: apps applied, vpc skipped");
}

#[test]
fn case_132_another_pull_requests_apply_puts_this_one_behind() {
    let mut story = Story::of("vpc <= apps");
    story.resolved('a', "apps");
    story.plans("apps +1");
    story.scene.changed_at_mut().insert(key("vpc"), story.now + 1);

    story.apply("");

    assert_eq!(story.row("apps").behind, ["vpc"]);
    assert_eq!(story.replan().for_wave, 0);
}

#[test]
fn case_133_a_push_during_the_re_plan_of_an_unclaimed_apply_supersedes_both() {
    let mut story = Story::of("vpc <= apps");
    story.resolved('a', "apps");
    story.plans("apps +1");
    story.scene.changed_at_mut().insert(key("vpc"), story.now + 1);
    let apply = story.apply("");
    let replan = story.replan().id.clone();

    story.step(|next| supersede::head_moved(next, &sha('b')));

    for id in [&apply, &replan] {
        assert_eq!(story.scene.runs[id].status, RunStatus::Superseded);
        assert_eq!(story.scene.runs[id].superseded_by, sha('b').as_str());
    }
    assert_eq!(story.locks(), "apps #1");
}

#[test]
fn case_134_a_push_during_the_re_plan_of_a_claimed_apply_stops_neither() {
    let mut story = behind(USUAL);
    let replan = story.replan().id.clone();

    story.resolved('b', "vpc, apps");
    assert_eq!(story.scene.runs[&replan].status, RunStatus::Planning);
    renewed(&mut story, "apps +2, other +2");

    assert_eq!(story.run().status, RunStatus::Applied);
    let run = &story.scene.runs[&replan];
    assert_eq!((run.status, run.superseded_by.as_str()), (RunStatus::Superseded, sha('b').as_str()));
}

#[test]
fn case_135_a_merge_commit_that_differs_under_a_stack_plans_it_again_there() {
    let mut story = Story::of("vpc <= apps");
    story.resolved('a', "vpc, apps");
    story.plans("vpc +1, apps +1");

    story.apply_at(sha('f'), &[sha('f'), sha('a')], Trigger::PullRequest, "", &["vpc"]);
    assert_eq!((story.replan().sha.clone(), story.row("vpc").behind.clone()), (sha('f'), vec!["the merge".to_owned()]));
    renewed(&mut story, "vpc +2");

    assert_eq!(story.applied(), "applied: apps skipped, vpc skipped");
    assert_eq!(story.row("vpc").note, "its plan changed after the merge was applied");
    assert_eq!(story.locks(), "");
}

#[test]
fn what_was_planned_at_a_merge_commit_is_superseded_by_no_late_push_event() {
    let mut story = Story::of("vpc <= apps");
    story.resolved('a', "vpc, apps");
    story.plans("vpc +1, apps +1");
    story.apply_at(sha('f'), &[sha('f'), sha('a')], Trigger::PullRequest, "", &["vpc"]);
    let replan = story.replan().id.clone();
    renewed(&mut story, "vpc +2");

    story.step(|next| supersede::head_moved(next, &sha('a')));

    assert_eq!(story.scene.runs[&replan].status, RunStatus::Planned);
}

#[test]
fn case_138_an_upstream_that_failed_half_way_and_is_empty_now_still_puts_behind() {
    let mut story = Story::of("vpc <= apps");
    story.resolved('a', "vpc, apps");
    story.plans("vpc +1, apps +1");
    story.apply("");
    story.jobs("vpc !");
    story.plan_again('a', "vpc");
    story.plans("vpc =");

    story.apply("");
    story.jobs("vpc =");

    assert_eq!(story.row("apps").behind, ["vpc"]);
    assert_eq!(story.replan().for_wave, 1);
}

#[test]
fn case_143_a_carried_over_stack_whose_upstream_changes_again_is_planned_in_its_wave() {
    let mut story = Story::of("vpc <= apps");
    story.resolved('a', "vpc, apps");
    story.plans("vpc =, apps +1");
    story.apply("");
    story.jobs("vpc =, apps +1");
    story.plan_again('a', "vpc");
    story.plans("vpc +1");

    story.apply("");
    assert_eq!(story.applied(), "applying: apps planned, vpc planned");
    story.jobs("vpc +1");
    renewed(&mut story, "apps =");

    assert_eq!(story.applied(), "applied: apps applied, vpc applied");
    assert!(story.row("apps").claim.is_none() && story.row("apps").applied_by_run.is_some());
}

#[test]
fn a_stack_that_somebody_else_applied_meanwhile_is_planned_again_before_it_counts_as_applied() {
    let mut story = Story::of("vpc, svpc");
    story.resolved('a', "vpc, svpc");
    story.plans("vpc +1, svpc +1");
    story.apply("vpc");
    story.jobs("vpc +1");
    // Its lock was freed by hand, and another pull request went over it.
    let left_at = story.row("vpc").finished_at.unwrap();
    story.scene.changed_at_mut().insert(key("vpc"), left_at + 1);

    story.apply("");

    assert_eq!(story.applied(), "applying: svpc planned, vpc planned");
    renewed(&mut story, "vpc +1");
    assert!(story.dispatched().contains(&"apply 0 production: vpc".to_owned()), "{:?}", story.dispatched());
    story.jobs("svpc +1, vpc +1");
    assert_eq!(story.applied(), "applied: svpc applied, vpc applied");
    assert!(story.row("vpc").applied_by_run.is_none() && story.row("vpc").claim.is_some());
}

#[test]
fn a_stack_without_changes_that_somebody_else_applied_since_is_planned_again_before_it_counts_as_done() {
    let mut story = Story::of("vpc <= apps");
    story.resolved('a', "vpc, apps dependent");
    story.plans("vpc +1, apps =");
    // Its lock was freed by hand, and another pull request went over it.
    story.scene.changed_at_mut().insert(key("apps"), story.now + 1);

    story.apply("");
    story.jobs("vpc =");
    assert_eq!(story.row("apps").behind, ["apps"]);
    renewed(&mut story, "apps =");

    assert_eq!(story.applied(), "applied: apps noop, vpc applied");
}

#[test]
fn a_plan_that_the_stacks_last_apply_made_stale_is_made_again() {
    let mut story = Story::of("vpc");
    story.resolved('a', "vpc");
    story.plans("vpc +1");
    let planned = story.view('a').rows["vpc"].run_id.clone();
    story.scene.changed_at_mut().insert(key("vpc"), story.now + 1);

    story.apply("");
    renewed(&mut story, "vpc +1");

    assert_ne!(story.row("vpc").from_plan_run, Some(planned));
    story.jobs("vpc +1");
    assert_eq!(story.applied(), "applied: vpc applied");
}

#[test]
fn a_stale_plan_whose_fresh_one_does_something_else_waits_for_a_new_request() {
    let mut story = Story::of("vpc");
    story.resolved('a', "vpc");
    story.plans("vpc +1");
    story.scene.changed_at_mut().insert(key("vpc"), story.now + 1);

    story.apply("");
    renewed(&mut story, "vpc +2");

    assert_eq!(story.applied(), "applied: vpc skipped");
    assert_eq!(story.row("vpc").note, "its plan changed after vpc was applied");
}

#[test]
fn an_apply_past_the_gate_with_a_used_plan_claims_a_fresh_one() {
    let mut story = Story::of("vpc");
    story.resolved('a', "vpc");
    story.plans("vpc +1");
    let first = story.apply("vpc");
    story.claim("vpc").unwrap();
    story.dispatch_ends(&first, "vpc");

    story.apply("vpc");
    assert_eq!(story.row("vpc").behind, ["vpc"]);
    renewed(&mut story, "vpc +1");

    assert_eq!(story.claim("vpc"), Ok(()));
}

#[test]
fn a_plan_that_is_being_made_again_cannot_be_claimed() {
    let mut story = behind(USUAL);
    let id = story.run().id.clone();
    let job = crate::run::binding::DispatchedJob {
        git_ref: "refs/heads/main".to_owned(),
        workflow_run_id: 9_999,
        attempt: 1,
        environment: "production".to_owned(),
        check_run_id: 1,
    };

    let bound = story.step(|next| crate::run::binding::bind_job(next, &id, &job, Some(&key("apps"))));

    assert!(matches!(bound, Err(Refused::Forbidden(_))));
}
