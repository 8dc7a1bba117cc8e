//! Pull requests move: a new head, another base, merged, closed, or from a fork (spec 24 §2, spec 30 §7.3, §9).

use serde_json::json;

use super::bells::Queue;
use super::{App, Result, Subject, repo_ref};
use crate::clock::DAY_MS;
use crate::config::model::ApplyMode;
use crate::github::api::{Check, CheckStatus, Conclusion, GitHubError, PullRequest};
use crate::run::close;
use crate::run::model::Repo;
use crate::run::scene::{JobKind, NewJob};
use crate::run::supersede;

/// The title people and tools know it by.
const FORK_TITLE: &str = "Not run: pull request from a fork";

impl App {
    pub(super) async fn pull_request_changed(
        &self,
        repo: &Repo,
        number: i64,
        action: &str,
        base_changed: bool,
        delivery: &str,
    ) -> Result<()> {
        match action {
            "opened" => self.note_fork(repo, number).await,
            "reopened" => {
                self.note_fork(repo, number).await?;
                self.pull_request_reopened(repo, number).await
            }
            "synchronize" => {
                self.note_fork(repo, number).await?;
                self.head_moved(repo, number).await
            }
            "edited" if base_changed => self.base_changed(repo, number, delivery).await,
            "closed" => self.pull_request_closed(repo, number).await,
            _ => Ok(()),
        }
    }

    /// The head is read from GitHub, so that a late event cannot supersede the current one (I12).
    pub(super) async fn head_moved(&self, repo: &Repo, number: i64) -> Result<()> {
        let pull = self.github.pull_request(&repo_ref(repo), number).await?;
        let subject = Subject::Pull { repo_id: repo.id, number };
        self.decide(&subject, |next| supersede::head_moved(next, &pull.head_sha)).await?;
        Ok(())
    }

    /// Merged or closed, as GitHub says now; also how a lost event is made good.
    pub(super) async fn pull_request_closed(&self, repo: &Repo, number: i64) -> Result<()> {
        let pull = self.github.pull_request(&repo_ref(repo), number).await?;
        if pull.open {
            return Ok(());
        }
        let subject = Subject::Pull { repo_id: repo.id, number };
        if pull.merged && pull.base_ref == repo.default_branch {
            let before_merge = repo.policy().apply.mode == ApplyMode::BeforeMerge;
            self.record_merge(repo, &pull).await?;
            if !before_merge {
                self.apply_merge(repo, &pull).await?;
                // Its own apply frees its own locks; those of a time before `on_merge` have nobody else to free them.
                self.decide(&subject, close::merged_before).await?;
            }
            return Ok(());
        }
        let target = format!("pr:{}#{number}", repo.full_name);
        let warned = self.store.audit_count("lock_warning", &target, None, self.now() - DAY_MS).await?;
        self.decide(&subject, |next| close::closed(next, warned == 0)).await?;
        Ok(())
    }

    /// What a merge does to the default graph, once, and in `before_merge` to the locks of its pull request.
    pub(super) async fn record_merge(&self, repo: &Repo, pull: &PullRequest) -> Result<()> {
        let before_merge = repo.policy().apply.mode == ApplyMode::BeforeMerge;
        let subject = Subject::Pull { repo_id: repo.id, number: pull.number };
        let merge = pull.merge_commit_sha.as_ref().unwrap_or(&pull.head_sha);
        let once = format!("merged:{}:{}:{merge}", repo.id, pull.number);
        if !self.store.was_claimed(&once).await? {
            self.decide(&subject, |next| {
                next.effects.once.push(once.clone());
                close::merged(next, &pull.head_sha, before_merge);
            })
            .await?;
        } else if before_merge {
            self.decide(&subject, close::merged_before).await?;
        }
        Ok(())
    }

    async fn pull_request_reopened(&self, repo: &Repo, number: i64) -> Result<()> {
        if self.github.pull_request(&repo_ref(repo), number).await?.open {
            self.decide(&Subject::Pull { repo_id: repo.id, number }, close::reopened).await?;
        }
        Ok(())
    }

    /// Forks get one neutral check and nothing else.
    async fn note_fork(&self, repo: &Repo, number: i64) -> Result<()> {
        let pull = self.github.pull_request(&repo_ref(repo), number).await?;
        if !pull.from_fork {
            return Ok(());
        }
        let key = format!("fork:{}:{}", repo.id, pull.head_sha);
        let payload = json!({ "repo_id": repo.id, "pr_number": number });
        self.store.add_job(&NewJob::keyed(JobKind::ForkNotice, key, payload, self.now())).await?;
        self.bells.ring(Queue::Outbox);
        Ok(())
    }

    pub(super) async fn write_fork_notice(&self, repo: &Repo, number: i64) -> Result<()> {
        let github = repo_ref(repo);
        let pull: PullRequest = match self.github.pull_request(&github, number).await {
            Ok(pull) => pull,
            Err(GitHubError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if !pull.from_fork || !self.github.checks(&github, &pull.head_sha, Some("stackorder/plan")).await?.is_empty() {
            return Ok(());
        }
        let check = Check {
            name: "stackorder/plan".to_owned(),
            head_sha: pull.head_sha,
            status: CheckStatus::Completed(Conclusion::Neutral),
            title: FORK_TITLE.to_owned(),
            summary: "Jobs of a fork's pull request get no identity token, so nothing was planned. \
                      A maintainer can push the branch to this repository to plan it."
                .to_owned(),
            text: String::new(),
            details_url: self.addresses.base_url.clone(),
            external_id: String::new(),
        };
        self.github.create_check(&github, &check).await?;
        Ok(())
    }
}
