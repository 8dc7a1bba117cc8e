//! The Actions engine: runs real workflow files with real shells on this machine.
//!
//! - `model`: runs, jobs, artifacts as others read them.
//! - `host`: what the engine needs of the GitHub around it.
//! - `engine`: what the rest of the fake calls.
//! - `expression`: what `${{ … }}` is worth; `glob`: filters and file patterns.

mod builtin;
mod commands;
pub mod engine;
pub mod expression;
mod gates;
mod glob;
mod groups;
pub mod host;
mod job;
mod leg;
mod matrix;
pub mod model;
mod permissions;
mod process;
mod run;
mod signals;
mod start;
mod state;
mod tree;
mod triggers;
mod workflow;
mod zip;
