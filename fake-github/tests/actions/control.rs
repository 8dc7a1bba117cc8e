//! Waiting, cancelling, killing, running again.

use std::sync::atomic::Ordering;

use fake_github::actions::model::{Environment, Status};

use crate::world::{NOON, World};

fn on_push(jobs: &str) -> World {
    World::new(&[(".github/workflows/w.yml", &format!("on: push\n{jobs}"))])
}

fn guarded(world: &World, minutes: u32, reviewers: &[&str]) {
    let environment = Environment {
        id: 5,
        name: "production".to_owned(),
        reviewers: reviewers.iter().map(|r| (*r).to_owned()).collect(),
        wait_timer_minutes: minutes,
        ..Environment::default()
    };
    world.host.facts.lock().unwrap().environments.insert("production".to_owned(), environment);
}

#[tokio::test]
async fn an_environment_holds_its_jobs_until_someone_approves() {
    let world = on_push(
        "jobs:\n  deploy:\n    strategy: {matrix: {key: [a, b]}}\n    runs-on: x\n    environment: {name: production, url: 'http://x'}\n    \
         steps: [{run: 'true'}]\n",
    );
    guarded(&world, 0, &["octocat"]);
    let run = world.push()[0];
    world.engine.idle().await;
    assert_eq!(world.jobs(run), "deploy (a) waiting, deploy (b) waiting");
    assert_eq!(world.engine.run(run).unwrap().status, Status::Waiting);
    let pending = world.engine.pending(run);
    assert_eq!((pending.len(), pending[0].job_ids.len()), (1, 2));
    assert!(world.engine.review(run, &["staging".to_owned()], true, "octocat", "").is_empty());
    assert_eq!(world.engine.review(run, &["production".to_owned()], true, "octocat", "go"), ["production"]);
    world.engine.idle().await;
    assert_eq!(world.jobs(run), "deploy (a) success, deploy (b) success");
    assert_eq!(world.job(run, "deploy (a)").environment.as_deref(), Some("production"));
    let told = world.host.facts.lock().unwrap().told.clone();
    let of_a: Vec<&String> = told.iter().filter(|line| line.starts_with("deploy (a)")).collect();
    assert_eq!(of_a, ["deploy (a) Waiting", "deploy (a) Queued", "deploy (a) InProgress", "deploy (a) Completed"]);
    assert_eq!(told.first().map(String::as_str), Some("run 1 Requested"));
    assert_eq!(told.last().map(String::as_str), Some("run 1 Completed"));
}

#[tokio::test]
async fn a_rejection_fails_the_job_and_a_wait_timer_follows_the_clock() {
    let world = on_push("jobs:\n  deploy: {runs-on: x, environment: production, steps: [{run: 'true'}]}\n");
    guarded(&world, 0, &["octocat"]);
    let rejected = world.pushed().await;
    world.engine.review(rejected, &["production".to_owned()], false, "octocat", "not today");
    world.engine.idle().await;
    assert_eq!(world.jobs(rejected), "deploy failure");
    assert!(world.log(rejected, "deploy").contains("not today"));

    guarded(&world, 10, &[]);
    let timed = world.pushed().await;
    assert_eq!(world.jobs(timed), "deploy waiting");
    world.host.now.store(NOON + 600_000, Ordering::SeqCst);
    world.engine.clock_moved();
    world.engine.idle().await;
    assert_eq!(world.jobs(timed), "deploy success");
}

#[tokio::test]
async fn a_waiting_job_can_be_cancelled() {
    let world = on_push("jobs:\n  deploy: {runs-on: x, environment: production, steps: [{run: 'true'}]}\n");
    guarded(&world, 0, &["octocat"]);
    let run = world.pushed().await;
    assert!(world.engine.cancel(run));
    world.engine.idle().await;
    assert_eq!(world.jobs(run), "deploy cancelled");
    assert_eq!(world.conclusion(run), "cancelled");
    assert!(world.engine.pending(run).is_empty());
    assert!(!world.engine.cancel(run));
}

#[tokio::test]
async fn cancelling_interrupts_the_entry_process_and_runs_what_always_runs() {
    let world = on_push(
        r#"
jobs:
  job:
    runs-on: x
    steps:
      - run: |
          cat > child.sh <<'EOF'
          trap 'echo caught INT; exit 0' INT
          echo > $SIGNALS/ready
          while :; do sleep 0.01; done
          EOF
          exec bash child.sh
      - run: echo not reached
      - if: always()
        run: echo cleaned up, the job is ${{ job.status }}
  never: { needs: job, runs-on: x, steps: [{ run: "true" }] }
  final: { needs: job, if: always(), runs-on: x, steps: [{ run: "true" }] }
"#,
    );
    let run = world.push()[0];
    world.ready().await;
    assert!(world.engine.cancel(run));
    world.engine.idle().await;
    let log = world.log(run, "job");
    assert!(log.contains("caught INT") && log.contains("The operation was canceled."), "{log}");
    assert!(log.contains("\ncleaned up, the job is cancelled"), "{log}");
    assert!(!log.contains("\nnot reached"), "{log}");
    assert_eq!(world.jobs(run), "final success, job cancelled, never skipped");
    assert_eq!(world.conclusion(run), "cancelled");
}

#[tokio::test]
async fn a_step_that_ignores_the_interrupt_is_terminated_and_then_killed_with_its_group() {
    let world = on_push(
        r#"
jobs:
  stubborn:
    runs-on: x
    steps:
      - run: |
          trap 'echo ignoring INT' INT
          trap 'echo ignoring TERM' TERM
          echo > $SIGNALS/ready
          while :; do sleep 0.01; done
"#,
    );
    let run = world.push()[0];
    world.ready().await;
    world.engine.cancel(run);
    world.engine.idle().await;
    let log = world.log(run, "stubborn");
    assert!(log.contains("ignoring INT") && log.contains("ignoring TERM"), "{log}");
    assert_eq!(world.jobs(run), "stubborn cancelled");
}

#[tokio::test]
async fn a_killed_job_fails_and_leaves_no_process_behind() {
    let world = on_push(
        r#"
jobs:
  job:
    runs-on: x
    steps:
      - run: |
          sleep 600 &
          echo $! > $SIGNALS/pid
          echo > $SIGNALS/ready
          wait
      - if: always()
        run: echo not even this
  next: { needs: job, if: failure(), runs-on: x, steps: [{ run: "true" }] }
"#,
    );
    let run = world.push()[0];
    world.ready().await;
    assert!(world.engine.kill_job(world.job(run, "job").id));
    world.engine.idle().await;
    assert_eq!(world.jobs(run), "job failure, next success");
    assert!(world.log(run, "job").contains("lost communication with the server"));
    assert!(!world.log(run, "job").contains("\nnot even this"));
    world.assert_gone("pid");
    assert!(!world.engine.kill_job(world.job(run, "job").id));
}

#[tokio::test]
async fn what_a_step_leaves_running_ends_with_its_job() {
    let world = on_push(
        r#"
jobs:
  job:
    runs-on: x
    steps:
      - run: |
          setsid sleep 600 > /dev/null 2>&1 &
          echo $! > $SIGNALS/pid
      - run: kill -0 $(cat $SIGNALS/pid) && echo still there
"#,
    );
    let run = world.pushed().await;
    assert_eq!(world.jobs(run), "job success", "{}", world.log(run, "job"));
    world.assert_gone("pid");
}

#[tokio::test]
async fn time_limits_end_steps_and_jobs() {
    let world = World::with_options(
        &[(
            ".github/workflows/w.yml",
            "on: push\njobs:\n  step: {runs-on: x, steps: [{run: sleep 600, timeout-minutes: 1, continue-on-error: true}, {run: 'true'}]}\n  \
             job: {runs-on: x, timeout-minutes: 1, steps: [{run: sleep 600}, {run: 'true'}]}\n",
        )],
        |options| options.timing.minute = std::time::Duration::from_millis(300),
    );
    let run = world.pushed().await;
    assert_eq!(world.jobs(run), "job timed_out, step success");
    assert!(world.log(run, "step").contains("The action has timed out."));
    assert!(world.log(run, "job").contains("exceeded the maximum execution time"));
}

#[tokio::test]
async fn fail_fast_cancels_the_other_legs_unless_told_otherwise() {
    let jobs = |fail_fast| {
        format!(
            "jobs:\n  leg:\n    runs-on: x\n    strategy:\n      fail-fast: {fail_fast}\n      max-parallel: 1\n      matrix: {{n: [1, 2, 3]}}\n    \
             steps: [{{run: 'test ${{{{ matrix.n }}}} != 1'}}]\n"
        )
    };
    let fast = on_push(&jobs(true));
    let run = fast.pushed().await;
    assert_eq!(fast.jobs(run), "leg (1) failure, leg (2) cancelled, leg (3) cancelled");
    assert_eq!(fast.conclusion(run), "failure");
    let slow = on_push(&jobs(false));
    let run = slow.pushed().await;
    assert_eq!(slow.jobs(run), "leg (1) failure, leg (2) success, leg (3) success");
}

#[tokio::test]
async fn running_failed_jobs_again_keeps_what_succeeded() {
    let world = on_push(
        r#"
jobs:
  good: { runs-on: x, outputs: { n: "${{ steps.s.outputs.n }}" }, steps: [{ id: s, run: "echo n=$GITHUB_RUN_ATTEMPT >> $GITHUB_OUTPUT" }] }
  flaky: { needs: good, runs-on: x, steps: [{ run: "test $GITHUB_RUN_ATTEMPT != 1" }] }
  after: { needs: [good, flaky], runs-on: x, steps: [{ run: "echo good ran in ${{ needs.good.outputs.n }}" }] }
"#,
    );
    let run = world.pushed().await;
    assert_eq!(world.jobs(run), "after skipped, flaky failure, good success");
    world.engine.rerun(run, true, "octocat").unwrap();
    world.engine.idle().await;
    assert_eq!(world.jobs(run), "after success, flaky success, good success");
    assert!(world.log(run, "after").contains("good ran in 1"));
    let newest = world.engine.run(run).unwrap();
    assert_eq!((newest.attempt, newest.triggering_actor.as_str(), newest.actor.as_str()), (2, "octocat", "mona"));
    assert_eq!(
        world.engine.run_attempt(run, 1).unwrap().conclusion.map(|c| format!("{c:?}")).as_deref(),
        Some("Failure")
    );
    world.engine.rerun(run, false, "octocat").unwrap();
    world.engine.idle().await;
    assert!(world.log(run, "after").contains("good ran in 3"));
    let told = world.host.facts.lock().unwrap().told.clone();
    assert_eq!(told.iter().filter(|line| line.ends_with("Requested")).count(), 1);
    assert!(world.engine.rerun(999, false, "octocat").is_err());
}

#[tokio::test]
async fn a_newer_run_cancels_the_one_in_its_group() {
    let world = World::new(&[(
        ".github/workflows/w.yml",
        "on: push\nconcurrency: {group: '${{ github.ref }}', cancel-in-progress: true}\njobs:\n  job:\n    runs-on: x\n    steps:\n      \
         - run: test $GITHUB_RUN_NUMBER != 1 || { echo > $SIGNALS/ready; exec sleep 600; }\n",
    )]);
    let first = world.push()[0];
    world.ready().await;
    let second = world.push()[0];
    world.engine.idle().await;
    assert_eq!(world.conclusion(first), "cancelled");
    assert_eq!(world.conclusion(second), "success");
}

#[tokio::test]
async fn shutting_down_ends_every_process_and_says_nothing_more() {
    let world = on_push(
        "jobs: {job: {runs-on: x, steps: [{run: 'echo $$ > $SIGNALS/pid; echo > $SIGNALS/ready; exec sleep 600'}]}}\n",
    );
    world.push();
    world.ready().await;
    let told = world.host.facts.lock().unwrap().told.len();
    world.engine.shutdown();
    world.engine.idle().await;
    world.assert_gone("pid");
    assert_eq!(world.host.facts.lock().unwrap().told.len(), told);
}

#[tokio::test]
async fn jobs_of_one_group_run_one_after_another_and_the_newest_waits() {
    let world = World::with_options(
        &[(
            ".github/workflows/w.yml",
            "on: push\njobs:\n  job:\n    runs-on: x\n    concurrency: one\n    steps:\n      \
             - run: test $GITHUB_RUN_NUMBER != 1 || { echo > $SIGNALS/ready; cat $SIGNALS/go; }\n",
        )],
        |options| {
            let go = std::path::Path::new(&options.env["SIGNALS"]).join("go");
            assert!(std::process::Command::new("mkfifo").arg(go).status().unwrap().success());
        },
    );
    let first = world.push()[0];
    world.ready().await;
    let (second, third) = (world.push()[0], world.push()[0]);
    world
        .until(|| {
            let mut others = [world.jobs(second), world.jobs(third)];
            others.sort();
            others == ["job cancelled", "job pending"]
        })
        .await;
    let go = world.directory.path().join("go");
    tokio::task::spawn_blocking(move || std::fs::write(go, "go\n").unwrap()).await.unwrap();
    world.engine.idle().await;
    assert_eq!(world.jobs(first), "job success");
    // Of the two that came while it ran, the later replaced the earlier.
    let mut others = [world.jobs(second), world.jobs(third)];
    others.sort();
    assert_eq!(others, ["job cancelled", "job success"]);
}

#[tokio::test]
async fn a_waiting_run_shows_who_may_open_it_after_a_re_run_too() {
    let world = on_push("jobs:\n  deploy: {runs-on: x, environment: production, steps: [{run: 'true'}]}\n");
    guarded(&world, 0, &["octocat"]);
    let run = world.pushed().await;
    assert!(world.engine.rerun(run, false, "mona").unwrap_err().contains("already running"));
    world.engine.review(run, &["production".to_owned()], true, "octocat", "");
    world.engine.idle().await;
    assert_eq!(world.jobs(run), "deploy success");
    world.engine.rerun(run, false, "mona").unwrap();
    world.engine.idle().await;
    assert_eq!(world.jobs(run), "deploy waiting");
    assert_eq!(world.engine.pending(run)[0].reviewers, ["octocat"]);
    assert_eq!(world.engine.jobs(run).len(), 2);
}
