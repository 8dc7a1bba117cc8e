//! Module nodes and the calls that lead to them (spec 11 §6).

use std::collections::{BTreeMap, BTreeSet};

use super::directory::At;
use super::files::join;
use super::module_source::{self, Remote, Source};
use super::reader::Reader;
use super::terraform_file::ModuleCall;
use super::value::Value;
use crate::config::glob::PathGlobs;
use crate::graph::model::{Edge, EdgeType, Module, ModuleKind, NodeRef, Warning};

/// Everything about modules that the graph holds.
#[derive(Debug, Default)]
pub(super) struct Modules {
    pub modules: Vec<Module>,
    pub edges: Vec<Edge>,
    pub warnings: Vec<Warning>,
}

/// The names that a module key is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Home<'a> {
    pub repo: &'a str,
    pub host: &'a str,
}

/// Whether a directory is under the module paths: itself or any directory above it matches.
pub(super) fn is_under(paths: &PathGlobs, directory: &str) -> bool {
    std::iter::once(directory).chain(super::files::ancestors(directory)).any(|path| paths.matches(path))
}

/// Follows the calls of all stacks (`path` to its keys) and of all directories under the module paths.
pub(super) fn find(
    reader: &mut Reader<'_>,
    home: Home<'_>,
    paths: &PathGlobs,
    stacks: &BTreeMap<String, Vec<String>>,
) -> Modules {
    let mut walk = Walk { home, locals: BTreeSet::new(), calls: BTreeMap::new(), warnings: Vec::new() };
    let below: Vec<String> =
        reader.terraform_directories().filter(|path| is_under(paths, path)).map(str::to_owned).collect();
    let mut queue: Vec<String> = stacks.keys().cloned().collect();
    for directory in below {
        walk.locals.insert(directory.clone());
        queue.push(directory);
    }
    while let Some(directory) = queue.pop() {
        if walk.calls.contains_key(&directory) {
            continue;
        }
        let calls = walk.read(reader, &directory);
        for call in &calls {
            if let Target::Local(target) = &call.target {
                reader.enter(target);
                walk.locals.insert(target.clone());
                queue.push(target.clone());
            }
        }
        walk.calls.insert(directory, calls);
    }
    walk.finish(stacks)
}

struct Walk<'a> {
    home: Home<'a>,
    /// Directories that are modules.
    locals: BTreeSet<String>,
    calls: BTreeMap<String, Vec<Call>>,
    warnings: Vec<Warning>,
}

struct Call {
    target: Target,
    source: String,
    at: (String, u32),
    name: String,
}

enum Target {
    Local(String),
    Remote(Remote),
}

impl Walk<'_> {
    fn read(&mut self, reader: &Reader<'_>, directory: &str) -> Vec<Call> {
        let calls = reader.directory(directory).modules;
        calls.iter().filter_map(|call| self.target(reader, directory, call)).collect()
    }

    fn target(&mut self, reader: &Reader<'_>, directory: &str, call: &At<ModuleCall>) -> Option<Call> {
        let line = call.it.source.as_ref().map_or(call.it.line, |source| source.line);
        let name = call.it.name.as_str();
        let mut refuse = |code: &str, what: String| {
            self.warnings.push(Warning::new(code, format!("module {name:?}: {what}")).at(&call.file, line));
        };
        let source = match call.it.source.as_ref().map(super::value::Expression::value) {
            None | Some(Value::Null) => {
                refuse("module_no_source", "it has no source".to_owned());
                return None;
            }
            Some(Value::Text(source)) if source.trim().is_empty() => {
                refuse("module_no_source", "its source is empty".to_owned());
                return None;
            }
            Some(Value::Text(source)) => source.trim().to_owned(),
            Some(Value::Unknown | Value::Other | Value::Bool(_)) => {
                refuse("module_unresolved", "its source is not a literal, so the edge is unresolved".to_owned());
                return None;
            }
        };
        let version = call.it.version.as_ref().and_then(|version| version.value().into_text()).unwrap_or_default();
        let target = match module_source::parse(&source, &version, self.home.host) {
            Source::Unsupported => {
                refuse("module_unsupported", format!("source {source:?} is not supported"));
                return None;
            }
            Source::Remote(remote) => Target::Remote(remote),
            Source::Local(path) => match local(reader, directory, &path) {
                Ok(target) => Target::Local(target),
                Err((code, why)) => {
                    refuse(code, format!("source {source:?} {why}"));
                    return None;
                }
            },
        };
        Some(Call { target, source, at: (call.file.clone(), line), name: name.to_owned() })
    }

    fn local_key(&self, directory: &str) -> String {
        format!("{}//{directory}", self.home.repo)
    }

    /// Nodes and edges, once it is known which directories are modules.
    fn finish(mut self, stacks: &BTreeMap<String, Vec<String>>) -> Modules {
        let mut modules: BTreeMap<String, Module> = BTreeMap::new();
        for directory in &self.locals {
            let key = self.local_key(directory);
            modules.insert(
                key.clone(),
                Module {
                    key,
                    kind: ModuleKind::Local,
                    path: directory.clone(),
                    source: String::new(),
                    reference: String::new(),
                },
            );
        }
        let mut edges: BTreeMap<(NodeRef, String), (String, String)> = BTreeMap::new();
        for (directory, calls) in &self.calls {
            let mut callers: Vec<NodeRef> = stacks.get(directory).into_iter().flatten().map(NodeRef::stack).collect();
            if self.locals.contains(directory) {
                callers.push(NodeRef::module(self.local_key(directory)));
            }
            for call in calls {
                let (key, reference) = match &call.target {
                    Target::Local(path) => (self.local_key(path), String::new()),
                    Target::Remote(remote) => (remote.key.clone(), remote.reference.clone()),
                };
                let module = modules.entry(key.clone()).or_insert_with(|| Module {
                    key: key.clone(),
                    kind: match &call.target {
                        Target::Local(_) => ModuleKind::Local,
                        Target::Remote(remote) => remote.kind,
                    },
                    path: String::new(),
                    source: String::new(),
                    reference: reference.clone(),
                });
                if module.kind == ModuleKind::Local && matches!(call.target, Target::Remote(_)) {
                    let message = format!(
                        "module {:?}: source {:?} is the local module {key:?} of this repository; it is kept as local",
                        call.name, call.source
                    );
                    self.warnings.push(Warning::new("module_local_and_git", message).at(&call.at.0, call.at.1));
                }
                smallest(&mut module.source, &call.source);
                for caller in &callers {
                    let meta = edges
                        .entry((caller.clone(), key.clone()))
                        .or_insert_with(|| (String::new(), reference.clone()));
                    smallest(&mut meta.0, &call.source);
                }
            }
        }
        for module in modules.values_mut().filter(|module| module.source.is_empty()) {
            module.source = format!("./{}", module.path);
        }
        let edge = |((from, to), (source, reference)): ((NodeRef, String), (String, String))| Edge {
            from,
            to: NodeRef::module(to),
            kind: EdgeType::UsesModule,
            inferred: false,
            meta: BTreeMap::from([("ref".to_owned(), reference), ("source".to_owned(), source)]),
        };
        Modules {
            modules: modules.into_values().collect(),
            edges: edges.into_iter().map(edge).collect(),
            warnings: self.warnings,
        }
    }
}

fn smallest(kept: &mut String, other: &str) {
    if kept.is_empty() || other < kept.as_str() {
        other.clone_into(kept);
    }
}

/// The directory that a local source means, or the code and reason of the warning.
fn local(reader: &Reader<'_>, directory: &str, source: &str) -> Result<String, (&'static str, String)> {
    let Some(path) = join(directory, source) else {
        return Err(("module_outside", "leads out of the repository".to_owned()));
    };
    if let Some(submodule) = reader.tree.submodule_of(&path) {
        return Err(("module_in_submodule", format!("leads into the git submodule {submodule:?}, which is not read")));
    }
    let Some(real) = reader.tree.real_directory(&path) else {
        return Err(("module_not_directory", "is not a directory of the repository".to_owned()));
    };
    if real == directory {
        return Err(("module_itself", "is the calling directory itself".to_owned()));
    }
    Ok(real)
}
