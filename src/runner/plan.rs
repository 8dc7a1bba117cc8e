//! `stackorder plan`: plans stacks one after another and reports each (spec 12 §6.2).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::base_copy::{base_copy, policy_files};
use super::hooks::Hook;
use super::report::{Posted, Report, error_text};
use super::stack::choose;
use super::stack_job::{PlanFiles, StackJob, StepError, private_file, redactor_of};
use super::stop::Stop;
use super::tool::PLAN_RECIPIENT;
use super::{Job, ScannedTree, bundle, outputs, seal};
use crate::api::{ResultStatus, StackResult};
use crate::config::model::PlanOutput;
use crate::ids::{RunId, StackKey};
use crate::plan::digest::{PlanDigestInput, plan_digest};
use crate::plan::summary::PlanSummary;
use crate::plan::text::cut_plan_text;
use crate::redaction::Redactor;
use crate::render::escape;
use crate::run::status::Mode;

/// What to plan.
#[derive(Debug, Clone, Default)]
pub struct PlanRequest {
    pub stacks: Vec<String>,
    pub run_id: Option<String>,
    /// One more place for the plain plan file of a single stack.
    pub out: Option<PathBuf>,
    /// The name under which everything will be uploaded, where it is not the stack's own.
    pub artifact: Option<String>,
}

/// What came of one stack. The JSON form is the command's.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedStack {
    pub stack: String,
    pub run_id: String,
    /// Absolute; empty when nothing was planned.
    pub bundle: String,
    pub unconfirmed: bool,
    /// The body posted, or that would have been.
    pub result: StackResult,
    #[serde(skip)]
    pub posted: Posted,
}

impl PlannedStack {
    pub fn is_failure(&self) -> bool {
        self.result.status != ResultStatus::Success || matches!(self.posted, Posted::Failed(_))
    }

    pub fn is_refused(&self) -> bool {
        matches!(self.posted, Posted::Refused(_))
    }
}

/// Plans every stack, whatever becomes of the others, and writes outputs and the step summary.
pub async fn plan(job: &Job, request: &PlanRequest) -> Result<Vec<PlannedStack>, Stop> {
    let run_id = job.facts.run_id(request.run_id.as_deref(), &job.env)?;
    if request.stacks.is_empty() {
        return Err(Stop::failed("name a stack: --stack <key>"));
    }
    if request.out.is_some() && request.stacks.len() > 1 {
        return Err(Stop::failed("--out takes the plan of one stack, several were named"));
    }
    for argument in &request.stacks {
        StackKey::parse(argument).map_err(|error| Stop::failed(format!("--stack: {error}")))?;
    }
    let plan_dir = job.plan_dir()?;
    let (bundles, uploaded_as) = match (&request.artifact, request.stacks.len()) {
        (None, 1) => (plan_dir.clone(), None),
        (Some(name), 1) => (plan_dir.clone(), Some(artifact_name(name)?.to_owned())),
        (name, _) => {
            let own = format!("stackorder-plan-stacks-{}", job.facts.commit_or_local());
            let name = name.clone().unwrap_or(own);
            let directory = plan_dir.join(artifact_name(&name)?);
            bundle::make_empty(&directory)?;
            (directory, Some(name))
        }
    };
    let checkout = job.scan();
    let mut planned = Vec::new();
    let call = Call {
        run_id,
        plan_dir: &plan_dir,
        bundles: &bundles,
        uploaded_as: uploaded_as.as_deref(),
        out: request.out.as_deref(),
    };
    for argument in &request.stacks {
        planned.push(plan_one(job, checkout.as_ref(), argument, &call).await?);
    }
    let bundle = match planned.as_slice() {
        [only] => only.bundle.clone(),
        several if several.iter().any(|stack| !stack.bundle.is_empty()) => bundles.display().to_string(),
        _ => String::new(),
    };
    write_outputs(job, &planned, &bundle)?;
    Ok(planned)
}

/// What all stacks of one call share.
struct Call<'a> {
    run_id: Option<RunId>,
    plan_dir: &'a Path,
    /// What holds the bundle directories.
    bundles: &'a Path,
    uploaded_as: Option<&'a str>,
    out: Option<&'a Path>,
}

async fn plan_one(
    job: &Job,
    checkout: Result<&ScannedTree, &Stop>,
    argument: &str,
    call: &Call<'_>,
) -> Result<PlannedStack, Stop> {
    let asked = StackKey::parse(argument).map_err(|error| Stop::failed(format!("--stack: {error}")))?;
    let chosen = checkout.map_err(Stop::clone).and_then(|checkout| Ok((checkout, choose(checkout, argument)?)));
    let key = chosen.as_ref().map_or_else(|_| asked, |(_, stack)| stack.key.clone());
    let report = Report::new(job, key.clone(), Mode::Plan, call.run_id.clone());
    let artifact = artifact_of(job, &key);
    let directory = call.bundles.join(&artifact);
    let plan = directory.join(format!("{artifact}.tfplan"));
    let files = PlanFiles { plan, json: call.plan_dir.join(format!("{artifact}.json")) };

    let mut failed = report.blank(job, ResultStatus::Failure);
    let made = match chosen {
        Ok((checkout, stack)) => {
            let redactor = redactor_of(job, &stack);
            match StackJob::start(job, checkout, stack, &report).await {
                Ok(mut stack_job) => {
                    let made = make(&mut stack_job, &files, &directory, call.out).await;
                    failed = stack_job.blank(ResultStatus::Failure);
                    made.map_err(|error| (error, stack_job.redactor().clone()))
                }
                Err(error) => Err((error, redactor)),
            }
        }
        Err(stop) => Err((stop.into(), Redactor::new().with_environment(job.env.iter()))),
    };
    let mut result = match made {
        Ok(result) => result,
        Err((StepError { stop, exit_code }, redactor)) => {
            let error_text = error_text(&redactor, &stop.to_string());
            job.console.error(&format!("{key}: {error_text}"));
            discard(&files, &directory);
            StackResult { exit_code, error_text, ..failed }
        }
    };
    result.plan_artifact = match result.status {
        ResultStatus::Success => call.uploaded_as.unwrap_or(&artifact).to_owned(),
        ResultStatus::Failure | ResultStatus::Error => String::new(),
    };
    let posted = match report.post(job, &result).await {
        // The failure was told at the signal already; the server keeps the first word.
        Posted::Refused(_) if report.was_cut() => Posted::Confirmed,
        posted => posted,
    };
    let unconfirmed = matches!(posted, Posted::Unconfirmed(_));
    match &posted {
        Posted::Confirmed => {}
        Posted::Unconfirmed(why) => report.tell_unconfirmed(job, why).await,
        Posted::Refused(text) => job.console.error(&format!("{key}: the server refused the result: {text}")),
        Posted::Failed(text) => job.console.error(&format!("{key}: the server did not take the result: {text}")),
    }
    result.unconfirmed = unconfirmed;
    let is_planned = result.status == ResultStatus::Success;
    Ok(PlannedStack {
        stack: key.to_string(),
        run_id: report.run_id.map(|id| id.to_string()).unwrap_or_default(),
        bundle: if is_planned { directory.display().to_string() } else { String::new() },
        unconfirmed,
        result,
        posted,
    })
}

/// Half a bundle is nobody's plan: in a chunk it would be uploaded beside the others, secrets and all.
fn discard(files: &PlanFiles, directory: &Path) {
    for removed in [std::fs::remove_dir_all(directory), std::fs::remove_file(&files.json)] {
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %directory.display(), %error, "the files of a failed plan cannot be removed");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// Everything from the base copy to the finished bundle.
async fn make(
    stack_job: &mut StackJob<'_>,
    files: &PlanFiles,
    directory: &Path,
    out: Option<&Path>,
) -> Result<StackResult, StepError> {
    let job = stack_job.job();
    // Before anything is made that a key that is none could not seal.
    let recipients = seal::recipients(job.env.get(PLAN_RECIPIENT).unwrap_or_default())
        .map_err(|error| Stop::failed(format!("{PLAN_RECIPIENT}: {error}")))?;
    let base = base_copy(job)?;
    let policies = policy_files(&job.git, &base)?;
    if !policies.is_empty() {
        job.console.warn(&format!("policy files are not evaluated yet: {}", policies.join(", ")));
    }
    bundle::make_empty(directory)?;
    stack_job.hook(Hook::PrePlan, &PlanFiles::default()).await?;
    stack_job.init(&[]).await?;
    stack_job.select_workspace().await?;
    let exit_code = stack_job.plan(&files.plan, base.config.plan_lock).await?;
    let summary = stack_job.read_plan(files).await?.summary;
    let mut result = stack_job.blank(ResultStatus::Success);
    if stack_job.stack.settings.plan_output == PlanOutput::Full {
        let text = stack_job.plan_text(&files.plan).await?;
        let (cut, truncated) = cut_plan_text(&text);
        result.plan_text = Some(cut.into_owned());
        result.truncated = truncated;
    }
    stack_job.hook(Hook::PostPlan, files).await?;
    let digest = bundle::complete(directory, stack_job.directory(), &stack_job.config().stacks.plan_files)?;
    if let Some(out) = out {
        copy_private(&files.plan, &job.root.join(out))
            .map_err(|error| Stop::failed(format!("--out {}: {error}", out.display())))?;
    }
    if summary.is_empty() == (exit_code == 2) {
        tracing::warn!(stack = %stack_job.stack.key, exit_code, "exit code and plan JSON disagree; the JSON counts");
    }
    let artifact = artifact_of(job, &stack_job.stack.key);
    if !recipients.is_empty() {
        seal::seal(directory, &artifact, &recipients).map_err(|error| Stop::failed(error.to_string()))?;
    }
    result.plan_digest = plan_digest(&PlanDigestInput {
        artifact: &artifact,
        bundle_sha256: Some(&digest),
        commit: &job.facts.commit,
        diff_sha256: None,
        key: stack_job.stack.key.as_str(),
        summary: &summary,
    });
    let duration_ms = stack_job.blank(ResultStatus::Success).duration_ms;
    Ok(StackResult {
        exit_code,
        has_changes: !summary.is_empty(),
        summary: Some(summary),
        bundle_sha256: digest,
        duration_ms,
        ..result
    })
}

/// A plan holds secrets in clear, wherever it lies.
fn copy_private(from: &Path, to: &Path) -> std::io::Result<()> {
    std::io::copy(&mut std::fs::File::open(from)?, &mut private_file(to)?).map(drop)
}

/// The stack's own artifact name (spec 12 §10).
pub fn artifact_of(job: &Job, key: &StackKey) -> String {
    format!("stackorder-plan-{}-{}", key.slug(), job.facts.commit_or_local())
}

fn artifact_name(name: &str) -> Result<&str, Stop> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.is_empty() && !name.starts_with('.') && name.len() <= 255 && name.chars().all(plain) {
        return Ok(name);
    }
    Err(Stop::failed(format!("--artifact {name:?} is no name of letters, digits, `.`, `_` and `-`")))
}

fn write_outputs(job: &Job, planned: &[PlannedStack], bundle: &str) -> Result<(), Stop> {
    let summary_of = |stack: &PlannedStack| serde_json::to_value(&stack.result.summary).unwrap_or_default();
    let summary = match planned {
        [only] => summary_of(only),
        several => several
            .iter()
            .map(|stack| (stack.stack.clone(), summary_of(stack)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    };
    let artifact = planned.iter().map(|stack| &stack.result.plan_artifact).find(|name| !name.is_empty());
    outputs::write(
        &job.env,
        &[
            ("has-changes", planned.iter().any(|stack| stack.result.has_changes).to_string()),
            ("bundle", bundle.to_owned()),
            ("artifact", artifact.cloned().unwrap_or_default()),
            ("summary", summary.to_string()),
            ("unconfirmed", planned.iter().any(|stack| stack.unconfirmed).to_string()),
        ],
    )?;
    for stack in planned {
        outputs::summarise(&job.env, &result_markdown("Plan", &stack.stack, &stack.result));
    }
    Ok(())
}

/// A result for the page of the job: counts, addresses by action, the plan folded away.
pub fn result_markdown(what: &str, key: &str, result: &StackResult) -> String {
    let mut text = format!("### {what} of {}\n\n", escape::code(key));
    let line = "writing to a string cannot fail";
    if let Some(summary) = &result.summary {
        writeln!(text, "{}\n", summary.counts_text()).expect(line);
        for (action, addresses) in address_lists(summary) {
            writeln!(
                text,
                "- {action}: {}",
                addresses.iter().map(|at| escape::code(at)).collect::<Vec<_>>().join(", ")
            )
            .expect(line);
        }
    }
    if !result.error_text.is_empty() {
        writeln!(text, "**Failed**\n\n{}", escape::fenced("text", &result.error_text)).expect(line);
    }
    if let Some(plan) = &result.plan_text {
        writeln!(text, "\n<details><summary>Plan</summary>\n\n{}\n</details>", escape::fenced("terraform", plan))
            .expect(line);
    }
    text
}

/// Addresses in a list for people; the page of the run has them all.
const ADDRESSES_SHOWN_MAX: usize = 50;

fn address_lists(summary: &PlanSummary) -> Vec<(&'static str, Vec<&str>)> {
    let lists = [
        ("add", &summary.added),
        ("change", &summary.changed),
        ("destroy", &summary.destroyed),
        ("replace", &summary.replaced),
    ];
    lists
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(action, list)| (action, list.iter().take(ADDRESSES_SHOWN_MAX).map(String::as_str).collect()))
        .collect()
}
