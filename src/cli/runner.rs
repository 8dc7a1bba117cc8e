//! The commands of jobs and laptops, and what each of them is given.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;
use tokio::time::Instant;

use super::{
    FormatFlag, Globals, Outcome, PICTURES_ONLY_OF_GRAPHS, affected, apply, check, config, drift, explain, graph, init,
    plan, resolve, times, unlock,
};
use crate::clock::SystemClock;
use crate::runner::console::{Console, Format, Picture};
use crate::runner::environment::Environment;
use crate::runner::facts::Facts;
use crate::runner::git::Git;
use crate::runner::interrupts::Interrupts;
use crate::runner::process::Limits;
use crate::runner::server::Server;
use crate::runner::stop::Stop;
use crate::runner::{Job, SCAN_CACHE, repo_root};

#[derive(Debug, Subcommand)]
pub(super) enum RunnerCommand {
    /// Scan, diff, register the run, print the matrix of affected stacks
    Resolve(resolve::Flags),
    /// Plan one stack or several and report
    Plan(plan::Flags),
    /// Apply the plan of one stack
    Apply(apply::Flags),
    /// Check one stack for drift
    Drift(drift::Flags),
    /// Record a named verdict on a stack's plan
    Check(check::Flags),
    /// Print the graph of stacks and modules
    Graph(graph::Flags),
    /// Print the stacks that the commits since a base reach
    Affected(affected::Flags),
    /// Print why a change reaches a stack
    Explain(explain::Flags),
    /// Check the configuration, or print what counts for a stack
    Config(config::Flags),
    /// Write a first configuration and the workflow files, and print the roles to create
    Init(init::Flags),
    /// Release orchestration locks
    Unlock(unlock::Flags),
}

impl RunnerCommand {
    fn draws(&self) -> bool {
        matches!(self, RunnerCommand::Graph(_) | RunnerCommand::Affected(_))
    }

    /// Whether it starts processes that must be told of signals, and the flag for the time they may take.
    fn timeout(&self) -> Option<Option<&str>> {
        match self {
            RunnerCommand::Plan(flags) => Some(flags.timeout.as_deref()),
            RunnerCommand::Apply(flags) => Some(flags.timeout.as_deref()),
            RunnerCommand::Drift(flags) => Some(flags.timeout.as_deref()),
            RunnerCommand::Resolve(_)
            | RunnerCommand::Check(_)
            | RunnerCommand::Graph(_)
            | RunnerCommand::Affected(_)
            | RunnerCommand::Explain(_)
            | RunnerCommand::Config(_)
            | RunnerCommand::Init(_)
            | RunnerCommand::Unlock(_) => None,
        }
    }
}

pub(super) fn run(command: RunnerCommand, globals: &Globals) -> Outcome {
    let env = Environment::of_process();
    let format = match globals.format {
        FormatFlag::Text => Format::Text,
        FormatFlag::Json => Format::Json,
        FormatFlag::Dot => Format::Picture(Picture::Dot),
        FormatFlag::Mermaid => Format::Picture(Picture::Mermaid),
        FormatFlag::Svg => Format::Picture(Picture::Svg),
    };
    let console = Console::of_process(format, env.is_actions());
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            console.error(&format!("cannot start: {error}"));
            return Outcome::Error;
        }
    };
    let result = runtime.block_on(async {
        if matches!(format, Format::Picture(_)) && !command.draws() {
            return Err(Stop::failed(PICTURES_ONLY_OF_GRAPHS));
        }
        let job = open(&command, globals, env, console.clone())?;
        dispatch(&command, &job).await
    });
    // A process that outlived its pipes must not hold up the end.
    runtime.shutdown_background();
    match result {
        Ok(Outcome::Success | Outcome::Changes) if console.lost().is_some() => {
            console.error(&format!("standard output: {}", console.lost().unwrap_or_default()));
            Outcome::Error
        }
        Ok(outcome) => outcome,
        Err(stop) => {
            console.error(&stop.to_string());
            match stop {
                Stop::Failed(_) => Outcome::Error,
                Stop::Refused(_) => Outcome::Refused,
            }
        }
    }
}

fn open(command: &RunnerCommand, globals: &Globals, env: Environment, console: Console) -> Result<Job, Stop> {
    let current = std::env::current_dir().map_err(|error| Stop::failed(format!("current directory: {error}")))?;
    let root = repo_root(globals.repo_root.clone(), &env, current)?;
    let env = match &globals.scan_cache {
        Some(directory) => env.with(SCAN_CACHE, absolute(directory)?.to_string_lossy()),
        None => env,
    };
    let git = Git::new(&root, &env);
    let facts = Facts::gather(&env, &git)?;
    let server = Server::of(globals.server.as_deref(), &env)?;
    let limits = match command.timeout() {
        // Nothing but the command itself runs, so a signal may end it at once.
        None => Limits { interrupts: Interrupts::by_hand().1, cap: None },
        Some(flag) => {
            let cap = times::cap(flag, env.get("STACKORDER_RUN_TTL"))?;
            Limits { interrupts: Interrupts::of_process(), cap: Some((Instant::now() + cap.0, cap.1)) }
        }
    };
    Ok(Job { env, root, git, facts, console, server, limits, clock: Arc::new(SystemClock::default()) })
}

/// A path of a flag, which is relative to where the command was called.
pub(super) fn absolute(path: &PathBuf) -> Result<PathBuf, Stop> {
    std::path::absolute(path).map_err(|error| Stop::failed(format!("{}: {error}", path.display())))
}

async fn dispatch(command: &RunnerCommand, job: &Job) -> Result<Outcome, Stop> {
    match command {
        RunnerCommand::Resolve(flags) => resolve::run(flags, job).await,
        RunnerCommand::Plan(flags) => plan::run(flags, job).await,
        RunnerCommand::Apply(flags) => apply::run(flags, job).await,
        RunnerCommand::Drift(flags) => drift::run(flags, job).await,
        RunnerCommand::Check(flags) => check::run(flags, job).await,
        RunnerCommand::Graph(flags) => graph::run(flags, job),
        RunnerCommand::Affected(flags) => affected::run(flags, job),
        RunnerCommand::Explain(flags) => explain::run(flags, job),
        RunnerCommand::Config(flags) => config::run(flags, job),
        RunnerCommand::Init(flags) => init::run(flags, job),
        RunnerCommand::Unlock(flags) => unlock::run(flags, job).await,
    }
}
