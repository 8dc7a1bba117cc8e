//! `stackorder serve`, `healthcheck` and `check-config`: the server for operators (spec 22 §2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::watch;

use crate::clock::SystemClock;
use crate::server::{self, Surroundings};
use crate::settings::Settings;

/// Longest wait for `/healthz`.
const HEALTH_MAX: Duration = Duration::from_secs(3);

/// Serve webhooks, the runner API and the pages.
///
/// Settings come from environment variables; `stackorder check-config` lists what is missing or wrong.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  DATABASE_URL=postgres://localhost/stackorder STACKORDER_BASE_URL=https://stackorder.example.com \\\n    GITHUB_APP_ID=… GITHUB_APP_PRIVATE_KEY=… GITHUB_WEBHOOK_SECRET=… stackorder serve\n  DATABASE_URL=sqlite:///var/lib/stackorder.db … stackorder serve"
)]
pub struct ServeArgs {}

/// Ask a running server on this machine whether it answers; exit 0 or 1.
#[derive(Debug, Args)]
#[command(after_help = "Example, as the health check of a container:\n  stackorder healthcheck")]
pub struct HealthcheckArgs {}

/// Check the server's environment variables and list every problem; exit 0 or 1.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  stackorder check-config && stackorder serve")]
pub struct CheckConfigArgs {}

/// The process's environment.
pub fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Serves until interrupted or terminated. A second signal ends the process at once.
pub async fn serve() -> anyhow::Result<()> {
    let settings = load()?;
    start_logging(&settings);
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(async move {
        signalled().await;
        tracing::info!("stopping");
        stop.send_replace(true);
        signalled().await;
        std::process::exit(1);
    });
    let surroundings =
        Surroundings { clock: Arc::new(SystemClock::default()), stop: stopping, clock_moved: Arc::default() };
    server::run(settings, surroundings, |_| {}).await?;
    Ok(())
}

pub fn check_config() -> anyhow::Result<()> {
    load().map(drop)
}

pub async fn healthcheck() -> anyhow::Result<()> {
    let listen = variables().get("STACKORDER_LISTEN").cloned().unwrap_or_else(|| ":8080".to_owned());
    let port = listen.rsplit(':').next().unwrap_or("8080").to_owned();
    let host = listen.rsplit_once(':').map(|(host, _)| host).filter(|host| !matches!(*host, "" | "0.0.0.0" | "[::]"));
    let url = format!("http://{}:{port}/healthz", host.unwrap_or("127.0.0.1"));
    let client = reqwest::Client::builder().timeout(HEALTH_MAX).no_proxy().build()?;
    let answer = client.get(&url).send().await?;
    anyhow::ensure!(answer.status().is_success(), "{url} answered {}", answer.status());
    Ok(())
}

pub(super) fn load() -> anyhow::Result<Settings> {
    Settings::from_environment(&variables()).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
        anyhow::anyhow!("these settings are missing or wrong:\n{}", lines.join("\n"))
    })
}

/// One log line per event on standard error.
pub fn start_logging(settings: &Settings) {
    let filter = tracing_subscriber::EnvFilter::new(format!("{},sqlx=warn,hyper=warn", settings.log_level));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if settings.log_json {
        builder.json().init();
    } else {
        builder.with_ansi(false).init();
    }
}

async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}
