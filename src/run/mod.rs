//! Runs and their state machines: what happens to a plan, apply or drift run, and what follows.
//!
//! - `status`: the statuses and every move between them.
//! - `model`: runs, rows, dispatches, locks, verdicts as values.
//! - `scene`: what one decision looks at, and the difference it makes; `next`: the copy a decision changes.
//! - `settle`: what follows from any change; `waves`: opening a wave and planning again what is behind;
//!   `dispatching`: the dispatches a run needs; `locks`: taking and releasing them.
//! - `queue`: applies that wait until others free their stacks.
//! - `supersede`: a new head or base; `once`: names that the clock claims, and when they are over.
//! - `transitions`: the audit row of what a decision moved.

pub mod apply_start;
pub mod binding;
pub mod close;
pub mod dispatching;
pub mod locks;
pub mod model;
pub mod next;
pub mod once;
pub mod plan_start;
pub mod plan_view;
pub mod progress;
pub mod queue;
pub mod report;
pub mod scene;
pub mod settle;
pub mod status;
pub mod supersede;
pub mod transitions;
pub mod waves;

#[cfg(test)]
pub(crate) mod tests;
