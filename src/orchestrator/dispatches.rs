//! Asking GitHub to run a dispatch, or giving it up: whoever sends is the one to say that it is too late (spec 30 §6.5).

use super::{App, Error, Result, Subject, repo_ref};
use crate::clock::{MINUTE_MS, Millis};
use crate::github::api::{DispatchRequest, GitHubError};
use crate::ids::{DispatchId, RunId};
use crate::run::dispatching;
use crate::run::progress;
use crate::run::scene::Scene;
use crate::run::status::{Mode, Trigger};

/// Unsent or unbound for this long, a dispatch is lost.
pub(super) const LOST_MS: Millis = 30 * MINUTE_MS;

impl App {
    /// Sends one dispatch. Safe to run twice: what GitHub starts twice is bound and claimed once.
    pub(super) async fn send_dispatch(&self, run_id: &RunId, dispatch_id: &DispatchId) -> Result<()> {
        // One at a time here, even if the clock was moved and took the first one's claim away.
        let _turn = self.turn(format!("dispatch:{dispatch_id}")).await;
        let Some(subject) = self.subject_of(run_id).await? else { return Ok(()) };
        let Some(mut scene) = self.scene_to_send(&subject, run_id, dispatch_id).await? else { return Ok(()) };
        if self.is_outdated(&scene, run_id).await? {
            return self.head_moved(&scene.repo, scene.pr_number).await;
        }
        let mut policy_sha = String::new();
        if scene.runs[run_id].mode == Mode::Plan {
            policy_sha = self.github.branch_head(&repo_ref(&scene.repo), &scene.repo.default_branch).await?.to_string();
            // GitHub may have kept us waiting: what was given up meanwhile must not be started.
            match self.scene_to_send(&subject, run_id, dispatch_id).await? {
                Some(still) => scene = still,
                None => return Ok(()),
            }
        }
        let (github, run, dispatch) = (repo_ref(&scene.repo), &scene.runs[run_id], &scene.dispatches[dispatch_id]);
        let mut rows: Vec<_> = scene.rows(run_id).filter(|row| row.dispatch_id.as_ref() == Some(dispatch_id)).collect();
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        let entries: Vec<_> = rows.into_iter().map(|row| dispatching::entry(run, row, &policy_sha)).collect();
        let request = DispatchRequest {
            branch: scene.repo.default_branch.clone(),
            run_id: run_id.to_string(),
            mode: run.mode.to_string(),
            wave: dispatch.wave.to_string(),
            sha: run.sha.to_string(),
            stacks: serde_json::to_string(&entries).map_err(|error| Error::Invalid(error.to_string()))?,
        };
        match self.github.dispatch(&github, &request).await {
            Ok(workflow_run_id) => self.record_sent(&subject, dispatch_id, workflow_run_id).await,
            Err(GitHubError::Temporary { .. }) => {
                // Left unsent: reconcile resends it after 60 s, until 30 minutes.
                tracing::warn!(dispatch = %dispatch_id, "GitHub could not take a dispatch; it is sent again");
                Ok(())
            }
            Err(GitHubError::Permanent { status, message, .. }) => {
                self.decide(&subject, |next| progress::reject_dispatch(next, dispatch_id, status, &message)).await?;
                Ok(())
            }
            Err(GitHubError::NotFound { what }) => {
                let reason = format!("no {what}");
                self.decide(&subject, |next| progress::reject_dispatch(next, dispatch_id, 404, &reason)).await?;
                Ok(())
            }
        }
    }

    /// An apply that waited in the queue was let through long ago, and may have missed that its head moved (I12).
    async fn is_outdated(&self, scene: &Scene, run_id: &RunId) -> Result<bool> {
        let run = &scene.runs[run_id];
        if run.wants.is_empty() || run.trigger != Trigger::Comment || scene.rows(run_id).any(|row| row.claim.is_some())
        {
            return Ok(false);
        }
        let pull = self.github.pull_request(&repo_ref(&scene.repo), run.pr_number).await?;
        Ok(pull.head_sha != run.sha)
    }

    /// The scene of a dispatch that is wanted and not sent. One that is not wanted any more, or was not for too long, is closed.
    async fn scene_to_send(
        &self,
        subject: &Subject,
        run_id: &RunId,
        dispatch_id: &DispatchId,
    ) -> Result<Option<Scene>> {
        let Some(scene) = self.store.scene(run_id).await? else { return Ok(None) };
        let Some(dispatch) = scene.dispatches.get(dispatch_id) else { return Ok(None) };
        if dispatch.sent_at.is_some() || dispatch.completed_at.is_some() || scene.repo.suspended {
            return Ok(None);
        }
        if scene.runs[run_id].status.is_terminal() {
            self.decide(subject, |next| progress::complete_dispatch(next, dispatch_id, "not_sent")).await?;
            return Ok(None);
        }
        if self.now() - dispatch.dispatched_at >= LOST_MS {
            let warning = "GitHub took no dispatch for 30 minutes";
            self.decide(subject, |next| progress::give_up(next, dispatch, "timed_out", warning)).await?;
            return Ok(None);
        }
        Ok(Some(scene))
    }

    async fn record_sent(
        &self,
        subject: &Subject,
        dispatch_id: &DispatchId,
        workflow_run_id: Option<i64>,
    ) -> Result<()> {
        self.decide(subject, |next| {
            let now = next.now;
            if let Some(dispatch) = next.scene.dispatches.get_mut(dispatch_id) {
                dispatch.sent_at.get_or_insert(now);
                let run_id = dispatch.run_id.clone();
                if let Some(workflow_run_id) = workflow_run_id {
                    progress::bind(next, dispatch_id, workflow_run_id, 1);
                }
                next.render(&run_id);
            }
        })
        .await?;
        Ok(())
    }
}
