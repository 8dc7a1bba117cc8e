//! `stackorder demo --story`: plays the whole life of a change by itself and checks every promise (design §6).
//!
//! The story is also the end-to-end test. A step is one async function, and it fails at the first broken promise.
//!
//! - `stage`: what the steps can do and see; `killer`: kills the server meanwhile; `outcome`: what was left behind.
//! - `steps`: the first life, from installing to a locked pull request; `trouble`: failures, lost messages, drift.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use serde::Serialize;

use super::laptop::{Laptop, LaptopOptions};
use crate::clock::{Clock as _, DAY_MS, Millis, SystemClock};
use killer::Killer;
use stage::Stage;

mod killer;
mod outcome;
mod stage;
mod steps;
mod trouble;

pub struct StoryOptions {
    pub laptop: LaptopOptions,
    pub report: Option<PathBuf>,
    /// Seed of the moments at which the server is killed.
    pub kills: Option<u64>,
    pub outcome: Option<PathBuf>,
}

/// What `--report` writes.
#[derive(Debug, Serialize)]
struct Report {
    steps: Vec<StepReport>,
    ok: bool,
    tool: String,
}

#[derive(Debug, Serialize)]
struct StepReport {
    name: &'static str,
    ok: bool,
    ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The steps in order, as the report names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Install,
    Bootstrap,
    Documentation,
    PlanModule,
    Refused,
    Apply,
    Environments,
    NoopAndMerge,
    OutputChange,
    Locked,
    Failure,
    Killed,
    LostWebhooks,
    ServerDown,
    Drift,
}

impl Step {
    const ALL: [Step; 15] = [
        Step::Install,
        Step::Bootstrap,
        Step::Documentation,
        Step::PlanModule,
        Step::Refused,
        Step::Apply,
        Step::Environments,
        Step::NoopAndMerge,
        Step::OutputChange,
        Step::Locked,
        Step::Failure,
        Step::Killed,
        Step::LostWebhooks,
        Step::ServerDown,
        Step::Drift,
    ];

    fn name(self) -> &'static str {
        match self {
            Step::Install => "install and first graph",
            Step::Bootstrap => "every stack applied once from outside Actions",
            Step::Documentation => "a documentation-only pull request affects nothing",
            Step::PlanModule => "a module change plans five stacks in two waves",
            Step::Refused => "an apply before approval is refused",
            Step::Apply => "approved, the apply takes its locks and dispatches wave 0",
            Step::Environments => "production waits for a reviewer while staging proceeds",
            Step::NoopAndMerge => "empty propagated plans are no-ops, and the merge releases the locks",
            Step::OutputChange => "a changed output makes its reader wait for a second apply",
            Step::Locked => "a second pull request on a locked stack is refused",
            Step::Failure => "a failing apply blocks its dependents and keeps the locks",
            Step::Killed => "a job killed mid-apply leaves an unknown stack and a way out",
            Step::LostWebhooks => "with webhooks lost, the run still advances",
            Step::ServerDown => "plans degrade and applies fail closed while the server is down",
            Step::Drift => "drift opens one issue and closes it",
        }
    }

    /// Where in the step the server may be killed: bytes by which the journal grows in it, less than it grows in any run.
    fn journal_bytes(self) -> u64 {
        match self {
            Step::Refused => 60_000,
            Step::Bootstrap | Step::Apply => 100_000,
            Step::Install | Step::Documentation | Step::Environments => 250_000,
            Step::ServerDown => 400_000,
            Step::Locked => 700_000,
            Step::PlanModule | Step::NoopAndMerge | Step::Failure | Step::LostWebhooks => 900_000,
            Step::OutputChange => 1_500_000,
            Step::Killed | Step::Drift => 2_500_000,
        }
    }

    async fn play(self, stage: &mut Stage) -> anyhow::Result<()> {
        match self {
            Step::Install => steps::install(stage).await,
            Step::Bootstrap => steps::bootstrap(stage).await,
            Step::Documentation => steps::documentation(stage).await,
            Step::PlanModule => steps::plan_module(stage).await,
            Step::Refused => steps::refused(stage).await,
            Step::Apply => steps::apply(stage).await,
            Step::Environments => steps::environments(stage).await,
            Step::NoopAndMerge => steps::noop_and_merge(stage).await,
            Step::OutputChange => steps::output_change(stage).await,
            Step::Locked => steps::locked(stage).await,
            Step::Failure => trouble::failure(stage).await,
            Step::Killed => trouble::killed(stage).await,
            Step::LostWebhooks => trouble::lost_webhooks(stage).await,
            Step::ServerDown => trouble::server_down(stage).await,
            Step::Drift => trouble::drift(stage).await,
        }
    }
}

/// How far the next noon (UTC) is. The story starts then, so that the sample's schedule of drift checks fires only where a
/// step moves the clock to it. Ahead and never back: the tool's own clock decides when a credential is out of date.
fn until_noon() -> Millis {
    (DAY_MS / 2 - SystemClock::default().now()).rem_euclid(DAY_MS)
}

/// Plays all steps; the error names the first broken promise.
pub async fn play(options: StoryOptions) -> anyhow::Result<()> {
    let folder = options.report.as_deref().and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    if let (Some(report), Some(folder)) = (&options.report, folder) {
        ensure!(folder.is_dir(), "cannot write {}: there is no directory {}", report.display(), folder.display());
    }
    let tool = options.laptop.tool.to_string();
    anstream::println!(
        "Stackorder's story, with {tool}. GitHub is simulated; server, CLI, workflows and state are real.\n"
    );
    let laptop = Laptop::start(LaptopOptions { clock_ahead: until_noon(), ..options.laptop }).await?;
    let mut stage = Stage::new(laptop)?;
    let killer = options.kills.map(|seed| Killer::new(seed, &stage.laptop));
    let mut report = Report { steps: Vec::new(), ok: true, tool };
    for (number, step) in Step::ALL.into_iter().enumerate() {
        anstream::println!("{:>2}. {}", number + 1, step.name());
        let started = Instant::now();
        let played = match &killer {
            Some(killer) => killer.during(number as u64, step.journal_bytes(), step.play(&mut stage)).await,
            None => step.play(&mut stage).await,
        };
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let entry = match played {
            Ok(()) => {
                anstream::println!("    ok, {:.1} s", ms as f64 / 1000.0);
                StepReport { name: step.name(), ok: true, ms, error: None }
            }
            Err(error) => {
                anstream::println!("    BROKEN: {error:#}");
                StepReport { name: step.name(), ok: false, ms, error: Some(format!("{error:#}")) }
            }
        };
        let broken = !entry.ok;
        report.ok &= entry.ok;
        report.steps.push(entry);
        if broken {
            break;
        }
    }
    stage.finish(&mut report.ok);
    if let Some(path) = &options.outcome {
        let outcome = outcome::at_rest(&stage).await?;
        std::fs::write(path, serde_json::to_string_pretty(&outcome)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &options.report {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    summary(&report);
    if report.ok { Ok(()) } else { bail!("the story broke off; the step above says where") }
}

fn summary(report: &Report) {
    let total: u64 = report.steps.iter().map(|step| step.ms).sum();
    let done = report.steps.iter().filter(|step| step.ok).count();
    anstream::println!(
        "\n{done} of {} steps kept their promises, in {:.1} s, with {}.",
        Step::ALL.len(),
        total as f64 / 1000.0,
        report.tool
    );
}
