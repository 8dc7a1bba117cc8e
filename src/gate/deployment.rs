//! What GitHub is answered when it asks whether a job may go on to an environment (spec 30 §14).
//!
//! An apply is judged anew: who may ask and what was approved can have changed since it started. Whatever else waits is
//! let through only if it reads.

use super::{Entry, GateScene, Refusal, evaluate};
use crate::ids::{RunId, StackKey};
use crate::run::model::Dispatch;
use crate::run::scene::Scene;
use crate::run::status::{Mode, RunStatus, Trigger};

/// What waits, as GitHub names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    pub workflow_run_id: i64,
    /// Attempt of the workflow run; the dispatch is served by the one it was bound with.
    pub attempt: u32,
    pub environment: String,
}

/// The answer, and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// Nothing of ours waits there.
    NotDispatched,
    OtherEnvironment {
        run: RunId,
        dispatched: String,
    },
    /// Another attempt of the workflow run, or one whose dispatch has completed.
    RunAgain {
        run: RunId,
    },
    RunEnded {
        run: RunId,
        status: RunStatus,
    },
    /// A plan or a drift check.
    ReadOnly {
        run: RunId,
        mode: Mode,
    },
    /// An apply, by the layers of the gate: let through when nothing refuses it.
    Gate {
        run: RunId,
        entry: Entry,
        stacks: Vec<StackKey>,
        refusals: Vec<Refusal>,
    },
}

impl Ruling {
    pub fn approves(&self) -> bool {
        match self {
            Ruling::NotDispatched
            | Ruling::OtherEnvironment { .. }
            | Ruling::RunAgain { .. }
            | Ruling::RunEnded { .. } => false,
            Ruling::ReadOnly { .. } => true,
            Ruling::Gate { refusals, .. } => refusals.is_empty(),
        }
    }

    /// The rule's name in the audit log.
    pub fn rule(&self) -> &'static str {
        match self {
            Ruling::NotDispatched => "not_dispatched",
            Ruling::OtherEnvironment { .. } => "other_environment",
            Ruling::RunAgain { .. } => "run_again",
            Ruling::RunEnded { .. } => "run_ended",
            Ruling::ReadOnly { .. } => "read_only",
            Ruling::Gate { .. } => "gate",
        }
    }

    pub fn run(&self) -> Option<&RunId> {
        match self {
            Ruling::NotDispatched => None,
            Ruling::OtherEnvironment { run, .. }
            | Ruling::RunAgain { run }
            | Ruling::RunEnded { run, .. }
            | Ruling::ReadOnly { run, .. }
            | Ruling::Gate { run, .. } => Some(run),
        }
    }
}

/// The rows of spec 30 §14 that need no gate; `None` leaves the answer to [`by_layers`]. `dispatch` is the one that the
/// workflow run serves, as the scene has it.
pub fn without_gate(scene: &Scene, dispatch: &Dispatch, deployment: &Deployment) -> Option<Ruling> {
    let Some(run) = scene.run(&dispatch.run_id) else { return Some(Ruling::NotDispatched) };
    let (id, status) = (run.id.clone(), run.status);
    if !dispatch.environment.eq_ignore_ascii_case(&deployment.environment) {
        return Some(Ruling::OtherEnvironment { run: id, dispatched: dispatch.environment.clone() });
    }
    if dispatch.completed_at.is_some() || dispatch.attempt != deployment.attempt {
        return Some(Ruling::RunAgain { run: id });
    }
    if status.is_terminal() {
        return Some(Ruling::RunEnded { run: id, status });
    }
    match run.mode {
        Mode::Plan | Mode::Drift => Some(Ruling::ReadOnly { run: id, mode: run.mode }),
        Mode::Apply => None,
    }
}

/// How the gate is entered for a deployment of an apply with this trigger.
pub fn entry(trigger: Trigger) -> Entry {
    Entry::ProtectionRule { comment_apply: trigger == Trigger::Comment }
}

/// The gate's word on the stacks that the dispatch carries, which are those of the request.
pub fn by_layers(scene: &GateScene, run: &RunId) -> Ruling {
    let (entry, stacks) = (scene.request.entry, scene.request.selected.iter().cloned().collect());
    Ruling::Gate { run: run.clone(), entry, stacks, refusals: evaluate(scene) }
}
