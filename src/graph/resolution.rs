//! The answer to "which stacks does this change reach, why, and in what order" (spec 11 §1, §10–§12).

use serde::{Deserialize, Serialize};

use crate::clock::{Millis, as_rfc3339};
use crate::config::model::{PlanOutput, Tool};
use crate::graph::model::{Edge, Stack, Warning};
use crate::ids::{RunId, StackId};

/// Why a stack is affected. The order of the variants is the order in which reasons are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Changed,
    WatchPath,
    Config,
    Module,
    ReadsState,
    Dependent,
    Requested,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Changed => "changed",
            Reason::WatchPath => "watch_path",
            Reason::Config => "config",
            Reason::Module => "module",
            Reason::ReadsState => "reads_state",
            Reason::Dependent => "dependent",
            Reason::Requested => "requested",
        }
    }

    /// Reached only because something upstream changed.
    pub fn is_propagation(self) -> bool {
        match self {
            Reason::ReadsState | Reason::Dependent => true,
            Reason::Changed | Reason::WatchPath | Reason::Config | Reason::Module | Reason::Requested => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AffectedStack {
    pub key: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instance: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    pub wave: u32,
    pub reasons: Vec<Reason>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub environment: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Tool>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_output: Option<PlanOutput>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_by: Option<LockInfo>,
}

impl AffectedStack {
    /// One stack by itself, because somebody asked for it: no change and no other stack led to it.
    pub fn requested_alone(stack: &Stack, environment: &str) -> Self {
        Self {
            key: stack.key.clone(),
            path: stack.path.clone(),
            instance: stack.instance.clone(),
            workspace: stack.workspace.clone(),
            wave: 0,
            reasons: vec![Reason::Requested],
            environment: environment.to_owned(),
            tool: stack.tool,
            tool_version: stack.tool_version.clone(),
            plan_output: stack.plan_output,
            via: Vec::new(),
            locked_by: None,
        }
    }
}

/// A stack of the base that the head no longer has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RemovedStack {
    pub key: String,
    pub path: String,
    /// `s3://bucket/key`, where known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub renamed_to: String,
}

/// What only git knows of the base (spec 11 §9).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BaseFacts {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<RemovedStack>,
    /// Edges of the base that lead from stacks of the head to removed ones: an inferred one is gone with its target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<Edge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockInfo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_id: Option<StackId>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stack_key: String,
    pub run_id: RunId,
    /// 0 for a manual run.
    #[serde(default, skip_serializing_if = "crate::graph::resolution::is_zero")]
    pub pr_number: i64,
    #[serde(with = "as_rfc3339")]
    pub taken_at: Millis,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// One job of a matrix (spec 13 §8).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MatrixEntry {
    pub stack: String,
    pub key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance: String,
    pub workspace: String,
    pub environment: String,
    pub wave: u32,
    pub tool: String,
    pub tool_version: String,
    pub plan_output: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sha: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy_sha: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub plan_run_id: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub artifact: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bundle: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plan_digest: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bundle_sha256: String,
    /// Chunk entries only (above 256 stacks): number from 1 and the stacks planned by this job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    pub include: Vec<MatrixEntry>,
}

/// The whole answer, as `resolve` prints it and the server returns it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    pub affected: Vec<AffectedStack>,
    pub waves: Vec<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Each starts and ends at its smallest key. Not empty means that nothing may run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycles: Vec<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<RemovedStack>,
    pub matrix: Matrix,
    pub cached: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
}
