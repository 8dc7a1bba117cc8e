//! From GitHub's JSON to an [`Event`]: one struct per payload, with only the fields we read.

use serde::{Deserialize, Deserializer};

use super::{
    CheckRunEvent, DeploymentProtectionRuleEvent, Event, EventRepository, InstallationEvent,
    InstallationRepositoriesEvent, IssueCommentEvent, ListedRepository, ParseError, PullRequestEvent, PushEvent,
    Sender, WorkflowJobEvent, WorkflowRunEvent,
};
use crate::clock::{Millis, parse_rfc3339};
use crate::github::api::InstallationFacts;
use crate::github::client::without_reference;
use crate::ids::{RepoName, Sha};

/// Reads the payload of an `X-GitHub-Event`. Events that decide nothing are not read at all.
pub fn parse(event: &str, payload: &str) -> Result<Event, ParseError> {
    fn read<'p, P: Deserialize<'p>>(payload: &'p str, of: impl FnOnce(P) -> Event) -> serde_json::Result<Event> {
        serde_json::from_str(payload).map(of)
    }
    let parsed = match event {
        "installation" => read(payload, |p: Installation| Event::Installation(p.into())),
        "installation_repositories" => {
            read(payload, |p: InstallationRepositories| Event::InstallationRepositories(p.into()))
        }
        "pull_request" => read(payload, |p: PullRequest| Event::PullRequest(p.into())),
        "issue_comment" => read(payload, |p: IssueComment| Event::IssueComment(p.into())),
        "push" => read(payload, |p: Push| Event::Push(p.into())),
        "check_run" => read(payload, |p: CheckRun| Event::CheckRun(p.into())),
        "workflow_run" => read(payload, |p: WorkflowRun| Event::WorkflowRun(p.into())),
        "workflow_job" => read(payload, |p: WorkflowJob| Event::WorkflowJob(p.into())),
        "deployment_protection_rule" => {
            read(payload, |p: DeploymentProtectionRule| Event::DeploymentProtectionRule(p.into()))
        }
        "ping" => Ok(Event::Ping),
        _ => Ok(Event::Other),
    };
    parsed.map_err(|source| ParseError { event: event.to_owned(), source })
}

#[derive(Deserialize)]
struct Repository {
    id: i64,
    full_name: RepoName,
    default_branch: Option<String>,
}

/// Of an object of which only this matters.
#[derive(Deserialize)]
struct Id {
    id: i64,
}

fn event_repository(repository: Repository, installation: Option<Id>) -> EventRepository {
    EventRepository {
        id: repository.id,
        name: repository.full_name,
        installation_id: installation.map(|installation| installation.id),
        default_branch: repository.default_branch,
    }
}

#[derive(Deserialize)]
struct User {
    login: String,
    r#type: Option<String>,
}

impl From<User> for Sender {
    fn from(user: User) -> Self {
        let is_bot = user.r#type.as_deref() == Some("Bot") || user.login.ends_with("[bot]");
        Self { login: user.login, is_bot }
    }
}

/// An account that is gone: nobody, and no bot.
fn sender(user: Option<User>) -> Sender {
    user.map_or(Sender { login: String::new(), is_bot: false }, Sender::from)
}

#[derive(Deserialize)]
struct InstalledApp {
    id: i64,
    account: User,
    suspended_at: Option<serde::de::IgnoredAny>,
}

impl From<InstalledApp> for InstallationFacts {
    fn from(installation: InstalledApp) -> Self {
        Self {
            id: installation.id,
            account: installation.account.login,
            account_type: installation.account.r#type.unwrap_or_default(),
            suspended: installation.suspended_at.is_some(),
        }
    }
}

#[derive(Deserialize)]
struct Listed {
    id: i64,
    full_name: RepoName,
}

fn listed(repositories: Option<Vec<Listed>>) -> Vec<ListedRepository> {
    let repositories = repositories.unwrap_or_default().into_iter();
    repositories.map(|repository| ListedRepository { id: repository.id, name: repository.full_name }).collect()
}

#[derive(Deserialize)]
struct Installation {
    action: String,
    installation: InstalledApp,
    repositories: Option<Vec<Listed>>,
}

impl From<Installation> for InstallationEvent {
    fn from(payload: Installation) -> Self {
        Self {
            action: payload.action,
            installation: payload.installation.into(),
            repositories: listed(payload.repositories),
        }
    }
}

#[derive(Deserialize)]
struct InstallationRepositories {
    action: String,
    installation: InstalledApp,
    repositories_added: Option<Vec<Listed>>,
    repositories_removed: Option<Vec<Id>>,
}

impl From<InstallationRepositories> for InstallationRepositoriesEvent {
    fn from(payload: InstallationRepositories) -> Self {
        Self {
            action: payload.action,
            installation: payload.installation.into(),
            added: listed(payload.repositories_added),
            removed: payload.repositories_removed.unwrap_or_default().into_iter().map(|removed| removed.id).collect(),
        }
    }
}

#[derive(Deserialize)]
struct PullRequest {
    action: String,
    repository: Repository,
    installation: Option<Id>,
    sender: Option<User>,
    pull_request: Pull,
    changes: Option<Changes>,
}

#[derive(Deserialize)]
struct Changes {
    base: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Pull {
    number: i64,
    head: End,
    base: End,
    #[serde(default)]
    merged: bool,
    merge_commit_sha: Option<Sha>,
    merged_by: Option<User>,
}

#[derive(Deserialize)]
struct End {
    r#ref: String,
    sha: Sha,
    repo: Option<Id>,
}

impl From<PullRequest> for PullRequestEvent {
    fn from(payload: PullRequest) -> Self {
        let pull = payload.pull_request;
        Self {
            action: payload.action,
            number: pull.number,
            base_changed: payload.changes.is_some_and(|changes| changes.base.is_some()),
            head_sha: pull.head.sha,
            from_fork: pull.head.repo.is_none_or(|head| head.id != payload.repository.id),
            merged: pull.merged,
            base_ref: pull.base.r#ref,
            merge_commit_sha: pull.merge_commit_sha,
            merged_by: pull.merged_by.map(|user| user.login),
            sender: sender(payload.sender),
            repo: event_repository(payload.repository, payload.installation),
        }
    }
}

#[derive(Deserialize)]
struct IssueComment {
    action: String,
    repository: Repository,
    installation: Option<Id>,
    sender: Option<User>,
    issue: Issue,
    comment: Comment,
}

#[derive(Deserialize)]
struct Issue {
    number: i64,
    pull_request: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Comment {
    id: i64,
    body: Option<String>,
    user: Option<User>,
}

impl From<IssueComment> for IssueCommentEvent {
    fn from(payload: IssueComment) -> Self {
        let (author, by) = (sender(payload.comment.user), sender(payload.sender));
        Self {
            action: payload.action,
            repo: event_repository(payload.repository, payload.installation),
            number: payload.issue.number,
            is_pull_request: payload.issue.pull_request.is_some(),
            comment_id: payload.comment.id,
            body: payload.comment.body.unwrap_or_default(),
            author: author.login,
            author_is_bot: author.is_bot,
            sender_is_bot: by.is_bot,
            sender: by.login,
        }
    }
}

#[derive(Deserialize)]
struct Push {
    r#ref: String,
    after: Sha,
    #[serde(default)]
    deleted: bool,
    repository: Repository,
    installation: Option<Id>,
}

impl From<Push> for PushEvent {
    fn from(payload: Push) -> Self {
        Self {
            reference: payload.r#ref,
            after: payload.after,
            deleted: payload.deleted,
            default_branch: payload.repository.default_branch.clone().unwrap_or_default(),
            repo: event_repository(payload.repository, payload.installation),
        }
    }
}

#[derive(Deserialize)]
struct CheckRun {
    action: String,
    repository: Repository,
    installation: Option<Id>,
    sender: Option<User>,
    check_run: Check,
}

#[derive(Deserialize)]
struct Check {
    name: String,
    head_sha: Sha,
    app: Option<Id>,
}

impl From<CheckRun> for CheckRunEvent {
    fn from(payload: CheckRun) -> Self {
        let sender = sender(payload.sender);
        Self {
            action: payload.action,
            repo: event_repository(payload.repository, payload.installation),
            name: payload.check_run.name,
            head_sha: payload.check_run.head_sha,
            sender: sender.login,
            sender_is_bot: sender.is_bot,
            app_id: payload.check_run.app.map(|app| app.id).unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
struct WorkflowRun {
    action: String,
    repository: Repository,
    installation: Option<Id>,
    workflow_run: Run,
}

#[derive(Deserialize)]
struct Run {
    id: i64,
    run_attempt: Option<u32>,
    path: Option<String>,
    display_title: Option<String>,
    name: Option<String>,
    event: String,
    head_branch: Option<String>,
    head_sha: String,
    status: Option<String>,
    conclusion: Option<String>,
    #[serde(deserialize_with = "time")]
    created_at: Millis,
}

/// RFC 3339.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Millis, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_rfc3339(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
}

impl From<WorkflowRun> for WorkflowRunEvent {
    fn from(payload: WorkflowRun) -> Self {
        let run = payload.workflow_run;
        Self {
            action: payload.action,
            repo: event_repository(payload.repository, payload.installation),
            run: run.id,
            attempt: run.run_attempt.unwrap_or(1),
            path: without_reference(run.path.unwrap_or_default()),
            title: run.display_title.or(run.name).unwrap_or_default(),
            event: run.event,
            head_branch: run.head_branch.unwrap_or_default(),
            head_sha: run.head_sha,
            status: run.status.unwrap_or_default(),
            conclusion: run.conclusion.unwrap_or_default(),
            created_at: run.created_at,
        }
    }
}

#[derive(Deserialize)]
struct WorkflowJob {
    action: String,
    repository: Repository,
    installation: Option<Id>,
    workflow_job: Job,
}

#[derive(Deserialize)]
struct Job {
    id: i64,
    run_id: i64,
    run_attempt: Option<u32>,
    name: String,
    status: Option<String>,
    html_url: Option<String>,
    conclusion: Option<String>,
}

impl From<WorkflowJob> for WorkflowJobEvent {
    fn from(payload: WorkflowJob) -> Self {
        let job = payload.workflow_job;
        Self {
            action: payload.action,
            repo: event_repository(payload.repository, payload.installation),
            run_id: job.run_id,
            job_id: job.id,
            attempt: job.run_attempt.unwrap_or(1),
            name: job.name,
            status: job.status.unwrap_or_default(),
            html_url: job.html_url.unwrap_or_default(),
            conclusion: job.conclusion.unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
struct DeploymentProtectionRule {
    action: String,
    repository: Repository,
    installation: Option<Id>,
    environment: String,
    deployment_callback_url: Option<String>,
    event: Option<String>,
}

impl From<DeploymentProtectionRule> for DeploymentProtectionRuleEvent {
    fn from(payload: DeploymentProtectionRule) -> Self {
        Self {
            action: payload.action,
            repo: event_repository(payload.repository, payload.installation),
            environment: payload.environment,
            workflow_run_id: payload.deployment_callback_url.as_deref().and_then(run_of_callback),
            event: payload.event.unwrap_or_default(),
        }
    }
}

/// The id in `…/actions/runs/<id>/deployment_protection_rule`. The address itself is never called: we build our own.
fn run_of_callback(url: &str) -> Option<i64> {
    let (_, tail) = url.rsplit_once("/actions/runs/")?;
    tail.strip_suffix("/deployment_protection_rule")?.parse().ok()
}
