//! Nodes and edges, the affected set, cycles.
//!
//! - `model`: the graph as it is stored and sent; `sorted`: its one order.
//! - `resolution`: the answer to "what does this change reach".
//! - `ordering`: which stack comes before which, as numbers.
//! - `paths`: changed paths to their owners; `watch_globs`: the globs among what they watch.
//! - `affected`: which stacks a change reaches, and why.
//! - `cycles`: cycles among stacks.
//! - `settings`: what a job has to know of a stack.
//! - `resolve`: all of that together; `union`: under two configurations at once.
//! - `base_facts`: what changed besides files, from two configurations or two graphs.
//! - `downstream`: which stacks elsewhere name one of another repository.
//! - `explain`: the chain from a changed path to a stack.
//! - `validate`: whether a graph can be worked with.
//! - `dot`, `text`, `mermaid`, `svg`: the graph for people; `layout`: where nodes are drawn; `ends`: edges that
//!   lead nowhere.

mod affected;
pub mod base_facts;
pub mod cycles;
pub mod dot;
pub mod downstream;
mod ends;
pub mod explain;
pub mod layout;
pub mod mermaid;
pub mod model;
pub mod ordering;
pub mod paths;
pub mod resolution;
pub mod resolve;
pub(crate) mod settings;
mod sorted;
pub mod svg;
pub mod text;
pub mod union;
pub mod validate;
mod watch_globs;

pub use ordering::{Ordering, ordering};
pub use resolve::{ResolveRequest, resolve};

#[cfg(test)]
mod tests;
