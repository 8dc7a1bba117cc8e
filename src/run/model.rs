//! Runs, their rows, dispatches, locks and verdicts as values (spec 21 §2).
//!
//! The store writes these whole: columns for what is queried, one JSON text for the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::status::{ApplyEvent, Mode, Move, RowStatus, RunStatus, SkipReason, Trigger, VerdictStatus};
use crate::clock::Millis;
use crate::config::model::{PlanOutput, RepoConfig, Tool};
use crate::graph::resolution::{Reason, RemovedStack};
use crate::guide;
use crate::ids::{DispatchId, RepoName, RunId, Sha, StackId, StackKey};
use crate::plan::summary::PlanSummary;

/// A repository under the App, with the policy of its default branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repo {
    /// GitHub's number.
    pub id: i64,
    pub installation_id: i64,
    pub full_name: RepoName,
    pub default_branch: String,
    pub private: bool,
    /// The installation is suspended: no calls, no jobs, runner tokens are refused.
    pub suspended: bool,
    /// `stackorder.yaml` of the default branch; `None` when the file is absent: defaults apply.
    pub config: Option<Arc<RepoConfig>>,
    /// The commit `config` was read at, empty before the first read.
    pub config_sha: String,
    /// The commit whose graph counts for policy, drift and module queries.
    pub default_graph: Option<Sha>,
}

impl Repo {
    /// The policy that counts: the default branch's, or the defaults.
    pub fn policy(&self) -> Arc<RepoConfig> {
        self.config.clone().unwrap_or_default()
    }
}

/// One pass over a set of stacks at one commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub repo_id: i64,
    pub sha: Sha,
    #[serde(default)]
    pub base_sha: String,
    /// 0 when the run belongs to no pull request.
    pub pr_number: i64,
    pub trigger: Trigger,
    pub mode: Mode,
    pub status: RunStatus,
    /// Login, `apikey:<name>`, or `stackorder` for the scheduler.
    pub requested_by: String,
    #[serde(default)]
    pub commit_message: String,
    #[serde(default)]
    pub commit_author: String,
    #[serde(default)]
    pub head_ref: String,
    /// The commit that replaced this run's.
    #[serde(default)]
    pub superseded_by: String,
    /// Only with `upstream`: the apply run and wave this re-plan is for.
    #[serde(default)]
    pub for_run: Option<RunId>,
    #[serde(default)]
    pub for_wave: u32,
    /// A finished re-plan whose outcome its apply run has taken over.
    #[serde(default)]
    pub taken_over: bool,
    /// What happens to the pull request's locks when this apply ends, because the pull request was merged or closed
    /// while it ran (spec 30 §7.3).
    #[serde(default)]
    pub release_at_end: Option<Release>,
    /// Of an apply that waited, or waits, until others freed its stacks: those stacks (spec 30 §7.6).
    #[serde(default)]
    pub wants: Vec<StackKey>,
    /// The commit whose stored graph it was resolved against.
    #[serde(default)]
    pub graph_sha: Option<Sha>,
    pub waves: u32,
    /// Only ever grows.
    pub current_wave: u32,
    /// Set-like: a text is appended once.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Anchors of the guide, by the warning that they explain.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub explained: BTreeMap<String, String>,
    #[serde(default)]
    pub cycles: Vec<Vec<String>>,
    #[serde(default)]
    pub external: Vec<String>,
    #[serde(default)]
    pub removed: Vec<RemovedStack>,
    /// The Actions run that registered it, with its attempt.
    #[serde(default)]
    pub workflow_run_id: i64,
    #[serde(default)]
    pub workflow_run_attempt: u32,
    pub created_at: Millis,
    #[serde(default)]
    pub started_at: Option<Millis>,
    #[serde(default)]
    pub finished_at: Option<Millis>,
    /// Last sign of life from a job, for runs whose job we did not dispatch.
    #[serde(default)]
    pub seen_at: Millis,
    /// Compared and raised by every commit that touches the run, its rows, its dispatches or its locks.
    #[serde(default)]
    pub version: i64,
}

impl Run {
    pub fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// The same with the anchor of what it means.
    pub fn warn_about(&mut self, anchor: impl Into<String>, text: impl Into<String>) {
        let text = text.into();
        self.explained.insert(text.clone(), anchor.into());
        self.warn(text);
    }

    /// Its warnings, each with the address of what it means.
    pub fn explained_warnings(&self) -> impl Iterator<Item = (&str, Option<String>)> {
        self.warnings.iter().map(|text| {
            let anchor = self.explained.get(text);
            (text.as_str(), anchor.and_then(|anchor| guide::url_of(anchor)))
        })
    }

    /// Moves to `status` and stamps the times of spec 21 §2.
    pub fn enter(&mut self, status: RunStatus, now: Millis) {
        if self.status == status {
            return;
        }
        self.status = status;
        match status {
            RunStatus::Planning | RunStatus::Applying => {
                self.started_at.get_or_insert(now);
                self.finished_at = None;
            }
            RunStatus::Planned
            | RunStatus::Applied
            | RunStatus::Failed
            | RunStatus::Unconfirmed
            | RunStatus::Superseded => self.finished_at = Some(now),
            RunStatus::Pending => {}
        }
    }

    /// Waits for stacks that others hold; neither locks nor dispatches anything.
    pub fn is_queued(&self) -> bool {
        self.status == RunStatus::Pending && !self.wants.is_empty()
    }

    /// An apply that the merge of its pull request started.
    pub fn is_merge_apply(&self) -> bool {
        self.mode == Mode::Apply && self.trigger == Trigger::PullRequest
    }
}

/// Which locks of a pull request go, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// All of them: what was applied is now on the default branch.
    Merge,
    /// Those of stacks that no job of the pull request claimed.
    Closed,
    /// Those of such stacks that the newest head does not affect either.
    NewHead,
}

/// The job that may apply a row: the only one, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub at: Millis,
    pub workflow_run_id: i64,
    pub attempt: u32,
    pub check_run_id: i64,
}

/// One stack of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub run_id: RunId,
    pub stack_id: StackId,
    pub key: StackKey,
    pub mode: Mode,
    pub status: RowStatus,
    pub wave: u32,
    pub reasons: Vec<Reason>,
    #[serde(default)]
    pub via: Vec<String>,
    pub environment: String,
    #[serde(default)]
    pub workspace: String,
    pub tool: Tool,
    #[serde(default)]
    pub tool_version: String,
    pub plan_output: PlanOutput,
    #[serde(default)]
    pub summary: Option<PlanSummary>,
    #[serde(default)]
    pub has_changes: bool,
    #[serde(default)]
    pub exit_code: Option<i32>,
    #[serde(default)]
    pub job_url: String,
    /// The name the plan bundle was uploaded under, and the Actions run that uploaded it.
    #[serde(default)]
    pub plan_artifact: String,
    #[serde(default)]
    pub plan_run_id: i64,
    #[serde(default)]
    pub plan_artifact_id: Option<i64>,
    #[serde(default)]
    pub plan_artifact_expires_at: Option<Millis>,
    #[serde(default)]
    pub plan_digest: String,
    #[serde(default)]
    pub bundle_sha256: String,
    #[serde(default)]
    pub actions_digest: String,
    /// On an apply row: the plan run whose row it carries.
    #[serde(default)]
    pub from_plan_run: Option<RunId>,
    /// On a plan row: the apply run whose job claimed this plan.
    #[serde(default)]
    pub used_by_run: Option<RunId>,
    /// On a carried-over apply row: the run that applied it.
    #[serde(default)]
    pub applied_by_run: Option<RunId>,
    /// An apply row that an earlier run applied from the same plan, to be looked at again when its wave opens.
    #[serde(default)]
    pub carry_from: Option<RunId>,
    #[serde(default)]
    pub claim: Option<Claim>,
    /// SHA-256 of the job token, hex.
    #[serde(default)]
    pub job_token_hash: String,
    /// Predecessors that put the row behind, sorted.
    #[serde(default)]
    pub behind: Vec<String>,
    #[serde(default)]
    pub skip_reason: Option<SkipReason>,
    /// What people read beside the status: `its plan changed after vpc was applied`.
    #[serde(default)]
    pub note: String,
    #[serde(default)]
    pub error_text: String,
    /// Sorted, unique.
    #[serde(default)]
    pub blocked_by: Vec<String>,
    #[serde(default)]
    pub dispatch_id: Option<DispatchId>,
    /// Its job waits for a reviewer of its environment.
    #[serde(default)]
    pub waiting_for_approval: bool,
    /// A report that came after the run or the row had ended.
    #[serde(default)]
    pub late_evidence: Option<serde_json::Value>,
    /// Whether plan text is stored, and was cut.
    #[serde(default)]
    pub has_plan_text: bool,
    #[serde(default)]
    pub truncated: bool,
    #[serde(default)]
    pub started_at: Option<Millis>,
    #[serde(default)]
    pub finished_at: Option<Millis>,
    pub updated_at: Millis,
}

impl Row {
    /// A row of wave 0 under `default` to which nothing has happened yet.
    pub fn pending(run_id: RunId, stack_id: StackId, key: StackKey, mode: Mode, now: Millis) -> Self {
        Self {
            run_id,
            stack_id,
            key,
            mode,
            status: RowStatus::Pending,
            wave: 0,
            reasons: Vec::new(),
            via: Vec::new(),
            environment: "default".to_owned(),
            workspace: String::new(),
            tool: Tool::Terraform,
            tool_version: String::new(),
            plan_output: PlanOutput::Full,
            summary: None,
            has_changes: false,
            exit_code: None,
            job_url: String::new(),
            plan_artifact: String::new(),
            plan_run_id: 0,
            plan_artifact_id: None,
            plan_artifact_expires_at: None,
            plan_digest: String::new(),
            bundle_sha256: String::new(),
            actions_digest: String::new(),
            from_plan_run: None,
            used_by_run: None,
            applied_by_run: None,
            carry_from: None,
            claim: None,
            job_token_hash: String::new(),
            behind: Vec::new(),
            skip_reason: None,
            note: String::new(),
            error_text: String::new(),
            blocked_by: Vec::new(),
            dispatch_id: None,
            waiting_for_approval: false,
            late_evidence: None,
            has_plan_text: false,
            truncated: false,
            started_at: None,
            finished_at: None,
            updated_at: now,
        }
    }

    /// Moves to `status` and stamps the times of spec 21 §2.
    pub fn enter(&mut self, status: RowStatus, now: Millis) {
        if self.status == status {
            return;
        }
        self.status = status;
        self.updated_at = now;
        self.waiting_for_approval = false;
        match status {
            RowStatus::Planning | RowStatus::Applying => {
                self.started_at.get_or_insert(now);
                self.finished_at = None;
            }
            RowStatus::Pending => self.finished_at = None,
            RowStatus::Planned
            | RowStatus::Applied
            | RowStatus::Failed
            | RowStatus::Blocked
            | RowStatus::Noop
            | RowStatus::Unconfirmed
            | RowStatus::Unknown
            | RowStatus::Skipped => self.finished_at = Some(now),
        }
    }

    /// Lets an event of an apply happen to the row; whether that moved it.
    pub fn on_apply(&mut self, event: ApplyEvent, now: Millis) -> bool {
        match self.status.on_apply(event) {
            Move::To(status) => {
                self.enter(status, now);
                true
            }
            Move::Already | Move::Late => false,
        }
    }

    pub fn plan_is_empty(&self) -> bool {
        !self.has_changes && self.summary.as_ref().is_some_and(PlanSummary::is_empty)
    }

    /// Reached only because something upstream changed.
    pub fn is_propagated(&self) -> bool {
        !self.reasons.is_empty() && self.reasons.iter().all(|reason| reason.is_propagation())
    }
}

/// One `workflow_dispatch` call: written before GitHub is asked (I6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    pub id: DispatchId,
    pub run_id: RunId,
    pub wave: u32,
    pub environment: String,
    pub mode: Mode,
    pub chunk: u32,
    /// The Actions run that serves it; at most one, and no other dispatch's (I7).
    pub workflow_run_id: Option<i64>,
    #[serde(default)]
    pub attempt: u32,
    pub dispatched_at: Millis,
    pub sent_at: Option<Millis>,
    pub completed_at: Option<Millis>,
    #[serde(default)]
    pub conclusion: String,
    /// Made because GitHub cancelled an earlier one before it began; not sent a third time.
    #[serde(default)]
    pub is_second_try: bool,
}

/// At most one per stack (I1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub stack_id: StackId,
    pub key: StackKey,
    pub repo_id: i64,
    pub run_id: RunId,
    /// 0 for a manual run.
    pub pr_number: i64,
    pub taken_at: Millis,
    pub reason: String,
}

impl Lock {
    /// `#7` or `a manual run`, as refusals name the holder.
    pub fn holder(&self) -> String {
        if self.pr_number == 0 { "a manual run".to_owned() } else { format!("#{}", self.pr_number) }
    }
}

/// A named verdict of a hook or a policy on one stack of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub run_id: RunId,
    pub stack_id: StackId,
    pub key: StackKey,
    pub name: String,
    pub status: VerdictStatus,
    pub summary: String,
    pub details: String,
    pub details_url: String,
    pub updated_at: Millis,
}

/// What a drift check saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriftSeen {
    pub stack_id: StackId,
    pub repo_id: i64,
    pub key: StackKey,
    pub run_id: RunId,
    pub checked_at: Millis,
    pub drifted: bool,
    pub summary: Option<PlanSummary>,
}

/// Who did what to what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub at: Millis,
    pub actor: String,
    pub action: String,
    pub target: String,
    pub details: BTreeMap<String, serde_json::Value>,
}
