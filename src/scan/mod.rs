//! From the files of a checkout to its graph (spec 11 §2–§8). Reads nothing but what [`Files`] hands it, runs nothing.
//!
//! - `files`: the checkout as names and contents.
//! - `hcl`: cuts HCL text into attributes and blocks, whatever stands in it.
//! - `json`: reads the JSON syntax with its lines.
//! - `value`, `types`, `evaluation`: what an expression says before anything runs.
//! - `declarations`, `inputs`: variables and locals, and the values that an instance gives them.
//! - `terraform_file`, `directory`: what one file says, and a directory as a whole.
//! - `reader`: reads each file once; the tree hash.
//! - `stacks`: which directories are stacks, and their instances.
//! - `backend`: where the state of a stack lives.
//! - `module_source`, `module_calls`: what a module call means.
//! - `modules`, `module_values`: where calls lead, for everybody and for each stack.
//! - `remote_state`, `edges`: which stacks depend on which.
//! - `file_sets`: the files that a glob stands for.
//! - `file_reads`: files that expressions read elsewhere.
//! - `incomplete`: which stacks may have more edges than could be read.
//! - `watch_paths`: inputs outside the directory of a stack.
//! - `watch_entries`: files that the configuration says to watch.
//! - `unused`: entries of the configuration that match nothing.
//! - `configuration`: all problems of the configuration, and the settings of each stack with their origins.

pub mod backend;
pub mod configuration;
mod declarations;
pub mod directory;
mod edges;
pub mod evaluation;
mod file_reads;
mod file_sets;
pub mod files;
pub mod hcl;
mod incomplete;
mod inputs;
mod json;
mod module_calls;
pub mod module_source;
mod module_values;
mod modules;
mod reader;
pub mod remote_state;
mod stacks;
pub mod terraform_file;
mod types;
mod unused;
pub mod value;
mod watch_entries;
mod watch_paths;

pub use files::{Entry, EntryKind, Files, MemoryFiles};
pub use reader::FileFacts;

use crate::config::glob::PathGlobs;
use crate::config::model::{ModulesConfig, RepoConfig, StacksConfig};
use crate::config::parse::parse_repo_config;
use crate::config::problem::Problem;
use crate::config::{ROOT_FILE, glob::GlobError};
use crate::graph::model::{Graph, Module, Warning};
use module_calls::Home;
use reader::Reader;

/// What a scan works on besides files.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    /// `owner/name`.
    pub repo: String,
    /// The commit that was checked out; may be empty.
    pub sha: String,
    /// Host of the repository's GitHub.
    pub server_host: String,
    /// Instead of the `stackorder.yaml` among the files.
    pub config: Option<RepoConfig>,
}

impl ScanOptions {
    /// A commit of a repository on github.com under its own configuration.
    pub fn new(repo: &str, sha: &str) -> Self {
        Self { repo: repo.to_owned(), sha: sha.to_owned(), server_host: "github.com".to_owned(), config: None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Scanned {
    pub graph: Graph,
    pub config: RepoConfig,
}

/// Why there is no graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum ScanError {
    #[error("{0}")]
    Configuration(Problem),
    #[error("{file}: {reason}")]
    Unreadable { file: String, reason: String },
    #[error("{stack}: backend_config file {file:?}: {reason}")]
    BackendFile { stack: String, file: String, reason: String },
}

/// Scans a checkout. Everything that is wrong with the configuration comes back at once; all else is a warning.
pub fn scan(files: &dyn Files, options: &ScanOptions) -> Result<Scanned, Vec<ScanError>> {
    graph_of(files, options).map_err(|errors| configuration::complete(files, errors))
}

fn graph_of(files: &dyn Files, options: &ScanOptions) -> Result<Scanned, Vec<ScanError>> {
    let mut reader = Reader::open(files);
    let config = match &options.config {
        Some(config) => config.clone(),
        None => root_config(&reader)?,
    };
    let globs = Globs::of(&config).map_err(|error| {
        vec![ScanError::Configuration(Problem::of_key(ROOT_FILE, "stacks", format!("not a glob: {error}")))]
    })?;

    let (directories, mut warnings) = stacks::find(&reader, &config, &globs);
    let stacks::Stacks { mut stacks, warnings: more } = stacks::build(&reader, &config, &directories)?;
    warnings.extend(more);
    warnings.extend(unused::warnings(&reader, &config, &globs, &stacks));

    let home = Home { repo: &options.repo, host: &options.server_host };
    let modules = modules::find(&mut reader, home, &globs.modules, &stacks, config.tool);
    warnings.extend(modules.warnings);
    let local = modules.modules.iter().filter_map(Module::directory).map(str::to_owned).collect();
    let owners = file_reads::Owners { stacks: &directories, modules: &local };
    let sets = file_sets::FileSets::of(&reader);
    warnings.extend(file_reads::watch(&reader, &sets, &mut stacks, modules.file_reads, &owners));
    warnings.extend(watch_entries::add(&reader, &sets, &config, &mut stacks));
    warnings.append(&mut reader.warnings);
    incomplete::mark(&mut stacks, &modules.modules, &modules.edges, &warnings);
    let edges = edges::find(&reader, &stacks, &directories, &modules.reads, &options.repo);
    warnings.extend(edges.warnings);

    let mut graph = Graph {
        repo: options.repo.clone(),
        sha: options.sha.clone(),
        tree_hash: reader.tree_hash(),
        stacks: stacks.into_iter().map(|stack| stack.stack).chain(edges.external).collect(),
        modules: modules.modules,
        edges: modules.edges.into_iter().chain(edges.edges).collect(),
        warnings,
    };
    graph.sort();
    Ok(Scanned { graph, config })
}

fn root_config(reader: &Reader<'_>) -> Result<RepoConfig, Vec<ScanError>> {
    if reader.tree.kind(ROOT_FILE).is_none() {
        return Ok(RepoConfig::default());
    }
    let bytes =
        reader.read(ROOT_FILE).map_err(|reason| vec![ScanError::Unreadable { file: ROOT_FILE.to_owned(), reason }])?;
    parse_repo_config(ROOT_FILE, &bytes)
        .map_err(|problems| problems.into_iter().map(ScanError::Configuration).collect())
}

/// The globs of the configuration, compiled once.
struct Globs {
    discover: PathGlobs,
    exclude: PathGlobs,
    modules: PathGlobs,
}

impl Globs {
    fn of(config: &RepoConfig) -> Result<Self, GlobError> {
        // A configuration that comes as JSON may hold the empty lists that mean the default.
        let or_default =
            |globs: &[String], default: Vec<String>| PathGlobs::new(if globs.is_empty() { &default } else { globs });
        Ok(Self {
            discover: or_default(&config.stacks.discover, StacksConfig::default().discover)?,
            exclude: PathGlobs::new(&config.stacks.exclude)?,
            modules: or_default(&config.modules.paths, ModulesConfig::default().paths)?,
        })
    }
}

fn warning_in(code: &str, file: &str, message: impl Into<String>) -> Warning {
    Warning::new(code, message).in_file(file)
}

#[cfg(test)]
pub(crate) mod tests;
