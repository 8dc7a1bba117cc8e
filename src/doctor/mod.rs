//! `stackorder admin doctor`: what keeps a server from working, found before a run finds it (spec 22 §17).
//!
//! `examine` asks the database and GitHub, and everything else judges what they said: [`Facts`] in, [`Finding`]s out.
//! Nothing is changed, neither here nor there.
//!
//! - `facts`: what was found out, or why it could not be.
//! - `examine`: finding it out.
//! - `instance`: the server's database, leader, queue, address and clock.
//! - `app`: permissions, events and installations of the App; `webhook`: whether GitHub reaches the server.
//! - `repository`: required checks and environments; `workflows`: the two workflow files.

mod app;
pub mod examine;
pub mod facts;
mod instance;
mod repository;
mod webhook;
mod workflows;

use crate::guide::Topic;
use facts::Facts;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Ok,
    /// It works, and a person should know.
    Warning,
    /// Something does not work, or will not.
    Problem,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Warning => "warning",
            Severity::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub topic: Topic,
    pub severity: Severity,
    /// The server, an account or a repository.
    pub place: String,
    pub what: String,
    /// What to do about it; empty when all is well.
    pub fix: String,
}

impl Finding {
    /// The check's name: its anchor in the guide without what all have in common.
    pub fn check(&self) -> &'static str {
        self.topic.anchor().trim_start_matches("doctor-")
    }

    fn ok(topic: Topic, place: &str, what: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Ok, place: place.to_owned(), what: what.into(), fix: String::new() }
    }

    fn warning(topic: Topic, place: &str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { topic, severity: Severity::Warning, place: place.to_owned(), what: what.into(), fix: fix.into() }
    }

    fn problem(topic: Topic, place: &str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Problem, ..Self::warning(topic, place, what, fix) }
    }
}

/// Where findings about the server itself are.
const SERVER: &str = "server";

/// Every finding, the server's first, then repository by repository.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut found = instance::findings(facts);
    found.extend(app::findings(facts));
    found.extend(webhook::findings(facts));
    for repository in &facts.repositories {
        found.extend(workflows::findings(repository));
        found.extend(repository::findings(repository, facts.app_id));
    }
    found
}
