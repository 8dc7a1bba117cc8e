//! Drift: when it is checked, and what is done about it.

use super::*;
use crate::clock::HOUR_MS;
use crate::github::api::Issue;
use crate::ids::StackId;
use crate::orchestrator::workers::LEASE_MS;

impl World {
    /// A repository whose default branch has these stacks.
    async fn with_stacks(stacks: &str) -> Self {
        let world = Self::new().await;
        let job = world.plan_job().await;
        let request = CreateRunRequest {
            repo: "acme/infra".to_owned(),
            sha: sha('a').to_string(),
            pr_number: 1,
            ..CreateRunRequest::default()
        };
        let run = world.app.create_run(&job, &request).await.unwrap().run_id;
        let first = stacks.split(',').next().unwrap();
        world.app.upload_graph(&job, &run, upload(stacks, &[&format!("{first}/main.tf")])).await.unwrap();
        world.merge("merged").await;
        assert_eq!(world.repo().await.default_graph, Some(sha('a')));
        world
    }

    /// Jobs of this kind, with their times; all jobs are gone afterwards.
    async fn due(&self, kind: JobKind) -> Vec<(i64, Value)> {
        self.clock.advance(HOUR_MS);
        let mut found = Vec::new();
        while let Some(job) = self.app.store.claim_job("w", self.app.now(), LEASE_MS).await.unwrap() {
            self.app.store.finish_job(&job, "w", &Outcome::Done, self.app.now()).await.unwrap();
            if job.kind == kind {
                found.push((job.due_at, job.payload));
            }
        }
        found
    }

    /// An hour later a check of the stack is dispatched, and its job reports this.
    async fn checked(&self, stack: &str, outcome: &str) -> RunId {
        self.clock.advance(HOUR_MS);
        self.app.drift_stack(&self.repo().await, &key(stack)).await.unwrap();
        self.settle().await;
        let run = self.runs().await.into_iter().find(|run| run.mode == Mode::Drift).expect("a drift check");
        let report = result(Mode::Drift, outcome, "");
        self.app.report_result(&self.job(&run.id, stack).await, &run.id, &key(stack), &report).await.unwrap();
        self.settle().await;
        run.id
    }

    /// `drifted` or `in sync`, with the run that saw it.
    async fn last_seen(&self, stack: &str) -> Option<(&'static str, RunId)> {
        let id = StackId::of(REPO, stack);
        let record = self.app.store.stacks(REPO).await.unwrap().into_iter().find(|record| record.id == id)?;
        record.drift.map(|seen| (if seen.drifted { "drifted" } else { "in sync" }, seen.run_id))
    }
}

#[tokio::test]
async fn case_097_five_stacks_are_checked_twelve_minutes_apart_once_an_hour() {
    let world = World::with_stacks("a, b, c, d, e").await;
    let fire = 10 * HOUR_MS;
    world.at(fire);
    for _ in 0..2 {
        world.app.schedule_drift(&world.repo().await, fire).await.unwrap();
    }

    let checks = world.due(JobKind::DriftStack).await;
    let expected: Vec<(i64, Value)> = ["a", "b", "c", "d", "e"]
        .iter()
        .zip(0..)
        .map(|(stack, number)| (fire + number * 12 * MINUTE_MS, json!({ "repo_id": REPO, "key": stack })))
        .collect();
    assert_eq!(checks, expected);

    // Even one that was worked off already is not checked twice within its hour.
    for _ in 0..2 {
        world.app.drift_stack(&world.repo().await, &key("a")).await.unwrap();
    }
    assert_eq!(world.runs().await.iter().filter(|run| run.mode == Mode::Drift).count(), 1);
}

#[tokio::test]
async fn case_098_a_drifted_stack_has_one_issue_that_is_kept_up_to_date_and_closed() {
    let world = World::with_stacks("vpc").await;
    world.policy(|policy| policy.drift.open_issue = true).await;
    let told = |world: &World| std::mem::take(&mut world.github.script().told);
    told(&world);

    world.checked("vpc", "+1").await;
    assert_eq!(told(&world), ["dispatch drift", "open Drift detected in vpc"]);
    world.checked("vpc", "+1").await;
    assert_eq!(told(&world), ["dispatch drift"], "it says so already");
    world.checked("vpc", "+2").await;
    assert_eq!(told(&world), ["dispatch drift", "edit #40"]);
    assert_eq!(world.github.script().issues.len(), 1);

    // Closing it fails once: it is commented all the same only once.
    world.github.script().is_stubborn = true;
    world.checked("vpc", "=").await;
    world.github.script().is_stubborn = false;
    world.app.write_drift_issue(&world.repo().await, &key("vpc")).await.unwrap();
    assert_eq!(told(&world), ["dispatch drift", "comment on #40", "close #40"]);
    assert!(world.github.script().issues.is_empty());
}

#[tokio::test]
async fn of_two_drift_issues_opened_at_once_the_first_one_stays() {
    let world = World::with_stacks("vpc").await;
    world.policy(|policy| policy.drift.open_issue = true).await;
    world.github.script().told.clear();
    world.github.script().rival_issue =
        Some(Issue { number: 39, title: "Drift detected in vpc".to_owned(), body: "theirs".to_owned() });

    world.checked("vpc", "+1").await;

    let told = world.github.script().told.clone();
    let expected = ["dispatch drift", "open Drift detected in vpc", "edit #39", "comment on #40", "close #40"];
    assert_eq!(told, expected);
    let left: Vec<i64> = world.github.script().issues.iter().map(|issue| issue.number).collect();
    assert_eq!(left, [39]);
}

#[tokio::test]
async fn a_drift_check_and_a_lock_taken_at_the_same_moment_come_one_after_the_other() {
    let world = World::with_stacks("vpc").await;
    let version = async || world.app.store.pull_scene(REPO, 0).await.unwrap().unwrap().locks_version;
    let before = version().await;
    world.clock.advance(HOUR_MS);

    world.app.drift_stack(&world.repo().await, &key("vpc")).await.unwrap();

    assert_eq!(version().await, before + 1);
}

#[tokio::test]
async fn case_099_a_drift_job_under_another_environment_is_refused() {
    let world = World::with_stacks("vpc").await;
    world.clock.advance(HOUR_MS);
    world.app.drift_stack(&world.repo().await, &key("vpc")).await.unwrap();
    let run = world.runs().await.into_iter().find(|run| run.mode == Mode::Drift).unwrap();
    let Caller::Job { mut claims, repo } = world.job(&run.id, "vpc").await else { unreachable!() };
    assert_eq!(claims.environment.as_deref(), Some("default"));
    claims.environment = Some("production".to_owned());

    let report = result(Mode::Drift, "+1", "");
    let answer = world.app.report_result(&Caller::Job { claims, repo }, &run.id, &key("vpc"), &report).await;

    assert!(matches!(refused(answer), Refused::Forbidden(_)));
    assert_eq!(world.last_seen("vpc").await, None);
}

#[tokio::test]
async fn case_100_a_check_that_failed_leaves_the_last_result() {
    let world = World::with_stacks("vpc").await;
    let run = world.checked("vpc", "+1").await;
    assert_eq!(world.last_seen("vpc").await, Some(("drifted", run.clone())));

    for outcome in ["!", "?"] {
        world.checked("vpc", outcome).await;
        assert_eq!(world.last_seen("vpc").await, Some(("drifted", run.clone())), "{outcome}");
    }
    let later = world.checked("vpc", "=").await;
    assert_eq!(world.last_seen("vpc").await, Some(("in sync", later)));
}

#[tokio::test]
async fn case_101_a_leader_that_was_away_catches_up_one_fire_of_the_last_hour() {
    for (schedule, expected) in [("*/20 * * * *", Some(10 * HOUR_MS + 40 * MINUTE_MS)), ("0 9 * * *", None)] {
        let world = World::with_stacks("vpc").await;
        world.policy(|policy| policy.drift.schedule = schedule.to_owned()).await;
        world.at(7 * HOUR_MS + 50 * MINUTE_MS);
        world.app.tick("leader").await.unwrap();
        world.due(JobKind::ScheduleDrift).await;

        world.at(10 * HOUR_MS + 50 * MINUTE_MS);
        for _ in 0..2 {
            world.app.tick("leader").await.unwrap();
        }

        let fires: Vec<i64> = world
            .due(JobKind::ScheduleDrift)
            .await
            .iter()
            .map(|(_, payload)| payload["fire"].as_i64().unwrap())
            .collect();
        assert_eq!(fires, expected.into_iter().collect::<Vec<_>>(), "{schedule}");
    }
}

#[tokio::test]
async fn case_155_a_locked_stack_is_not_checked_and_its_last_result_stands() {
    let world = World::with_stacks("vpc").await;
    let run = world.checked("vpc", "+1").await;
    let apply = Caller::Key(api_key(&["apply"], &[]));
    let held = world.app.create_run(&apply, &manual()).await.unwrap().run_id;
    let checks = async || world.runs().await.iter().filter(|run| run.mode == Mode::Drift).count();

    world.clock.advance(HOUR_MS);
    world.app.drift_stack(&world.repo().await, &key("vpc")).await.unwrap();
    assert_eq!(checks().await, 1);
    assert_eq!(world.last_seen("vpc").await, Some(("drifted", run)));

    let report = result(Mode::Apply, "+1", "b");
    world.app.report_result(&apply, &held, &key("vpc"), &report).await.unwrap();
    world.app.drift_stack(&world.repo().await, &key("vpc")).await.unwrap();
    assert_eq!(checks().await, 2, "free again");
}
