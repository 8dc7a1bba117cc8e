//! Runs and their state machines: what happens to a plan, apply or drift run, and what follows.
//!
//! - `status`: the statuses and every move between them.
//! - `model`: runs, rows, dispatches, locks, verdicts as values.
//! - `scene`: what one decision looks at, and the difference it makes.

pub mod model;
pub mod scene;
pub mod status;
