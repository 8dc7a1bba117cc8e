//! `stackorder drift`: whether a stack's resources still are what its state and code say (spec 12 §6.4).

use super::base_copy::base_copy;
use super::plan::result_markdown;
use super::report::{Posted, Report, error_text};
use super::stack::choose;
use super::stack_job::{PlanFiles, StackJob, StepError, redactor_of};
use super::stop::Stop;
use super::{Job, ScannedTree, bundle, outputs};
use crate::api::{ResultStatus, StackResult};
use crate::config::model::PlanOutput;
use crate::ids::{RunId, StackKey};
use crate::plan::text::cut_plan_text;
use crate::redaction::Redactor;
use crate::run::status::Mode;

/// What a drift check found.
#[derive(Debug, Clone)]
pub struct DriftFound {
    pub stack: StackKey,
    pub run_id: Option<RunId>,
    pub result: StackResult,
    pub posted: Posted,
}

impl DriftFound {
    pub fn has_drifted(&self) -> bool {
        self.result.has_changes
    }
}

/// Checks one stack. A check that fails is posted, and is an error.
pub async fn drift(job: &Job, stack: &str, run_id: Option<&str>) -> Result<DriftFound, Stop> {
    let run_id = job.facts.run_id(run_id, &job.env)?;
    let asked = StackKey::parse(stack).map_err(|error| Stop::failed(format!("--stack: {error}")))?;
    let checkout = job.scan();
    let chosen = checkout.as_ref().map_err(Stop::clone).and_then(|checkout| Ok((checkout, choose(checkout, stack)?)));
    let key = chosen.as_ref().map_or_else(|_| asked, |(_, stack)| stack.key.clone());
    let report = Report::new(job, key.clone(), Mode::Drift, run_id);
    let found = match chosen {
        Ok((checkout, stack)) => {
            let redactor = redactor_of(job, &stack);
            look(job, checkout, stack, &report).await.map_err(|error| (error, redactor))
        }
        Err(stop) => Err((StepError::from(stop), Redactor::new().with_environment(job.env.iter()))),
    };
    let (mut result, stop) = match found {
        Ok(result) => (result, None),
        Err((StepError { stop, exit_code }, redactor)) => {
            let error_text = error_text(&redactor, &stop.to_string());
            let result =
                StackResult { exit_code, error_text: error_text.clone(), ..report.blank(job, ResultStatus::Failure) };
            (result, Some(Stop::Failed(error_text)))
        }
    };
    let posted = report.post(job, &result).await;
    if let Posted::Unconfirmed(why) = &posted {
        report.tell_unconfirmed(job, why).await;
        result.unconfirmed = true;
    }
    let exit_code = if stop.is_some() {
        1
    } else if result.has_changes {
        2
    } else {
        0
    };
    outputs::write(
        &job.env,
        &[
            ("drifted", result.has_changes.to_string()),
            ("summary", serde_json::to_string(&result.summary).unwrap_or_default()),
            ("exit-code", exit_code.to_string()),
        ],
    )?;
    outputs::summarise(&job.env, &result_markdown("Drift check", key.as_str(), &result));
    match stop {
        Some(stop) => Err(stop),
        None => Ok(DriftFound { stack: key, run_id: report.run_id, result, posted }),
    }
}

async fn look(
    job: &Job,
    checkout: &ScannedTree,
    stack: super::stack::ChosenStack,
    report: &Report,
) -> Result<StackResult, StepError> {
    let base = base_copy(job)?;
    let work = job.plan_dir()?.join(format!("drift-{}", stack.key.slug()));
    bundle::make_empty(&work)?;
    let files = PlanFiles { plan: work.join("drift.tfplan"), json: work.join("drift.json") };
    let mut stack_job = StackJob::start(job, checkout, stack, report).await?;
    let found = in_directory(&mut stack_job, &files, base.config.plan_lock).await;
    if let Err(error) = std::fs::remove_dir_all(&work) {
        tracing::warn!(path = %work.display(), %error, "cannot remove the files of the drift check");
    }
    found
}

async fn in_directory(
    stack_job: &mut StackJob<'_>,
    files: &PlanFiles,
    plan_lock: bool,
) -> Result<StackResult, StepError> {
    stack_job.init(&[]).await?;
    stack_job.select_workspace().await?;
    let exit_code = stack_job.plan(&files.plan, plan_lock).await?;
    let summary = stack_job.read_plan(files).await?.summary;
    if summary.is_empty() && exit_code == 2 {
        let key = &stack_job.stack.key;
        stack_job.job().console.warn(&format!("{key}: the tool reports changes, its plan JSON holds none: no drift"));
    }
    let mut result = stack_job.blank(ResultStatus::Success);
    if stack_job.stack.settings.plan_output == PlanOutput::Full {
        let text = stack_job.plan_text(&files.plan).await?;
        let (cut, truncated) = cut_plan_text(&text);
        result.plan_text = Some(cut.into_owned());
        result.truncated = truncated;
    }
    let duration_ms = stack_job.blank(ResultStatus::Success).duration_ms;
    Ok(StackResult { exit_code, has_changes: !summary.is_empty(), summary: Some(summary), duration_ms, ..result })
}
