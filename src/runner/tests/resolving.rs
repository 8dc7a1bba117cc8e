//! `resolve`, `affected`, `explain`.

use serde_json::json;

use super::world::{RUN_ID, World};
use crate::runner::affected::{affected, affected_until};
use crate::runner::explain::explain;
use crate::runner::resolve::Until;
use crate::runner::resolve::{AskedFor, resolve};
use crate::runner::server::RETRY_DELAYS;
use crate::runner::stop::Stop;
use crate::scan::Files;
use crate::scan::tests::sample::sample;

/// The sample repository on `main`, and a branch with one changed file.
async fn sample_with(changed: &str) -> World {
    let mut world = World::new().await;
    std::fs::remove_dir_all(world.root.join("stacks")).unwrap();
    let files = sample();
    for entry in files.list().iter() {
        let content = String::from_utf8(files.read(&entry.path).unwrap()).unwrap();
        world.write(&entry.path, &content);
    }
    world.commit();
    world.git(&["checkout", "-q", "-b", "change"]);
    let path = world.root.join(changed);
    let before = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, format!("{before}\n")).unwrap();
    let base = world.git(&["rev-parse", "main"]);
    world.commit();
    world.set("STACKORDER_POLICY_SHA", &base);
    world
}

fn rows(world: &World) -> Vec<String> {
    let found = affected(&world.local_job(), Some("main")).unwrap();
    let row = |stack: &crate::graph::resolution::AffectedStack| {
        let reasons: Vec<_> = stack.reasons.iter().map(|reason| reason.as_str()).collect();
        format!("{} {} {} {}", stack.wave, stack.key, reasons.join(","), stack.environment)
    };
    found.resolution.affected.iter().map(row).collect()
}

/// Spec 32 §2.1, first row.
#[tokio::test]
async fn a_changed_module_reaches_its_users_and_those_who_come_after_them() {
    let world = sample_with("modules/vpc/main.tf").await;
    assert_eq!(
        rows(&world),
        [
            "0 stacks/prod/vpc module production",
            "0 stacks/staging/vpc module staging",
            "1 stacks/prod/apps reads_state production",
            "1 stacks/prod/eks dependent production",
            "1 stacks/staging/apps dependent staging",
        ]
    );
}

#[tokio::test]
async fn an_explanation_leads_from_the_changed_file_to_the_stack() {
    let world = sample_with("modules/common/main.tf").await;
    let found = affected(&world.local_job(), Some("main")).unwrap();
    let explanation = explain(&found, "stacks/prod/eks").unwrap();
    let chain: Vec<String> =
        explanation.because[0].chain.iter().map(|step| format!("{} {} {}", step.from, step.by, step.to)).collect();
    assert_eq!(
        chain,
        [
            "modules/common/main.tf changed acme/infra//modules/common",
            "acme/infra//modules/common uses_module acme/infra//modules/eks",
            "acme/infra//modules/eks uses_module stacks/prod/eks",
        ]
    );
    assert_eq!(explain(&found, "stacks/legacy/dns").unwrap().wave, None);
    assert!(matches!(explain(&found, "stacks/nowhere"), Err(Stop::Failed(_))));
}

#[tokio::test]
async fn a_removed_stack_is_listed_with_its_state_and_where_it_went() {
    let mut world = sample_with("README.md").await;
    world.git(&["mv", "stacks/legacy/dns", "stacks/legacy/names"]);
    world.commit();
    world.set("STACKORDER_POLICY_SHA", &world.git(&["rev-parse", "main"]));
    let found = affected(&world.local_job(), Some("main")).unwrap();
    assert!(found.is_any());
    let removed = &found.resolution.removed;
    assert_eq!((removed.len(), removed[0].key.as_str()), (1, "stacks/legacy/dns"));
    assert_eq!(removed[0].state, "s3://stackorder-example-state/legacy/dns.tfstate");
    assert_eq!(removed[0].renamed_to, "stacks/legacy/names");
}

#[tokio::test]
async fn changed_settings_and_hooks_are_facts_of_the_base() {
    let mut world = sample_with("README.md").await;
    world.write_hook("pre-plan", "true\n");
    world.commit();
    let found = affected(&world.local_job(), Some("main")).unwrap();
    assert_eq!(found.change.base.settings.len(), 9);
    assert_eq!(found.resolution.affected.len(), 9);
}

#[tokio::test]
async fn edits_count_when_they_are_asked_for() {
    let world = sample_with("stacks/prod/vpc/main.tf").await;
    world.write("stacks/prod/apps/new.tf", "locals {}\n");
    std::fs::remove_dir_all(world.root.join("stacks/staging/apps")).unwrap();
    let reached = |until| {
        let found = affected_until(&world.local_job(), Some("HEAD"), until).unwrap();
        let stacks = found.resolution.affected.iter().map(|stack| stack.key.clone());
        let removed = found.resolution.removed.iter().map(|stack| format!("removed {}", stack.key));
        stacks.chain(removed).collect::<Vec<_>>()
    };
    assert_eq!(reached(Until::Head), Vec::<String>::new());
    assert!(world.printed().contains("without --working-tree"), "{}", world.printed());
    let with_edits = reached(Until::WorkingTree);
    assert!(with_edits.contains(&"stacks/prod/apps".to_owned()), "{with_edits:?}");
    assert!(with_edits.contains(&"removed stacks/staging/apps".to_owned()), "{with_edits:?}");
}

#[tokio::test]
async fn a_scan_that_remembers_says_the_same_after_every_edit() {
    let mut world = sample_with("stacks/prod/vpc/main.tf").await;
    let remembering = |world: &World, base: &str| {
        let plain = affected(&world.local_job(), Some(base)).unwrap();
        let mut job = world.local_job();
        job.env = job.env.with(crate::runner::SCAN_CACHE, ".git/scan-cache");
        let remembered = affected(&job, Some(base)).unwrap();
        assert_eq!(remembered.graph(), plain.graph());
        assert_eq!(remembered.resolution, plain.resolution);
    };
    remembering(&world, "main");
    let kept = std::fs::read_to_string(world.root.join(".git/scan-cache/files")).unwrap();
    remembering(&world, "main");
    assert_eq!(std::fs::read_to_string(world.root.join(".git/scan-cache/files")).unwrap(), kept);
    world.write("stacks/prod/vpc/main.tf", "terraform {\n  backend \"s3\" {\n    bucket = \"other\"\n  }\n}\n");
    remembering(&world, "main");
    world.commit();
    remembering(&world, "main");
    std::fs::remove_dir_all(world.root.join("stacks/prod/apps")).unwrap();
    world.commit();
    remembering(&world, "main");
}

#[tokio::test]
async fn a_missing_base_says_what_to_do() {
    let mut world = World::new().await;
    world.set("STACKORDER_POLICY_SHA", "");
    let hint = |base: Option<&str>| match affected(&world.local_job(), base) {
        Err(Stop::Failed(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(hint(None).contains("pass --base"));
    assert!(hint(Some("nowhere")).contains("fetch it, or pass another --base"));
    assert!(hint(Some("--output=x")).contains("not a git revision"));
}

#[tokio::test]
async fn resolve_registers_the_run_and_writes_what_the_server_says() {
    let world = sample_with("modules/vpc/main.tf").await;
    let head = world.git(&["rev-parse", "HEAD"]);
    let base = world.git(&["rev-parse", "main"]);
    world.set_event(&json!({
        "pull_request": {"number": 7, "head": {"sha": head, "repo": {"full_name": "acme/infra"}}, "base": {"sha": base}},
        "repository": {"full_name": "acme/infra", "default_branch": "main"},
    }));
    world.answer("/v1/runs", 201, json!({"run_id": RUN_ID, "status": "pending", "existing": false})).await;
    let resolution = json!({
        "run_id": RUN_ID, "waves": [["stacks/prod/vpc"]], "cached": false,
        "affected": [{"key": "stacks/prod/vpc", "path": "stacks/prod/vpc", "wave": 0, "reasons": ["module"]}],
        "matrix": {"include": [{"stack": "stacks/prod/vpc", "key": "stacks/prod/vpc", "wave": 0}]},
    });
    world.answer(&format!("/v1/runs/{RUN_ID}/graph"), 200, resolution).await;

    resolve(&world.job(), &AskedFor::default()).await.unwrap();

    let created = &world.posted("/v1/runs").await[0];
    assert_eq!((&created["pr_number"], &created["sha"], &created["base_sha"]), (&json!(7), &json!(head), &json!(base)));
    let uploaded = &world.posted(&format!("/v1/runs/{RUN_ID}/graph")).await[0];
    assert_eq!(uploaded["changed_paths"], json!(["modules/vpc/main.tf"]));
    assert_eq!(uploaded["graph"]["stacks"].as_array().unwrap().len(), 9);
    assert_eq!(world.output("run-id").as_deref(), Some(RUN_ID));
    assert_eq!(world.output("count").as_deref(), Some("1"));
    assert_eq!(world.output("waves").as_deref(), Some("[[\"stacks/prod/vpc\"]]"));
    assert_eq!(world.output("unconfirmed").as_deref(), Some("false"));
}

#[tokio::test]
async fn failure_03_while_the_server_is_unreachable_the_set_is_worked_out_here_and_no_roll_up_is_posted() {
    let world = sample_with("modules/vpc/main.tf").await;
    let (head, base) = (world.git(&["rev-parse", "HEAD"]), world.git(&["rev-parse", "main"]));
    world.set_event(&json!({
        "pull_request": {"number": 7, "head": {"sha": head, "repo": {"full_name": "acme/infra"}}, "base": {"sha": base}},
        "repository": {"full_name": "acme/infra", "default_branch": "main"},
    }));
    world.answer("/v1/runs", 503, json!({})).await;
    world.answer("/repos/acme/infra/check-runs", 201, json!({})).await;

    let resolution = resolve(&world.job(), &AskedFor::default()).await.unwrap();

    assert!(resolution.unconfirmed);
    assert_eq!((world.output("count").as_deref(), world.output("run-id").as_deref()), (Some("5"), Some("")));
    assert_eq!(world.output("unconfirmed").as_deref(), Some("true"));
    assert!(world.printed().contains("::warning::stackorder/resolve: unconfirmed"), "{}", world.printed());
    let checks = world.posted("/repos/acme/infra/check-runs").await;
    let made: Vec<_> = checks.iter().map(|check| (&check["name"], &check["conclusion"])).collect();
    assert_eq!(made, [(&json!("stackorder/resolve"), &json!("neutral"))]);

    let seconds: Vec<f64> = RETRY_DELAYS.iter().map(|delay| delay.as_secs_f64()).collect();
    assert_eq!(seconds, [0.2, 0.8, 2.0]);
    assert_eq!(
        world.posted("/v1/runs").await.len(),
        2,
        "one attempt and one for each wait, of which there is one here"
    );
}

#[tokio::test]
async fn resolve_without_a_server_gives_the_same_set_unconfirmed() {
    let world = sample_with("modules/vpc/main.tf").await;
    let asked = AskedFor { base: Some("main".to_owned()), ..AskedFor::default() };
    let resolution = resolve(&world.local_job(), &asked).await.unwrap();
    assert!(resolution.unconfirmed);
    assert_eq!(world.output("count").as_deref(), Some("5"));
    assert_eq!(world.output("run-id").as_deref(), Some(""));
}

#[tokio::test]
async fn a_pull_request_cannot_take_stacks_out_of_its_own_plan() {
    let mut world = sample_with("modules/vpc/main.tf").await;
    let base = world.git(&["rev-parse", "main"]);
    let config = std::fs::read_to_string(world.root.join("stackorder.yaml")).unwrap();
    world.write(
        "stackorder.yaml",
        &config.replace("discover: [\"stacks/**\"", "exclude: [\"stacks/staging/**\"]\n  discover: [\"stacks/**\""),
    );
    world.commit();
    world.set("STACKORDER_POLICY_SHA", &base);
    let keys: Vec<String> = rows(&world);
    assert!(keys.iter().any(|row| row.contains("stacks/staging/vpc")), "{keys:?}");
}

#[tokio::test]
async fn a_fork_plans_nothing_and_asks_nobody() {
    let world = World::new().await;
    world.set_event(&json!({
        "pull_request": {"number": 7, "head": {"sha": "x", "repo": {"full_name": "mallory/infra"}}, "base": {"sha": "y"}},
        "repository": {"full_name": "acme/infra", "default_branch": "main"},
    }));
    let resolution = resolve(&world.job(), &AskedFor::default()).await.unwrap();
    assert!(resolution.unconfirmed && resolution.affected.is_empty());
    assert_eq!(world.output("matrix").as_deref(), Some("{\"include\":[]}"));
    assert!(world.server.received_requests().await.unwrap().is_empty());
}
