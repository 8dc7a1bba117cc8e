//! Steps of jobs and of composite actions in one form: templates that are evaluated when their turn comes.

use github_actions_models::action;
use github_actions_models::common::Uses;
use github_actions_models::workflow::job::{NormalJob, RunStep, Step, UsesStep};

/// A step of a job or of a composite action, in one form.
#[derive(Debug, Clone)]
pub(in crate::actions) struct StepSpec {
    pub(in crate::actions) id: Option<String>,
    pub(in crate::actions) name: Option<String>,
    pub(in crate::actions) condition: Option<String>,
    pub(in crate::actions) continue_on_error: String,
    pub(in crate::actions) timeout_minutes: Option<String>,
    pub(in crate::actions) env: Pairs,
    pub(in crate::actions) body: StepBody,
}

#[derive(Debug, Clone)]
pub(in crate::actions) enum StepBody {
    Uses { uses: String, with: Pairs },
    Run { script: String, shell: Option<String>, working_directory: Option<String> },
}

/// A mapping of templates, or one expression that gives the mapping.
#[derive(Debug, Clone)]
pub(in crate::actions) enum Pairs {
    Literal(Vec<(String, String)>),
    Expression(String),
}
/// The steps of a job, in one form.
pub(in crate::actions) fn steps(job: &NormalJob) -> Vec<StepSpec> {
    job.steps.iter().filter_map(StepSpec::from_job).collect()
}

impl StepSpec {
    /// `None` for the kinds of step that `check_workflow` refused before.
    fn from_job(step: &Step) -> Option<Self> {
        let (shared, body) = match step {
            Step::Uses(UsesStep { uses, with, shared }) => {
                (shared, StepBody::Uses { uses: uses_text(uses), with: Pairs::of(with) })
            }
            Step::Run(RunStep { run, working_directory, shell, shared }) => {
                let shell = shell.as_ref().map(literal_or_raw);
                (shared, StepBody::Run { script: run.clone(), shell, working_directory: working_directory.clone() })
            }
            Step::Wait { .. } | Step::WaitAll { .. } | Step::Cancel { .. } | Step::Parallel { .. } => return None,
        };
        Some(Self {
            id: shared.id.clone(),
            name: shared.name.clone(),
            condition: shared.r#if.as_ref().map(condition),
            continue_on_error: literal_or_raw(&shared.continue_on_error),
            timeout_minutes: shared.timeout_minutes.as_ref().map(literal_or_raw),
            env: Pairs::of(&shared.env),
            body,
        })
    }

    pub(super) fn from_action(step: &action::Step) -> Self {
        let body = match &step.body {
            action::StepBody::Uses { uses, with } => StepBody::Uses { uses: uses_text(uses), with: Pairs::of(with) },
            action::StepBody::Run { run, shell, working_directory } => StepBody::Run {
                script: run.clone(),
                shell: Some(literal_or_raw(shell)),
                working_directory: working_directory.clone(),
            },
        };
        Self {
            id: step.id.clone(),
            name: step.name.clone(),
            condition: step.r#if.as_ref().map(condition),
            continue_on_error: literal_or_raw(&step.continue_on_error),
            timeout_minutes: None,
            env: Pairs::of(&step.env),
            body,
        }
    }

    /// The template of the step's name as GitHub lists it.
    pub(in crate::actions) fn display_name(&self) -> String {
        match (&self.name, &self.body) {
            (Some(name), _) => name.clone(),
            (None, StepBody::Uses { uses, .. }) => format!("Run {uses}"),
            (None, StepBody::Run { script, .. }) => format!("Run {}", script.trim().lines().next().unwrap_or_default()),
        }
    }
}

/// A `uses` as it was written; the model takes the scheme of containers off.
fn uses_text(uses: &Uses) -> String {
    match uses {
        Uses::Docker(image) => format!("docker://{}", image.raw()),
        Uses::Local(_) | Uses::Repository(_) => uses.raw().to_owned(),
    }
}

type LoE<T> = github_actions_models::common::expr::LoE<T>;

impl Pairs {
    pub(in crate::actions) fn of(env: &LoE<github_actions_models::common::Env>) -> Self {
        match env {
            LoE::Expr(expression) => Self::Expression(expression.as_curly().to_owned()),
            LoE::Literal(pairs) => Self::Literal(pairs.iter().map(|(k, v)| (k.clone(), v.to_string())).collect()),
        }
    }
}

/// A literal as text, or the expression with its fence: either way a template.
pub(in crate::actions) fn literal_or_raw<T: std::fmt::Display>(value: &LoE<T>) -> String {
    match value {
        LoE::Expr(expression) => expression.as_curly().to_owned(),
        LoE::Literal(literal) => literal.to_string(),
    }
}

pub(in crate::actions) fn condition(value: &github_actions_models::common::If) -> String {
    match value {
        github_actions_models::common::If::Bool(b) => b.to_string(),
        github_actions_models::common::If::Expr(expression) => expression.clone(),
    }
}
