//! `stackorder demo serve`: the production server with a clock that the demo may move. Nothing else differs.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio::sync::{Notify, watch};

use super::control::{CONTROL_VARIABLE, ControlLine};
use crate::clock::SystemClock;
use crate::server::{self, Surroundings};
use crate::settings::Settings;

/// Serves until the demo ends.
pub async fn run() -> anyhow::Result<()> {
    let variables = std::env::vars().collect();
    let settings = match Settings::from_environment(&variables) {
        Ok(settings) => settings,
        Err(problems) => {
            let list: Vec<String> = problems.iter().map(ToString::to_string).collect();
            bail!("{}", list.join("; "));
        }
    };
    let control = variables.get(CONTROL_VARIABLE).context("this command is started by `stackorder demo`")?;
    let clock = Arc::new(SystemClock::default());
    let clock_moved = Arc::new(Notify::new());
    crate::cli::start_server_logging(&settings);
    let (stop, stopping) = watch::channel(false);
    let mut line = ControlLine::connect(control, clock.clone(), clock_moved.clone(), stop).await?;
    server::run(settings, Surroundings { clock, stop: stopping, clock_moved }, move |_| line.say_ready()).await?;
    Ok(())
}
