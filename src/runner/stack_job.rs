//! The steps that plans, applies and drift checks of one stack are made of (spec 12 §6.2, §6.3).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::console::Stream;
use super::hooks::Hook;
use super::process::{self, Cut, Ended, Hearers, Output, Spec, Watch};
use super::report::{Report, error_text};
use super::stack::ChosenStack;
use super::stop::Stop;
use super::tool::{ToolChoice, is_terraform, tool_environment, version_of_json, version_of_text};
use super::{Job, ScannedTree, state_lock, upstream};
use crate::api::{ResultStatus, StackResult};
use crate::config::effective;
use crate::config::model::{EnvValue, RepoConfig, Tool};
use crate::plan::summary::{Summarised, summarise};
use crate::redaction::{Redactor, add_mask};
use crate::run::status::Mode;

/// Most bytes of `show -json`; a plan of ten thousand resources has 7 MB.
const PLAN_JSON_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Why a step did not do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepError {
    pub stop: Stop,
    /// The tool's, 1 when none ran.
    pub exit_code: i32,
}

impl<E: Into<Stop>> From<E> for StepError {
    fn from(stop: E) -> Self {
        Self { stop: stop.into(), exit_code: 1 }
    }
}

impl From<super::bundle::BundleError> for Stop {
    fn from(error: super::bundle::BundleError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Files of a plan, as hooks get to know them.
#[derive(Debug, Clone, Default)]
pub struct PlanFiles {
    pub plan: PathBuf,
    pub json: PathBuf,
}

/// One stack with its tool, its environment and what it knows to be secret.
pub struct StackJob<'j> {
    job: &'j Job,
    checkout: &'j ScannedTree,
    pub stack: ChosenStack,
    report: &'j Report,
    choice: ToolChoice,
    version: String,
    env: BTreeMap<String, String>,
    redactor: Arc<Redactor>,
    directory: PathBuf,
}

impl<'j> StackJob<'j> {
    /// Prepares the environment, tells the job's log what is secret, and finds the tool.
    pub async fn start(
        job: &'j Job,
        checkout: &'j ScannedTree,
        stack: ChosenStack,
        report: &'j Report,
    ) -> Result<Self, StepError> {
        let choice = ToolChoice::of(&stack, &job.env).map_err(Stop::Failed)?;
        let redactor = redactor_of(job, &stack);
        if job.facts.is_actions {
            for line in redactor.masks() {
                job.console.process_line(Stream::Out, &add_mask(&line));
            }
        }
        let mut started = Self {
            job,
            checkout,
            report,
            choice,
            version: String::new(),
            env: tool_environment(&job.env, &stack, settings_mode(report.mode)),
            redactor: Arc::new(redactor),
            directory: job.root.join(stack.key.path()),
            stack,
        };
        started.detect().await?;
        Ok(started)
    }

    pub fn job(&self) -> &'j Job {
        self.job
    }

    pub fn report(&self) -> &'j Report {
        self.report
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The head's own configuration.
    pub fn config(&self) -> &RepoConfig {
        &self.checkout.scanned.config
    }

    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// A result of this stack with everything that is known before its outcome.
    pub fn blank(&self, status: ResultStatus) -> StackResult {
        StackResult {
            tool: self.choice.tool.as_str().to_owned(),
            tool_version: self.version.clone(),
            backend: self.stack.backend.clone(),
            ..self.report.blank(self.job, status)
        }
    }

    /// `init`; `more` are arguments of the caller.
    pub async fn init(&self, more: &[&str]) -> Result<(), StepError> {
        let settings = &self.stack.settings;
        let mut args: Vec<String> = ["init", "-input=false", "-no-color"].map(str::to_owned).to_vec();
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        for entry in &settings.backend_config {
            args.push(match entry.contains('=') {
                true => format!("-backend-config={entry}"),
                false => format!("-backend-config={}", self.job.root.join(entry).display()),
            });
        }
        let extra = self.job.env.get("STACKORDER_BACKEND_CONFIG").unwrap_or_default();
        args.extend(
            extra
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| format!("-backend-config={item}")),
        );
        if !settings.backend_config.is_empty() {
            args.push("-reconfigure".to_owned());
            self.forget_workspace()?;
        }
        self.succeed(&args).await
    }

    /// Selects the stack's workspace, where it has one.
    pub async fn select_workspace(&self) -> Result<(), StepError> {
        match self.stack.settings.workspace.as_str() {
            "" => Ok(()),
            workspace => {
                let args = ["workspace", "select", "-or-create", workspace].map(str::to_owned);
                self.succeed(&args).await
            }
        }
    }

    /// `plan` into a file. Whether it found changes is for its JSON to say.
    pub async fn plan(&self, plan_file: &Path, plan_lock: bool) -> Result<i32, StepError> {
        let lock = if plan_lock { "-lock-timeout=5m" } else { "-lock=false" };
        let mut args: Vec<String> =
            ["plan", "-input=false", "-no-color", lock, "-detailed-exitcode"].map(str::to_owned).to_vec();
        args.push(format!("-out={}", plan_file.display()));
        for file in &self.stack.settings.var_files {
            if !self.directory.join(file).is_file() {
                return Err(Stop::failed(format!("var file {}/{file} does not exist", self.stack.key.path())).into());
            }
            args.push(format!("-var-file={file}"));
        }
        let ended = self.tool(&args, Output::Console).await?;
        match (&ended.cut, ended.exit_code) {
            (None, 0 | 2) => Ok(ended.exit_code),
            _ => Err(self.step_error("plan", &ended)),
        }
    }

    /// `show -json` into a file; counts the plan and learns what it calls secret.
    pub async fn read_plan(&mut self, files: &PlanFiles) -> Result<Summarised, StepError> {
        let file =
            private_file(&files.json).map_err(|error| Stop::failed(format!("{}: {error}", files.json.display())))?;
        let args = ["show".to_owned(), "-json".to_owned(), files.plan.display().to_string()];
        let ended = self.tool(&args, Output::File(file)).await?;
        if ended.exit_code != 0 || ended.cut.is_some() {
            return Err(self.step_error("show -json", &ended));
        }
        let json = read_json(&files.json)?;
        let outputs = upstream::sensitive_outputs(&json, self.checkout, self.stack.key.path());
        Arc::make_mut(&mut self.redactor).learn(&json, &outputs);
        let summarised = summarise(&json).map_err(|error| Stop::failed(error.to_string()))?;
        // A key of `for_each` may be what another stack keeps secret.
        Ok(summarised.map_addresses(|address| self.redactor.redact(address)))
    }

    /// The plan as the tool prints it, redacted.
    pub async fn plan_text(&self, plan_file: &Path) -> Result<String, StepError> {
        let args = ["show".to_owned(), "-no-color".to_owned(), plan_file.display().to_string()];
        let ended = self.tool(&args, Output::Capture).await?;
        if ended.exit_code != 0 || ended.cut.is_some() {
            return Err(self.step_error("show", &ended));
        }
        Ok(self.redactor.redact(&String::from_utf8_lossy(&ended.captured)))
    }

    /// `apply` of a plan file. The caller looks at how it ended: even a cut apply may have done its work.
    pub async fn apply(&self, plan_file: &Path) -> Result<Ended, StepError> {
        let mut args = ["apply", "-input=false", "-no-color", "-lock-timeout=5m"].map(str::to_owned).to_vec();
        args.push(plan_file.display().to_string());
        self.tool(&args, Output::Console).await
    }

    /// Runs one of the repository's own scripts, where there is one.
    pub async fn hook(&self, hook: Hook, files: &PlanFiles) -> Result<(), StepError> {
        let Some(script) = hook.find(&self.job.root).map_err(Stop::Failed)? else { return Ok(()) };
        let mut env = self.env.clone();
        let run_id = self.report.run_id.as_ref().map(ToString::to_string).unwrap_or_default();
        env.insert("STACKORDER_RUN_ID".to_owned(), run_id);
        env.insert("STACKORDER_PLAN_FILE".to_owned(), files.plan.display().to_string());
        env.insert("STACKORDER_PLAN_JSON".to_owned(), files.json.display().to_string());
        let args = [script.display().to_string()];
        // At a terminal Ctrl-C reaches all of them anyway, and a group of its own could not ask for a passphrase.
        let hearers = if self.job.facts.is_actions { Hearers::Group } else { Hearers::Itself };
        let (directory, output) = (&self.job.root, Output::Console);
        let spec = Spec { program: "bash", args: &args, directory, env: &env, output, hearers };
        let what = format!("hook {}.sh", hook.name());
        let ended = self.run(spec, &what).await?;
        if ended.exit_code == 0 && ended.cut.is_none() { Ok(()) } else { Err(self.error_of(&what, &ended)) }
    }

    /// What a failed or cut step of the tool is called.
    pub fn step_error(&self, step: &str, ended: &Ended) -> StepError {
        let tool = self.choice.tool.as_str();
        let error = self.error_of(&format!("{tool} {step}"), ended);
        match state_lock::advice(&ended.errors, tool, self.stack.key.path()) {
            Some(advice) => StepError { stop: Stop::failed(format!("{}\n{advice}", error.stop)), ..error },
            None => error,
        }
    }

    async fn detect(&mut self) -> Result<(), StepError> {
        let json = self.answer(&["version", "-json"]).await?;
        let named = match is_terraform(&json) {
            true => version_of_json(&json).map(|version| (Tool::Terraform, version)),
            false => version_of_text(&self.answer(&["version"]).await?),
        };
        let version = version_of_json(&json).or_else(|| named.as_ref().map(|(_, version)| version.clone()));
        let Some(version) = version else {
            return Err(
                Stop::failed(format!("{:?} does not answer as a tool does to `version`", self.choice.program)).into()
            );
        };
        let wanted = &self.choice;
        if let Some((tool, _)) = named.filter(|(tool, _)| *tool != wanted.tool) {
            let (program, wanted) = (&wanted.program, wanted.tool.as_str());
            self.job.console.warn(&format!("{program} is {}, the stack wants {wanted}", tool.as_str()));
        }
        if !wanted.wanted_version.is_empty() && wanted.wanted_version != version {
            let (tool, wanted) = (wanted.tool.as_str(), &wanted.wanted_version);
            self.job.console.warn(&format!("{tool} has version {version}, the stack wants {wanted}"));
        }
        self.version = version;
        Ok(())
    }

    async fn answer(&self, args: &[&str]) -> Result<Vec<u8>, StepError> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let ended = self.tool(&args, Output::Capture).await?;
        match ended.cut {
            Some(cut) => Err(Stop::failed(cut.to_string()).into()),
            None => Ok(ended.captured),
        }
    }

    /// The selected workspace may be another instance's, and `init` under a new backend would ask for it.
    fn forget_workspace(&self) -> Result<(), Stop> {
        let data = self.directory.join(self.job.env.get("TF_DATA_DIR").unwrap_or(".terraform"));
        match fs::remove_file(data.join("environment")) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Stop::failed(format!("{}/environment: {error}", data.display()))),
        }
    }

    async fn succeed(&self, args: &[String]) -> Result<(), StepError> {
        let ended = self.tool(args, Output::Console).await?;
        if ended.exit_code == 0 && ended.cut.is_none() { Ok(()) } else { Err(self.step_error(&args[0], &ended)) }
    }

    async fn tool(&self, args: &[String], output: Output) -> Result<Ended, StepError> {
        let spec = Spec {
            program: &self.choice.program,
            args,
            directory: &self.directory,
            env: &self.env,
            output,
            hearers: Hearers::Itself,
        };
        self.run(spec, &self.choice.program).await
    }

    async fn run(&self, spec: Spec<'_>, what: &str) -> Result<Ended, StepError> {
        let watch = Watch { limits: &self.job.limits, console: &self.job.console, redactor: &self.redactor };
        let on_cut = async |cut: Cut| self.report.tell_of_cut(self.job, &cut).await;
        process::run(spec, watch, on_cut)
            .await
            .map_err(|error| Stop::failed(format!("cannot run {what}: {error}")).into())
    }

    fn error_of(&self, what: &str, ended: &Ended) -> StepError {
        let text = match &ended.cut {
            Some(cut) => format!("{cut}: {what}\n{}", ended.errors),
            None => format!("{what} failed with exit code {}\n{}", ended.exit_code, ended.errors),
        };
        let exit_code = if ended.exit_code == 0 { 1 } else { ended.exit_code };
        StepError { stop: Stop::Failed(error_text(&self.redactor, &text)), exit_code }
    }
}

/// The values of both: of the process, and of the stack's `env` in every mode.
pub fn redactor_of(job: &Job, stack: &ChosenStack) -> Redactor {
    let mut variables: Vec<(&str, &str)> = job.env.iter().collect();
    for (name, value) in &stack.settings.env {
        let values = match value {
            EnvValue::Every(text) => [Some(text), None, None],
            EnvValue::PerMode { plan, apply, drift } => [plan.as_ref(), apply.as_ref(), drift.as_ref()],
        };
        variables.extend(values.into_iter().flatten().map(|text| (name.as_str(), text.as_str())));
    }
    Redactor::new().with_environment(variables)
}

fn settings_mode(mode: Mode) -> effective::Mode {
    match mode {
        Mode::Plan => effective::Mode::Plan,
        Mode::Apply => effective::Mode::Apply,
        Mode::Drift => effective::Mode::Drift,
    }
}

/// A new file that only its owner may read: plan JSON holds secrets in clear.
pub(super) fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn read_json(path: &Path) -> Result<Value, Stop> {
    let broken = |reason: String| Stop::failed(format!("plan JSON: {reason}"));
    let size = fs::metadata(path).map_err(|error| broken(error.to_string()))?.len();
    if size > PLAN_JSON_BYTES_MAX {
        return Err(broken(format!("it has {size} bytes, more than {PLAN_JSON_BYTES_MAX}")));
    }
    let bytes = fs::read(path).map_err(|error| broken(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))
}
