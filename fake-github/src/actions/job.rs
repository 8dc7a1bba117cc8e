//! The runner of one job: directories, environment, steps in order, outputs, clean-up.
//!
//! - `steps`: conditions and outcomes; `script`, `uses`: the two kinds of step.
//! - `environment`: variables of every step; `files`: the files steps write; `log`: what is kept of their output.

mod environment;
mod files;
mod log;
mod script;
mod steps;
mod uses;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use github_actions_models::workflow::Job as ModelJob;
use serde_json::{Map, Value, json};

use super::expression::coerce::{to_number, to_text};
use super::expression::{Contexts, StatusFacts};
use super::host::JobChange;
use super::leg::Plan;
use super::model::{Conclusion, Status, Step};
use super::process;
use super::signals::Stop;
use super::state::Inner;
use super::workflow::{self, Pairs, StepSpec};
pub(super) use log::Log;
use steps::Scope;

/// GitHub's limit for a job that names none.
const TIMEOUT_MINUTES_DEFAULT: f64 = 360.0;

/// How a job ended.
pub(super) struct JobEnd {
    pub(super) conclusion: Conclusion,
    pub(super) outputs: BTreeMap<String, String>,
}

/// A job that has a machine.
pub(super) struct Runner<'a> {
    pub(super) engine: Arc<Inner>,
    pub(super) plan: &'a Plan,
    pub(super) job_id: i64,
    pub(super) log: Log,
    pub(super) token: String,
    pub(super) workspace: PathBuf,
    pub(super) temp: PathBuf,
    /// `env` of workflow and job, and what steps put into `GITHUB_ENV`.
    pub(super) env: BTreeMap<String, String>,
    /// What steps put into `GITHUB_PATH`, newest first.
    pub(super) path: Vec<String>,
    /// Variables of the runner itself, the same for all steps.
    pub(super) base_env: BTreeMap<String, String>,
    pub(super) github: Map<String, Value>,
    pub(super) contexts: Contexts,
    pub(super) stop: Stop,
    pub(super) killed: Stop,
    /// Undone at the end of the job, last first.
    pub(super) cleanups: Vec<Cleanup>,
    tracking_id: String,
}

/// What a stand-in leaves behind for the end of the job.
pub(super) enum Cleanup {
    /// `git config --unset-all` of this key in this checkout.
    GitConfig { checkout: PathBuf, key: String },
}

/// Runs a job on a runner of its own.
pub(super) async fn run(plan: &Plan, job_id: i64, environment: Option<&str>) -> JobEnd {
    let engine = Arc::clone(&plan.attempt.engine);
    let now = engine.host.now_ms();
    let ModelJob::NormalJob(model) = &plan.frame.node.file.model.jobs[&plan.id] else {
        return JobEnd { conclusion: Conclusion::Failure, outputs: BTreeMap::new() };
    };
    let specs = workflow::steps(model);
    engine.change_job(job_id, JobChange::InProgress, |job| {
        job.status = Status::InProgress;
        job.started_at = Some(now);
        job.runner_name = Some(format!("runner-{job_id}"));
        job.steps = step_list(&specs);
    });
    let killed = engine.state().jobs.get(&job_id).map(|record| record.killed.clone()).unwrap_or_else(Stop::new);
    let mut log = Log::new(Arc::clone(&engine), job_id);
    let end = match Runner::prepare(plan, job_id, environment, log.clone(), killed.clone()).await {
        Ok(mut runner) => runner.work(&specs).await,
        Err(message) => {
            log.error(&message);
            engine.set_step(job_id, 1, Status::Completed, Some(Conclusion::Failure));
            JobEnd { conclusion: Conclusion::Failure, outputs: BTreeMap::new() }
        }
    };
    if killed.is_set() {
        log.error(
            "The self-hosted runner lost communication with the server. Verify the machine is running and has a \
             healthy network connection.",
        );
        return JobEnd { conclusion: Conclusion::Failure, outputs: BTreeMap::new() };
    }
    end
}

impl<'a> Runner<'a> {
    async fn prepare(
        plan: &'a Plan,
        job_id: i64,
        environment: Option<&str>,
        mut log: Log,
        killed: Stop,
    ) -> Result<Self, String> {
        let engine = Arc::clone(&plan.attempt.engine);
        engine.set_step(job_id, 1, Status::InProgress, None);
        let job = engine.state().jobs.get(&job_id).map(|record| record.job.clone()).ok_or("the job is not listed")?;
        let token = engine.host.job_token(&job);
        let secrets = plan.secrets(environment);
        log.mask(&token);
        secrets.values().for_each(|secret| log.mask(secret));

        let name = plan.attempt.run.repo.rsplit('/').next().unwrap_or_default().to_owned();
        let home = engine.options.root.join("work").join(job_id.to_string());
        let (workspace, temp) = (home.join(&name).join(&name), home.join("_temp"));
        for directory in [&workspace, &temp, &engine.options.tool_cache] {
            std::fs::create_dir_all(directory).map_err(|e| format!("cannot make {}: {e}", directory.display()))?;
        }
        let event_path = temp.join("_github_workflow").join("event.json");
        write_file(&event_path, plan.attempt.run.payload.to_string().as_bytes())?;

        let mut contexts = plan.contexts(environment);
        let mut all_secrets = secrets;
        all_secrets.insert("GITHUB_TOKEN".to_owned(), token.clone());
        all_secrets.insert("github_token".to_owned(), token.clone());
        contexts.set("secrets", json!(all_secrets));
        let mut github = contexts.get("github").and_then(Value::as_object).cloned().unwrap_or_default();
        github.insert("job".to_owned(), json!(plan.id));
        github.insert("token".to_owned(), json!(token));
        github.insert("workspace".to_owned(), json!(workspace));
        github.insert("event_path".to_owned(), json!(event_path));

        let tracking_id = format!("github_{}", uuid::Uuid::new_v4());
        let mut base_env = environment::of_runner(&engine, &job, &home, &workspace, &temp);
        base_env.insert("RUNNER_TRACKING_ID".to_owned(), tracking_id.clone());
        if let Some((url, bearer)) = engine.host.oidc_request(&job) {
            log.mask(&bearer);
            base_env.insert("ACTIONS_ID_TOKEN_REQUEST_URL".to_owned(), url);
            base_env.insert("ACTIONS_ID_TOKEN_REQUEST_TOKEN".to_owned(), bearer);
        }
        contexts.set("runner", environment::runner_context(&base_env));
        contexts.set("job", json!({"status": "success", "check_run_id": job.check_run_id}));
        contexts.workspace = Some(workspace.clone());
        let mut runner = Self {
            stop: plan.stop.child(),
            engine,
            plan,
            job_id,
            log,
            token,
            workspace,
            temp,
            env: BTreeMap::new(),
            path: Vec::new(),
            base_env,
            github,
            contexts,
            killed,
            cleanups: Vec::new(),
            tracking_id,
        };
        runner.introduce(&job.permissions);
        runner.set_job_env()?;
        runner.engine.set_step(job_id, 1, Status::Completed, Some(Conclusion::Success));
        Ok(runner)
    }

    fn introduce(&mut self, permissions: &BTreeMap<String, String>) {
        let commit = self.plan.frame.node.file.source.commit.clone();
        self.log.line(&format!("Runner name: 'runner-{}'", self.job_id));
        self.log.line("##[group]GITHUB_TOKEN Permissions");
        for (scope, level) in permissions {
            self.log.line(&format!("{scope}: {level}"));
        }
        self.log.line("##[endgroup]");
        self.log.line(&format!("Uses: {} ({commit})", self.plan.frame.node.file.source.workflow_ref()));
    }

    /// `env` of the workflow, then of the job on top.
    fn set_job_env(&mut self) -> Result<(), String> {
        let file = &self.plan.frame.node.file;
        let ModelJob::NormalJob(job) = &file.model.jobs[&self.plan.id] else { return Ok(()) };
        for pairs in [Pairs::of(&file.model.env), Pairs::of(&job.env)] {
            let contexts = self.contexts_with(&Scope::of_job(), &BTreeMap::new());
            self.env.extend(steps::evaluate_pairs(&contexts, &pairs)?);
        }
        Ok(())
    }

    async fn work(&mut self, specs: &[StepSpec]) -> JobEnd {
        let timed_out = Arc::new(AtomicBool::new(false));
        let timer = match self.timeout() {
            Ok(after) => {
                let (flag, stop) = (Arc::clone(&timed_out), self.stop.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    flag.store(true, Ordering::SeqCst);
                    stop.set();
                })
            }
            Err(message) => {
                self.log.error(&message);
                return JobEnd { conclusion: Conclusion::Failure, outputs: BTreeMap::new() };
            }
        };
        let mut scope = Scope::of_job();
        self.run_steps(specs, &mut scope, 0).await;
        timer.abort();
        let number = u32::try_from(specs.len()).unwrap_or(u32::MAX - 2) + 2;
        self.engine.set_step(self.job_id, number, Status::InProgress, None);
        let outputs = self.outputs(&scope);
        self.clean_up().await;
        self.engine.set_step(self.job_id, number, Status::Completed, Some(Conclusion::Success));
        let timed_out = timed_out.load(Ordering::SeqCst);
        if timed_out {
            self.log.error("The job has exceeded the maximum execution time.");
        }
        let conclusion = match (&outputs, timed_out) {
            (_, true) => Conclusion::TimedOut,
            _ if scope.failed => Conclusion::Failure,
            _ if self.stop.is_set() => Conclusion::Cancelled,
            (Err(_), _) => Conclusion::Failure,
            (Ok(_), false) => Conclusion::Success,
        };
        let outputs = outputs.unwrap_or_else(|message| {
            self.log.error(&message);
            BTreeMap::new()
        });
        JobEnd { conclusion, outputs }
    }

    fn timeout(&self) -> Result<std::time::Duration, String> {
        let ModelJob::NormalJob(job) = &self.plan.frame.node.file.model.jobs[&self.plan.id] else {
            return Err("the job calls a workflow".to_owned());
        };
        let minutes = match &job.timeout_minutes {
            None => TIMEOUT_MINUTES_DEFAULT,
            Some(minutes) => self.minutes(&self.contexts, &workflow::literal_or_raw(minutes))?,
        };
        Ok(self.engine.options.timing.minute.mul_f64(minutes))
    }

    /// A `timeout-minutes`; GitHub drops the fraction of anything from one minute up.
    fn minutes(&self, contexts: &Contexts, template: &str) -> Result<f64, String> {
        let minutes = to_number(&contexts.value(template).map_err(|e| e.to_string())?);
        if minutes.is_finite() && (0.0..1e6).contains(&minutes) {
            Ok(minutes)
        } else {
            Err(format!("timeout-minutes `{template}` is not a number of minutes"))
        }
    }

    /// Everything a step's expressions see, with `extra` on top of the job's `env`.
    fn contexts_with(&self, scope: &Scope, extra: &BTreeMap<String, String>) -> Contexts {
        let mut contexts = self.contexts.clone();
        let mut env = self.env.clone();
        env.extend(scope.env.clone());
        env.extend(extra.clone());
        contexts.set("env", json!(env));
        contexts.set("steps", Value::Object(scope.steps.clone()));
        if let Some(inputs) = &scope.inputs {
            contexts = contexts.without(&["secrets", "vars", "needs"]);
            contexts.set("inputs", inputs.clone());
        }
        let mut github = self.github.clone();
        github.extend(scope.github.clone());
        contexts.set("github", Value::Object(github));
        let cancelled = self.stop.is_set();
        let status = if scope.failed {
            "failure"
        } else if cancelled {
            "cancelled"
        } else {
            "success"
        };
        let mut job = contexts.get("job").and_then(Value::as_object).cloned().unwrap_or_default();
        job.insert("status".to_owned(), json!(status));
        contexts.set("job", Value::Object(job));
        contexts.status = Some(StatusFacts { success: !scope.failed && !cancelled, failure: scope.failed, cancelled });
        contexts
    }

    /// Whether the job's token may at least read in a scope.
    pub(super) fn may(&self, scope: &str) -> bool {
        self.engine.state().jobs.get(&self.job_id).is_some_and(|record| record.job.permissions.contains_key(scope))
    }

    fn outputs(&mut self, scope: &Scope) -> Result<BTreeMap<String, String>, String> {
        let ModelJob::NormalJob(job) = &self.plan.frame.node.file.model.jobs[&self.plan.id] else {
            return Ok(BTreeMap::new());
        };
        let mut contexts = self.contexts_with(scope, &BTreeMap::new());
        contexts.status = None;
        let mut outputs = BTreeMap::new();
        for (name, template) in &job.outputs {
            let value = to_text(&contexts.value(&template.to_string()).map_err(|e| e.to_string())?);
            if self.log.holds_secret(&value) {
                self.log.warning(&format!("Skip output '{name}' since it may contain secret."));
            } else {
                outputs.insert(name.clone(), value);
            }
        }
        Ok(outputs)
    }

    async fn clean_up(&mut self) {
        for cleanup in std::mem::take(&mut self.cleanups).into_iter().rev() {
            let Cleanup::GitConfig { checkout, key } = cleanup;
            self.log.line(&format!("[command]git config --local --unset-all {key}"));
            let arguments = ["config", "--local", "--unset-all", &key].map(str::to_owned);
            // The checkout may be gone; then so is the token.
            let _ = super::builtin::checkout::git(self, &checkout, &arguments, true).await;
        }
        self.log.line("Cleaning up orphan processes");
        let groups = self.engine.state().jobs.get(&self.job_id).map(|r| r.groups.clone()).unwrap_or_default();
        let tracking_id = self.tracking_id.clone();
        let home = self.engine.options.root.join("work").join(self.job_id.to_string());
        let swept = tokio::task::spawn_blocking(move || {
            process::kill_orphans(&tracking_id, &groups);
            // Plans and secrets in files end with the job. What cannot be removed is in nobody's way.
            let _ = std::fs::remove_dir_all(home);
        });
        // A sweep that panicked leaves orphans, never a wrong result.
        let _ = swept.await;
        let mut state = self.engine.state();
        if let Some(record) = state.jobs.get_mut(&self.job_id) {
            record.groups.clear();
        }
    }
}

fn step_list(specs: &[StepSpec]) -> Vec<Step> {
    let names = specs.iter().map(StepSpec::display_name);
    let all = std::iter::once("Set up job".to_owned()).chain(names).chain(std::iter::once("Complete job".to_owned()));
    all.zip(1..)
        .map(|(name, number)| Step {
            number,
            name,
            status: Status::Queued,
            conclusion: None,
            started_at: None,
            completed_at: None,
        })
        .collect()
}

/// Writes a file and the directories above it.
pub(super) fn write_file(path: &std::path::Path, bytes: &[u8]) -> Result<(), String> {
    let directory = path.parent().ok_or("a file without a directory")?;
    let fail = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
    std::fs::create_dir_all(directory).map_err(fail)?;
    std::fs::write(path, bytes).map_err(fail)
}

impl Inner {
    /// Moves a listed step.
    pub(super) fn set_step(&self, job_id: i64, number: u32, status: Status, conclusion: Option<Conclusion>) {
        let now = self.host.now_ms();
        self.change_job(job_id, JobChange::Progress, |job| {
            let Some(step) = job.steps.iter_mut().find(|step| step.number == number) else { return };
            step.status = status;
            step.conclusion = conclusion;
            match status {
                Status::InProgress => step.started_at = Some(now),
                Status::Completed => {
                    step.started_at.get_or_insert(now);
                    step.completed_at = Some(now);
                }
                Status::Queued | Status::Waiting | Status::Pending => {}
            }
        });
    }
}
