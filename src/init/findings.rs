//! What stands in a checkout, found by a scan that takes every directory for a possible stack.

use std::collections::{BTreeMap, BTreeSet};

use super::tool::{self, ToolFound};
use crate::config::model::{ModulesConfig, RepoConfig, StacksConfig};
use crate::graph::model::{Graph, Module};
use crate::scan::directory::{is_terraform_file, is_tofu_file};
use crate::scan::files::{EntryKind, Files, Tree, file_name, parent};
use crate::scan::{ScanError, ScanOptions, scan, terraform_file};

/// What the configuration is made from. Directories and files are relative to the root, sorted.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Directories with an s3 backend that nobody calls as a module.
    pub stacks: BTreeSet<String>,
    /// Directories of this repository that are called as modules, without the root.
    pub modules: BTreeSet<String>,
    /// Called as modules, or below a directory of modules, and yet with an s3 backend.
    pub doubtful: BTreeSet<String>,
    pub has_module_directory: bool,
    pub tool: ToolFound,
    /// Files of variables that look like one deployment each.
    pub var_files: Vec<VarFiles>,
    /// Stacks whose backend does not say where the state lies.
    pub open_backends: BTreeSet<String>,
    /// Files of backend values, such as `state.s3.tfbackend`.
    pub backend_files: BTreeSet<String>,
    /// Backends of other kinds, with their numbers of directories.
    other_backends: BTreeMap<String, usize>,
    terraform_files: usize,
    /// Whether the top of the repository declares an s3 backend, where no stack can be.
    pub has_backend_at_the_top: bool,
}

/// What one glob for `stacks.instances.from_var_files` would match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VarFiles {
    pub glob: String,
    pub stacks: BTreeSet<String>,
    pub names: BTreeSet<String>,
}

/// A directory that the scan never walks, so that no path lies under `modules.paths`.
const NOWHERE: &str = ".stackorder/nowhere";
/// Where modules lie by default.
const MODULES: &str = "modules";

pub(super) fn of(files: &dyn Files, options: &ScanOptions) -> Result<Findings, Vec<ScanError>> {
    let tool = tool::of(files);
    let everything = RepoConfig {
        stacks: StacksConfig { discover: vec!["**".to_owned()], ..StacksConfig::default() },
        modules: ModulesConfig { paths: vec![NOWHERE.to_owned()] },
        tool: tool.tool().unwrap_or_default(),
        ..RepoConfig::default()
    };
    let graph = scan(files, &ScanOptions { config: Some(everything), ..options.clone() })?.graph;
    let tree = Tree::new(files.list());
    let mut findings = Findings { tool, ..Findings::default() };
    findings.has_module_directory = tree.is_directory(MODULES);
    findings.look_at(&graph);
    findings.count_files(files, &tree);
    findings.var_files = var_files(&tree, &findings.stacks);
    Ok(findings)
}

impl Findings {
    fn look_at(&mut self, graph: &Graph) {
        let local = graph.modules.iter().filter_map(Module::directory).filter(|directory| !directory.is_empty());
        self.modules = local.map(str::to_owned).collect();
        for stack in graph.stacks.iter().filter(|stack| !stack.external) {
            let is_module = self.modules.contains(&stack.path) || stack.path.split('/').any(|name| name == MODULES);
            if is_module {
                self.doubtful.insert(stack.path.clone());
                continue;
            }
            self.stacks.insert(stack.path.clone());
            let is_open = |backend: &crate::graph::model::Backend| backend.bucket.is_empty() || backend.key.is_empty();
            if stack.backend.as_ref().is_none_or(is_open) {
                self.open_backends.insert(stack.path.clone());
            }
        }
    }

    fn count_files(&mut self, files: &dyn Files, tree: &Tree) {
        for (path, kind) in tree.walk() {
            if !matches!(kind, EntryKind::File) {
                continue;
            }
            if path.ends_with(".tfbackend") {
                self.backend_files.insert(path.to_owned());
            }
            if !is_terraform_file(path) {
                continue;
            }
            self.terraform_files += 1;
            // Only a checkout without stacks is asked for other backends.
            let is_at_the_top = parent(path).is_empty();
            if (is_at_the_top || self.stacks.is_empty())
                && let Ok(bytes) = files.read(path)
            {
                for block in terraform_file::read(path, &bytes).backends {
                    self.has_backend_at_the_top |= is_at_the_top && block.kind == "s3";
                    *self.other_backends.entry(block.kind).or_default() += 1;
                }
            }
        }
    }

    /// A sentence for somebody who expected stacks, and what to do.
    pub(super) fn why_no_stack(&self) -> String {
        const RULE: &str = "a stack is a directory with Terraform files that declare `backend \"s3\"`";
        if self.terraform_files == 0 {
            return format!("there is no Terraform file in this checkout; {RULE}, and this command starts from those");
        }
        if !self.doubtful.is_empty() {
            let directories: Vec<&str> = self.doubtful.iter().map(String::as_str).take(LISTED_MAX).collect();
            return format!(
                "the only directories with an s3 backend are modules ({}); {RULE} and that nobody calls as a module",
                directories.join(", ")
            );
        }
        if self.has_backend_at_the_top {
            return format!(
                "the only s3 backend is at the top of the repository, and a stack needs a directory of its own: \
                 move the files into one, such as stacks/main; {RULE}"
            );
        }
        let others: Vec<String> =
            self.other_backends.iter().map(|(kind, count)| format!("{kind:?} in {count}")).collect();
        let found = if others.is_empty() { "none declares a backend".to_owned() } else { others.join(", ") };
        format!(
            "no stack among {} Terraform files: {RULE}, and found was: {found}. An empty block is enough where the \
             values come from elsewhere; name directories without one in stacks.include of a stackorder.yaml of your own",
            self.terraform_files
        )
    }
}

/// Directories named in one sentence.
pub(super) const LISTED_MAX: usize = 5;

/// Files that the tool loads by itself belong to every deployment, not to one.
fn is_loaded_by_itself(name: &str) -> bool {
    let stem = name.strip_suffix(".json").unwrap_or(name);
    stem == "terraform.tfvars" || stem.ends_with(".auto.tfvars")
}

/// Globs that match several files of one stack, the one of most stacks first.
fn var_files(tree: &Tree, stacks: &BTreeSet<String>) -> Vec<VarFiles> {
    let mut found: BTreeMap<String, VarFiles> = BTreeMap::new();
    for stack in stacks {
        let mut names_by_glob: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for file in tree.below(stack).filter(|file| !file.starts_with('.') && !file.contains("/.")) {
            let name = file_name(file);
            let Some(ending) = [".tfvars", ".tfvars.json"].into_iter().find(|ending| name.ends_with(ending)) else {
                continue;
            };
            if is_loaded_by_itself(name) {
                continue;
            }
            let directory = super::globs::escaped(parent(file));
            let glob = if directory.is_empty() { format!("*{ending}") } else { format!("{directory}/*{ending}") };
            let instance = name.split('.').next().unwrap_or_default().to_owned();
            names_by_glob.entry(glob).or_default().insert(instance);
        }
        for (glob, names) in names_by_glob.into_iter().filter(|(_, names)| names.len() > 1) {
            let entry = found.entry(glob.clone());
            let var_files = entry.or_insert_with(|| VarFiles { glob, stacks: BTreeSet::new(), names: BTreeSet::new() });
            var_files.stacks.insert(stack.clone());
            var_files.names.extend(names);
        }
    }
    let mut found: Vec<VarFiles> = found.into_values().collect();
    found.sort_by(|a, b| b.stacks.len().cmp(&a.stacks.len()).then_with(|| a.glob.cmp(&b.glob)));
    found
}

/// Whether a file is one that only OpenTofu reads.
pub(super) fn is_of_tofu(path: &str) -> bool {
    is_terraform_file(path) && is_tofu_file(path)
}
