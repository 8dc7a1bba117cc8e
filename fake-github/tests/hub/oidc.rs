//! Id tokens of jobs, verified as any relying party does.

use std::collections::BTreeMap;

use fake_github::actions::host::Host;
use fake_github::actions::model::{Job, Status, WorkflowRun};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

use crate::world::{REPO, World};

pub fn run(world: &World, event: &str, git_ref: &str) -> WorkflowRun {
    let sha = world.hub.resolve(REPO, "main").unwrap();
    WorkflowRun {
        id: 7001,
        attempt: 1,
        run_number: 3,
        workflow_id: 11,
        repo: REPO.to_owned(),
        path: ".github/workflows/apply.yml".to_owned(),
        workflow_name: "apply".to_owned(),
        title: "apply".to_owned(),
        event: event.to_owned(),
        payload: json!({}),
        head_branch: "main".to_owned(),
        head_sha: sha.clone(),
        git_ref: git_ref.to_owned(),
        sha,
        pull_request: None,
        actor: "alice".to_owned(),
        triggering_actor: "alice".to_owned(),
        inputs: BTreeMap::new(),
        status: Status::InProgress,
        conclusion: None,
        created_at: world.now_s() * 1000,
        started_at: world.now_s() * 1000,
        updated_at: world.now_s() * 1000,
        from_fork: false,
    }
}

pub fn job(run: &WorkflowRun, environment: Option<&str>) -> Job {
    Job {
        id: 7002,
        run_id: run.id,
        attempt: 1,
        repo: REPO.to_owned(),
        name: "apply wave 0 vpc".to_owned(),
        workflow_name: run.workflow_name.clone(),
        head_sha: run.head_sha.clone(),
        head_branch: run.head_branch.clone(),
        environment: environment.map(str::to_owned),
        job_workflow_ref: "acme/actions/.github/workflows/apply.yml@refs/tags/v1".to_owned(),
        permissions: BTreeMap::from([("id-token".to_owned(), "write".to_owned())]),
        status: Status::InProgress,
        conclusion: None,
        created_at: run.created_at,
        started_at: Some(run.created_at),
        completed_at: None,
        steps: Vec::new(),
        check_run_id: 7003,
        runner_name: Some("runner-1".to_owned()),
    }
}

async fn verified(world: &World, token: &str, audience: &str) -> Value {
    let metadata = format!("{}/.well-known/openid-configuration", world.hub.oidc_issuer());
    let metadata = world.call("GET", &metadata, "", None).await.body;
    let keys = world.call("GET", metadata["jwks_uri"].as_str().unwrap(), "", None).await.text;
    let keys: JwkSet = serde_json::from_str(&keys).unwrap();
    let header = jsonwebtoken::decode_header(token).unwrap();
    let key = DecodingKey::from_jwk(keys.find(&header.kid.unwrap()).unwrap()).unwrap();
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_issuer(&[metadata["issuer"].as_str().unwrap()]);
    validation.set_audience(&[audience]);
    // The token's times are those of the fake's clock.
    validation.validate_exp = false;
    jsonwebtoken::decode::<Value>(token, &key, &validation).unwrap().claims
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_s_token_verifies_and_has_the_documented_claims() {
    let world = World::new().await;
    let run = run(&world, "workflow_dispatch", "refs/heads/main");
    let job = job(&run, Some("production:eu"));
    let token = world.hub.id_token(&run, &job, Some("stackorder")).unwrap();
    let claims = verified(&world, &token, "stackorder").await;
    assert_eq!(claims["sub"], "repo:acme/infra:environment:production%3Aeu");
    assert_eq!(claims["environment"], "production:eu");
    assert_eq!(claims["job_workflow_ref"], "acme/actions/.github/workflows/apply.yml@refs/tags/v1");
    assert_eq!((claims["run_id"].as_str(), claims["run_attempt"].as_str()), (Some("7001"), Some("1")));
    assert_eq!((claims["head_ref"].as_str(), claims["base_ref"].as_str()), (Some(""), Some("")));
    let issued = claims["iat"].as_i64().unwrap();
    assert_eq!(issued, world.now_s());
    assert_eq!((claims["nbf"].as_i64(), claims["exp"].as_i64()), (Some(issued - 600), Some(issued + 300)));
    let strings = ["repository_id", "repository_owner_id", "actor_id", "run_number", "check_run_id"];
    assert!(strings.iter().all(|name| claims[*name].is_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_subject_follows_environment_event_ref_and_customisation() {
    let world = World::new().await;
    let subject = |event: &str, git_ref: &str, environment: Option<&str>| {
        let run = run(&world, event, git_ref);
        let token = world.hub.id_token(&run, &job(&run, environment), None).unwrap();
        let claims = jsonwebtoken::dangerous::insecure_decode::<Value>(token).unwrap().claims;
        claims["sub"].as_str().unwrap().to_owned()
    };
    assert_eq!(subject("push", "refs/heads/main", None), "repo:acme/infra:ref:refs/heads/main");
    assert_eq!(subject("pull_request", "refs/pull/1/merge", None), "repo:acme/infra:pull_request");
    assert_eq!(subject("pull_request", "refs/pull/1/merge", Some("dev")), "repo:acme/infra:environment:dev");
    world.hub.set_subject_claims(REPO, &["repo", "context", "job_workflow_ref"]);
    assert_eq!(
        subject("workflow_dispatch", "refs/heads/main", Some("prod")),
        "repo:acme/infra:environment:prod:job_workflow_ref:acme/actions/.github/workflows/apply.yml@refs/tags/v1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_jobs_with_the_permission_get_a_token_endpoint() {
    let world = World::new().await;
    let run = run(&world, "push", "refs/heads/main");
    let mut job = job(&run, None);
    let (url, token) = world.hub.oidc_request(&job).unwrap();
    assert!(url.contains('?'), "runners append the audience with &");
    assert_eq!(world.call("GET", &url, "wrong", None).await.status, 401);
    assert_ne!(token, "");
    job.permissions.clear();
    assert!(world.hub.oidc_request(&job).is_none());
}
