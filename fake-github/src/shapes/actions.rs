//! Workflow runs, jobs, artifacts, workflows and pending deployments.

use serde_json::{Value, json};

use crate::actions::model::{Artifact, Job, PendingDeployment, Step, WorkflowFacts, WorkflowRun};
use crate::host::{conclusion_name, status_name};
use crate::state::State;
use crate::state::repositories::Repository;

use super::{
    encode, iso, iso_or_null, minimal_pull, minimal_repository, node_id, repository_url, reviewer, simple_commit, user,
};

pub fn workflow_run(state: &State, repo: &Repository, run: &WorkflowRun) -> Value {
    let base = repository_url(state, &repo.full_name);
    let url = format!("{base}/actions/runs/{}", run.id);
    let suite = state
        .check_suites
        .values()
        .find(|suite| suite.repo == repo.full_name && suite.head_sha == run.head_sha)
        .map_or(run.id + 1, |suite| suite.id);
    let pull = run.pull_request.filter(|_| !run.from_fork).and_then(|number| state.pull(&repo.full_name, number));
    let previous = (run.attempt > 1).then(|| format!("{url}/attempts/{}", run.attempt - 1));
    let commit = state.site.git.commit(&repo.full_name, &run.head_sha);
    json!({
        "id": run.id,
        "name": run.workflow_name,
        "node_id": node_id("WorkflowRun", run.id),
        "check_suite_id": suite,
        "check_suite_node_id": node_id("CheckSuite", suite),
        "head_branch": run.head_branch,
        "head_sha": run.head_sha,
        "path": run.path,
        "display_title": run.title,
        "run_number": run.run_number,
        "run_attempt": run.attempt,
        "event": run.event,
        "status": status_name(run.status),
        "conclusion": run.conclusion.map(conclusion_name),
        "workflow_id": run.workflow_id,
        "url": url,
        "html_url": format!("{}/{}/actions/runs/{}", state.site.web, repo.full_name, run.id),
        "pull_requests": pull.map(|(issue, pull)| minimal_pull(state, repo, issue, pull)).into_iter().collect::<Vec<_>>(),
        "created_at": iso(run.created_at),
        "updated_at": iso(run.updated_at),
        "run_started_at": iso(run.started_at),
        "actor": user(state, &run.actor),
        "triggering_actor": user(state, &run.triggering_actor),
        "referenced_workflows": [],
        "jobs_url": format!("{url}/jobs"),
        "logs_url": format!("{url}/logs"),
        "check_suite_url": format!("{base}/check-suites/{suite}"),
        "artifacts_url": format!("{url}/artifacts"),
        "cancel_url": format!("{url}/cancel"),
        "rerun_url": format!("{url}/rerun"),
        "previous_attempt_url": previous,
        "workflow_url": format!("{base}/actions/workflows/{}", run.workflow_id),
        "head_commit": commit.map(|commit| simple_commit(&commit)),
        "repository": minimal_repository(state, repo),
        "head_repository": minimal_repository(state, repo),
    })
}

pub fn job(state: &State, job: &Job) -> Value {
    let base = repository_url(state, &job.repo);
    json!({
        "id": job.id,
        "run_id": job.run_id,
        "workflow_name": job.workflow_name,
        "head_branch": job.head_branch,
        "run_url": format!("{base}/actions/runs/{}", job.run_id),
        "run_attempt": job.attempt,
        "node_id": node_id("Job", job.id),
        "head_sha": job.head_sha,
        "url": format!("{base}/actions/jobs/{}", job.id),
        "html_url": format!("{}/{}/actions/runs/{}/job/{}", state.site.web, job.repo, job.run_id, job.id),
        "status": status_name(job.status),
        "conclusion": job.conclusion.map(conclusion_name),
        "created_at": iso(job.created_at),
        "started_at": iso(job.started_at.unwrap_or(job.created_at)),
        "completed_at": iso_or_null(job.completed_at),
        "name": job.name,
        "steps": job.steps.iter().map(step).collect::<Vec<_>>(),
        "check_run_url": format!("{base}/check-runs/{}", job.check_run_id),
        "labels": ["ubuntu-latest"],
        "runner_id": job.runner_name.as_ref().map(|_| 1),
        "runner_name": job.runner_name,
        "runner_group_id": job.runner_name.as_ref().map(|_| 1),
        "runner_group_name": job.runner_name.as_ref().map(|_| "Default"),
    })
}

fn step(step: &Step) -> Value {
    json!({
        "name": step.name,
        "status": status_name(step.status),
        "conclusion": step.conclusion.map(conclusion_name),
        "number": step.number,
        "started_at": iso_or_null(step.started_at),
        "completed_at": iso_or_null(step.completed_at),
    })
}

pub fn artifact(state: &State, repo: &Repository, run: Option<&WorkflowRun>, artifact: &Artifact) -> Value {
    let url = format!("{}/actions/artifacts/{}", repository_url(state, &artifact.repo), artifact.id);
    json!({
        "id": artifact.id,
        "node_id": node_id("Artifact", artifact.id),
        "name": artifact.name,
        "size_in_bytes": artifact.size_bytes,
        "url": url,
        "archive_download_url": format!("{url}/zip"),
        "expired": artifact.expired || artifact.expires_at <= state.now(),
        "digest": artifact.digest,
        "created_at": iso(artifact.created_at),
        "updated_at": iso(artifact.created_at),
        "expires_at": iso(artifact.expires_at),
        "workflow_run": run.map(|run| json!({
            "id": run.id, "repository_id": repo.id, "head_repository_id": repo.id, "head_branch": run.head_branch,
            "head_sha": run.head_sha,
        })),
    })
}

pub fn workflow(state: &State, repo: &Repository, workflow: &WorkflowFacts) -> Value {
    let page = format!("{}/{}", state.site.web, repo.full_name);
    json!({
        "id": workflow.id,
        "node_id": node_id("Workflow", workflow.id),
        "name": workflow.name,
        "path": workflow.path,
        "state": "active",
        "created_at": iso(repo.created_at),
        "updated_at": iso(repo.created_at),
        "url": format!("{}/actions/workflows/{}", repository_url(state, &repo.full_name), workflow.id),
        "html_url": format!("{page}/blob/{}/{}", repo.default_branch, workflow.path),
        "badge_url": format!("{page}/workflows/{}/badge.svg", encode(&workflow.name)),
    })
}

pub fn pending_deployment(state: &State, repo: &Repository, pending: &PendingDeployment, caller: &str) -> Value {
    let name = &pending.environment;
    let may = pending.reviewers.iter().any(|reviewer| state.is_reviewer(&repo.full_name, reviewer, caller));
    json!({
        "environment": {
            "id": pending.environment_id,
            "node_id": node_id("Environment", pending.environment_id),
            "name": name,
            "url": format!("{}/environments/{}", repository_url(state, &repo.full_name), encode(name)),
            "html_url": format!("{}/{}/settings/environments", state.site.web, repo.full_name),
        },
        "wait_timer": pending.wait_timer_minutes,
        "wait_timer_started_at": iso_or_null(pending.wait_timer_started_at),
        "current_user_can_approve": may,
        "reviewers": pending.reviewers.iter().map(|name| reviewer(state, &repo.owner, name)).collect::<Vec<_>>(),
    })
}
