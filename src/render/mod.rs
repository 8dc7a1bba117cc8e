//! The texts people read on GitHub: comments and checks, as Markdown within GitHub's limits (spec 24 §4–§5, spec 30 §8, §15).
//!
//! Pure: a scene in, texts out; `orchestrator::rendering` writes what differs from what GitHub has.
//!
//! - `escape`: the only way in for foreign text.
//! - `check`: a check run as it should stand; `checks`: all that should stand for a pull request.
//! - `sticky`: the one comment about its plans; `run_comment`: one per apply; `outcome`: how an apply ended;
//!   `refusal`: why nothing started; `queue`: what an apply waits for; `deployment`: why a job may go on, or not;
//!   `drift`: the issue of a drifted stack.
//! - `pull`: the commits and stacks that these show; `waiting`: plans that failed only for want of what is new;
//!   `words`, `links`, `lists`, `table`, `changes`, `locks`: their parts.

use std::collections::BTreeMap;

use crate::clock::Millis;
use crate::ids::{RunId, StackKey};

mod changes;
pub mod check;
pub mod checks;
pub mod deployment;
pub mod drift;
pub mod escape;
mod links;
mod lists;
mod locks;
pub mod outcome;
pub mod pull;
pub mod queue;
pub mod refusal;
pub mod run_comment;
pub mod sticky;
mod table;
mod waiting;
pub(crate) mod words;

/// GitHub takes 65,536 characters; bytes are never fewer, and our own marks need room.
pub const COMMENT_BYTES_MAX: usize = 65_000;

/// What the texts need besides the scene.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Stackorder's own address, for links to run pages: `<base_url>/runs/<id>`.
    pub base_url: String,
    /// GitHub's web address, for links to commits, runs and pull requests.
    pub web_url: String,
    pub now: Millis,
    /// Plan texts of rows that have something to show; already redacted.
    pub plan_texts: BTreeMap<(RunId, StackKey), String>,
    /// Environments of an apply run that wait for somebody, with the workflow run to approve them at.
    pub pending: BTreeMap<RunId, Vec<(String, i64)>>,
    /// GitHub does not let us write checks here.
    pub checks_refused: bool,
}

#[cfg(test)]
mod tests;
