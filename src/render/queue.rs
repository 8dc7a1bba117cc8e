//! Applies that wait until others free their stacks, and at which place (spec 30 §7.6).

use std::collections::BTreeMap;

use super::words::count;
use super::{escape, lists};
use crate::gate;
use crate::ids::StackKey;
use crate::run::model::Run;
use crate::run::queue::{Hold, Line};
use crate::run::scene::Scene;

/// Room for the stacks a comment names.
const STACKS_BYTES_MAX: usize = 20_000;

/// The answer to a request that waits.
pub fn comment(command: &str, holds: &BTreeMap<StackKey, Hold<'_>>) -> String {
    format!(
        "**Queued: {}.** It starts by itself, in turn, as soon as these stacks are free:\n\n{}\n\
         A push, closing the pull request or `stackorder unlock` takes it out of the queue.",
        escape::code(command),
        bullets(holds)
    )
}

/// `Queued at place 2: waits for #7 on stacks/prod/vpc and 2 more`.
pub fn title(scene: &Scene, run: &Run) -> String {
    let line = Line::of(scene);
    let place = line.place_of(&run.id).unwrap_or(1);
    let holds = line.holds_of(&run.id);
    let Some((key, hold)) = holds.iter().next() else { return format!("Queued at place {place}: starts in a moment") };
    let more = match holds.len() - 1 {
        0 => String::new(),
        others => format!(" and {} more", count(others, "stack")),
    };
    format!("Queued at place {place}: waits for {} on {key}{more}", holder(hold))
}

/// What a queued apply waits for, one line per stack; empty for any other run.
pub fn list(scene: &Scene, run: &Run) -> String {
    if !run.is_queued() {
        return String::new();
    }
    let line = Line::of(scene);
    let holds = line.holds_of(&run.id);
    if holds.is_empty() { String::new() } else { format!("**Waits for**\n\n{}\n", bullets(&holds)) }
}

fn bullets(holds: &BTreeMap<StackKey, Hold<'_>>) -> String {
    let items: Vec<String> =
        holds.iter().map(|(key, hold)| format!("{}: {}", escape::code(key.as_str()), gate::reason_of(hold))).collect();
    lists::bullets(&items, STACKS_BYTES_MAX)
}

fn holder(hold: &Hold<'_>) -> String {
    match hold {
        Hold::Locked(lock) => lock.holder(),
        Hold::Waits(run) => format!("#{}", run.pr_number),
    }
}
