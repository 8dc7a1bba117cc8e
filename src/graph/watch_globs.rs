//! Globs that stacks watch (spec 11 §9), compiled only where a changed path asks for them.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use foldhash::HashMap;

use super::model::Warning;
use crate::config::glob::{self, PathGlobs, parts::literal_start};
use crate::scan::files::ancestors;

/// The globs of all stacks by the directory that they start with.
#[derive(Default)]
pub(super) struct WatchGlobs<'g> {
    below: HashMap<String, Group<'g>>,
}

/// Globs that start with the same directory, and for each the numbers of the stacks that watch what it matches.
#[derive(Default)]
struct Group<'g> {
    globs: BTreeMap<&'g str, Vec<usize>>,
    compiled: OnceCell<Compiled>,
}

enum Compiled {
    Globs {
        globs: PathGlobs,
        stacks: Vec<Vec<usize>>,
    },
    /// Too many, or too large together.
    Everything,
}

/// Most different globs that start with one directory; compiling more takes seconds. What lies below a directory with
/// more of them counts as matched by all: planned too often, but never missed.
const GLOBS_OF_DIRECTORY_MAX: usize = 1_000;

impl<'g> WatchGlobs<'g> {
    pub(super) fn add(&mut self, glob: &'g str, stack: usize) {
        let group = self.below.entry(literal_start(glob)).or_default();
        group.globs.entry(glob).or_default().push(stack);
    }

    /// The stacks that watch a path, in no order and perhaps more than once.
    pub(super) fn watching(&self, path: &str, warnings: &mut Vec<Warning>) -> Vec<usize> {
        let mut found = Vec::new();
        for directory in std::iter::once(path).chain(ancestors(path)) {
            let Some(group) = self.below.get(directory) else { continue };
            match group.compiled.get_or_init(|| group.compile(directory, warnings)) {
                Compiled::Globs { globs, stacks } => {
                    found.extend(globs.matching(path).into_iter().flat_map(|glob| &stacks[glob]));
                }
                Compiled::Everything => found.extend(group.globs.values().flatten()),
            }
        }
        found
    }
}

impl Group<'_> {
    fn compile(&self, directory: &str, warnings: &mut Vec<Warning>) -> Compiled {
        if self.globs.len() > GLOBS_OF_DIRECTORY_MAX {
            warnings.push(too_many(directory, self.globs.len()));
            return Compiled::Everything;
        }
        let (mut valid, mut stacks) = (Vec::new(), Vec::new());
        for (glob, watching) in &self.globs {
            match glob::check(glob) {
                Ok(()) => {
                    valid.push((*glob).to_owned());
                    stacks.push(watching.clone());
                }
                Err(error) => {
                    let message = format!("watched files: {error}; the glob is skipped");
                    warnings.push(Warning::new("watch_globs", message));
                }
            }
        }
        match PathGlobs::new(&valid) {
            Ok(globs) => Compiled::Globs { globs, stacks },
            Err(_) => {
                warnings.push(too_many(directory, self.globs.len()));
                Compiled::Everything
            }
        }
    }
}

fn too_many(directory: &str, count: usize) -> Warning {
    let place = if directory.is_empty() { "with a pattern".to_owned() } else { format!("with {directory:?}") };
    let message = format!(
        "{count} watched globs start {place}, which is more than can be told apart: \
         each change below it counts for all their stacks"
    );
    Warning::new("watch_globs", message)
}
