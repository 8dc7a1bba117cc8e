//! From changed paths to the stacks and modules that own or watch them (spec 11 §9).

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Graph, ModuleKind, Warning};
use super::ordering::Ordering;
use crate::config::glob::PathGlobs;
use crate::config::model::RepoConfig;
use crate::ids::{StackKey, normalise_path};
use crate::scan::files::ancestors;

/// What the changed paths reach by themselves. Stacks are numbers of the [`Ordering`].
#[derive(Debug, Default)]
pub(crate) struct Touched<'g> {
    pub changed: BTreeSet<usize>,
    pub watching: BTreeSet<usize>,
    /// Keys of local modules.
    pub modules: BTreeSet<&'g str>,
    pub warnings: Vec<Warning>,
}

/// Whether a stack may be scheduled at all: its key path is already canonical and inside the repository.
pub fn is_schedulable(key: &str) -> bool {
    StackKey::parse(key).is_ok_and(|parsed| parsed.as_str() == key)
}

/// Sorts the changed paths to their owners.
pub(crate) fn touched<'g>(
    graph: &'g Graph,
    ordering: &Ordering,
    config: &RepoConfig,
    changed_paths: &[String],
) -> Touched<'g> {
    let owners = Owners::of(graph, ordering);
    let mut touched = Touched::default();
    let ignore = ignore_globs(config, &mut touched.warnings);
    let paths: BTreeSet<String> = changed_paths.iter().map(|path| clean(path)).collect();
    for path in paths.iter().filter(|path| !path.is_empty()) {
        if path.split('/').any(|segment| segment == ".terraform") || ignore.iter().any(|glob| glob.matches(path)) {
            continue;
        }
        let outside = path == ".." || path.starts_with("../");
        if (outside || !owners.touch(path, &mut touched)) && !is_own_configuration(path) {
            let message = format!("changed path {path:?} is in no stack or module");
            touched.warnings.push(Warning::new("path_unowned", message).in_file(path));
        }
    }
    touched
}

fn clean(path: &str) -> String {
    normalise_path(path.trim_matches('\0'))
}

fn is_own_configuration(path: &str) -> bool {
    path == "stackorder.yaml" || path.starts_with(".stackorder/")
}

/// Each ignore glob that is one; the others warn.
fn ignore_globs(config: &RepoConfig, warnings: &mut Vec<Warning>) -> Vec<PathGlobs> {
    let lockfiles = config.stacks.ignore_lockfile.then(|| "**/.terraform.lock.hcl".to_owned());
    let mut globs = Vec::new();
    for glob in config.stacks.ignore.iter().cloned().chain(lockfiles) {
        match PathGlobs::new(std::slice::from_ref(&glob)) {
            Ok(compiled) => globs.push(compiled),
            Err(_) => {
                let message = format!("stacks.ignore: {glob:?} is not a glob; it is skipped");
                warnings.push(Warning::new("ignore_glob", message));
            }
        }
    }
    globs
}

/// Who owns which directory.
struct Owners<'g> {
    stacks: BTreeMap<&'g str, Vec<usize>>,
    modules: BTreeMap<&'g str, Vec<&'g str>>,
    watched: BTreeMap<String, Vec<usize>>,
    /// Var files that belong to exactly one instance of the directory they lie in.
    own_files: BTreeMap<String, usize>,
}

impl<'g> Owners<'g> {
    fn of(graph: &'g Graph, ordering: &Ordering) -> Self {
        let mut owners =
            Self { stacks: BTreeMap::new(), modules: BTreeMap::new(), watched: BTreeMap::new(), own_files: BTreeMap::new() };
        for stack in graph.stacks.iter().filter(|stack| !stack.external && is_schedulable(&stack.key)) {
            let Some(number) = ordering.index(&stack.key) else { continue };
            owners.stacks.entry(stack.path.as_str()).or_default().push(number);
            for path in &stack.watch_paths {
                owners.watched.entry(normalise_path(path)).or_default().push(number);
            }
        }
        for module in graph.modules.iter().filter(|module| module.kind == ModuleKind::Local && !module.path.is_empty()) {
            owners.modules.entry(module.path.as_str()).or_default().push(module.key.as_str());
        }
        owners
    }

    /// Whether anybody has to do with the path.
    fn touch(&self, path: &str, touched: &mut Touched<'g>) -> bool {
        let mut owned = false;
        let enclosing = || std::iter::once(path).chain(ancestors(path));
        if let Some(stacks) = enclosing().find_map(|directory| self.stacks.get(directory)) {
            match self.own_files.get(path) {
                Some(only) => drop(touched.changed.insert(*only)),
                None => touched.changed.extend(stacks),
            }
            owned = true;
        }
        if let Some(modules) = enclosing().find_map(|directory| self.modules.get(directory)) {
            // A lock file in a module folder pins nothing: only the root module's counts.
            if !path.ends_with("/.terraform.lock.hcl") {
                touched.modules.extend(modules);
            }
            owned = true;
        }
        if let Some(stacks) = self.watched.get(path) {
            touched.watching.extend(stacks);
            owned = true;
        }
        owned
    }
}
