//! What people ask for in comments, and what stands in their way.

use super::github::Answer;
use super::*;
use crate::github::api::{Permission, PullRequest, Reaction};
use crate::orchestrator::workers::LEASE_MS;

impl World {
    /// A pull request of its own that has planned these changed stacks.
    async fn planned_in(&self, number: i64, stacks: &str, changed: &[&str]) {
        let paths: Vec<String> = changed.iter().map(|stack| format!("{stack}/main.tf")).collect();
        self.planned_as(number, upload(stacks, &paths.iter().map(String::as_str).collect::<Vec<_>>())).await;
    }

    pub(super) async fn planned_as(&self, number: i64, upload: GraphUploadRequest) {
        self.clock.advance(1000);
        let pull = PullRequest { number, ..self.github.script().pull.clone() };
        let request = CreateRunRequest {
            repo: "acme/infra".to_owned(),
            sha: pull.head_sha.to_string(),
            pr_number: number,
            ..CreateRunRequest::default()
        };
        if number != 1 {
            self.github.script().more_pulls.insert(number, pull);
        }
        let job = self.plan_job_of(number).await;
        let run = self.app.create_run(&job, &request).await.unwrap().run_id;
        let resolution = self.app.upload_graph(&job, &run, upload).await.unwrap();
        for stack in &resolution.affected {
            let planned = result(Mode::Plan, "+1", &format!("{}-{number}", stack.key));
            self.uploads(&planned);
            self.app.report_result(&job, &run, &key(&stack.key), &planned).await.unwrap();
        }
    }

    fn eyes(&self) -> usize {
        self.github.script().reactions.iter().filter(|(_, reaction)| *reaction == Reaction::Eyes).count()
    }

    async fn audited(&self, action: &str) -> Vec<Value> {
        let audit = self.app.store.audit(100, None).await.unwrap();
        let of_action = audit.into_iter().filter(|(_, entry)| entry.action == action);
        of_action.map(|(_, entry)| json!(entry.details)).collect()
    }
}

#[tokio::test]
async fn case_030_a_named_stack_is_planned_and_an_unknown_one_is_a_warning() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.clock.advance(1000);

    world.comment(5, "ada", "stackorder plan eks none").await;

    let run = world.runs().await.into_iter().find(|run| run.trigger == Trigger::Comment).expect("it is planned");
    let rows = world.app.store.rows(&run.id).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(), ["eks"]);
    assert_eq!(run.warnings, ["none is no stack of this head"]);
    assert_eq!(world.github.script().told.iter().filter(|told| *told == "dispatch plan").count(), 1);
}

#[tokio::test]
async fn case_038_somebody_who_may_only_read_is_not_even_answered() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.github.script().permissions.insert("eve".to_owned(), Permission::Read);

    world.comment(5, "eve", "stackorder apply").await;

    assert!(world.github.script().reactions.is_empty() && world.notes().is_empty());
    assert_eq!(world.audited("command_ignored").await[0]["reason"], "no write permission");
}

#[tokio::test]
async fn case_055_of_two_pull_requests_that_ask_at_once_one_wins_and_the_other_locks_nothing() {
    for first in [1, 2] {
        let world = World::new().await;
        world.planned_in(1, "vpc, svpc, other", &["vpc", "svpc"]).await;
        world.planned_in(2, "vpc, svpc, other", &["vpc", "other"]).await;
        let repo = world.repo().await;
        let ask = |number: i64| world.app.commented(&repo, number, number, "ada", "stackorder apply");

        let (one, two) = tokio::join!(biased; ask(first), ask(3 - first));
        one.unwrap();
        two.unwrap();

        let own = ["svpc #1, vpc #1", "other #2, vpc #2"];
        assert_eq!(world.locks().await, own[usize::try_from(first - 1).unwrap()]);
        let applies: Vec<i64> =
            world.runs().await.iter().filter(|run| run.mode == Mode::Apply).map(|run| run.pr_number).collect();
        assert_eq!(applies, [first]);
        let refused = world.audited("command").await.into_iter().find(|details| details["accepted"] == false).unwrap();
        assert_eq!(refused["pr"], 3 - first);
        assert_eq!(refused["reason"], format!("layer 5, locks: #{first} took the lock first"));
    }
}

#[tokio::test]
async fn case_082_a_new_instance_applies_under_the_default_branchs_rules_else_under_its_own_name() {
    for (rule, environment) in [(None, "blue"), (Some(("kyc/", "restricted")), "restricted")] {
        let world = World::new().await;
        if let Some((path, name)) = rule {
            world.policy(|policy| drop(policy.environments.insert(path.to_owned(), name.to_owned()))).await;
        }
        let mut upload = upload("kyc:blue", &["kyc/main.tf"]);
        upload.graph.stacks[0].path = "kyc".to_owned();
        upload.graph.stacks[0].instance = "blue".to_owned();
        let mut own = RepoConfig::default();
        own.environments.insert("kyc/".to_owned(), "free".to_owned());
        upload.config = Some(own);
        world.planned_as(1, upload).await;

        world.comment(5, "ada", "stackorder apply").await;

        let rows = world.app.store.rows(&world.apply().await.id).await.unwrap();
        assert_eq!(rows[0].environment, environment);
        assert_eq!(world.dispatches().await[0].environment, environment);
    }
}

#[tokio::test]
async fn case_106_a_bots_command_is_ignored() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    let mut by_type = commented(5, "helper", "stackorder apply");
    by_type["comment"]["user"]["type"] = json!("Bot");
    let mut by_sender = commented(6, "ada", "stackorder apply");
    by_sender["sender"] = json!({ "login": "other[bot]" });

    world.deliver("a", "issue_comment", by_type).await;
    world.deliver("b", "issue_comment", by_sender).await;
    world.comment(7, "dependabot[bot]", "stackorder apply").await;

    assert!(world.github.script().reactions.is_empty() && world.notes().is_empty());
    assert!(world.runs().await.iter().all(|run| run.mode == Mode::Plan));
    assert!(world.audited("command_received").await.is_empty());
}

#[tokio::test]
async fn case_107_ten_commands_a_minute_are_answered_the_eleventh_gets_a_notice_and_then_there_is_silence() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.settle().await;
    for id in 1..=12 {
        world.clock.advance(1000);
        world.comment(id, "ada", "stackorder help").await;
    }

    let notes = world.notes();
    assert_eq!((notes.len(), world.eyes()), (11, 10));
    assert!(notes[..10].iter().all(|note| note.starts_with("**Stackorder** understands")));
    assert!(notes[10].starts_with("**Too many commands.**"), "{}", notes[10]);
    let limited = world.audited("command_rate_limited").await;
    assert_eq!(limited.len(), 2);
    assert!(limited.iter().all(|details| details["accepted"] == false && details["reason"] == "rate limited"));

    world.clock.advance(MINUTE_MS);
    world.comment(13, "ada", "stackorder help").await;
    assert_eq!((world.notes().len(), world.eyes()), (12, 11));
}

#[tokio::test]
async fn case_108_109_what_is_quoted_is_no_command_and_a_dot_is_not_everything() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    for (id, body) in [(5, "```\nstackorder apply\n```"), (6, "> stackorder apply\n\nDid you mean that?")] {
        world.comment(id, "ada", body).await;
    }
    assert!(world.github.script().reactions.is_empty() && world.notes().is_empty());

    world.comment(7, "ada", "stackorder apply .").await;
    let notes = world.notes();
    assert!(notes[0].starts_with("**Refused: `stackorder apply .`.** Nothing has started."), "{}", notes[0]);
    assert!(notes[0].contains("**Layer 3, plans for the head commit**") && notes[0].contains("`.`"), "{}", notes[0]);
    assert!(world.runs().await.iter().all(|run| run.mode == Mode::Plan));
}

#[tokio::test]
async fn case_145_mergeability_is_asked_for_five_times() {
    use std::time::Duration;
    for (reads, mergeable) in [(5, None), (4, Some(true))] {
        let world = World::new().await;
        world.github.script().reads_until_mergeable = reads;
        let pull = world.app.settled_pull(&world.repo().await, 1, Duration::ZERO).await.unwrap();
        assert_eq!((pull.mergeable, world.github.script().reads_until_mergeable), (mergeable, 0), "{reads}");
    }
}

#[tokio::test]
async fn case_149_a_dispatch_whose_answer_names_its_workflow_run_is_bound_at_once() {
    for (answer, bound) in [(Answer::TakenBy(900), Some(900)), (Answer::Taken, None)] {
        let world = World::new().await;
        world.github.script().answer_to_dispatch = answer;
        world.plan(sha('a')).await;
        world.comment(5, "ada", "stackorder plan").await;

        let dispatch = world.dispatches().await.remove(0);
        assert_eq!((dispatch.sent_at.is_some(), dispatch.workflow_run_id), (true, bound));
        world.app.workflow_run_changed(&world.repo().await, &served(&dispatch)).await.unwrap();
        assert_eq!(world.dispatches().await[0].workflow_run_id, Some(900), "an event says the same, or names it");
    }
}

#[tokio::test]
async fn case_152_a_command_whose_process_died_after_its_eyes_is_decided_once_after_the_restart() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    let mut payload = commented(5, "ada", "stackorder apply vpc");
    payload["repository"] = json!({ "id": REPO, "full_name": "acme/infra" });
    let delivery = payload.to_string();
    world.app.store.store_delivery("d", "issue_comment", &delivery, world.app.now()).await.unwrap();
    world.app.store.claim_delivery("dead", world.app.now(), LEASE_MS).await.unwrap().unwrap();
    let repo = world.repo().await;
    // It waits for GitHub after it asked for the eyes, and is never heard of again.
    let deciding = world.app.commented(&repo, 1, 5, "ada", "stackorder apply vpc");
    tokio::select! {
        biased;
        _ = deciding => panic!("it was decided without a word to GitHub"),
        () = std::future::ready(()) => {}
    }
    world.settle().await;
    assert_eq!((world.eyes(), world.runs().await.len()), (1, 1), "eyes, and no outcome");

    world.clock.advance(LEASE_MS);
    world.settle().await;
    assert_eq!((world.runs().await.len(), world.locks().await.as_str()), (2, "vpc #1"));
    let rockets = |world: &World| {
        world.github.script().reactions.iter().filter(|(_, reaction)| *reaction == Reaction::Rocket).count()
    };
    assert_eq!((rockets(&world), world.audited("command").await.len()), (1, 1));

    world.deliver("again", "issue_comment", payload).await;
    assert_eq!((world.runs().await.len(), rockets(&world), world.audited("command").await.len()), (2, 1, 1));
}
