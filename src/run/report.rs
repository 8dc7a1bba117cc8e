//! What jobs tell: results, verdicts, and the claim before an apply (spec 20 §5.3–§5.4, spec 30 §4.3, §6.6).

use serde_json::json;

use super::model::{Claim, DriftSeen, Row, Verdict};
use super::next::Next;
use super::scene::{JobKind, NewJob, PlanText};
use super::settle::settle;
use super::status::{ApplyEvent, Mode, Move, PlanEvent, RowStatus, RunStatus, Trigger};
use crate::api::{CheckVerdict, ResultStatus, StackResult};
use crate::config::model::PlanOutput;
use crate::ids::{RunId, StackKey};

/// Who reports, as the token proved it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reporter {
    /// A job of the pull request's own plan workflow.
    PullRequestJob { number: i64, workflow_run_id: i64, attempt: u32 },
    /// A job of a dispatch of ours, bound to it.
    DispatchedJob { workflow_run_id: i64, attempt: u32, check_run_id: i64 },
    /// An API key, by its name.
    ApiKey { name: String },
}

impl Reporter {
    /// As the audit names it.
    fn actor(&self) -> String {
        match self {
            Reporter::PullRequestJob { workflow_run_id, .. } | Reporter::DispatchedJob { workflow_run_id, .. } => {
                format!("workflow_run:{workflow_run_id}")
            }
            Reporter::ApiKey { name } => format!("apikey:{name}"),
        }
    }
}

/// Why a report is not taken; the API turns each into its status and code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    Forbidden(String),
    NotFound(String),
    Invalid { field: &'static str, reason: String },
    Conflict(String),
    Superseded(String),
    Locked(String),
}

/// Takes a result. `Ok` also for an identical repeat, which changes nothing but moves the run on again.
pub fn on_result(
    next: &mut Next,
    id: &RunId,
    key: &StackKey,
    reporter: &Reporter,
    result: &StackResult,
) -> Result<(), Refused> {
    next.caused_by(reporter.actor(), "result");
    let run = next.scene.runs[id].clone();
    if run.status == RunStatus::Superseded {
        return Err(Refused::Superseded(format!("run {id} was superseded by {}", run.superseded_by)));
    }
    may_report(next, id, key, reporter)?;
    let row = next.scene.row(id, key).expect("may_report found it").clone();
    if result.mode != run.mode {
        return Err(Refused::Invalid { field: "mode", reason: format!("the run is a {} run", run.mode) });
    }
    if run.mode == Mode::Apply && run.trigger != Trigger::Manual && !claimed_by(&row, reporter) {
        return Err(Refused::Conflict(format!("{key} is not claimed by this job")));
    }
    let outcome = outcome_of(run.mode, result);
    if is_repeat(&row, run.mode, outcome, result) {
        settle(next, id);
        return Ok(());
    }
    if let Reporter::PullRequestJob { .. } = reporter
        && matches!(run.status, RunStatus::Planned | RunStatus::Failed | RunStatus::Unconfirmed)
    {
        return Err(Refused::Conflict(format!("the plan run is {} and takes no more results", run.status)));
    }
    let to = match (run.mode, outcome) {
        (Mode::Apply, RowStatus::Applied) => row.status.on_apply(ApplyEvent::Succeeded),
        (Mode::Apply, RowStatus::Unconfirmed) => row.status.on_apply(ApplyEvent::Unconfirmed),
        (Mode::Apply, _) => row.status.on_apply(ApplyEvent::Failed),
        (Mode::Plan | Mode::Drift, RowStatus::Planned) => row.status.on_plan(PlanEvent::Succeeded),
        (Mode::Plan | Mode::Drift, RowStatus::Unconfirmed) => row.status.on_plan(PlanEvent::Unconfirmed),
        (Mode::Plan | Mode::Drift, _) => row.status.on_plan(PlanEvent::Failed),
    };
    // Dependents were blocked when the dispatch was closed: what comes after that is evidence, and moves nothing (spec 30 §8).
    let given_up = row.status == RowStatus::Unknown
        && row
            .dispatch_id
            .as_ref()
            .and_then(|dispatch| next.scene.dispatches.get(dispatch))
            .is_some_and(|dispatch| dispatch.completed_at.is_some());
    let apply_has_ended = run.mode == Mode::Apply && (run.status.is_terminal() || given_up);
    match to {
        Move::To(status) if !apply_has_ended => record(next, id, key, reporter, result, status),
        Move::To(_) | Move::Already | Move::Late if run.mode == Mode::Apply => {
            return Err(keep_as_evidence(next, id, key, result));
        }
        Move::To(_) | Move::Already | Move::Late => {
            return Err(Refused::Conflict(format!("{key} is already {}", row.status)));
        }
    }
    settle(next, id);
    Ok(())
}

fn outcome_of(mode: Mode, result: &StackResult) -> RowStatus {
    match (result.unconfirmed, result.status, mode) {
        (true, _, _) => RowStatus::Unconfirmed,
        (false, ResultStatus::Failure | ResultStatus::Error, _) => RowStatus::Failed,
        (false, ResultStatus::Success, Mode::Apply) => RowStatus::Applied,
        (false, ResultStatus::Success, Mode::Plan | Mode::Drift) => RowStatus::Planned,
    }
}

fn is_repeat(row: &Row, mode: Mode, outcome: RowStatus, result: &StackResult) -> bool {
    let artifact_same =
        mode == Mode::Apply || result.plan_artifact.is_empty() || result.plan_artifact == row.plan_artifact;
    let summary_same = result.summary.is_none() || result.summary == row.summary;
    row.status == outcome
        && row.exit_code == Some(result.exit_code)
        && (mode == Mode::Apply || row.has_changes == result.has_changes)
        && artifact_same
        && summary_same
}

fn claimed_by(row: &Row, reporter: &Reporter) -> bool {
    match (reporter, &row.claim) {
        (Reporter::DispatchedJob { workflow_run_id, attempt, check_run_id }, Some(claim)) => {
            claim.workflow_run_id == *workflow_run_id
                && claim.attempt == *attempt
                && claim.check_run_id == *check_run_id
        }
        (Reporter::DispatchedJob { .. }, None) | (Reporter::PullRequestJob { .. } | Reporter::ApiKey { .. }, _) => {
            false
        }
    }
}

/// The binding rules of spec 20 §5.3 step 2, for results and verdicts alike.
fn may_report(next: &Next, id: &RunId, key: &StackKey, reporter: &Reporter) -> Result<(), Refused> {
    let run = &next.scene.runs[id];
    match reporter {
        Reporter::PullRequestJob { number, .. } => {
            let own = run.mode == Mode::Plan && run.trigger == Trigger::PullRequest && run.pr_number == *number;
            if !own {
                return Err(Refused::Forbidden(
                    "this token reports only to its own pull request's plan run".to_owned(),
                ));
            }
        }
        Reporter::DispatchedJob { .. } => {}
        Reporter::ApiKey { .. } => {
            if run.trigger != Trigger::Manual {
                return Err(Refused::Forbidden("an API key reports only to manual runs".to_owned()));
            }
        }
    }
    match next.scene.row(id, key) {
        Some(_) => Ok(()),
        None => Err(Refused::NotFound(format!("run {id} has no stack {key}"))),
    }
}

fn record(next: &mut Next, id: &RunId, key: &StackKey, reporter: &Reporter, result: &StackResult, status: RowStatus) {
    let now = next.now;
    let run = next.scene.runs[id].clone();
    let row = next.scene.row_mut(id, key).expect("checked by may_report");
    row.enter(status, now);
    row.updated_at = now;
    row.exit_code = Some(result.exit_code);
    if result.duration_ms > 0 {
        row.started_at.get_or_insert(now.saturating_sub(result.duration_ms));
    }
    if !result.job_url.is_empty() && !is_job_of(&row.job_url, &result.job_url) {
        row.job_url.clone_from(&result.job_url);
    }
    row.error_text.clone_from(&result.error_text);
    match run.mode {
        Mode::Apply => {
            if result.summary.is_some() {
                row.summary.clone_from(&result.summary);
            }
            changed_by_apply(next, id, key, status);
        }
        Mode::Plan | Mode::Drift => {
            row.has_changes = result.has_changes;
            row.summary.clone_from(&result.summary);
            row.actions_digest =
                result.summary.as_ref().and_then(|summary| summary.actions_digest.clone()).unwrap_or_default();
            row.plan_artifact.clone_from(&result.plan_artifact);
            row.plan_digest.clone_from(&result.plan_digest);
            row.bundle_sha256.clone_from(&result.bundle_sha256);
            row.plan_run_id = match reporter {
                Reporter::PullRequestJob { workflow_run_id, .. } | Reporter::DispatchedJob { workflow_run_id, .. } => {
                    *workflow_run_id
                }
                Reporter::ApiKey { .. } => 0,
            };
            let text = result.plan_text.clone().filter(|_| row.plan_output == PlanOutput::Full);
            row.has_plan_text = text.is_some();
            row.truncated = result.truncated && text.is_some();
            let stack_id = row.stack_id.clone();
            if let Some(text) = text {
                next.effects.plan_texts.push(PlanText { run_id: id.clone(), stack_id, text });
            }
        }
    }
    next.run_mut(id).seen_at = now;
    if run.mode == Mode::Drift && status == RowStatus::Planned {
        observe_drift(next, id, key);
    }
}

/// A job knows its workflow run; GitHub's events know the job itself, `<workflow run>/job/<id>`, which leads closer.
fn is_job_of(known: &str, workflow_run: &str) -> bool {
    known.strip_prefix(workflow_run.trim_end_matches('/')).is_some_and(|rest| rest.starts_with("/job/"))
}

/// Puts dependents behind: an apply that changed something, or may have (spec 30 §6.2a "Changed at").
fn changed_by_apply(next: &mut Next, id: &RunId, key: &StackKey, status: RowStatus) {
    let row = next.scene.row(id, key).expect("the row was just written");
    let did_nothing =
        status == RowStatus::Applied && row.summary.as_ref().is_some_and(crate::plan::summary::PlanSummary::is_empty);
    if !did_nothing {
        next.stack_changed(key);
    }
}

fn observe_drift(next: &mut Next, id: &RunId, key: &StackKey) {
    let row = next.scene.row(id, key).expect("the row was just written");
    let seen = DriftSeen {
        stack_id: row.stack_id.clone(),
        repo_id: next.scene.repo.id,
        key: key.clone(),
        run_id: id.clone(),
        checked_at: next.now,
        drifted: row.has_changes,
        summary: row.summary.clone(),
    };
    if next.policy.drift.open_issue {
        let now = next.now;
        next.add_job(NewJob::keyed(
            JobKind::DriftIssue,
            format!("drift_issue:{}", seen.stack_id),
            json!({ "repo_id": seen.repo_id, "stack_id": seen.stack_id, "key": seen.key, "run_id": id }),
            now,
        ));
    }
    next.effects.drift.push(seen);
}

/// A late apply report is kept, and moves nothing: truth about infrastructure is never thrown away.
fn keep_as_evidence(next: &mut Next, id: &RunId, key: &StackKey, result: &StackResult) -> Refused {
    let now = next.now;
    let repo = next.scene.repo.full_name.clone();
    let row = next.scene.row_mut(id, key).expect("checked by may_report");
    let evidence =
        json!({ "at": now, "status": result.status, "exit_code": result.exit_code, "error_text": result.error_text });
    let known = row
        .late_evidence
        .as_ref()
        .is_some_and(|old| old["status"] == evidence["status"] && old["exit_code"] == evidence["exit_code"]);
    if !known {
        row.late_evidence = Some(evidence.clone());
        next.stack_changed(key);
        next.audit(
            "stackorder",
            "late_result",
            format!("run:{id}"),
            json!({ "repo": repo, "stack": key, "report": evidence }),
        );
    }
    Refused::Conflict(format!("{key} has ended; the report is kept as late evidence and moves nothing"))
}

/// Takes a named verdict; a repeat replaces the earlier one of the same name.
pub fn on_verdict(
    next: &mut Next,
    id: &RunId,
    key: &StackKey,
    reporter: &Reporter,
    name: &str,
    verdict: &CheckVerdict,
) -> Result<Verdict, Refused> {
    let run = next.scene.runs[id].clone();
    if run.status == RunStatus::Superseded {
        return Err(Refused::Superseded(format!("run {id} was superseded by {}", run.superseded_by)));
    }
    may_report(next, id, key, reporter)?;
    if !is_check_name(name) {
        return Err(Refused::Invalid {
            field: "name",
            reason: "1 to 64 letters, digits, `-`, `_`, `.`; not resolve, plan or apply".to_owned(),
        });
    }
    let row = next.scene.row(id, key).expect("checked by may_report");
    let wanted = Verdict {
        run_id: id.clone(),
        stack_id: row.stack_id.clone(),
        key: key.clone(),
        name: name.to_owned(),
        status: verdict.status,
        summary: verdict.summary.clone(),
        details: verdict.details.clone(),
        details_url: verdict.details_url.clone(),
        updated_at: next.now,
    };
    let slot = (id.clone(), key.clone(), name.to_owned());
    if let Some(known) = next.scene.verdicts.get(&slot)
        && (Verdict { updated_at: known.updated_at, ..wanted.clone() }) == *known
    {
        return Ok(known.clone());
    }
    if let Reporter::PullRequestJob { .. } = reporter
        && (run.status == RunStatus::Planned || run.status.is_terminal())
    {
        return Err(Refused::Conflict(format!("the plan run is {} and takes no more verdicts", run.status)));
    }
    next.scene.verdicts.insert(slot, wanted.clone());
    next.render(id);
    Ok(wanted)
}

/// 1 to 64 of letters, digits, `-`, `_`, `.`; `resolve`, `plan` and `apply` are reserved in any letter case.
pub fn is_check_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && !["resolve", "plan", "apply"].iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// The one call by which an apply job takes its stack (spec 30 §6.6): checks run, commit, claim and lock, and records the
/// job. `job_token_hash` replaces the one given before to the same job.
pub fn on_claim(
    next: &mut Next,
    id: &RunId,
    key: &StackKey,
    job: &Claim,
    sha: &str,
    job_token_hash: String,
) -> Result<(), Refused> {
    next.caused_by(format!("workflow_run:{}", job.workflow_run_id), "claim");
    let run = next.scene.runs[id].clone();
    if run.mode != Mode::Apply || run.trigger == Trigger::Manual {
        return Err(Refused::Forbidden("only dispatched apply jobs claim".to_owned()));
    }
    if run.status == RunStatus::Superseded {
        return Err(Refused::Superseded(format!("run {id} was superseded by {}", run.superseded_by)));
    }
    let Some(row) = next.scene.row(id, key).cloned() else {
        return Err(Refused::NotFound(format!("run {id} has no stack {key}")));
    };
    if run.sha.as_str() != sha {
        return Err(Refused::Conflict(format!("the run applies {}, not {sha}", run.sha)));
    }
    let same_job = |claim: &Claim| {
        claim.workflow_run_id == job.workflow_run_id
            && claim.attempt == job.attempt
            && claim.check_run_id == job.check_run_id
    };
    if let Some(claim) = row.claim.as_ref().filter(|claim| !same_job(claim)) {
        return Err(Refused::Conflict(format!(
            "{key} was claimed by workflow run {} attempt {}",
            claim.workflow_run_id, claim.attempt
        )));
    }
    if run.status.is_terminal() || !matches!(row.status, RowStatus::Planned | RowStatus::Applying) {
        return Err(Refused::Conflict(format!("the run is {} and {key} is {}", run.status, row.status)));
    }
    if next.scene.locks.get(key).is_none_or(|lock| lock.run_id != *id) {
        return Err(Refused::Locked(format!("the lock on {key} does not name this run")));
    }
    let now = next.now;
    let first = row.claim.is_none();
    if first {
        may_claim_first(next, id, &row, job)?;
    }
    let row = next.scene.row_mut(id, key).expect("found above");
    row.on_apply(ApplyEvent::Started, now);
    row.waiting_for_approval = false;
    row.claim.get_or_insert_with(|| job.clone());
    row.job_token_hash = job_token_hash;
    let plan_run = row.from_plan_run.clone();
    if first {
        if let Some(plan) = plan_run.and_then(|plan| next.scene.row_mut(&plan, key)) {
            // I17: from here on the plan counts as used, whatever happens.
            plan.used_by_run = Some(id.clone());
        }
        next.run_mut(id).enter(RunStatus::Applying, now);
        next.audit(
            "stackorder",
            "claimed",
            format!("run:{id}"),
            json!({
                "repo": next.scene.repo.full_name, "stack": key,
                "workflow_run_id": job.workflow_run_id, "attempt": job.attempt,
            }),
        );
    }
    next.render(id);
    Ok(())
}

/// What only the first claim of a row has to prove: its attempt is the one that serves the dispatch, and nobody used its
/// plan (I17).
fn may_claim_first(next: &Next, id: &RunId, row: &Row, job: &Claim) -> Result<(), Refused> {
    let dispatch = row.dispatch_id.as_ref().and_then(|dispatch| next.scene.dispatches.get(dispatch));
    if let Some(dispatch) = dispatch.filter(|dispatch| dispatch.attempt != 0 && dispatch.attempt != job.attempt) {
        return Err(Refused::Conflict(format!(
            "attempt {} of workflow run {} serves this dispatch, not attempt {}",
            dispatch.attempt, job.workflow_run_id, job.attempt
        )));
    }
    let plan = row.from_plan_run.as_ref().and_then(|plan| next.scene.row(plan, &row.key));
    match plan.and_then(|plan| plan.used_by_run.as_ref()).filter(|used_by| *used_by != id) {
        Some(used_by) => Err(Refused::Conflict(format!("the plan of {} was used by apply run {used_by}", row.key))),
        None => Ok(()),
    }
}
