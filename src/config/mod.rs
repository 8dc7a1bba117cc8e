//! `stackorder.yaml` and `.stackorder.yaml` (spec 10).
//!
//! - `model`: both files as values with their defaults.

pub mod model;
