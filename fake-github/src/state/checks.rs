//! Check suites and check runs: one suite per app and commit, runs with any name inside it.

use serde_json::Value;

use super::State;

#[derive(Debug, Clone)]
pub struct CheckSuite {
    pub id: i64,
    pub repo: String,
    pub app: i64,
    pub head_sha: String,
    pub head_branch: Option<String>,
    pub created_at: i64,
    pub updated_at: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CheckRun {
    pub id: i64,
    pub repo: String,
    pub suite: i64,
    pub app: i64,
    pub name: String,
    pub head_sha: String,
    /// `queued`, `in_progress`, `completed`, `waiting`, …
    pub status: String,
    pub conclusion: Option<String>,
    pub external_id: String,
    pub details_url: Option<String>,
    pub started_at: Option<i64>,
    pub completed_at: Option<i64>,
    pub title: Option<String>,
    pub summary: Option<String>,
    pub text: Option<String>,
    pub annotations: Vec<Value>,
}

impl State {
    /// The suite of an app at a commit, made on first use.
    pub fn check_suite(&mut self, repo: &str, app: i64, head_sha: &str, head_branch: Option<&str>) -> i64 {
        let found = self
            .check_suites
            .values()
            .find(|suite| suite.repo == repo && suite.app == app && suite.head_sha == head_sha);
        if let Some(suite) = found {
            return suite.id;
        }
        let now = self.now();
        let suite = CheckSuite {
            id: self.next_id(),
            repo: repo.to_owned(),
            app,
            head_sha: head_sha.to_owned(),
            head_branch: head_branch.map(str::to_owned),
            created_at: now,
            updated_at: now,
        };
        let id = suite.id;
        self.check_suites.insert(id, suite);
        id
    }

    pub fn suite_runs(&self, suite: i64) -> impl Iterator<Item = &CheckRun> {
        self.check_runs.values().filter(move |run| run.suite == suite)
    }

    /// The newest run of each name and app at a commit, as `filter=latest` shows them.
    pub fn latest_check_runs(&self, repo: &str, sha: &str) -> Vec<&CheckRun> {
        let mut latest = std::collections::BTreeMap::new();
        for run in self.check_runs.values().filter(|run| run.repo == repo && run.head_sha == sha) {
            latest.insert((run.app, run.name.as_str()), run);
        }
        let mut runs: Vec<_> = latest.into_values().collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run.id));
        runs
    }

    /// `queued`, `in_progress` or `completed`, and the worst conclusion.
    pub fn suite_status(&self, suite: i64) -> (&'static str, Option<String>) {
        let runs: Vec<_> = self.suite_runs(suite).collect();
        if runs.is_empty() {
            return ("queued", None);
        }
        if runs.iter().any(|run| run.status != "completed") {
            let started = runs.iter().any(|run| run.status == "in_progress" || run.status == "completed");
            return (if started { "in_progress" } else { "queued" }, None);
        }
        let worst =
            runs.iter().filter_map(|run| run.conclusion.as_deref()).max_by_key(|conclusion| badness(conclusion));
        ("completed", worst.map(str::to_owned))
    }
}

fn badness(conclusion: &str) -> u8 {
    match conclusion {
        "success" => 1,
        "skipped" | "neutral" => 0,
        "stale" => 2,
        "cancelled" => 3,
        "timed_out" => 4,
        "action_required" => 5,
        _ => 6,
    }
}
