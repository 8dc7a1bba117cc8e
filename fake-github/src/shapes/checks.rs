//! Check runs, check suites and commit statuses.

use serde_json::{Value, json};

use crate::state::State;
use crate::state::checks::{CheckRun, CheckSuite};
use crate::state::repositories::Repository;

use super::{
    integration, iso, iso_or_null, minimal_repository, node_id, pulls_of_commit, repository_url, simple_commit,
};

pub fn check_run(state: &State, run: &CheckRun) -> Value {
    let url = format!("{}/check-runs/{}", repository_url(state, &run.repo), run.id);
    let page = format!("{}/{}/runs/{}", state.site.web, run.repo, run.id);
    let repo = state.repository(&run.repo);
    json!({
        "id": run.id,
        "name": run.name,
        "node_id": node_id("CheckRun", run.id),
        "head_sha": run.head_sha,
        "external_id": run.external_id,
        "url": url,
        "html_url": page,
        "details_url": run.details_url.clone().unwrap_or(page),
        "status": run.status,
        "conclusion": run.conclusion,
        "started_at": iso_or_null(run.started_at),
        "completed_at": iso_or_null(run.completed_at),
        "output": {
            "title": run.title,
            "summary": run.summary,
            "text": run.text,
            "annotations_count": run.annotations.len(),
            "annotations_url": format!("{url}/annotations"),
        },
        "check_suite": {"id": run.suite},
        "app": state.apps.get(&run.app).map(|app| integration(state, app)),
        "pull_requests": repo.map(|repo| pulls_of_commit(state, repo, &run.head_sha)).unwrap_or_default(),
    })
}

pub fn check_suite(state: &State, repo: &Repository, suite: &CheckSuite) -> Value {
    let url = format!("{}/check-suites/{}", repository_url(state, &repo.full_name), suite.id);
    let (status, conclusion) = state.suite_status(suite.id);
    let commit = state.site.git.commit(&repo.full_name, &suite.head_sha);
    json!({
        "id": suite.id,
        "node_id": node_id("CheckSuite", suite.id),
        "head_branch": suite.head_branch,
        "head_sha": suite.head_sha,
        "status": status,
        "conclusion": conclusion,
        "url": url,
        "before": commit.as_ref().and_then(|commit| commit.parents.first().cloned()),
        "after": suite.head_sha,
        "pull_requests": pulls_of_commit(state, repo, &suite.head_sha),
        "app": state.apps.get(&suite.app).map(|app| integration(state, app)),
        "repository": minimal_repository(state, repo),
        "created_at": iso(suite.created_at),
        "updated_at": iso(suite.updated_at),
        "head_commit": commit.map(|commit| simple_commit(&commit)),
        "latest_check_runs_count": state.suite_runs(suite.id).count(),
        "check_runs_url": format!("{url}/check-runs"),
        "rerequestable": true,
        "runs_rerequestable": true,
    })
}
