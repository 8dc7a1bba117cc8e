//! What stands on GitHub, and what becomes of it when people or GitHub interfere.

use super::*;
use crate::clock::SECOND_MS;
use crate::github::api::{Check, Conclusion};
use crate::store::QueueFilter;

impl World {
    /// Whether the pull request has the comment with this first line.
    fn has_comment(&self, marker: &str) -> bool {
        self.github.script().comments.iter().any(|(_, comment)| comment.body.starts_with(marker))
    }
}

#[tokio::test]
async fn case_036_failure_19_bl_136_a_fork_that_is_told_of_twice_gets_one_neutral_check_and_nothing_else() {
    let world = World::new().await;
    world.github.script().pull.from_fork = true;

    world.pull_request("first", "opened").await;
    world.pull_request("second", "opened").await;
    world.pull_request("third", "synchronize").await;

    assert!(world.runs().await.is_empty());
    let script = world.github.script();
    let checks: Vec<_> = script.checks.values().map(|check| (check.name.as_str(), check.status)).collect();
    assert_eq!(checks, [("stackorder/plan", CheckStatus::Completed(Conclusion::Neutral))]);
    assert!(script.comments.is_empty());
}

#[tokio::test]
async fn case_110_what_somebody_deleted_comes_back_except_the_comment_of_a_run() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.comment(5, "ada", "stackorder apply vpc").await;
    let sticky = "<!-- stackorder:sticky -->";
    let of_run = format!("<!-- stackorder:run:{} -->", world.apply().await.id);
    assert!(world.has_comment(sticky) && world.has_comment(&of_run));
    assert!(world.check('a', "stackorder/apply").is_some());

    {
        let mut script = world.github.script();
        script.comments.retain(|(_, comment)| !comment.body.starts_with("<!-- stackorder:"));
        script.checks.retain(|_, check| check.name != "stackorder/apply");
    }
    world.jobs("vpc +1").await;

    assert!(world.has_comment(sticky));
    assert_eq!(world.check('a', "stackorder/apply").unwrap(), "action_required | 1 of 2 stacks still to be applied");
    assert!(!world.has_comment(&of_run));
}

#[tokio::test]
async fn case_111_while_github_fails_the_state_moves_on_and_the_next_rendering_repairs_it() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.comment(5, "ada", "stackorder apply vpc").await;
    let before = world.check('a', "stackorder/apply").unwrap();
    assert!(before.ends_with("Applying wave 0 of 1: 0 of 1 stack done"), "{before}");

    world.github.script().is_down = true;
    world.jobs("vpc +1").await;
    assert_eq!(world.applied().await, "applied: eks skipped, vpc applied");
    assert_eq!(world.check('a', "stackorder/apply").unwrap(), before);

    world.github.script().is_down = false;
    world.clock.advance(MINUTE_MS);
    world.settle().await;
    assert_eq!(world.check('a', "stackorder/apply").unwrap(), "action_required | 1 of 2 stacks still to be applied");
    assert_eq!(
        world.check('a', "stackorder/apply: vpc").unwrap(),
        "success | 1 added, 0 changed, 0 destroyed, 0 replaced"
    );
}

#[tokio::test]
async fn a_check_whose_writer_died_before_it_could_note_it_is_found_and_written_again() {
    let world = World::new().await;
    let github = repo_ref(&world.repo().await);
    let check = |title: &str| Check {
        name: "stackorder/plan".to_owned(),
        head_sha: sha('a'),
        status: CheckStatus::Queued,
        title: title.to_owned(),
        summary: String::new(),
        text: String::new(),
        details_url: String::new(),
        external_id: String::new(),
    };
    let shown = || world.github.script().checks.values().map(|check| check.title.clone()).collect::<Vec<_>>();

    // Created, and nobody heard under which id.
    world.github.script().is_unheard = true;
    world.app.write_checks(&github, &[check("one")]).await.unwrap_err();
    world.github.script().is_unheard = false;
    assert_eq!(shown(), ["one"]);
    world.app.write_checks(&github, &[check("one")]).await.unwrap();
    assert_eq!(shown(), ["one"], "there is no second one");

    // What was noted last is not what stands there: the same as before the death is no reason to write nothing.
    world.github.script().is_unheard = true;
    world.app.write_checks(&github, &[check("two")]).await.unwrap_err();
    world.github.script().is_unheard = false;
    assert_eq!(shown(), ["two"]);
    world.app.write_checks(&github, &[check("one")]).await.unwrap();
    assert_eq!(shown(), ["one"]);
}

#[tokio::test]
async fn what_is_decided_is_written_after_a_moment() {
    let mut world = World::new().await;
    world.app.render_after_ms = 300;
    world.plan(sha('a')).await;
    assert!(world.github.script().checks.is_empty(), "what comes right behind it is waited for");

    world.clock.advance(300);
    world.settle().await;

    assert!(world.check('a', "stackorder/plan").is_some());
}

#[tokio::test]
async fn an_edit_that_comes_too_early_is_made_when_it_may_be_with_what_is_newest_then() {
    let world = World::new().await;
    world.github.script().edit_every = 5 * SECOND_MS;
    world.plan(sha('a')).await;
    world.comment(5, "ada", "stackorder apply vpc").await;
    let check = || world.check('a', "stackorder/apply").unwrap();
    let comments = || world.github.script().comments.clone();
    let (first, written) = (check(), comments());
    assert!(first.ends_with("Applying wave 0 of 1: 0 of 1 stack done"), "{first}");

    world.jobs("vpc +1").await;
    assert_eq!(check(), first);
    assert_eq!(comments()[..written.len()], written, "nothing is edited twice within five seconds");

    world.clock.advance(5 * SECOND_MS);
    world.settle().await;
    assert_eq!(check(), "action_required | 1 of 2 stacks still to be applied");
    assert_ne!(comments()[..written.len()], written);
    assert!(world.app.store.queue(QueueFilter::All, 10).await.unwrap().is_empty(), "nothing waits any more");
}

#[tokio::test]
async fn bl_127_checks_that_github_forbids_are_told_in_the_comment_and_stop_nothing() {
    let world = World::new().await;
    world.github.script().forbids_checks = true;
    world.plan(sha('a')).await;
    world.settle().await;
    let sticky = || {
        let comments = world.github.script().comments.clone();
        let found = comments.into_iter().find(|(_, comment)| comment.body.starts_with("<!-- stackorder:sticky -->"));
        found.map(|(_, comment)| comment.body).unwrap_or_default()
    };
    assert!(sticky().contains("its App lacks the permission *Checks: write*"), "{}", sticky());
    assert!(world.github.script().checks.is_empty());
    assert!(world.app.store.queue(QueueFilter::Dead, 10).await.unwrap().is_empty(), "nothing is given up for it");

    world.github.script().forbids_checks = false;
    world.comment(5, "ada", "stackorder apply vpc").await;
    assert!(!sticky().contains("lacks the permission"), "{}", sticky());
    assert!(world.check('a', "stackorder/plan").is_some());
}
