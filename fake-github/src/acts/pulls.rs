//! Pull requests: opening, pushing to, reviewing, closing.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::actions::model::Trigger;
use crate::hub::Hub;
use crate::state::apps::starts_workflows;
use crate::state::issues::{Issue, PullRequest, Review};
use crate::state::{Effect, State};

/// What a reviewer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewState {
    Approve,
    RequestChanges,
    Comment,
}

impl ReviewState {
    fn name(self) -> &'static str {
        match self {
            ReviewState::Approve => "APPROVED",
            ReviewState::RequestChanges => "CHANGES_REQUESTED",
            ReviewState::Comment => "COMMENTED",
        }
    }
}

/// What git says about a pull request.
struct Comparison {
    head_sha: String,
    base_sha: String,
    merge_sha: Option<String>,
    commits: i64,
    additions: i64,
    deletions: i64,
    changed_files: i64,
}

impl Hub {
    /// Opens a pull request; the head may be `owner:branch` of a fork. Its number.
    pub fn open_pull_request(
        &self,
        repo: &str,
        head: &str,
        base: &str,
        title: &str,
        body: &str,
        author: &str,
    ) -> anyhow::Result<i64> {
        self.open(repo, head, base, title, body, author, false)
    }

    pub fn open_draft(&self, repo: &str, head: &str, base: &str, title: &str, author: &str) -> anyhow::Result<i64> {
        self.open(repo, head, base, title, "", author, true)
    }

    #[expect(clippy::too_many_arguments, reason = "a pull request is described by that many things")]
    pub(crate) fn open(
        &self,
        repo: &str,
        head: &str,
        base: &str,
        title: &str,
        body: &str,
        author: &str,
        draft: bool,
    ) -> anyhow::Result<i64> {
        let (head_repo, head_branch) = match head.split_once(':') {
            Some((owner, branch)) if !repo.starts_with(&format!("{owner}/")) => {
                let name = repo.split_once('/').context("a repository is named owner/name")?.1;
                (format!("{owner}/{name}"), branch)
            }
            Some((_, branch)) => (repo.to_owned(), branch),
            None => (repo.to_owned(), head),
        };
        let number = self.lock().repository(repo).with_context(|| format!("no repository {repo}"))?.next_number();
        let compared = self.compare_for_pull(repo, &head_repo, head_branch, base, number)?;
        if compared.commits == 0 {
            bail!("No commits between {base} and {head}");
        }
        self.act(|state| {
            let now = state.now();
            let pull = PullRequest {
                id: state.next_id(),
                head_repo: Some(head_repo.clone()),
                head_branch: head_branch.to_owned(),
                head_sha: compared.head_sha,
                base_branch: base.to_owned(),
                base_sha: compared.base_sha,
                draft,
                merged_at: None,
                merged_by: None,
                mergeable: Some(compared.merge_sha.is_some()),
                merge_commit_sha: compared.merge_sha,
                commits: compared.commits,
                additions: compared.additions,
                deletions: compared.deletions,
                changed_files: compared.changed_files,
                reviews: Vec::new(),
            };
            let mut issue = Issue::new(state.next_id(), number, title, body, author, now);
            issue.pull = Some(pull);
            if let Some(found) = state.repositories.get_mut(repo) {
                found.issues.insert(number, issue);
            }
            state.pull_request_event(repo, number, "opened", author, json!({}));
        });
        Ok(number)
    }

    /// Commits files to the head branch of a pull request.
    pub fn push(
        &self,
        repo: &str,
        number: i64,
        message: &str,
        author: &str,
        files: &[(&str, Option<Vec<u8>>)],
    ) -> anyhow::Result<String> {
        let (head_repo, branch) = {
            let state = self.lock();
            let (_, pull) = state.pull(repo, number).with_context(|| format!("no pull request {repo}#{number}"))?;
            (pull.head_repo.clone().context("the head repository is gone")?, pull.head_branch.clone())
        };
        self.commit(&head_repo, &branch, message, author, files)
    }

    /// A branch moved: pull requests from it get a new head, those into it a new test merge.
    pub(crate) fn branch_moved(&self, repo: &str, branch: &str, before: Option<&str>, pusher: &str) {
        let (from_it, into_it) = {
            let state = self.lock();
            let from_it: Vec<(String, i64)> = state
                .repositories
                .keys()
                .flat_map(|base| {
                    let same =
                        |pull: &PullRequest| pull.head_repo.as_deref() == Some(repo) && pull.head_branch == branch;
                    state.open_pulls(base, same).into_iter().map(|number| (base.clone(), number)).collect::<Vec<_>>()
                })
                .collect();
            (from_it, state.open_pulls(repo, |pull| pull.base_branch == branch))
        };
        for (base_repo, number) in from_it {
            if let Err(error) = self.refresh(&base_repo, number) {
                tracing::error!("{base_repo}#{number}: {error:#}");
                continue;
            }
            self.act(|state| {
                let after = state.pull(&base_repo, number).map(|(_, pull)| pull.head_sha.clone());
                let more = json!({"before": before.unwrap_or(crate::git::NO_COMMIT), "after": after});
                state.pull_request_event(&base_repo, number, "synchronize", pusher, more);
            });
        }
        for number in into_it {
            if let Err(error) = self.refresh(repo, number) {
                tracing::error!("{repo}#{number}: {error:#}");
            }
        }
    }

    /// Computes head, base, size and test merge of a pull request again.
    fn refresh(&self, repo: &str, number: i64) -> anyhow::Result<()> {
        let (head_repo, head_branch, base) = {
            let state = self.lock();
            let (_, pull) = state.pull(repo, number).context("no such pull request")?;
            let head_repo = pull.head_repo.clone().context("the head repository is gone")?;
            (head_repo, pull.head_branch.clone(), pull.base_branch.clone())
        };
        let compared = self.compare_for_pull(repo, &head_repo, &head_branch, &base, number)?;
        self.act(|state| {
            let now = state.now();
            if let Some(issue) = state.issue_mut(repo, number) {
                issue.updated_at = now;
            }
            if let Some(pull) = state.pull_mut(repo, number) {
                pull.head_sha = compared.head_sha;
                pull.base_sha = compared.base_sha;
                pull.mergeable = Some(compared.merge_sha.is_some());
                pull.merge_commit_sha = compared.merge_sha;
                pull.commits = compared.commits;
                pull.additions = compared.additions;
                pull.deletions = compared.deletions;
                pull.changed_files = compared.changed_files;
            }
        });
        Ok(())
    }

    /// Brings the head into the base repository and merges both on trial: `refs/pull/N/head` and `refs/pull/N/merge`.
    fn compare_for_pull(
        &self,
        repo: &str,
        head_repo: &str,
        head_branch: &str,
        base: &str,
        number: i64,
    ) -> anyhow::Result<Comparison> {
        let git = &self.site().git;
        let head_ref = format!("refs/heads/{head_branch}");
        let head_sha =
            git.resolve(head_repo, &head_ref).with_context(|| format!("no branch {head_branch} in {head_repo}"))?;
        let base_sha =
            git.resolve(repo, &format!("refs/heads/{base}")).with_context(|| format!("no branch {base} in {repo}"))?;
        if head_repo != repo {
            git.fetch(repo, head_repo, &format!("+{head_ref}:refs/pull/{number}/head"))?;
        }
        let merge_base = git
            .merge_base(repo, &base_sha, &head_sha)
            .with_context(|| format!("{base} and {head_branch} share no commit"))?;
        let commits = git.count(repo, &format!("{base_sha}..{head_sha}"));
        let files = git.diff(repo, &merge_base, &head_sha);
        let mut merge_sha = None;
        if commits > 0 {
            git.update_ref(repo, &format!("refs/pull/{number}/head"), &head_sha)?;
            if let Some(tree) = git.merge_tree(repo, &base_sha, &head_sha)? {
                let message = format!("Merge {head_sha} into {base_sha}");
                let by = ("GitHub", "noreply@github.test", self.site().now());
                let sha = git.commit_tree(repo, &tree, &[&base_sha, &head_sha], &message, by)?;
                git.update_ref(repo, &format!("refs/pull/{number}/merge"), &sha)?;
                merge_sha = Some(sha);
            }
        }
        Ok(Comparison {
            head_sha,
            base_sha,
            merge_sha,
            commits,
            additions: files.iter().map(|file| file.additions).sum(),
            deletions: files.iter().map(|file| file.deletions).sum(),
            changed_files: i64::try_from(files.len()).unwrap_or(i64::MAX),
        })
    }

    /// Gives a review on the head commit; its id.
    pub fn review(&self, repo: &str, number: i64, author: &str, state: ReviewState, body: &str) -> Option<i64> {
        self.act(|data| {
            let (id, now) = (data.next_id(), data.now());
            let pull = data.pull_mut(repo, number)?;
            pull.reviews.push(Review {
                id,
                author: author.to_owned(),
                body: body.to_owned(),
                state: state.name().to_owned(),
                commit_id: pull.head_sha.clone(),
                submitted_at: now,
            });
            data.emit_review(repo, number, id, "submitted", author);
            Some(id)
        })
    }

    /// Takes a review's decision back.
    pub fn dismiss_review(&self, repo: &str, number: i64, review: i64, by: &str) -> bool {
        self.act(|state| {
            let Some(pull) = state.pull_mut(repo, number) else { return false };
            let Some(found) = pull.reviews.iter_mut().find(|found| found.id == review) else { return false };
            found.state = "DISMISSED".to_owned();
            state.emit_review(repo, number, review, "dismissed", by);
            true
        })
    }

    /// Closes without merging; also closes issues.
    pub fn close(&self, repo: &str, number: i64, by: &str) {
        self.set_open(repo, number, false, by);
    }

    pub fn reopen(&self, repo: &str, number: i64, by: &str) {
        self.set_open(repo, number, true, by);
        let is_pull = self.lock().pull(repo, number).is_some();
        if is_pull && let Err(error) = self.refresh(repo, number) {
            tracing::error!("{repo}#{number}: {error:#}");
        }
    }

    fn set_open(&self, repo: &str, number: i64, open: bool, by: &str) {
        self.act(|state| {
            let now = state.now();
            let Some(issue) = state.issue_mut(repo, number) else { return };
            let merged = issue.pull.as_ref().is_some_and(|pull| pull.merged_at.is_some());
            if issue.open == open || merged {
                return;
            }
            issue.open = open;
            issue.updated_at = now;
            issue.closed_at = (!open).then_some(now);
            issue.closed_by = (!open).then(|| by.to_owned());
            issue.state_reason = (!open && issue.pull.is_none()).then(|| "completed".to_owned());
            let (is_pull, action) = (issue.pull.is_some(), if open { "reopened" } else { "closed" });
            if is_pull {
                state.pull_request_event(repo, number, action, by, json!({}));
            } else {
                state.emit_issue(repo, number, action, by);
            }
        });
    }

    /// Marks a pull request as a draft, or as ready.
    pub fn set_draft(&self, repo: &str, number: i64, draft: bool, by: &str) {
        self.act(|state| {
            let Some(pull) = state.pull_mut(repo, number) else { return };
            pull.draft = draft;
            let action = if draft { "converted_to_draft" } else { "ready_for_review" };
            state.pull_request_event(repo, number, action, by, json!({}));
        });
    }

    /// Points a pull request at another base branch.
    pub fn retarget(&self, repo: &str, number: i64, base: &str, by: &str) -> anyhow::Result<()> {
        let (from_ref, from_sha) = {
            let mut state = self.lock();
            let pull = state.pull_mut(repo, number).with_context(|| format!("no pull request {repo}#{number}"))?;
            (std::mem::replace(&mut pull.base_branch, base.to_owned()), pull.base_sha.clone())
        };
        self.refresh(repo, number)?;
        self.act(|state| {
            let more = json!({"changes": {"base": {"ref": {"from": from_ref}, "sha": {"from": from_sha}}}});
            state.pull_request_event(repo, number, "edited", by, more);
        });
        Ok(())
    }

    /// A pull request or issue, for tests and stories.
    pub fn issue(&self, repo: &str, number: i64) -> Option<Issue> {
        self.lock().issue(repo, number).cloned()
    }

    /// Every issue and pull request of a repository, by number.
    pub fn issues(&self, repo: &str) -> Vec<Issue> {
        let state = self.lock();
        let issues: Option<&BTreeMap<i64, Issue>> = state.repository(repo).map(|found| &found.issues);
        issues.into_iter().flat_map(|issues| issues.values().cloned()).collect()
    }
}

impl State {
    /// Sends the event and starts the workflows that listen for it.
    pub(super) fn pull_request_event(&mut self, repo: &str, number: i64, action: &str, actor: &str, more: Value) {
        let payload = self.emit_pull_request(repo, number, action, actor, more);
        let Some((_, pull)) = self.pull(repo, number) else { return };
        // GitHub runs no workflow for a pull request with conflicts: there is no merge commit to run.
        let Some(merge_sha) = pull.merge_commit_sha.clone().filter(|_| starts_workflows(actor)) else { return };
        let trigger = Trigger::PullRequest {
            repo: repo.to_owned(),
            number,
            action: action.to_owned(),
            payload,
            head_branch: pull.head_branch.clone(),
            head_sha: pull.head_sha.clone(),
            merge_sha,
            actor: actor.to_owned(),
            from_fork: pull.is_fork_of(repo),
        };
        self.effects.push(Effect::Start(trigger));
    }
}
