//! `stackorder demo`: the whole system on a laptop (design §6).

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Outcome;
use crate::demo::laptop::LaptopOptions;
use crate::demo::story::{self, StoryOptions};
use crate::demo::tool::{DemoTool, ToolChoice};
use crate::demo::{play, serve, standin};

/// Run the whole system on this machine: Stackorder, a fake GitHub, an S3 store and a sample repository.
///
/// Without flags it stays up for you to play with. Everything listens on loopback only, and GitHub is simulated.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  stackorder demo\n  stackorder demo --story --report report.json\n  \
                        stackorder demo --story --tool stand-in --dir ./evidence")]
pub struct DemoArgs {
    /// Play the whole life of a change by itself, check every step, and exit.
    #[arg(long)]
    story: bool,
    /// Write the story's steps and timings to this file, as JSON.
    #[arg(long, value_name = "FILE", requires = "story")]
    report: Option<PathBuf>,
    /// Kill the server three times inside every step, at moments that this number decides, and restart it.
    #[arg(long, value_name = "SEED", requires = "story", conflicts_with = "servers")]
    kills: Option<u64>,
    /// Deliver every webhook and every report of a job twice.
    #[arg(long, requires = "story")]
    twice: bool,
    /// Keep the server's data in this Postgres database, which must be empty.
    #[arg(long, value_name = "URL", requires = "story")]
    database: Option<String>,
    /// Run so many servers on that database, behind a balancer.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4), requires = "database")]
    servers: u8,
    /// Write what the story left behind to this file, as sorted JSON that two runs share.
    #[arg(long, value_name = "FILE", requires = "story")]
    outcome: Option<PathBuf>,
    /// The tool to run; without it the first of terraform and tofu on PATH, else the built-in stand-in.
    #[arg(long, value_enum)]
    tool: Option<ToolChoice>,
    /// Keep everything that is written in this directory, which must be empty or new.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Port of Stackorder; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Port of the fake GitHub; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    github_port: u16,
    #[command(subcommand)]
    part: Option<DemoPart>,
}

/// Parts of the demo that it starts itself.
#[derive(Debug, Subcommand)]
enum DemoPart {
    /// The server's process.
    #[command(hide = true)]
    Serve,
    /// The stand-in for Terraform.
    #[command(hide = true)]
    StandinTool {
        #[arg(last = true)]
        args: Vec<String>,
    },
}

impl DemoArgs {
    pub fn is_server(&self) -> bool {
        matches!(self.part, Some(DemoPart::Serve))
    }
}

pub fn run(args: DemoArgs) -> Outcome {
    match args.part {
        Some(DemoPart::Serve) => super::finish(super::blocking(serve::run())),
        Some(DemoPart::StandinTool { args }) => std::process::exit(standin::run_here(args)),
        None => super::finish(super::blocking(demo(args))),
    }
}

async fn demo(args: DemoArgs) -> anyhow::Result<()> {
    let tool = DemoTool::find(args.tool)?;
    let laptop = LaptopOptions {
        twice: args.twice,
        database: args.database,
        servers: usize::from(args.servers),
        dir: args.dir,
        tool,
        port: args.port,
        github_port: args.github_port,
        clock_ahead: 0,
    };
    if args.story {
        story::play(StoryOptions { laptop, report: args.report, kills: args.kills, outcome: args.outcome }).await
    } else {
        play::stay_up(laptop).await
    }
}
