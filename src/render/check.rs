//! A check run as it should stand on GitHub.

use crate::ids::Sha;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conclusion {
    Success,
    Failure,
    Neutral,
    Cancelled,
    ActionRequired,
}

impl Conclusion {
    pub fn as_str(self) -> &'static str {
        match self {
            Conclusion::Success => "success",
            Conclusion::Failure => "failure",
            Conclusion::Neutral => "neutral",
            Conclusion::Cancelled => "cancelled",
            Conclusion::ActionRequired => "action_required",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckStatus {
    Queued,
    InProgress,
    Completed(Conclusion),
}

/// A check run as it should stand. Texts are already within GitHub's limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    pub head_sha: Sha,
    pub status: CheckStatus,
    pub title: String,
    pub summary: String,
    pub text: String,
    pub details_url: String,
    /// The run's id.
    pub external_id: String,
}

impl Check {
    /// A stack's own check, or a verdict on one; else a roll-up, or `stackorder/resolve`.
    pub fn is_of_one_stack(&self) -> bool {
        self.name.contains(": ")
    }
}
