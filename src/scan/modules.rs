//! Module nodes and the calls that lead to them (spec 11 §6).
//!
//! Calls with a literal source are followed once for each directory. The others mean something else for each caller:
//! [`super::module_values`] follows them with the values of each stack.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::directory::{At, Directory};
use super::file_reads::{self, Found};
use super::module_calls::{self, Call, Home, Target};
use super::module_values;
use super::reader::Reader;
use super::remote_state::StateObject;
use super::stacks::Built;
use super::terraform_file::{FileRead, ModuleCall};
use crate::config::glob::PathGlobs;
use crate::config::model::Tool;
use crate::graph::model::{Edge, EdgeType, Module, ModuleKind, NodeRef, Warning};

/// Everything about modules that the graph holds.
#[derive(Debug, Default)]
pub(super) struct Modules {
    pub modules: Vec<Module>,
    pub edges: Vec<Edge>,
    /// State objects that modules read, by the key of the stack that uses them.
    pub reads: BTreeMap<String, BTreeSet<StateObject>>,
    /// Files that modules read outside of themselves, by the same key.
    pub file_reads: BTreeMap<String, Found>,
    pub warnings: Vec<Warning>,
}

/// Whether a directory is under the module paths: itself or any directory above it matches.
pub(super) fn is_under(paths: &PathGlobs, directory: &str) -> bool {
    std::iter::once(directory).chain(super::files::ancestors(directory)).any(|path| paths.matches(path))
}

/// Follows the calls of all stacks and of all directories under the module paths; `tool` is read by those that no
/// stack calls.
pub(super) fn find(
    reader: &mut Reader<'_>,
    home: Home<'_>,
    paths: &PathGlobs,
    stacks: &[Built],
    tool: Tool,
) -> Modules {
    let mut walk = Walk::new(home);
    let below: Vec<String> =
        reader.terraform_directories().filter(|path| is_under(paths, path)).map(str::to_owned).collect();
    let roots: BTreeSet<Place> = stacks.iter().map(Built::place).collect();
    for root in &roots {
        walk.follow(reader, root.clone());
    }
    for directory in below {
        walk.locals.insert(directory.clone());
        walk.follow(reader, (directory, tool));
    }
    let followed = module_values::follow(reader, &mut walk, stacks);
    let modules = walk.finish(stacks);
    Modules { reads: followed.states, file_reads: followed.file_reads, ..modules }
}

/// A directory as a tool reads it.
pub(super) type Place = (String, Tool);

/// What the files of one place say about modules.
#[derive(Debug)]
pub(super) struct Node {
    pub directory: Rc<Directory>,
    /// Calls that mean the same for every caller.
    pub calls: Vec<Call>,
    /// Calls that need values.
    pub unread: Vec<At<ModuleCall>>,
    /// Calls that may read what is not the module's own.
    pub file_reads: Vec<At<FileRead>>,
}

impl Node {
    /// Whether its files read states, or files that are not its own.
    pub fn reads(&self) -> bool {
        !self.directory.remote_states.is_empty() || !self.file_reads.is_empty()
    }

    /// Where its literal sources lead, read by the same tool.
    pub fn targets(&self, tool: Tool) -> impl Iterator<Item = Place> {
        self.calls.iter().filter_map(move |call| match &call.target {
            Target::Local(directory) => Some((directory.clone(), tool)),
            Target::Remote(_) => None,
        })
    }
}

pub(super) struct Walk<'a> {
    pub home: Home<'a>,
    /// Directories that are modules.
    locals: BTreeSet<String>,
    pub nodes: BTreeMap<Place, Node>,
    /// Places that were read since somebody last asked.
    pub fresh: Vec<Place>,
    /// Calls that were found with values, by who makes them, where, and with which source.
    evaluated: BTreeMap<(NodeRef, (String, u32), String), Call>,
    pub warnings: Vec<Warning>,
}

impl<'a> Walk<'a> {
    fn new(home: Home<'a>) -> Self {
        Self {
            home,
            locals: BTreeSet::new(),
            nodes: BTreeMap::new(),
            fresh: Vec::new(),
            evaluated: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Reads a place and all that literal sources lead to.
    fn follow(&mut self, reader: &mut Reader<'_>, place: Place) {
        let mut queue = vec![place];
        while let Some(place) = queue.pop() {
            if self.nodes.contains_key(&place) {
                continue;
            }
            let node = self.read(reader, &place);
            for call in &node.calls {
                if let Target::Local(target) = &call.target {
                    reader.enter(target);
                    self.locals.insert(target.clone());
                    queue.push((target.clone(), place.1));
                }
            }
            self.fresh.push(place.clone());
            self.nodes.insert(place, node);
        }
    }

    /// Records a call that was found with values, and follows it.
    pub fn found(&mut self, reader: &mut Reader<'_>, caller: NodeRef, call: Call, tool: Tool) {
        if let Target::Local(target) = &call.target {
            reader.enter(target);
            self.locals.insert(target.clone());
            self.follow(reader, (target.clone(), tool));
        }
        self.evaluated.insert((caller, call.at.clone(), call.source.clone()), call);
    }

    fn read(&mut self, reader: &Reader<'_>, (directory, tool): &Place) -> Node {
        let read = reader.directory(directory, *tool);
        // A backend in a module means nothing; mistakes do.
        self.warnings.extend(read.warnings.iter().filter(|it| it.code != "backend_second").cloned());
        let leaves = |read: &At<FileRead>| file_reads::may_leave(reader, directory, &read.it);
        let file_reads = read.file_reads.iter().filter(|read| leaves(read)).cloned().collect();
        let mut node = Node { directory: read.clone(), calls: Vec::new(), unread: Vec::new(), file_reads };
        for call in &read.modules {
            if !module_calls::is_literal(&call.it) {
                node.unread.push(call.clone());
                continue;
            }
            let literal = |expression: &super::value::Expression| {
                expression.literal().ok_or_else(|| "it is not a literal".to_owned())
            };
            match module_calls::resolve(reader, self.home, directory, call, &literal) {
                Ok(call) => node.calls.push(call),
                Err(warning) => self.warnings.push(warning),
            }
        }
        node
    }

    pub fn is_module(&self, directory: &str) -> bool {
        self.locals.contains(directory)
    }

    /// The root has the key that git sources give it.
    pub fn local_key(&self, directory: &str) -> String {
        if directory.is_empty() { self.home.repo.to_owned() } else { format!("{}//{directory}", self.home.repo) }
    }

    /// Nodes and edges, once it is known which directories are modules.
    fn finish(self, stacks: &[Built]) -> Modules {
        let mut stacks_of: BTreeMap<Place, Vec<NodeRef>> = BTreeMap::new();
        for built in stacks {
            stacks_of.entry(built.place()).or_default().push(NodeRef::stack(&built.stack.key));
        }
        let mut warnings = self.warnings.clone();
        let mut modules: BTreeMap<String, Module> = self.locals.iter().map(|path| self.local_module(path)).collect();
        let mut edges: BTreeMap<(NodeRef, String), (String, String)> = BTreeMap::new();
        let mut calls: Vec<(Vec<NodeRef>, &Call)> = Vec::new();
        for (place, node) in &self.nodes {
            let mut callers = stacks_of.get(place).cloned().unwrap_or_default();
            if self.locals.contains(&place.0) {
                callers.push(NodeRef::module(self.local_key(&place.0)));
            }
            calls.extend(node.calls.iter().map(|call| (callers.clone(), call)));
        }
        calls.extend(self.evaluated.iter().map(|((caller, ..), call)| (vec![caller.clone()], call)));
        for (callers, call) in calls {
            let (key, kind, reference) = match &call.target {
                Target::Local(path) => (self.local_key(path), ModuleKind::Local, String::new()),
                Target::Remote(remote) => (remote.key.clone(), remote.kind, remote.reference.clone()),
            };
            let module = modules.entry(key.clone()).or_insert_with(|| Module {
                key: key.clone(),
                kind,
                path: String::new(),
                source: String::new(),
                reference: reference.clone(),
            });
            if module.kind == ModuleKind::Local && kind != ModuleKind::Local {
                let message = format!(
                    "module {:?}: source {:?} is the local module {key:?} of this repository; it is kept as local",
                    call.name, call.source
                );
                warnings.push(Warning::new("module_local_and_git", message).at(&call.at.0, call.at.1));
            }
            smallest(&mut module.source, &call.source);
            for caller in callers {
                if caller == NodeRef::module(&key) {
                    let message =
                        format!("module {:?}: source {:?} is the calling directory itself", call.name, call.source);
                    warnings.push(Warning::new("module_itself", message).at(&call.at.0, call.at.1));
                    continue;
                }
                let meta = edges.entry((caller, key.clone())).or_insert_with(|| (String::new(), reference.clone()));
                smallest(&mut meta.0, &call.source);
            }
        }
        for module in modules.values_mut().filter(|module| module.source.is_empty()) {
            module.source = if module.path == "." { "./".to_owned() } else { format!("./{}", module.path) };
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
            reads: BTreeMap::new(),
            file_reads: BTreeMap::new(),
            warnings,
        }
    }

    fn local_module(&self, directory: &str) -> (String, Module) {
        let key = self.local_key(directory);
        let module = Module {
            key: key.clone(),
            kind: ModuleKind::Local,
            path: if directory.is_empty() { ".".to_owned() } else { directory.to_owned() },
            source: String::new(),
            reference: String::new(),
        };
        (key, module)
    }
}

fn smallest(kept: &mut String, other: &str) {
    if kept.is_empty() || other < kept.as_str() {
        other.clone_into(kept);
    }
}
