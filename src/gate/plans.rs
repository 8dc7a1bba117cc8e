//! Layer 3: every selected stack has a usable plan of the head, which no apply has used up (spec 30 §5.2, §5.3).

use std::collections::BTreeMap;

use super::{Entry, GateScene, Refusal, for_stacks, refusal};
use crate::guide::Topic;
use crate::ids::{RunId, StackKey};
use crate::render::escape;
use crate::run::model::Row;
use crate::run::status::RowStatus;
use crate::run::waves::new_upstreams;

const NAME: &str = "plans for the head commit";

/// What is wrong with one stack's plan; the order is that of the bullets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    NotUsable,
    NotFinished,
    NotSuccessful,
    Used { run: RunId, status: RowStatus },
}

impl Fault {
    fn topic(&self) -> Topic {
        match self {
            Fault::NotUsable => Topic::NoUsablePlan,
            Fault::NotFinished => Topic::PlanNotFinished,
            Fault::NotSuccessful => Topic::PlanNotSuccessful,
            Fault::Used { .. } => Topic::PlanUsed,
        }
    }
}

pub fn refusals(scene: &GateScene) -> Vec<Refusal> {
    if scene.view.is_empty() {
        let reason = format!("head commit {} has no plan yet; push, or comment `stackorder plan`", scene.short_head());
        return vec![refusal(Topic::NoPlan, 3, NAME, reason)];
    }
    let mut refusals = Vec::new();
    if scene.view.graph_sha().is_none() {
        refusals.push(refusal(Topic::NoGraph, 3, NAME, "the plans of this commit have no graph"));
    } else if scene.view.rows.is_empty() {
        // A cycle: no stack is left that could say so itself.
        let fault = if scene.view.is_failed_whole() { Fault::NotSuccessful } else { Fault::NotFinished };
        refusals.push(refusal(fault.topic(), 3, NAME, reason_of(scene, &fault, &[])));
    }
    if scene.request.plans_changed {
        refusals.push(refusal(Topic::PlansChanged, 3, NAME, "the plans changed after they were reviewed"));
    }
    let mut faults: BTreeMap<Fault, Vec<StackKey>> = BTreeMap::new();
    let mut unreadable = Vec::new();
    for typed in &scene.request.unknown {
        match StackKey::parse(typed) {
            Ok(key) => faults.entry(Fault::NotUsable).or_default().push(key),
            Err(_) => unreadable.push(escape::code(typed)),
        }
    }
    if !unreadable.is_empty() {
        let reason = format!("{}: {}", no_usable_plan(scene), unreadable.join(", "));
        refusals.push(refusal(Topic::NoUsablePlan, 3, NAME, reason));
    }
    for key in &scene.request.selected {
        if let Some(fault) = fault_of(scene, key) {
            faults.entry(fault).or_default().push(key.clone());
        }
    }
    for (fault, mut keys) in faults {
        keys.sort();
        keys.dedup();
        let reason = reason_of(scene, &fault, &keys);
        refusals.push(for_stacks(fault.topic(), 3, NAME, keys, reason));
    }
    refusals
}

fn fault_of(scene: &GateScene, key: &StackKey) -> Option<Fault> {
    let Some(row) = scene.view.rows.get(key) else { return Some(Fault::NotUsable) };
    if scene.view.is_failed_whole() {
        return Some(Fault::NotSuccessful);
    }
    match row.status {
        RowStatus::Pending | RowStatus::Planning => return Some(Fault::NotFinished),
        RowStatus::Planned => {}
        // Its outputs cannot have been there yet: it is planned after its upstream, within the apply.
        RowStatus::Failed if !new_upstreams(scene.scene, scene.view, &scene.request.selected, key).is_empty() => {
            return None;
        }
        RowStatus::Applying
        | RowStatus::Applied
        | RowStatus::Failed
        | RowStatus::Blocked
        | RowStatus::Noop
        | RowStatus::Unconfirmed
        | RowStatus::Unknown
        | RowStatus::Skipped => return Some(Fault::NotSuccessful),
    }
    match use_of(scene, row) {
        Use::Applied => return None,
        Use::Spent { run, status } => return Some(Fault::Used { run, status }),
        Use::Fresh => {}
    }
    (scene.policy().apply.from_plan && !has_artifact(scene, row)).then_some(Fault::NotUsable)
}

enum Use {
    Fresh,
    /// Applied from this very plan, or being applied: it will be carried over, or layer 5 refuses.
    Applied,
    Spent {
        run: RunId,
        status: RowStatus,
    },
}

/// I17: a claimed plan that did not end `applied` is never applied again.
fn use_of(scene: &GateScene, row: &Row) -> Use {
    let Some(run) = &row.used_by_run else { return Use::Fresh };
    match scene.scene.row(run, &row.key).map(|used| used.status) {
        Some(RowStatus::Applied) => Use::Applied,
        // Its job still works; layer 5 names the run.
        Some(status) if !status.is_terminal() => Use::Applied,
        Some(status) => Use::Spent { run: run.clone(), status },
        None => Use::Spent { run: run.clone(), status: RowStatus::Unknown },
    }
}

/// Listed by GitHub, expired or not: an expired one is planned again by its job.
fn has_artifact(scene: &GateScene, row: &Row) -> bool {
    !row.plan_artifact.is_empty()
        && scene
            .facts
            .artifacts
            .get(&row.plan_run_id)
            .is_some_and(|listed| listed.iter().any(|artifact| artifact.name == row.plan_artifact))
}

fn no_usable_plan(scene: &GateScene) -> String {
    format!("no usable plan with an artifact for head commit {}", scene.short_head())
}

fn reason_of(scene: &GateScene, fault: &Fault, keys: &[StackKey]) -> String {
    match fault {
        Fault::NotUsable => no_usable_plan(scene),
        Fault::NotFinished => "planning has not finished".to_owned(),
        Fault::NotSuccessful => "planning did not succeed; repair it and plan again".to_owned(),
        Fault::Used { run, status } => {
            let way_out = match scene.request.entry {
                Entry::Merge | Entry::AfterMerge => "plan it again from the run page".to_owned(),
                Entry::Comment | Entry::ProtectionRule { .. } => {
                    let keys: Vec<&str> = keys.iter().map(StackKey::as_str).collect();
                    format!("comment {}", escape::code(&format!("stackorder plan {}", keys.join(" "))))
                }
            };
            format!("its plan was used by apply run {run}, which ended {status}; {way_out}")
        }
    }
}
