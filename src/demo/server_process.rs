//! The server as a process of its own: started, killed as a machine that dies, and started again on the same database.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};

use super::control::{CONTROL_VARIABLE, ControlDesk};

/// Lines of its log that an early end shows.
const LOG_TAIL: usize = 5;

pub struct ServerProcess {
    program: PathBuf,
    /// All that the process gets: no credential of this machine, not even here.
    environment: BTreeMap<String, String>,
    log: PathBuf,
    desk: Arc<ControlDesk>,
    child: Option<Child>,
}

impl ServerProcess {
    pub fn new(program: PathBuf, environment: BTreeMap<String, String>, dir: &Path, desk: Arc<ControlDesk>) -> Self {
        Self { program, environment, log: dir.join("server.log"), desk, child: None }
    }

    pub fn is_up(&self) -> bool {
        self.child.is_some()
    }

    /// Starts it and waits until it answers.
    pub async fn start(&mut self) -> anyhow::Result<()> {
        if self.child.is_some() {
            return Ok(());
        }
        self.desk.expect_new_server().await;
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut child = Command::new(&self.program)
            .args(["demo", "serve"])
            .env_clear()
            .envs(&self.environment)
            .env(CONTROL_VARIABLE, self.desk.address().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone()?))
            .stderr(Stdio::from(log))
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the server")?;
        tokio::select! {
            ready = self.desk.wait_ready() => ready?,
            ended = child.wait() => bail!("the server ended at once ({}): {}", ended?, self.log_tail()),
        }
        self.child = Some(child);
        Ok(())
    }

    /// `kill -9`.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await.context("cannot kill the server")?;
        }
        Ok(())
    }

    /// Runs one operator's command on the server's own settings.
    pub async fn admin(&self, args: &[&str]) -> anyhow::Result<Vec<u8>> {
        let output = Command::new(&self.program).args(args).env_clear().envs(&self.environment).output().await?;
        if !output.status.success() {
            bail!("`stackorder {}` failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(output.stdout)
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let mut lines: Vec<&str> = log.lines().rev().take(LOG_TAIL).collect();
        lines.reverse();
        lines.join(" | ")
    }
}
