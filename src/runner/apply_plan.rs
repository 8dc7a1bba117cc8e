//! Which plan an apply job may use: the bundle that was reviewed, or a fresh plan that does exactly the same
//! (spec 12 §6.3).

use std::path::{Path, PathBuf};

use super::bundle::{self, Found};
use super::plan::artifact_of;
use super::stack_job::{PlanFiles, StackJob, StepError};
use super::stop::Stop;
use super::tool::PLAN_IDENTITY;
use super::{Job, seal};
use crate::api::ClaimResponse;
use crate::guide::Topic;
use crate::ids::StackKey;
use crate::plan::summary::{Addresses, Summarised};

/// Most addresses that a refusal lists per action.
const LISTED_MAX: usize = 20;

/// A plan that is proved to be the one that was approved.
#[derive(Debug)]
pub struct ApprovedPlan {
    pub files: PlanFiles,
    pub summarised: Summarised,
    /// Of the bundle in use; `None` for a fresh plan.
    pub bundle_sha256: Option<String>,
}

/// How the job comes to its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The plan file of a bundle whose digest is the recorded one.
    Bundle { directory: PathBuf, plan: PathBuf },
    /// Plan again and compare; the text says why.
    Again(String),
}

/// Where the plain bundle is: where it was downloaded to, or, when it was sealed, where it was opened.
pub fn opened(job: &Job, downloaded: Option<&Path>, key: &StackKey) -> Result<Option<PathBuf>, Stop> {
    let Some(directory) = downloaded else { return Ok(None) };
    let Ok(Found::Encrypted(file)) = bundle::find(directory) else { return Ok(Some(directory.to_owned())) };
    let refused = |reason: String| Stop::refused(Topic::BundleSealed, reason);
    let identity = job
        .env
        .get(PLAN_IDENTITY)
        .ok_or_else(|| refused(format!("{} is encrypted, and {PLAN_IDENTITY} holds no key for it", file.display())))?;
    let into = opened_directory(job, key)?;
    seal::open(&file, identity, &into).map_err(|error| refused(format!("{PLAN_IDENTITY}: {error}")))?;
    Ok(Some(into))
}

/// Nothing plain of a sealed bundle stays behind.
pub fn forget_opened(job: &Job, key: &StackKey) {
    let removed = opened_directory(job, key).map(std::fs::remove_dir_all);
    if let Ok(Err(error)) = removed
        && error.kind() != std::io::ErrorKind::NotFound
    {
        job.console.warn(&format!("the opened plan cannot be removed: {error}"));
    }
}

fn opened_directory(job: &Job, key: &StackKey) -> Result<PathBuf, Stop> {
    Ok(job.plan_dir()?.join(format!("opened-{}", artifact_of(job, key))))
}

/// Decides between bundle and fresh plan from what is on disk and what the claim says.
pub fn source(
    claim: &ClaimResponse,
    directory: Option<&Path>,
    now: crate::clock::Millis,
    is_from_plan: bool,
) -> Result<Source, Stop> {
    if !is_from_plan {
        return Ok(Source::Again("apply.from_plan is false".to_owned()));
    }
    let found = match directory {
        Some(directory) => bundle::find(directory).map_err(|error| Stop::refused(Topic::BundleMissing, error))?,
        None => Found::Nothing,
    };
    let (directory, plan) = match (found, directory) {
        (Found::Plain(plan), Some(directory)) => (directory, plan),
        (Found::Encrypted(file), _) => {
            let name = file.display();
            return Err(Stop::refused(Topic::BundleSealed, format!("{name} is sealed twice")));
        }
        (Found::Nothing | Found::Plain(_), _) => {
            let row = &claim.row;
            return if row.plan_artifact.is_empty() {
                Ok(Source::Again("its plan left no artifact".to_owned()))
            } else if row.plan_artifact_expires_at.is_some_and(|at| at <= now) {
                Ok(Source::Again(format!("the artifact {} has expired", row.plan_artifact)))
            } else {
                Err(Stop::refused(
                    Topic::BundleMissing,
                    format!("the plan could not be fetched: the artifact {} should still be there", row.plan_artifact),
                ))
            };
        }
    };
    let digest = bundle::digest(directory).map_err(|error| Stop::refused(Topic::BundleDiffers, error))?;
    if claim.bundle_sha256.is_empty() {
        return Err(Stop::refused(
            Topic::BundleDiffers,
            "the server has recorded no digest for this plan, so nothing proves the bundle",
        ));
    }
    if digest != claim.bundle_sha256 {
        let recorded = &claim.bundle_sha256;
        return Err(Stop::refused(
            Topic::BundleDiffers,
            format!(
                "this is not the plan that was approved: the bundle has digest {digest}, the approved one {recorded}"
            ),
        ));
    }
    Ok(Source::Bundle { directory: directory.to_owned(), plan })
}

/// Brings the stack to the point where the approved plan can be applied.
pub async fn prepare(
    stack_job: &mut StackJob<'_>,
    claim: &ClaimResponse,
    source: Source,
    plan_lock: bool,
) -> Result<ApprovedPlan, StepError> {
    let job = stack_job.job();
    let artifact = artifact_of(job, &stack_job.stack.key);
    let work = job.plan_dir()?.join(format!("apply-{artifact}"));
    bundle::make_empty(&work)?;
    let json = work.join(format!("{artifact}.json"));
    let why = match source {
        Source::Again(why) => why,
        Source::Bundle { directory, plan } => {
            let mut in_place = bundle::put_in_place(&directory, stack_job.directory(), &work.join("own"))?;
            match stack_job.init(&["-lockfile=readonly"]).await {
                Ok(()) => {
                    in_place.put_modules()?;
                    stack_job.select_workspace().await?;
                    let files = PlanFiles { plan, json };
                    let summarised = stack_job.read_plan(&files).await?;
                    return Ok(ApprovedPlan { files, summarised, bundle_sha256: Some(claim.bundle_sha256.clone()) });
                }
                // What was cut short says nothing about the lock file.
                Err(error) if job.limits.reached().is_some() => return Err(error),
                Err(error) => {
                    in_place.undo()?;
                    format!("init with the plan's own lock file failed: {}", error.stop)
                }
            }
        }
    };
    job.console.warn(&format!("{}: planning again: {why}", stack_job.stack.key));
    stack_job.init(&[]).await?;
    stack_job.select_workspace().await?;
    let files = PlanFiles { plan: work.join(format!("{artifact}.tfplan")), json };
    stack_job.plan(&files.plan, plan_lock).await?;
    let summarised = stack_job.read_plan(&files).await?;
    compare(claim, &summarised)?;
    Ok(ApprovedPlan { files, summarised, bundle_sha256: None })
}

/// A fresh plan may be applied when it does the same to the same addresses.
fn compare(claim: &ClaimResponse, fresh: &Summarised) -> Result<(), Stop> {
    let digest = fresh.summary.actions_digest.as_deref().unwrap_or_default();
    if claim.actions_digest.is_empty() {
        return Err(Stop::refused(
            Topic::FreshPlanDiffers,
            "the server has recorded no actions for this plan to compare the fresh one with",
        ));
    }
    if digest == claim.actions_digest {
        return Ok(());
    }
    let differences = differences(&claim.addresses, &fresh.addresses);
    let listed = if differences.is_empty() { "  (beyond the recorded addresses)".to_owned() } else { differences };
    Err(Stop::refused(
        Topic::FreshPlanDiffers,
        format!("planned again, and the plan is not the one that was approved:\n{listed}"),
    ))
}

fn differences(recorded: &Addresses, fresh: &Addresses) -> String {
    let lists = [
        ("add", &recorded.added, &fresh.added),
        ("change", &recorded.changed, &fresh.changed),
        ("destroy", &recorded.destroyed, &fresh.destroyed),
        ("replace", &recorded.replaced, &fresh.replaced),
    ];
    let mut lines = Vec::new();
    for (action, recorded, fresh) in lists {
        let gone = recorded.difference(fresh).map(|address| format!("  no longer {action} {address}"));
        let new = fresh.difference(recorded).map(|address| format!("  now {action} {address}"));
        lines.extend(gone.take(LISTED_MAX).chain(new.take(LISTED_MAX)));
    }
    lines.join("\n")
}
