//! How often everything was met: a simulation that never meets a fault or never asks a law shows nothing about it.

use std::collections::BTreeMap;

use super::pairs::{Met, Pairs};
use super::world::World;

/// Counts over many seeds, by the kind of thing and its name.
#[derive(Debug, Default)]
pub struct Counts(BTreeMap<(&'static str, String), u64>);

/// What an apply must have gone through somewhere in two thousand seeds, besides what every fault and law counts.
const APPLY_MOVES: [(&str, &str); 9] = [
    ("planned", "applying"),
    ("planned", "blocked"),
    ("planned", "failed"),
    ("planned", "noop"),
    ("planned", "skipped"),
    ("planned", "unknown"),
    ("applying", "applied"),
    ("applying", "failed"),
    ("applying", "unknown"),
];

impl Counts {
    pub fn add(&mut self, world: &World) {
        let laws = world.laws.lock().expect("one thread");
        for ((mode, from, to), count) in &laws.moves {
            self.count("row", format!("{mode}: {from} -> {to}"), *count);
        }
        for ((mode, from, to), count) in laws.run_moves.iter().filter(|((_, from, to), _)| from != to) {
            self.count("run", format!("{mode}: {from} -> {to}"), *count);
        }
        for (name, count) in &laws.asked {
            self.count("law", (*name).to_owned(), *count);
        }
        for (name, count) in world.faults.counts() {
            self.count("fault", name.to_owned(), count);
        }
        self.count("fault", "a race was lost".to_owned(), laws.conflicts);
    }

    pub fn add_pairs(&mut self, pairs: &Pairs) {
        for (name, count) in pairs.counts() {
            self.count("pair", name, count);
        }
    }

    fn count(&mut self, kind: &'static str, name: String, count: u64) {
        *self.0.entry((kind, name)).or_default() += count;
    }

    pub fn merge(&mut self, other: Counts) {
        for ((kind, name), count) in other.0 {
            self.count(kind, name, count);
        }
    }

    /// What should have been met and was not.
    pub fn missing(&self) -> Vec<String> {
        let faults = super::faults::ALL.iter().map(|name| ("fault", (*name).to_owned()));
        let laws = super::laws::ALL.iter().map(|name| ("law", (*name).to_owned()));
        let moves = APPLY_MOVES.iter().map(|(from, to)| ("row", format!("apply: {from} -> {to}")));
        let possible = super::pairs::all().into_iter().filter(|(_, met)| *met == Met::Often);
        let wanted = faults.chain(laws).chain(moves).chain(possible.map(|(name, _)| ("pair", name)));
        wanted.filter(|name| !self.0.contains_key(name)).map(|(kind, name)| format!("{kind}  {name}")).collect()
    }

    /// Pairs that cannot be met, and were.
    pub fn impossible(&self) -> Vec<String> {
        let impossible = super::pairs::all().into_iter().filter(|(_, met)| *met == Met::Never);
        impossible.map(|(name, _)| name).filter(|name| self.0.contains_key(&("pair", name.clone()))).collect()
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|((kind, name), count)| writeln!(f, "{count:>12}  {kind:<5}  {name}"))
    }
}
