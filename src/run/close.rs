//! A pull request is merged or closed, and people unlock (spec 30 §7.3–§7.5).

use serde_json::json;

use super::locks;
use super::model::{Lock, Release, Run};
use super::next::Next;
use super::plan_view::PlanView;
use super::queue;
use super::status::{Mode, Trigger};
use super::supersede;
use crate::ids::{Sha, StackKey};
use crate::render::escape;

/// Merged into the default branch: its graph becomes the default one; in `before_merge` its locks go, now or when a
/// running apply ends. Returns the released locks.
pub fn merged(next: &mut Next, head: &Sha, release_locks: bool) -> Vec<Lock> {
    let view = PlanView::of(&next.scene, &[head]);
    let graph = view.graph_sha().cloned().or_else(|| {
        next.scene.newest_first().into_iter().find(|run| run.mode == Mode::Plan).and_then(|run| run.graph_sha.clone())
    });
    if let Some(graph) = graph.filter(|graph| next.scene.repo.default_graph.as_ref() != Some(graph)) {
        next.scene.repo.default_graph = Some(graph.clone());
        next.effects.default_graph = Some(graph);
    }
    end_queued_comment(next);
    if release_locks { merged_before(next) } else { Vec::new() }
}

/// What a comment asked for and still waits ends with the merge, which may ask anew.
fn end_queued_comment(next: &mut Next) {
    let queued = queue::own(&next.scene).filter(|run| run.trigger == Trigger::Comment).map(|run| run.id.clone());
    if let Some(queued) = queued {
        queue::leave(next, &queued, "the pull request is merged");
    }
}

/// A merge that was recorded before, told again: its locks go if they are still there, and later merges keep the graph.
pub fn merged_before(next: &mut Next) -> Vec<Lock> {
    end_queued_comment(next);
    if let Some(apply) = next.scene.apply_in_flight().map(|run| run.id.clone()) {
        next.run_mut(&apply).release_at_end = Some(Release::Merge);
        return Vec::new();
    }
    release_merged(next)
}

fn release_merged(next: &mut Next) -> Vec<Lock> {
    let released = locks::release_pull_request(next, "merge");
    if !released.is_empty() {
        let list = list_of(&released);
        let number = next.scene.pr_number;
        next.comment(
            format!("merged:{number}"),
            format!("**Merged: {} released.**\n\n{list}", locks_word(released.len())),
        );
    }
    released
}

/// What waited for the end of an apply because its pull request was merged, closed or pushed to meanwhile.
pub(super) fn release_at_end(next: &mut Next, run: &Run) {
    match run.release_at_end {
        None => {}
        Some(Release::Merge) => drop(release_merged(next)),
        Some(Release::Closed) => {
            locks::release_unclaimed(next, "closed");
            announce_kept(next);
        }
        Some(Release::NewHead) => supersede::release_unaffected_by_newest(next),
    }
}

/// Closed without merge, or merged elsewhere: locks of stacks that no job claimed go; an apply of which nothing was
/// claimed ends; if locks stay, one warning names them.
pub fn closed(next: &mut Next, warn: bool) {
    next.caused_by("github", "pull request closed");
    if let Some(apply) = next.scene.apply_in_flight().map(|run| (run.id.clone(), run.trigger)) {
        let (id, trigger) = apply;
        if trigger == Trigger::Comment && !supersede::is_claimed(next, &id) {
            supersede::abandon(next, &id, "the pull request is no longer open");
        } else {
            next.run_mut(&id).release_at_end = Some(Release::Closed);
            return;
        }
    }
    locks::release_unclaimed(next, "closed");
    if warn {
        announce_kept(next);
    }
}

/// Open again while an apply runs: at its end there is nothing to release or to announce.
pub fn reopened(next: &mut Next) {
    if let Some(apply) = next.scene.apply_in_flight().map(|run| run.id.clone()) {
        let run = next.run_mut(&apply);
        run.release_at_end = run.release_at_end.filter(|release| *release != Release::Closed);
    }
}

/// One comment that names the locks which stay on a closed pull request; silence without any.
fn announce_kept(next: &mut Next) {
    let number = next.scene.pr_number;
    let kept: Vec<Lock> = next.scene.locks.values().filter(|lock| lock.pr_number == number).cloned().collect();
    if kept.is_empty() {
        return;
    }
    let repo = next.scene.repo.full_name.clone();
    let keys: Vec<&StackKey> = kept.iter().map(|lock| &lock.key).collect();
    next.audit("stackorder", "lock_warning", format!("pr:{repo}#{number}"), json!({ "locks": keys }));
    let now = next.now;
    next.comment(format!("kept:{number}:{now}"), kept_text(&kept));
}

/// Why locks stay on a closed pull request, and what to do.
pub fn kept_text(kept: &[Lock]) -> String {
    format!(
        "**Closed with {} held.** What this pull request applied is deployed, while the default branch does not have it; \
         the locks stay so that nothing is applied over it unnoticed.\n\n{}\n\n\
         Bring both in line: reopen and merge, or apply a pull request that takes the change back. \
         Then comment `stackorder unlock`. State locks in S3 are not affected.",
        locks_word(kept.len()),
        list_of(kept)
    )
}

fn locks_word(count: usize) -> String {
    if count == 1 { "1 lock".to_owned() } else { format!("{count} locks") }
}

fn list_of(locks: &[Lock]) -> String {
    let lines: Vec<String> = locks
        .iter()
        .map(|lock| format!("- {} (since {})", escape::code(lock.key.as_str()), crate::clock::rfc3339(lock.taken_at)))
        .collect();
    lines.join("\n")
}

/// Releases one lock, whoever holds it. `None` when nobody does.
///
/// The holder may be a run that this scene does not hold: the store raises its version with the release, so a claim that
/// is decided at the same moment is decided again and finds no lock.
pub fn unlock(next: &mut Next, key: &StackKey, actor: &str, reason: &str, force_state: bool) -> Option<Lock> {
    let lock = next.scene.locks_mut().remove(key)?;
    next.audit(
        actor,
        "unlock",
        format!("{}//{key}", next.scene.repo.full_name),
        json!({
            "repo": next.scene.repo.full_name, "stack": key, "stack_id": lock.stack_id, "pr": lock.pr_number,
            "run_id": lock.run_id, "reason": reason, "force_state": force_state,
        }),
    );
    Some(lock)
}

/// `stackorder unlock [keys]` on the pull request: its own locks, all or the named ones.
pub fn unlock_own(next: &mut Next, keys: &[StackKey], actor: &str) -> Vec<Lock> {
    let number = next.scene.pr_number;
    let wanted: Vec<StackKey> = next
        .scene
        .locks
        .values()
        .filter(|lock| lock.pr_number == number && (keys.is_empty() || keys.contains(&lock.key)))
        .map(|lock| lock.key.clone())
        .collect();
    let mut released = Vec::new();
    for key in wanted {
        if let Some(lock) = next.scene.locks_mut().remove(&key) {
            next.audit(
                actor,
                "unlock",
                format!("{}//{key}", next.scene.repo.full_name),
                json!({
                    "repo": next.scene.repo.full_name, "stack": key, "stack_id": lock.stack_id, "pr": lock.pr_number,
                    "run_id": lock.run_id, "via": "comment",
                }),
            );
            released.push(lock);
        }
    }
    released
}
