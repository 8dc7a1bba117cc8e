//! A lock whose pull request was merged while nobody listened (spec 30 §7.3): before such a lock refuses an apply, GitHub is
//! asked what became of its holder.

use std::collections::BTreeSet;

use super::{App, Result, repo_ref};
use crate::config::model::ApplyMode;
use crate::github::api::GitHubError;
use crate::ids::StackKey;
use crate::run::model::Repo;

impl App {
    /// Makes the lost `closed` event good for every other pull request that holds one of these stacks and was merged. A lock
    /// of one that was closed without merge stays, as it would after its event. In `on_merge` the holder of a lock *is* merged,
    /// and its apply frees it.
    pub(super) async fn free_what_was_merged(
        &self,
        repo: &Repo,
        number: i64,
        selected: &BTreeSet<StackKey>,
    ) -> Result<()> {
        if repo.policy().apply.mode == ApplyMode::OnMerge {
            return Ok(());
        }
        let locks = self.store.locks(Some(repo.id)).await?;
        let in_the_way = locks.into_iter().filter(|lock| selected.contains(&lock.key)).map(|lock| lock.pr_number);
        let holders: BTreeSet<i64> = in_the_way.filter(|holder| *holder != 0 && *holder != number).collect();
        for holder in holders {
            match self.github.pull_request(&repo_ref(repo), holder).await {
                Ok(pull) if pull.merged && pull.base_ref == repo.default_branch => {
                    self.record_merge(repo, &pull).await?;
                }
                Ok(_) | Err(GitHubError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
