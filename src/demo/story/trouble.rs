//! Failures, killed jobs, lost webhooks, a server that is down, and drift.

use anyhow::{Context as _, ensure};
use fake_github::actions::model::Status;

use super::stage::{Stage, statuses};
use crate::clock::{HOUR_MS, MINUTE_MS};
use crate::demo::laptop::{REPOSITORY, STATE_BUCKET};
use crate::run::status::{Mode, RowStatus, RunStatus};

pub async fn failure(stage: &mut Stage) -> anyhow::Result<()> {
    let fails = stage.edited("main", "stacks/staging/vpc/rollout.auto.tfvars", "\"ok\"", "\"fail\"")?;
    let apps = stage.edited("main", "stacks/staging/apps/main.tf", "count = 2", "count = 3")?;
    let files = [("stacks/staging/vpc/rollout.auto.tfvars", fails), ("stacks/staging/apps/main.tf", apps)];
    let number = stage.open("rollout", "alice", "Roll out staging", &files)?;
    stage.planned(number).await?;
    stage.approve(number, "bob");
    stage.apply(number, "carol").await?;
    let run = stage.new_apply(number, &Default::default()).await?;
    let run = stage.approve_until_done(number, run.id.as_str()).await?;
    ensure!(run.status == RunStatus::Failed, "the apply ended {}: {}", run.status, statuses(&run));
    ensure!(
        statuses(&run) == "stacks/staging/vpc failed, stacks/staging/apps blocked",
        "the stacks are {}",
        statuses(&run)
    );
    let head = stage.head(number)?;
    stage.check(&head, "stackorder/apply", "failure").await?;
    ensure!(stage.locks().await?.len() == 2, "a failed apply keeps its locks, but they are {:?}", stage.locks().await?);
    stage.apply(number, "carol").await?;
    let reply = stage.reply(number, "its plan was used by apply run").await?;
    ensure!(reply.contains("Layer 3"), "a used plan is refused by layer 3: {reply}");
    stage.say("vpc fails, apps is blocked, the locks stay, and the used plan is not applied again");
    Ok(())
}

pub async fn killed(stage: &mut Stage) -> anyhow::Result<()> {
    let number = stage.pulls["rollout"];
    let hangs = stage.edited("rollout", "stacks/staging/vpc/rollout.auto.tfvars", "\"fail\"", "\"hang\"")?;
    stage.push(number, "alice", "Wait for the load balancer", &[("stacks/staging/vpc/rollout.auto.tfvars", hangs)])?;
    stage.planned(number).await?;
    stage.approve(number, "bob");
    let known = stage.apply_ids(number).await?;
    stage.apply(number, "carol").await?;
    let run = stage.new_apply(number, &known).await?;
    stage.row(run.id.as_str(), "stacks/staging/vpc", RowStatus::Applying).await?;
    let job = stage
        .until("the job to wait in its apply", || async {
            let engine = stage.hub().engine();
            let running = engine.runs(REPOSITORY).into_iter().filter(|found| found.title.contains(run.id.as_str()));
            let jobs = running.flat_map(|found| engine.jobs(found.id)).filter(|job| job.status == Status::InProgress);
            jobs.into_iter().find(|job| engine.logs(job.id).contains("waiting for the load balancer")).map(|job| job.id)
        })
        .await?;
    stage.hub().engine().kill_job(job);
    let run = stage.approve_until_done(number, run.id.as_str()).await?;
    ensure!(
        statuses(&run) == "stacks/staging/vpc unknown, stacks/staging/apps blocked",
        "after the kill the stacks are {}",
        statuses(&run)
    );
    stage.say("the runner died mid-apply: vpc is unknown, and the state lock stays where it was");
    stage.apply(number, "carol").await?;
    let reply = stage.reply(number, "which ended unknown").await?;
    ensure!(reply.contains("Layer 3"), "an unknown apply is refused by layer 3: {reply}");

    let clone = stage.clone_at("rollout").await?;
    let end = stage.cli(&clone, &["unlock", "stacks/staging/vpc", "--reason", "runner died", "--force-state"]).await?;
    ensure!(end.code == 0, "unlock left with {}: {}", end.code, end.stderr);
    release_state_lock(stage, "staging/vpc.tfstate")?;
    // The file still differs from main, so that vpc stays part of this change.
    let done = "\"ok\" # the load balancer is there";
    let repaired = stage.edited("rollout", "stacks/staging/vpc/rollout.auto.tfvars", "\"hang\"", done)?;
    stage.push(number, "alice", "Do not wait", &[("stacks/staging/vpc/rollout.auto.tfvars", repaired)])?;
    stage.planned(number).await?;
    stage.approve(number, "bob");
    let known = stage.apply_ids(number).await?;
    stage.apply(number, "carol").await?;
    let run = stage.new_apply(number, &known).await?;
    let run = stage.approve_until_done(number, run.id.as_str()).await?;
    ensure!(
        run.status == RunStatus::Applied,
        "the repaired apply ended {}: {}\n{}",
        run.status,
        statuses(&run),
        stage.last_logs()
    );
    let head = stage.head(number)?;
    // apps had a plan of its own; it may have changed under its new upstream and wait for one more request.
    if run.stacks.iter().any(|row| row.status == RowStatus::Skipped) {
        let known = stage.apply_ids(number).await?;
        stage.apply(number, "carol").await?;
        let again = stage.new_apply(number, &known).await?;
        let again = stage.approve_until_done(number, again.id.as_str()).await?;
        ensure!(again.status == RunStatus::Applied, "the last apply ended {}: {}", again.status, statuses(&again));
    }
    stage.check(&head, "stackorder/apply", "success").await?;
    stage.all_plan_empty(&head, &["stacks/staging/vpc", "stacks/staging/apps"]).await?;
    stage.merge(number, "alice").await?;
    stage
        .until("the locks to go", || async { stage.locks().await.ok().filter(std::collections::BTreeMap::is_empty) })
        .await?;
    stage.say("unlock --force-state, a new plan and a new apply lead out");
    Ok(())
}

/// What an operator does after looking: the tool's own lock object goes.
fn release_state_lock(stage: &Stage, key: &str) -> anyhow::Result<()> {
    let lock = stage.laptop.dir().join("s3").join(STATE_BUCKET).join(format!("{key}.tflock"));
    match std::fs::remove_file(&lock) {
        Ok(()) => stage.say("the tool's own state lock was left behind and is released by hand"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

pub async fn lost_webhooks(stage: &mut Stage) -> anyhow::Result<()> {
    let vpc = stage.edited("main", "stacks/staging/vpc/main.tf", "10.20.16.0/20", "10.20.32.0/20")?;
    let number = stage.open("subnets", "alice", "Move a subnet", &[("stacks/staging/vpc/main.tf", vpc)])?;
    stage.planned(number).await?;
    // What the plan's own jobs tell is to arrive: only the apply goes without.
    stage.hub().idle().await;
    stage.approve(number, "bob");
    stage.apply(number, "carol").await?;
    stage.hub().faults().lose_webhooks(|event, _| event == "workflow_run" || event == "workflow_job");
    let run = stage.new_apply(number, &Default::default()).await?;
    let run = stage.approve_until_done(number, run.id.as_str()).await?;
    stage.hub().faults().lose_no_webhooks();
    ensure!(run.status == RunStatus::Applied, "the apply ended {}: {}", run.status, statuses(&run));
    stage.say("no workflow event arrived, and the run still went from wave to wave");
    let head = stage.head(number)?;
    stage.check(&head, "stackorder/apply", "success").await?;
    stage.all_plan_empty(&head, &["stacks/staging/vpc", "stacks/staging/apps"]).await?;
    stage.merge(number, "alice").await?;
    stage
        .until("the locks to go", || async { stage.locks().await.ok().filter(std::collections::BTreeMap::is_empty) })
        .await?;
    Ok(())
}

pub async fn server_down(stage: &mut Stage) -> anyhow::Result<()> {
    stage.laptop.kill_server().await?;
    let apps = stage.edited("main", "stacks/staging/apps/main.tf", "count = 3", "count = 4")?;
    let number = stage.open("offline", "alice", "One more app", &[("stacks/staging/apps/main.tf", apps)])?;
    let head = stage.head(number)?;
    stage
        .until("neutral checks of the jobs", || async {
            let checks = stage.hub().all_check_runs(REPOSITORY, &head);
            checks
                .iter()
                .any(|check| {
                    check.name == "stackorder/plan: stacks/staging/apps"
                        && check.conclusion.as_deref() == Some("neutral")
                })
                .then_some(())
        })
        .await
        .with_context(|| stage.last_logs())?;
    let green = stage.checks(&head).into_keys().any(|name| name == "stackorder/plan" || name == "stackorder/apply");
    ensure!(!green, "a fallback posted a roll-up check");
    stage.say("the server is killed; the plan runs and ends unconfirmed, without a roll-up check");

    let clone = stage.clone_at("main").await?;
    let end = stage.cli(&clone, &["apply", "--local", "--stack", "stacks/staging/apps"]).await?;
    ensure!(end.code == 3, "an apply without the server left with {}, not 3: {}", end.code, end.stderr);
    stage.say("an apply without the server exits 3 and applies nothing");

    stage.laptop.start_server().await?;
    let run = stage.planned(number).await?;
    ensure!(run.status == RunStatus::Planned, "the repaired plan ended {}: {}", run.status, statuses(&run));
    stage.check(&head, "stackorder/plan", "success").await?;
    stage.say("after the restart the plan workflow of that head is run again by itself");
    stage.hub().close(REPOSITORY, number, "alice");
    Ok(())
}

pub async fn drift(stage: &mut Stage) -> anyhow::Result<()> {
    // Behind the code's back: the state of staging/vpc says another cidr than the code asks for.
    let key = "staging/vpc.tfstate";
    let state = stage.laptop.s3.get(STATE_BUCKET, key)?.context("no state of staging/vpc")?;
    let text = String::from_utf8(state.clone())?;
    ensure!(text.contains("10.20.32.0/20"), "the state does not hold the subnet");
    stage.laptop.s3.put(STATE_BUCKET, key, text.replace("10.20.32.0/20", "10.99.0.0/20").into_bytes())?;
    let issues = || {
        let mut found = stage.hub().issues(REPOSITORY);
        found.retain(|issue| issue.pull.is_none() && issue.title == "Drift detected in stacks/staging/vpc");
        found
    };
    check_drift(stage).await?;
    stage
        .until("the drift issue", || async { issues().into_iter().find(|issue| issue.open) })
        .await
        .with_context(|| stage.last_logs())?;
    check_drift(stage).await?;
    stage.until("the second check", || async { drift_runs(stage, 2).await }).await?;
    let open = issues().into_iter().filter(|issue| issue.open).count();
    ensure!(open == 1 && issues().len() == 1, "drift twice made {} issues", issues().len());
    stage.say("a changed state is drift: one issue, and the second check adds none");
    stage.laptop.s3.put(STATE_BUCKET, key, state)?;
    check_drift(stage).await?;
    stage.until("the issue to be closed", || async { issues().into_iter().find(|issue| !issue.open) }).await?;
    stage.say("put back: the issue is commented on and closed");
    Ok(())
}

/// Finished drift runs of staging/vpc, once there are at least so many.
async fn drift_runs(stage: &Stage, at_least: usize) -> Option<()> {
    let runs = stage.all_runs(Mode::Drift).await.ok()?;
    let mut done = 0;
    for run in runs.iter().filter(|run| run.status == RunStatus::Planned) {
        let full = stage.run(run.id.as_str()).await.ok()?;
        done += full.stacks.iter().filter(|row| row.key == "stacks/staging/vpc").count();
    }
    (done >= at_least).then_some(())
}

/// Moves the clock past the next fire of the schedule (05:30 on weekdays) and through the hour of checks that follows.
async fn check_drift(stage: &Stage) -> anyhow::Result<()> {
    use crate::clock::{Clock as _, DAY_MS, rfc3339};
    let now = stage.laptop.clock.now();
    let mut fire = now - now.rem_euclid(DAY_MS) + 5 * HOUR_MS + 30 * MINUTE_MS;
    let is_weekend = |at: i64| matches!((at.div_euclid(DAY_MS) + 4).rem_euclid(7), 0 | 6);
    while fire <= now || is_weekend(fire) {
        fire += DAY_MS;
    }
    stage.say(format!("the clock moves to {}", rfc3339(fire)));
    stage.laptop.move_clock(fire + MINUTE_MS - now);
    let before = stage.all_runs(Mode::Drift).await?.len();
    stage
        .until("the first checks of the hour", || async {
            stage.all_runs(Mode::Drift).await.ok().filter(|runs| runs.len() > before)
        })
        .await?;
    stage.laptop.move_clock(58 * MINUTE_MS);
    let stacks = stage.stacks().await?.len();
    stage
        .until("every stack to be checked", || async {
            let runs = stage.all_runs(Mode::Drift).await.ok()?;
            let done = runs.iter().filter(|run| run.status == RunStatus::Planned || run.status.is_terminal()).count();
            (done >= before + stacks).then_some(())
        })
        .await?;
    Ok(())
}
