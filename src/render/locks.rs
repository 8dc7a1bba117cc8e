//! Locks of others on the stacks that are shown.

use super::{Context, escape};
use crate::ids::StackKey;
use crate::run::model::Lock;
use crate::run::scene::Scene;

/// The lock on the stack, when another pull request or a manual run holds it.
pub fn foreign<'s>(scene: &'s Scene, key: &StackKey) -> Option<&'s Lock> {
    scene.locks.get(key).filter(|lock| lock.pr_number == 0 || lock.pr_number != scene.pr_number)
}

/// Who holds it, as Markdown.
pub fn holder(scene: &Scene, context: &Context, lock: &Lock) -> String {
    match lock.pr_number {
        0 => escape::text(&lock.holder()),
        number => context.pull_link(&scene.repo.full_name, number),
    }
}
