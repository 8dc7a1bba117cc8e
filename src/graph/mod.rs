//! Nodes and edges, the affected set, cycles.
//!
//! - `model`: the graph as it is stored and sent.
//! - `resolution`: the answer to "what does this change reach".

pub mod model;
pub mod ordering;
pub mod resolution;
