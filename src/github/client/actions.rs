//! GitHub Actions: dispatches, workflow runs, their jobs, artifacts and waiting environments.

use std::collections::BTreeSet;

use reqwest::Method;
use serde::{Deserialize, Serialize};

use super::GitHubClient;
use super::call::Call;
use super::send::unreadable;
use crate::clock::{MINUTE_MS, Millis, parse_rfc3339, rfc3339};
use crate::github::api::{ArtifactFacts, DispatchRequest, GitHubError, JobFacts, RepoRef, Result, WorkflowRunFacts};
use crate::github::budget::Urgency;
use crate::ids::Sha;

const RUN_WORKFLOW: &str = "stackorder-run.yml";
const PLAN_WORKFLOW: &str = "stackorder-plan.yml";

/// Asks for the id of the new run, and asks again without where a server does not know that wish.
pub(super) async fn dispatch(client: &GitHubClient, repo: &RepoRef, request: &DispatchRequest) -> Result<Option<i64>> {
    /// The id, where GitHub gives it: before 2026, and on older Enterprise Servers, the answer is an empty 204.
    #[derive(Deserialize)]
    struct Started {
        workflow_run_id: i64,
    }
    let wave = format!("wave {} of run {}", request.wave, request.run_id);
    let segments = ["actions", "workflows", RUN_WORKFLOW, "dispatches"];
    let call = client.root.repo_call(Method::POST, repo, &segments, &format!("dispatch of {wave}"))?;
    let call = call.once().urgency(Urgency::Progress);
    let answer = match client.send(&call.clone().json(&Dispatch::of(request, true))).await {
        Err(GitHubError::Permanent { status: 400 | 422, message, .. }) if message.contains("return_run_details") => {
            client.send(&call.json(&Dispatch::of(request, false))).await?
        }
        answer => answer?,
    };
    // The workflow runs already: an unreadable answer only means that it is bound another way.
    Ok(serde_json::from_slice::<Started>(&answer.body).ok().map(|started| started.workflow_run_id))
}

#[derive(Serialize)]
struct Dispatch<'a> {
    r#ref: &'a str,
    inputs: Inputs<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    return_run_details: bool,
}

#[derive(Serialize)]
struct Inputs<'a> {
    run_id: &'a str,
    mode: &'a str,
    wave: &'a str,
    sha: &'a str,
    stacks: &'a str,
}

impl<'a> Dispatch<'a> {
    fn of(request: &'a DispatchRequest, return_run_details: bool) -> Self {
        let DispatchRequest { branch, run_id, mode, wave, sha, stacks } = request;
        Self { r#ref: branch, inputs: Inputs { run_id, mode, wave, sha, stacks }, return_run_details }
    }
}

pub(super) async fn dispatched_runs(
    client: &GitHubClient,
    repo: &RepoRef,
    since: Millis,
) -> Result<Vec<WorkflowRunFacts>> {
    // A whole minute keeps the address, and with it the cached answer, from changing at every poll.
    let minute = since.div_euclid(MINUTE_MS) * MINUTE_MS;
    let call = workflow_runs(client, repo, RUN_WORKFLOW)?
        .query("event", "workflow_dispatch")
        .query("created", &format!(">={}", rfc3339(minute)));
    let mut runs = newest_first(client, call).await?;
    runs.retain(|run| run.created_at >= since);
    Ok(runs)
}

pub(super) async fn plan_runs(client: &GitHubClient, repo: &RepoRef, head: &Sha) -> Result<Vec<WorkflowRunFacts>> {
    newest_first(client, workflow_runs(client, repo, PLAN_WORKFLOW)?.query("head_sha", head.as_str())).await
}

fn workflow_runs(client: &GitHubClient, repo: &RepoRef, workflow: &str) -> Result<Call> {
    let segments = ["actions", "workflows", workflow, "runs"];
    Ok(client.root.repo_call(Method::GET, repo, &segments, &format!("runs of {workflow}"))?.list().conditional())
}

async fn newest_first(client: &GitHubClient, call: Call) -> Result<Vec<WorkflowRunFacts>> {
    #[derive(Deserialize)]
    struct Page {
        workflow_runs: Vec<WorkflowRun>,
    }
    let what = call.what.clone();
    let pages: Vec<Page> = client.pages(call).await?;
    let runs = pages.into_iter().flat_map(|page| page.workflow_runs).map(|run| run.facts(&what));
    let mut runs = runs.collect::<Result<Vec<_>>>()?;
    runs.sort_by_key(|run| std::cmp::Reverse((run.created_at, run.id)));
    Ok(runs)
}

pub(super) async fn workflow_run(client: &GitHubClient, repo: &RepoRef, id: i64) -> Result<WorkflowRunFacts> {
    let what = format!("workflow run {id}");
    let call = client.root.repo_call(Method::GET, repo, &["actions", "runs", &id.to_string()], &what)?;
    client.read::<WorkflowRun>(call).await?.facts(&what)
}

#[derive(Deserialize)]
struct WorkflowRun {
    id: i64,
    run_attempt: Option<u32>,
    display_title: Option<String>,
    name: Option<String>,
    event: String,
    path: Option<String>,
    head_branch: Option<String>,
    head_sha: String,
    status: Option<String>,
    conclusion: Option<String>,
    created_at: String,
}

impl WorkflowRun {
    fn facts(self, what: &str) -> Result<WorkflowRunFacts> {
        let created_at = parse_rfc3339(&self.created_at).ok_or_else(|| unreadable(what, "created_at is no time"))?;
        Ok(WorkflowRunFacts {
            id: self.id,
            attempt: self.run_attempt.unwrap_or(1),
            // Servers before `display_title` show the run-name as the name.
            title: self.display_title.or(self.name).unwrap_or_default(),
            event: self.event,
            path: without_reference(self.path.unwrap_or_default()),
            head_branch: self.head_branch.unwrap_or_default(),
            head_sha: self.head_sha,
            completed: self.status.as_deref() == Some("completed"),
            conclusion: self.conclusion.unwrap_or_default(),
            created_at,
        })
    }
}

/// `.github/workflows/a.yml` from `.github/workflows/a.yml@main`: GitHub gives either.
pub(in crate::github) fn without_reference(mut path: String) -> String {
    path.truncate(path.find('@').unwrap_or(path.len()));
    path
}

/// Two calls would make two attempts, so an unclear answer is not repeated.
pub(super) async fn rerun(client: &GitHubClient, repo: &RepoRef, id: i64) -> Result<()> {
    let call = run_call(client, Method::POST, repo, id, "rerun", "another attempt")?;
    client.tell(call.once().urgency(Urgency::Progress)).await
}

pub(super) async fn jobs(client: &GitHubClient, repo: &RepoRef, id: i64) -> Result<Vec<JobFacts>> {
    #[derive(Deserialize)]
    struct Page {
        jobs: Vec<Job>,
    }
    #[derive(Deserialize)]
    struct Job {
        id: i64,
        name: String,
        status: String,
        html_url: Option<String>,
        /// None or 0 until a runner takes the job. `started_at` is no sign: it is there from the beginning.
        runner_id: Option<i64>,
        #[serde(default)]
        steps: Vec<serde::de::IgnoredAny>,
    }
    let pages: Vec<Page> = client.pages(run_call(client, Method::GET, repo, id, "jobs", "jobs")?.list()).await?;
    let jobs = pages.into_iter().flat_map(|page| page.jobs).map(|job| JobFacts {
        id: job.id,
        name: job.name,
        started: job.runner_id.is_some_and(|id| id > 0) || !job.steps.is_empty() || job.status == "in_progress",
        status: job.status,
        html_url: job.html_url.unwrap_or_default(),
    });
    Ok(jobs.collect())
}

pub(super) async fn artifacts(client: &GitHubClient, repo: &RepoRef, id: i64) -> Result<Vec<ArtifactFacts>> {
    #[derive(Deserialize)]
    struct Page {
        artifacts: Vec<Artifact>,
    }
    #[derive(Deserialize)]
    struct Artifact {
        id: i64,
        name: String,
        expired: bool,
        expires_at: Option<String>,
    }
    let call = run_call(client, Method::GET, repo, id, "artifacts", "artifacts")?.list();
    let pages: Vec<Page> = client.pages(call).await?;
    let artifacts = pages.into_iter().flat_map(|page| page.artifacts).map(|artifact| ArtifactFacts {
        id: artifact.id,
        name: artifact.name,
        expired: artifact.expired,
        expires_at: artifact.expires_at.as_deref().and_then(parse_rfc3339),
    });
    Ok(artifacts.collect())
}

pub(super) async fn pending_deployments(client: &GitHubClient, repo: &RepoRef, id: i64) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Pending {
        environment: Environment,
    }
    #[derive(Deserialize)]
    struct Environment {
        name: Option<String>,
    }
    let call = run_call(client, Method::GET, repo, id, "pending_deployments", "pending deployments")?;
    let pending: Vec<Pending> = client.read(call).await?;
    let names: BTreeSet<String> = pending.into_iter().filter_map(|pending| pending.environment.name).collect();
    Ok(names.into_iter().collect())
}

pub(super) struct ProtectionAnswer<'a> {
    pub environment: &'a str,
    pub approve: bool,
    pub comment: &'a str,
}

/// Answered before, by us or by another rule's refusal, is answered.
pub(super) async fn answer_protection_rule(
    client: &GitHubClient,
    repo: &RepoRef,
    id: i64,
    answer: ProtectionAnswer<'_>,
) -> Result<()> {
    #[derive(Serialize)]
    struct Written<'a> {
        environment_name: &'a str,
        state: &'static str,
        comment: &'a str,
    }
    let state = if answer.approve { "approved" } else { "rejected" };
    let written = Written { environment_name: answer.environment, state, comment: answer.comment };
    let call = run_call(client, Method::POST, repo, id, "deployment_protection_rule", "protection rule")?;
    match client.tell(call.json(&written).urgency(Urgency::Progress)).await {
        Err(GitHubError::Permanent { status: 422, .. }) => Ok(()),
        told => told,
    }
}

fn run_call(client: &GitHubClient, method: Method, repo: &RepoRef, id: i64, tail: &str, what: &str) -> Result<Call> {
    let what = format!("{what} of workflow run {id}");
    client.root.repo_call(method, repo, &["actions", "runs", &id.to_string(), tail], &what)
}
