//! Steps in order: conditions, `run` under a shell, composite actions, stand-ins.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::environment::of_github;
use super::files::{StepFiles, Written};
use super::{Log, Runner};
use crate::actions::builtin;
use crate::actions::commands;
use crate::actions::expression::Contexts;
use crate::actions::expression::coerce::{is_truthy, to_text};
use crate::actions::model::{Conclusion, Status};
use crate::actions::process::{self, Ended};
use crate::actions::signals::Stop;
use crate::actions::tree::{ACTION_DEPTH_MAX, find_action, unsupported_shell};
use crate::actions::workflow::{ActionFile, Pairs, Source, StepBody, StepSpec};

/// After a cancel, steps that still run get this long; GitHub then stops hard.
const AFTER_CANCEL_MINUTES: f64 = 5.0;

/// The steps of a job or of one use of a composite action, and what they see.
pub(super) struct Scope {
    /// `inputs`, when they are the action's own.
    pub(super) inputs: Option<Value>,
    pub(super) steps: Map<String, Value>,
    /// `env` of the step that uses the action.
    pub(super) env: BTreeMap<String, String>,
    /// `github.action_path` and its like.
    pub(super) github: Map<String, Value>,
    pub(super) failed: bool,
    source: Option<Source>,
    /// What is left of the using step's time.
    timeout: Option<Duration>,
    /// Was already stopped when the using step began, so a stop is not news to its steps.
    stop: Option<Stop>,
}

impl Scope {
    pub(super) fn of_job() -> Self {
        Self {
            inputs: None,
            steps: Map::new(),
            env: BTreeMap::new(),
            github: Map::new(),
            failed: false,
            source: None,
            timeout: None,
            stop: None,
        }
    }
}

/// How one step ended.
struct StepEnd {
    outcome: Conclusion,
    outputs: BTreeMap<String, String>,
}

impl StepEnd {
    fn failed() -> Self {
        Self { outcome: Conclusion::Failure, outputs: BTreeMap::new() }
    }
}

/// A step with everything evaluated but its body.
struct Ready<'s> {
    spec: &'s StepSpec,
    contexts: Contexts,
    env: BTreeMap<String, String>,
    timeout: Option<Duration>,
    stop: Stop,
}

type Boxed<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

impl Runner<'_> {
    /// Runs steps in order. Depth 0 is the job itself, whose steps are listed.
    pub(super) fn run_steps<'f>(
        &'f mut self,
        specs: &'f [StepSpec],
        scope: &'f mut Scope,
        depth: usize,
    ) -> Boxed<'f, ()> {
        Box::pin(async move {
            for (spec, number) in specs.iter().zip(2..) {
                if self.killed.is_set() {
                    scope.failed = true;
                    return;
                }
                self.run_step(spec, scope, depth, (depth == 0).then_some(number)).await;
            }
        })
    }

    async fn run_step(&mut self, spec: &StepSpec, scope: &mut Scope, depth: usize, number: Option<u32>) {
        let contexts = self.contexts_with(scope, &BTreeMap::new());
        let for_condition = contexts.clone().without(&["secrets"]);
        let wanted = for_condition.condition(spec.condition.as_deref().unwrap_or("success()"));
        let (end, forgiven) = match wanted {
            Ok(false) => {
                self.list(number, Status::Completed, Some(Conclusion::Skipped));
                record(scope, spec, Conclusion::Skipped, Conclusion::Skipped, &BTreeMap::new());
                return;
            }
            Ok(true) => {
                self.list(number, Status::InProgress, None);
                self.attempt_step(spec, contexts, scope, depth, number).await
            }
            Err(error) => {
                self.log.error(&format!("The condition of the step is invalid: {error}"));
                (StepEnd::failed(), false)
            }
        };
        let conclusion = if end.outcome == Conclusion::Failure && forgiven { Conclusion::Success } else { end.outcome };
        scope.failed |= conclusion == Conclusion::Failure;
        record(scope, spec, end.outcome, conclusion, &end.outputs);
        self.list(number, Status::Completed, Some(conclusion));
    }

    /// The step's end, and whether a failure of it is forgiven.
    async fn attempt_step(
        &mut self,
        spec: &StepSpec,
        mut contexts: Contexts,
        scope: &Scope,
        depth: usize,
        number: Option<u32>,
    ) -> (StepEnd, bool) {
        contexts.status = None;
        let prepared = evaluate_pairs(&contexts, &spec.env).and_then(|env| {
            let mut contexts = self.contexts_with(scope, &env);
            contexts.status = None;
            let timeout = spec.timeout_minutes.as_ref().map(|t| self.minutes(&contexts, t)).transpose()?;
            let name = contexts.text(&spec.display_name()).map_err(|e| e.to_string())?;
            let forgiven = contexts.value(&spec.continue_on_error).map_err(|e| e.to_string())?;
            Ok((contexts, env, timeout, name, is_truthy(&forgiven) && to_text(&forgiven) != "false"))
        });
        let (contexts, step_env, timeout, name, forgiven) = match prepared {
            Ok(prepared) => prepared,
            Err(message) => {
                self.log.error(&message);
                return (StepEnd::failed(), false);
            }
        };
        if let Some(number) = number {
            let name = self.log.masked(&name);
            self.rename_step(number, &name);
        }
        let minute = self.engine.options.timing.minute;
        let stopped = self.stop.is_set();
        let limit = stopped.then(|| minute.mul_f64(AFTER_CANCEL_MINUTES));
        let own = timeout.map(|minutes| minute.mul_f64(minutes));
        let mut env = scope.env.clone();
        env.extend(step_env);
        let ready = Ready {
            spec,
            contexts,
            env,
            timeout: [limit, own, scope.timeout].into_iter().flatten().min(),
            // A step that runs although the job was stopped must not be stopped by the same request.
            stop: scope.stop.clone().unwrap_or_else(|| if stopped { Stop::new() } else { self.stop.clone() }),
        };
        let ended = match &spec.body {
            StepBody::Run { script, shell, working_directory } => {
                self.run_script(&ready, scope, script, shell.as_deref(), working_directory.as_deref()).await
            }
            StepBody::Uses { uses, with } => self.use_action(&ready, scope, uses, with, depth).await,
        };
        let end = ended.unwrap_or_else(|message| {
            self.log.error(&message);
            StepEnd::failed()
        });
        (end, forgiven)
    }

    async fn run_script(
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
        let (engine, job_id) = (std::sync::Arc::clone(&self.engine), self.job_id);
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
    fn step_env(&self, scope: &Scope, own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
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

    async fn use_action(
        &mut self,
        ready: &Ready<'_>,
        scope: &Scope,
        uses: &str,
        with: &Pairs,
        depth: usize,
    ) -> Result<StepEnd, String> {
        let inputs = evaluate_pairs(&ready.contexts, with)?;
        self.log.line(&format!("##[group]Run {uses}"));
        if !inputs.is_empty() {
            self.log.line("with:");
            inputs.iter().for_each(|(name, value)| self.log.line(&format!("  {name}: {value}")));
        }
        self.log.line("##[endgroup]");
        if let Some(stand_in) = builtin::find(uses) {
            let env = self.step_env(scope, &ready.env);
            let step = builtin::Use { inputs: builtin::Inputs::new(inputs), env, stop: ready.stop.clone() };
            return match builtin::run(stand_in, self, &step).await {
                Ok(outputs) => Ok(StepEnd { outcome: Conclusion::Success, outputs }),
                Err(_) if ready.stop.is_set() => {
                    self.log.error("The operation was canceled.");
                    Ok(StepEnd { outcome: Conclusion::Cancelled, outputs: BTreeMap::new() })
                }
                Err(message) => Err(message),
            };
        }
        if depth >= ACTION_DEPTH_MAX {
            return Err(format!("actions nest deeper than {ACTION_DEPTH_MAX} at `{uses}`"));
        }
        let user = scope.source.clone().unwrap_or_else(|| self.plan.frame.node.file.source.clone());
        let (action, path) = self.find_action(uses, &user).await?;
        self.run_composite(ready, action, path, inputs, depth).await
    }

    async fn find_action(&mut self, uses: &str, user: &Source) -> Result<(ActionFile, PathBuf), String> {
        if let Some(local) = uses.strip_prefix("./") {
            let directory = self.workspace.join(local.trim_matches('/'));
            let found = ["action.yml", "action.yaml"].iter().map(|name| directory.join(name)).find(|p| p.is_file());
            let missing = format!(
                "Can't find 'action.yml', 'action.yaml' or 'Dockerfile' under '{}'. Did you forget to run \
                 actions/checkout before running your local action?",
                directory.display()
            );
            let file = found.ok_or(missing)?;
            let bytes = std::fs::read(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
            let source = Source { path: uses.to_owned(), ..user.clone() };
            let action = ActionFile::parse(source, &bytes).map_err(|e| e.to_string())?;
            return Ok((action, directory));
        }
        let action = find_action(self.engine.host.as_ref(), uses, user)
            .map_err(|e| e.to_string())?
            .ok_or_else(|| format!("Unable to resolve action `{uses}`, unable to find version or action file"))?;
        let root = builtin::checkout::action_repository(self, &action.source).await?;
        let directory = Path::new(&action.source.path).parent().unwrap_or(Path::new("")).to_owned();
        Ok((action, root.join(directory)))
    }

    async fn run_composite(
        &mut self,
        ready: &Ready<'_>,
        action: ActionFile,
        path: PathBuf,
        given: BTreeMap<String, String>,
        depth: usize,
    ) -> Result<StepEnd, String> {
        let inputs = self.action_inputs(&action, given, &ready.contexts)?;
        let mut scope = Scope {
            inputs: Some(inputs),
            env: ready.env.clone(),
            source: Some(action.source.clone()),
            timeout: ready.timeout,
            stop: Some(ready.stop.clone()),
            ..Scope::of_job()
        };
        scope.github.insert("action_path".to_owned(), json!(path));
        scope.github.insert("action_repository".to_owned(), json!(action.source.repo));
        scope.github.insert("action_ref".to_owned(), json!(super::super::leg::ref_parts(&action.source.full_ref).1));
        scope.github.insert("action".to_owned(), json!(ready.spec.id.clone().unwrap_or_else(|| "__self".to_owned())));
        self.run_steps(&action.steps, &mut scope, depth + 1).await;
        let mut contexts = self.contexts_with(&scope, &BTreeMap::new());
        contexts.status = None;
        let mut outputs = BTreeMap::new();
        for (name, output) in &action.action.outputs {
            let template = output.value.as_deref().unwrap_or_default();
            outputs.insert(name.clone(), contexts.text(template).map_err(|e| e.to_string())?);
        }
        let outcome = if scope.failed {
            Conclusion::Failure
        } else if ready.stop.is_set() {
            Conclusion::Cancelled
        } else {
            Conclusion::Success
        };
        Ok(StepEnd { outcome, outputs })
    }

    /// Given inputs, and defaults for the rest.
    fn action_inputs(
        &mut self,
        action: &ActionFile,
        given: BTreeMap<String, String>,
        contexts: &Contexts,
    ) -> Result<Value, String> {
        let declared = &action.action.inputs;
        let unexpected = given.keys().filter(|name| !declared.keys().any(|known| known.eq_ignore_ascii_case(name)));
        let unexpected: Vec<String> = unexpected.map(|name| format!("'{name}'")).collect();
        if !unexpected.is_empty() {
            let valid: Vec<String> = declared.keys().map(|name| format!("'{name}'")).collect();
            let (unexpected, valid) = (unexpected.join(", "), valid.join(", "));
            self.log.warning(&format!("Unexpected input(s) {unexpected}, valid inputs are [{valid}]"));
        }
        let mut inputs = Map::new();
        for (name, input) in declared {
            let own = given.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone());
            let value = match (own, &input.default) {
                (Some(own), _) => own,
                (None, Some(default)) => contexts.text(default).map_err(|e| e.to_string())?,
                (None, None) => String::new(),
            };
            inputs.insert(name.clone(), Value::String(value));
        }
        Ok(Value::Object(inputs))
    }

    fn list(&self, number: Option<u32>, status: Status, conclusion: Option<Conclusion>) {
        if let Some(number) = number {
            self.engine.set_step(self.job_id, number, status, conclusion);
        }
    }

    fn rename_step(&self, number: u32, name: &str) {
        let mut state = self.engine.state();
        let Some(record) = state.jobs.get_mut(&self.job_id) else { return };
        if let Some(step) = record.job.steps.iter_mut().find(|step| step.number == number) {
            step.name = name.to_owned();
        }
    }
}

/// `steps.<id>` after a step.
fn record(
    scope: &mut Scope,
    spec: &StepSpec,
    outcome: Conclusion,
    conclusion: Conclusion,
    outputs: &BTreeMap<String, String>,
) {
    if let Some(id) = &spec.id {
        let value = json!({"outputs": outputs, "outcome": outcome, "conclusion": conclusion});
        scope.steps.insert(id.clone(), value);
    }
}

/// A mapping of templates as text.
pub(super) fn evaluate_pairs(contexts: &Contexts, pairs: &Pairs) -> Result<BTreeMap<String, String>, String> {
    let message = |e: crate::actions::expression::ExpressionError| e.to_string();
    match pairs {
        Pairs::Literal(pairs) => {
            pairs.iter().map(|(name, template)| Ok((name.clone(), contexts.text(template).map_err(message)?))).collect()
        }
        Pairs::Expression(expression) => match contexts.value(expression).map_err(message)? {
            Value::Object(members) => Ok(members.iter().map(|(name, value)| (name.clone(), to_text(value))).collect()),
            other => Err(format!("`{expression}` is `{}`, not a mapping", to_text(&other))),
        },
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
