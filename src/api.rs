//! The JSON that runner jobs, people's tools and the server exchange under `/v1` (spec 20 §6).
//!
//! Shapes only: one definition for the side that sends and the side that reads.
//! Within `v1` fields are only added, and both sides ignore fields they do not know.

use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::clock::{Millis, as_rfc3339};
use crate::config::model::{PlanOutput, RepoConfig};
use crate::graph::model::{Backend, Graph};
use crate::graph::resolution::{BaseFacts, LockInfo, Reason};
use crate::ids::{RunId, Sha, StackId, StackKey};
use crate::plan::summary::{Addresses, PlanSummary};
use crate::run::model::{Lock, Row, Run, Verdict};
use crate::run::queue::{Hold, Line};
use crate::run::scene::Scene;
use crate::run::status::{Mode, RowStatus, RunStatus, SkipReason, Trigger, VerdictStatus};

/// Most bytes of a `POST …/graph` body.
pub const GRAPH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most bytes of a `POST …/result` body.
pub const RESULT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most bytes of any other body under `/v1`.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CreateRunRequest {
    pub repo: String,
    pub sha: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub base_sha: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub pr_number: i64,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "none_if_empty")]
    pub mode: Option<Mode>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "none_if_empty")]
    pub trigger: Option<Trigger>,
    #[serde(skip_serializing_if = "is_zero")]
    pub workflow_run_id: i64,
    #[serde(skip_serializing_if = "is_zero_u32")]
    pub workflow_run_attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "none_if_empty")]
    pub run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreateRunResponse {
    pub run_id: RunId,
    pub status: RunStatus,
    pub existing: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunJson>,
}

/// A re-run takes no words: the run says what is planned again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RerunRequest {}

/// Asks for an apply of what the caller has seen.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestApplyRequest {
    /// `plan_set_digest` of the run that was looked at.
    pub plan_set_digest: String,
    /// Keys as in a comment; none is every stack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<String>,
}

/// Answered with a `graph::resolution::Resolution`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GraphUploadRequest {
    pub graph: Graph,
    #[serde(default)]
    pub changed_paths: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub base_sha: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<RepoConfig>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<String>,
    #[serde(default)]
    pub base: BaseFacts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    Success,
    Failure,
    Error,
}

/// What a job says of one stack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StackResult {
    pub mode: Mode,
    pub status: ResultStatus,
    #[serde(default)]
    pub exit_code: i32,
    #[serde(default)]
    pub has_changes: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<PlanSummary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_text: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error_text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan_artifact: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bundle_sha256: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan_digest: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub job_url: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool_version: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duration_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub unconfirmed: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimRequest {
    pub sha: String,
    pub workflow_run_attempt: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimResponse {
    pub row: RunStackJson,
    pub lock: LockInfo,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bundle_sha256: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan_digest: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actions_digest: String,
    #[serde(default)]
    pub addresses: Addresses,
    pub job_token: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckVerdict {
    pub status: VerdictStatus,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details_url: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckJson {
    pub name: String,
    pub status: VerdictStatus,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details_url: String,
    #[serde(with = "as_rfc3339")]
    pub updated_at: Millis,
}

impl CheckJson {
    pub fn of(verdict: &Verdict) -> Self {
        Self {
            name: verdict.name.clone(),
            status: verdict.status,
            summary: verdict.summary.clone(),
            details_url: verdict.details_url.clone(),
            updated_at: verdict.updated_at,
        }
    }
}

/// A run as the API shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunJson {
    pub id: RunId,
    pub repo: String,
    pub sha: Sha,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub base_sha: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pr_number: i64,
    pub trigger: Trigger,
    pub mode: Mode,
    pub status: RunStatus,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub requested_by: String,
    #[serde(with = "as_rfc3339")]
    pub created_at: Millis,
    #[serde(default, with = "as_rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    #[serde(default, with = "as_rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,
    pub waves: u32,
    pub current_wave: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<RunStackJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_wave: Option<u32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub superseded_by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit_message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit_author: String,
    #[serde(default, skip_serializing_if = "String::is_empty", rename = "ref")]
    pub head_ref: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Of an apply that waits for stacks of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueJson>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub html_url: String,
    /// What a request to apply is bound to: the plans of the run's commit as they stand now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan_set_digest: String,
}

/// Where an apply waits, and for whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueJson {
    /// From 1, among the applies that want one of its stacks.
    pub place: usize,
    pub waits_for: Vec<HoldJson>,
}

/// Who keeps a stack from a queued apply: the holder of its lock, or an apply that came before and waits, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldJson {
    pub stack: StackKey,
    pub run_id: RunId,
    /// 0 for a manual run.
    pub pr_number: i64,
    pub is_locked: bool,
    #[serde(with = "as_rfc3339")]
    pub since: Millis,
}

impl QueueJson {
    pub fn of(scene: &Scene, run: &Run) -> Option<Self> {
        let line = Line::of(scene);
        let place = line.place_of(&run.id)?;
        let waits_for = line.holds_of(&run.id).into_iter().map(|(stack, hold)| {
            let (run_id, pr_number, since) = match hold {
                Hold::Locked(lock) => (lock.run_id.clone(), lock.pr_number, lock.taken_at),
                Hold::Waits(before) => (before.id.clone(), before.pr_number, before.created_at),
            };
            HoldJson { stack, run_id, pr_number, is_locked: matches!(hold, Hold::Locked(_)), since }
        });
        Some(Self { place, waits_for: waits_for.collect() })
    }
}

impl RunJson {
    /// Without its stacks.
    pub fn of(run: &Run, repo: &str, base_url: &str) -> Self {
        Self {
            id: run.id.clone(),
            repo: repo.to_owned(),
            sha: run.sha.clone(),
            base_sha: run.base_sha.clone(),
            pr_number: run.pr_number,
            trigger: run.trigger,
            mode: run.mode,
            status: run.status,
            requested_by: run.requested_by.clone(),
            created_at: run.created_at,
            started_at: run.started_at,
            finished_at: run.finished_at,
            waves: run.waves,
            current_wave: run.current_wave,
            stacks: Vec::new(),
            for_run: run.for_run.clone(),
            for_wave: run.for_run.as_ref().map(|_| run.for_wave),
            superseded_by: run.superseded_by.clone(),
            commit_message: run.commit_message.clone(),
            commit_author: run.commit_author.clone(),
            head_ref: run.head_ref.clone(),
            warnings: run.warnings.clone(),
            queue: None,
            html_url: format!("{base_url}/runs/{}", run.id),
            plan_set_digest: String::new(),
        }
    }
}

/// One stack of a run as the API shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunStackJson {
    pub stack_id: StackId,
    pub key: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    pub environment: String,
    pub wave: u32,
    pub status: RowStatus,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<PlanSummary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub job_url: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan_artifact: String,
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckJson>,
    #[serde(default, with = "as_rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    #[serde(default, with = "as_rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<String>,
    pub plan_output: PlanOutput,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockInfo>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan_digest: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bundle_sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_artifact_id: Option<i64>,
    #[serde(default, with = "as_rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub plan_artifact_expires_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_plan_run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by_run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_by_run: Option<RunId>,
    #[serde(default, with = "as_rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<SkipReason>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error_text: String,
}

impl RunStackJson {
    /// Without its checks and its lock.
    pub fn of(row: &Row) -> Self {
        Self {
            stack_id: row.stack_id.clone(),
            key: row.key.to_string(),
            path: row.key.path().to_owned(),
            instance: row.key.instance().to_owned(),
            workspace: row.workspace.clone(),
            environment: row.environment.clone(),
            wave: row.wave,
            status: row.status,
            reasons: row.reasons.clone(),
            summary: row.summary.clone(),
            exit_code: row.exit_code,
            job_url: row.job_url.clone(),
            plan_artifact: row.plan_artifact.clone(),
            truncated: row.truncated,
            checks: Vec::new(),
            started_at: row.started_at,
            finished_at: row.finished_at,
            blocked_by: row.blocked_by.clone(),
            plan_output: row.plan_output,
            lock: None,
            plan_digest: row.plan_digest.clone(),
            bundle_sha256: row.bundle_sha256.clone(),
            plan_artifact_id: row.plan_artifact_id,
            plan_artifact_expires_at: row.plan_artifact_expires_at,
            from_plan_run: row.from_plan_run.clone(),
            used_by_run: row.used_by_run.clone(),
            applied_by_run: row.applied_by_run.clone(),
            claimed_at: row.claim.as_ref().map(|claim| claim.at),
            behind: row.behind.clone(),
            skip_reason: row.skip_reason,
            note: row.note.clone(),
            error_text: row.error_text.clone(),
        }
    }
}

/// The lock as answers show it.
pub fn lock_info(lock: &Lock) -> LockInfo {
    LockInfo {
        stack_id: Some(lock.stack_id.clone()),
        stack_key: lock.key.to_string(),
        run_id: lock.run_id.clone(),
        pr_number: lock.pr_number,
        taken_at: lock.taken_at,
        reason: lock.reason.clone(),
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UnlockRequest {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub repo: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stack_key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "is_false")]
    pub force_state: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct UnlockResponse {
    pub released: Vec<LockInfo>,
}

/// The body of every answer that is not 2xx.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorBody {
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

/// An empty text says as little as a field that was left out (spec 20 §5.1).
fn none_if_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty());
    text.map(|text| T::deserialize(text.into_deserializer())).transpose()
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn is_zero_u32(number: &u32) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !*flag
}
