//! Asking GitHub to run a dispatch, or giving it up: whoever sends is the one to say that it is too late (spec 30 §6.5).

use std::sync::Arc;

use super::{App, Error, Result, Subject, repo_ref};
use crate::clock::{MINUTE_MS, Millis};
use crate::config::model::RequireUpToDate;
use crate::gate;
use crate::github::api::{DispatchRequest, GitHubError};
use crate::ids::{DispatchId, RunId, StackKey};
use crate::run::dispatching;
use crate::run::progress;
use crate::run::scene::Scene;
use crate::run::status::{Mode, Trigger};
use crate::run::supersede;

/// Unsent or unbound for this long, a dispatch is lost.
pub(super) const LOST_MS: Millis = 30 * MINUTE_MS;

impl App {
    /// Sends one dispatch. Safe to run twice: what GitHub starts twice is bound and claimed once.
    pub(super) async fn send_dispatch(&self, run_id: &RunId, dispatch_id: &DispatchId) -> Result<()> {
        // One at a time here, even if the clock was moved and took the first one's claim away.
        let _turn = self.turn(format!("dispatch:{dispatch_id}")).await;
        let Some(subject) = self.subject_of(run_id).await? else { return Ok(()) };
        let Some(mut scene) = self.scene_to_send(&subject, run_id, dispatch_id).await? else { return Ok(()) };
        if !self.still_holds(&scene, &subject, run_id).await? {
            return Ok(());
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
            Err(error @ GitHubError::Deferred { .. }) => Err(error.into()),
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

    /// An apply that waited in the queue was let through long ago, and somebody else's merge often is what let it start. Whether
    /// its head, its pull request and its base still are as the gate saw them is asked before its first job (I12); if they are
    /// not, it ends here.
    async fn still_holds(&self, scene: &Scene, subject: &Subject, run_id: &RunId) -> Result<bool> {
        let run = &scene.runs[run_id];
        if run.wants.is_empty() || run.trigger != Trigger::Comment || scene.rows(run_id).any(|row| row.claim.is_some())
        {
            return Ok(true);
        }
        let (repo, github) = (&scene.repo, repo_ref(&scene.repo));
        let pull = self.github.pull_request(&github, run.pr_number).await?;
        if pull.head_sha != run.sha {
            self.head_moved(repo, run.pr_number).await?;
            return Ok(false);
        }
        // One that was merged meanwhile goes on, as any apply does.
        if pull.merged {
            return Ok(true);
        }
        if !pull.open {
            self.pull_request_closed(repo, run.pr_number).await?;
            return Ok(false);
        }
        if repo.policy().apply.require_up_to_date == RequireUpToDate::Off {
            return Ok(true);
        }
        let ahead = self.github.compare(&github, run.sha.as_str(), &repo.default_branch).await?;
        let graph = scene.graph_of(run).map(Arc::as_ref);
        let Some(refusal) = gate::base_moved_on(repo, graph, &run.wants.iter().cloned().collect(), &ahead) else {
            return Ok(true);
        };
        let stacks: Vec<&str> = refusal.stacks.iter().map(StackKey::as_str).collect();
        let reason = format!("{}: {}", stacks.join(", "), refusal.reason);
        self.decide(subject, |next| {
            if !next.scene.runs[run_id].status.is_terminal() && !supersede::is_claimed(next, run_id) {
                supersede::abandon(next, run_id, &reason);
            }
        })
        .await?;
        Ok(false)
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
