//! The way into the group that a `concurrency` names.

use serde_json::Value;

use super::expression::Contexts;
use super::expression::coerce::{is_truthy, to_text};
use super::groups::{Entry, Permit};
use super::host::JobChange;
use super::model::Status;
use super::run::{Attempt, Frame};
use super::signals::{Stop, Working};

/// How it went.
pub(super) enum Entered {
    In { permit: Option<Permit>, group: Option<String>, working: Working },
    Refused { message: String, working: Working },
}

/// Waits for the group that `concurrency` names, if it names one. A wait that a stop ends goes in without a permit:
/// what follows sees the stop itself. The run, or the one job, shows as pending meanwhile.
pub(super) async fn enter_group(
    attempt: &Attempt,
    frame: &Frame,
    settings: &Value,
    contexts: &Contexts,
    stop: &Stop,
    job_id: Option<i64>,
    working: Working,
) -> Entered {
    let resolved = match contexts.resolve(settings) {
        Ok(resolved) => resolved,
        Err(error) => return Entered::Refused { message: error.to_string(), working },
    };
    let (name, cancel_in_progress) = match &resolved {
        Value::Null => return Entered::In { permit: None, group: None, working },
        Value::Object(members) => (
            members.get("group").map(to_text).unwrap_or_default(),
            members.get("cancel-in-progress").is_some_and(|v| is_truthy(v) && to_text(v) != "false"),
        ),
        name => (to_text(name), false),
    };
    if frame.held_groups.iter().any(|held| held.eq_ignore_ascii_case(&name)) {
        let message = format!("Canceling since a deadlock for concurrency group '{name}' was detected");
        return Entered::Refused { message, working };
    }
    let engine = &attempt.engine;
    match engine.groups.enter(&attempt.run.repo, &name, stop, cancel_in_progress) {
        Entry::Running(permit) => Entered::In { permit: Some(permit), group: Some(name), working },
        Entry::Pending(receiver) => {
            match job_id {
                Some(id) => engine.change_job(id, JobChange::Progress, |job| job.status = Status::Pending),
                None => engine.change_run(attempt.run.id, None, |run| run.status = Status::Pending),
            }
            drop(working);
            let (permit, working) = tokio::select! {
                biased;
                handed = receiver => handed.unwrap_or_else(|_| (None, engine.busy.begin())),
                () = stop.wait() => (None, engine.busy.begin()),
            };
            match job_id {
                Some(id) => engine.change_job(id, JobChange::Progress, |job| job.status = Status::Queued),
                None => engine.change_run(attempt.run.id, None, |run| run.status = Status::Queued),
            }
            let group = permit.is_some().then_some(name);
            Entered::In { permit, group, working }
        }
    }
}
