//! What broke for others around comments, locks, drift and races, as deliveries and calls that arrive here.

use serde_json::{Value, json};

use super::*;
use crate::clock::{HOUR_MS, MINUTE_MS};
use crate::gate::facts::Permission;
use crate::github::api::{CheckStatus, Conclusion, Issue, PullRequest};
use crate::graph::model::Graph;
use crate::ids::StackId;
use crate::orchestrator::workers::LEASE_MS;
use crate::run::model::{AuditEntry, DriftSeen, Lock};
use crate::run::progress;
use crate::run::scene::StoredGraph;
use crate::run::status::RowStatus;
use crate::run::transitions;
use crate::store::Retention;

const KEEP: Retention = Retention { plan_text_ms: HOUR_MS, events_ms: HOUR_MS, drift_ms: HOUR_MS };

impl World {
    /// Stores a delivery and works everything off that waits.
    pub(super) async fn takes_delivery(&self, event: &str, payload: &Value) {
        self.clock.advance(1000);
        let id = format!("delivery-{}", self.app.now());
        self.app.store.store_delivery(&id, event, &payload.to_string(), self.app.now()).await.unwrap();
        while work_one(&self.app, "worker", &KEEP).await.unwrap() {}
    }

    async fn hears(&self, id: i64, author: &str, body: &str) {
        self.takes_delivery("issue_comment", &comment_event("created", id, author, author, body)).await;
    }

    /// What the App has said on the pull request, besides the comments that it keeps up to date.
    fn has_said(&self) -> Vec<String> {
        let script = self.github.script();
        let own = script.comments.iter().filter(|(number, _)| *number == 1).map(|(_, comment)| comment.body.clone());
        own.filter(|body| body.contains("stackorder:note:") && !body.contains("note:outcome:")).collect()
    }

    async fn held(&self) -> String {
        let locks = self.app.store.locks(Some(REPO)).await.unwrap();
        locks.iter().map(|lock| format!("{} {}", lock.key, lock.holder())).collect::<Vec<_>>().join(", ")
    }

    /// Newest first, without what only tells that something moved.
    pub(super) async fn audit_trail(&self) -> Vec<AuditEntry> {
        let all = self.app.store.audit(500, None).await.unwrap();
        let entries = all.into_iter().map(|(_, entry)| entry);
        entries.filter(|entry| ![transitions::ACTION, "command_received"].contains(&entry.action.as_str())).collect()
    }

    /// `stackorder apply vpc`, whose only job vanished after it had claimed.
    async fn breaks_off(&self, head: Sha) -> RunId {
        let run = self.half_applied(head).await;
        let subject = self.app.subject_of(&run).await.unwrap().unwrap();
        let ended = self.app.decide(&subject, |next| {
            let dispatch = next.scene.row(&run, &key("vpc")).and_then(|row| row.dispatch_id.clone()).unwrap();
            progress::complete_dispatch(next, &dispatch, "failure");
        });
        ended.await.unwrap();
        run
    }

    /// Another pull request holds `vpc`, and this is where it stands.
    async fn has_lock_of(&self, number: i64, change: impl FnOnce(&mut PullRequest)) {
        let lock = Lock {
            stack_id: StackId::of(REPO, "vpc"),
            key: key("vpc"),
            repo_id: REPO,
            run_id: self.app.new_run_id(),
            pr_number: number,
            taken_at: self.app.now(),
            reason: String::new(),
        };
        let subject = Subject::Pull { repo_id: REPO, number };
        let holder = self.app.decide(&subject, |next| {
            let run = crate::run::plan_start::blank_run(
                next,
                lock.run_id.clone(),
                sha('c'),
                Mode::Apply,
                Trigger::Comment,
                "bob",
            );
            next.add_run(run, Vec::new());
            next.run_mut(&lock.run_id).status = RunStatus::Failed;
            next.scene.locks_mut().insert(lock.key.clone(), lock.clone());
        });
        holder.await.unwrap();
        let mut script = self.github.script();
        let mut pull = PullRequest { number, head_sha: sha('c'), ..script.pull.clone() };
        change(&mut pull);
        script.more_pulls.insert(number, pull);
    }
}

/// The parts of an `issue_comment` delivery that are looked at.
pub(super) fn comment_event(action: &str, id: i64, author: &str, sender: &str, body: &str) -> Value {
    let user = |login: &str| json!({ "login": login, "type": if login.ends_with("[bot]") { "Bot" } else { "User" } });
    json!({
        "action": action,
        "repository": repository(),
        "sender": user(sender),
        "issue": { "number": 1, "pull_request": {} },
        "comment": { "id": id, "body": body, "user": user(author) },
    })
}

fn repository() -> Value {
    json!({ "id": REPO, "full_name": "acme/infra", "default_branch": "main" })
}

// -- comments ---------------------------------------------------------------------------------------

#[tokio::test]
async fn bl_068_what_came_after_the_stacks_reached_a_shell() {
    for body in
        ["stackorder plan -- -var x=$(curl evil)", "stackorder plan -s ../../etc", "stackorder plan -s vpc; rm -rf /"]
    {
        let world = World::new().await;
        world.plan(sha('a')).await;
        let runs = world.runs().await.len();
        world.hears(5, "ada", body).await;

        assert_eq!(world.runs().await.len(), runs, "{body}");
        assert!(world.has_said()[0].contains("is a flag, and commands take stacks only"), "{:?}", world.has_said());
        assert_eq!(world.audit_trail().await[0].details["accepted"], false);
    }
    // Without a flag it is a stack that nobody has, spelled back as it was typed.
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.hears(5, "ada", "stackorder apply ../../etc $(reboot)").await;
    assert!(world.has_said()[0].contains("no usable plan"), "{:?}", world.has_said());
    assert!(world.runs().await.iter().all(|run| run.mode == Mode::Plan));
}

#[tokio::test]
async fn bl_070_the_apps_own_answer_was_taken_for_a_command() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    let (runs, audited) = (world.runs().await, world.audit_trail().await.len());
    world.hears(5, "stackorder[bot]", "stackorder plan cannot run on a closed PR").await;
    world.hears(6, "renovate[bot]", "stackorder apply").await;
    // Somebody's words, sent by a bot.
    let event = comment_event("created", 7, "ada", "mirror[bot]", "stackorder apply");
    world.takes_delivery("issue_comment", &event).await;

    assert_eq!(world.runs().await, runs);
    assert_eq!(world.has_said(), Vec::<String>::new());
    assert!(world.github.script().reactions.is_empty());
    assert_eq!(world.audit_trail().await.len(), audited, "ignored before it is read");
}

#[tokio::test]
async fn bl_072_a_deleted_comment_ran_its_command_again() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    let runs = world.runs().await;
    for (action, id) in [("deleted", 5), ("deleted", 5), ("edited", 6), ("edited", 6)] {
        let event = comment_event(action, id, "ada", "bob", "stackorder apply");
        world.takes_delivery("issue_comment", &event).await;
    }

    assert_eq!(world.runs().await, runs);
    assert_eq!(world.has_said(), Vec::<String>::new());
    assert!(world.github.script().reactions.is_empty());
    let told: Vec<(String, String, Value)> = world
        .audit_trail()
        .await
        .into_iter()
        .map(|entry| (entry.actor, entry.action, entry.details["reason"].clone()))
        .collect();
    let ignored = |reason: &str| ("bob".to_owned(), "command_ignored".to_owned(), json!(reason));
    assert_eq!(
        told[..2],
        [ignored("an edited comment is never executed"), ignored("a deleted comment is never executed")]
    );
    // The help text names every command, and deleting it is no command either.
    let event = comment_event("deleted", 8, "ada", "ada", &crate::orchestrator::comments::help_text());
    world.takes_delivery("issue_comment", &event).await;
    assert_eq!(world.runs().await, runs);
}

// -- locks ------------------------------------------------------------------------------------------

#[tokio::test]
async fn bl_074_a_merged_pull_request_whose_closed_event_was_lost_held_its_lock_for_ever() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.has_lock_of(14, |pull| (pull.open, pull.merged, pull.merge_commit_sha) = (false, true, Some(sha('e')))).await;
    assert_eq!(world.held().await, "vpc #14");

    world.hears(5, "ada", "stackorder apply vpc").await;

    assert_eq!(world.held().await, "vpc #1");
    assert!(world.runs().await.iter().any(|run| run.mode == Mode::Apply && run.pr_number == 1));
    let freed = world.audit_trail().await.into_iter().find(|entry| entry.action == "unlock").unwrap();
    assert_eq!((&freed.details["via"], &freed.details["pr"]), (&json!("merge"), &json!(14)));
    let noted =
        world.github.script().comments.iter().any(|(number, comment)| *number == 14 && comment.body.contains("`vpc`"));
    assert!(noted, "and says so where it was held");
}

#[tokio::test]
async fn bl_074_a_pull_request_closed_without_merge_keeps_its_lock() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.has_lock_of(14, |pull| pull.open = false).await;

    world.hears(5, "ada", "stackorder apply vpc").await;

    assert_eq!(world.held().await, "vpc #14");
    assert!(world.has_said()[0].contains("#14 has held the lock since"), "{:?}", world.has_said());
}

#[tokio::test]
async fn bl_074_a_merge_that_was_told_while_its_apply_was_let_through_frees_its_locks_at_the_end() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.comment(5, "ada", "stackorder apply vpc").await;
    {
        let pull = &mut world.github.script().pull;
        (pull.open, pull.merged, pull.merge_commit_sha) = (false, true, Some(sha('d')));
    }
    assert_eq!(world.held().await, "vpc #1");

    world.jobs("vpc =").await;

    assert_eq!(world.held().await, "");
}

#[tokio::test]
async fn bl_075_a_branch_deleted_with_its_merge_kept_the_locks() {
    let world = World::new().await;
    world.breaks_off(sha('a')).await;
    assert_eq!(world.held().await, "vpc #1");
    {
        let mut script = world.github.script();
        // What comes after the release fails.
        script.is_down = true;
        let pull = &mut script.pull;
        (pull.open, pull.merged, pull.merge_commit_sha) = (false, true, Some(sha('d')));
        pull.head_ref = String::new();
    }
    let closed = json!({
        "action": "closed", "number": 1, "repository": repository(), "sender": { "login": "ada", "type": "User" },
        "pull_request": {
            "number": 1, "merged": true, "merge_commit_sha": sha('d'),
            "head": { "sha": sha('a'), "ref": "", "repo": null }, "base": { "ref": "main", "sha": sha('f'), "repo": { "id": REPO } },
        },
    });
    world.takes_delivery("pull_request", &closed).await;

    assert_eq!(world.held().await, "");
    assert!(world.has_said().is_empty(), "nothing could be written");
    world.github.script().is_down = false;
    world.clock.advance(MINUTE_MS);
    while work_one(&world.app, "worker", &KEEP).await.unwrap() {}
    assert!(world.has_said().iter().any(|body| body.contains("Merged: 1 lock released")), "{:?}", world.has_said());
}

#[tokio::test]
async fn bl_078_a_pull_request_was_refused_by_its_own_lock() {
    let world = World::new().await;
    world.breaks_off(sha('a')).await;
    world.plan(sha('b')).await;
    assert_eq!(world.held().await, "vpc #1");

    world.hears(6, "ada", "stackorder apply vpc").await;

    let applies = world.runs().await.into_iter().filter(|run| run.mode == Mode::Apply).count();
    assert_eq!(applies, 2, "{:?}", world.has_said());
}

#[tokio::test]
async fn bl_079_giving_one_stack_back_took_the_plans_of_the_others_with_it() {
    let world = World::new().await;
    world.breaks_off(sha('a')).await;
    world.plan(sha('b')).await;

    world.hears(6, "ada", "stackorder unlock vpc").await;
    assert_eq!(world.held().await, "");
    world.hears(7, "ada", "stackorder unlock vpc eks").await;
    assert!(world.has_said().last().unwrap().contains("holds none of these locks"), "{:?}", world.has_said());

    world.hears(8, "ada", "stackorder apply eks").await;
    assert_eq!(world.held().await, "eks #1", "{:?}", world.has_said());
}

#[tokio::test]
async fn bl_082_one_command_was_refused_to_people_who_could_give_the_others() {
    for verb in ["plan", "apply", "unlock", "help"] {
        for (login, permission, accepted) in
            [("ada", Permission::Write, true), ("eve", Permission::Read, false), ("cyd", Permission::Triage, false)]
        {
            let world = World::new().await;
            world.plan(sha('a')).await;
            world.github.script().permissions.insert(login.to_owned(), permission);
            world.hears(5, login, &format!("stackorder {verb}")).await;

            let entry = world.audit_trail().await.remove(0);
            assert_eq!((entry.actor.as_str(), &entry.details["verb"]), (login, &json!(verb)));
            let answered = !world.github.script().reactions.is_empty();
            assert_eq!((entry.action == "command", answered), (accepted, accepted), "{verb} by {login}: {entry:?}");
        }
    }
}

// -- drift ------------------------------------------------------------------------------------------

/// A world whose default branch has these stacks.
async fn with_stacks(keys: &str) -> World {
    let world = World::new().await;
    let stored = StoredGraph {
        repo_id: REPO,
        sha: sha('f'),
        content_hash: String::new(),
        tree_hash: String::new(),
        pr_number: 0,
        graph: Graph { sha: sha('f').to_string(), ..graph(keys) },
        created_at: 1,
    };
    let effects = Effects { graph: Some(stored), default_graph: Some(sha('f')), ..Effects::default() };
    world.app.store.commit(Changes { repo_id: REPO, effects, ..Changes::default() }).await.unwrap();
    world
}

/// A confirmed check of the stack at this time.
async fn checked(world: &World, stack: &str, at: Millis) {
    let seen = DriftSeen {
        stack_id: StackId::of(REPO, stack),
        repo_id: REPO,
        key: key(stack),
        run_id: world.app.new_run_id(),
        checked_at: at,
        drifted: false,
        summary: None,
    };
    let effects = Effects { drift: vec![seen], ..Effects::default() };
    world.app.store.commit(Changes { repo_id: REPO, effects, ..Changes::default() }).await.unwrap();
}

#[tokio::test]
async fn bl_108_a_plan_error_is_neither_drift_nor_clean() {
    let world = with_stacks("vpc").await;
    checked(&world, "vpc", 5).await;
    world.app.drift_stack(&world.repo().await, &key("vpc")).await.unwrap();
    let run = world.runs().await.remove(0);
    let dispatch = world.dispatches().await.remove(0);
    let subject = world.app.subject_of(&run.id).await.unwrap().unwrap();
    world.app.decide(&subject, |next| progress::complete_dispatch(next, &dispatch.id, "failure")).await.unwrap();

    let record = world.app.store.stacks(REPO).await.unwrap().remove(0);
    assert_eq!(record.drift.unwrap().checked_at, 5, "the last result stands");
    let rows = world.app.store.rows(&run.id).await.unwrap();
    assert_eq!(rows[0].status, RowStatus::Unknown);
    assert!(world.runs().await.iter().all(|run| run.mode == Mode::Drift), "drift applies nothing");
}

#[tokio::test]
async fn bl_110_one_issue_is_opened_for_drift_kept_up_to_date_and_closed() {
    let world = with_stacks("vpc").await;
    let see = async |drifted, adds| {
        world.clock.advance(1000);
        let seen = DriftSeen {
            stack_id: StackId::of(REPO, "vpc"),
            repo_id: REPO,
            key: key("vpc"),
            run_id: world.app.new_run_id(),
            checked_at: world.app.now(),
            drifted,
            summary: Some(crate::run::tests::story::summary(adds)),
        };
        let effects = Effects { drift: vec![seen], ..Effects::default() };
        world.app.store.commit(Changes { repo_id: REPO, effects, ..Changes::default() }).await.unwrap();
        world.app.write_drift_issue(&world.repo().await, &key("vpc")).await.unwrap();
    };
    let issues = || -> Vec<Issue> { world.github.script().issues.clone() };
    see(false, "=").await;
    assert!(issues().is_empty(), "clean from the beginning opens nothing");
    see(true, "+1").await;
    see(true, "+1").await;
    let first = issues();
    assert_eq!(first.len(), 1);
    see(true, "+2").await;
    assert_eq!(issues().len(), 1);
    assert_ne!(issues()[0].body, first[0].body);
    see(false, "=").await;
    assert!(issues().is_empty());
    let told = world.github.script().told.clone();
    assert_eq!(told, ["open Drift detected in vpc", "edit #40", "comment on #40", "close #40"]);
}

#[tokio::test]
async fn bl_111_every_stack_was_checked_at_one_moment_and_the_oldest_check_last() {
    let world = with_stacks("a, b, c, d").await;
    checked(&world, "a", 300).await;
    checked(&world, "b", 100).await;
    checked(&world, "d", 200).await;
    let fire = world.app.now();
    world.app.schedule_drift(&world.repo().await, fire).await.unwrap();

    let mut order = Vec::new();
    for quarter in 0..4 {
        let at = fire + quarter * 15 * MINUTE_MS;
        while let Some(job) = world.app.store.claim_job("worker", at, LEASE_MS).await.unwrap() {
            order.push((quarter, job.payload["key"].as_str().unwrap().to_owned()));
            world.app.store.finish_job(&job, "worker", &Outcome::Done, at).await.unwrap();
        }
    }
    let wanted = [(0, "c"), (1, "b"), (2, "d"), (3, "a")].map(|(at, key)| (at, key.to_owned()));
    assert_eq!(order, wanted, "never checked first, then the oldest; one after another over the hour");
}

#[tokio::test]
async fn bl_111_a_locked_stack_is_skipped_and_one_that_an_open_pull_request_touches_is_not() {
    let world = with_stacks("vpc <- eks").await;
    world.plan(sha('a')).await;
    world.hears(5, "ada", "stackorder apply vpc").await;
    assert_eq!(world.held().await, "vpc #1");
    for stack in ["vpc", "eks"] {
        world.app.drift_stack(&world.repo().await, &key(stack)).await.unwrap();
    }
    let mut checked = Vec::new();
    for run in world.runs().await.into_iter().filter(|run| run.mode == Mode::Drift) {
        checked.extend(world.app.store.rows(&run.id).await.unwrap().into_iter().map(|row| row.key.to_string()));
    }
    assert_eq!(checked, ["eks"], "planned by the pull request, locked by nobody");
}

// -- races ------------------------------------------------------------------------------------------

#[tokio::test]
async fn bl_145_an_apply_during_a_plan_found_nothing_to_do_and_said_done() {
    let world = World::new().await;
    let (run, _) = world.resolve(sha('a'), &["vpc/main.tf", "eks/main.tf"]).await;
    world.hears(5, "ada", "stackorder apply").await;
    assert!(world.has_said()[0].contains("planning has not finished"), "{:?}", world.has_said());
    assert!(world.runs().await.iter().all(|run| run.mode == Mode::Plan));
    let apply_check = world.github.script().checks.values().any(|check| {
        check.name == "stackorder/apply" && matches!(check.status, CheckStatus::Completed(Conclusion::Success))
    });
    assert!(!apply_check, "nothing is green before it is applied");

    let job = world.plan_job().await;
    world.app.report_result(&job, &run, &key("vpc"), &result(Mode::Plan, "+1", "vpc")).await.unwrap();
    world.hears(6, "ada", "stackorder apply").await;
    assert!(
        world.has_said()[1].contains("planning has not finished"),
        "not before every plan has ended: {:?}",
        world.has_said()
    );
}

#[tokio::test]
async fn bl_146_an_older_commits_plans_were_still_applied() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    let (run, _) = world.resolve(sha('b'), &["eks/main.tf"]).await;
    let job = world.plan_job().await;
    let planned = result(Mode::Plan, "+1", "eks-b");
    world.github.script().artifacts.push(ArtifactFacts {
        id: 2,
        name: planned.plan_artifact.clone(),
        expired: false,
        expires_at: None,
    });
    world.app.report_result(&job, &run, &key("eks"), &planned).await.unwrap();

    world.hears(5, "ada", "stackorder apply").await;
    assert_eq!(world.held().await, "eks #1", "{:?}", world.has_said());
    world.hears(6, "ada", "stackorder apply vpc").await;
    assert!(world.has_said().last().unwrap().contains("no usable plan"), "{:?}", world.has_said());
}

#[tokio::test]
async fn bl_148_after_a_crash_a_plan_that_an_apply_had_used_was_applied_again() {
    let world = World::new().await;
    let run = world.breaks_off(sha('a')).await;
    let rows = world.app.store.rows(&run).await.unwrap();
    let vpc = rows.iter().find(|row| row.key == key("vpc")).unwrap();
    assert_eq!(vpc.status, RowStatus::Unknown);

    // Another process takes over, and nothing happens by itself.
    world.app.store.take_over().await.unwrap();
    world.app.enqueue_start().await.unwrap();
    world.clock.advance(10 * MINUTE_MS);
    while work_one(&world.app, "another", &KEEP).await.unwrap() {}
    assert_eq!(world.runs().await.iter().filter(|run| run.mode == Mode::Apply).count(), 1);

    world.hears(6, "ada", "stackorder apply vpc").await;
    let said = world.has_said();
    let refusal = said.last().unwrap();
    assert!(refusal.contains("its plan was used by apply run") && refusal.contains("stackorder plan vpc"), "{said:?}");
    assert_eq!(world.runs().await.iter().filter(|run| run.mode == Mode::Apply).count(), 1);
}

#[tokio::test]
async fn bl_142_one_expired_plan_among_ten_spoiled_the_whole_apply() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    {
        let mut script = world.github.script();
        let gone = script.artifacts.iter_mut().find(|artifact| artifact.name.contains("vpc")).unwrap();
        (gone.expired, gone.expires_at) = (true, Some(1));
    }
    world.hears(5, "ada", "stackorder apply").await;

    let run = world.runs().await.into_iter().find(|run| run.mode == Mode::Apply).expect("the apply starts");
    let rows = world.app.store.rows(&run.id).await.unwrap();
    let expiry = |stack: &str| rows.iter().find(|row| row.key == key(stack)).unwrap().plan_artifact_expires_at;
    assert_eq!((expiry("vpc"), expiry("eks")), (Some(1), None), "each plan's own, so that its job plans it again");
}
