//! What the Actions engine needs of the rest: git, secrets, tokens; and where its changes are told.

use std::collections::BTreeMap;

use serde_json::json;

use crate::actions::host::{Host, JobChange, RepositoryFacts, RunChange};
use crate::actions::model::{Conclusion, Environment, Job, Status, WorkflowRun};
use crate::auth::new_token;
use crate::hub::Hub;
use crate::shapes;
use crate::state::apps::{ACTIONS_APP, ACTIONS_BOT, Grant};
use crate::state::checks::CheckRun;

impl Host for Hub {
    fn now_ms(&self) -> i64 {
        self.site().now()
    }

    fn next_id(&self) -> i64 {
        self.site().next_id()
    }

    fn web_url(&self) -> String {
        self.site().web.clone()
    }

    fn api_url(&self) -> String {
        self.site().api()
    }

    fn clone_url(&self, repo: &str) -> String {
        format!("{}/{repo}.git", self.site().web)
    }

    fn resolve_ref(&self, repo: &str, git_ref: &str) -> Option<String> {
        self.site().git.resolve(repo, git_ref)
    }

    fn full_ref(&self, repo: &str, git_ref: &str) -> Option<String> {
        self.site().git.full_ref(repo, git_ref)
    }

    fn read_file(&self, repo: &str, commit: &str, path: &str) -> Option<Vec<u8>> {
        self.site().git.read_file(repo, commit, path)
    }

    fn list_dir(&self, repo: &str, commit: &str, path: &str) -> Vec<String> {
        let entries = self.site().git.tree(repo, commit, path, false);
        let files = entries.into_iter().filter(|entry| entry.kind == "blob");
        files.filter_map(|entry| entry.path.rsplit('/').next().map(str::to_owned)).collect()
    }

    fn repository(&self, repo: &str) -> Option<RepositoryFacts> {
        let state = self.lock();
        let found = state.repository(repo)?;
        Some(RepositoryFacts {
            id: found.id,
            owner: found.owner.clone(),
            owner_id: state.account(&found.owner).map_or(0, |owner| owner.id),
            private: found.private,
            default_branch: found.default_branch.clone(),
            json: shapes::repository(&state, found),
        })
    }

    fn environment(&self, repo: &str, name: &str) -> Environment {
        self.act(|state| state.environment_or_new(repo, name))
    }

    fn variables(&self, repo: &str, environment: Option<&str>) -> BTreeMap<String, String> {
        self.lock().repository(repo).map(|found| found.variables.effective(environment)).unwrap_or_default()
    }

    fn secrets(&self, repo: &str, environment: Option<&str>) -> BTreeMap<String, String> {
        self.lock().repository(repo).map(|found| found.secrets.effective(environment)).unwrap_or_default()
    }

    fn environment_secrets(&self, repo: &str, environment: &str) -> BTreeMap<String, String> {
        let state = self.lock();
        let Some(found) = state.repository(repo) else { return BTreeMap::new() };
        let own = found.secrets.environments.iter().filter(|(name, _)| name.eq_ignore_ascii_case(environment));
        own.flat_map(|(_, values)| values.clone()).collect()
    }

    fn changed_files(&self, repo: &str, base: &str, head: &str) -> Option<Vec<String>> {
        let git = &self.site().git;
        let base = if base == crate::git::NO_COMMIT { base.to_owned() } else { git.resolve(repo, base)? };
        Some(git.diff(repo, &base, head).into_iter().map(|change| change.path).collect())
    }

    fn job_token(&self, job: &Job) -> String {
        let grant =
            Grant::Job { job: job.id, run: job.run_id, repo: job.repo.clone(), permissions: job.permissions.clone() };
        let token = new_token("ghs");
        self.act(|state| state.tokens.insert(token.clone(), grant));
        token
    }

    fn oidc_request(&self, job: &Job) -> Option<(String, String)> {
        if job.permissions.get("id-token").map(String::as_str) != Some("write") {
            return None;
        }
        let token = new_token("idt");
        self.act(|state| state.tokens.insert(token.clone(), Grant::IdToken { job: job.id, run: job.run_id }));
        let url = format!("{}/_services/id-token/{}/{}?api-version=2.0", self.site().web, job.run_id, job.id);
        Some((url, token))
    }

    fn run_changed(&self, run: &WorkflowRun, change: RunChange) {
        let action = match change {
            RunChange::Requested => "requested",
            RunChange::InProgress => "in_progress",
            RunChange::Completed => "completed",
        };
        self.act(|state| state.emit_workflow_run(run, action));
    }

    fn job_changed(&self, run: &WorkflowRun, job: &Job, change: JobChange) {
        if change == JobChange::Completed {
            self.journal_job(job, "job_end");
        }
        self.act(|state| {
            if change == JobChange::Completed {
                state.tokens.retain(|_, grant| !is_token_of(grant, job.id));
            }
            let check = check_run_of(state, job);
            let id = check.id;
            let created = state.check_runs.insert(id, check).is_none();
            if created {
                state.emit_check_run(id, "created", ACTIONS_BOT);
            }
            if change == JobChange::Completed {
                state.emit_check_run(id, "completed", ACTIONS_BOT);
            }
            let action = match change {
                JobChange::Queued => "queued",
                JobChange::Waiting => "waiting",
                JobChange::InProgress => "in_progress",
                JobChange::Completed => "completed",
                JobChange::Progress => return,
            };
            state.emit_workflow_job(run, job, action);
            if change == JobChange::Waiting {
                state.emit_protection_rule(run, job);
            }
        });
        if change == JobChange::InProgress {
            self.journal_job(job, "job_start");
        }
    }
}

impl Hub {
    fn journal_job(&self, job: &Job, kind: &str) {
        let members = json!({
            "repository": job.repo, "run_id": job.run_id, "attempt": job.attempt, "job_id": job.id, "name": job.name,
            "environment": job.environment, "conclusion": job.conclusion,
        });
        self.journal.write(self.site().now(), kind, members);
    }
}

fn is_token_of(grant: &Grant, wanted: i64) -> bool {
    match grant {
        Grant::Job { job, .. } | Grant::IdToken { job, .. } => *job == wanted,
        Grant::Installation { .. } | Grant::User { .. } => false,
    }
}

/// Every job is a check run of the Actions app.
fn check_run_of(state: &mut crate::state::State, job: &Job) -> CheckRun {
    let suite = state.check_suite(&job.repo, ACTIONS_APP, &job.head_sha, Some(&job.head_branch));
    CheckRun {
        id: job.check_run_id,
        repo: job.repo.clone(),
        suite,
        app: ACTIONS_APP,
        name: job.name.clone(),
        head_sha: job.head_sha.clone(),
        status: status_name(job.status).to_owned(),
        conclusion: job.conclusion.map(|conclusion| conclusion_name(conclusion).to_owned()),
        external_id: job.id.to_string(),
        details_url: Some(format!("{}/{}/actions/runs/{}/job/{}", state.site.web, job.repo, job.run_id, job.id)),
        started_at: job.started_at.or(Some(job.created_at)),
        completed_at: job.completed_at,
        title: None,
        summary: None,
        text: None,
        annotations: Vec::new(),
    }
}

pub fn status_name(status: Status) -> &'static str {
    match status {
        Status::Queued => "queued",
        Status::Waiting => "waiting",
        Status::Pending => "pending",
        Status::InProgress => "in_progress",
        Status::Completed => "completed",
    }
}

pub fn conclusion_name(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Success => "success",
        Conclusion::Failure => "failure",
        Conclusion::Cancelled => "cancelled",
        Conclusion::Skipped => "skipped",
        Conclusion::TimedOut => "timed_out",
        Conclusion::StartupFailure => "startup_failure",
    }
}
