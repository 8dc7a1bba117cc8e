//! An in-process GitHub: state, REST, webhooks, git over HTTP, OIDC and Actions.
//!
//! A product of its own that knows nothing of its users: it behaves as GitHub's documents say, and refuses by name
//! what it cannot do.
//!
//! Read in this order:
//! - `server`: what starts it and where everything listens.
//! - `hub`: the one object behind all of it; `acts`: what people do (commit, open, comment, merge, approve).
//! - `state`: plain data under one mutex, and the rules that need nothing else.
//! - `shapes`: GitHub's JSON of that data; `rest`: the API; `webhooks`: deliveries; `web`: pages for people.
//! - `git`: bare repositories on disk; `git_http`: the same, served to `git`.
//! - `auth`: who is calling; `oidc`: the id tokens of jobs.
//! - `faults`: what goes wrong on purpose; `journal`: what was seen, line by line.
//! - `actions`: the engine that runs workflow files; `host`: what the engine needs of the rest.

pub mod actions;
mod acts;
mod auth;
mod faults;
mod git;
mod git_http;
mod host;
mod hub;
mod journal;
mod oidc;
mod rest;
mod server;
mod shapes;
pub mod state;
mod web;
mod webhooks;

pub use acts::apps::{App, AppSetup};
pub use acts::pulls::ReviewState;
pub use acts::repositories::{Author, RepositorySetup};
pub use faults::{Faults, RestFault};
pub use hub::Hub;
pub use rest::UnexpectedRequest;
pub use server::{Clock, FakeGitHub, Options};
pub use state::apps::Delivery;
pub use state::checks::CheckRun;
pub use state::issues::{Comment, Issue, PullRequest, Reaction, Review};
pub use state::repositories::{Protection, RequiredCheck};
pub use state::roles::Role;
