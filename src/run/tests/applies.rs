//! Applies, waves, claims and reports (spec 30 §6, §8).

use super::story::{Story, key, sha};
use crate::ids::RunId;
use crate::run::binding::{DispatchedJob, bind_job};
use crate::run::close;
use crate::run::progress::{self, Titled};
use crate::run::report::Refused;
use crate::run::status::{Mode, RowStatus, RunStatus, SkipReason};
use crate::run::supersede;

/// The title of wave 0 of an apply.
fn wave_0(run: &RunId) -> Titled<'_> {
    Titled { mode: Mode::Apply, run, wave: 0, environment: None }
}

fn all_new() -> Story {
    Story::planned("vpc +1, eks +1, apps +1, svpc +1")
}

#[test]
fn case_058_two_environments_of_a_wave_are_two_dispatches_and_the_next_wave_waits_for_both() {
    let mut story = all_new();
    story.apply("");
    assert_eq!(story.dispatched(), ["apply 0 production: vpc", "apply 0 staging: svpc"]);

    story.jobs("vpc =");
    assert_eq!(story.run().current_wave, 0);

    story.jobs("svpc =");
    assert_eq!(story.run().current_wave, 1);
}

#[test]
fn case_059_seven_stacks_of_one_environment_three_at_a_time_are_three_dispatches() {
    let mut story = Story::of("a, b, c, d, e, f, g");
    story.policy(|policy| policy.apply.max_parallel = 3);
    story.resolved('a', "a, b, c, d, e, f, g");
    story.plans("a +1, b +1, c +1, d +1, e +1, f +1, g +1");

    story.apply("");

    let expected = ["apply 0 production: a b c", "apply 0 production: d e f", "apply 0 production: g"];
    assert_eq!(story.dispatched(), expected);
}

#[test]
fn case_060_a_propagated_stack_with_an_empty_plan_whose_upstream_changed_nothing_is_a_noop() {
    let mut story = Story::of("vpc <- eks <= apps, svpc");
    story.resolved('a', "vpc, eks dependent, apps reads_state");
    story.plans("vpc =, eks =, apps =");

    story.apply("");
    assert_eq!(story.applied(), "applying: apps planned, eks planned, vpc planned");
    assert_eq!(story.locks(), "apps #1, eks #1, vpc #1");
    story.jobs("vpc =");

    assert_eq!(story.applied(), "applied: apps noop, eks noop, vpc applied");
    assert!(story.row("eks").dispatch_id.is_none());
}

#[test]
fn case_061_a_propagated_stack_whose_plan_only_changes_outputs_is_applied() {
    let mut story = Story::of("vpc <- eks");
    story.resolved('a', "eks dependent");
    story.plans("eks o1");

    story.apply("");

    assert_eq!(story.dispatched(), ["apply 0 production: eks"]);
}

#[test]
fn case_062_a_wave_of_only_noops_is_stepped_over() {
    let mut story = Story::of("vpc <- eks <= apps");
    story.resolved('a', "vpc, eks dependent, apps");
    story.plans("vpc =, eks =, apps +1");

    story.apply("");
    story.jobs("vpc =");

    assert_eq!(story.run().current_wave, 2);
    assert_eq!(story.applied(), "applying: apps planned, eks noop, vpc applied");
}

#[test]
fn case_063_a_subset_locks_and_dispatches_only_what_was_named() {
    let mut story = all_new();

    story.apply("eks");

    assert_eq!(story.applied(), "applying: apps skipped, eks planned, svpc skipped, vpc skipped");
    assert_eq!(story.row("apps").skip_reason, Some(SkipReason::NotSelected));
    assert_eq!((story.locks().as_str(), story.row("eks").wave, story.run().waves), ("eks #1", 0, 1));
}

#[test]
fn case_064_an_order_through_an_unselected_stack_holds() {
    let mut story = all_new();

    story.apply("vpc apps");

    assert_eq!((story.row("vpc").wave, story.row("apps").wave), (0, 1));
    assert_eq!(story.dispatched(), ["apply 0 production: vpc"]);
}

#[test]
fn case_065_a_failure_blocks_its_dependents_and_the_rest_of_the_wave_finishes() {
    let mut story = Story::of("eks <= apps, other <- unrelated");
    story.resolved('a', "eks, apps, other, unrelated");
    story.plans("eks +1, apps +1, other +1, unrelated +1");
    story.apply("");

    story.jobs("eks !");
    assert_eq!(story.applied(), "applying: apps blocked, eks failed, other planned, unrelated planned");
    assert_eq!(story.row("apps").blocked_by, ["eks"]);

    story.jobs("other +1");
    assert_eq!(story.applied(), "failed: apps blocked, eks failed, other applied, unrelated planned");
    assert!(story.row("unrelated").dispatch_id.is_none());
}

#[test]
fn case_066_two_failures_upstream_of_one_stack_are_both_named() {
    let mut story = Story::of("b <- top, a <- top");
    story.resolved('a', "a, b, top");
    story.plans("a +1, b +1, top +1");
    story.apply("");

    story.jobs("b !, a !");

    assert_eq!(story.row("top").blocked_by, ["a", "b"]);
}

#[test]
fn case_068_a_second_apply_takes_locks_over_and_carries_over_what_was_applied() {
    let mut story = Story::of("vpc <- eks, svpc");
    story.resolved('a', "vpc, eks, svpc");
    story.plans("vpc =, eks +1, svpc +1");
    let first = story.apply("");
    story.jobs("vpc =, svpc +1, eks !");
    let taken_at = story.scene.locks["vpc"].taken_at;
    story.plan_again('a', "eks");
    story.plans("eks +1");

    let second = story.apply("");

    assert_eq!(story.applied(), "applying: eks planned, svpc applied, vpc applied");
    assert_eq!(story.row("svpc").note, format!("by apply run {first}"));
    assert!(story.row("svpc").dispatch_id.is_none());
    assert!(story.scene.locks.values().all(|lock| lock.run_id == second));
    assert_eq!(story.scene.locks["vpc"].taken_at, taken_at);
}

#[test]
fn a_plan_without_a_bundle_is_carried_over_as_well() {
    let mut story = Story::of("vpc, svpc");
    let plan = story.resolved('a', "vpc, svpc");
    story.plans("vpc +1, svpc +1");
    for row in story.scene.rows_mut(&plan) {
        row.bundle_sha256.clear();
    }
    story.apply("vpc");
    story.jobs("vpc +1");

    story.apply("");

    assert_eq!(story.applied(), "applying: svpc planned, vpc applied");
}

#[test]
fn case_072_a_job_under_another_environment_is_refused() {
    let mut story = all_new();
    let id = story.apply("");
    let mut job = story.job(&id, "vpc", 1);
    job.environment = "default".to_owned();

    let bound = story.step(|next| bind_job(next, &id, &job, Some(&key("vpc"))));

    assert!(matches!(bound, Err(Refused::Forbidden(_))));
}

#[test]
fn case_073_a_job_that_reports_a_stack_of_another_environment_is_refused() {
    let mut story = all_new();
    let id = story.apply("");
    story.claim("vpc").unwrap();
    let job = story.job(&id, "vpc", 1);

    let bound = story.step(|next| bind_job(next, &id, &job, Some(&key("svpc"))));

    assert!(matches!(bound, Err(Refused::Forbidden(_))));
}

#[test]
fn case_074_jobs_of_a_duplicated_dispatch_are_refused() {
    let mut story = all_new();
    let id = story.apply("");
    story.claim("vpc").unwrap();
    let mut duplicate = story.job(&id, "vpc", 1);
    duplicate.workflow_run_id += 500;

    let bound = story.step(|next| bind_job(next, &id, &duplicate, Some(&key("vpc"))));

    assert!(matches!(bound, Err(Refused::Forbidden(_))));
    story.reports("vpc", "+1").unwrap();
}

#[test]
fn case_075_a_title_that_fits_several_dispatches_binds_by_jobs_or_not_at_all() {
    let mut story = all_new();
    let id = story.apply("");

    story.step(|next| {
        let titled = progress::titled(next, wave_0(&id));
        assert_eq!(titled.len(), 2);
        assert_eq!(progress::choose_by_jobs(next, &titled, &[]), None);
        let chosen = progress::choose_by_jobs(next, &titled, &["apply wave 0 svpc".to_owned()]).unwrap();
        assert_eq!(next.scene.dispatches[&chosen].environment, "staging");

        let waiting = Titled { environment: Some("Production"), ..wave_0(&id) };
        assert!(progress::is_only_titled(next, waiting));
        let chosen = progress::titled(next, waiting).remove(0);
        assert_eq!(next.scene.dispatches[&chosen].environment, "production");
    });
}

#[test]
fn a_duplicate_of_a_bound_dispatch_is_not_taken_for_the_one_that_is_left() {
    let mut story = Story::of("a, b");
    story.policy(|policy| policy.apply.max_parallel = 1);
    story.resolved('a', "a, b");
    story.plans("a +1, b +1");
    let id = story.apply("");
    story.claim("a").unwrap();

    let duplicate = DispatchedJob { workflow_run_id: 5_000, ..story.job(&id, "a", 1) };
    let bound = story.step(|next| {
        assert_eq!(progress::titled(next, wave_0(&id)).len(), 1, "that of b is left");
        assert!(!progress::is_only_titled(next, wave_0(&id)));
        bind_job(next, &id, &duplicate, None)
    });
    assert_eq!(bound, Ok(None));

    story.claim("b").unwrap();
    story.reports("b", "+1").unwrap();
    story.reports("a", "+1").unwrap();
    assert_eq!(story.applied(), "applied: a applied, b applied");
}

#[test]
fn a_title_names_mode_run_and_wave_and_nothing_else() {
    let id = "00000000-0000-4000-8000-000000000001";
    let parsed = progress::parse_title(&format!("stackorder apply {id} wave 3")).unwrap();
    assert_eq!((parsed.0, parsed.1.as_str(), parsed.2), (Mode::Apply, id, 3));

    for title in [
        format!("stackorder apply {id} wave 3 more"),
        format!("stackorder destroy {id} wave 3"),
        format!("stackorder apply {id} wave x"),
        "stackorder apply vpc wave 3".to_owned(),
        String::new(),
    ] {
        assert_eq!(progress::parse_title(&title), None, "{title:?}");
    }
}

#[test]
fn case_076_a_workflow_run_that_ended_green_without_a_result_is_unknown() {
    let mut story = all_new();
    let id = story.apply("vpc svpc");
    story.claim("vpc").unwrap();

    story.dispatch_ends(&id, "vpc");
    story.dispatch_ends(&id, "svpc");

    assert_eq!(story.applied(), "failed: apps skipped, eks skipped, svpc unknown, vpc unknown");
    assert_eq!((story.row("vpc").note.as_str(), story.row("svpc").note.as_str()), ("", "nothing was applied"));
    let changed: Vec<&str> = story.scene.changed_at.keys().map(|key| key.as_str()).collect();
    assert_eq!(changed, ["vpc"], "only what was claimed may have changed");
}

#[test]
fn case_077_the_run_goes_on_until_the_other_environment_has_ended() {
    let mut story = all_new();
    let id = story.apply("vpc svpc");

    story.dispatch_ends(&id, "vpc");
    assert_eq!(story.run().status, RunStatus::Applying);

    story.jobs("svpc +1");
    assert_eq!(story.run().status, RunStatus::Failed);
}

#[test]
fn case_078_079_the_next_wave_is_dispatched_once() {
    let mut story = Story::of("vpc <- eks");
    story.resolved('a', "vpc, eks");
    story.plans("vpc =, eks +1");
    let id = story.apply("");
    story.jobs("vpc =");
    let dispatch = story.dispatch_of(&id, "eks");

    story.reports("vpc", "=").unwrap();
    story.step(|next| crate::run::waves::open(next, &id));

    assert_eq!(story.dispatch_of(&id, "eks"), dispatch);
    assert_eq!(story.scene.dispatches_of(&id).count(), 2);
}

#[test]
fn case_080_a_push_while_a_stack_is_claimed_lets_the_apply_finish() {
    let mut story = all_new();
    let id = story.apply("vpc svpc");
    story.claim("vpc").unwrap();

    story.resolved('b', "vpc, eks, apps, svpc");
    assert_eq!(story.scene.runs[&id].status, RunStatus::Applying);
    story.reports("vpc", "+1").unwrap();
    story.jobs("svpc +1");

    assert_eq!(story.applied(), "applied: apps skipped, eks skipped, svpc applied, vpc applied");
}

#[test]
fn case_081_jobs_of_a_workflow_run_whose_dispatch_is_closed_are_refused() {
    let mut story = all_new();
    let id = story.apply("vpc svpc");
    story.jobs("vpc +1");
    let mut again = story.job(&id, "vpc", 2);
    story.dispatch_ends(&id, "vpc");
    again.attempt = 2;

    let bound = story.step(|next| bind_job(next, &id, &again, Some(&key("vpc"))));

    assert!(matches!(bound, Err(Refused::Forbidden(reason)) if reason.ends_with("which has ended")));
}

#[test]
fn case_116_a_late_report_is_kept_as_evidence_and_moves_nothing() {
    let mut story = all_new();
    let id = story.apply("vpc");
    story.claim("vpc").unwrap();
    story.dispatch_ends(&id, "vpc");
    let changed_at = story.scene.changed_at["vpc"];

    let late = story.reports("vpc", "+1");
    assert!(matches!(late, Err(Refused::Conflict(_))));
    assert_eq!(story.audited(), [format!("late_result run:{id}")]);
    assert!(story.row("vpc").late_evidence.is_some());
    assert!(story.scene.changed_at["vpc"] > changed_at);

    story.reports("vpc", "+1").unwrap_err();
    assert!(story.changes.is_empty(), "the same evidence twice is one");
    assert_eq!(story.row("vpc").status, RowStatus::Unknown);
}

#[test]
fn what_comes_after_a_dispatch_was_closed_unblocks_nobody() {
    let mut story = Story::of("vpc <- eks, svpc");
    story.resolved('a', "vpc, eks, svpc");
    story.plans("vpc +1, eks +1, svpc +1");
    let id = story.apply("");
    story.claim("vpc").unwrap();
    story.dispatch_ends(&id, "vpc");

    story.reports("vpc", "+1").unwrap_err();

    assert_eq!(story.applied(), "applying: eks blocked, svpc planned, vpc unknown");
    assert!(story.row("vpc").late_evidence.is_some());
}

#[test]
fn case_120_an_apply_of_nothing_but_noops_ends_at_once_and_keeps_its_locks() {
    let mut story = Story::of("vpc <- eks <= apps");
    story.resolved('a', "eks dependent, apps reads_state");
    story.plans("eks =, apps =");

    story.apply("");

    assert_eq!(story.applied(), "applied: apps noop, eks noop");
    assert_eq!((story.locks().as_str(), story.scene.dispatches.len()), ("apps #1, eks #1", 0));
}

#[test]
fn case_139_a_plan_whose_runner_died_is_used_until_it_is_planned_again() {
    let mut story = all_new();
    let id = story.apply("vpc");
    story.claim("vpc").unwrap();
    story.dispatch_ends(&id, "vpc");
    assert_eq!(story.view('a').rows["vpc"].used_by_run.as_ref(), Some(&id));

    // As if nobody knew that it may have changed something: it would be planned again first.
    story.scene.changed_at_mut().clear();
    story.apply("vpc");
    let claimed = story.claim("vpc");
    assert_eq!(claimed, Err(Refused::Conflict(format!("the plan of vpc was used by apply run {id}"))));

    let run = story.run().id.clone();
    story.dispatch_ends(&run, "vpc");
    story.plan_again('a', "vpc");
    story.plans("vpc +1");
    story.apply("vpc");
    story.jobs("vpc +1");
    assert_eq!(story.row("vpc").status, RowStatus::Applied);
}

#[test]
fn case_140_a_claim_is_repeated_by_its_job_and_refused_to_any_other() {
    let mut story = all_new();
    let id = story.apply("vpc");
    story.claim("vpc").unwrap();

    assert_eq!(story.claim("vpc"), Ok(()));
    assert!(story.audited().is_empty(), "a repeated claim is no second one");
    let second_attempt = story.claim_of(&id, "vpc", 2);
    assert!(matches!(second_attempt, Err(Refused::Conflict(reason)) if reason.contains("attempt 1")));
}

#[test]
fn an_attempt_that_the_dispatch_is_not_bound_to_claims_nothing() {
    let mut story = Story::of("a, b");
    story.resolved('a', "a, b");
    story.plans("a +1, b +1");
    let id = story.apply("");
    story.claim("a").unwrap();

    let claimed = story.claim_of(&id, "b", 2);

    assert!(matches!(claimed, Err(Refused::Conflict(_))));
    assert_eq!(story.row("b").status, RowStatus::Planned);
}

#[test]
fn case_094_141_an_unlock_before_the_claim_refuses_it_and_after_it_changes_nothing() {
    let mut story = all_new();
    story.apply("vpc svpc");
    story.claim("svpc").unwrap();

    for stack in ["vpc", "svpc"] {
        assert!(story.step(|next| close::unlock(next, &key(stack), "ada", "", false)).is_some());
    }

    assert!(matches!(story.claim("vpc"), Err(Refused::Locked(_))));
    story.reports("svpc", "+1").unwrap();
    assert_eq!(story.row("svpc").status, RowStatus::Applied);
}

#[test]
fn case_142_a_result_without_a_claim_is_a_conflict() {
    let mut story = all_new();
    story.apply("vpc");

    let reported = story.reports("vpc", "+1");

    assert_eq!(reported, Err(Refused::Conflict("vpc is not claimed by this job".to_owned())));
    assert_eq!(story.row("vpc").status, RowStatus::Planned);
}

#[test]
fn not_even_a_repeat_is_answered_to_a_job_that_did_not_claim() {
    let mut story = all_new();
    let id = story.apply("vpc");
    story.jobs("vpc +1");
    let other = crate::run::report::Reporter::DispatchedJob { workflow_run_id: 1, attempt: 1, check_run_id: 1 };
    let result = super::story::result(Mode::Apply, "+1", "");

    let reported = story.step(|next| crate::run::report::on_result(next, &id, &key("vpc"), &other, &result));

    assert!(matches!(reported, Err(Refused::Conflict(_))));
}

#[test]
fn case_133_a_push_before_anything_was_claimed_supersedes_the_apply() {
    let mut story = all_new();
    let id = story.apply("vpc");

    story.registered('b');
    assert_eq!(story.scene.runs[&id].status, RunStatus::Superseded);
    assert_eq!(story.locks(), "vpc #1");
    assert!(story.comments()[0].starts_with("**The apply of aaaaaaa gave way to bbbbbbb.**"));

    assert!(matches!(story.claim_of(&id, "vpc", 1), Err(Refused::Superseded(_))));
}

#[test]
fn case_158_an_apply_dispatch_that_ended_before_a_job_is_unknown_and_never_claimed() {
    let mut story = all_new();
    let id = story.apply("vpc");

    story.dispatch_ends(&id, "vpc");

    assert_eq!((story.row("vpc").status, story.row("vpc").note.as_str()), (RowStatus::Unknown, "nothing was applied"));
    assert!(story.view('a').rows["vpc"].used_by_run.is_none());
}

#[test]
fn a_rejected_dispatch_fails_only_its_own_stacks() {
    let mut story = all_new();
    let id = story.apply("vpc svpc");
    let dispatch = story.dispatch_of(&id, "vpc");

    story.step(|next| progress::reject_dispatch(next, &dispatch, 404, "no such file"));
    assert_eq!(story.applied(), "applying: apps skipped, eks skipped, svpc planned, vpc failed");

    story.jobs("svpc +1");
    assert_eq!(story.run().status, RunStatus::Failed);
}

#[test]
fn a_dispatch_that_github_took_once_is_not_rejected_by_its_second_try() {
    let mut story = all_new();
    let id = story.apply("vpc");
    story.claim("vpc").unwrap();
    let dispatch = story.dispatch_of(&id, "vpc");

    story.step(|next| progress::reject_dispatch(next, &dispatch, 422, "no"));

    assert!(story.changes.is_empty());
    story.reports("vpc", "+1").unwrap();
    assert_eq!(story.row("vpc").status, RowStatus::Applied);
}

#[test]
fn a_dispatch_is_given_up_only_as_it_was_seen() {
    let mut story = all_new();
    let id = story.apply("vpc");
    let seen = story.scene.dispatches[&story.dispatch_of(&id, "vpc")].clone();
    story.claim("vpc").unwrap();

    story.step(|next| progress::give_up(next, &seen, "timed_out", "workflow run not found"));
    assert_eq!(story.applied(), "applying: apps skipped, eks skipped, svpc skipped, vpc applying");

    let seen = story.scene.dispatches[&seen.id].clone();
    story.step(|next| progress::give_up(next, &seen, "not_found", "the workflow run of a dispatch is gone"));
    assert_eq!(story.row("vpc").status, RowStatus::Unknown);
    assert_eq!(story.run().warnings, ["the workflow run of a dispatch is gone"]);
}

#[test]
fn starting_an_apply_compares_the_plans_it_rests_on() {
    let mut story = Story::of("vpc, svpc");
    let first = story.resolved('a', "vpc, svpc");
    story.plans("vpc +1, svpc +1");
    let second = story.plan_again('a', "svpc");
    story.plans("svpc +1");

    story.apply("");

    let compared: Vec<&RunId> = story.changes.runs.iter().map(|(run, _)| &run.id).collect();
    assert_eq!(compared, [&first, &second]);
}

#[test]
fn case_159_thirty_stacks_of_one_wave_are_two_dispatches_and_twenty_are_one() {
    for (stacks, max_parallel, expected) in [(30, None, &[20, 10][..]), (20, None, &[20]), (30, Some(30), &[30])] {
        let keys: Vec<String> = (0..stacks).map(|number| format!("p{number:02}")).collect();
        let mut story = Story::of(&keys.join(", "));
        if let Some(max) = max_parallel {
            story.policy(|policy| policy.apply.max_parallel = max);
        }
        story.resolved('a', &keys.join(", "));
        let outcomes: Vec<String> = keys.iter().map(|key| format!("{key} +1")).collect();
        story.plans(&outcomes.join(", "));

        story.apply("");

        let sizes: Vec<usize> = story.dispatched().iter().map(|line| line.matches(" p").count() - 1).collect();
        assert_eq!(sizes, expected, "{stacks} at {max_parallel:?}");
    }
}

#[test]
fn a_late_job_event_does_not_move_a_finished_row() {
    let mut story = all_new();
    let id = story.apply("vpc");
    story.jobs("vpc +1");
    let dispatch = story.dispatch_of(&id, "vpc");

    story.step(|next| progress::on_job(next, &id, Some(&dispatch), "apply wave 0 vpc", "in_progress", "https://x"));

    assert_eq!(story.row("vpc").status, RowStatus::Applied);
}

#[test]
fn a_claimed_row_learns_where_its_own_job_is_and_not_where_another_is() {
    let mut story = all_new();
    let id = story.apply("vpc");
    story.claim("vpc").unwrap();
    let dispatch = story.dispatch_of(&id, "vpc");
    let claimed_by = story.row("vpc").claim.as_ref().unwrap().workflow_run_id;
    for (workflow_run, known) in [(claimed_by, true), (claimed_by + 1, false)] {
        let job = format!("https://github.test/acme/infra/actions/runs/{workflow_run}/job/1");
        story.step(|next| progress::on_job(next, &id, Some(&dispatch), "apply wave 0 vpc", "in_progress", &job));
        assert_eq!(story.row("vpc").job_url == job, known, "{job}");
    }
}

#[test]
fn a_job_that_waits_for_its_environment_applies_and_is_no_claim() {
    let mut story = all_new();
    let id = story.apply("vpc");
    let dispatch = story.dispatch_of(&id, "vpc");

    story.step(|next| progress::on_job(next, &id, Some(&dispatch), "apply wave 0 vpc", "waiting", "https://x"));

    assert_eq!((story.row("vpc").status, story.row("vpc").waiting_for_approval), (RowStatus::Applying, true));
    story.step(|next| supersede::head_moved(next, &sha('b')));
    assert_eq!(story.run().status, RunStatus::Superseded);
}
