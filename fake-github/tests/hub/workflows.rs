//! Workflows started by people and apps, as the API, the webhooks and the pages show them.

use std::collections::BTreeSet;
use std::time::Duration;

use fake_github::actions::model::Environment;
use serde_json::{Value, json};

use crate::schema::{assert_answer, assert_payload};
use crate::world::{REPO, Received, World};

const PULL: &str = "\
name: pull
on: pull_request
jobs:
  plan:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: cat vpc/main.tf
";

const APPLY: &str = "\
name: apply
run-name: apply ${{ inputs.stack }}
on:
  workflow_dispatch:
    inputs:
      stack:
        required: true
        type: string
permissions:
  id-token: write
  contents: read
jobs:
  apply:
    runs-on: ubuntu-latest
    environment: production
    steps:
      - run: |
          curl --noproxy '*' -sSf -H \"Authorization: bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN\" \
            \"$ACTIONS_ID_TOKEN_REQUEST_URL&audience=test\" | cut -c1-10
          echo applied
";

async fn settled(world: &World) -> Vec<Received> {
    world.received().await
}

fn reads(token: &str, path: String) -> (String, String) {
    (token.to_owned(), path)
}

async fn assert_read(world: &World, operation: &str, (token, path): (String, String)) -> Value {
    let answer = world.call("GET", &path, &token, None).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    assert_answer(&format!("GET /repos/{{owner}}/{{repo}}/actions{operation}"), 200, &answer.body);
    answer.body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_runs_its_workflow_and_shows_it_as_a_check() {
    let world = World::new().await;
    world.commit("main", "Add a workflow", &[(".github/workflows/pull.yml", PULL)]);
    world.pull_request();
    let received = settled(&world).await;
    let names: BTreeSet<String> = received.iter().map(Received::name).collect();
    for delivery in &received {
        assert_payload(delivery.event(), &delivery.payload());
    }
    for event in ["workflow_run.requested", "workflow_run.completed", "workflow_job.queued", "workflow_job.completed"] {
        assert!(names.contains(event), "no {event} among {names:?}");
    }
    let head = world.hub.resolve(REPO, "topic").unwrap();
    let checks = world.hub.check_runs(REPO, &head);
    assert_eq!(checks.len(), 1);
    assert_eq!((checks[0].name.as_str(), checks[0].conclusion.as_deref()), ("plan", Some("success")));
    let job = checks[0].external_id.parse().unwrap();
    assert!(world.hub.engine().logs(job).contains("# a bigger vpc"), "the job's token fetched the test merge");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatched_apply_waits_for_its_reviewer_and_then_gets_an_id_token() {
    let world = World::new().await;
    world.commit("main", "Add a workflow", &[(".github/workflows/apply.yml", APPLY)]);
    let reviewers = vec!["platform".to_owned()];
    world.hub.set_environment(REPO, Environment { name: "production".to_owned(), reviewers, ..Environment::default() });
    let token = world.installation_token().await;
    let path = format!("/repos/{REPO}/actions/workflows/apply.yml/dispatches");
    let body = json!({"ref": "main", "inputs": {"stack": "vpc"}, "return_run_details": true});
    let answer = world.call("POST", &path, &token, Some(body.clone())).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_answer("POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches", 200, &answer.body);
    let run = answer.body["workflow_run_id"].as_i64().unwrap();
    settled(&world).await;

    let own = format!("/repos/{REPO}/actions/runs/{run}");
    let pending = format!("{own}/pending_deployments");
    let held = assert_read(&world, "/runs/{run_id}/pending_deployments", reads(&token, pending.clone())).await;
    assert_eq!(
        (held[0]["environment"]["name"].as_str(), held[0]["current_user_can_approve"].as_bool()),
        (Some("production"), Some(false))
    );
    let approve = json!({"environment_ids": [held[0]["environment"]["id"]], "state": "approved", "comment": "go"});
    assert_eq!(world.call("POST", &pending, &token, Some(approve.clone())).await.status, 403, "no app may approve");
    assert!(world.hub.approve_deployments(REPO, run, "production", "bob").is_err());
    let alice = world.hub.user_token("alice");
    assert_eq!(world.call("POST", &pending, &alice, Some(approve)).await.status, 200);
    let received = settled(&world).await;
    for delivery in &received {
        assert_payload(delivery.event(), &delivery.payload());
    }

    let shown = assert_read(&world, "/runs/{run_id}", reads(&token, own.clone())).await;
    assert_eq!((shown["display_title"].as_str(), shown["conclusion"].as_str()), (Some("apply vpc"), Some("success")));
    let jobs = assert_read(&world, "/runs/{run_id}/jobs", reads(&token, format!("{own}/jobs"))).await;
    let job = jobs["jobs"][0]["id"].as_i64().unwrap();
    let log = world.hub.engine().logs(job);
    assert!(log.contains("applied") && log.contains("{\"count\":"), "no id token in {log}");
    assert_read(&world, "/jobs/{job_id}", reads(&token, format!("/repos/{REPO}/actions/jobs/{job}"))).await;
    assert_read(&world, "/runs/{run_id}/artifacts", reads(&token, format!("{own}/artifacts"))).await;
    assert_read(&world, "/runs/{run_id}/attempts/{attempt_number}", reads(&token, format!("{own}/attempts/1"))).await;
    assert_read(&world, "/workflows", reads(&token, format!("/repos/{REPO}/actions/workflows"))).await;
    let since = format!(
        "/repos/{REPO}/actions/workflows/apply.yml/runs?event=workflow_dispatch&created=>=2026-11-29T11:59:00Z"
    );
    let listed = assert_read(&world, "/workflows/{workflow_id}/runs", reads(&token, since)).await;
    assert_eq!(listed["total_count"], 1);

    let without = json!({"ref": "main", "inputs": {"stack": "vpc"}});
    assert_eq!(world.call("POST", &path, &token, Some(without)).await.status, 204);
    let missing = world.call("POST", &path, &token, Some(json!({"ref": "main"}))).await;
    assert_eq!((missing.status, missing.body["message"].as_str()), (422, Some("Required input 'stack' not provided")));
    tokio::time::timeout(Duration::from_secs(30), world.hub.idle()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_s_protection_rule_is_asked_once_and_its_answer_counts() {
    let world = World::new().await;
    world.commit("main", "Add a workflow", &[(".github/workflows/apply.yml", APPLY)]);
    world.hub.set_environment(
        REPO,
        Environment { name: "production".to_owned(), protection_rule_app: true, ..Environment::default() },
    );
    let token = world.installation_token().await;
    let path = format!("/repos/{REPO}/actions/workflows/apply.yml/dispatches");
    let body = json!({"ref": "main", "inputs": {"stack": "vpc"}, "return_run_details": true});
    let run = world.call("POST", &path, &token, Some(body)).await.body["workflow_run_id"].as_i64().unwrap();
    let received = settled(&world).await;
    let asked: Vec<Value> = received
        .iter()
        .filter(|delivery| delivery.event() == "deployment_protection_rule")
        .map(Received::payload)
        .collect();
    assert_eq!(asked.len(), 1);
    assert_payload("deployment_protection_rule", &asked[0]);
    let callback = asked[0]["deployment_callback_url"].as_str().unwrap().to_owned();
    let long = json!({"environment_name": "production", "state": "approved", "comment": "x".repeat(1025)});
    assert_eq!(world.call("POST", &callback, &token, Some(long)).await.status, 422, "it says too much");
    let answer = json!({"environment_name": "production", "state": "rejected", "comment": "not planned"});
    assert_eq!(world.call("POST", &callback, &token, Some(answer.clone())).await.status, 204);
    assert_eq!(world.call("POST", &callback, &token, Some(answer)).await.status, 422, "it was answered already");
    settled(&world).await;
    assert_eq!(world.hub.engine().run(run).unwrap().conclusion, Some(fake_github::actions::model::Conclusion::Failure));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_on_all_repositories_hears_of_a_new_one() {
    let world = World::new().await;
    world.hub.create_repository("acme/modules", fake_github::RepositorySetup::default()).unwrap();
    let received = settled(&world).await;
    let added = received.iter().find(|delivery| delivery.name() == "installation_repositories.added").unwrap();
    assert_payload("installation_repositories", &added.payload());
    assert_eq!(added.payload()["repositories_added"][0]["full_name"], "acme/modules");
}
