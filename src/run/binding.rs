//! Which dispatch a job belongs to, as its token proves it (spec 23 §3.2).

use super::model::Dispatch;
use super::next::Next;
use super::progress;
use super::report::Refused;
use super::status::Mode;
use crate::ids::{DispatchId, RunId, StackKey};

/// What the token of a dispatched job says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchedJob {
    pub git_ref: String,
    pub workflow_run_id: i64,
    pub attempt: u32,
    pub environment: String,
    pub check_run_id: i64,
}

/// Finds the job's dispatch of the run, binding it on first contact where GitHub's answer named no workflow run.
/// A call that names no stack may stay unbound when its environment has several dispatches: `Ok(None)`.
pub fn bind_job(
    next: &mut Next,
    id: &RunId,
    job: &DispatchedJob,
    key: Option<&StackKey>,
) -> Result<Option<DispatchId>, Refused> {
    let default_ref = format!("refs/heads/{}", next.scene.repo.default_branch);
    if job.git_ref != default_ref {
        return Err(Refused::Forbidden(format!("dispatched jobs run on {default_ref}, not {}", job.git_ref)));
    }
    let run = next.scene.runs[id].clone();
    let fits = |dispatch: &Dispatch| {
        dispatch.run_id == *id
            && dispatch.mode == run.mode
            && dispatch.environment.eq_ignore_ascii_case(&job.environment)
            && dispatch.completed_at.is_none()
            && key.is_none_or(|key| {
                next.scene.row(id, key).is_none_or(|row| row.dispatch_id.as_ref() == Some(&dispatch.id))
            })
    };
    if let Some(bound) =
        next.scene.dispatches_of(id).find(|dispatch| dispatch.workflow_run_id == Some(job.workflow_run_id))
    {
        return if fits(bound) {
            Ok(Some(bound.id.clone()))
        } else {
            Err(Refused::Forbidden(format!(
                "workflow run {} serves the dispatch of {} under {}, which {}",
                job.workflow_run_id,
                run.mode,
                bound.environment,
                if bound.completed_at.is_some() {
                    "has ended"
                } else {
                    "does not carry this job's stack or environment"
                }
            )))
        };
    }
    let candidates: Vec<DispatchId> = next
        .scene
        .dispatches_of(id)
        .filter(|dispatch| dispatch.workflow_run_id.is_none() && fits(dispatch))
        .filter(|dispatch| key.is_some() || run.mode != Mode::Apply || dispatch.wave == run.current_wave)
        .map(|dispatch| dispatch.id.clone())
        .collect();
    // One whose other dispatches are bound is not the only one: the job may be of a duplicate of theirs.
    let is_alike = |dispatch: &&Dispatch| {
        dispatch.environment.eq_ignore_ascii_case(&job.environment)
            && (run.mode != Mode::Apply || dispatch.wave == run.current_wave)
    };
    let is_clear = key.is_some() || next.scene.dispatches_of(id).filter(is_alike).count() == 1;
    match candidates.as_slice() {
        [] => Err(Refused::Forbidden(format!("no open dispatch of run {id} fits this job"))),
        [first, ..] if is_clear => bind(next, first, job),
        _ => Ok(None),
    }
}

fn bind(next: &mut Next, dispatch: &DispatchId, job: &DispatchedJob) -> Result<Option<DispatchId>, Refused> {
    if progress::bind(next, dispatch, job.workflow_run_id, job.attempt) {
        Ok(Some(dispatch.clone()))
    } else {
        Err(Refused::Forbidden(format!("workflow run {} is bound elsewhere", job.workflow_run_id)))
    }
}
