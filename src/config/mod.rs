//! `stackorder.yaml` and `.stackorder.yaml` (spec 10).
//!
//! Reading, in this order:
//!
//! - `model`: both files as values with their defaults.
//! - `problem`: what is wrong with a file, and where.
//! - `yaml`: text to a tree of nodes with line numbers, bounded.
//! - `strict`: typed access to that tree; collects every problem instead of stopping at the first.
//! - `parse`: both files from bytes to `model`, fully checked.
//! - `entries`: the rules for single values (a backend entry, a variable name, a team).
//! - `cron`: the rules for a drift schedule.
//!
//! Using:
//!
//! - `template`: the Go-template subset that values may use.
//! - `instances`: which instances a stack directory has.
//! - `effective`: the settings of one instance, combined and rendered.
//! - `environments`: the GitHub environment that a stack's applies run under.
//! - `references`: what a `depends_on` entry points at.
//! - `glob`: the glob dialect of every glob key.
//! - `compare`: which keys differ between two root files.
//! - `lines`: where each key of a file stands.
//! - `schema`: both files as JSON Schemas, for editors.
//! - `origins`: every setting that counts for a stack, with the file and key that it comes from.

pub mod compare;
mod cron;
pub mod effective;
mod entries;
pub mod environments;
pub mod glob;
pub mod instances;
pub mod lines;
pub mod model;
pub mod origins;
pub mod parse;
pub mod problem;
pub mod references;
pub mod schema;
mod strict;
pub mod template;
pub(crate) mod yaml;

/// The root file's name, at the top of a repository.
pub const ROOT_FILE: &str = "stackorder.yaml";

/// The stack file's name, inside a stack directory.
pub const STACK_FILE: &str = ".stackorder.yaml";

/// The stack file of a directory, relative to the repository root.
pub fn stack_file(path: &str) -> String {
    if path.is_empty() { STACK_FILE.to_owned() } else { format!("{path}/{STACK_FILE}") }
}
