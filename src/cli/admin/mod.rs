//! `stackorder admin …`: what an operator does on the server's own database, and looking whether all is well.
//!
//! - `keys`: API keys.
//! - `queue`: webhooks and jobs, and dead letters put back.
//! - `doctor`: what keeps the server from working.

mod doctor;
mod keys;
mod queue;

use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Subcommand};

use super::{FormatFlag, Outcome, PICTURES_ONLY_OF_GRAPHS};
use crate::store::{self, Store};

/// Connections of a command that does one thing.
const CONNECTIONS: u32 = 1;

/// Operate a server through its database.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  stackorder admin keys list\n  stackorder admin queue list --dead\n  stackorder admin doctor"
)]
pub struct AdminArgs {
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// API keys of automation: `apply --local`, `unlock`, reading.
    Keys {
        #[command(subcommand)]
        command: keys::KeysCommand,
    },
    /// Webhooks and jobs that wait, are worked on, or were given up.
    Queue {
        #[command(subcommand)]
        command: queue::QueueCommand,
    },
    Doctor(doctor::DoctorArgs),
}

pub(super) async fn run(args: AdminArgs, format: FormatFlag) -> anyhow::Result<Outcome> {
    let format = match format {
        FormatFlag::Text => Format::Text,
        FormatFlag::Json => Format::Json,
        FormatFlag::Dot | FormatFlag::Mermaid | FormatFlag::Svg => anyhow::bail!(PICTURES_ONLY_OF_GRAPHS),
    };
    match args.command {
        AdminCommand::Keys { command } => keys::run(command, format).await?,
        AdminCommand::Queue { command } => queue::run(command, format).await?,
        AdminCommand::Doctor(args) => return doctor::run(&args, format).await,
    }
    Ok(Outcome::Success)
}

/// What these commands can print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

/// The database that `DATABASE_URL` names.
async fn database() -> anyhow::Result<Arc<dyn Store>> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set: it names the server's database")?;
    Ok(store::open(&url, CONNECTIONS).await?)
}

/// Who does it, for the audit log: the user of this machine, as far as the environment tells.
fn actor() -> String {
    let user =
        ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok()).find(|name| !name.is_empty());
    user.map_or_else(|| "admin".to_owned(), |user| format!("admin:{user}"))
}
