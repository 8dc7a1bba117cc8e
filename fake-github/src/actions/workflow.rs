//! Workflow and action files: read, checked, and refused where this engine cannot do what they ask.
//!
//! `github-actions-models` decides what is well formed. It drops what it does not know (defaults of inputs, a few keys),
//! so the plain value of the file is kept beside it and every key is looked at once.
//!
//! - `check`: what is refused; `step`: steps of jobs and actions in one form.

mod check;
mod step;

use github_actions_models::action::{Action, Runs};
use github_actions_models::workflow::job::ReusableWorkflowCallJob;
use github_actions_models::workflow::{Job, Workflow};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub(super) use check::cycle;
use check::{Complaint, STEP_KEYS, check_expressions, check_keys, check_workflow};
pub(super) use step::{Pairs, StepBody, StepSpec, condition, literal_or_raw, steps};

/// Larger files are no workflow anyone wrote.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Where a file came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) repo: String,
    pub(super) commit: String,
    pub(super) path: String,
    /// `refs/heads/main`, `refs/tags/v1`, `refs/pull/7/merge` or the commit.
    pub(super) full_ref: String,
}

impl Source {
    /// `acme/infra/.github/workflows/plan.yml@refs/heads/main`.
    pub(super) fn workflow_ref(&self) -> String {
        format!("{}/{}@{}", self.repo, self.path, self.full_ref)
    }
}

/// Why a file cannot run here: where, and what about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{repo}/{path}:{line}: {message}")]
pub(super) struct Refusal {
    pub(super) repo: String,
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) message: String,
}

/// A workflow that this engine can run.
#[derive(Debug)]
pub(super) struct WorkflowFile {
    pub(super) source: Source,
    pub(super) text: String,
    pub(super) model: Workflow,
    pub(super) raw: Value,
}

/// A composite action.
#[derive(Debug)]
pub(super) struct ActionFile {
    pub(super) source: Source,
    pub(super) action: Action,
    pub(super) steps: Vec<StepSpec>,
}

impl WorkflowFile {
    pub(super) fn parse(source: Source, bytes: &[u8]) -> Result<Self, Refusal> {
        let text = file_text(&source, bytes)?;
        let raw: Value = yaml(&source, &text)?;
        let checked = check_workflow(&raw).and_then(|()| check_expressions(&raw, false));
        checked.map_err(|complaint| complaint.at(&source, &text))?;
        let model: Workflow = yaml(&source, &text)?;
        Ok(Self { source, text, model, raw })
    }

    /// `name`, else the path.
    pub(super) fn name(&self) -> String {
        self.model.name.clone().unwrap_or_else(|| self.source.path.clone())
    }

    /// The plain value of a job.
    pub(super) fn job_raw(&self, id: &str) -> &Value {
        &self.raw["jobs"][id]
    }

    /// `on` in its long form: event to its settings.
    pub(super) fn events(&self) -> Map<String, Value> {
        long_form(&self.raw["on"])
    }

    /// A refusal about the first line that holds a text.
    pub(super) fn refuse(&self, needle: &str, message: impl Into<String>) -> Refusal {
        Complaint { needle: needle.to_owned(), message: message.into() }.at(&self.source, &self.text)
    }
}

impl ActionFile {
    pub(super) fn parse(source: Source, bytes: &[u8]) -> Result<Self, Refusal> {
        let text = file_text(&source, bytes)?;
        let refuse =
            |needle: &str, message: String| Complaint { needle: needle.to_owned(), message }.at(&source, &text);
        let raw: Value = yaml(&source, &text)?;
        let using = raw["runs"]["using"].as_str().unwrap_or_default();
        if using != "composite" {
            return Err(refuse("using:", format!("actions that run with `{using}` are not supported by this engine")));
        }
        for step in raw["runs"]["steps"].as_array().into_iter().flatten() {
            check_keys(step, &STEP_KEYS, "a step of a composite action")
                .map_err(|complaint| complaint.at(&source, &text))?;
        }
        check_expressions(&raw["runs"], false).map_err(|complaint| complaint.at(&source, &text))?;
        let action: Action = yaml(&source, &text)?;
        let Runs::Composite(composite) = &action.runs else {
            return Err(refuse("using:", "`runs` has no readable `steps`".to_owned()));
        };
        let steps = composite.steps.iter().map(StepSpec::from_action).collect();
        Ok(Self { source, action, steps })
    }
}

/// `on` of a file that may be refused otherwise; none when not even that can be read.
pub(super) fn events_of(bytes: &[u8]) -> Option<Map<String, Value>> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= FILE_BYTES_MAX)?;
    let raw: Value = parse_yaml(text).ok()?;
    raw.get("on").map(long_form)
}

fn long_form(on: &Value) -> Map<String, Value> {
    match on {
        Value::String(event) => Map::from_iter([(event.clone(), Value::Null)]),
        Value::Array(events) => {
            events.iter().filter_map(Value::as_str).map(|event| (event.to_owned(), Value::Null)).collect()
        }
        Value::Object(events) => events.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Map::new(),
    }
}

pub(super) fn needs(job: &Job) -> &[String] {
    match job {
        Job::NormalJob(job) => &job.needs,
        Job::ReusableWorkflowCallJob(job) => &job.needs,
    }
}

pub(super) fn call_of(job: &Job) -> Option<&ReusableWorkflowCallJob> {
    match job {
        Job::ReusableWorkflowCallJob(call) => Some(call),
        Job::NormalJob(_) => None,
    }
}

fn file_text(source: &Source, bytes: &[u8]) -> Result<String, Refusal> {
    let refuse = |message: String| Refusal { repo: source.repo.clone(), path: source.path.clone(), line: 1, message };
    if bytes.len() > FILE_BYTES_MAX {
        return Err(refuse(format!("the file has {} bytes, at most {FILE_BYTES_MAX} are read", bytes.len())));
    }
    String::from_utf8(bytes.to_vec()).map_err(|_| refuse("the file is not UTF-8".to_owned()))
}

fn yaml<T: DeserializeOwned>(source: &Source, text: &str) -> Result<T, Refusal> {
    parse_yaml(text).map_err(|error| {
        let line = error.location().map_or(1, |location| usize::try_from(location.line()).unwrap_or(1));
        let message = error.to_string().lines().next().unwrap_or_default().to_owned();
        Refusal { repo: source.repo.clone(), path: source.path.clone(), line, message }
    })
}

fn parse_yaml<T: DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    // `on`, `yes` and `n` are words to GitHub, not booleans.
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options)
}
#[cfg(test)]
mod tests;
