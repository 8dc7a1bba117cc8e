//! The id tokens of jobs: issuer metadata, keys, and the claims of a job.

use std::sync::LazyLock;

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use crate::actions::model::{Job, WorkflowRun};
use crate::hub::Hub;
use crate::state::State;

/// Signs id tokens of the fake only; it protects nothing.
const PRIVATE_KEY: &str = include_str!("keys/oidc.test-key.pem");
const KEY_ID: &str = "fake-github-oidc-1";
const THUMBPRINT: &str = "ZmFrZS1naXRodWItb2lkYy0xAAAA";

static KEY: LazyLock<EncodingKey> = LazyLock::new(|| {
    EncodingKey::from_rsa_pem(PRIVATE_KEY.as_bytes())
        .expect("the key file is part of the crate and was made by openssl")
});

pub fn discovery(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}/.well-known/jwks"),
        "subject_types_supported": ["public", "pairwise"],
        "response_types_supported": ["id_token"],
        "claims_supported": [
            "sub", "aud", "exp", "iat", "iss", "jti", "nbf", "ref", "sha", "repository", "repository_id",
            "repository_owner", "repository_owner_id", "enterprise", "enterprise_id", "run_id", "run_number",
            "run_attempt", "actor", "actor_id", "workflow", "workflow_ref", "workflow_sha", "head_ref", "base_ref",
            "event_name", "ref_type", "ref_protected", "environment", "environment_node_id", "job_workflow_ref",
            "job_workflow_sha", "repository_visibility", "runner_environment", "issuer_scope", "check_run_id"
        ],
        "id_token_signing_alg_values_supported": ["RS256"],
        "scopes_supported": ["openid"],
    })
}

pub fn jwks() -> Value {
    let jwk = Jwk::from_encoding_key(&KEY, Algorithm::RS256);
    let Ok(AlgorithmParameters::RSA(rsa)) = jwk.map(|jwk| jwk.algorithm) else { return json!({"keys": []}) };
    json!({"keys": [{
        "kty": "RSA", "alg": "RS256", "use": "sig", "kid": KEY_ID, "x5t": THUMBPRINT, "n": rsa.n, "e": rsa.e,
    }]})
}

impl Hub {
    /// A signed id token of a job, as its own token endpoint gives it.
    pub fn id_token(&self, run: &WorkflowRun, job: &Job, audience: Option<&str>) -> anyhow::Result<String> {
        let claims = claims(&self.lock(), run, job, audience);
        let mut header = Header::new(Algorithm::RS256);
        header.kid = Some(KEY_ID.to_owned());
        header.x5t = Some(THUMBPRINT.to_owned());
        Ok(jsonwebtoken::encode(&header, &claims, &KEY)?)
    }
}

/// The claims of GitHub's documentation: ids and counters are strings, `environment` is there only when named.
pub fn claims(state: &State, run: &WorkflowRun, job: &Job, audience: Option<&str>) -> Value {
    let site = &state.site;
    let (owner, _) = run.repo.split_once('/').unwrap_or((&run.repo, ""));
    let repository = state.repository(&run.repo);
    let account_id = |login: &str| state.account(login).map_or(0, |account| account.id).to_string();
    let issued = state.now().div_euclid(1000);
    let (workflow_path, branch_protected) = (&run.path, true);
    let pull = run.pull_request.and_then(|number| state.pull(&run.repo, number)).map(|(_, pull)| pull);
    let is_pull = run.event == "pull_request";
    let mut claims = json!({
        "jti": uuid::Uuid::new_v4().to_string(),
        "sub": subject(state, run, job),
        "aud": audience.map_or_else(|| format!("{}/{owner}", site.web), str::to_owned),
        "iss": site.oidc_issuer(),
        "ref": run.git_ref,
        "ref_type": if run.git_ref.starts_with("refs/tags/") { "tag" } else { "branch" },
        "ref_protected": branch_protected.to_string(),
        "sha": run.sha,
        "repository": run.repo,
        "repository_id": repository.map_or(0, |repo| repo.id).to_string(),
        "repository_owner": owner,
        "repository_owner_id": account_id(owner),
        "repository_visibility": if repository.is_some_and(|repo| repo.private) { "private" } else { "public" },
        "actor": run.actor,
        "actor_id": account_id(&run.actor),
        "run_id": run.id.to_string(),
        "run_number": run.run_number.to_string(),
        "run_attempt": run.attempt.to_string(),
        "runner_environment": "self-hosted",
        "event_name": run.event,
        "workflow": run.workflow_name,
        "workflow_ref": format!("{}/{workflow_path}@{}", run.repo, run.git_ref),
        "workflow_sha": run.sha,
        "job_workflow_ref": job.job_workflow_ref,
        "job_workflow_sha": job_workflow_sha(state, run, job),
        "check_run_id": job.check_run_id.to_string(),
        "head_ref": if is_pull { pull.map_or("", |pull| &pull.head_branch) } else { "" },
        "base_ref": if is_pull { pull.map_or("", |pull| &pull.base_branch) } else { "" },
        "nbf": issued - 600,
        "iat": issued,
        "exp": issued + 300,
    });
    if let Some(environment) = &job.environment {
        claims["environment"] = json!(environment);
    }
    claims
}

fn job_workflow_sha(state: &State, run: &WorkflowRun, job: &Job) -> String {
    let called = job.job_workflow_ref.split_once('@').and_then(|(path, git_ref)| {
        let mut parts = path.splitn(3, '/');
        let repo = format!("{}/{}", parts.next()?, parts.next()?);
        (repo != run.repo).then(|| state.site.git.resolve(&repo, git_ref))?
    });
    called.unwrap_or_else(|| run.sha.clone())
}

/// `repo:O/R:environment:E`, `repo:O/R:pull_request` or `repo:O/R:ref:REF`, with ids in the immutable form.
fn subject(state: &State, run: &WorkflowRun, job: &Job) -> String {
    let escape = |value: &str| value.replace(':', "%3A");
    let repository = state.repository(&run.repo);
    let repo = match repository.filter(|repo| repo.immutable_subject) {
        None => format!("repo:{}", run.repo),
        Some(repo) => {
            let owner_id = state.account(&repo.owner).map_or(0, |owner| owner.id);
            format!("repo:{}@{owner_id}/{}@{}", repo.owner, repo.name, repo.id)
        }
    };
    let context = match &job.environment {
        Some(environment) => format!("environment:{}", escape(environment)),
        None if run.event == "pull_request" => "pull_request".to_owned(),
        None => format!("ref:{}", escape(&run.git_ref)),
    };
    let keys = repository.map(|repo| repo.subject_claims.as_slice()).unwrap_or_default();
    if keys.is_empty() {
        return format!("{repo}:{context}");
    }
    let part = |key: &String| match key.as_str() {
        "repo" => repo.clone(),
        "context" => context.clone(),
        "job_workflow_ref" => format!("job_workflow_ref:{}", escape(&job.job_workflow_ref)),
        "environment" => format!("environment:{}", escape(job.environment.as_deref().unwrap_or_default())),
        "repository_id" => format!("repository_id:{}", repository.map_or(0, |repo| repo.id)),
        "actor" => format!("actor:{}", run.actor),
        "ref" => format!("ref:{}", run.git_ref),
        "event_name" => format!("event_name:{}", run.event),
        "workflow" => format!("workflow:{}", escape(&run.workflow_name)),
        other => format!("{other}:"),
    };
    keys.iter().map(part).collect::<Vec<_>>().join(":")
}
