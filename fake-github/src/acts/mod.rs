//! What people and programs do on GitHub, each as one method of [`Hub`](crate::Hub): the state changes, git follows,
//! apps are told, workflows start.
//!
//! - `accounts`: people, organisations, teams. `apps`: registering and installing. `repositories`: creating, committing,
//!   pushing, settings. `pulls`: opening to closing; `merging`. `issues`: issues, comments, reactions. `checks`: check runs and
//!   deployments.
//!
//! REST routes, pages and tests all call these, so that the same act has the same consequences wherever it came from.

pub mod accounts;
pub mod apps;
pub mod checks;
pub mod issues;
mod merging;
pub mod pulls;
pub mod repositories;
