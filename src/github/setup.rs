//! How an App and its repositories are set up at GitHub: what `admin doctor` asks for and nobody else.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Millis;

/// Permission to level, `read`, `write` or `admin`.
pub type Permissions = BTreeMap<String, String>;

/// The App as it is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    pub slug: String,
    pub permissions: Permissions,
    pub events: BTreeSet<String>,
}

/// What one account has granted to the App; less than it asks for until somebody accepts a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    pub account: String,
    pub suspended: bool,
    pub permissions: Permissions,
    pub events: BTreeSet<String>,
}

/// Where GitHub sends the App's webhooks, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Empty without an address.
    pub url: String,
    /// `json` or `form`.
    pub content_type: String,
    /// Certificates are not checked.
    pub insecure: bool,
}

/// One attempt to deliver a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The same for every attempt of one delivery.
    pub guid: String,
    pub event: String,
    /// What the server answered, 0 without an answer.
    pub status_code: u16,
    /// `OK`, or what went wrong.
    pub status: String,
    pub at: Millis,
}

impl Attempt {
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.status_code)
    }
}

/// A check that a branch requires, by branch protection or by a ruleset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequiredCheck {
    pub name: String,
    /// The only App whose check counts; `None` takes it from any source.
    pub app_id: Option<i64>,
}

/// A GitHub environment, as far as it holds a job back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    pub name: String,
    pub has_reviewers: bool,
    /// Only some branches may deploy to it.
    pub has_branch_policy: bool,
}
