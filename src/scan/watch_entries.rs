//! Entries of `watch`: files that count for a stack because its configuration says so, where no scan could see it.

use std::collections::{BTreeMap, BTreeSet};

use super::file_sets::{self, FileSets, Place, Presence};
use super::reader::Reader;
use super::stacks::Built;
use crate::config::effective::Source;
use crate::config::glob::PathGlobs;
use crate::config::glob::parts::{from_root, has_pattern, literal_start};
use crate::config::lines::KeyLines;
use crate::config::model::RepoConfig;
use crate::config::stack_file;
use crate::graph::model::Warning;

/// What an entry came to, over all instances that have it.
struct Entry {
    written: String,
    presence: Presence,
    /// Whether it names a directory, which is no file.
    is_directory: bool,
}

/// Gives every stack what its entries name. A warning for each entry that no file matches, with its line.
pub(super) fn add(
    reader: &Reader<'_>,
    sets: &FileSets<'_, '_>,
    config: &RepoConfig,
    stacks: &mut [Built],
) -> Vec<Warning> {
    let ignored = PathGlobs::lenient(&config.stacks.ignore).0;
    let mut warnings = Vec::new();
    let mut entries: BTreeMap<(String, String), Entry> = BTreeMap::new();
    for built in stacks.iter_mut().filter(|built| !built.watch.is_empty()) {
        let stack = &mut built.stack;
        let mut globs: BTreeSet<String> = stack.watch_globs.drain(..).collect();
        let mut paths: BTreeSet<String> = stack.watch_paths.drain(..).collect();
        for entry in &built.watch {
            // The configuration is refused when there is none.
            let Some(glob) = from_root(&stack.path, &entry.value) else { continue };
            let mut is_directory = false;
            let presence = match file_sets::place(&reader.tree, &glob) {
                Place::Submodule(path) => {
                    paths.insert(path);
                    Presence::Files
                }
                Place::Glob(glob) => {
                    let (all, is_cut) = sets.behind_links(&glob);
                    warnings.extend(is_cut.then(|| file_sets::too_many_links(&glob).of_stack(&stack.key)));
                    is_directory = !has_pattern(&glob) && reader.tree.is_directory(&literal_start(&glob));
                    let presence = sets.presence(&all, &ignored);
                    globs.extend(all);
                    presence
                }
            };
            let Source::Stack(key) = &entry.source else { continue };
            let found = entries.entry((stack_file(&stack.path), key.clone())).or_insert_with(|| Entry {
                written: entry.value.clone(),
                presence,
                is_directory,
            });
            found.presence = found.presence.max(presence);
        }
        stack.watch_globs = globs.into_iter().collect();
        stack.watch_paths = paths.into_iter().collect();
    }
    warnings.extend(unused(reader, entries));
    warnings
}

fn unused(reader: &Reader<'_>, entries: BTreeMap<(String, String), Entry>) -> Vec<Warning> {
    let mut lines: BTreeMap<String, KeyLines> = BTreeMap::new();
    let mut warnings = Vec::new();
    for ((file, key), Entry { written, presence, is_directory }) in entries {
        let (code, why) = match presence {
            Presence::Files => continue,
            Presence::Ignored => ("watch_ignored", "matches only files that stacks.ignore leaves out".to_owned()),
            Presence::Nothing if is_directory => {
                let bare = written.trim_end_matches('/');
                ("watch_unused", format!("is a directory; write \"{bare}/**\" for the files in it"))
            }
            Presence::Nothing => ("watch_unused", "matches no file".to_owned()),
        };
        let lines = lines
            .entry(file.clone())
            .or_insert_with_key(|file| reader.read(file).map(|bytes| KeyLines::of(&bytes)).unwrap_or_default());
        let warning = Warning::new(code, format!("watch: {written:?} {why}"));
        warnings.push(match lines.line(&key) {
            Some(line) => warning.at(&file, line),
            None => warning.in_file(&file),
        });
    }
    warnings
}
