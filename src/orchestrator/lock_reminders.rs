//! A daily reminder of locks that a closed pull request left behind (spec 30 §7.5).

use std::collections::BTreeMap;

use serde_json::json;

use super::{App, Result, Subject, repo_ref};
use crate::clock::{DAY_MS, rfc3339};
use crate::github::api::GitHubError;
use crate::run::model::Lock;
use crate::run::{close, once};

impl App {
    /// At most once per lock and day, only while the pull request is closed without merge.
    pub(super) async fn remind_of_locks(&self) -> Result<()> {
        let now = self.now();
        let mut by_pull: BTreeMap<(i64, i64), Vec<Lock>> = BTreeMap::new();
        for lock in self.store.locks(None).await? {
            if lock.pr_number != 0 && now - lock.taken_at >= DAY_MS {
                by_pull.entry((lock.repo_id, lock.pr_number)).or_default().push(lock);
            }
        }
        let day = rfc3339(now)[..10].to_owned();
        for ((repo_id, number), locks) in by_pull {
            let Some(repo) = self.store.repo(repo_id).await?.filter(|repo| !repo.suspended) else { continue };
            let pull = match self.github.pull_request(&repo_ref(&repo), number).await {
                Ok(pull) => pull,
                Err(GitHubError::NotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            if pull.open || pull.merged {
                continue;
            }
            let once = once::lock_reminder(repo_id, number, now);
            if self.store.was_claimed(&once).await? {
                continue;
            }
            let subject = Subject::Pull { repo_id, number };
            self.decide(&subject, |next| {
                next.effects.once.push(once.clone());
                for lock in &locks {
                    let details = json!({ "repo": next.scene.repo.full_name, "pr": number, "stack": lock.key });
                    next.audit("stackorder", "lock_reminder", format!("lock:{}:{day}", lock.stack_id), details);
                }
                next.comment(format!("reminder:{number}:{day}"), close::kept_text(&locks));
            })
            .await?;
        }
        Ok(())
    }
}
