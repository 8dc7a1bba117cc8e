//! What the gate is told about GitHub: the facts of one moment, gathered before the decision.

use crate::clock::Millis;
use crate::ids::Sha;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    pub number: i64,
    pub title: String,
    pub open: bool,
    pub merged: bool,
    pub draft: bool,
    pub author: String,
    pub head_sha: Sha,
    pub head_ref: String,
    /// The head repository differs from the base, or is gone.
    pub from_fork: bool,
    pub base_ref: String,
    pub base_sha: Sha,
    /// GitHub may still be working it out.
    pub mergeable: Option<bool>,
    pub mergeable_state: String,
    pub merge_commit_sha: Option<Sha>,
    pub merged_by: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewState {
    Approved,
    ChangesRequested,
    Dismissed,
    Commented,
    Pending,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    pub author: String,
    pub state: ReviewState,
    /// The commit it was given on.
    pub commit: String,
    pub submitted_at: Millis,
}

/// What somebody may do in a repository; ordered from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    None,
    Read,
    Triage,
    Write,
    Maintain,
    Admin,
}

impl Permission {
    pub fn can_push(self) -> bool {
        self >= Permission::Write
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Permission::None => "none",
            Permission::Read => "read",
            Permission::Triage => "triage",
            Permission::Write => "write",
            Permission::Maintain => "maintain",
            Permission::Admin => "admin",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    Active,
    None,
    /// The App lacks Members: read.
    Unreadable,
}

/// `GET /compare/{base}...{head}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Changed files of the newer side since the merge base; both names of a rename.
    pub files: Vec<String>,
    /// GitHub lists at most 300.
    pub truncated: bool,
    /// Newest last, as GitHub lists them.
    pub commits: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactFacts {
    pub id: i64,
    pub name: String,
    pub expired: bool,
    pub expires_at: Option<Millis>,
}
