//! Locks: kept, released, taken by hand (spec 30 §6.8, §7).

use super::story::{Story, key, result, sha};
use crate::ids::RunId;
use crate::run::apply_start;
use crate::run::close;
use crate::run::locks;
use crate::run::model::{Lock, Release, Row};
use crate::run::plan_start;
use crate::run::report::{self, Refused, Reporter};
use crate::run::status::{Mode, RowStatus, RunStatus, Trigger};
use crate::run::supersede;

fn all_new() -> Story {
    Story::planned("vpc +1, eks +1, apps +1, svpc +1")
}

/// A scene without a pull request, where these stacks are applied by hand.
fn by_hand(story: &mut Story, stacks: &str) -> Result<RunId, Vec<Lock>> {
    let id = story.run_id();
    let resolution = story.resolution(stacks);
    story.scene.pr_number = 0;
    story.step(|next| {
        let run = plan_start::blank_run(next, id.clone(), sha('a'), Mode::Apply, Trigger::Manual, "");
        let rows = resolution.affected.iter().map(|affected| {
            let row = plan_start::pending_row(&run, affected, next.now).unwrap();
            Row { status: RowStatus::Planned, wave: 0, ..row }
        });
        apply_start::start_manual(next, id.clone(), sha('a'), "ci", rows.collect())
    })
}

#[test]
fn case_067_locks_of_a_failed_comment_apply_stay_and_those_of_a_merge_apply_go() {
    let mut comment = all_new();
    comment.apply("vpc");
    comment.jobs("vpc !");
    assert_eq!(comment.locks(), "vpc #1");

    let mut merge = all_new();
    merge.apply_at(sha('f'), &[sha('f'), sha('a')], Trigger::PullRequest, "vpc", &[]);
    merge.jobs("vpc !");

    assert_eq!(merge.locks(), "");
    assert_eq!(merge.audited(), ["unlock acme/infra//vpc via run failed"]);
}

#[test]
fn case_086_a_merge_releases_once_and_says_so_once() {
    let mut story = all_new();
    story.apply("vpc");
    story.jobs("vpc +1");

    story.step(|next| close::merged(next, &sha('a'), true));
    assert_eq!((story.locks().as_str(), story.comments().len()), ("", 1));
    assert_eq!(story.scene.repo.default_graph, Some(sha('a')));

    story.step(|next| close::merged(next, &sha('a'), true));
    assert!(story.changes.is_empty());
}

#[test]
fn a_merge_told_again_keeps_the_graph_of_later_merges() {
    let mut story = all_new();
    story.apply("vpc");
    story.step(|next| close::merged(next, &sha('a'), true));
    story.scene.repo.default_graph = Some(sha('c'));

    story.step(close::merged_before);
    assert_eq!(story.scene.repo.default_graph, Some(sha('c')));
    story.jobs("vpc +1");
    assert_eq!(story.locks(), "");
}

#[test]
fn a_merge_during_an_apply_releases_when_the_apply_ends_and_lists_what_went() {
    let mut story = all_new();
    story.apply("vpc");
    story.claim("vpc").unwrap();

    story.step(|next| close::merged(next, &sha('a'), true));
    assert_eq!(story.locks(), "vpc #1");
    story.reports("vpc", "+1").unwrap();

    assert_eq!(story.locks(), "");
    assert!(story.comments()[0].starts_with("**Merged: 1 lock released.**"));
}

#[test]
fn a_superseded_apply_still_releases_what_a_merge_waited_for() {
    let mut story = all_new();
    let id = story.apply("vpc");
    story.step(|next| close::merged(next, &sha('a'), true));

    story.step(|next| supersede::apply(next, &id, sha('b').as_str()));

    assert_eq!(story.locks(), "");
}

#[test]
fn case_091_failure_13_a_close_keeps_what_was_claimed_and_names_it_once() {
    let mut story = all_new();
    story.apply("vpc eks");
    story.jobs("vpc !");
    assert_eq!(story.locks(), "eks #1, vpc #1");

    story.step(|next| close::closed(next, true));
    assert_eq!(story.locks(), "vpc #1");
    assert_eq!(story.audited(), ["unlock acme/infra//eks via closed", "lock_warning pr:acme/infra#1"]);
    assert!(story.comments()[0].starts_with("**Closed with 1 lock held.**"));

    story.step(|next| close::closed(next, false));
    assert!(story.changes.is_empty());
}

#[test]
fn a_close_during_an_apply_releases_and_announces_when_it_ends() {
    let mut story = all_new();
    story.apply("vpc svpc");
    story.claim("vpc").unwrap();

    story.step(|next| close::closed(next, true));
    assert_eq!((story.locks().as_str(), story.comments().len()), ("svpc #1, vpc #1", 0));
    let id = story.run().id.clone();
    story.dispatch_ends(&id, "svpc");
    story.reports("vpc", "+1").unwrap();

    assert_eq!(story.locks(), "vpc #1");
    assert!(story.comments().iter().any(|body| body.starts_with("**Closed with 1 lock held.**")));
}

#[test]
fn a_pull_request_that_is_open_again_when_its_apply_ends_keeps_its_locks() {
    let mut story = all_new();
    story.apply("vpc svpc");
    story.claim("vpc").unwrap();
    story.step(|next| close::closed(next, true));
    story.step(close::reopened);
    let id = story.run().id.clone();
    story.dispatch_ends(&id, "svpc");
    story.reports("vpc", "+1").unwrap();

    assert_eq!(story.locks(), "svpc #1, vpc #1");
    assert!(story.comments().iter().all(|body| !body.starts_with("**Closed")));
}

#[test]
fn what_a_pull_request_applied_and_still_locks_is_known_to_its_later_plans() {
    let mut story = all_new();
    story.apply("vpc svpc");
    assert_eq!(story.step(|next| locks::applied(next)), Vec::<String>::new(), "nothing is claimed");
    story.claim("vpc").unwrap();
    assert_eq!(story.step(|next| locks::applied(next)), ["vpc"]);
    story.step(|next| close::unlock(next, &key("vpc"), "ada", "", false));
    assert_eq!(story.step(|next| locks::applied(next)), Vec::<String>::new(), "the pull request let it go");
}

#[test]
fn a_close_ends_an_apply_of_which_nothing_was_claimed() {
    let mut story = all_new();
    story.apply("vpc");

    story.step(|next| close::closed(next, true));

    assert_eq!(story.run().status, RunStatus::Failed);
    assert_eq!(story.locks(), "");
    assert_eq!(
        story.comments(),
        ["**Apply of aaaaaaa abandoned before it began:** the pull request is no longer open."]
    );
    let jobs = story.jobs_asked(crate::run::scene::JobKind::Comment);
    assert_eq!(jobs.len(), 1, "an apply that never began has no outcome to tell");
}

#[test]
fn an_abandoned_apply_keeps_its_locks_when_an_earlier_one_changed_something() {
    let mut story = all_new();
    story.apply("vpc");
    story.jobs("vpc +1");
    let id = story.apply("svpc");

    story.step(|next| supersede::abandon(next, &id, "a newer apply run exists"));

    assert_eq!(story.locks(), "svpc #1, vpc #1");
}

#[test]
fn case_092_a_comment_unlocks_only_what_its_own_pull_request_holds() {
    let mut story = all_new();
    story.apply("vpc eks");
    let foreign = Lock {
        pr_number: 2,
        key: key("svpc"),
        stack_id: crate::ids::StackId::of(7, "svpc"),
        ..story.scene.locks["vpc"].clone()
    };
    let foreign = Lock { run_id: RunId::parse("99999999-0000-4000-8000-000000000000").unwrap(), ..foreign };
    story.scene.locks_mut().insert(key("svpc"), foreign);

    let none = story.step(|next| close::unlock_own(next, &[key("svpc")], "ada"));
    assert!(none.is_empty());
    let all = story.step(|next| close::unlock_own(next, &[], "ada"));
    assert_eq!(all.len(), 2);
    assert_eq!(story.locks(), "svpc #2");

    let by_api = story.step(|next| close::unlock(next, &key("svpc"), "ada", "", false)).unwrap();
    assert_eq!(
        story.changes.locks_released,
        [(by_api.stack_id, by_api.run_id)],
        "its holder is compared at the commit"
    );
}

#[test]
fn case_093_the_second_unlock_releases_nothing() {
    let mut story = all_new();
    story.apply("vpc");

    let first = story.step(|next| close::unlock(next, &key("vpc"), "ada", "stuck", true));
    let second = story.step(|next| close::unlock(next, &key("vpc"), "ada", "stuck", true));

    assert_eq!((first.is_some(), second), (true, None));
    assert!(story.changes.is_empty());
}

#[test]
fn case_095_a_second_manual_run_on_a_held_stack_leaves_no_run() {
    let mut story = Story::of("vpc");
    let first = by_hand(&mut story, "vpc").unwrap();

    let conflicts = by_hand(&mut story, "vpc").unwrap_err();

    assert_eq!(conflicts[0].holder(), "a manual run");
    assert_eq!(story.scene.runs.keys().collect::<Vec<_>>(), [&first]);
}

#[test]
fn case_096_the_last_result_of_a_manual_run_frees_its_lock() {
    let mut story = Story::of("vpc");
    let id = by_hand(&mut story, "vpc").unwrap();
    assert_eq!((story.run().status, story.locks().as_str()), (RunStatus::Applying, "vpc a manual run"));

    let reporter = Reporter::ApiKey { name: "ci".to_owned() };
    let applied = result(Mode::Apply, "+1", "");
    story.step(|next| report::on_result(next, &id, &key("vpc"), &reporter, &applied)).unwrap();

    assert_eq!(story.applied(), "applied: vpc applied");
    assert_eq!(story.audited(), ["unlock acme/infra//vpc via run applied"]);
    assert!(story.jobs_asked(crate::run::scene::JobKind::Comment).is_empty());
}

#[test]
fn case_115_an_api_key_reports_into_no_pull_requests_run() {
    let mut story = all_new();
    let id = story.newest(|_| true).id.clone();

    let reporter = Reporter::ApiKey { name: "ci".to_owned() };
    let planned = result(Mode::Plan, "+1", "");
    let reported = story.step(|next| report::on_result(next, &id, &key("vpc"), &reporter, &planned));

    assert!(matches!(reported, Err(Refused::Forbidden(_))));
}

#[test]
fn case_153_a_new_head_that_no_longer_affects_a_stack_frees_its_lock() {
    let mut story = all_new();
    story.apply("vpc svpc");

    story.resolved('b', "vpc");

    assert_eq!(story.locks(), "vpc #1");
    assert_eq!(story.audited(), ["unlock acme/infra//svpc via new_head"]);
}

#[test]
fn case_153_while_an_apply_that_claimed_runs_the_lock_goes_at_its_end() {
    let mut story = all_new();
    story.apply("vpc eks svpc");
    story.claim("vpc").unwrap();
    story.resolved('b', "vpc");
    assert_eq!(story.run().release_at_end, Some(Release::NewHead));
    assert_eq!(story.locks(), "eks #1, svpc #1, vpc #1");

    let id = story.run().id.clone();
    story.dispatch_ends(&id, "svpc");
    story.reports("vpc", "!").unwrap();

    assert_eq!(story.locks(), "vpc #1");
}

#[test]
fn stacks_of_a_manual_run_stand_side_by_side_and_block_nobody() {
    let mut story = Story::of("vpc <- eks");
    story.scene.repo.default_graph = Some(sha('a'));
    let id = by_hand(&mut story, "vpc, eks").unwrap();

    let reporter = Reporter::ApiKey { name: "ci".to_owned() };
    for (stack, outcome) in [("vpc", "!"), ("eks", "+1")] {
        let result = result(Mode::Apply, outcome, "");
        story.step(|next| report::on_result(next, &id, &key(stack), &reporter, &result)).unwrap();
    }

    assert_eq!(story.applied(), "failed: eks applied, vpc failed");
    assert_eq!((story.locks().as_str(), story.audited().len()), ("", 2));
}
