//! Queued applies that a decision lets start, or ends: in the commit of the decision itself (spec 30 §7.6).

use super::{App, Result};
use crate::run::next::Next;
use crate::run::queue::{self, Line};
use crate::run::scene::Changes;

/// Queued applies that one commit takes out of the queue; reconcile serves the rest.
const PROMOTIONS_MAX: usize = 50;

impl App {
    /// What the decision changes, and with it each queued apply of other pull requests whose turn it brings. Every one is
    /// decided on its own scene, under the locks that the ones before it left.
    pub(super) async fn with_promotions(&self, next: Next<'_>) -> Result<Changes> {
        let Some(mut line) = next.line_to_serve() else { return Ok(next.into_changes()) };
        let (now, repo_id, own) = (next.now, next.scene.repo.id, next.scene.pr_number);
        let version = next.scene.locks_version;
        let undispatchable = next.undispatchable.clone();
        let mut changes = next.into_changes();
        // Whether or not the decision itself moves a lock: what follows rests on them as they were seen first.
        changes.locks_version = Some(version);
        for _ in 0..PROMOTIONS_MAX {
            // What a decision brings about for its own pull request, it decides itself.
            let mut others = line.queue.iter().filter(|run| run.pr_number != own);
            let turn = others.find(|run| undispatchable.is_some() || line.holds_of(&run.id).is_empty());
            let Some((id, number)) = turn.map(|run| (run.id.clone(), run.pr_number)) else { break };
            line.queue.retain(|run| run.id != id);
            let Some(mut scene) = self.store.pull_scene(repo_id, number).await? else { break };
            if !scene.run(&id).is_some_and(|run| run.is_queued()) {
                // Moved on since the first look: the commit will find that out, and the decision is made again.
                continue;
            }
            scene.locks = line.locks.clone();
            scene.changed_at = line.changed_at.clone();
            let mut other = Next::of(&scene, now);
            other.caused_by("stackorder", "queue");
            match &undispatchable {
                Some(reason) => queue::leave(&mut other, &id, reason),
                None => queue::promote(&mut other, &id),
            }
            let after = Line::of(&other.scene);
            line.locks = after.locks;
            line.changed_at = after.changed_at;
            changes.add(other.into_changes());
        }
        queue::show_places(&mut changes.effects, &line, now);
        Ok(changes)
    }
}
