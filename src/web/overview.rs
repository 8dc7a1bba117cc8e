//! `/`: what waits for a person, who holds what, and how every repository stands.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::page::{self, PageError, Section, Shell};
use super::parts::{Badge, Link, Tone, When};
use super::run_view::{self, RunHead};
use super::{Pages, Shares, links};
use crate::render::words::{self, count};
use crate::run::model::{Dispatch, Lock, Repo, Run};
use crate::run::status::{Mode, RunStatus};
use crate::store::{RunFilter, StackRecord};

/// How soon the page looks again.
const REFRESH_MS: u32 = 5_000;
const RUNS_SHOWN: u32 = 10;
/// Entries of each list; the rest is on the pages of the repositories.
const LIST_MAX: usize = 50;

#[derive(Template)]
#[template(config = "src/web/askama.toml", path = "overview.html")]
struct Overview {
    shell: Shell,
    stacks: usize,
    drifted: usize,
    locked: usize,
    statuses: Vec<StatusCount>,
    waiting: Vec<Waiting>,
    locks: Vec<LockLine>,
    drift: Vec<DriftLine>,
    repos: Vec<RepoLine>,
    runs: Vec<RunHead>,
}

struct StatusCount {
    badge: Badge,
    url: String,
}

/// An environment of a run that waits for a reviewer.
struct Waiting {
    run: Link,
    repository: Link,
    environment: String,
    stacks: String,
    deployment: Option<Link>,
    since: When,
}

pub struct LockLine {
    pub key: String,
    pub repository: Link,
    pub holder: Link,
    pub run: Link,
    pub since: When,
    pub reason: String,
}

impl LockLine {
    pub fn of(lock: &Lock, repo: &Repo, pages: &Pages) -> Self {
        Self {
            key: lock.key.to_string(),
            repository: Link::to(repo.full_name.as_str(), links::repository(&repo.full_name)),
            holder: pages.links().holder(&repo.full_name, lock),
            run: Link::to("run", links::run(&lock.run_id)),
            since: When::at(lock.taken_at, pages.now()),
            reason: lock.reason.clone(),
        }
    }
}

struct DriftLine {
    key: String,
    repository: Link,
    counts: String,
    issue: Option<Link>,
    checked: When,
}

struct RepoLine {
    name: Link,
    graph: Link,
    branch: String,
    suspended: bool,
    stacks: usize,
    drifted: usize,
    locked: usize,
    last: Option<RunHead>,
}

pub async fn show(State(pages): Shares, headers: HeaderMap) -> Result<Response, PageError> {
    let repos = pages.store.repos().await?;
    let by_id: BTreeMap<i64, &Repo> = repos.iter().map(|repo| (repo.id, repo)).collect();
    let (github, now) = (pages.links(), pages.now());
    let locks = pages.store.locks(None).await?;
    let mut lines = Vec::new();
    let mut drift = Vec::new();
    let (mut stacks, mut drifted) = (0, 0);
    for repo in &repos {
        let mut records = pages.store.stacks(repo.id).await?;
        records.retain(|record| record.removed_at.is_none());
        let newest = RunFilter { repo_id: Some(repo.id), limit: 1, ..RunFilter::default() };
        let last = pages.store.runs(&newest).await?;
        let adrift: Vec<DriftLine> = records.iter().filter_map(|record| drifted_line(&pages, repo, record)).collect();
        stacks += records.len();
        drifted += adrift.len();
        lines.push(RepoLine {
            name: Link::to(repo.full_name.as_str(), links::repository(&repo.full_name)),
            graph: Link::to("graph", links::graph(&repo.full_name)),
            branch: repo.default_branch.clone(),
            suspended: repo.suspended,
            stacks: records.len(),
            drifted: adrift.len(),
            locked: locks.iter().filter(|lock| lock.repo_id == repo.id).count(),
            last: last.first().map(|run| RunHead::of(run, repo, github, now)),
        });
        drift.extend(adrift);
    }
    drift.truncate(LIST_MAX);
    let recent = pages.store.runs(&RunFilter { limit: RUNS_SHOWN, ..RunFilter::default() }).await?;
    let page = Overview {
        shell: Shell::new("Overview", Section::Overview).refreshed(REFRESH_MS),
        stacks,
        drifted,
        locked: locks.len(),
        statuses: statuses(&pages).await?,
        waiting: waiting(&pages, &by_id).await?,
        locks: locks
            .iter()
            .filter_map(|lock| Some(LockLine::of(lock, by_id.get(&lock.repo_id)?, &pages)))
            .take(LIST_MAX)
            .collect(),
        drift,
        repos: lines,
        runs: recent.iter().filter_map(|run| Some(RunHead::of(run, by_id.get(&run.repo_id)?, github, now))).collect(),
    };
    page::show(&headers, &page)
}

fn drifted_line(pages: &Pages, repo: &Repo, record: &StackRecord) -> Option<DriftLine> {
    let seen = record.drift.as_ref().filter(|seen| seen.drifted)?;
    Some(DriftLine {
        key: record.key.to_string(),
        repository: Link::to(repo.full_name.as_str(), links::repository(&repo.full_name)),
        counts: seen.summary.as_ref().map_or_else(|| "changes".to_owned(), |summary| summary.counts_text()),
        issue: record.drift_issue.map(|number| pages.links().issue(&repo.full_name, number)),
        checked: When::at(seen.checked_at, pages.now()),
    })
}

/// Run statuses in their order, those that some run has.
async fn statuses(pages: &Pages) -> Result<Vec<StatusCount>, PageError> {
    let counts = pages.store.runs_by_status().await?;
    let of = |status: &RunStatus| {
        let number = counts.get(status).copied().filter(|number| *number > 0)?;
        let badge = Badge::new(Tone::of_run(*status), format!("{number} {}", words::run_status(*status)));
        Some(StatusCount { badge, url: format!("/runs?status={status}") })
    };
    Ok(RunStatus::ALL.iter().filter_map(of).collect())
}

/// Every environment that an apply waits for, with the page where its reviewers answer.
async fn waiting(pages: &Pages, repos: &BTreeMap<i64, &Repo>) -> Result<Vec<Waiting>, PageError> {
    let open = RunFilter { mode: Some(Mode::Apply), open_only: true, limit: LIST_MAX as u32, ..RunFilter::default() };
    let dispatches = pages.store.open_dispatches().await?;
    let mut out = Vec::new();
    for run in pages.store.runs(&open).await? {
        let Some(repo) = repos.get(&run.repo_id) else { continue };
        let rows = pages.store.rows(&run.id).await?;
        let mut environments: BTreeMap<&str, Vec<&crate::run::model::Row>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.waiting_for_approval) {
            environments.entry(&row.environment).or_default().push(row);
        }
        for (environment, rows) in environments {
            let since = rows.iter().map(|row| row.updated_at).min().unwrap_or(run.created_at);
            out.push(Waiting {
                run: Link::to(run_view::title(&run), links::run(&run.id)),
                repository: Link::to(repo.full_name.as_str(), links::repository(&repo.full_name)),
                environment: environment.to_owned(),
                stacks: format!(
                    "{}: {}",
                    count(rows.len(), "stack"),
                    run_view::some_keys(rows.iter().map(|row| &row.key))
                ),
                deployment: deployment(&dispatches, &run, environment)
                    .map(|id| Link::to("review on GitHub", pages.links().workflow_run(&repo.full_name, id))),
                since: When::at(since, pages.now()),
            });
        }
    }
    Ok(out)
}

fn deployment(open: &[Dispatch], run: &Run, environment: &str) -> Option<i64> {
    let mut of_run = open.iter().filter(|one| one.run_id == run.id && one.environment == environment);
    of_run.find_map(|dispatch| dispatch.workflow_run_id)
}
