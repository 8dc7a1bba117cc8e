//! Follows module calls with the values of each stack (spec 11 §17): sources made of variables and locals, and the
//! states that modules read.
//!
//! Only paths that lead to such a thing are followed; for all others what [`super::modules`] found is enough.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::evaluation::Scope;
use super::file_reads::{Found, View};
use super::module_calls::{self, Call, Target};
use super::modules::{Place, Walk};
use super::reader::Reader;
use super::remote_state::{self, StateObject};
use super::stacks::Built;
use super::value::{Expression, Value};
use crate::graph::model::{NodeRef, Stack, Warning};

/// Calls followed for one stack, and calls within each other: more is a repository made to be slow.
const VISITS_MAX: usize = 1_000;
const DEPTH_MAX: usize = 32;
/// Calls followed for all stacks together: forty for each of five thousand, which takes some seconds.
const VISITS_TOTAL_MAX: usize = 200_000;

/// What modules read, by the key of the stack that uses them.
#[derive(Debug, Default)]
pub(super) struct Followed {
    pub states: BTreeMap<String, BTreeSet<StateObject>>,
    pub file_reads: BTreeMap<String, Found>,
}

/// Completes `walk` and gives what modules read for each stack.
pub(super) fn follow(reader: &mut Reader<'_>, walk: &mut Walk<'_>, stacks: &[Built]) -> Followed {
    let mut following = Following {
        reader,
        walk,
        needing: BTreeSet::new(),
        visits: 0,
        visited: BTreeSet::new(),
        followed: Followed::default(),
    };
    for built in stacks {
        let place = built.place();
        if following.needs_values(&place) {
            let scope = built.scope(following.reader);
            following.stack(&built.stack, Visit { place, scope, depth: 0 });
        }
    }
    // Modules that nobody calls have the values of their defaults.
    let uncalled = |(place, node): (&Place, &super::modules::Node)| (!node.unread.is_empty()).then(|| place.clone());
    let uncalled: Vec<Place> = following.walk.nodes.iter().filter_map(uncalled).collect();
    for place in uncalled {
        if !following.visited.contains(&place) {
            let scope = following.scope(&place, &BTreeMap::new(), None);
            following.calls("", &Visit { place, scope, depth: 1 });
        }
    }
    following.followed
}

struct Following<'a, 'f, 'h> {
    reader: &'a mut Reader<'f>,
    walk: &'a mut Walk<'h>,
    /// Places from which literal sources lead to something that depends on values, or that are such a thing.
    needing: BTreeSet<Place>,
    visits: usize,
    visited: BTreeSet<Place>,
    followed: Followed,
}

/// One way to reach a directory.
struct Visit {
    place: Place,
    scope: Rc<Scope>,
    /// 0 for the stack itself.
    depth: usize,
}

impl Following<'_, '_, '_> {
    fn stack(&mut self, stack: &Stack, root: Visit) {
        let key = stack.key.as_str();
        let mut seen: BTreeSet<(Place, BTreeMap<String, Value>)> = BTreeSet::new();
        let mut queue = vec![root];
        while let Some(visit) = queue.pop() {
            if !seen.insert((visit.place.clone(), visit.scope.variables.clone())) {
                continue;
            }
            self.visits += 1;
            if seen.len() > VISITS_MAX || visit.depth > DEPTH_MAX || self.visits > VISITS_TOTAL_MAX {
                let message =
                    format!("{key}: its module calls are too many or too deep to be followed with their values");
                self.walk.warnings.push(Warning::new("modules_too_deep", message).of_stack(key));
                return;
            }
            self.visited.insert(visit.place.clone());
            if visit.depth > 0 {
                self.states(key, &visit);
                self.files(stack, &visit);
            }
            for call in self.calls(key, &visit) {
                if let Target::Local(directory) = &call.target {
                    let place = (directory.clone(), visit.place.1);
                    if self.needs_values(&place) {
                        let scope = self.scope(&place, &self.arguments(&visit, &call, &place), Some(&visit.scope));
                        queue.push(Visit { place, scope, depth: visit.depth + 1 });
                    }
                }
            }
        }
    }

    /// The states that the files of a module read.
    fn states(&mut self, key: &str, visit: &Visit) {
        let Some(node) = self.walk.nodes.get(&visit.place) else { return };
        for block in &node.directory.remote_states {
            let (objects, warnings) = remote_state::read(block, &|| visit.scope.clone());
            self.walk.warnings.extend(warnings);
            self.followed.states.entry(key.to_owned()).or_default().extend(objects);
        }
    }

    /// The files outside of a module that its files read.
    fn files(&mut self, stack: &Stack, visit: &Visit) {
        let Some(node) = self.walk.nodes.get(&visit.place).filter(|node| !node.file_reads.is_empty()) else { return };
        let view = View { reader: self.reader, stack: &stack.path, directory: &visit.place.0 };
        let found = view.find(&node.file_reads, &|| visit.scope.clone());
        self.followed.file_reads.entry(stack.key.clone()).or_default().extend(found);
    }

    /// All calls of a directory; those that needed values are recorded.
    fn calls(&mut self, key: &str, visit: &Visit) -> Vec<Call> {
        let Some(node) = self.walk.nodes.get(&visit.place) else { return Vec::new() };
        let (mut calls, unread) = (node.calls.clone(), node.unread.clone());
        let (directory, tool) = &visit.place;
        let caller = match visit.depth {
            0 => NodeRef::stack(key),
            _ => NodeRef::module(self.walk.local_key(directory)),
        };
        for call in unread {
            let evaluate = |expression: &Expression| visit.scope.evaluate(expression, None);
            match module_calls::resolve(self.reader, self.walk.home, directory, &call, &evaluate) {
                Ok(call) => {
                    self.walk.found(self.reader, caller.clone(), call.clone(), *tool);
                    calls.push(call);
                }
                Err(warning) => self.walk.warnings.push(warning),
            }
        }
        calls
    }

    /// What a call gives to the variables of its target.
    fn arguments(&self, visit: &Visit, call: &Call, target: &Place) -> BTreeMap<String, Value> {
        let caller = self.reader.declarations(&visit.place.0, visit.place.1);
        let declared = self.reader.declarations(&target.0, target.1);
        let given = caller.arguments.get(&call.name).into_iter().flatten();
        let given = given.filter(|(name, _)| declared.variables.contains_key(*name));
        given.map(|(name, value)| (name.clone(), visit.scope.evaluate(value, None).unwrap_or(Value::Unknown))).collect()
    }

    fn scope(&self, place: &Place, given: &BTreeMap<String, Value>, caller: Option<&Scope>) -> Rc<Scope> {
        let declarations = self.reader.declarations(&place.0, place.1);
        let variables = declarations.variables.iter();
        let variables =
            variables.map(|(name, variable)| (name.clone(), variable.value(given.get(name).cloned()))).collect();
        let workspace = caller.and_then(|caller| caller.workspace.clone());
        Rc::new(Scope::new(variables, declarations.locals.clone(), workspace))
    }

    /// Whether anything that a place leads to by literal sources depends on values.
    fn needs_values(&mut self, start: &Place) -> bool {
        self.judge_fresh();
        let Some(node) = self.walk.nodes.get(start) else { return false };
        // What a stack reads in its own files is asked for elsewhere, but a module may be a stack too.
        let own = !node.unread.is_empty() || (node.reads() && self.walk.is_module(&start.0));
        own || node.targets(start.1).any(|target| self.needing.contains(&target))
    }

    /// Judges the places that were read since the last time. All that a place leads to is read with it, so a judgement
    /// never changes, and each place is looked at once however many stacks lead to it.
    fn judge_fresh(&mut self) {
        let mut callers: BTreeMap<Place, Vec<Place>> = BTreeMap::new();
        let mut queue = Vec::new();
        for place in std::mem::take(&mut self.walk.fresh) {
            let Some(node) = self.walk.nodes.get(&place) else { continue };
            let needs = !node.unread.is_empty() || node.reads();
            if needs || node.targets(place.1).any(|target| self.needing.contains(&target)) {
                queue.push(place.clone());
            }
            for target in node.targets(place.1) {
                callers.entry(target).or_default().push(place.clone());
            }
        }
        while let Some(place) = queue.pop() {
            queue.extend(callers.remove(&place).unwrap_or_default());
            self.needing.insert(place);
        }
    }
}
