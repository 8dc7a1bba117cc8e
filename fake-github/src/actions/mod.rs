//! The Actions engine: runs real workflow files with real shells on this machine.
//!
//! - `model`: runs, jobs, artifacts as others read them.
//! - `host`: what the engine needs of the GitHub around it.

pub mod host;
pub mod model;
