//! What a repository needs before its first run, worked out from its checkout: `stackorder init`.
//!
//! Nothing here guesses in silence: what the files prove becomes a key, what they only suggest becomes a comment that
//! asks. The configuration that comes out has been read and scanned before anybody sees it.
//!
//! - `findings`: what stands in the checkout, found by a scan that takes every directory for a possible stack.
//! - `tool`: Terraform or OpenTofu, and which version.
//! - `globs`: directories to the globs of `stacks.discover` and `modules.paths`.
//! - `configuration`: the text of `stackorder.yaml`.
//! - `workflows`: the two files that call the reusable workflows.
//! - `trust`: the roles that jobs assume, and whom they trust.

mod configuration;
mod findings;
mod globs;
mod tool;
mod trust;
mod workflows;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::config::ROOT_FILE;
use crate::config::effective::environment_of;
use crate::config::parse::parse_repo_config;
use crate::graph::model::Warning;
use crate::scan::files::Files;
use crate::scan::{ScanError, ScanOptions, scan};

pub use trust::{Account, Role};

/// Where the two workflow files belong.
pub const WORKFLOWS: &str = ".github/workflows";

/// Everything that a first run needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Proposal {
    /// In the order in which a person reads them.
    pub files: Vec<NewFile>,
    /// Keys of the stacks under the proposed configuration, with the environment of their applies.
    pub stacks: BTreeMap<String, String>,
    /// What the configuration leaves for a person to answer; each stands in it as a comment.
    pub questions: Vec<String>,
    pub roles: Vec<Role>,
    /// What the scan under the proposed configuration has to say.
    pub warnings: Vec<Warning>,
}

/// A file to write, relative to the repository root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewFile {
    pub path: String,
    pub content: String,
}

/// Why there is nothing to propose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProposal {
    /// What is there already has to be corrected first.
    #[error("{}", lines(.0))]
    Broken(Vec<ScanError>),
    #[error("{0}")]
    NoStack(String),
}

/// Works out the files and roles. `options` name the repository; their configuration is not used.
pub fn propose(files: &dyn Files, options: &ScanOptions, account: &Account) -> Result<Proposal, NoProposal> {
    let findings = findings::of(files, options).map_err(NoProposal::Broken)?;
    if findings.stacks.is_empty() {
        return Err(NoProposal::NoStack(findings.why_no_stack()));
    }
    let mut written = configuration::write(&findings);
    let config = parse_repo_config(ROOT_FILE, written.text.as_bytes())
        .map_err(|problems| NoProposal::Broken(problems.into_iter().map(ScanError::Configuration).collect()))?;
    let scanned = scan(files, &ScanOptions { config: Some(config.clone()), ..options.clone() });
    let graph = scanned.map_err(NoProposal::Broken)?.graph;
    let mut stacks = BTreeMap::new();
    for stack in graph.stacks.iter().filter(|stack| !stack.external) {
        let environment = environment_of(&config, stack.config.as_ref(), &stack.path, &stack.instance);
        let refused = |problems: Vec<_>| problems.into_iter().map(ScanError::Configuration).collect();
        let environment = environment.map_err(|problems| NoProposal::Broken(refused(problems)))?;
        stacks.insert(stack.key.clone(), environment.name);
    }
    let environments: BTreeSet<String> = stacks.values().cloned().collect();
    let unnamed = stacks.iter().filter(|(_, name)| *name == "default").map(|(key, _)| key.clone());
    written.ask_about_default(&unnamed.collect());
    let mut new_files = vec![NewFile { path: ROOT_FILE.to_owned(), content: written.text }];
    new_files.extend(workflows::files(account, &environments));
    Ok(Proposal {
        files: new_files,
        roles: trust::roles(&options.repo, &options.server_host, account, &environments),
        stacks,
        questions: written.questions,
        warnings: graph.warnings,
    })
}

fn lines(errors: &[ScanError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
