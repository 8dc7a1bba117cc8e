//! Steps in order: conditions, outcomes, what each may take.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::Runner;
use crate::actions::expression::Contexts;
use crate::actions::expression::coerce::{is_truthy, to_text};
use crate::actions::model::{Conclusion, Status};
use crate::actions::signals::Stop;
use crate::actions::workflow::{Pairs, Source, StepBody, StepSpec};

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
    pub(super) source: Option<Source>,
    /// What is left of the using step's time.
    pub(super) timeout: Option<Duration>,
    /// Was already stopped when the using step began, so a stop is not news to its steps.
    pub(super) stop: Option<Stop>,
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
pub(super) struct StepEnd {
    pub(super) outcome: Conclusion,
    pub(super) outputs: BTreeMap<String, String>,
}

impl StepEnd {
    fn failed() -> Self {
        Self { outcome: Conclusion::Failure, outputs: BTreeMap::new() }
    }
}

/// A step with everything evaluated but its body.
pub(super) struct Ready<'s> {
    pub(super) spec: &'s StepSpec,
    pub(super) contexts: Contexts,
    pub(super) env: BTreeMap<String, String>,
    pub(super) timeout: Option<Duration>,
    pub(super) stop: Stop,
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
