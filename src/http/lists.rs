//! Reading for API keys: runs and stacks of what a key may see (spec 20 §4).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::Shared;
use super::call::{Asked, Named};
use super::errors::ApiError;
use crate::api::{RunJson, lock_info};
use crate::clock::{Millis, rfc3339};
use crate::graph::resolution::LockInfo;
use crate::ids::{RepoName, RunId};
use crate::orchestrator::runner_calls::Caller;
use crate::plan::summary::PlanSummary;
use crate::run::model::{Repo, Run};
use crate::run::status::{Mode, RunStatus};
use crate::store::{ApiKey, RunFilter};

type Shares = State<Arc<Shared>>;
type Answer<T> = Result<Json<T>, ApiError>;

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
pub struct Page<T> {
    items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    total: usize,
}

impl<T> Page<T> {
    pub(super) fn of(items: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { items, next_cursor, total: 0 }
    }
}

#[derive(Debug, Serialize)]
pub struct StackDetail {
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
    State(shared): Shares,
    key: ApiKey,
    Named((owner, name)): Named<(String, String)>,
    Asked(paging): Asked<Paging>,
) -> Answer<Page<RunJson>> {
    let repo = visible_repo(&shared, key, &owner, &name).await?;
    let limit = limit(paging.limit.as_deref())?;
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
    Ok(Json(Page::of(items, next_cursor)))
}

/// `GET /v1/repos/{owner}/{repo}/stacks`, by key, live ones only.
pub async fn stacks(
    State(shared): Shares,
    key: ApiKey,
    Named((owner, name)): Named<(String, String)>,
    Asked(paging): Asked<Paging>,
) -> Answer<Page<StackDetail>> {
    let repo = visible_repo(&shared, key, &owner, &name).await?;
    let limit = limit(paging.limit.as_deref())? as usize;
    let after = match paging.cursor.as_deref() {
        Some(text) => Some(
            URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(bad_cursor)?,
        ),
        None => None,
    };
    let locks = shared.app.store.locks(Some(repo.id)).await?;
    let mut records = shared.app.store.stacks(repo.id).await?;
    records.retain(|record| record.removed_at.is_none());
    let total = records.len();
    records.retain(|record| after.as_deref().is_none_or(|after| record.key.as_str() > after));
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
    Ok(Json(Page { items, next_cursor, total }))
}

/// Hidden and missing are the same answer.
async fn visible_repo(shared: &Shared, key: ApiKey, owner: &str, name: &str) -> Result<Repo, ApiError> {
    let missing = || ApiError::not_found("no such repository");
    let name = RepoName::parse(&format!("{owner}/{name}")).map_err(|_| missing())?;
    let repo = shared.app.store.repo_by_name(&name).await?.ok_or_else(missing)?;
    if Caller::Key(key).may("read", &repo.full_name) { Ok(repo) } else { Err(missing()) }
}

/// So many entries a page has.
pub(super) fn limit(asked: Option<&str>) -> Result<u32, ApiError> {
    match asked {
        None => Ok(LIMIT_DEFAULT),
        // A number that no integer holds is over the maximum all the same.
        Some(text) if is_positive(text) => Ok(text.parse().map_or(LIMIT_MAX, |limit: u32| limit.min(LIMIT_MAX))),
        Some(_) => Err(ApiError::invalid_field("limit", "a positive integer")),
    }
}

/// Digits, and not all of them 0.
fn is_positive(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte != b'0')
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

pub(super) fn bad_cursor() -> ApiError {
    ApiError::invalid_field("cursor", "use the one that an answer gave")
}

fn positive(name: &'static str, text: &str) -> Result<i64, ApiError> {
    let number = text.parse().ok().filter(|_| is_positive(text));
    number.ok_or_else(|| ApiError::invalid_field(name, "a positive integer"))
}

fn field(name: &'static str, error: &crate::ids::ParseError) -> ApiError {
    ApiError::invalid_field(name, &error.to_string())
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_positive_integer_and_above_the_maximum_the_maximum() {
        let limit_of = |text: &str| limit(Some(text)).ok();
        for (text, wanted) in [("1", 1), ("0050", 50), ("500", 500), ("501", 500), ("99999999999999999999", 500)] {
            assert_eq!(limit_of(text), Some(wanted), "{text}");
        }
        for text in ["", "0", "000", "-1", "+1", "1.5", "1e3", " 1", "many", "١"] {
            assert_eq!(limit_of(text), None, "{text}");
        }
        assert_eq!(limit(None).ok(), Some(50));
    }

    #[test]
    fn a_cursor_is_what_an_answer_gave_and_nothing_else() {
        let id = RunId::parse("00000000-0000-4000-8000-000000000001").unwrap();
        let of = |text: &str| URL_SAFE_NO_PAD.encode(text);
        assert_eq!(cursor(&of(&format!("17 {id}"))), Some((17, id.clone())));
        for text in ["", "x", "!", &of("17"), &of("17 latest"), &of(&format!("late {id}")), &format!("17 {id}")] {
            assert_eq!(cursor(text), None, "{text}");
        }
    }
}
