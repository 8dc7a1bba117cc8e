//! `stackorder apply`: claims a stack, proves its plan, applies it, reports (spec 12 §6.3).
//!
//! It fails closed: without the server's claim the tool is never started.

use std::path::PathBuf;

use super::apply_plan::{ApprovedPlan, forget_opened, opened, prepare, source};
use super::base_copy::base_copy;
use super::hooks::Hook;
use super::plan::{artifact_of, result_markdown};
use super::report::{Posted, Report, error_text};
use super::server::Server;
use super::stack::choose;
use super::stack_job::{PlanFiles, StackJob, StepError};
use super::stop::Stop;
use super::{Job, ScannedTree, bundle, outputs};
use crate::api::{ClaimRequest, ClaimResponse, CreateRunRequest, ResultStatus, StackResult};
use crate::guide::Topic;
use crate::ids::{RunId, StackKey};
use crate::plan::digest::{PlanDigestInput, plan_digest};
use crate::redaction::Redactor;
use crate::run::status::{Mode, Trigger};

/// What to apply in a dispatched job.
#[derive(Debug, Clone, Default)]
pub struct ApplyRequest {
    pub stack: String,
    pub run_id: Option<String>,
    /// Where the plan bundle was downloaded to.
    pub bundle: Option<PathBuf>,
}

/// A stack that was applied and reported.
#[derive(Debug, Clone)]
pub struct Applied {
    pub stack: StackKey,
    pub run_id: RunId,
    pub result: StackResult,
}

/// Applies the plan of one stack in a job that the server dispatched.
pub async fn apply(job: &Job, request: &ApplyRequest) -> Result<Applied, Stop> {
    let key = StackKey::parse(&request.stack).map_err(|error| Stop::failed(format!("--stack: {error}")))?;
    let run_id = job
        .facts
        .run_id(request.run_id.as_deref(), &job.env)?
        .ok_or_else(|| Stop::failed("no run id: pass --run-id, or set STACKORDER_RUN_ID"))?;
    let Some(server) = &job.server else {
        return Err(Stop::refused(
            Topic::ServerUnreachable,
            "nothing is applied without a server to confirm it: pass --server",
        ));
    };
    let head = job.git.commit_of("HEAD").map_err(|error| Stop::refused(Topic::OtherCommit, error))?;
    let head = head.map(|sha| sha.to_string()).unwrap_or_default();
    if head != job.facts.commit || head.is_empty() {
        let asked = &job.facts.commit;
        return Err(Stop::refused(
            Topic::OtherCommit,
            format!("the checkout is at {head:?}, the run is about {asked:?}"),
        ));
    }
    // A claimed plan is used up; one that nobody claimed can be applied again.
    if let Some(cut) = job.limits.reached() {
        return Err(Stop::failed(format!("{cut} before the claim: nothing was applied")));
    }
    let request_of_claim = ClaimRequest { sha: head, workflow_run_attempt: job.facts.workflow_run_attempt };
    let claim = server.claim(&run_id, &key, &request_of_claim).await.map_err(|error| error.fail_closed())?;

    let report = Report::new(job, key, Mode::Apply, Some(run_id));
    let done = claimed(job, &report, &claim, request).await;
    forget_opened(job, &report.key);
    finish(job, report, done).await
}

/// Applies one stack from a laptop: a manual run takes the lock, a fresh plan is applied at once.
pub async fn apply_local(job: &Job, stack: &str) -> Result<Applied, Stop> {
    if job.facts.is_actions {
        return Err(Stop::failed("--local is for laptops: in Actions the server dispatches applies"));
    }
    let Some(server) = &job.server else {
        return Err(Stop::failed(
            "--local needs a server and an API key: set STACKORDER_SERVER_URL and STACKORDER_API_KEY",
        ));
    };
    if job.git.is_dirty()? {
        job.console.warn("the working tree differs from HEAD: what is on disk gets applied");
    }
    let checkout = job.scan()?;
    let key = choose(&checkout, stack)?.key;
    let run_id = manual_run(job, server, &key).await?;
    let report = Report::new(job, key, Mode::Apply, Some(run_id));
    let done = fresh(job, &checkout, &report, stack).await;
    finish(job, report, done).await
}

/// What an attempt came to: the result to post, and the error that ends the command although it is posted.
struct Done {
    result: StackResult,
    stop: Option<Stop>,
}

async fn manual_run(job: &Job, server: &Server, key: &StackKey) -> Result<RunId, Stop> {
    let request = CreateRunRequest {
        repo: job.facts.repo.clone(),
        sha: job.facts.commit.clone(),
        mode: Some(Mode::Apply),
        trigger: Some(Trigger::Manual),
        // Named by the caller, so that a repeated call finds the run of a lost answer.
        run_id: Some(RunId::from_random(rand::random())),
        stacks: vec![key.to_string()],
        ..CreateRunRequest::default()
    };
    Ok(server.create_run(&request).await.map_err(|error| error.fail_closed())?.run_id)
}

/// From the claim to the outcome. Whatever fails on the way becomes a result.
async fn claimed(job: &Job, report: &Report, claim: &ClaimResponse, request: &ApplyRequest) -> Done {
    let prepared = async {
        let base = base_copy(job)?;
        let from_plan = base.config.apply.from_plan;
        let bundle = opened(job, request.bundle.as_deref().filter(|_| from_plan), &report.key)?;
        let source = source(claim, bundle.as_deref(), job.now(), from_plan)?;
        let checkout = job.scan()?;
        let stack = choose(&checkout, &request.stack)?;
        if stack.key != report.key {
            return Err(Stop::failed(format!("the claimed stack {} is {} here", report.key, stack.key)));
        }
        Ok((base, source, checkout, stack))
    };
    let (base, source, checkout, stack) = match prepared.await {
        Ok(prepared) => prepared,
        Err(stop) => return not_applied(job, report, None, stop.into()),
    };
    let mut stack_job = match StackJob::start(job, &checkout, stack, report).await {
        Ok(stack_job) => stack_job,
        Err(error) => return not_applied(job, report, None, error),
    };
    match prepare(&mut stack_job, claim, source, base.config.plan_lock).await {
        Ok(approved) => run_apply(job, &stack_job, &approved).await,
        Err(error) => not_applied(job, report, Some(&stack_job), error),
    }
}

async fn fresh(job: &Job, checkout: &ScannedTree, report: &Report, argument: &str) -> Done {
    let started = async { StackJob::start(job, checkout, choose(checkout, argument)?, report).await };
    let mut stack_job = match started.await {
        Ok(stack_job) => stack_job,
        Err(error) => return not_applied(job, report, None, error),
    };
    let planned = async {
        let base = base_copy(job)?;
        let artifact = artifact_of(job, &report.key);
        let work = job.plan_dir()?.join(format!("apply-{artifact}"));
        bundle::make_empty(&work)?;
        let files =
            PlanFiles { plan: work.join(format!("{artifact}.tfplan")), json: work.join(format!("{artifact}.json")) };
        stack_job.init(&[]).await?;
        stack_job.select_workspace().await?;
        stack_job.plan(&files.plan, base.config.plan_lock).await?;
        let summarised = stack_job.read_plan(&files).await?;
        Ok(ApprovedPlan { files, summarised, bundle_sha256: None })
    };
    match planned.await {
        Ok(approved) => run_apply(job, &stack_job, &approved).await,
        Err(error) => not_applied(job, report, Some(&stack_job), error),
    }
}

async fn run_apply(job: &Job, stack_job: &StackJob<'_>, approved: &ApprovedPlan) -> Done {
    let report = stack_job.report();
    if let Err(error) = stack_job.hook(Hook::PreApply, &approved.files).await {
        return not_applied(job, report, Some(stack_job), error);
    }
    let ended = match stack_job.apply(&approved.files.plan).await {
        Ok(ended) => ended,
        Err(error) => return not_applied(job, report, Some(stack_job), error),
    };
    if ended.exit_code != 0 {
        return not_applied(job, report, Some(stack_job), stack_job.step_error("apply", &ended));
    }
    let summary = approved.summarised.summary.clone();
    let mut result = stack_job.blank(ResultStatus::Success);
    result.plan_digest = plan_digest(&PlanDigestInput {
        artifact: &artifact_of(job, &report.key),
        bundle_sha256: approved.bundle_sha256.as_deref(),
        commit: &job.facts.commit,
        diff_sha256: None,
        key: report.key.as_str(),
        summary: &summary,
    });
    result.has_changes = !summary.is_empty();
    result.summary = Some(summary);
    if let Some(cut) = ended.cut {
        // It went through all the same; the server takes this as late evidence.
        let stop = Stop::failed(format!("{cut}, after which the apply ended well"));
        return Done { result, stop: Some(stop) };
    }
    match stack_job.hook(Hook::PostApply, &approved.files).await {
        Ok(()) => Done { result, stop: None },
        Err(error) => {
            result.error_text = error_text(stack_job.redactor(), &error.stop.to_string());
            result.duration_ms = stack_job.blank(ResultStatus::Success).duration_ms;
            Done { result, stop: Some(Stop::failed(error.stop.to_string())) }
        }
    }
}

fn not_applied(job: &Job, report: &Report, stack_job: Option<&StackJob<'_>>, error: StepError) -> Done {
    let blank = match stack_job {
        Some(stack_job) => stack_job.blank(ResultStatus::Failure),
        None => report.blank(job, ResultStatus::Failure),
    };
    let text = error.stop.to_string();
    let error_text = match stack_job {
        Some(stack_job) => error_text(stack_job.redactor(), &text),
        None => error_text(&Redactor::new().with_environment(job.env.iter()), &text),
    };
    let stop = match error.stop {
        Stop::Failed(_) => Stop::Failed(error_text.clone()),
        Stop::Refused(_) => Stop::Refused(error_text.clone()),
    };
    Done { result: StackResult { exit_code: error.exit_code, error_text, ..blank }, stop: Some(stop) }
}

/// Posts the result and writes outputs. A report that fails after an apply is an error of its own.
async fn finish(job: &Job, report: Report, done: Done) -> Result<Applied, Stop> {
    let posted = report.post(job, &done.result).await;
    let Report { key, run_id, .. } = &report;
    outputs::write(&job.env, &[("summary", serde_json::to_string(&done.result.summary).unwrap_or_default())])?;
    outputs::summarise(&job.env, &result_markdown("Apply", key.as_str(), &done.result));
    let unposted = match posted {
        Posted::Confirmed => None,
        // The failure was told at the signal already: what follows is late evidence, which is no answer to wait for.
        Posted::Refused(_) if report.was_cut() => None,
        Posted::Refused(why) | Posted::Unconfirmed(why) | Posted::Failed(why) => Some(why),
    };
    if let Some(why) = &unposted {
        job.console.error(&format!("{key}: the server did not take the result: {why}"));
    }
    match (done.stop, unposted, run_id) {
        (Some(stop), _, _) => Err(stop),
        (None, Some(why), _) => Err(Stop::failed(format!("{key} was applied, but the report failed: {why}"))),
        (None, None, Some(run_id)) => Ok(Applied { stack: key.clone(), run_id: run_id.clone(), result: done.result }),
        (None, None, None) => Err(Stop::failed("an apply has no run id")),
    }
}
