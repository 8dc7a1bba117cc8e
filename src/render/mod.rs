//! The texts people read on GitHub: comments and checks, as Markdown within GitHub's limits.
//!
//! - `escape`: the only way in for foreign text.

pub mod escape;
