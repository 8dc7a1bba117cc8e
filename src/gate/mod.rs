//! The apply gate: scene in, refusals out (spec 30 §5).
//!
//! - `facts`: what GitHub says, gathered before the decision.

pub mod facts;
