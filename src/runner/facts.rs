//! What a job knows of itself: repository, commit, pull request, run (spec 12 §4).

use std::fs;

use serde_json::Value;

use super::environment::Environment;
use super::git::Git;
use super::stop::Stop;
use crate::ids::{RunId, Sha};

/// Most bytes of an event file; GitHub's own limit for payloads is 25 MB.
const EVENT_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Facts of one job or one laptop. Empty texts are facts that nobody knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub is_actions: bool,
    /// `owner/name`.
    pub repo: String,
    /// Host of the repository's GitHub.
    pub host: String,
    pub commit: String,
    /// 0 without one.
    pub pr_number: i64,
    /// Base of the pull request, or what a push began from.
    pub base: String,
    pub default_branch: String,
    /// The run that a dispatch names.
    pub run_id: String,
    pub workflow_run_id: i64,
    pub workflow_run_attempt: u32,
    /// Whether the pull request comes from another repository.
    pub is_fork: bool,
    pub job_url: String,
}

impl Facts {
    /// Gathers them from the environment, the event and git, in this order.
    pub fn gather(env: &Environment, git: &Git) -> Result<Self, Stop> {
        if !env.is_actions() {
            let origin = git.origin();
            let head = git.commit_of("HEAD").ok().flatten().map(|sha| sha.to_string()).unwrap_or_default();
            let (host, repo) =
                origin.map_or(("github.com".to_owned(), String::new()), |(host, repo)| (host, repo.to_string()));
            let default_branch = git.default_branch().unwrap_or_default();
            return Ok(Self { repo, host, commit: head, default_branch, ..Self::default() });
        }
        let event = event(env)?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let from_env = |name: &str| env.get(name).unwrap_or_default().to_owned();

        let is_pull_request = event.get("pull_request").is_some_and(Value::is_object);
        let server = env.get("GITHUB_SERVER_URL").unwrap_or("https://github.com").trim_end_matches('/');
        // Git is asked for what nobody has told, and only then: each question is a process.
        let named = |text: String| Some(text).filter(|text| !text.is_empty());
        let repo = named(from_env("GITHUB_REPOSITORY"))
            .or_else(|| named(text("/repository/full_name")))
            .or_else(|| git.origin().map(|(_, repo)| repo.to_string()))
            .unwrap_or_default();
        let workflow_run_id = from_env("GITHUB_RUN_ID").parse().unwrap_or(0);
        let head_repo = text("/pull_request/head/repo/full_name");
        Ok(Self {
            is_actions: true,
            host: server.split_once("://").map_or(server, |(_, host)| host).to_owned(),
            commit: named(text("/pull_request/head/sha"))
                .or_else(|| named(text("/inputs/sha")))
                .unwrap_or_else(|| from_env("GITHUB_SHA")),
            pr_number: pr_number(env, &event),
            base: named(text("/pull_request/base/sha")).unwrap_or_else(|| pushed_from(text("/before"))),
            default_branch: named(text("/repository/default_branch"))
                .or_else(|| git.default_branch())
                .unwrap_or_default(),
            run_id: text("/inputs/run_id"),
            workflow_run_id,
            workflow_run_attempt: from_env("GITHUB_RUN_ATTEMPT").parse().unwrap_or(1),
            // The repository of a deleted fork is gone from the event.
            is_fork: is_pull_request && !head_repo.eq_ignore_ascii_case(&repo),
            job_url: if workflow_run_id > 0 && !repo.is_empty() {
                format!("{server}/{repo}/actions/runs/{workflow_run_id}")
            } else {
                String::new()
            },
            repo,
        })
    }

    /// The run: the flag, else `STACKORDER_RUN_ID`, else the dispatch.
    pub fn run_id(&self, flag: Option<&str>, env: &Environment) -> Result<Option<RunId>, Stop> {
        let given = [flag, env.get("STACKORDER_RUN_ID"), Some(self.run_id.as_str())];
        match given.into_iter().flatten().map(str::trim).find(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => RunId::parse(text).map(Some).map_err(|error| Stop::failed(format!("--run-id: {error}"))),
        }
    }

    /// The commit as artifact names write it.
    pub fn commit_or_local(&self) -> &str {
        if self.commit.is_empty() { "local" } else { &self.commit }
    }
}

fn event(env: &Environment) -> Result<Value, Stop> {
    let Some(path) = env.get("GITHUB_EVENT_PATH") else { return Ok(Value::Null) };
    let unreadable = |reason: String| Stop::failed(format!("the event file {path} cannot be read: {reason}"));
    let size = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if size > EVENT_BYTES_MAX {
        return Err(unreadable(format!("it has {size} bytes")));
    }
    let bytes = fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))
}

fn pr_number(env: &Environment, event: &Value) -> i64 {
    let of_ref = || {
        let rest = env.get("GITHUB_REF")?.strip_prefix("refs/pull/")?;
        rest.split('/').next()?.parse::<i64>().ok()
    };
    event.pointer("/pull_request/number").and_then(Value::as_i64).or_else(of_ref).filter(|n| *n > 0).unwrap_or(0)
}

/// The first push of a branch begins from nothing, which GitHub writes as zeros.
fn pushed_from(before: String) -> String {
    let is_commit = Sha::parse(&before).is_ok() && before.bytes().any(|byte| byte != b'0');
    if is_commit { before } else { String::new() }
}
