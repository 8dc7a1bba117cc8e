//! Layer 5: nobody else holds a selected stack, and no apply of this pull request is under way (spec 30 §5.2, §5.3).

use super::{GateScene, Refusal, for_stacks, refusal};
use crate::clock::{SECOND_MS, rfc3339};
use crate::run::model::Lock;
use crate::run::status::RunStatus;

const NAME: &str = "locks";
/// An apply that never got beyond `pending` in this time was cut off by a crash; it refuses nobody.
const STUCK_MS: i64 = 60 * SECOND_MS;

pub fn refusals(scene: &GateScene) -> Vec<Refusal> {
    let mut refusals: Vec<Refusal> = scene
        .request
        .selected
        .iter()
        .filter_map(|key| scene.scene.locks.get(key))
        // The pull request's own locks never refuse it.
        .filter(|lock| lock.pr_number == 0 || lock.pr_number != scene.scene.pr_number)
        .map(|lock| for_stacks(5, NAME, vec![lock.key.clone()], held(lock)))
        .collect();
    if let Some(run) = scene.scene.apply_in_flight() {
        let stuck = run.status == RunStatus::Pending && scene.now - run.created_at >= STUCK_MS;
        if !stuck {
            let reason = format!(
                "apply run {} is {}; let it end first (a waiting deployment can be rejected on its Actions run)",
                run.id, run.status
            );
            refusals.push(refusal(5, NAME, reason));
        }
    }
    refusals
}

fn held(lock: &Lock) -> String {
    let since = rfc3339(lock.taken_at);
    let minute = since.get(..16).unwrap_or(&since).replace('T', " ");
    format!("{} has held the lock since {minute} UTC; free it from there with `stackorder unlock`", lock.holder())
}
