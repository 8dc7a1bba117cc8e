//! Edges between stacks: those that somebody wrote down, and those that reading a state implies (spec 11 §7).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::directory::Directory;
use super::reader::Reader;
use super::remote_state::{self, StateObject};
use super::stacks::{Built, state_object};
use crate::config::references::{KnownStacks, Reference, Resolved};
use crate::config::stack_file;
use crate::graph::model::{Edge, EdgeType, NodeRef, Stack, Warning};

#[derive(Debug, Default)]
pub(super) struct Edges {
    pub edges: Vec<Edge>,
    /// Stacks of other repositories that edges point at.
    pub external: Vec<Stack>,
    pub warnings: Vec<Warning>,
}

/// All edges between stacks.
pub(super) fn find(
    reader: &Reader<'_>,
    stacks: &[Built],
    directories: &BTreeMap<String, Rc<Directory>>,
    module_reads: &BTreeMap<String, BTreeSet<StateObject>>,
    repo: &str,
) -> Edges {
    let known: KnownStacks = stacks.iter().map(|built| built.stack.key.as_str()).collect();
    let mut writers: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for built in stacks {
        if let Some(object) = state_object(&built.stack) {
            writers.entry(object).or_default().push(&built.stack.key);
        }
    }
    let mut found = Edges::default();
    let mut external = BTreeMap::new();
    for built in stacks {
        let targets = explicit(built, &known, repo, &mut external, &mut found);
        let ignored = ignored(built, &known, repo);
        let mut objects = module_reads.get(&built.stack.key).cloned().unwrap_or_default();
        let blocks = directories.get(&built.stack.path).into_iter().flat_map(|directory| &directory.remote_states);
        for block in blocks {
            let (own, warnings) = remote_state::read(block, &|| built.scope(reader));
            objects.extend(own);
            found.warnings.extend(warnings);
        }
        inferred(&built.stack.key, &objects, &writers, &targets, &ignored, &mut found);
    }
    found.external = external.into_values().collect();
    found
}

/// Adds the edges of `depends_on` and returns their targets.
fn explicit(
    built: &Built,
    known: &KnownStacks,
    repo: &str,
    external: &mut BTreeMap<String, Stack>,
    found: &mut Edges,
) -> BTreeSet<String> {
    let own = built.stack.key.as_str();
    let file = stack_file(&built.stack.path);
    let mut targets = BTreeSet::new();
    for entry in &built.depends_on {
        match Reference::parse(entry, Some(repo)) {
            Err(reason) => {
                let message = format!("{own}: depends_on {entry:?}: {reason}");
                found.warnings.push(Warning::new("depends_on_invalid", message).in_file(&file).of_stack(own));
            }
            Ok(Reference::External { repo, key }) => {
                let qualified = format!("{repo}//{key}");
                external.entry(qualified.clone()).or_insert_with(|| Stack {
                    key: qualified.clone(),
                    path: key.path().to_owned(),
                    instance: key.instance().to_owned(),
                    repo: repo.to_string(),
                    external: true,
                    ..Stack::default()
                });
                targets.insert(qualified);
            }
            Ok(Reference::Local(written)) => {
                let resolved = known.resolve(&written, &built.stack.instance);
                let key = resolved.key().as_str().to_owned();
                if key == own {
                    let message = format!("{own} depends on itself; the entry is dropped");
                    found.warnings.push(Warning::new("depends_on_itself", message).in_file(&file).of_stack(own));
                    continue;
                }
                if matches!(resolved, Resolved::Unknown(_)) {
                    let message = format!("{own} depends on {key:?}, which is not a known stack");
                    found.warnings.push(Warning::new("depends_on_unknown", message).in_file(&file).of_stack(own));
                }
                targets.insert(key);
            }
        }
    }
    found.edges.extend(targets.iter().map(|target| edge(own, target, EdgeType::DependsOn)));
    targets
}

fn ignored(built: &Built, known: &KnownStacks, repo: &str) -> BTreeSet<String> {
    let parse = |entry: &String| match Reference::parse(entry, Some(repo)) {
        Ok(Reference::Local(written)) => Some(known.resolve(&written, &built.stack.instance).key().as_str().to_owned()),
        Ok(Reference::External { .. }) | Err(_) => None,
    };
    built.ignore_inferred.iter().filter_map(parse).collect()
}

fn inferred(
    own: &str,
    objects: &BTreeSet<StateObject>,
    writers: &BTreeMap<(String, String), Vec<&str>>,
    explicit: &BTreeSet<String>,
    ignored: &BTreeSet<String>,
    found: &mut Edges,
) {
    for object in objects {
        for writer in writers.get(object).into_iter().flatten().filter(|writer| **writer != own) {
            if explicit.contains(*writer) {
                continue;
            }
            if ignored.contains(*writer) {
                let message = format!("{own} reads the state of {writer}; ignore_inferred drops the edge");
                found.warnings.push(Warning::new("inferred_ignored", message).of_stack(own));
                continue;
            }
            let mut edge = edge(own, writer, EdgeType::ReadsState);
            edge.inferred = true;
            edge.meta = BTreeMap::from([("bucket".to_owned(), object.0.clone()), ("key".to_owned(), object.1.clone())]);
            found.edges.push(edge);
        }
    }
}

fn edge(from: &str, to: &str, kind: EdgeType) -> Edge {
    Edge { from: NodeRef::stack(from), to: NodeRef::stack(to), kind, inferred: false, meta: BTreeMap::new() }
}
