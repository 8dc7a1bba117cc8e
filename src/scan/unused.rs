//! Entries of the configuration that match nothing: a typo, or what is left of something that moved.

use std::collections::BTreeSet;

use super::reader::Reader;
use super::stacks::Built;
use super::{Globs, warning_in};
use crate::config::ROOT_FILE;
use crate::config::environments::EnvironmentRules;
use crate::config::lines::KeyLines;
use crate::config::model::RepoConfig;
use crate::graph::model::Warning;

/// A warning for each entry of `stacks.exclude` and `environments` that does nothing, with its line where the
/// configuration stands in the checkout. Missing entries of `stacks.include` and `depends_on` are found where they count.
pub(super) fn warnings(reader: &Reader<'_>, config: &RepoConfig, globs: &Globs, stacks: &[Built]) -> Vec<Warning> {
    let keys = stacks.iter().map(|built| (built.stack.path.as_str(), built.stack.instance.as_str()));
    let rules: Vec<&str> = EnvironmentRules::of(config).unused(&keys.collect::<Vec<_>>());
    let excluding: BTreeSet<usize> =
        reader.tree.directories().flat_map(|directory| globs.exclude.matching(directory)).collect();
    let mut found: Vec<(String, &str, String)> = Vec::new();
    for (at, glob) in config.stacks.exclude.iter().enumerate().filter(|(at, _)| !excluding.contains(at)) {
        let message = format!("stacks.exclude: {glob:?} matches no directory");
        found.push((format!("stacks.exclude[{at}]"), "exclude_unused", message));
    }
    for rule in rules {
        let message = format!("environments: {rule:?} matches no stack");
        found.push((format!("environments[{rule:?}]"), "environment_unused", message));
    }
    if found.is_empty() {
        return Vec::new();
    }
    let lines = reader.read(ROOT_FILE).map(|bytes| KeyLines::of(&bytes)).unwrap_or_default();
    let place = |(path, code, message): (String, &str, String)| {
        let warning = warning_in(code, ROOT_FILE, message);
        lines.line(&path).map_or_else(|| warning.clone(), |line| warning.clone().at(ROOT_FILE, line))
    };
    found.into_iter().map(place).collect()
}
