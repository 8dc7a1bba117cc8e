//! Scenes for the tests: the pull request `#42` of `acme/infra` with `apps` after `eks` after `vpc`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::parse_rfc3339;
use crate::config::model::{PlanOutput, RepoConfig, Tool};
use crate::graph::model::{Edge, EdgeType, Graph, NodeRef, Stack};
use crate::graph::resolution::{AffectedStack, Reason};
use crate::ids::{RepoName, RunId, Sha, StackId, StackKey};
use crate::plan::summary::PlanSummary;
use crate::render::Context;
use crate::run::model::{Claim, Lock, Repo, Row, Run, Verdict};
use crate::run::plan_start::pending_row;
use crate::run::scene::Scene;
use crate::run::status::{Mode, RowStatus, RunStatus, SkipReason, Trigger, VerdictStatus};

pub fn sha(digit: char) -> Sha {
    Sha::parse(&digit.to_string().repeat(40)).unwrap()
}

pub fn id(number: u128) -> RunId {
    RunId::from_random(number.to_be_bytes())
}

pub fn key(text: &str) -> StackKey {
    StackKey::parse(text).unwrap()
}

pub fn context() -> Context {
    Context {
        base_url: "https://so.test".to_owned(),
        web_url: "https://github.test".to_owned(),
        now: parse_rfc3339("2026-09-28T12:00:00Z").unwrap(),
        ..Context::default()
    }
}

pub fn scene() -> Scene {
    Scene {
        repo: Repo {
            id: 1,
            installation_id: 2,
            full_name: RepoName::parse("acme/infra").unwrap(),
            default_branch: "main".to_owned(),
            private: true,
            suspended: false,
            config: None,
            config_sha: String::new(),
            default_graph: None,
        },
        pr_number: 42,
        runs: Default::default(),
        rows: Default::default(),
        dispatches: Default::default(),
        verdicts: Default::default(),
        locks: Default::default(),
        queue: Default::default(),
        locks_version: 0,
        changed_at: Default::default(),
        graphs: [(sha('a'), Arc::new(graph(&["vpc", "eks", "apps"])))].into(),
    }
}

/// A chain: each stack depends on the one before it.
pub fn graph(keys: &[&str]) -> Graph {
    let stack = |key: &&str| Stack { key: (*key).to_owned(), path: (*key).to_owned(), ..Stack::default() };
    let edge = |pair: &[&str]| Edge {
        from: NodeRef::stack(pair[1]),
        to: NodeRef::stack(pair[0]),
        kind: EdgeType::DependsOn,
        inferred: false,
        meta: Default::default(),
    };
    Graph { stacks: keys.iter().map(stack).collect(), edges: keys.windows(2).map(edge).collect(), ..Graph::default() }
}

pub fn counts(adds: u32, destroys: u32) -> PlanSummary {
    let addresses = |number: u32, name: &str| (0..number).map(|at| format!("terraform_data.{name}[{at}]")).collect();
    PlanSummary {
        adds,
        destroys,
        added: addresses(adds, "new"),
        destroyed: addresses(destroys, "old"),
        ..PlanSummary::default()
    }
}

/// Adds a run of a commit; later ones are newer.
pub fn add_run(scene: &mut Scene, mode: Mode, trigger: Trigger, commit: char, status: RunStatus) -> RunId {
    let number = scene.runs.len() + 1;
    let id = id(number as u128);
    let run = Run {
        id: id.clone(),
        repo_id: 1,
        sha: sha(commit),
        base_sha: String::new(),
        pr_number: 42,
        trigger,
        mode,
        status,
        requested_by: "octocat".to_owned(),
        commit_message: String::new(),
        commit_author: String::new(),
        head_ref: String::new(),
        superseded_by: if status == RunStatus::Superseded { sha('b').to_string() } else { String::new() },
        for_run: None,
        for_wave: 0,
        taken_over: false,
        release_at_end: None,
        wants: Vec::new(),
        graph_sha: Some(sha('a')),
        waves: 3,
        current_wave: 0,
        warnings: Vec::new(),
        explained: BTreeMap::new(),
        cycles: Vec::new(),
        external: Vec::new(),
        removed: Vec::new(),
        workflow_run_id: 0,
        workflow_run_attempt: 0,
        created_at: number as i64,
        started_at: Some(1),
        finished_at: None,
        seen_at: 0,
        version: 0,
    };
    scene.runs.insert(id.clone(), run);
    scene.rows.insert(id.clone(), Default::default());
    id
}

/// Adds a row of its run; more is set by the caller through what is returned.
pub fn add_row<'s>(scene: &'s mut Scene, run: &RunId, stack: &str, wave: u32, status: RowStatus) -> &'s mut Row {
    let propagated = wave > 0;
    let affected = AffectedStack {
        key: stack.to_owned(),
        path: stack.to_owned(),
        instance: String::new(),
        workspace: String::new(),
        wave,
        reasons: vec![if propagated { Reason::Dependent } else { Reason::Changed }],
        environment: "production".to_owned(),
        tool: Some(Tool::Terraform),
        tool_version: String::new(),
        plan_output: Some(PlanOutput::Full),
        via: if propagated { vec!["vpc".to_owned()] } else { Vec::new() },
        locked_by: None,
    };
    let mut row = pending_row(&scene.runs[run], &affected, 0).unwrap();
    row.status = status;
    row.mode = scene.runs[run].mode;
    let key = row.key.clone();
    let rows = Arc::make_mut(scene.rows.get_mut(run).unwrap());
    rows.insert(key.clone(), row);
    rows.get_mut(&key).unwrap()
}

pub fn with_counts(row: &mut Row, adds: u32, destroys: u32) {
    row.summary = Some(counts(adds, destroys));
    row.has_changes = adds + destroys > 0;
}

pub fn claim(row: &mut Row) {
    row.claim = Some(Claim { at: 1, workflow_run_id: 9, attempt: 1, check_run_id: 8 });
}

pub fn not_selected(row: &mut Row) {
    row.status = RowStatus::Skipped;
    row.skip_reason = Some(SkipReason::NotSelected);
    row.note = "not selected".to_owned();
}

pub fn lock(scene: &mut Scene, stack: &str, pr_number: i64) {
    let lock = Lock {
        stack_id: StackId::of(1, stack),
        key: key(stack),
        repo_id: 1,
        run_id: id(99),
        pr_number,
        taken_at: parse_rfc3339("2026-09-27T08:00:00Z").unwrap(),
        reason: String::new(),
    };
    scene.locks_mut().insert(key(stack), lock);
}

pub fn verdict(scene: &mut Scene, run: &RunId, stack: &str, name: &str, status: VerdictStatus, summary: &str) {
    let verdict = Verdict {
        run_id: run.clone(),
        stack_id: StackId::of(1, stack),
        key: key(stack),
        name: name.to_owned(),
        status,
        summary: summary.to_owned(),
        details: String::new(),
        details_url: String::new(),
        updated_at: 0,
    };
    scene.verdicts.insert((run.clone(), key(stack), name.to_owned()), verdict);
}

pub fn policy(scene: &mut Scene, change: impl FnOnce(&mut RepoConfig)) {
    change(Arc::make_mut(scene.repo.config.get_or_insert_default()));
}

/// `vpc`, `eks` and `apps` planned at commit `a`.
pub fn planned() -> (Scene, RunId) {
    let mut scene = scene();
    let plan = add_run(&mut scene, Mode::Plan, Trigger::PullRequest, 'a', RunStatus::Planned);
    with_counts(add_row(&mut scene, &plan, "vpc", 0, RowStatus::Planned), 2, 1);
    with_counts(add_row(&mut scene, &plan, "eks", 1, RowStatus::Planned), 0, 0);
    with_counts(add_row(&mut scene, &plan, "apps", 2, RowStatus::Planned), 1, 0);
    (scene, plan)
}

/// An apply of [`planned`], its rows given as (stack, wave, status).
pub fn applying(status: RunStatus, rows: &[(&str, u32, RowStatus)]) -> (Scene, RunId) {
    let (mut scene, _) = planned();
    let apply = add_apply(&mut scene, status, rows);
    (scene, apply)
}

pub fn add_apply(scene: &mut Scene, status: RunStatus, rows: &[(&str, u32, RowStatus)]) -> RunId {
    let apply = add_run(scene, Mode::Apply, Trigger::Comment, 'a', status);
    for (stack, wave, status) in rows {
        with_counts(add_row(scene, &apply, stack, *wave, *status), 1, 0);
        lock(scene, stack, 42);
    }
    apply
}
