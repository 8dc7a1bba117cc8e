//! Which stacks may have more edges than could be read.
//!
//! A file that cannot be read, or only in part, must never look like a file without module calls and remote states: the
//! stacks of its directory, and those that reach it as a module, carry a warning that every answer repeats.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::directory::{Directory, is_terraform_file};
use super::files::parent;
use super::stacks::Built;
use crate::graph::model::{Edge, EdgeType, Module, NodeKind, NodeRef, STACK_INCOMPLETE, STACK_UNREAD, Warning};

/// Whether a warning says that something of a Terraform file was not read.
pub(super) fn is_unread(warning: &Warning) -> bool {
    matches!(warning.code.as_str(), "syntax" | "file_unreadable" | "file_too_large") && is_terraform_file(&warning.file)
}

/// What to say of a directory that is no stack as far as its files could be read.
pub(super) fn maybe_stack(path: &str, directory: &Directory) -> Option<Warning> {
    let unread = directory.warnings.iter().find(|warning| is_unread(warning))?;
    let message = format!("{path} has no backend as far as its files could be read, so it is not taken for a stack");
    Some(Warning::new(STACK_UNREAD, message).in_file(&unread.file))
}

/// Marks the stacks whose own files, or those of a module that they reach, were not read whole.
pub(super) fn mark(stacks: &mut [Built], modules: &[Module], edges: &[Edge], warnings: &[Warning]) {
    let mut unread: BTreeMap<&str, &str> = BTreeMap::new();
    for warning in warnings.iter().filter(|warning| is_unread(warning)) {
        let first = unread.entry(parent(&warning.file)).or_insert(&warning.file);
        *first = (*first).min(&warning.file);
    }
    if unread.is_empty() {
        return;
    }
    let reached = reaching(&unread, modules, edges);
    for built in stacks {
        let own = unread.get(built.stack.path.as_str());
        let Some(file) = own.or_else(|| reached.get(&NodeRef::stack(&built.stack.key))) else { continue };
        let key = &built.stack.key;
        let message =
            format!("{key}: the file could not be read whole, so the stack may have more edges than are known");
        built.stack.warnings.push(Warning::new(STACK_INCOMPLETE, message).in_file(file).of_stack(key));
    }
}

/// For every node that leads to a module with such a file: the file.
fn reaching<'w>(unread: &BTreeMap<&str, &'w str>, modules: &[Module], edges: &[Edge]) -> BTreeMap<NodeRef, &'w str> {
    let mut callers: BTreeMap<&NodeRef, Vec<&NodeRef>> = BTreeMap::new();
    let uses = |edge: &&Edge| edge.kind == EdgeType::UsesModule && edge.to.kind == NodeKind::Module;
    for edge in edges.iter().filter(uses) {
        callers.entry(&edge.to).or_default().push(&edge.from);
    }
    let mut reached = BTreeMap::new();
    for module in modules {
        let Some(file) = module.directory().and_then(|directory| unread.get(directory)) else { continue };
        let mut queue = vec![NodeRef::module(&module.key)];
        while let Some(node) = queue.pop() {
            if let Entry::Vacant(vacant) = reached.entry(node) {
                queue.extend(callers.get(vacant.key()).into_iter().flatten().map(|caller| (*caller).clone()));
                vacant.insert(*file);
            }
        }
    }
    reached
}
