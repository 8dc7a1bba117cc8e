//! The Actions engine: runs real workflow files with real shells on this machine.
//!
//! - `engine`: what the rest of the fake calls; `model`: runs, jobs and artifacts as others read them; `host`: what the
//!   engine needs of the GitHub around it.
//! - `workflow`, `tree`: files read, checked and refused where the engine cannot do what they ask; `triggers`: which
//!   events start them; `permissions`, `matrix`: two parts of a job that are pure rules.
//! - `expression`: what `${{ … }}` is worth; `glob`: filters and file patterns.
//! - `start`, `run`, `leg`, `job`: from an event to an attempt, its jobs, one job, the steps on its runner; `call`: jobs
//!   that call a workflow.
//! - `gates`, `groups`, `concurrency`: what holds a job or a run: environments, concurrency groups and the way into them.
//! - `state`, `signals`: what the engine remembers, and how its tasks tell each other to stop or to wait.
//! - `process`, `commands`: process groups, and what their output and files mean; `builtin`: stand-ins for actions that
//!   are JavaScript; `zip`: the archives of artifacts.

mod builtin;
mod call;
mod commands;
mod concurrency;
pub mod engine;
pub mod expression;
mod gates;
mod glob;
mod groups;
pub mod host;
mod job;
mod leg;
mod matrix;
pub mod model;
mod permissions;
mod process;
mod run;
mod signals;
mod start;
mod state;
mod tree;
mod triggers;
mod workflow;
mod zip;
