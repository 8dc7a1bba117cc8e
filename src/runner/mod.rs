//! The Actions side and the laptop: everything that touches git, files, processes and the server's API (spec 12).
//!
//! What all commands stand on:
//!
//! - `environment`, `facts`: what the process was given, and what a job knows of itself.
//! - `git`, `root`, `checkout`: questions to git; reading below one directory; working tree and commit as the scan
//!   sees them.
//! - `parallel`: the same work many times; `scan_cache`: what earlier scans found.
//! - `sparse`: files that are in git and not on disk.
//! - `progress`: one line on a terminal while a scan takes long.
//! - `console`, `outputs`: what people and later steps of a workflow read.
//! - `stop`: why a command ends early.
//! - `server`, `fallback`: the API's client, and what a pull request is told when the server does not answer.
//!
//! What the commands that run the tool share:
//!
//! - `interrupts`, `process`: processes that are watched, and signals passed on to them.
//! - `base_copy`: the settings that a pull request cannot change.
//! - `stack`: which stack `--stack` names.
//! - `tool`, `hooks`: finding Terraform or OpenTofu, and the repository's own scripts.
//! - `upstream`: which values of other stacks are secret.
//! - `bundle`: what travels from plan to apply; `seal`: how only the holders of a key can read it.
//! - `report`, `stack_job`: one stack's result, and the steps that lead to it; `state_lock`: what to do about one in the way.
//!
//! And one file per command: `resolve`, `affected`, `explain`, `plan`, `apply`, `drift`, `check`, `unlock`, `init`.
//! They return values; `cli` turns these into text, JSON and exit codes.

pub mod affected;
pub mod apply;
mod apply_plan;
pub mod base_copy;
pub mod bundle;
pub mod check;
pub mod checkout;
pub mod console;
pub mod drift;
pub mod environment;
pub mod explain;
pub mod facts;
mod fallback;
pub mod git;
pub mod hooks;
mod init;
pub mod interrupts;
pub mod outputs;
mod parallel;
pub mod plan;
pub mod process;
mod progress;
pub mod report;
pub mod resolve;
mod root;
mod scan_cache;
mod seal;
pub mod server;
mod sparse;
pub mod stack;
pub mod stack_job;
mod state_lock;
pub mod stop;
pub mod tool;
pub mod unlock;
mod upstream;

use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::{Clock, Millis};
use crate::scan::configuration::{self, Checked, StackSettings};
use crate::scan::{ScanOptions, Scanned};
use checkout::WorkingTree;
use console::Console;
use environment::Environment;
use facts::Facts;
use git::{Git, GitError};
use process::Limits;
use scan_cache::{Identified, Remembered, ScanCache};
use server::Server;
use stop::Stop;

/// Names a directory, relative to the checkout, in which scans leave what they found for the next one.
pub const SCAN_CACHE: &str = "STACKORDER_SCAN_CACHE";

/// One call of the command line, with everything it may touch.
pub struct Job {
    pub env: Environment,
    /// The checkout, all links resolved.
    pub root: PathBuf,
    pub git: Git,
    pub facts: Facts,
    pub console: Console,
    /// `None` in local mode.
    pub server: Option<Server>,
    pub limits: Limits,
    pub clock: Arc<dyn Clock>,
}

/// A working tree and what the scan found in it.
#[derive(Debug)]
pub struct ScannedTree {
    pub tree: WorkingTree,
    pub scanned: Scanned,
}

impl Job {
    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Scans the checkout under its own configuration.
    pub fn scan(&self) -> Result<ScannedTree, Stop> {
        let tree = WorkingTree::open(&self.root, &self.git)?;
        let scanned = self.scan_files("reading the checkout", &tree, &self.scan_options())?;
        Ok(ScannedTree { tree, scanned })
    }

    /// Scans, with the help of earlier scans where the environment names a place for them.
    fn scan_files(&self, what: &str, files: &impl Identified, options: &ScanOptions) -> Result<Scanned, Stop> {
        let Some(directory) = self.env.get(SCAN_CACHE) else {
            return Ok(progress::scan(&self.console, what, files, options)?);
        };
        let cache = ScanCache::open(&self.root.join(directory));
        let scanned = progress::scan(&self.console, what, &Remembered { files, cache: &cache }, options)?;
        if let Err(error) = cache.save() {
            self.console.warn(&format!("the scan cache in {directory} is not written: {error}"));
        }
        Ok(scanned)
    }

    /// Everything that is wrong with the configuration of the checkout.
    pub fn check_configuration(&self) -> Result<Checked, Stop> {
        let tree = WorkingTree::open(&self.root, &self.git)?;
        Ok(configuration::check(&tree, &self.scan_options()))
    }

    /// The settings of every stack, and where each comes from.
    pub fn stack_settings(&self) -> Result<Vec<StackSettings>, Stop> {
        let tree = WorkingTree::open(&self.root, &self.git)?;
        Ok(configuration::stack_settings(&tree, &self.scan_options())?)
    }

    /// Directory of plan files, made with its guards when it is missing.
    pub fn plan_dir(&self) -> Result<PathBuf, Stop> {
        let directory = self.root.join(self.env.get("STACKORDER_PLAN_DIR").unwrap_or(".stackorder/plans"));
        bundle::make_private(&directory)
            .map_err(|error| Stop::failed(format!("cannot make {}: {error}", directory.display())))?;
        Ok(directory)
    }

    fn scan_options(&self) -> ScanOptions {
        ScanOptions { server_host: self.facts.host.clone(), ..ScanOptions::new(&self.facts.repo, &self.facts.commit) }
    }
}

impl From<GitError> for Stop {
    fn from(error: GitError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// `--repo-root`, else the workspace of the job, else the top of the git checkout, else the current directory.
pub fn repo_root(flag: Option<PathBuf>, env: &Environment, current: PathBuf) -> Result<PathBuf, Stop> {
    let root = flag
        .or_else(|| env.get("GITHUB_WORKSPACE").map(PathBuf::from))
        .or_else(|| Git::new(&current, env).top_level())
        .unwrap_or(current);
    let real = root.canonicalize().map_err(|error| Stop::failed(format!("--repo-root {}: {error}", root.display())))?;
    if real.is_dir() { Ok(real) } else { Err(Stop::failed(format!("--repo-root {}: no directory", root.display()))) }
}

#[cfg(all(test, unix))]
mod tests;
