//! The Actions engine: runs real workflow files with real shells on this machine.
//!
//! - `model`: runs, jobs, artifacts as others read them.
//! - `host`: what the engine needs of the GitHub around it.
//! - `engine`: what the rest of the fake calls.
//! - `expression`: what `${{ … }}` is worth; `glob`: filters and file patterns.

pub mod engine;
pub mod expression;
mod glob;
pub mod host;
pub mod model;
