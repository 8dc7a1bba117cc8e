//! Addresses of pages: ours, and GitHub's.

use super::{Context, escape};
use crate::ids::{RepoName, RunId, Sha, StackId};

impl Context {
    /// The page of a run.
    pub(super) fn run_page(&self, id: &RunId) -> String {
        format!("{}/runs/{id}", self.base_url.trim_end_matches('/'))
    }

    /// The page of an Actions run, where its deployments are approved.
    pub(super) fn workflow_run(&self, repo: &RepoName, workflow_run_id: i64) -> String {
        format!("{}/{repo}/actions/runs/{workflow_run_id}", self.web_url.trim_end_matches('/'))
    }

    /// A commit as a link of seven characters.
    pub(super) fn commit_link(&self, repo: &RepoName, sha: &Sha) -> String {
        escape::link(sha.short(), &format!("{}/{repo}/commit/{sha}", self.web_url.trim_end_matches('/')))
    }

    /// A pull request as a link: `#7`.
    pub(super) fn pull_link(&self, repo: &RepoName, number: i64) -> String {
        escape::link(&format!("#{number}"), &format!("{}/{repo}/pull/{number}", self.web_url.trim_end_matches('/')))
    }

    /// A run as a link to its page.
    pub(super) fn run_link(&self, id: &RunId) -> String {
        escape::link("run page", &self.run_page(id))
    }
}

/// The page of a stack.
pub fn stack_page(base_url: &str, id: &StackId) -> String {
    format!("{}/stacks/{id}", base_url.trim_end_matches('/'))
}
