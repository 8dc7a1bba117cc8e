//! Registering, planning, reporting, and the plan view (spec 30 §3.5, §4, §9).

use super::story::{PLAN_WORKFLOW, Story, key, result, sha};
use crate::api::{CheckVerdict, StackResult};
use crate::ids::StackKey;
use crate::run::progress;
use crate::run::report::{self, Refused, Reporter};
use crate::run::scene::JobKind;
use crate::run::status::{Mode, RowStatus, RunStatus, VerdictStatus};
use crate::run::supersede;

const OWN_JOB: Reporter = Reporter::PullRequestJob { number: 1, workflow_run_id: PLAN_WORKFLOW, attempt: 1 };

fn verdict(status: VerdictStatus) -> CheckVerdict {
    CheckVerdict { status, summary: String::new(), details: String::new(), details_url: String::new() }
}

#[test]
fn case_001_a_change_that_affects_nothing_is_planned_at_once() {
    let mut story = Story::of("vpc <- eks");

    let id = story.resolved('a', "");

    assert_eq!(story.scene.runs[&id].status, RunStatus::Planned);
    assert_eq!(story.view('a').status(), Some(RunStatus::Planned));
}

#[test]
fn case_011_a_cycle_fails_the_run_and_the_view() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let id = story.registered('a');
    let mut resolution = story.resolution("vpc");
    resolution.cycles = vec![vec!["vpc".to_owned(), "eks".to_owned(), "vpc".to_owned()]];

    story.step(|next| crate::run::plan_start::record_resolution(next, &id, &resolution, sha('a')));

    assert_eq!(story.scene.runs[&id].status, RunStatus::Failed);
    assert_eq!(story.view('a').status(), Some(RunStatus::Failed), "an earlier green plan does not hide it");
}

#[test]
fn case_019_jobs_that_register_the_same_head_share_one_run() {
    let mut story = Story::of("vpc");
    let first = story.registered('a');

    let ids: Vec<_> = (0..3).map(|_| story.run_id()).collect();
    let again: Vec<_> = ids.into_iter().map(|id| story.registered_by('a', id, 1)).collect();

    assert!(again.iter().all(|(id, existing)| *id == first && *existing));
    assert_eq!(story.scene.runs.len(), 1);
}

#[test]
fn a_job_that_asks_again_after_its_run_failed_gets_the_same_run() {
    let mut story = Story::of("vpc");
    let first = story.resolved('a', "vpc");
    story.plans("vpc !");

    let id = story.run_id();
    let same_attempt = story.registered_by('a', id.clone(), 1);
    let next_attempt = story.registered_by('a', id.clone(), 2);

    assert_eq!(same_attempt, (first, true));
    assert_eq!(next_attempt, (id, false));
}

#[test]
fn case_023_one_failed_stack_of_four_fails_the_run() {
    let story = Story::planned("vpc +1, eks +1, apps !, svpc +1");

    assert_eq!(story.view_rows('a'), "apps failed, eks planned, svpc planned, vpc planned");
    assert_eq!(story.view('a').status(), Some(RunStatus::Failed));
}

#[test]
fn case_024_the_same_result_twice_changes_nothing() {
    let mut story = Story::of("vpc <- eks");
    let id = story.resolved('a', "vpc, eks");
    story.plan_result(&id, "vpc", "+1").unwrap();

    story.plan_result(&id, "vpc", "+1").unwrap();

    assert!(story.changes.rows.is_empty() && story.changes.runs.is_empty());
}

#[test]
fn case_025_a_different_result_for_a_finished_stack_is_a_conflict() {
    let mut story = Story::of("vpc <- eks");
    let id = story.resolved('a', "vpc, eks");
    story.plan_result(&id, "vpc", "+1").unwrap();

    let again = story.plan_result(&id, "vpc", "+2");

    assert_eq!(again, Err(Refused::Conflict("vpc is already planned".to_owned())));
}

#[test]
fn case_026_a_late_verdict_on_a_planned_run_is_not_stored() {
    let mut story = Story::of("vpc");
    let id = story.resolved('a', "vpc");
    let wanted = verdict(VerdictStatus::Pass);
    let post = |story: &mut Story, status| {
        let verdict = verdict(status);
        story.step(|next| {
            report::on_verdict(next, &id, &key("vpc"), &OWN_JOB, "cost", &verdict).map(|stored| stored.status)
        })
    };
    assert_eq!(post(&mut story, wanted.status), Ok(VerdictStatus::Pass));
    story.plans("vpc +1");

    let late = post(&mut story, VerdictStatus::Fail);
    let repeated = post(&mut story, VerdictStatus::Pass);

    assert!(matches!(late, Err(Refused::Conflict(_))));
    assert_eq!(repeated, Ok(VerdictStatus::Pass));
    assert!(story.scene.verdicts.values().all(|stored| stored.status == VerdictStatus::Pass));
}

#[test]
fn case_027_a_failed_plan_job_run_again_alone_is_a_conflict() {
    let mut story = Story::planned("vpc +1, eks !, apps +1, svpc +1");
    let id = story.newest(|_| true).id.clone();

    let again = story.plan_result(&id, "eks", "+1");

    assert_eq!(again, Err(Refused::Conflict("the plan run is failed and takes no more results".to_owned())));
    assert_eq!(story.scene.runs[&id].status, RunStatus::Failed);
}

#[test]
fn case_028_a_targeted_plan_replaces_its_row_and_keeps_the_reasons() {
    let mut story = Story::of("vpc <- eks");
    story.resolved('a', "vpc, eks dependent");
    story.plans("vpc +1, eks !");

    let id = story.plan_again('a', "eks");
    assert_eq!(story.view('a').status(), Some(RunStatus::Planning));
    story.plans("eks +1");

    let view = story.view('a');
    assert_eq!(view.status(), Some(RunStatus::Planned));
    assert_eq!(view.rows["eks"].run_id, id);
    assert!(view.rows["eks"].is_propagated());
}

#[test]
fn case_029_a_rejected_plan_dispatch_is_explained_and_the_earlier_plan_counts() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let id = story.plan_again('a', "");
    let dispatch = story.dispatch_of(&id, "eks");

    story.step(|next| progress::reject_dispatch(next, &dispatch, 422, "no such workflow"));

    assert_eq!(story.scene.runs[&id].status, RunStatus::Failed);
    assert_eq!(
        story.comments(),
        [
            "**No plan was started:** GitHub answered 422 when asked to run .github/workflows/stackorder-run.yml on main \
          (no such workflow). Check that the file exists on `main` and declares the inputs `run_id`, `mode`, `wave`, `sha` \
          and `stacks`."
        ]
    );
    assert_eq!(story.view('a').status(), Some(RunStatus::Planned));
    assert_eq!(story.view_rows('a'), "apps planned, eks planned, svpc planned, vpc planned");
}

#[test]
fn case_031_a_verdict_named_plan_is_refused_and_plan_cost_is_not() {
    for (name, good) in [("Plan", false), ("resolve", false), ("", false), ("a b", false), ("plan-cost", true)] {
        assert_eq!(report::is_check_name(name), good, "{name:?}");
    }
    assert!(report::is_check_name(&"n".repeat(64)) && !report::is_check_name(&"n".repeat(65)));
}

#[test]
fn case_032_plan_text_of_a_summary_stack_is_dropped() {
    let mut story = Story::of("vpc <- eks");
    let id = story.resolved('a', "vpc, eks");
    story.scene.row_mut(&id, &key("vpc")).unwrap().plan_output = crate::config::model::PlanOutput::Summary;
    let mut with_text = result(Mode::Plan, "+1", "bundle");
    with_text.plan_text = Some("secret".to_owned());

    let reporter = OWN_JOB;
    for stack in ["vpc", "eks"] {
        story.step(|next| report::on_result(next, &id, &key(stack), &reporter, &with_text)).unwrap();
        let stored = story.changes.effects.plan_texts.len();
        assert_eq!(stored, usize::from(stack == "eks"), "{stack}");
    }
    assert!(!story.scene.row(&id, &key("vpc")).unwrap().has_plan_text);
}

#[test]
fn case_035_the_progress_of_a_job_that_is_no_stack_is_ignored() {
    let mut story = Story::of("vpc <- eks");
    let id = story.resolved('a', "vpc");

    story.step(|next| progress::on_job(next, &id, None, "plan eks", "in_progress", "https://x"));
    assert!(story.changes.is_empty());
    story.step(|next| progress::on_job(next, &id, None, "CI / plan vpc", "in_progress", "https://x"));

    let row = story.scene.row(&id, &key("vpc")).unwrap();
    assert_eq!((row.status, row.job_url.as_str()), (RowStatus::Planning, "https://x"));
}

#[test]
fn the_address_of_the_job_outlives_a_report_that_knows_only_its_workflow_run() {
    let mut story = Story::of("vpc");
    let id = story.resolved('a', "vpc");
    let run = "https://github.test/acme/infra/actions/runs/100";
    let job = format!("{run}/job/7");
    story.step(|next| progress::on_job(next, &id, None, "plan vpc", "in_progress", &job));

    let report = |text: &str, url: &str| StackResult { job_url: url.to_owned(), ..result(Mode::Plan, text, "b") };
    story.step(|next| report::on_result(next, &id, &key("vpc"), &OWN_JOB, &report("+1", run))).unwrap();
    assert_eq!(story.scene.rows[&id]["vpc"].job_url, job);

    let other = format!("{run}1");
    let mut second = Story::of("vpc");
    let id = second.resolved('a', "vpc");
    second.step(|next| progress::on_job(next, &id, None, "plan vpc", "in_progress", &job));
    second.step(|next| report::on_result(next, &id, &key("vpc"), &OWN_JOB, &report("+1", &other))).unwrap();
    assert_eq!(second.scene.rows[&id]["vpc"].job_url, other, "a job of another workflow run is not closer");
}

#[test]
fn a_jobs_name_ends_in_its_stack_and_may_be_cut_short() {
    let keys: Vec<StackKey> = ["stacks/prod/vpc", "stacks/prod/eks", "kyc:blue"].map(key).to_vec();
    for (name, stack) in [
        ("plan stacks/prod/vpc", Some("stacks/prod/vpc")),
        ("run / apply wave 2 stacks/prod/eks", Some("stacks/prod/eks")),
        ("apply (stacks/prod/eks, production, 1)", Some("stacks/prod/eks")),
        ("plan stacks/prod/v...", Some("stacks/prod/vpc")),
        ("plan stacks/prod/…", None),
        ("resolve", None),
        ("", None),
    ] {
        assert_eq!(progress::stack_of_job(name, &keys), stack.map(key), "{name:?}");
    }
}

#[test]
fn case_150_a_plan_workflow_that_ended_in_silence_leaves_unknown_rows() {
    let mut story = Story::of("vpc <- eks");
    let id = story.resolved('a', "vpc, eks");
    story.plans("vpc +1");

    story.step(|next| progress::plan_workflow_ended(next, &id, PLAN_WORKFLOW, 1));
    assert_eq!(story.view_rows('a'), "eks unknown, vpc planned");
    assert_eq!(story.scene.runs[&id].status, RunStatus::Failed);

    story.plan_again('a', "eks");
    story.plans("eks +1");
    assert_eq!(story.view('a').status(), Some(RunStatus::Planned));
}

#[test]
fn the_end_of_an_attempt_says_nothing_about_a_later_one_and_all_about_earlier_ones() {
    let mut story = Story::of("vpc");
    let id = story.resolved('a', "vpc");
    story.registered_by('a', id.clone(), 2);

    story.step(|next| progress::plan_workflow_ended(next, &id, PLAN_WORKFLOW, 1));
    story.step(|next| progress::plan_workflow_ended(next, &id, PLAN_WORKFLOW + 1, 2));
    assert_eq!(story.scene.runs[&id].status, RunStatus::Planning, "the second attempt plans");

    // "Re-run failed jobs" makes an attempt that does not register.
    story.step(|next| progress::plan_workflow_ended(next, &id, PLAN_WORKFLOW, 3));
    assert_eq!(story.view_rows('a'), "vpc unknown");
}

#[test]
fn a_plan_workflow_that_ended_before_its_upload_fails_the_run() {
    let mut story = Story::of("vpc");
    let id = story.registered('a');

    story.step(|next| progress::plan_workflow_ended(next, &id, PLAN_WORKFLOW, 1));

    assert_eq!(story.scene.runs[&id].status, RunStatus::Failed);
    assert_eq!(story.view('a').status(), Some(RunStatus::Failed));
}

#[test]
fn case_154_a_new_base_supersedes_the_plans_of_the_same_head() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let id = story.newest(|_| true).id.clone();

    story.step(|next| supersede::base_changed(next, &sha('a')));

    assert_eq!(story.scene.runs[&id].status, RunStatus::Superseded);
    assert!(story.view('a').is_empty());
    let late = story.plan_result(&id, "vpc", "+1");
    assert!(matches!(late, Err(Refused::Superseded(_))));
}

#[test]
fn case_157_an_unconfirmed_row_makes_the_run_unconfirmed() {
    let story = Story::planned("vpc +1, eks ?, apps +1, svpc +1");

    assert_eq!(story.view('a').status(), Some(RunStatus::Unconfirmed));
    assert_eq!(story.newest(|_| true).status, RunStatus::Unconfirmed);
}

#[test]
fn case_158_a_plan_dispatch_cancelled_before_a_job_started_is_sent_again() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let id = story.plan_again('a', "eks");
    let first = story.dispatch_of(&id, "eks");

    story.step(|next| progress::dispatch_again(next, &first));
    assert_eq!(story.jobs_asked(JobKind::SendDispatch).len(), 1);
    assert_ne!(story.dispatch_of(&id, "eks"), first);

    story.dispatch_ends(&id, "eks");
    assert_eq!(story.view_rows('a'), "apps planned, eks unknown, svpc planned, vpc planned");
}

#[test]
fn a_plan_dispatch_cancelled_twice_is_not_sent_a_third_time() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let id = story.plan_again('a', "eks");
    for _ in 0..2 {
        let dispatch = story.dispatch_of(&id, "eks");
        story.step(|next| progress::dispatch_again(next, &dispatch));
    }
    assert!(story.jobs_asked(JobKind::SendDispatch).is_empty());
    assert_eq!(story.view_rows('a'), "apps planned, eks unknown, svpc planned, vpc planned");
}

#[test]
fn a_cancelled_dispatch_of_a_superseded_plan_revives_nothing() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let id = story.plan_again('a', "eks");
    let dispatch = story.dispatch_of(&id, "eks");
    story.step(|next| supersede::head_moved(next, &sha('b')));

    story.step(|next| progress::dispatch_again(next, &dispatch));

    assert_eq!(story.scene.runs[&id].status, RunStatus::Superseded);
    assert!(story.jobs_asked(JobKind::SendDispatch).is_empty());
}

#[test]
fn a_repaired_plan_job_turns_a_dispatched_run_green() {
    let mut story = Story::planned("vpc +1, eks !, apps +1, svpc +1");
    let id = story.plan_again('a', "eks");
    story.plan_result(&id, "eks", "!").unwrap();
    assert_eq!(story.scene.runs[&id].status, RunStatus::Failed);

    story.plan_result(&id, "eks", "+1").unwrap();

    assert_eq!(story.scene.runs[&id].status, RunStatus::Planned);
}

#[test]
fn a_stack_that_a_repeated_upload_drops_is_waited_for_by_nobody() {
    let mut story = Story::of("vpc <- eks");
    let id = story.resolved('a', "vpc, eks");
    story.plan_result(&id, "vpc", "+1").unwrap();

    story.uploaded(&id, "vpc");
    assert_eq!(story.scene.runs[&id].status, RunStatus::Planned);
    assert_eq!(story.view_rows('a'), "vpc planned");
}

#[test]
fn a_stack_that_a_third_upload_takes_up_again_is_planned_anew() {
    let mut story = Story::of("vpc <- eks, svpc");
    let id = story.resolved('a', "vpc, eks");
    story.uploaded(&id, "vpc");

    story.uploaded(&id, "vpc, eks");

    assert_eq!(story.view_rows('a'), "eks pending, vpc pending");
}

#[test]
fn a_new_head_supersedes_the_plans_of_the_old_one() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let old = story.newest(|_| true).id.clone();

    story.registered('b');

    let run = &story.scene.runs[&old];
    assert_eq!((run.status, run.superseded_by.as_str()), (RunStatus::Superseded, sha('b').as_str()));
}
