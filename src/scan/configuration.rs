//! What the configuration of a checkout says: every problem of it, and the settings of each stack with their origins.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{Files, Tree, file_name};
use super::{ScanError, ScanOptions, scan};
use crate::config::effective::{Instance, InstanceRules, Source, settings};
use crate::config::lines::KeyLines;
use crate::config::origins::{Setting, Sources};
use crate::config::parse::{parse_repo_config, parse_stack_config};
use crate::config::problem::{Problem, quoted};
use crate::config::{ROOT_FILE, STACK_FILE, stack_file};
use crate::graph::model::Stack;
use crate::ids::split_key;

/// All configuration files and everything that is wrong with them, both sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    pub files: Vec<String>,
    pub problems: Vec<Problem>,
}

/// The settings of one stack.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct StackSettings {
    pub stack: String,
    pub settings: Vec<Setting>,
}

/// Reads the root file and every stack file, wherever it stands, and looks at the values of every stack.
pub fn check(files: &dyn Files, options: &ScanOptions) -> Checked {
    let tree = Tree::new(files.list());
    let found = configuration_files(&tree);
    let mut problems: BTreeSet<Problem> = found.iter().flat_map(|file| problems_of(files, &tree, file)).collect();
    problems.extend(tree.walk().filter_map(|(path, _)| misnamed(path)));
    if let Err(errors) = scan(files, options) {
        problems.extend(errors.into_iter().map(|error| as_problem(files, &tree, error)));
    }
    Checked { files: found, problems: problems.into_iter().collect() }
}

/// The settings of every stack, sorted by key.
pub fn stack_settings(files: &dyn Files, options: &ScanOptions) -> Result<Vec<StackSettings>, Vec<ScanError>> {
    let scanned = scan(files, options)?;
    let tree = Tree::new(files.list());
    let refused = |problems: Vec<Problem>| problems.into_iter().map(ScanError::Configuration).collect::<Vec<_>>();
    let rules = InstanceRules::new(&scanned.config).map_err(refused)?;
    let root_lines = lines(files, &tree, ROOT_FILE);
    let mut by_directory: BTreeMap<&str, Vec<&Stack>> = BTreeMap::new();
    for stack in scanned.graph.stacks.iter().filter(|stack| !stack.external) {
        by_directory.entry(&stack.path).or_default().push(stack);
    }
    let mut found = Vec::new();
    for (path, stacks) in by_directory {
        let own = stacks.first().and_then(|stack| stack.config.as_ref());
        let stack_lines = lines(files, &tree, &stack_file(path));
        let sources = Sources { root: &scanned.config, root_lines: &root_lines, stack: own, stack_lines: &stack_lines };
        let below: Vec<String> = tree.files_below(path).map(str::to_owned).collect();
        for instance in rules.instances(own, path, &below).map_err(refused)?.instances {
            let Some(stack) = stacks.iter().find(|stack| stack.instance == instance.name) else { continue };
            let settings = sources.of(path, &instance).map_err(refused)?;
            found.push(StackSettings { stack: stack.key.clone(), settings });
        }
    }
    found.sort_by(|a, b| a.stack.cmp(&b.stack));
    Ok(found)
}

/// What stops a scan, complete: each problem has its line, and when the root file hides which directories are stacks,
/// the problems of all stack files stand beside its own.
pub(super) fn complete(files: &dyn Files, errors: Vec<ScanError>) -> Vec<ScanError> {
    let tree = Tree::new(files.list());
    let mut lines_by_file: BTreeMap<String, KeyLines> = BTreeMap::new();
    let mut placed = |problem: Problem| {
        if problem.line.is_some() || problem.path.is_empty() {
            return problem;
        }
        let file = problem.file.clone();
        lines_by_file.entry(file).or_insert_with_key(|file| lines(files, &tree, file)).place(problem)
    };
    let mut all: BTreeSet<ScanError> = BTreeSet::new();
    for error in errors {
        all.insert(match error {
            ScanError::Configuration(problem) => ScanError::Configuration(placed(problem)),
            other => other,
        });
    }
    let of_root = |error: &ScanError| match error {
        ScanError::Configuration(problem) => problem.file == ROOT_FILE,
        ScanError::Unreadable { file, .. } => file == ROOT_FILE,
        ScanError::BackendFile { .. } => false,
    };
    if all.iter().any(of_root) {
        let others = configuration_files(&tree).into_iter().filter(|file| file != ROOT_FILE);
        all.extend(others.flat_map(|file| problems_of(files, &tree, &file)).map(ScanError::Configuration));
    }
    all.into_iter().collect()
}

/// The root file and every stack file that the scan could come across, sorted.
fn configuration_files(tree: &Tree) -> Vec<String> {
    let is_configuration = |path: &str| path == ROOT_FILE || file_name(path) == STACK_FILE;
    tree.walk().map(|(path, _)| path).filter(|path| is_configuration(path)).map(str::to_owned).collect()
}

fn problems_of(files: &dyn Files, tree: &Tree<'_>, file: &str) -> Vec<Problem> {
    let parsed = match tree.read(files, file) {
        Err(reason) => Err(vec![Problem::of_key(file, "", reason)]),
        Ok(bytes) if file == ROOT_FILE => parse_repo_config(file, &bytes).map(drop),
        Ok(bytes) => parse_stack_config(file, &bytes).map(drop),
    };
    parsed.err().unwrap_or_default()
}

/// A file that somebody believes to be read.
fn misnamed(path: &str) -> Option<Problem> {
    let meant = match file_name(path) {
        "stackorder.yml" if !path.contains('/') => ROOT_FILE,
        ".stackorder.yml" => STACK_FILE,
        _ => return None,
    };
    Some(Problem::of_key(path, "", format!("the file is not read; did you mean `{meant}`?")))
}

fn as_problem(files: &dyn Files, tree: &Tree<'_>, error: ScanError) -> Problem {
    match error {
        ScanError::Configuration(problem) => problem,
        ScanError::Unreadable { file, reason } => Problem::of_key(&file, "", reason),
        ScanError::BackendFile { stack, file, reason } => {
            let (holder, key) = holder_of(files, tree, &stack, &file);
            lines(files, tree, &holder).place(Problem::of_key(&holder, &key, format!("{}: {reason}", quoted(&file))))
        }
    }
}

/// The file and key that name a backend file of a stack.
fn holder_of(files: &dyn Files, tree: &Tree<'_>, stack: &str, backend_file: &str) -> (String, String) {
    let (path, instance) = split_key(stack);
    let own_file = stack_file(path);
    let read = |file: &str| tree.read(files, file).ok();
    let root = read(ROOT_FILE).and_then(|bytes| parse_repo_config(ROOT_FILE, &bytes).ok()).unwrap_or_default();
    let own = read(&own_file).and_then(|bytes| parse_stack_config(&own_file, &bytes).ok());
    let instance = Instance { name: instance.unwrap_or_default().to_owned(), var_file: None };
    let entries = settings(&root, own.as_ref(), path, &instance).map(|settings| settings.backend_config);
    let entry = entries.unwrap_or_default().into_iter().find(|entry| entry.value == backend_file);
    match entry.map(|entry| entry.source) {
        Some(Source::Root(key)) => (ROOT_FILE.to_owned(), key),
        Some(Source::Stack(key)) => (own_file, key),
        Some(Source::Default | Source::Instance) | None => (own_file, "backend_config".to_owned()),
    }
}

fn lines(files: &dyn Files, tree: &Tree<'_>, file: &str) -> KeyLines {
    tree.read(files, file).map(|bytes| KeyLines::of(&bytes)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
