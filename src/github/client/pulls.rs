//! Pull requests, their files and reviews.

use reqwest::Method;
use serde::Deserialize;

use super::GitHubClient;
use super::repos::{ChangedFile, both_names};
use super::send::unreadable;
use crate::clock::parse_rfc3339;
use crate::github::api::{GitHubError, PullRequest, RepoRef, Result, Review, ReviewState};
use crate::ids::{ParseError, Sha};

pub(super) async fn one(client: &GitHubClient, repo: &RepoRef, number: i64) -> Result<PullRequest> {
    let what = format!("pull request {number}");
    let call = client.root.repo_call(Method::GET, repo, &["pulls", &number.to_string()], &what)?;
    let pull: Pull = client.read(call).await?;
    let pull = PullRequest::try_from(pull).map_err(|error| unreadable(&what, error))?;
    if pull.merged && pull.merge_commit_sha.is_none() {
        // What is applied after a merge is this commit: another one in its place would not be what was merged.
        let message = "it is merged, and GitHub does not name the merge commit".to_owned();
        return Err(GitHubError::Temporary { what, message });
    }
    Ok(pull)
}

pub(super) async fn open(client: &GitHubClient, repo: &RepoRef) -> Result<Vec<PullRequest>> {
    let what = "open pull requests";
    let call = client.root.repo_call(Method::GET, repo, &["pulls"], what)?.query("state", "open").list();
    let pages: Vec<Vec<Pull>> = client.pages(call).await?;
    let pulls = pages.into_iter().flatten().map(PullRequest::try_from);
    pulls.collect::<std::result::Result<_, _>>().map_err(|error| unreadable(what, error))
}

pub(super) async fn files(client: &GitHubClient, repo: &RepoRef, number: i64) -> Result<Vec<String>> {
    let segments = ["pulls", &number.to_string(), "files"];
    let call = client.root.repo_call(Method::GET, repo, &segments, &format!("files of pull request {number}"))?;
    let pages: Vec<Vec<ChangedFile>> = client.pages(call.list()).await?;
    Ok(both_names(pages.iter().flatten()))
}

pub(super) async fn reviews(client: &GitHubClient, repo: &RepoRef, number: i64) -> Result<Vec<Review>> {
    let segments = ["pulls", &number.to_string(), "reviews"];
    let call = client.root.repo_call(Method::GET, repo, &segments, &format!("reviews of pull request {number}"))?;
    let pages: Vec<Vec<GivenReview>> = client.pages(call.list()).await?;
    Ok(pages.into_iter().flatten().filter_map(GivenReview::known).collect())
}

/// Lists leave out `merged`, `mergeable` and `merged_by`.
#[derive(Deserialize)]
struct Pull {
    number: i64,
    title: String,
    state: String,
    #[serde(default)]
    merged: bool,
    merged_at: Option<String>,
    #[serde(default)]
    draft: bool,
    user: Option<User>,
    head: End,
    base: End,
    mergeable: Option<bool>,
    mergeable_state: Option<String>,
    merge_commit_sha: Option<String>,
    merged_by: Option<User>,
}

#[derive(Deserialize)]
struct End {
    r#ref: String,
    sha: String,
    /// Null when the fork was deleted.
    repo: Option<Repository>,
}

#[derive(Deserialize)]
struct Repository {
    id: i64,
}

#[derive(Deserialize)]
struct User {
    login: String,
}

impl TryFrom<Pull> for PullRequest {
    type Error = ParseError;

    fn try_from(pull: Pull) -> std::result::Result<Self, ParseError> {
        let home = pull.base.repo.map(|repo| repo.id);
        let from_fork = pull.head.repo.is_none() || pull.head.repo.map(|repo| repo.id) != home;
        Ok(Self {
            number: pull.number,
            title: pull.title,
            open: pull.state == "open",
            merged: pull.merged || pull.merged_at.is_some(),
            draft: pull.draft,
            author: login(pull.user),
            head_sha: Sha::parse(&pull.head.sha)?,
            head_ref: pull.head.r#ref,
            from_fork,
            base_ref: pull.base.r#ref,
            base_sha: Sha::parse(&pull.base.sha)?,
            mergeable: pull.mergeable,
            mergeable_state: pull.mergeable_state.unwrap_or_default(),
            merge_commit_sha: pull.merge_commit_sha.as_deref().map(Sha::parse).transpose()?,
            merged_by: pull.merged_by.map(|user| user.login),
        })
    }
}

#[derive(Deserialize)]
struct GivenReview {
    user: Option<User>,
    state: String,
    commit_id: Option<String>,
    submitted_at: Option<String>,
}

impl GivenReview {
    /// A state we do not know decides nothing, like a comment.
    fn known(self) -> Option<Review> {
        let state = match self.state.to_ascii_uppercase().as_str() {
            "APPROVED" => ReviewState::Approved,
            "CHANGES_REQUESTED" => ReviewState::ChangesRequested,
            "DISMISSED" => ReviewState::Dismissed,
            "COMMENTED" => ReviewState::Commented,
            "PENDING" => ReviewState::Pending,
            _ => return None,
        };
        Some(Review {
            author: login(self.user),
            state,
            commit: self.commit_id.unwrap_or_default(),
            submitted_at: self.submitted_at.as_deref().and_then(parse_rfc3339).unwrap_or_default(),
        })
    }
}

/// Empty for an account that is gone: no living login equals it.
fn login(user: Option<User>) -> String {
    user.map(|user| user.login).unwrap_or_default()
}
