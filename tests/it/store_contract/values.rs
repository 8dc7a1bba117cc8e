//! Small values to store.

use std::sync::Arc;

use serde_json::json;
use stackorder::graph::model::{Graph, Stack};
use stackorder::ids::{DispatchId, RepoName, RunId, Sha, StackId, StackKey};
use stackorder::run::model::{AuditEntry, Dispatch, Lock, Repo, Row, Run, Verdict};
use stackorder::run::scene::{Changes, Effects, JobKind, NewJob, StoredGraph};
use stackorder::run::status::{Mode, RowStatus, RunStatus, Trigger, VerdictStatus};
use stackorder::store::{Installation, Result, Store, StoreError};

pub const REPO: i64 = 7;
pub const OTHER_REPO: i64 = 8;

pub type AStore = Arc<dyn Store>;

/// An installation with two repositories.
pub async fn with_repos(store: &AStore) {
    store.save_installation(&installation(1)).await.unwrap();
    store.save_repo(&repo(REPO, "acme/infra")).await.unwrap();
    store.save_repo(&repo(OTHER_REPO, "acme/apps")).await.unwrap();
}

pub fn installation(id: i64) -> Installation {
    Installation { id, account: "acme".into(), account_type: "Organization".into(), suspended: false }
}

pub fn repo(id: i64, name: &str) -> Repo {
    Repo {
        id,
        installation_id: 1,
        full_name: RepoName::parse(name).unwrap(),
        default_branch: "main".into(),
        private: true,
        suspended: false,
        config: None,
        config_sha: String::new(),
        default_graph: None,
    }
}

pub fn run_id(number: u32) -> RunId {
    RunId::parse(&format!("00000000-0000-4000-8000-{number:012x}")).unwrap()
}

pub fn sha(number: u32) -> Sha {
    Sha::parse(&format!("{number:040x}")).unwrap()
}

pub fn key(text: &str) -> StackKey {
    StackKey::parse(text).unwrap()
}

pub fn stack(text: &str) -> StackId {
    StackId::of(REPO, text)
}

/// A plan run of a pull request; its commit is `sha(number)`.
pub fn plan(number: u32, pr_number: i64) -> Run {
    serde_json::from_value(json!({
        "id": run_id(number), "repo_id": REPO, "sha": sha(number), "pr_number": pr_number,
        "trigger": "pull_request", "mode": "plan", "status": "pending", "requested_by": "ann",
        "waves": 1, "current_wave": 0, "created_at": 1000 + i64::from(number), "version": 1,
    }))
    .unwrap()
}

pub fn apply(number: u32, pr_number: i64) -> Run {
    Run { mode: Mode::Apply, trigger: Trigger::Comment, ..plan(number, pr_number) }
}

pub fn in_status(run: Run, status: RunStatus) -> Run {
    Run { status, ..run }
}

pub fn row(run: &Run, key_text: &str) -> Row {
    serde_json::from_value(json!({
        "run_id": run.id, "stack_id": stack(key_text), "key": key_text, "mode": run.mode, "status": "pending",
        "wave": 0, "reasons": ["changed"], "environment": "default", "tool": "terraform", "plan_output": "full",
        "updated_at": 1000,
    }))
    .unwrap()
}

pub fn with_status(row: Row, status: RowStatus) -> Row {
    Row { status, ..row }
}

pub fn dispatch(number: u32, run: &Run, wave: u32) -> Dispatch {
    Dispatch {
        id: DispatchId::parse(&format!("00000000-0000-4000-9000-{number:012x}")).unwrap(),
        run_id: run.id.clone(),
        wave,
        environment: "default".into(),
        mode: run.mode,
        chunk: 0,
        workflow_run_id: None,
        attempt: 0,
        dispatched_at: 1000 + i64::from(number),
        sent_at: None,
        completed_at: None,
        conclusion: String::new(),
        is_second_try: false,
    }
}

pub fn verdict(run: &Run, key_text: &str, name: &str) -> Verdict {
    Verdict {
        run_id: run.id.clone(),
        stack_id: stack(key_text),
        key: key(key_text),
        name: name.into(),
        status: VerdictStatus::Pass,
        summary: "fine".into(),
        details: String::new(),
        details_url: String::new(),
        updated_at: 1000,
    }
}

pub fn lock(run: &Run, key_text: &str) -> Lock {
    Lock {
        stack_id: StackId::of(run.repo_id, key_text),
        key: key(key_text),
        repo_id: run.repo_id,
        run_id: run.id.clone(),
        pr_number: run.pr_number,
        taken_at: 2000,
        reason: "apply of #1 by ann".into(),
    }
}

pub fn graph(keys: &[&str]) -> Graph {
    let stacks = keys.iter().map(|key| Stack { key: (*key).into(), path: (*key).into(), ..Stack::default() }).collect();
    Graph { stacks, ..Graph::default() }
}

/// A graph of pull request 1; its commit is `sha(number)`.
pub fn stored_graph(number: u32, keys: &[&str]) -> StoredGraph {
    StoredGraph {
        repo_id: REPO,
        sha: sha(number),
        content_hash: format!("content of {}", keys.join(",")),
        tree_hash: format!("tree {number}"),
        pr_number: 1,
        graph: graph(keys),
        created_at: 1000 + i64::from(number),
    }
}

pub fn audit(at: i64, action: &str, target: &str, pr_number: i64) -> AuditEntry {
    AuditEntry {
        at,
        actor: "ann".into(),
        action: action.into(),
        target: target.into(),
        details: [("pr".to_owned(), json!(pr_number))].into(),
    }
}

pub fn job(name: &str, due_at: i64) -> NewJob {
    NewJob::now(JobKind::Comment, json!({ "name": name }), due_at)
}

pub fn keyed(key: &str, name: &str, due_at: i64) -> NewJob {
    NewJob::keyed(JobKind::Render, key.into(), json!({ "name": name }), due_at)
}

pub fn changes() -> Changes {
    Changes { repo_id: REPO, ..Changes::default() }
}

pub fn effects(effects: Effects) -> Changes {
    Changes { effects, ..changes() }
}

pub fn new_runs(runs: &[&Run]) -> Changes {
    Changes { new_runs: runs.iter().map(|run| (*run).clone()).collect(), ..changes() }
}

/// The run as it is now stored, changed and with its next version.
pub fn next(run: &Run, change: impl FnOnce(&mut Run)) -> (Run, i64) {
    let mut after = run.clone();
    change(&mut after);
    after.version += 1;
    (after, run.version)
}

/// The runs a conflict names.
#[track_caller]
pub fn conflict(outcome: Result<()>) -> Vec<RunId> {
    match outcome {
        Err(StoreError::Conflict(runs)) => runs,
        other => panic!("expected a conflict, got {other:?}"),
    }
}
