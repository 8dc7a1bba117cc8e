//! `GET /v1/audit`: who did what to what, newest first (spec 20 §5.9), and the filters that the page shares with it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::call::Asked;
use super::errors::ApiError;
use super::lists::{Page, bad_cursor, limit};
use crate::clock::rfc3339;
use crate::ids::RepoName;
use crate::run::model::AuditEntry;
use crate::store::{ApiKey, Store, StoreError};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Query {
    limit: Option<String>,
    cursor: Option<String>,
    actor: Option<String>,
    action: Option<String>,
    repo: Option<String>,
}

/// Which entries are wanted; every field narrows, compared without regard to case, and an empty text does not.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditFilter {
    pub actor: String,
    pub action: String,
    pub repo: String,
}

impl AuditFilter {
    fn wants(&self, entry: &AuditEntry) -> bool {
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted.eq_ignore_ascii_case(found);
        fits(&self.actor, &entry.actor)
            && fits(&self.action, &entry.action)
            && (self.repo.is_empty() || repo_of(entry).is_some_and(|repo| repo.same_as(&self.repo)))
    }
}

/// The repository an entry tells of: its details name it, or its target, as `owner/repo…` or `kind:owner/repo…`.
pub(crate) fn repo_of(entry: &AuditEntry) -> Option<RepoName> {
    if let Some(repo) = entry.details.get("repo").and_then(Value::as_str) {
        return RepoName::parse(repo).ok();
    }
    let named = entry.target.split(':').find(|part| part.contains('/'))?;
    let named = named.split_once("//").map_or(named, |(repo, _)| repo);
    let named = named.split_once('#').map_or(named, |(repo, _)| repo);
    RepoName::parse(named).ok()
}

/// So many of the entries before a cursor, without those that are not wanted, and the cursor of what comes after. A page may
/// be short, or empty, and still have a next one.
pub(crate) async fn page(
    store: &dyn Store,
    wanted: impl Fn(&AuditEntry) -> bool,
    limit: u32,
    before: Option<i64>,
) -> Result<(Vec<AuditEntry>, Option<String>), StoreError> {
    let mut entries = store.audit(limit + 1, before).await?;
    let more = entries.len() > limit as usize;
    entries.truncate(limit as usize);
    let next = entries.last().filter(|_| more).map(|(id, _)| URL_SAFE_NO_PAD.encode(id.to_string()));
    Ok((entries.into_iter().map(|(_, entry)| entry).filter(wanted).collect(), next))
}

/// A page of the entries that the filter wants.
pub(crate) async fn filtered_page(
    store: &dyn Store,
    filter: &AuditFilter,
    limit: u32,
    before: Option<i64>,
) -> Result<(Vec<AuditEntry>, Option<String>), StoreError> {
    page(store, |entry| filter.wants(entry), limit, before).await
}

/// What [`page`] gave as a cursor; `None` for anything else.
pub(crate) fn cursor(text: &str) -> Option<i64> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?.parse().ok()
}

/// `GET /v1/audit`. A key sees what it did itself, and the entries of its repositories.
pub async fn show(
    State(shared): State<Arc<Shared>>,
    key: ApiKey,
    Asked(query): Asked<Query>,
) -> Result<Json<Page<Value>>, ApiError> {
    if !key.scopes.iter().any(|scope| scope == "read") {
        return Err(ApiError::forbidden("this key may not read"));
    }
    let limit = limit(query.limit.as_deref())?;
    let before = query.cursor.as_deref().map(|text| cursor(text).ok_or_else(bad_cursor)).transpose()?;
    let filter = AuditFilter {
        actor: query.actor.unwrap_or_default(),
        action: query.action.unwrap_or_default(),
        repo: query.repo.unwrap_or_default(),
    };
    let own = format!("apikey:{}", key.name);
    let may_see = |entry: &AuditEntry| {
        key.repos.is_empty()
            || entry.actor == own
            || repo_of(entry).is_some_and(|repo| key.repos.iter().any(|seen| repo.same_as(seen)))
    };
    let wanted = |entry: &AuditEntry| may_see(entry) && filter.wants(entry);
    let (entries, next_cursor) = page(shared.app.store.as_ref(), wanted, limit, before).await?;
    Ok(Json(Page::of(entries.iter().map(json_of).collect(), next_cursor)))
}

fn json_of(entry: &AuditEntry) -> Value {
    json!({
        "at": rfc3339(entry.at), "actor": entry.actor, "action": entry.action, "target": entry.target,
        "details": entry.details,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    fn entry(actor: &str, action: &str, target: &str, details: Value) -> AuditEntry {
        let details = details.as_object().unwrap().clone().into_iter().collect();
        AuditEntry { at: 1, actor: actor.to_owned(), action: action.to_owned(), target: target.to_owned(), details }
    }

    #[test]
    fn an_entry_tells_of_the_repository_in_its_details_or_in_its_target() {
        for (target, repo) in [
            ("acme/infra", Some("acme/infra")),
            ("acme/infra//stacks/vpc:blue", Some("acme/infra")),
            ("pr:acme/infra#7", Some("acme/infra")),
            ("repo:acme/infra", Some("acme/infra")),
            ("workflow_run:acme/infra:4711", Some("acme/infra")),
            ("run:00000000-0000-4000-8000-000000000001:acme/apps", Some("acme/apps")),
            ("run:00000000-0000-4000-8000-000000000001", None),
            ("comment:7:5", None),
            ("lock:5:2026-11-30", None),
        ] {
            let found = repo_of(&entry("ada", "x", target, json!({})));
            assert_eq!(found.as_ref().map(RepoName::as_str), repo, "{target}");
        }
        let told = entry("ada", "x", "acme/other", json!({ "repo": "acme/infra" }));
        assert_eq!(repo_of(&told).unwrap().as_str(), "acme/infra");
    }

    #[tokio::test]
    async fn filters_narrow_each_page_and_never_lose_an_entry() {
        let store = MemoryStore::default();
        for number in 0..10 {
            let (actor, repo) = if number % 2 == 0 { ("ada", "acme/infra") } else { ("bob", "acme/apps") };
            store.add_audit(&entry(actor, "unlock", repo, json!({ "number": number }))).await.unwrap();
        }
        let read = async |filter: AuditFilter| {
            let (mut found, mut pages, mut before) = (Vec::new(), 0, None);
            loop {
                let (entries, next) = filtered_page(&store, &filter, 3, before).await.unwrap();
                found.extend(entries.into_iter().map(|entry| entry.details["number"].as_i64().unwrap()));
                pages += 1;
                match next {
                    Some(next) => before = cursor(&next),
                    None => return (found, pages),
                }
            }
        };
        assert_eq!(read(AuditFilter::default()).await, ((0..10).rev().collect(), 4));
        assert_eq!(read(AuditFilter { actor: "ADA".to_owned(), ..AuditFilter::default() }).await.0, [8, 6, 4, 2, 0]);
        assert_eq!(
            read(AuditFilter { repo: "acme/apps".to_owned(), ..AuditFilter::default() }).await.0,
            [9, 7, 5, 3, 1]
        );
        assert_eq!(read(AuditFilter { action: "claimed".to_owned(), ..AuditFilter::default() }).await, (vec![], 4));
    }
}
