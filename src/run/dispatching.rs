//! Which `workflow_dispatch` calls a run needs, and what each carries (spec 30 §6.4).
//!
//! A dispatch row is written before GitHub is asked (I6); its rows name it. Sending is the outbox's business.

use std::collections::BTreeMap;

use serde_json::json;

use super::model::{Dispatch, Row, Run};
use super::next::Next;
use super::scene::{JobKind, NewJob};
use super::status::{Mode, RowStatus, RunStatus};
use crate::graph::resolution::MatrixEntry;
use crate::ids::{DispatchId, RunId, StackKey};

/// GitHub's limit of jobs in one matrix.
pub const ENTRIES_MAX: usize = 256;
/// Most characters of the `stacks` input; GitHub takes 65,535 for all inputs together.
pub const STACKS_CHARS_MAX: usize = 60_000;

/// Dispatches of the wave's rows that wait to be applied: one per environment, split by `apply.max_parallel`.
pub fn insert_apply_dispatches(next: &mut Next, id: &RunId, wave: u32) {
    let parallel = match next.policy.apply.max_parallel {
        0 => ENTRIES_MAX,
        most => ENTRIES_MAX.min(most as usize),
    };
    let mut by_environment: BTreeMap<String, Vec<StackKey>> = BTreeMap::new();
    for row in next.scene.rows(id) {
        if row.wave == wave && row.status == RowStatus::Planned && row.dispatch_id.is_none() {
            by_environment.entry(row.environment.clone()).or_default().push(row.key.clone());
        }
    }
    for (environment, keys) in by_environment {
        // I6: a dispatch that exists is never written over.
        let first_chunk = next
            .scene
            .dispatches_of(id)
            .filter(|dispatch| dispatch.wave == wave && dispatch.environment == environment)
            .map(|dispatch| dispatch.chunk + 1)
            .max()
            .unwrap_or(0);
        insert(next, id, wave, &environment, &keys, parallel, first_chunk);
    }
}

/// Dispatches of all rows of a plan or drift run that wait for a job.
pub fn insert_plan_dispatches(next: &mut Next, id: &RunId) {
    let keys: Vec<StackKey> = next
        .scene
        .rows(id)
        .filter(|row| row.status == RowStatus::Pending && row.dispatch_id.is_none())
        .map(|row| row.key.clone())
        .collect();
    let first_chunk = next.scene.dispatches_of(id).map(|dispatch| dispatch.chunk + 1).max().unwrap_or(0);
    insert(next, id, 0, "default", &keys, ENTRIES_MAX, first_chunk);
    let now = next.now;
    if !keys.is_empty() {
        next.run_mut(id).enter(RunStatus::Planning, now);
    }
}

fn insert(next: &mut Next, id: &RunId, wave: u32, environment: &str, keys: &[StackKey], most: usize, first: u32) {
    let run = next.scene.runs[id].clone();
    for (keys, chunk) in chunks(next, &run, keys, most).into_iter().zip(first..) {
        let dispatch = Dispatch {
            id: DispatchId::of(id, wave, environment, run.mode.as_str(), chunk),
            run_id: id.clone(),
            wave,
            environment: environment.to_owned(),
            mode: run.mode,
            chunk,
            workflow_run_id: None,
            attempt: 0,
            dispatched_at: next.now,
            sent_at: None,
            completed_at: None,
            conclusion: String::new(),
            is_second_try: false,
        };
        for key in &keys {
            let row = next.scene.row_mut(id, key).expect("keys are of the run");
            row.dispatch_id = Some(dispatch.id.clone());
        }
        let now = next.now;
        next.add_job(NewJob::keyed(
            JobKind::SendDispatch,
            format!("dispatch:{}", dispatch.id),
            json!({ "dispatch_id": dispatch.id, "run_id": id }),
            now,
        ));
        next.scene.dispatches.insert(dispatch.id.clone(), dispatch);
    }
}

/// Splits by number and by the size of what the dispatch input will hold; keys keep their order.
fn chunks(next: &Next, run: &Run, keys: &[StackKey], most: usize) -> Vec<Vec<StackKey>> {
    let mut chunks: Vec<Vec<StackKey>> = Vec::new();
    let mut chars = STACKS_CHARS_MAX;
    for key in keys {
        let row = next.scene.row(&run.id, key).expect("keys are of the run");
        let size = serde_json::to_string(&entry(run, row, &"0".repeat(40))).map_or(0, |text| text.len()) + 1;
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < most && chars + size <= STACKS_CHARS_MAX => {
                chunk.push(key.clone());
                chars += size;
            }
            Some(_) | None => {
                chunks.push(vec![key.clone()]);
                chars = size + 2;
            }
        }
    }
    chunks
}

/// The matrix entry of one row (spec 13 §8). `policy_sha` is the default-branch head, for plans.
pub fn entry(run: &Run, row: &Row, policy_sha: &str) -> MatrixEntry {
    let mut entry = MatrixEntry {
        stack: row.key.path().to_owned(),
        key: row.key.to_string(),
        instance: row.key.instance().to_owned(),
        workspace: row.workspace.clone(),
        environment: "default".to_owned(),
        wave: row.wave,
        tool: row.tool.as_str().to_owned(),
        tool_version: row.tool_version.clone(),
        plan_output: row.plan_output.as_str().to_owned(),
        sha: run.sha.to_string(),
        ..MatrixEntry::default()
    };
    match run.mode {
        Mode::Plan => entry.policy_sha = policy_sha.to_owned(),
        Mode::Drift => {}
        Mode::Apply => {
            entry.environment.clone_from(&row.environment);
            entry.plan_run_id = row.plan_run_id;
            entry.artifact.clone_from(&row.plan_artifact);
            // A chunk's artifact holds one bundle directory per stack, under the stack's own artifact name.
            if row.plan_artifact.starts_with("stackorder-plan-chunk-") {
                entry.bundle = artifact_name(&row.key, run.sha.as_str());
            }
            entry.plan_digest.clone_from(&row.plan_digest);
            entry.bundle_sha256.clone_from(&row.bundle_sha256);
        }
    }
    entry
}

/// `stackorder-plan-<slug>-<sha>`.
pub fn artifact_name(key: &StackKey, sha: &str) -> String {
    format!("stackorder-plan-{}-{sha}", key.slug())
}
