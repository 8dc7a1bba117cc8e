//! The corner cases of spec 30 §18 that runs decide, each as one story; `laws` are checked after every step.

mod applies;
mod field_reports;
mod laws;
mod locks;
mod plans;
mod properties;
mod queue;
mod renewed;
pub(crate) mod story;
