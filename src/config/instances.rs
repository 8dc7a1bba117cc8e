//! Which instances a stack directory has (spec 10 §4.2).

use std::collections::BTreeMap;

use crate::config::effective::Origin;
use crate::config::glob::PathGlobs;
use crate::config::model::{RepoConfig, StackConfig};
use crate::config::problem::{Problem, quoted};
use crate::config::template::Fields;
use crate::config::{ROOT_FILE, entries, stack_file};
use crate::graph::model::Warning;

/// The complete set of a directory, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceSet {
    pub instances: Vec<Instance>,
    pub warnings: Vec<Warning>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    /// Empty for the unnamed instance.
    pub name: String,
    /// What `stacks.instances.from_var_files` matched for it, relative to the stack directory.
    pub var_file: Option<String>,
}

/// The instances of one directory; [`InstanceRules`] answers for many without compiling the glob again.
pub fn instances(
    root: &RepoConfig,
    stack: Option<&StackConfig>,
    path: &str,
    files: &[String],
) -> Result<InstanceSet, Vec<Problem>> {
    InstanceRules::new(root)?.instances(stack, path, files)
}

/// What the root file says about instances, ready for every directory of the repository.
#[derive(Debug, Clone)]
pub struct InstanceRules {
    var_files: Option<PathGlobs>,
}

impl InstanceRules {
    pub fn new(root: &RepoConfig) -> Result<Self, Vec<Problem>> {
        let glob = &root.stacks.instances.from_var_files;
        if glob.is_empty() {
            return Ok(Self { var_files: None });
        }
        let bare = glob.strip_prefix("./").unwrap_or(glob).to_owned();
        let problem = |error| Problem::of_key(ROOT_FILE, FROM_VAR_FILES, format!("not a stack-relative glob: {error}"));
        PathGlobs::new(&[bare]).map(|globs| Self { var_files: Some(globs) }).map_err(|error| vec![problem(error)])
    }

    /// From the stack file, from var files, from the workspace, or the unnamed one: the first rule that applies.
    ///
    /// `files` are the paths of all files below the stack directory, relative to it.
    pub fn instances(
        &self,
        stack: Option<&StackConfig>,
        path: &str,
        files: &[String],
    ) -> Result<InstanceSet, Vec<Problem>> {
        let matched = self.matched(files);
        let mut warnings = auto_loaded(path, &matched);
        if let Some(stack) = stack.filter(|stack| !stack.instances.is_empty()) {
            let (instances, unused) = declared(stack, path, &matched)?;
            warnings.extend(unused);
            return Ok(InstanceSet { instances, warnings });
        }
        if !matched.is_empty() {
            return Ok(InstanceSet { instances: derived(path, &matched)?, warnings });
        }
        let name = workspace_name(stack, path)?;
        Ok(InstanceSet { instances: vec![Instance { name, var_file: None }], warnings })
    }

    /// The instance that gets its values from this file of a directory; an error when its name cannot be one.
    pub fn named_by<'f>(
        &self,
        stack: Option<&StackConfig>,
        path: &str,
        file: &'f str,
    ) -> Result<Option<&'f str>, Vec<Problem>> {
        if self.matched(&[file.to_owned()]).is_empty() {
            return Ok(None);
        }
        let name = derived_name(file);
        match stack.filter(|stack| !stack.instances.is_empty()) {
            Some(stack) => Ok(stack.instances.contains_key(name).then_some(name)),
            None => derived(path, &[file]).map(|_| Some(name)),
        }
    }

    /// The files that `from_var_files` matches, sorted.
    fn matched<'f>(&self, files: &'f [String]) -> Vec<&'f str> {
        let Some(globs) = &self.var_files else { return Vec::new() };
        // What `init` downloads into a laptop's checkout is no part of the stack.
        let own = |file: &&str| !file.starts_with(".terraform/") && globs.matches(file);
        let mut matched: Vec<&str> = files.iter().map(String::as_str).filter(own).collect();
        matched.sort_unstable();
        matched.dedup();
        matched
    }
}

const FROM_VAR_FILES: &str = "stacks.instances.from_var_files";

/// The base name up to its first dot.
fn derived_name(file: &str) -> &str {
    let base = file.rsplit('/').next().unwrap_or(file);
    base.split('.').next().unwrap_or(base)
}

fn inside(path: &str, file: &str) -> String {
    if path.is_empty() { file.to_owned() } else { format!("{path}/{file}") }
}

/// The names of the stack file, each with the matched file of its name.
fn declared(stack: &StackConfig, path: &str, matched: &[&str]) -> Result<(Vec<Instance>, Vec<Warning>), Vec<Problem>> {
    let (listed, unlisted): (Vec<&str>, Vec<&str>) =
        matched.iter().partition(|file| stack.instances.contains_key(derived_name(file)));
    let by_name = one_file_each(path, &listed)?;
    let instances = stack
        .instances
        .keys()
        .map(|name| Instance {
            name: name.clone(),
            var_file: by_name.get(name.as_str()).map(|file| (*file).to_owned()),
        })
        .collect();
    let stack_file = stack_file(path);
    let unused = unlisted.into_iter().map(|file| {
        let name = derived_name(file);
        let message = format!("var file is not used: {stack_file} declares no instance {name:?}");
        Warning::new("var_file_undeclared_instance", message).in_file(&inside(path, file))
    });
    Ok((instances, unused.collect()))
}

/// One instance per matched file.
fn derived(path: &str, matched: &[&str]) -> Result<Vec<Instance>, Vec<Problem>> {
    let bad_names: Vec<Problem> = matched
        .iter()
        .filter_map(|file| {
            let name = derived_name(file);
            let broken = entries::instance_name(name).err()?;
            let message = format!("{} names the instance {}: {broken}", quoted(&inside(path, file)), quoted(name));
            Some(Problem::of_key(ROOT_FILE, FROM_VAR_FILES, message))
        })
        .collect();
    if !bad_names.is_empty() {
        return Err(bad_names);
    }
    let instance = |(name, file): (&str, &str)| Instance { name: name.to_owned(), var_file: Some(file.to_owned()) };
    Ok(one_file_each(path, matched)?.into_iter().map(instance).collect())
}

fn one_file_each<'f>(path: &str, matched: &[&'f str]) -> Result<BTreeMap<&'f str, &'f str>, Vec<Problem>> {
    let mut by_name = BTreeMap::new();
    let mut problems = Vec::new();
    for file in matched {
        if let Some(first) = by_name.insert(derived_name(file), *file) {
            let (first, second) = (quoted(&inside(path, first)), quoted(&inside(path, file)));
            let message = format!("{first} and {second} both name the instance {:?}", derived_name(file));
            problems.push(Problem::of_key(ROOT_FILE, FROM_VAR_FILES, message));
        }
    }
    if problems.is_empty() { Ok(by_name) } else { Err(problems) }
}

fn auto_loaded(path: &str, matched: &[&str]) -> Vec<Warning> {
    let loads = |file: &str| {
        !file.contains('/')
            && (matches!(file, "terraform.tfvars" | "terraform.tfvars.json")
                || file.ends_with(".auto.tfvars")
                || file.ends_with(".auto.tfvars.json"))
    };
    let message = "every instance loads this var file by itself, whatever its name says";
    matched
        .iter()
        .filter(|file| loads(file))
        .map(|file| Warning::new("var_file_auto_loaded", message).in_file(&inside(path, file)))
        .collect()
}

/// The name of the only instance: the workspace's, unless that is none or `default`.
fn workspace_name(stack: Option<&StackConfig>, path: &str) -> Result<String, Vec<Problem>> {
    let Some(stack) = stack else { return Ok(String::new()) };
    let stack_file = stack_file(path);
    let origin = Origin::new(&stack_file, "workspace");
    let rendered =
        origin.render(&stack.workspace, &Fields::of(path, ""), only_instance).map_err(|problem| vec![problem])?;
    Ok(if rendered == "default" { String::new() } else { rendered })
}

/// What the workspace of a directory without instances must be.
pub(super) fn only_instance(workspace: &str) -> entries::Rule {
    if workspace.is_empty() || workspace == "default" {
        return Ok(());
    }
    entries::workspace(workspace)?;
    entries::instance_name(workspace).map_err(|broken| format!("it names the directory's only instance, and {broken}"))
}

#[cfg(test)]
mod tests;
