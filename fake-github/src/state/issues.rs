//! Issues, pull requests, comments, reactions and reviews.

use super::State;

/// A pull request is an issue with `pull` set; they share numbers and comments.
#[derive(Debug, Clone)]
pub struct Issue {
    pub id: i64,
    pub number: i64,
    pub title: String,
    pub body: Option<String>,
    pub author: String,
    pub via_app: Option<i64>,
    pub open: bool,
    pub state_reason: Option<String>,
    pub labels: Vec<String>,
    pub locked: bool,
    pub created_at: i64,
    pub updated_at: i64,
    pub closed_at: Option<i64>,
    pub closed_by: Option<String>,
    pub reactions: Vec<Reaction>,
    pub pull: Option<PullRequest>,
}

#[derive(Debug, Clone)]
pub struct PullRequest {
    pub id: i64,
    /// Where the head branch lives; `None` when that repository is gone.
    pub head_repo: Option<String>,
    pub head_branch: String,
    pub head_sha: String,
    pub base_branch: String,
    pub base_sha: String,
    pub draft: bool,
    pub merged_at: Option<i64>,
    pub merged_by: Option<String>,
    /// The test merge while open, the real merge commit afterwards.
    pub merge_commit_sha: Option<String>,
    /// `None` until computed.
    pub mergeable: Option<bool>,
    pub commits: i64,
    pub additions: i64,
    pub deletions: i64,
    pub changed_files: i64,
    pub reviews: Vec<Review>,
}

#[derive(Debug, Clone)]
pub struct Review {
    pub id: i64,
    pub author: String,
    pub body: String,
    /// `APPROVED`, `CHANGES_REQUESTED`, `COMMENTED`, `DISMISSED`.
    pub state: String,
    pub commit_id: String,
    pub submitted_at: i64,
}

#[derive(Debug, Clone)]
pub struct Comment {
    pub id: i64,
    pub repo: String,
    pub number: i64,
    pub author: String,
    pub via_app: Option<i64>,
    pub body: String,
    pub created_at: i64,
    pub updated_at: i64,
    pub reactions: Vec<Reaction>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaction {
    pub id: i64,
    pub author: String,
    pub content: String,
    pub created_at: i64,
}

/// Every reaction that GitHub knows.
pub const REACTIONS: [&str; 8] = ["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"];

impl State {
    pub fn comments_of(&self, repo: &str, number: i64) -> impl Iterator<Item = &Comment> {
        self.comments.values().filter(move |comment| comment.repo == repo && comment.number == number)
    }

    /// Numbers of the open pull requests with this head or base.
    pub fn open_pulls(&self, repo: &str, wanted: impl Fn(&PullRequest) -> bool) -> Vec<i64> {
        let Some(repo) = self.repository(repo) else { return Vec::new() };
        repo.issues
            .values()
            .filter(|issue| issue.open && issue.pull.as_ref().is_some_and(&wanted))
            .map(|issue| issue.number)
            .collect()
    }

    pub fn pulls_with_head(&self, repo: &str, sha: &str) -> Vec<i64> {
        self.open_pulls(repo, |pull| pull.head_sha == sha && pull.head_repo.as_deref() == Some(repo))
    }
}

impl PullRequest {
    pub fn is_fork_of(&self, repo: &str) -> bool {
        self.head_repo.as_deref() != Some(repo)
    }

    /// The last deciding review of each person: comments decide nothing.
    pub fn decisions(&self) -> std::collections::BTreeMap<&str, &Review> {
        let deciding = self.reviews.iter().filter(|review| review.state != "COMMENTED");
        deciding.map(|review| (review.author.as_str(), review)).collect()
    }
}
