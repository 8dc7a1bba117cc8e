//! `stackorder resolve`.

use clap::Args;

use super::{Outcome, table};
use crate::runner::Job;
use crate::runner::console::Format;
use crate::runner::resolve::{AskedFor, resolve};
use crate::runner::stop::Stop;

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  stackorder resolve --server https://stackorder.example.com --stacks stacks/prod/vpc"
)]
pub(super) struct Flags {
    /// Compare with this commit or branch instead of the event's base
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Plan only these stacks, comma separated
    #[arg(long, value_delimiter = ',', value_name = "KEYS")]
    stacks: Vec<String>,
    /// JSON object, key to role; stacks of different roles share no chunk
    #[arg(long, value_name = "JSON")]
    role_map: Option<String>,
}

pub(super) async fn run(flags: &Flags, job: &Job) -> Result<Outcome, Stop> {
    let asked = AskedFor {
        base: flags.base.clone(),
        stacks: flags.stacks.iter().filter(|key| !key.trim().is_empty()).cloned().collect(),
        role_map: flags.role_map.clone(),
    };
    let resolution = resolve(job, &asked).await?;
    table::say_why_empty(&resolution, &job.console);
    if job.console.format == Format::Json {
        job.console.result(&serde_json::to_string(&resolution).expect("a resolution has text keys"));
    }
    if !resolution.cycles.is_empty() {
        let (text, stop) = table::cycles(&resolution);
        if job.console.format == Format::Text {
            job.console.result(&text);
        }
        return Err(stop);
    }
    if job.console.format == Format::Text {
        if let Some(run_id) = &resolution.run_id {
            job.console.result(&format!("run {run_id}"));
        }
        job.console.result(&table::affected(&resolution));
    }
    Ok(Outcome::Success)
}
