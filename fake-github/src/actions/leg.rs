//! One job of a run, from its name to its end: listed, held where it must wait, given a runner, recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use github_actions_models::workflow::Job as ModelJob;
use serde_json::{Value, json};

use super::concurrency::{Entered, enter_group};
use super::expression::Contexts;
use super::expression::coerce::{is_truthy, to_text};
use super::gates::Verdict;
use super::host::JobChange;
use super::job;
use super::model::{Conclusion, Job, Status};
use super::permissions::read_only;
use super::run::{Attempt, Frame, JobResult, SecretSource};
use super::signals::{Stop, Working};
use super::state::FinishedLeg;
use super::tree::job_permissions;

/// What is known of a leg before it is listed.
pub(super) struct Plan {
    pub(super) attempt: Arc<Attempt>,
    pub(super) frame: Arc<Frame>,
    pub(super) id: String,
    /// Unique in the attempt and the same in the next one.
    pub(super) key: String,
    pub(super) matrix: Value,
    pub(super) matrix_suffix: Option<String>,
    pub(super) strategy: Value,
    pub(super) needs: Value,
    /// A job before it ran in this attempt.
    pub(super) needs_ran: bool,
    pub(super) stop: Stop,
}

/// How a leg ended, as `needs` will show it.
#[derive(Debug, Clone, Default)]
pub(super) struct LegEnd {
    pub(super) result: String,
    pub(super) outputs: BTreeMap<String, String>,
    pub(super) ran: bool,
}

impl From<JobResult> for LegEnd {
    fn from(job: JobResult) -> Self {
        Self { result: job.result, outputs: job.outputs, ran: job.ran }
    }
}

impl Plan {
    /// What expressions of the job see before it has a runner; GitHub offers `secrets` only in some places.
    pub(super) fn contexts(&self, environment: Option<&str>) -> Contexts {
        let mut contexts = self.frame.contexts(&self.attempt);
        contexts.set("needs", self.needs.clone());
        contexts.set("matrix", self.matrix.clone());
        contexts.set("strategy", self.strategy.clone());
        let run = &self.attempt.run;
        contexts.set("vars", json!(self.attempt.engine.host.variables(&run.repo, environment)));
        contexts
    }

    /// The job's secrets, without its token. A fork's run has none.
    pub(super) fn secrets(&self, environment: Option<&str>) -> BTreeMap<String, String> {
        let (host, run) = (&self.attempt.engine.host, &self.attempt.run);
        if run.from_fork {
            return BTreeMap::new();
        }
        match &self.frame.secrets {
            SecretSource::Repository => host.secrets(&run.repo, environment),
            SecretSource::Passed(passed) => {
                let own = environment.map(|name| host.environment_secrets(&run.repo, name)).unwrap_or_default();
                // Names ignore case: an environment's `ENV` replaces a passed `env`.
                let replaced = |name: &String| own.keys().any(|key| key.eq_ignore_ascii_case(name));
                let kept = passed.iter().filter(|(name, _)| !replaced(name));
                kept.map(|(k, v)| (k.clone(), v.clone())).chain(own.clone()).collect()
            }
        }
    }

    /// The job's own name; legs of a matrix whose name does not mention it get its values behind.
    pub(super) fn display_name(&self, contexts: &Contexts) -> Result<String, String> {
        let template = self.model().name().unwrap_or(&self.id);
        let name = contexts.text(template).map_err(|e| e.to_string())?;
        Ok(match &self.matrix_suffix {
            Some(suffix) if !template.contains("matrix.") => format!("{name} {suffix}"),
            _ => name,
        })
    }

    fn model(&self) -> &ModelJob {
        &self.frame.node.file.model.jobs[&self.id]
    }

    fn raw(&self) -> &Value {
        self.frame.node.file.job_raw(&self.id)
    }

    fn environment(&self, contexts: &Contexts) -> Result<Option<String>, String> {
        let value = match &self.raw()["environment"] {
            Value::Object(members) => members.get("name").cloned().unwrap_or(Value::Null),
            other => other.clone(),
        };
        let name = to_text(&contexts.resolve(&value).map_err(|e| e.to_string())?);
        Ok((!name.is_empty()).then_some(name))
    }
}

/// Takes a job through all of it.
pub(super) async fn run(mut plan: Plan, working: Working) -> (LegEnd, Working) {
    let engine = Arc::clone(&plan.attempt.engine);
    let (name, environment, contexts) = match prepared(&plan) {
        Ok(prepared) => prepared,
        Err(message) => {
            return (record_failed(&plan.attempt, &plan.frame, &plan.id, &message).into(), working);
        }
    };
    let mut job = new_job(&plan.attempt, &plan.frame, &plan.id, &name);
    job.environment = environment.clone();
    let job_id = job.id;
    if let Some(taken_over) = plan.attempt.previous.get(&plan.key).filter(|leg| leg.succeeded && !plan.needs_ran) {
        return (take_over(&plan, job, taken_over), working);
    }
    let gate = environment.as_ref().map(|name| engine.host.environment(&plan.attempt.run.repo, name));
    let held = gate.and_then(|gate| {
        engine.gates.hold(plan.attempt.run.id, job_id, &plan.attempt.run.triggering_actor, &gate, engine.host.now_ms())
    });
    job.status = if held.is_some() { Status::Waiting } else { Status::Queued };
    engine.add_job(job, Some(if held.is_some() { JobChange::Waiting } else { JobChange::Queued }));

    let working = match held {
        None => working,
        Some(verdict) => {
            drop(working);
            let (verdict, working) = wait_at_gate(&plan, job_id, verdict).await;
            match verdict {
                Some(Verdict::Open) => engine.change_job(job_id, JobChange::Queued, |job| job.status = Status::Queued),
                Some(Verdict::Rejected(comment)) => {
                    engine.log(job_id, &format!("##[error]The deployment was rejected. {comment}"));
                    return (finish(&plan, job_id, Conclusion::Failure, BTreeMap::new(), false), working);
                }
                None => return (finish(&plan, job_id, Conclusion::Cancelled, BTreeMap::new(), false), working),
            }
            working
        }
    };
    let settings = plan.raw()["concurrency"].clone();
    let entered =
        enter_group(&plan.attempt, &plan.frame, &settings, &contexts, &plan.stop, Some(job_id), working).await;
    let (_permit, working) = match entered {
        Entered::In { permit, working, .. } => (permit, working),
        Entered::Refused { message, working } => {
            engine.log(job_id, &format!("##[error]{message}"));
            return (finish(&plan, job_id, Conclusion::Cancelled, BTreeMap::new(), false), working);
        }
    };
    // A failed sibling stops a leg whatever its `if` says; a cancelled run does not.
    let runs_anyway = plan.frame.stop.is_set() && runs_although_stopped(&plan);
    let stopped_before = plan.stop.is_set() && !runs_anyway;
    if runs_anyway {
        // Its `if` wants it to run after a cancel: for its own steps nothing is cancelled.
        plan.stop = Stop::new();
    }
    let slot = tokio::select! {
        slot = Arc::clone(&engine.slots).acquire_owned() => slot.ok(),
        () = plan.stop.wait(), if !plan.stop.is_set() => None,
    };
    let Some(_slot) = slot.filter(|_| !stopped_before) else {
        return (finish(&plan, job_id, Conclusion::Cancelled, BTreeMap::new(), false), working);
    };
    let end = job::run(&plan, job_id, environment.as_deref()).await;
    let forgiven = contexts.resolve(&plan.raw()["continue-on-error"]).is_ok_and(|value| is_truthy(&value));
    (finish(&plan, job_id, end.conclusion, end.outputs, forgiven), working)
}

fn prepared(plan: &Plan) -> Result<(String, Option<String>, Contexts), String> {
    let contexts = plan.contexts(None);
    let environment = plan.environment(&contexts)?;
    let name = plan.display_name(&contexts)?;
    Ok((name, environment, contexts))
}

fn runs_although_stopped(plan: &Plan) -> bool {
    let condition = plan.raw()["if"].as_str().unwrap_or_default();
    condition.contains("always()") || (condition.contains("cancelled()") && !condition.contains("!cancelled()"))
}

async fn wait_at_gate(
    plan: &Plan,
    job_id: i64,
    mut verdict: tokio::sync::oneshot::Receiver<(Verdict, Working)>,
) -> (Option<Verdict>, Working) {
    let engine = &plan.attempt.engine;
    loop {
        let now = engine.host.now_ms();
        let next = engine.gates.look_at_timers(now);
        // Without a timer only an answer ends this; an hour is merely a bound.
        let nap = next.map_or(3_600_000, |at| u64::try_from(at - now).unwrap_or(0).clamp(1, 3_600_000));
        tokio::select! {
            answer = &mut verdict => {
                return match answer {
                    Ok((verdict, working)) => (Some(verdict), working),
                    Err(_) => (None, engine.busy.begin()),
                };
            }
            () = plan.stop.wait() => {
                engine.gates.forget(job_id);
                return (None, engine.busy.begin());
            }
            () = tokio::time::sleep(std::time::Duration::from_millis(nap)) => {}
        }
    }
}

/// Records the end of a job and what a re-run may take over.
fn finish(
    plan: &Plan,
    job_id: i64,
    conclusion: Conclusion,
    outputs: BTreeMap<String, String>,
    forgiven: bool,
) -> LegEnd {
    let engine = &plan.attempt.engine;
    let now = engine.host.now_ms();
    let succeeded = conclusion == Conclusion::Success;
    {
        let mut state = engine.state();
        if let Some(record) = state.jobs.get_mut(&job_id) {
            record.outputs = outputs.clone();
        }
        if let Some(record) = state.runs.get_mut(&plan.attempt.run.id) {
            record.finished.insert(plan.key.clone(), FinishedLeg { job_id, succeeded, outputs: outputs.clone() });
        }
    }
    engine.change_job(job_id, JobChange::Completed, |job| {
        job.status = Status::Completed;
        job.conclusion = Some(conclusion);
        job.completed_at = Some(now);
        for step in job.steps.iter_mut().filter(|step| step.status != Status::Completed) {
            step.status = Status::Completed;
            step.conclusion = Some(if conclusion == Conclusion::Success { Conclusion::Skipped } else { conclusion });
        }
    });
    let result = match conclusion {
        Conclusion::Success => "success",
        Conclusion::Skipped => "skipped",
        Conclusion::Cancelled => "cancelled",
        Conclusion::Failure | Conclusion::TimedOut | Conclusion::StartupFailure if forgiven => "success",
        Conclusion::Failure | Conclusion::TimedOut | Conclusion::StartupFailure => "failure",
    };
    LegEnd { result: result.to_owned(), outputs, ran: true }
}

/// A leg that succeeded in the attempt before shows up in this one as it was.
fn take_over(plan: &Plan, job: Job, leg: &FinishedLeg) -> LegEnd {
    let engine = &plan.attempt.engine;
    let mut state = engine.state();
    if let Some(old) = state.jobs.get(&leg.job_id) {
        let copy = super::state::JobRecord {
            job: Job { id: job.id, attempt: job.attempt, ..old.job.clone() },
            log: old.log.clone(),
            annotations: old.annotations.clone(),
            summary: old.summary.clone(),
            outputs: old.outputs.clone(),
            killed: Stop::new(),
            groups: Vec::new(),
        };
        state.jobs.insert(job.id, copy);
    }
    if let Some(record) = state.runs.get_mut(&plan.attempt.run.id) {
        record.finished.insert(plan.key.clone(), FinishedLeg { job_id: job.id, ..leg.clone() });
    }
    LegEnd { result: "success".to_owned(), outputs: leg.outputs.clone(), ran: false }
}

/// A job whose condition did not hold.
pub(super) fn record_skipped(attempt: &Attempt, frame: &Frame, id: &str, name: &str) -> JobResult {
    record_ended(attempt, frame, id, name, Conclusion::Skipped, None)
}

/// A job that could not even be listed properly.
pub(super) fn record_failed(attempt: &Attempt, frame: &Frame, id: &str, message: &str) -> JobResult {
    record_ended(attempt, frame, id, id, Conclusion::Failure, Some(message))
}

/// A workflow that could not begin.
pub(super) fn record_refused(attempt: &Attempt, frame: &Frame, message: &str) -> JobResult {
    let name = frame.node.file.name();
    record_ended(attempt, frame, &name, &name, Conclusion::Failure, Some(message))
}

fn record_ended(
    attempt: &Attempt,
    frame: &Frame,
    id: &str,
    name: &str,
    conclusion: Conclusion,
    message: Option<&str>,
) -> JobResult {
    let engine = &attempt.engine;
    let mut job = new_job(attempt, frame, id, name);
    job.status = Status::Completed;
    job.conclusion = Some(conclusion);
    job.completed_at = Some(job.created_at);
    let job_id = job.id;
    engine.add_job(job, None);
    if let Some(message) = message {
        engine.log(job_id, &format!("##[error]{message}"));
    }
    engine.change_job(job_id, JobChange::Completed, |_| {});
    let result = if conclusion == Conclusion::Skipped { "skipped" } else { "failure" };
    JobResult { result: result.to_owned(), outputs: BTreeMap::new(), ran: conclusion != Conclusion::Skipped }
}

fn new_job(attempt: &Attempt, frame: &Frame, id: &str, name: &str) -> Job {
    let (engine, run) = (&attempt.engine, &attempt.run);
    let granted = job_permissions(&frame.node.file, id, frame.granted.as_ref()).unwrap_or_default();
    Job {
        id: engine.host.next_id(),
        run_id: run.id,
        attempt: run.attempt,
        repo: run.repo.clone(),
        name: format!("{}{name}", frame.name_prefix),
        workflow_name: run.workflow_name.clone(),
        head_sha: run.head_sha.clone(),
        head_branch: run.head_branch.clone(),
        environment: None,
        job_workflow_ref: frame.node.file.source.workflow_ref(),
        permissions: if run.from_fork { read_only(&granted) } else { granted },
        status: Status::Queued,
        conclusion: None,
        created_at: engine.host.now_ms(),
        started_at: None,
        completed_at: None,
        steps: Vec::new(),
        check_run_id: engine.host.next_id(),
        runner_name: None,
    }
}

/// `github` as every job of the run sees it; the runner adds what is the job's own.
pub(super) fn github_context(attempt: &Attempt, frame: &Frame) -> Value {
    let run = &attempt.run;
    let host = &attempt.engine.host;
    let facts = host.repository(&run.repo);
    let text = |pointer: &str| run.payload.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (ref_type, ref_name) = ref_parts(&run.git_ref);
    let api = host.api_url();
    json!({
        "actor": run.actor,
        "actor_id": run.payload.pointer("/sender/id").map(to_text).unwrap_or_default(),
        "api_url": api,
        "base_ref": text("/pull_request/base/ref"),
        "event": run.payload,
        "event_name": run.event,
        "graphql_url": format!("{api}/graphql"),
        "head_ref": text("/pull_request/head/ref"),
        "ref": run.git_ref,
        "ref_name": ref_name,
        "ref_protected": false,
        "ref_type": ref_type,
        "repository": run.repo,
        "repository_id": facts.as_ref().map(|f| f.id.to_string()).unwrap_or_default(),
        "repository_owner": facts.as_ref().map(|f| f.owner.clone()).unwrap_or_default(),
        "repository_owner_id": facts.as_ref().map(|f| f.owner_id.to_string()).unwrap_or_default(),
        "repository_visibility": if facts.as_ref().is_some_and(|f| f.private) { "private" } else { "public" },
        "repositoryUrl": host.clone_url(&run.repo),
        "retention_days": "90",
        "run_attempt": run.attempt.to_string(),
        "run_id": run.id.to_string(),
        "run_number": run.run_number.to_string(),
        "secret_source": if run.from_fork { "None" } else { "Actions" },
        "server_url": host.web_url(),
        "sha": run.sha,
        "triggering_actor": run.triggering_actor,
        "workflow": run.workflow_name,
        "workflow_ref": format!("{}/{}@{}", run.repo, run.path, run.git_ref),
        "workflow_sha": run.sha,
        "job_workflow_sha": frame.node.file.source.commit,
    })
}

/// `branch` or `tag`, and the short name; a pull request's ref counts as a branch, `7/merge`.
pub(super) fn ref_parts(git_ref: &str) -> (&'static str, &str) {
    let branch = git_ref.strip_prefix("refs/heads/").or_else(|| git_ref.strip_prefix("refs/pull/"));
    match git_ref.strip_prefix("refs/tags/") {
        Some(tag) => ("tag", tag),
        None => ("branch", branch.unwrap_or(git_ref)),
    }
}
