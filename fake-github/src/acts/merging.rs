//! Merging pull requests.

use anyhow::Context;
use serde_json::json;

use crate::hub::Hub;

impl Hub {
    /// Why a pull request cannot be merged now; empty when it can.
    pub fn merge_blockers(&self, repo: &str, number: i64) -> Vec<String> {
        self.lock().merge_blockers(repo, number)
    }

    /// Merges with a merge commit, or says in words why not.
    pub fn merge(&self, repo: &str, number: i64, by: &str) -> Result<String, String> {
        let blockers = self.lock().merge_blockers(repo, number);
        if !blockers.is_empty() {
            return Err(blockers.join(" "));
        }
        self.merge_now(repo, number, by).map_err(|error| format!("{error:#}"))
    }

    fn merge_now(&self, repo: &str, number: i64, by: &str) -> anyhow::Result<String> {
        let git = &self.site().git;
        let (head_sha, base_branch, message, email) = {
            let state = self.lock();
            let (issue, pull) = state.pull(repo, number).context("no such pull request")?;
            let owner = pull.head_repo.as_deref().and_then(|name| name.split('/').next()).unwrap_or("ghost");
            let message = format!("Merge pull request #{number} from {owner}/{}\n\n{}", pull.head_branch, issue.title);
            let email = state.account(by).map_or_else(|| "noreply@github.test".to_owned(), |account| account.email());
            (pull.head_sha.clone(), pull.base_branch.clone(), message, email)
        };
        let base_ref = format!("refs/heads/{base_branch}");
        let base_sha = git.resolve(repo, &base_ref).context("the base branch is gone")?;
        let tree = git.merge_tree(repo, &base_sha, &head_sha)?.context("Merge conflict")?;
        let by_line = (by, email.as_str(), self.site().now());
        let sha = git.commit_tree(repo, &tree, &[&base_sha, &head_sha], &message, by_line)?;
        git.update_ref(repo, &base_ref, &sha)?;
        self.act(|state| {
            let now = state.now();
            if let Some(issue) = state.issue_mut(repo, number) {
                issue.open = false;
                issue.closed_at = Some(now);
                issue.updated_at = now;
                issue.closed_by = Some(by.to_owned());
            }
            if let Some(pull) = state.pull_mut(repo, number) {
                pull.merged_at = Some(now);
                pull.merged_by = Some(by.to_owned());
                pull.merge_commit_sha = Some(sha.clone());
            }
            state.pull_request_event(repo, number, "closed", by, json!({}));
        });
        self.announce_move(repo, &base_ref, Some(&base_sha), Some(&sha), by);
        Ok(sha)
    }
}
