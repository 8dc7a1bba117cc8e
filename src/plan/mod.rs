//! What a plan says.

pub mod summary;
