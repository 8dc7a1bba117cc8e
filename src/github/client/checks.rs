//! Check runs: written whole each time, found by commit.

use reqwest::Method;
use serde::{Deserialize, Serialize};

use super::GitHubClient;
use crate::github::api::{Check, CheckRunFacts, CheckStatus, RepoRef, Result};
use crate::github::budget::Urgency;
use crate::ids::Sha;

/// What GitHub takes for a new check run and for a changed one; only the new one names its commit.
#[derive(Serialize)]
struct Written<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    head_sha: Option<&'a str>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    conclusion: Option<&'static str>,
    /// An empty address is refused, so it is left out.
    #[serde(skip_serializing_if = "str::is_empty")]
    details_url: &'a str,
    external_id: &'a str,
    output: Output<'a>,
}

#[derive(Serialize)]
struct Output<'a> {
    title: &'a str,
    summary: &'a str,
    text: &'a str,
}

impl<'a> From<&'a Check> for Written<'a> {
    fn from(check: &'a Check) -> Self {
        let (status, conclusion) = match check.status {
            CheckStatus::Queued => ("queued", None),
            CheckStatus::InProgress => ("in_progress", None),
            CheckStatus::Completed(conclusion) => ("completed", Some(conclusion.as_str())),
        };
        Self {
            name: &check.name,
            head_sha: None,
            status,
            conclusion,
            details_url: &check.details_url,
            external_id: &check.external_id,
            output: Output { title: &check.title, summary: &check.summary, text: &check.text },
        }
    }
}

/// Roll-ups are what a merge may wait for.
fn urgency(check: &Check) -> Urgency {
    if check.is_of_one_stack() { Urgency::Detail } else { Urgency::RollUp }
}

pub(super) async fn create(client: &GitHubClient, repo: &RepoRef, check: &Check) -> Result<i64> {
    #[derive(Deserialize)]
    struct Created {
        id: i64,
    }
    let written = Written { head_sha: Some(check.head_sha.as_str()), ..check.into() };
    let call = client.root.repo_call(Method::POST, repo, &["check-runs"], &format!("check {}", check.name))?;
    let created: Created = client.read(call.json(&written).once().urgency(urgency(check))).await?;
    Ok(created.id)
}

pub(super) async fn update(client: &GitHubClient, repo: &RepoRef, id: i64, check: &Check) -> Result<()> {
    let segments = ["check-runs", &id.to_string()];
    let call = client.root.repo_call(Method::PATCH, repo, &segments, &format!("check {}", check.name))?;
    client.tell(call.json(&Written::from(check)).urgency(urgency(check))).await
}

pub(super) async fn list(
    client: &GitHubClient,
    repo: &RepoRef,
    sha: &Sha,
    name: Option<&str>,
) -> Result<Vec<CheckRunFacts>> {
    #[derive(Deserialize)]
    struct Page {
        check_runs: Vec<Listed>,
    }
    #[derive(Deserialize)]
    struct Listed {
        id: i64,
        name: String,
        app: Option<App>,
        status: String,
        conclusion: Option<String>,
    }
    #[derive(Deserialize)]
    struct App {
        slug: Option<String>,
    }
    let segments = ["commits", sha.as_str(), "check-runs"];
    let mut call = client.root.repo_call(Method::GET, repo, &segments, &format!("checks of {}", sha.short()))?;
    if let Some(name) = name {
        call = call.query("check_name", name);
    }
    let pages: Vec<Page> = client.pages(call.list()).await?;
    let runs = pages.into_iter().flat_map(|page| page.check_runs).map(|run| CheckRunFacts {
        id: run.id,
        name: run.name,
        app_slug: run.app.and_then(|app| app.slug).unwrap_or_default(),
        completed: run.status == "completed",
        conclusion: run.conclusion.unwrap_or_default(),
    });
    Ok(runs.collect())
}
