//! Layer 5: nobody else holds a selected stack, and no apply of this pull request is under way (spec 30 §5.2, §5.3).

use super::{GateScene, Refusal, for_stacks, refusal};
use crate::clock::{Millis, SECOND_MS, rfc3339};
use crate::guide::Topic;
use crate::run::queue::{Hold, Line};
use crate::run::status::RunStatus;

const NAME: &str = "locks";
/// An apply that never got beyond `pending` in this time was cut off by a crash; it refuses nobody.
const STUCK_MS: i64 = 60 * SECOND_MS;

pub fn refusals(scene: &GateScene) -> Vec<Refusal> {
    let line = Line::of(scene.scene);
    // The pull request's own locks never refuse it.
    let holds = line.holds(scene.scene.pr_number, &scene.request.selected);
    let mut refusals: Vec<Refusal> = holds
        .iter()
        .map(|(key, hold)| for_stacks(Topic::StackLocked, 5, NAME, vec![key.clone()], refusal_of(hold, scene)))
        .collect();
    if let Some(run) = scene.scene.apply_in_flight() {
        let stuck = run.status == RunStatus::Pending && !run.is_queued() && scene.now - run.created_at >= STUCK_MS;
        if run.is_queued() {
            let reason = format!(
                "apply run {} waits in the queue; it starts by itself, or leaves it with `stackorder unlock`",
                run.id
            );
            refusals.push(refusal(Topic::ApplyInFlight, 5, NAME, reason));
        } else if !stuck {
            let reason = format!(
                "apply run {} is {}; let it end first (a waiting deployment can be rejected on its Actions run)",
                run.id, run.status
            );
            refusals.push(refusal(Topic::ApplyInFlight, 5, NAME, reason));
        }
    }
    refusals
}

/// A lock that was taken while GitHub was asked has been lost to somebody who was quicker.
fn refusal_of(hold: &Hold<'_>, scene: &GateScene) -> String {
    match hold {
        Hold::Locked(lock) if lock.taken_at >= scene.facts.asked_at => {
            format!("{} took the lock first", lock.holder())
        }
        Hold::Locked(_) | Hold::Waits(_) => reason_of(hold),
    }
}

/// Why the stack is not free, and since when.
pub fn reason_of(hold: &Hold<'_>) -> String {
    match hold {
        Hold::Locked(lock) => format!(
            "{} has held the lock since {} UTC; free it from there with `stackorder unlock`",
            lock.holder(),
            minute(lock.taken_at)
        ),
        Hold::Waits(run) => {
            format!("#{} has waited for it since {} UTC and comes first", run.pr_number, minute(run.created_at))
        }
    }
}

fn minute(at: Millis) -> String {
    let since = rfc3339(at);
    since.get(..16).unwrap_or(&since).replace('T', " ")
}
