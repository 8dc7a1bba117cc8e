//! Layers 3 and 4: the plans of the head commit and the verdicts on them.

use super::*;
use crate::run::tests::story::PLAN_WORKFLOW;

const NO_PLAN: &str = "no usable plan with an artifact for head commit aaaaaaa";

#[test]
fn case_052_a_head_without_a_plan_is_refused() {
    let mut asked = Asked::usual();
    asked.commits = vec![sha('b')];

    assert_eq!(
        asked.bullets(),
        [
            "**Layer 3, plans for the head commit**: head commit bbbbbbb has no plan yet; push, or comment `stackorder plan`"
        ]
    );
}

#[test]
fn case_049_109_a_key_that_is_no_stack_of_the_view_is_named() {
    let mut asked = Asked::usual();
    asked.keys = "vpc none";
    assert_eq!(asked.bullets(), [format!("**Layer 3, plans for the head commit** (`none`): {NO_PLAN}")]);

    asked.keys = ".";
    assert_eq!(asked.bullets(), [format!("**Layer 3, plans for the head commit**: {NO_PLAN}: `.`")]);
}

#[test]
fn case_054_148_failure_10_an_artifact_that_was_never_uploaded_is_no_plan_and_an_expired_one_is() {
    let mut asked = Asked::usual();
    for artifact in asked.facts.artifacts.values_mut().flatten() {
        artifact.expired = true;
    }
    assert_eq!(asked.bullets(), NOBODY);

    asked.facts.artifacts.clear();
    asked.keys = "vpc";
    assert_eq!(asked.bullets(), [format!("**Layer 3, plans for the head commit** (`vpc`): {NO_PLAN}")]);

    asked.policy(|apply| apply.from_plan = false);
    assert_eq!(asked.bullets(), NOBODY);
}

#[test]
fn a_plan_that_still_works_is_waited_for() {
    let mut story = Story::of("vpc <- eks");
    story.resolved('a', "vpc, eks");
    story.plans("vpc +1");

    let asked = Asked::of(story);

    assert_eq!(asked.bullets(), ["**Layer 3, plans for the head commit** (`eks`): planning has not finished"]);
}

#[test]
fn case_023_053_128_a_plan_that_did_not_succeed_is_refused() {
    let bullet = "**Layer 3, plans for the head commit** (`apps`): planning did not succeed; repair it and plan again";
    for outcome in ["!", "?"] {
        let story = Story::planned(&format!("vpc ~1, eks ~1, apps {outcome}, svpc +1"));
        assert_eq!(Asked::of(story).bullets(), [bullet], "{outcome}");
    }
    let mut story = Story::planned("vpc +1, eks +1, apps !, svpc +1");
    story.scene.changed_at_mut().extend(["vpc", "eks"].map(|stack| (key(stack), 1)));
    assert_eq!(Asked::of(story).bullets(), [bullet], "its upstream was applied before");
}

#[test]
fn case_127_a_plan_that_failed_because_its_upstream_is_new_does_not_refuse() {
    let mut asked = Asked::of(Story::planned("vpc +1, eks +1, apps !, svpc +1"));
    asked.policy(|apply| apply.required_checks = vec!["policy".to_owned()]);
    for stack in ["vpc", "eks", "svpc"] {
        asked.verdict(stack, "policy", VerdictStatus::Pass, "");
    }
    assert_eq!(asked.bullets(), NOBODY);

    asked.keys = "apps";
    let refused = "**Layer 3, plans for the head commit** (`apps`): planning did not succeed; repair it and plan again";
    assert_eq!(asked.bullets(), [refused], "the upstream is not selected");
}

#[test]
fn a_newest_run_that_failed_as_a_whole_lets_no_earlier_plan_through() {
    let mut story = Story::of("vpc");
    story.resolved('a', "vpc");
    story.plans("vpc +1");
    let id = story.registered('a');
    story.step(|next| crate::run::progress::plan_workflow_ended(next, &id, PLAN_WORKFLOW, 2));

    assert_eq!(
        Asked::of(story).bullets(),
        ["**Layer 3, plans for the head commit** (`vpc`): planning did not succeed; repair it and plan again"]
    );
}

#[test]
fn case_139_a_plan_that_was_used_and_did_not_end_applied_is_refused() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    let id = story.apply("vpc svpc");
    story.jobs("vpc !, svpc !");
    let mut asked = Asked::of(story);
    let reason = format!("its plan was used by apply run {id}, which ended failed");
    let bullet = |way_out: &str| format!("**Layer 3, plans for the head commit** (`svpc`, `vpc`): {reason}; {way_out}");

    assert_eq!(asked.bullets(), [bullet("comment `stackorder plan svpc vpc`")]);
    asked.entry = Entry::AfterMerge;
    assert_eq!(asked.bullets(), [bullet("plan it again from the run page")]);
}

#[test]
fn a_plan_that_ended_applied_is_carried_over_without_an_artifact() {
    let mut story = Story::planned("vpc +1, eks +1, apps +1, svpc +1");
    story.apply("vpc");
    story.jobs("vpc +1");
    let mut asked = Asked::of(story);
    asked.facts.artifacts.clear();
    asked.keys = "vpc";

    assert_eq!(asked.bullets(), NOBODY);
}

#[test]
fn plans_without_a_graph_or_changed_after_review_are_refused() {
    let mut asked = Asked::usual();
    asked.plans_changed = true;
    for run in asked.story.scene.runs.values_mut() {
        run.graph_sha = None;
    }

    assert_eq!(
        asked.bullets(),
        [
            "**Layer 3, plans for the head commit**: the plans of this commit have no graph",
            "**Layer 3, plans for the head commit**: the plans changed after they were reviewed",
        ]
    );
}

#[test]
fn a_head_whose_stacks_form_a_cycle_is_refused_although_no_stack_is_left_to_select() {
    let mut story = Story::of("vpc <- eks");
    let id = story.registered('a');
    let mut resolution = story.resolution("vpc, eks");
    resolution.cycles = vec![vec!["vpc".to_owned(), "eks".to_owned(), "vpc".to_owned()]];
    story.step(|next| crate::run::plan_start::record_resolution(next, &id, &resolution, sha('a')));

    let refused = "**Layer 3, plans for the head commit**: planning did not succeed; repair it and plan again";
    assert_eq!(Asked::of(story).bullets(), [refused]);
}

// -- layer 4 --------------------------------------------------------------------------------------

#[test]
fn case_050_a_failing_verdict_refuses_its_stack_and_a_warning_does_not() {
    let mut asked = Asked::usual();
    asked.verdict("vpc", "cost", VerdictStatus::Fail, "too *dear*");
    asked.verdict("eks", "cost", VerdictStatus::Warn, "dear");
    asked.verdict("apps", "cost", VerdictStatus::Fail, "");
    assert_eq!(
        asked.bullets(),
        [
            "**Layer 4, policy checks** (`apps`): verdict fail from `cost`",
            "**Layer 4, policy checks** (`vpc`): verdict fail from `cost`: too \\*dear\\*",
        ]
    );

    asked.keys = "eks svpc";
    assert_eq!(asked.bullets(), NOBODY);
}

#[test]
fn case_147_a_required_check_without_a_verdict_refuses() {
    let mut asked = Asked::usual();
    asked.policy(|apply| apply.required_checks = vec!["policy".to_owned()]);
    asked.keys = "vpc eks";
    asked.verdict("eks", "policy", VerdictStatus::Warn, "");

    assert_eq!(asked.bullets(), ["**Layer 4, policy checks** (`vpc`): no verdict from `policy`"]);
}

#[test]
fn a_verdict_on_an_earlier_plan_of_the_stack_does_not_count() {
    let mut asked = Asked::usual();
    asked.verdict("vpc", "cost", VerdictStatus::Fail, "");
    asked.story.plan_again('a', "vpc");
    asked.story.plans("vpc +1");

    assert_eq!(Asked::of(asked.story).bullets(), NOBODY);
}
