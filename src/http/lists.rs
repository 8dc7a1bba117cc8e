//! Reading for API keys: runs, stacks and audit of what a key may see (spec 20 §4, §5.9).

use axum::extract::{Path, Query, State as Extract};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::errors::ApiError;
use super::runs::answered;
use super::{Shared, auth};
use crate::api::lock_info;
use crate::clock::{Millis, rfc3339};
use crate::graph::resolution::LockInfo;
use crate::ids::{RepoName, RunId};
use crate::orchestrator::runner_calls::Caller;
use crate::plan::summary::PlanSummary;
use crate::run::model::{Repo, Run};
use crate::run::status::{Mode, RunStatus};
use crate::store::RunFilter;

const LIMIT_DEFAULT: u32 = 50;
const LIMIT_MAX: u32 = 500;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Paging {
    limit: Option<String>,
    cursor: Option<String>,
    status: Option<String>,
    mode: Option<String>,
    pr: Option<String>,
}

#[derive(Debug, Serialize)]
struct Page<T> {
    items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Debug, Serialize)]
struct StackDetail {
    id: String,
    repo: String,
    key: String,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<LockInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drift: Option<DriftStatus>,
}

#[derive(Debug, Serialize)]
struct DriftStatus {
    checked_at: String,
    drifted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<PlanSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issue_number: Option<i64>,
}

/// `GET /v1/repos/{owner}/{repo}/runs`, newest first.
pub async fn runs(
    Extract(shared): Extract<std::sync::Arc<Shared>>,
    Path((owner, name)): Path<(String, String)>,
    Query(paging): Query<Paging>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let repo = visible_repo(&shared, &headers, &owner, &name).await?;
    let limit = limit(&paging)?;
    let filter = RunFilter {
        repo_id: Some(repo.id),
        pr_number: paging.pr.as_deref().map(|text| positive("pr", text)).transpose()?,
        mode: paging
            .mode
            .as_deref()
            .map(|text| Mode::parse(text).map_err(|error| field("mode", &error)))
            .transpose()?,
        status: paging
            .status
            .as_deref()
            .map(|text| RunStatus::parse(text).map_err(|error| field("status", &error)))
            .transpose()?,
        before: paging.cursor.as_deref().map(|text| cursor(text).ok_or_else(bad_cursor)).transpose()?,
        limit: limit + 1,
        ..RunFilter::default()
    };
    let mut found = shared.app.store.runs(&filter).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.last().filter(|_| more).map(cursor_after);
    let items = found.iter().map(|run| shared.app.run_json(run, &repo)).collect();
    Ok(answered(StatusCode::OK, Page { items, next_cursor }))
}

/// `GET /v1/repos/{owner}/{repo}/stacks`, by key, live ones only.
pub async fn stacks(
    Extract(shared): Extract<std::sync::Arc<Shared>>,
    Path((owner, name)): Path<(String, String)>,
    Query(paging): Query<Paging>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let repo = visible_repo(&shared, &headers, &owner, &name).await?;
    let limit = limit(&paging)? as usize;
    let after = match paging.cursor.as_deref() {
        Some(text) => Some(
            URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(bad_cursor)?,
        ),
        None => None,
    };
    let locks = shared.app.store.locks(Some(repo.id)).await?;
    let mut records = shared.app.store.stacks(repo.id).await?;
    records.retain(|record| {
        record.removed_at.is_none() && after.as_deref().is_none_or(|after| record.key.as_str() > after)
    });
    records.sort_by(|a, b| a.key.cmp(&b.key));
    let more = records.len() > limit;
    records.truncate(limit);
    let next_cursor = records.last().filter(|_| more).map(|record| URL_SAFE_NO_PAD.encode(record.key.as_str()));
    let items = records
        .into_iter()
        .map(|record| StackDetail {
            id: record.id.to_string(),
            repo: repo.full_name.to_string(),
            path: record.key.path().to_owned(),
            lock: locks.iter().find(|lock| lock.key == record.key).map(lock_info),
            drift: record.drift.map(|seen| DriftStatus {
                checked_at: rfc3339(seen.checked_at),
                drifted: seen.drifted,
                summary: seen.summary,
                issue_number: record.drift_issue,
            }),
            key: record.key.to_string(),
        })
        .collect();
    Ok(answered(StatusCode::OK, Page { items, next_cursor }))
}

/// `GET /v1/audit`, newest first; a key sees entries of its repositories.
pub async fn audit(
    Extract(shared): Extract<std::sync::Arc<Shared>>,
    Query(paging): Query<Paging>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let key = auth::key(&shared, &headers).await?;
    if !key.scopes.iter().any(|scope| scope == "read") {
        return Err(ApiError::forbidden("this key may not read"));
    }
    let limit = limit(&paging)?;
    let before = match paging.cursor.as_deref() {
        Some(text) => Some(
            URL_SAFE_NO_PAD
                .decode(text)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .and_then(|text| text.parse().ok())
                .ok_or_else(bad_cursor)?,
        ),
        None => None,
    };
    let entries = shared.app.store.audit(limit, before).await?;
    let next_cursor = entries
        .last()
        .filter(|_| entries.len() == limit as usize)
        .map(|(id, _)| URL_SAFE_NO_PAD.encode(id.to_string()));
    let seen = |entry: &&(i64, crate::run::model::AuditEntry)| {
        key.repos.is_empty()
            || entry
                .1
                .details
                .get("repo")
                .and_then(|repo| repo.as_str())
                .is_some_and(|repo| key.repos.iter().any(|own| own.eq_ignore_ascii_case(repo)))
    };
    let items = entries
        .iter()
        .filter(seen)
        .map(|(_, entry)| {
            json!({
                "at": rfc3339(entry.at), "actor": entry.actor, "action": entry.action, "target": entry.target,
                "details": entry.details,
            })
        })
        .collect::<Vec<_>>();
    Ok(answered(StatusCode::OK, Page { items, next_cursor }))
}

/// Hidden and missing are the same answer.
async fn visible_repo(shared: &Shared, headers: &HeaderMap, owner: &str, name: &str) -> Result<Repo, ApiError> {
    let key = auth::key(shared, headers).await?;
    let missing = || ApiError::not_found("no such repository");
    let name = RepoName::parse(&format!("{owner}/{name}")).map_err(|_| missing())?;
    let repo = shared.app.store.repo_by_name(&name).await?.ok_or_else(missing)?;
    if Caller::Key(key).may("read", &repo.full_name) { Ok(repo) } else { Err(missing()) }
}

fn limit(paging: &Paging) -> Result<u32, ApiError> {
    match paging.limit.as_deref() {
        None => Ok(LIMIT_DEFAULT),
        Some(text) => match text.parse::<u32>() {
            Ok(limit) if limit > 0 => Ok(limit.min(LIMIT_MAX)),
            Ok(_) | Err(_) => Err(ApiError::invalid_field("limit", "a positive integer")),
        },
    }
}

/// The cursor of the runs that come after this one in a list that runs newest first.
pub(crate) fn cursor_after(run: &Run) -> String {
    URL_SAFE_NO_PAD.encode(format!("{} {}", run.created_at, run.id))
}

/// What [`cursor_after`] wrote; `None` for anything else.
pub(crate) fn cursor(text: &str) -> Option<(Millis, RunId)> {
    let decoded = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    let (at, id) = decoded.split_once(' ')?;
    Some((at.parse().ok()?, RunId::parse(id).ok()?))
}

fn bad_cursor() -> ApiError {
    ApiError::invalid_field("cursor", "use the one that an answer gave")
}

fn positive(name: &'static str, text: &str) -> Result<i64, ApiError> {
    match text.parse::<i64>() {
        Ok(number) if number > 0 => Ok(number),
        Ok(_) | Err(_) => Err(ApiError::invalid_field(name, "a positive integer")),
    }
}

fn field(name: &'static str, error: &crate::ids::ParseError) -> ApiError {
    ApiError::invalid_field(name, &error.to_string())
}
