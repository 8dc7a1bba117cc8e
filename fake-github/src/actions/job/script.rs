//! A `run` step: its shell, its environment, what it says and writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::environment::of_github;
use super::files::{StepFiles, Written};
use super::steps::{Ready, Scope, StepEnd};
use super::{Log, Runner};
use crate::actions::commands;
use crate::actions::expression::Contexts;
use crate::actions::model::Conclusion;
use crate::actions::process::{self, Ended};
use crate::actions::tree::unsupported_shell;

impl Runner<'_> {
    pub(super) async fn run_script(
        &mut self,
        ready: &Ready<'_>,
        scope: &Scope,
        script: &str,
        shell: Option<&str>,
        directory: Option<&str>,
    ) -> Result<StepEnd, String> {
        let text = |template: &str| ready.contexts.text(template).map_err(|e| e.to_string());
        let defaults = if scope.inputs.is_some() { (None, None) } else { self.run_defaults(&ready.contexts)? };
        let script = text(script)?;
        let shell = shell.map(text).transpose()?.or(defaults.0);
        if let Some(odd) = unsupported_shell(shell.as_deref()) {
            return Err(format!("shell `{odd}` is not supported by this engine"));
        }
        let directory = directory.map(text).transpose()?.or(defaults.1).unwrap_or_default();
        let directory = self.workspace.join(directory);
        let file = self.temp.join(format!("{}.sh", uuid::Uuid::new_v4()));
        super::write_file(&file, script.as_bytes())?;
        let command = shell_command(shell.as_deref(), &file);

        self.log.line(&format!("##[group]Run {}", script.trim().lines().next().unwrap_or_default()));
        script.trim_end().lines().for_each(|line| self.log.line(line));
        self.log.line(&format!("shell: {}", command.join(" ")));
        if !ready.env.is_empty() {
            self.log.line("env:");
            ready.env.iter().for_each(|(name, value)| self.log.line(&format!("  {name}: {value}")));
        }
        self.log.line("##[endgroup]");

        let files = StepFiles::create(&self.temp)?;
        let mut env = self.step_env(scope, &ready.env);
        env.extend(files.variables());
        let (ended, mut outputs) = self.spawn(&command, &env, &directory, ready).await?;
        // It may already be gone with the temporary directory.
        let _ = std::fs::remove_file(&file);
        let written = files.collect();
        let outcome = self.outcome(ended);
        match written {
            Ok(written) => {
                outputs.extend(self.take(written));
                Ok(StepEnd { outcome, outputs })
            }
            Err(message) => {
                self.log.error(&message);
                Ok(StepEnd { outcome: Conclusion::Failure, outputs })
            }
        }
    }

    async fn spawn(
        &mut self,
        command: &[String],
        env: &BTreeMap<String, String>,
        directory: &Path,
        ready: &Ready<'_>,
    ) -> Result<(Ended, BTreeMap<String, String>), String> {
        let (engine, job_id) = (Arc::clone(&self.engine), self.job_id);
        let mut reader = Reader { log: self.log.clone(), paused: None, outputs: BTreeMap::new() };
        let spec = process::Spec {
            program: &command[0],
            arguments: &command[1..],
            env,
            directory,
            stop: &ready.stop,
            kill: &self.killed,
            timeout: ready.timeout,
            timing: self.engine.options.timing,
        };
        let on_start = move |group| {
            if let Some(record) = engine.state().jobs.get_mut(&job_id) {
                record.groups.push(group);
            }
        };
        let ended = process::run(spec, on_start, |line| reader.read(line))
            .await
            .map_err(|e| format!("cannot run {} in {}: {e}", command[0], directory.display()))?;
        Ok((ended, reader.outputs))
    }

    fn outcome(&mut self, ended: Ended) -> Conclusion {
        match ended {
            Ended::Exit(0) => Conclusion::Success,
            Ended::Exit(code) => {
                self.log.error(&format!("Process completed with exit code {code}."));
                Conclusion::Failure
            }
            Ended::Cancelled => {
                self.log.error("The operation was canceled.");
                Conclusion::Cancelled
            }
            Ended::TimedOut => {
                self.log.error("The action has timed out.");
                Conclusion::Failure
            }
            Ended::Killed => Conclusion::Failure,
        }
    }

    /// Applies what a step wrote into its files; its outputs.
    fn take(&mut self, written: Written) -> Vec<(String, String)> {
        self.env.extend(written.env);
        for directory in written.path {
            self.path.insert(0, directory);
        }
        self.log.summarize(&written.summary);
        written.outputs
    }

    /// The environment of a step's process.
    pub(super) fn step_env(&self, scope: &Scope, own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut env = self.base_env.clone();
        let mut github = self.github.clone();
        github.extend(scope.github.clone());
        env.extend(self.env.clone());
        env.extend(own.clone());
        // A job cannot pretend to be another one.
        env.extend(of_github(&github));
        if !self.path.is_empty() {
            let base = env.get("PATH").cloned().unwrap_or_default();
            env.insert("PATH".to_owned(), format!("{}:{base}", self.path.join(":")));
        }
        env
    }

    /// `defaults.run` of the job over that of the workflow: shell and working directory.
    fn run_defaults(&self, contexts: &Contexts) -> Result<(Option<String>, Option<String>), String> {
        let file = &self.plan.frame.node.file;
        let of = |name: &str| {
            let job = &file.job_raw(&self.plan.id)["defaults"]["run"][name];
            let value = if job.is_null() { &file.raw["defaults"]["run"][name] } else { job };
            value.as_str().map(|template| contexts.text(template).map_err(|e| e.to_string())).transpose()
        };
        Ok((of("shell")?, of("working-directory")?))
    }
}

/// The command line of a shell, as GitHub documents it.
fn shell_command(shell: Option<&str>, file: &Path) -> Vec<String> {
    let template = match shell {
        None => "bash -e {0}",
        Some("bash") => "bash --noprofile --norc -eo pipefail {0}",
        Some("sh") => "sh -e {0}",
        Some("python") => "python {0}",
        Some(custom) => custom,
    };
    template.split_whitespace().map(|word| word.replace("{0}", &file.display().to_string())).collect()
}

/// Reads a step's output: commands act, everything else is logged.
struct Reader {
    log: Log,
    /// After `::stop-commands::token`, until `::token::`.
    paused: Option<String>,
    outputs: BTreeMap<String, String>,
}

impl Reader {
    fn read(&mut self, line: &str) {
        if let Some(token) = &self.paused {
            if line.trim() == format!("::{token}::") {
                self.paused = None;
            } else {
                self.log.line(line);
            }
            return;
        }
        let Some(command) = commands::parse(line) else {
            self.log.line(line);
            return;
        };
        match command.name.as_str() {
            "add-mask" => {
                self.log.mask(&command.text);
                self.log.line("::add-mask::***");
            }
            "error" | "warning" | "notice" => self.log.annotate(&command),
            "group" => self.log.line(&format!("##[group]{}", command.text)),
            "endgroup" => self.log.line("##[endgroup]"),
            "debug" => {}
            "stop-commands" => self.paused = Some(command.text),
            "set-output" => {
                let name = command.properties.get("name").cloned().unwrap_or_default();
                self.log.warning("The `set-output` command is deprecated and will be disabled soon.");
                self.outputs.insert(name, command.text);
            }
            "set-env" | "add-path" => {
                self.log.error(&format!(
                    "The `{}` command is disabled. Please upgrade to using Environment Files.",
                    command.name
                ));
            }
            "save-state" | "add-matcher" | "remove-matcher" | "echo" => {
                self.log.warning(&format!("The `{}` command is not supported by this engine", command.name));
            }
            _ => self.log.line(line),
        }
    }
}
