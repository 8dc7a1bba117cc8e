//! `/repos/{owner}/{repo}`: one repository's stacks as they stand, its locks and its newest runs.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use super::overview::LockLine;
use super::page::{self, PageError, Section, Shell};
use super::parts::{Badge, Link, Tone, When};
use super::run_view::RunHead;
use super::{Pages, Shares, links};
use crate::ids::{RepoName, RunId, StackKey};
use crate::run::model::{Lock, Repo, Row};
use crate::run::status::RunStatus;
use crate::store::{RunFilter, StackRecord};

const REFRESH_MS: u32 = 5_000;
const RUNS_SHOWN: u32 = 20;
/// Stacks on one page.
const STACKS_SHOWN: usize = 500;
/// Runs that are asked for the newest status of each stack, and rows after which no further run is asked.
const RECENT_RUNS: u32 = 15;
const RECENT_ROWS_MAX: usize = 2_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    after: String,
}

#[derive(Template)]
#[template(config = "src/web/askama.toml", path = "repository.html")]
struct RepositoryPage {
    shell: Shell,
    name: String,
    github: String,
    graph: String,
    branch: String,
    suspended: bool,
    graph_commit: Option<Link>,
    config: &'static str,
    total: usize,
    stacks: Vec<StackLine>,
    next: Option<String>,
    locks: Vec<LockLine>,
    runs: Vec<RunHead>,
}

struct StackLine {
    anchor: String,
    key: String,
    last: Option<LastSeen>,
    drift: Option<Badge>,
    checked: Option<When>,
    issue: Option<Link>,
    lock: Option<Link>,
}

struct LastSeen {
    badge: Badge,
    run: Link,
}

pub async fn show(
    State(pages): Shares,
    Path((owner, name)): Path<(String, String)>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let repo = named(&pages, &owner, &name).await?;
    let (github, now) = (pages.links(), pages.now());
    let locks = pages.store.locks(Some(repo.id)).await?;
    let mut records = pages.store.stacks(repo.id).await?;
    records.retain(|record| record.removed_at.is_none());
    records.sort_by(|a, b| a.key.cmp(&b.key));
    let total = records.len();
    records.retain(|record| record.key.as_str() > asked.after.as_str());
    let more = records.len() > STACKS_SHOWN;
    records.truncate(STACKS_SHOWN);
    let latest = newest_rows(&pages, &repo).await?;
    let recent = RunFilter { repo_id: Some(repo.id), limit: RUNS_SHOWN, ..RunFilter::default() };
    let runs = pages.store.runs(&recent).await?;
    let page = RepositoryPage {
        shell: Shell::new(repo.full_name.as_str(), Section::Other).refreshed(REFRESH_MS),
        name: repo.full_name.to_string(),
        github: github.repository(&repo.full_name),
        graph: links::graph(&repo.full_name),
        branch: repo.default_branch.clone(),
        suspended: repo.suspended,
        graph_commit: repo.default_graph.as_ref().map(|sha| github.commit(&repo.full_name, sha)),
        config: if repo.config.is_some() { "stackorder.yaml of the default branch" } else { "defaults" },
        total,
        next: records.last().filter(|_| more).map(|last| format!("?after={}", links::encoded(last.key.as_str()))),
        stacks: records.iter().map(|record| line(&pages, &repo, record, &latest, &locks)).collect(),
        locks: locks.iter().take(STACKS_SHOWN).map(|lock| LockLine::of(lock, &repo, &pages)).collect(),
        runs: runs.iter().map(|run| RunHead::of(run, &repo, github, now)).collect(),
    };
    page::show(&headers, &page)
}

/// The repository of an address. Hidden and missing are the same answer.
pub async fn named(pages: &Pages, owner: &str, name: &str) -> Result<Repo, PageError> {
    let missing = || PageError::NotFound("There is no such repository, or it is not visible to you.");
    let name = RepoName::parse(&format!("{owner}/{name}")).map_err(|_| missing())?;
    pages.store.repo_by_name(&name).await?.ok_or_else(missing)
}

/// The newest row of each stack among the repository's recent runs.
pub async fn newest_rows(pages: &Pages, repo: &Repo) -> Result<BTreeMap<StackKey, (RunId, Row)>, PageError> {
    let recent = RunFilter { repo_id: Some(repo.id), limit: RECENT_RUNS, ..RunFilter::default() };
    let mut newest = BTreeMap::new();
    let mut seen = 0;
    for run in pages.store.runs(&recent).await? {
        if run.status == RunStatus::Superseded || seen > RECENT_ROWS_MAX {
            continue;
        }
        let rows = pages.store.rows(&run.id).await?;
        seen += rows.len();
        for row in rows {
            newest.entry(row.key.clone()).or_insert_with(|| (run.id.clone(), row));
        }
    }
    Ok(newest)
}

/// Where a stack stands on its repository's page.
pub fn anchor(record: &StackKey) -> String {
    format!("stack-{}", record.slug())
}

fn line(
    pages: &Pages,
    repo: &Repo,
    record: &StackRecord,
    latest: &BTreeMap<StackKey, (RunId, Row)>,
    locks: &[Lock],
) -> StackLine {
    let drift = record.drift.as_ref();
    StackLine {
        anchor: anchor(&record.key),
        key: record.key.to_string(),
        last: latest.get(&record.key).map(|(run, row)| LastSeen {
            badge: Badge::of_row(row),
            run: Link::to(row.mode.as_str(), links::stack(run, &row.key)),
        }),
        drift: drift.map(|seen| match (seen.drifted, &seen.summary) {
            (false, _) => Badge::new(Tone::Good, "in sync"),
            (true, Some(summary)) => Badge::new(Tone::Warning, format!("drifted: {}", summary.counts_text())),
            (true, None) => Badge::new(Tone::Warning, "drifted"),
        }),
        checked: drift.map(|seen| When::at(seen.checked_at, pages.now())),
        issue: record.drift_issue.map(|number| pages.links().issue(&repo.full_name, number)),
        lock: locks.iter().find(|lock| lock.key == record.key).map(|lock| pages.links().holder(&repo.full_name, lock)),
    }
}
