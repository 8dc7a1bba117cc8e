//! The first life: installing, applying, planning a pull request, the gate, waves, merging, and locks.

use anyhow::{Context as _, ensure};

use super::stage::{Stage, statuses, waves};
use crate::demo::laptop::REPOSITORY;
use crate::run::status::{Mode, RowStatus, RunStatus};

/// What must never leave the runner in clear.
const PLANTED_SECRET: &str = "hunter2-correct-horse-battery";
const FIVE: [&str; 5] =
    ["stacks/prod/apps", "stacks/prod/eks", "stacks/prod/vpc", "stacks/staging/apps", "stacks/staging/vpc"];

/// The App is installed, and a first pull request brings the graph.
pub async fn install(stage: &mut Stage) -> anyhow::Result<()> {
    stage.say("the App is installed on acme/infra; a first pull request touches only the README");
    let readme = stage.file("main", "README.md")?;
    let number =
        stage.open("readme", "alice", "Say who owns this", &[("README.md", format!("{readme}\nOwned by acme.\n"))])?;
    let run = stage.planned(number).await?;
    ensure!(
        run.status == RunStatus::Planned && run.stacks.is_empty(),
        "expected nothing affected, got {}",
        statuses(&run)
    );
    stage.approve(number, "bob");
    stage.merge(number, "alice").await?;
    let stacks = stage
        .until("the first graph", || async { stage.stacks().await.ok().filter(|stacks| stacks.len() == 9) })
        .await?;
    stage.say(format!("its merge makes the default-branch graph: {} stacks", stacks.len()));
    Ok(())
}

/// Manual runs with an API key, one lock at a time.
pub async fn bootstrap(stage: &mut Stage) -> anyhow::Result<()> {
    let clone = stage.clone_at("main").await?;
    let order = [
        "stacks/prod/vpc",
        "stacks/prod/eks",
        "stacks/prod/apps",
        "stacks/staging/vpc",
        "stacks/staging/apps",
        "stacks/legacy/dns",
        "infra/kyc:production",
        "infra/kyc:staging",
        "infra/registry:shared",
    ];
    for stack in order {
        let end = stage.cli(&clone, &["apply", "--local", "--stack", stack]).await?;
        ensure!(end.code == 0, "apply --local of {stack} left with {}:\n{}{}", end.code, end.stdout, end.stderr);
    }
    let locks = stage.locks().await?;
    ensure!(locks.is_empty(), "locks stayed after manual runs: {locks:?}");
    let manual = stage.all_runs(Mode::Apply).await?;
    let applied = manual.iter().filter(|run| run.status == RunStatus::Applied).count();
    ensure!(applied == order.len(), "{applied} manual runs ended applied, not {}", order.len());
    stage.say("nine manual runs applied every stack; each took its lock and gave it back");
    Ok(())
}

pub async fn documentation(stage: &mut Stage) -> anyhow::Result<()> {
    let number =
        stage.open("docs", "alice", "Explain the network", &[("docs/network.md", "# Network\n".to_owned())])?;
    let run = stage.planned(number).await?;
    ensure!(run.stacks.is_empty(), "documentation affected {}", statuses(&run));
    let head = stage.head(number)?;
    for name in ["stackorder/resolve", "stackorder/plan", "stackorder/apply"] {
        stage.check(&head, name, "success").await?;
    }
    stage.say("no stack is affected; both required checks are green without any apply");
    stage.merge(number, "alice").await?;
    Ok(())
}

pub async fn plan_module(stage: &mut Stage) -> anyhow::Result<()> {
    let module = stage.edited(
        "main",
        "modules/vpc/main.tf",
        "output \"id\" {",
        "resource \"terraform_data\" \"flow_logs\" {\n  input = {\n    vpc = terraform_data.vpc.id\n  }\n}\n\noutput \"id\" {",
    )?;
    let settings = stage.edited(
        "main",
        "stacks/prod/apps/settings.auto.tfvars",
        "log_level = \"info\"",
        &format!("log_level = \"debug\"\n  db_password = \"{PLANTED_SECRET}\""),
    )?;
    let files = [("modules/vpc/main.tf", module), ("stacks/prod/apps/settings.auto.tfvars", settings)];
    let number = stage.open("flow-logs", "alice", "Add flow logs", &files)?;
    let run = stage.planned(number).await?;
    ensure!(run.status == RunStatus::Planned, "the plan ended {}: {}", run.status, stage.last_logs());
    let expected = [
        vec!["stacks/prod/vpc", "stacks/staging/vpc"],
        vec!["stacks/prod/apps", "stacks/prod/eks", "stacks/staging/apps"],
    ];
    ensure!(waves(&run) == expected, "the waves are {:?}", waves(&run));
    stage.say("five stacks in two waves, each with its own plan check and one comment for all");
    let head = stage.head(number)?;
    for key in FIVE {
        stage.check(&head, &format!("stackorder/plan: {key}"), "success").await?;
    }
    stage.check(&head, "stackorder/plan", "success").await?;
    stage.reply(number, "<!-- stackorder:sticky -->").await?;
    secret_is_nowhere(stage, number, &head)?;
    stage.say("the planted password is redacted in comments, checks and job logs");
    Ok(())
}

/// GitHub's texts, the job logs, and the server's own files.
fn secret_is_nowhere(stage: &Stage, number: i64, head: &str) -> anyhow::Result<()> {
    for text in stage.texts(number, &[head.to_owned()]) {
        ensure!(!text.contains(PLANTED_SECRET), "the planted secret is shown on GitHub: {text}");
    }
    let engine = stage.hub().engine();
    for run in engine.runs(REPOSITORY) {
        for job in engine.jobs(run.id) {
            ensure!(!engine.logs(job.id).contains(PLANTED_SECRET), "the planted secret is in the log of {}", job.name);
        }
    }
    for file in ["server.db", "server.db-wal", "server.log"] {
        if let Ok(bytes) = std::fs::read(stage.laptop.dir().join(file)) {
            let found = bytes.windows(PLANTED_SECRET.len()).any(|window| window == PLANTED_SECRET.as_bytes());
            ensure!(!found, "the planted secret is in {file}");
        }
    }
    Ok(())
}

pub async fn refused(stage: &mut Stage) -> anyhow::Result<()> {
    let number = stage.pulls["flow-logs"];
    let ignored = stage.comment(number, "rita", "stackorder apply");
    stage.apply(number, "carol").await?;
    let reply = stage.reply(number, "**Refused: `stackorder apply`.** Nothing has started.").await?;
    ensure!(reply.contains("- **Layer 2, approvals**"), "the refusal does not name layer 2: {reply}");
    ensure!(reply.contains("has 0 approvals that count"), "the refusal does not say what is missing: {reply}");
    ensure!(stage.runs(number, Mode::Apply).await?.is_empty(), "a refused apply made a run");
    ensure!(stage.locks().await?.is_empty(), "a refused apply took locks");
    ensure!(stage.hub().reactions(ignored).is_empty(), "rita may only read, and got a reaction");
    stage.say("carol is refused, naming layer 2; rita, who may only read, gets no answer");
    Ok(())
}

pub async fn apply(stage: &mut Stage) -> anyhow::Result<()> {
    let number = stage.pulls["flow-logs"];
    stage.approve(number, "bob");
    let known = stage.apply_ids(number).await?;
    let comment = stage.apply(number, "carol").await?;
    let run = stage.new_apply(number, &known).await?;
    let locks = stage.locks().await?;
    ensure!(locks.keys().map(String::as_str).eq(FIVE), "the locks are {locks:?}");
    ensure!(locks.values().all(|holder| *holder == number), "the locks name {locks:?}");
    stage
        .until("one workflow run for each environment of wave 0", || async {
            let title = format!("stackorder apply {} wave 0", run.id);
            let started =
                stage.hub().engine().runs(REPOSITORY).into_iter().filter(|found| found.title == title).count();
            (started == 2).then_some(())
        })
        .await?;
    stage
        .until("eyes and a rocket", || async {
            let reactions: Vec<String> =
                stage.hub().reactions(comment).into_iter().map(|reaction| reaction.content).collect();
            (reactions.contains(&"eyes".to_owned()) && reactions.contains(&"rocket".to_owned())).then_some(())
        })
        .await?;
    stage.say("approved: five locks, and one dispatch for each of the two environments");
    Ok(())
}

pub async fn environments(stage: &mut Stage) -> anyhow::Result<()> {
    let number = stage.pulls["flow-logs"];
    let run = stage.runs(number, Mode::Apply).await?.into_iter().next().context("no apply run")?;
    let waiting = stage.linked_deployment(number, run.id.as_str(), "production").await?;
    stage.row(run.id.as_str(), "stacks/staging/vpc", RowStatus::Applied).await?;
    let now = stage.run(run.id.as_str()).await?;
    let vpc = now.stacks.iter().find(|row| row.key == "stacks/prod/vpc").context("no stacks/prod/vpc")?;
    ensure!(vpc.claimed_at.is_none(), "production was applied without its reviewer");
    stage.say("staging is applied; production waits, and the comment links the deployment to approve");
    stage.approve_deployment(waiting, "production", "bob")?;
    stage.row(run.id.as_str(), "stacks/prod/vpc", RowStatus::Applied).await?;
    Ok(())
}

pub async fn noop_and_merge(stage: &mut Stage) -> anyhow::Result<()> {
    let number = stage.pulls["flow-logs"];
    let run = stage.runs(number, Mode::Apply).await?.into_iter().next().context("no apply run")?;
    let run = stage.approve_until_done(number, run.id.as_str()).await?;
    ensure!(
        run.status == RunStatus::Applied,
        "the apply ended {}: {}\n{}",
        run.status,
        statuses(&run),
        stage.last_logs()
    );
    let of = |key: &str| run.stacks.iter().find(|row| row.key == key).map(|row| row.status);
    ensure!(of("stacks/prod/eks") == Some(RowStatus::Noop), "stacks/prod/eks: {}", statuses(&run));
    ensure!(of("stacks/staging/apps") == Some(RowStatus::Noop), "stacks/staging/apps: {}", statuses(&run));
    ensure!(of("stacks/prod/apps") == Some(RowStatus::Applied), "stacks/prod/apps: {}", statuses(&run));
    stage.say("wave 1 was planned again after wave 0: two no-ops, and the reviewed change of apps applied");
    let head = stage.head(number)?;
    stage.check(&head, "stackorder/apply", "success").await?;
    stage.all_plan_empty(&head, &FIVE).await?;
    secret_is_nowhere(stage, number, &head)?;
    stage.merge(number, "alice").await?;
    stage
        .until("the locks to go", || async { stage.locks().await.ok().filter(std::collections::BTreeMap::is_empty) })
        .await?;
    stage.reply(number, "released").await?;
    stage.say("merged: the locks are released, and a comment lists them");
    Ok(())
}

pub async fn output_change(stage: &mut Stage) -> anyhow::Result<()> {
    let vpc = stage.edited("main", "stacks/prod/vpc/main.tf", "10.10.0.0/16", "10.11.0.0/16")?;
    let number = stage.open("cidr", "alice", "Move production to 10.11", &[("stacks/prod/vpc/main.tf", vpc)])?;
    let plan = stage.planned(number).await?;
    ensure!(
        waves(&plan) == [vec!["stacks/prod/vpc"], vec!["stacks/prod/apps", "stacks/prod/eks"]],
        "the waves are {:?}",
        waves(&plan)
    );
    let head = stage.head(number)?;
    stage.approve(number, "bob");
    stage.apply(number, "carol").await?;
    let first = stage.new_apply(number, &Default::default()).await?;
    let first = stage.approve_until_done(number, first.id.as_str()).await?;
    ensure!(first.status == RunStatus::Applied, "the first apply ended {}: {}", first.status, statuses(&first));
    let apps = first.stacks.iter().find(|row| row.key == "stacks/prod/apps").context("no stacks/prod/apps")?;
    ensure!(apps.status == RowStatus::Skipped, "stacks/prod/apps was planned without a change and is {}", apps.status);
    ensure!(apps.note.contains("changed after stacks/prod/vpc was applied"), "its note is {:?}", apps.note);
    stage.check(&head, "stackorder/apply", "action_required").await?;
    stage.say("apps had an empty plan; after vpc it shows one change nobody reviewed, so it waits");
    let known = stage.apply_ids(number).await?;
    stage.apply(number, "carol").await?;
    let second = stage.new_apply(number, &known).await?;
    let second = stage.approve_until_done(number, second.id.as_str()).await?;
    ensure!(second.status == RunStatus::Applied, "the second apply ended {}: {}", second.status, statuses(&second));
    let carried = second.stacks.iter().find(|row| row.key == "stacks/prod/vpc").context("no stacks/prod/vpc")?;
    ensure!(carried.applied_by_run == Some(first.id.clone()), "vpc was not carried over: {}", statuses(&second));
    stage.check(&head, "stackorder/apply", "success").await?;
    stage.all_plan_empty(&head, &["stacks/prod/vpc", "stacks/prod/eks", "stacks/prod/apps"]).await?;
    stage.say("a second apply carries vpc over and applies apps");
    Ok(())
}

pub async fn locked(stage: &mut Stage) -> anyhow::Result<()> {
    let holder = stage.pulls["cidr"];
    let vpc = stage.edited("main", "stacks/prod/vpc/main.tf", "name    = \"prod\"", "name    = \"production\"")?;
    let number = stage.open("rename", "bob", "Name production in full", &[("stacks/prod/vpc/main.tf", vpc)])?;
    let run = stage.planned(number).await?;
    ensure!(run.status == RunStatus::Planned, "plans go on while a stack is locked, but this ended {}", run.status);
    stage.approve(number, "alice");
    stage.apply(number, "carol").await?;
    let reply = stage.reply(number, "**Refused: `stackorder apply`.**").await?;
    ensure!(
        reply.contains(&format!("#{holder} has held the lock since")),
        "the refusal does not name the holder: {reply}"
    );
    ensure!(stage.runs(number, Mode::Apply).await?.is_empty(), "a refused apply made a run");
    stage.hub().close(REPOSITORY, number, "bob");
    stage.merge(holder, "alice").await?;
    stage
        .until("the locks to go", || async { stage.locks().await.ok().filter(std::collections::BTreeMap::is_empty) })
        .await?;
    stage.say(format!("refused while #{holder} holds the lock; its merge frees the stack"));
    Ok(())
}
