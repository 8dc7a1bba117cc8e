//! `/audit`: who did what to what, newest first (spec 31 §11). Nothing here can be edited.

use askama::Template;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use super::page::{self, PageError, Section, Shell};
use super::parts::{Link, When};
use super::{Pages, Shares, links};
use crate::http::audit::{self, AuditFilter};
use crate::ids::{RepoName, RunId};
use crate::run::model::AuditEntry;

/// Entries that are looked at for one page.
const LIMIT: u32 = 100;
/// Details longer than this are cut; the API has them whole.
const DETAILS_CHARS_MAX: usize = 2_000;

/// A filter left open by a form arrives as an empty text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    actor: String,
    action: String,
    repo: String,
    cursor: String,
}

#[derive(Template)]
#[template(config = "src/web/askama.toml", path = "audit.html")]
struct AuditPage {
    shell: Shell,
    actor: String,
    action: String,
    repo: String,
    filtered: bool,
    entries: Vec<Line>,
    older: Option<String>,
    newest: Option<String>,
}

struct Line {
    at: When,
    actor: Link,
    action: String,
    target: Link,
    details: String,
}

pub async fn show(State(pages): Shares, Query(asked): Query<Asked>, headers: HeaderMap) -> Result<Response, PageError> {
    let bad_cursor = || PageError::Invalid { field: "cursor", reason: "this is none that a page gave".to_owned() };
    let before = match asked.cursor.as_str() {
        "" => None,
        text => Some(audit::cursor(text).ok_or_else(bad_cursor)?),
    };
    let filter = AuditFilter { actor: asked.actor.clone(), action: asked.action.clone(), repo: asked.repo.clone() };
    let (entries, next) = audit::filtered_page(pages.store.as_ref(), &filter, LIMIT, before).await?;
    let query = |cursor: &str| {
        let parts =
            [("actor", asked.actor.as_str()), ("action", &asked.action), ("repo", &asked.repo), ("cursor", cursor)];
        let set = parts.into_iter().filter(|(_, value)| !value.is_empty());
        let set: Vec<String> = set.map(|(name, value)| format!("{name}={}", links::encoded(value))).collect();
        format!("/audit?{}", set.join("&"))
    };
    let page = AuditPage {
        shell: Shell::new("Audit", Section::Audit),
        filtered: [&asked.actor, &asked.action, &asked.repo].into_iter().any(|value| !value.is_empty()),
        entries: entries.iter().map(|entry| line(&pages, entry)).collect(),
        older: next.map(|cursor| query(&cursor)),
        newest: (!asked.cursor.is_empty()).then(|| query("")),
        actor: filter.actor,
        action: filter.action,
        repo: filter.repo,
    };
    page::show(&headers, &page)
}

fn line(pages: &Pages, entry: &AuditEntry) -> Line {
    let details = serde_json::to_string(&entry.details).unwrap_or_default();
    let cut = details.char_indices().nth(DETAILS_CHARS_MAX).map(|(end, _)| format!("{}…", &details[..end]));
    Line {
        at: When::at(entry.at, pages.now()),
        actor: pages.links().person(&entry.actor),
        action: entry.action.clone(),
        target: target(pages, entry),
        details: cut.unwrap_or(details),
    }
}

/// The target, leading to the page of what it names.
fn target(pages: &Pages, entry: &AuditEntry) -> Link {
    let text = entry.target.as_str();
    if let Some(run) = text.strip_prefix("run:").and_then(|id| RunId::parse(id).ok()) {
        return Link::to(text, links::run(&run));
    }
    if let Some((repo, number)) = text.strip_prefix("pr:").and_then(|pull| pull.split_once('#'))
        && let (Ok(repo), Ok(number)) = (RepoName::parse(repo), number.parse())
    {
        return Link { text: text.to_owned(), ..pages.links().pull(&repo, number) };
    }
    match audit::repo_of(entry) {
        Some(repo) => Link::to(text, links::repository(&repo)),
        None => Link::nowhere(text),
    }
}
