//! Taking and releasing orchestration locks (spec 30 §7).

use std::collections::BTreeSet;

use serde_json::json;

use super::model::{Lock, Run};
use super::next::Next;
use crate::ids::StackKey;

/// Releases every lock that `which` picks, with one audit row each. Returns what went, by key.
pub fn release(next: &mut Next, via: &str, which: impl Fn(&Lock) -> bool) -> Vec<Lock> {
    let released: Vec<Lock> = next.scene.locks.values().filter(|lock| which(lock)).cloned().collect();
    for lock in &released {
        next.scene.locks_mut().remove(&lock.key);
        next.audit(
            "stackorder",
            "unlock",
            format!("{}//{}", next.scene.repo.full_name, lock.key),
            json!({
                "repo": next.scene.repo.full_name, "stack": lock.key, "stack_id": lock.stack_id,
                "pr": lock.pr_number, "run_id": lock.run_id, "via": via,
            }),
        );
    }
    released
}

/// All locks of the scene's pull request.
pub fn release_pull_request(next: &mut Next, via: &str) -> Vec<Lock> {
    let number = next.scene.pr_number;
    release(next, via, |lock| number != 0 && lock.pr_number == number)
}

/// Stacks that a job of the scene's pull request claimed, in whichever of its runs.
pub fn claimed(next: &Next) -> BTreeSet<StackKey> {
    let rows = next.scene.rows.values().flat_map(|rows| rows.values());
    rows.filter(|row| row.claim.is_some()).map(|row| row.key.clone()).collect()
}

/// Stacks that a job of the scene's pull request claimed and that it still locks, by key: later heads plan them even if they
/// leave them as the base has them, because what is deployed is neither the base's nor any head's.
pub fn applied(next: &Next) -> Vec<String> {
    let number = next.scene.pr_number;
    let claimed = claimed(next);
    let own = next.scene.locks.values().filter(|lock| number != 0 && lock.pr_number == number);
    own.filter(|lock| claimed.contains(&lock.key)).map(|lock| lock.key.to_string()).collect()
}

/// Locks of the pull request on stacks that none of its jobs claimed.
pub fn release_unclaimed(next: &mut Next, via: &str) -> Vec<Lock> {
    let number = next.scene.pr_number;
    let claimed = claimed(next);
    release(next, via, |lock| number != 0 && lock.pr_number == number && !claimed.contains(&lock.key))
}

/// Locks the stacks for the run. A lock of the same pull request is taken over and keeps its time; a foreign one is the
/// caller's to refuse before.
pub fn take(next: &mut Next, run: &Run, keys: &[StackKey], reason: &str) {
    for key in keys {
        let taken_at = next.scene.locks.get(key).map_or(next.now, |held| held.taken_at);
        next.scene.locks_mut().insert(
            key.clone(),
            Lock {
                stack_id: crate::ids::StackId::of(run.repo_id, key.as_str()),
                key: key.clone(),
                repo_id: run.repo_id,
                run_id: run.id.clone(),
                pr_number: run.pr_number,
                taken_at,
                reason: reason.to_owned(),
            },
        );
    }
}
