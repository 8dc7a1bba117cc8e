//! Whether a pull request may be merged, and in words why not.

use super::State;

impl State {
    /// Empty when the pull request may be merged now.
    pub fn merge_blockers(&self, repo: &str, number: i64) -> Vec<String> {
        let Some((issue, pull)) = self.pull(repo, number) else { return vec!["no such pull request".to_owned()] };
        let mut blockers = Vec::new();
        if !issue.open {
            blockers.push("Pull Request is not open".to_owned());
            return blockers;
        }
        if pull.draft {
            blockers.push("Pull Request is still a draft".to_owned());
        }
        match pull.mergeable {
            Some(false) => blockers.push("Merge conflict between head and base".to_owned()),
            None => blockers.push("Mergeability is still being computed".to_owned()),
            Some(true) => {}
        }
        blockers.extend(self.protection_blockers(repo, number));
        blockers
    }

    /// `behind`, `blocked`, `clean`, `dirty`, `draft`, `unknown`, `unstable`.
    pub fn mergeable_state(&self, repo: &str, number: i64) -> &'static str {
        let Some((issue, pull)) = self.pull(repo, number) else { return "unknown" };
        if !issue.open {
            return "unknown";
        }
        match pull.mergeable {
            None => "unknown",
            Some(false) => "dirty",
            Some(true) if pull.draft => "draft",
            Some(true) if !self.protection_blockers(repo, number).is_empty() => "blocked",
            Some(true) if self.latest_check_runs(repo, &pull.head_sha).iter().any(|run| !passed(run)) => "unstable",
            Some(true) => "clean",
        }
    }

    fn protection_blockers(&self, repo: &str, number: i64) -> Vec<String> {
        let Some((issue, pull)) = self.pull(repo, number) else { return Vec::new() };
        let Some(rules) = self.repository(repo).and_then(|found| found.protection.get(&pull.base_branch)) else {
            return Vec::new();
        };
        let mut blockers = Vec::new();
        let checks = self.latest_check_runs(repo, &pull.head_sha);
        for required in &rules.required_checks {
            let mut found = checks
                .iter()
                .filter(|run| run.name == required.context && required.app_id.is_none_or(|app| run.app == app))
                .peekable();
            if found.peek().is_none() {
                blockers.push(format!("Required status check \"{}\" is expected.", required.context));
            } else if !found.all(|run| passed(run)) {
                blockers.push(format!("Required status check \"{}\" has not passed.", required.context));
            }
        }
        let decisions = pull.decisions();
        let approvals = decisions
            .iter()
            .filter(|(author, review)| {
                review.state == "APPROVED"
                    && **author != issue.author
                    && self.role(repo, author) >= super::roles::Role::Write
                    && (!rules.dismiss_stale_approvals || review.commit_id == pull.head_sha)
            })
            .count();
        if approvals < rules.required_approvals as usize {
            blockers.push(format!(
                "At least {} approving review is required by reviewers with write access.",
                rules.required_approvals
            ));
        }
        if rules.required_approvals > 0 && decisions.values().any(|review| review.state == "CHANGES_REQUESTED") {
            blockers.push("Changes were requested.".to_owned());
        }
        if rules.strict && !self.site.git.is_ancestor(repo, &format!("refs/heads/{}", pull.base_branch), &pull.head_sha)
        {
            blockers.push("The head branch is not up to date with the base branch.".to_owned());
        }
        blockers
    }
}

/// GitHub counts neutral and skipped as passed.
fn passed(run: &super::checks::CheckRun) -> bool {
    matches!(run.conclusion.as_deref(), Some("success" | "neutral" | "skipped"))
}
