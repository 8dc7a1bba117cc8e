//! `/runs`: every run, newest first, narrowed by repository, mode and status.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use super::Shares;
use super::links::encoded;
use super::page::{self, PageError, Section, Shell};
use super::run_view::RunHead;
use crate::http::lists;
use crate::ids::RepoName;
use crate::run::model::Repo;
use crate::run::status::{Mode, RunStatus};
use crate::store::RunFilter;

/// Runs on one page.
const LIMIT: usize = 50;
/// How soon the first page looks again (spec 31 §9).
const REFRESH_MS: u32 = 10_000;

/// A filter left open by a form arrives as an empty text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    repo: String,
    mode: String,
    status: String,
    cursor: String,
}

#[derive(Template)]
#[template(config = "src/web/askama.toml", path = "runs.html")]
struct RunsPage {
    shell: Shell,
    repos: Vec<Choice>,
    modes: Vec<Choice>,
    statuses: Vec<Choice>,
    filtered: bool,
    runs: Vec<RunHead>,
    older: Option<String>,
    newest: Option<String>,
}

/// One option of a filter.
struct Choice {
    value: String,
    chosen: bool,
}

impl Choice {
    fn all(values: impl IntoIterator<Item = String>, chosen: &str) -> Vec<Self> {
        values.into_iter().map(|value| Self { chosen: value == chosen, value }).collect()
    }
}

pub async fn show(State(pages): Shares, Query(asked): Query<Asked>, headers: HeaderMap) -> Result<Response, PageError> {
    let repos: BTreeMap<i64, Repo> = pages.store.repos().await?.into_iter().map(|repo| (repo.id, repo)).collect();
    let filter = filter(&asked, &repos)?;
    let mut found = match &filter {
        Some(filter) => pages.store.runs(filter).await?,
        None => Vec::new(),
    };
    let more = found.len() > LIMIT;
    found.truncate(LIMIT);
    let query = |cursor: &str| {
        let parts =
            [("repo", &asked.repo), ("mode", &asked.mode), ("status", &asked.status), ("cursor", &cursor.to_owned())];
        let set: Vec<String> = parts
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        format!("/runs?{}", set.join("&"))
    };
    let shell = Shell::new("Runs", Section::Runs);
    let (github, now) = (pages.links(), pages.now());
    let page = RunsPage {
        shell: if asked.cursor.is_empty() { shell.refreshed(REFRESH_MS) } else { shell },
        filtered: [&asked.repo, &asked.mode, &asked.status].into_iter().any(|value| !value.is_empty()),
        older: found.last().filter(|_| more).map(|last| query(&lists::cursor_after(last))),
        newest: (!asked.cursor.is_empty()).then(|| query("")),
        runs: found.iter().filter_map(|run| Some(RunHead::of(run, repos.get(&run.repo_id)?, github, now))).collect(),
        repos: Choice::all(repos.values().map(|repo| repo.full_name.to_string()), &asked.repo),
        modes: Choice::all(Mode::ALL.iter().map(ToString::to_string), &asked.mode),
        statuses: Choice::all(RunStatus::ALL.iter().map(ToString::to_string), &asked.status),
    };
    page::show(&headers, &page)
}

/// `None` when nothing can match: a repository that we do not know, or that is not visible.
fn filter(asked: &Asked, repos: &BTreeMap<i64, Repo>) -> Result<Option<RunFilter>, PageError> {
    let set = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
    let bad = |field| move |error: crate::ids::ParseError| PageError::Invalid { field, reason: error.to_string() };
    let repo_id = match set(&asked.repo) {
        None => None,
        Some(text) => {
            let name = RepoName::parse(&text).map_err(bad("repo"))?;
            match repos.values().find(|repo| repo.full_name.same_as(name.as_str())) {
                Some(repo) => Some(repo.id),
                None => return Ok(None),
            }
        }
    };
    let before = match set(&asked.cursor) {
        None => None,
        Some(text) => Some(lists::cursor(&text).ok_or_else(|| PageError::Invalid {
            field: "cursor",
            reason: "this is none that a page gave".to_owned(),
        })?),
    };
    Ok(Some(RunFilter {
        repo_id,
        mode: set(&asked.mode).map(|text| Mode::parse(&text)).transpose().map_err(bad("mode"))?,
        status: set(&asked.status).map(|text| RunStatus::parse(&text)).transpose().map_err(bad("status"))?,
        before,
        limit: LIMIT as u32 + 1,
        ..RunFilter::default()
    }))
}
