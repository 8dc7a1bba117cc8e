//! Whether a delivery is GitHub's, and what it says.
//!
//! [`verify`] comes first, on the raw bytes. [`parse`] reads only what a decision needs: GitHub may add fields, actions
//! and states at any time.

mod payload;

#[cfg(test)]
mod tests;

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use super::api::InstallationFacts;
use crate::clock::Millis;
use crate::ids::{RepoName, Sha};

pub use payload::parse;

/// Whether `X-Hub-Signature-256` is the body's, under our secret. An empty secret verifies nothing.
pub fn verify(secret: &SecretString, header: Option<&str>, body: &[u8]) -> bool {
    let secret = secret.expose_secret().as_bytes();
    let signature = header.and_then(|header| header.strip_prefix("sha256=")).and_then(digest);
    let (false, Some(signature)) = (secret.is_empty(), signature) else { return false };
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(body);
    // Compares in constant time.
    mac.verify_slice(&signature).is_ok()
}

/// 64 hex digits, of either case.
fn digest(hex: &str) -> Option<[u8; 32]> {
    let hex = hex.as_bytes();
    let mut digest = [0; 32];
    if hex.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
        let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(digest)
}

/// A payload that lacks what its event must have.
#[derive(Debug, thiserror::Error)]
#[error("the payload of {event} is unreadable")]
pub struct ParseError {
    pub event: String,
    #[source]
    pub source: serde_json::Error,
}

/// Where an event happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRepository {
    pub id: i64,
    pub name: RepoName,
    /// Present in every delivery to an App; absent where a repository's own webhook sends here.
    pub installation_id: Option<i64>,
    pub default_branch: Option<String>,
}

/// A repository in a list of an installation event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRepository {
    pub id: i64,
    pub name: RepoName,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    pub login: String,
    /// Of type `Bot`, or with a login that ends in `[bot]`.
    pub is_bot: bool,
}

/// What happened. Actions, states and conclusions are GitHub's words; unknown ones are the reader's to ignore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Installation(InstallationEvent),
    InstallationRepositories(InstallationRepositoriesEvent),
    PullRequest(PullRequestEvent),
    IssueComment(IssueCommentEvent),
    Push(PushEvent),
    CheckRun(CheckRunEvent),
    WorkflowRun(WorkflowRunEvent),
    WorkflowJob(WorkflowJobEvent),
    DeploymentProtectionRule(DeploymentProtectionRuleEvent),
    Ping,
    /// An event that decides nothing here.
    Other,
}

impl Event {
    /// Nothing comes of it, whoever sends it: a check that nobody asks for again, a comment that no person wrote or that is on
    /// no pull request. GitHub tells of every check there is, those of all jobs and our own, so this is most of what comes.
    pub fn is_for_nobody(&self) -> bool {
        match self {
            Event::CheckRun(event) => event.action != "rerequested" || event.sender_is_bot,
            Event::IssueComment(event) => !event.is_pull_request || event.author_is_bot || event.sender_is_bot,
            Event::Installation(_)
            | Event::InstallationRepositories(_)
            | Event::PullRequest(_)
            | Event::Push(_)
            | Event::WorkflowRun(_)
            | Event::WorkflowJob(_)
            | Event::DeploymentProtectionRule(_)
            | Event::Ping
            | Event::Other => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallationEvent {
    pub action: String,
    pub installation: InstallationFacts,
    /// Empty unless the action lists them.
    pub repositories: Vec<ListedRepository>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallationRepositoriesEvent {
    pub action: String,
    pub installation: InstallationFacts,
    pub added: Vec<ListedRepository>,
    /// Ids only: of a repository that was deleted GitHub may not tell the name.
    pub removed: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestEvent {
    pub action: String,
    pub repo: EventRepository,
    pub number: i64,
    /// `edited`, and the base branch is another one now.
    pub base_changed: bool,
    pub head_sha: Sha,
    /// The head repository differs from the base, or is gone.
    pub from_fork: bool,
    pub merged: bool,
    pub base_ref: String,
    pub merge_commit_sha: Option<Sha>,
    pub merged_by: Option<String>,
    pub sender: Sender,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueCommentEvent {
    pub action: String,
    pub repo: EventRepository,
    pub number: i64,
    pub is_pull_request: bool,
    pub comment_id: i64,
    pub body: String,
    pub author: String,
    pub author_is_bot: bool,
    /// Who did this to it.
    pub sender: String,
    pub sender_is_bot: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushEvent {
    pub repo: EventRepository,
    /// `refs/heads/main`, `refs/tags/v1.2.3`.
    pub reference: String,
    /// All zeros where the reference was deleted.
    pub after: Sha,
    pub deleted: bool,
    pub default_branch: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRunEvent {
    pub action: String,
    pub repo: EventRepository,
    pub name: String,
    pub head_sha: Sha,
    pub sender: String,
    pub sender_is_bot: bool,
    /// The App that made the check; 0 where GitHub does not say.
    pub app_id: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRunEvent {
    pub action: String,
    pub repo: EventRepository,
    pub run: i64,
    pub attempt: u32,
    /// `.github/workflows/stackorder-run.yml`, without a reference.
    pub path: String,
    pub title: String,
    pub event: String,
    /// The branch it ran on; empty where GitHub names none.
    pub head_branch: String,
    pub head_sha: String,
    pub status: String,
    /// Empty while it runs.
    pub conclusion: String,
    pub created_at: Millis,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowJobEvent {
    pub action: String,
    pub repo: EventRepository,
    pub run_id: i64,
    pub job_id: i64,
    pub attempt: u32,
    pub name: String,
    pub status: String,
    pub html_url: String,
    /// Empty while it runs.
    pub conclusion: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentProtectionRuleEvent {
    pub action: String,
    pub repo: EventRepository,
    pub environment: String,
    /// The workflow run that waits, from `deployment_callback_url`; `None` where the address names none.
    pub workflow_run_id: Option<i64>,
    /// What started that run.
    pub event: String,
}
