//! What a file may not hold because this engine could only skip it, and what makes it no workflow at all.

use github_actions_models::workflow::Workflow;
use serde_json::{Map, Value};

use super::{Refusal, Source, needs};
use crate::actions::expression::template::{Piece, split};
use crate::actions::expression::{ExpressionError, check};

/// A refusal that still looks for its line.
pub(super) struct Complaint {
    pub(super) needle: String,
    pub(super) message: String,
}

impl Complaint {
    pub(super) fn at(self, source: &Source, text: &str) -> Refusal {
        let inside = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let names = |line: &str| {
            line.match_indices(&self.needle).any(|(at, found)| {
                let before = line[..at].chars().next_back().is_some_and(inside);
                let after = line[at + found.len()..].chars().next().is_some_and(inside);
                !(before || after && found.ends_with(inside))
            })
        };
        let line = text.lines().position(names).map_or(1, |i| i + 1);
        Refusal { repo: source.repo.clone(), path: source.path.clone(), line, message: self.message }
    }
}

const WORKFLOW_KEYS: [&str; 8] = ["name", "run-name", "on", "permissions", "env", "defaults", "concurrency", "jobs"];
const JOB_KEYS: [&str; 14] = [
    "name",
    "permissions",
    "needs",
    "if",
    "runs-on",
    "environment",
    "concurrency",
    "outputs",
    "env",
    "defaults",
    "steps",
    "timeout-minutes",
    "strategy",
    "continue-on-error",
];
const CALL_KEYS: [&str; 9] =
    ["name", "permissions", "needs", "if", "uses", "with", "secrets", "strategy", "concurrency"];
pub(super) const STEP_KEYS: [&str; 10] =
    ["id", "if", "name", "uses", "run", "working-directory", "shell", "with", "env", "continue-on-error"];
const TIMED_STEP_KEYS: [&str; 1] = ["timeout-minutes"];
const EVENT_KEYS: [&str; 13] = [
    "types",
    "branches",
    "branches-ignore",
    "tags",
    "tags-ignore",
    "paths",
    "paths-ignore",
    "inputs",
    "outputs",
    "secrets",
    "workflows",
    "names",
    "versions",
];

pub(super) fn check_workflow(raw: &Value) -> Result<(), Complaint> {
    check_keys(raw, &WORKFLOW_KEYS, "a workflow")?;
    if raw.get("on").is_none() {
        return Err(Complaint { needle: String::new(), message: "No event triggers defined in `on`".to_owned() });
    }
    if let Value::Object(events) = &raw["on"] {
        for (event, settings) in events.iter().filter(|(event, _)| *event != "schedule") {
            check_keys(settings, &EVENT_KEYS, &format!("`on.{event}`"))?;
            for (one, other) in [("branches", "branches-ignore"), ("tags", "tags-ignore"), ("paths", "paths-ignore")] {
                if settings.get(one).is_some() && settings.get(other).is_some() {
                    return Err(Complaint {
                        needle: format!("{other}:"),
                        message: format!("you may only define one of `{one}` and `{other}` for `{event}`"),
                    });
                }
            }
        }
    }
    check_keys(&raw["defaults"], &["run"], "`defaults`")?;
    check_concurrency(&raw["concurrency"])?;
    let Some(jobs) = raw["jobs"].as_object().filter(|jobs| !jobs.is_empty()) else {
        return Err(Complaint { needle: "jobs".to_owned(), message: "the workflow has no jobs".to_owned() });
    };
    jobs.iter().try_for_each(|(id, job)| check_job(id, job, jobs))
}

fn check_job(id: &str, job: &Value, jobs: &Map<String, Value>) -> Result<(), Complaint> {
    let is_call = job.get("uses").is_some();
    check_keys(job, if is_call { &CALL_KEYS } else { &JOB_KEYS }, &format!("job `{id}`"))?;
    check_keys(&job["strategy"], &["matrix", "fail-fast", "max-parallel"], &format!("the strategy of job `{id}`"))?;
    check_keys(&job["defaults"], &["run"], &format!("the defaults of job `{id}`"))?;
    check_keys(&job["environment"], &["name", "url"], &format!("the environment of job `{id}`"))?;
    check_concurrency(&job["concurrency"])?;
    let needs = match &job["needs"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if let Some(missing) = needs.iter().find(|need| !jobs.contains_key(**need)) {
        let message = format!("Job '{id}' depends on unknown job '{missing}'.");
        return Err(Complaint { needle: (*missing).to_owned(), message });
    }
    for step in job["steps"].as_array().into_iter().flatten() {
        let keys = [STEP_KEYS.as_slice(), TIMED_STEP_KEYS.as_slice()].concat();
        check_keys(step, &keys, &format!("a step of job `{id}`"))?;
        if step.get("run").is_some() == step.get("uses").is_some() {
            let needle = step["name"].as_str().unwrap_or(id).to_owned();
            let message = format!("a step of job `{id}` must have exactly one of `run` and `uses`");
            return Err(Complaint { needle, message });
        }
    }
    Ok(())
}

fn check_concurrency(value: &Value) -> Result<(), Complaint> {
    check_keys(value, &["group", "cancel-in-progress", "queue"], "`concurrency`")?;
    match value.get("queue").map(|queue| queue.as_str().unwrap_or_default()) {
        None | Some("single") => Ok(()),
        Some(other) => Err(Complaint {
            needle: "queue:".to_owned(),
            message: format!("`concurrency.queue: {other}` is not supported by this engine"),
        }),
    }
}

/// Every expression in the file parses, also in steps that may never run. The file's parser bounds the depth.
pub(super) fn check_expressions(value: &Value, is_condition: bool) -> Result<(), Complaint> {
    match value {
        Value::String(text) => {
            let complain = |error: ExpressionError| {
                let needle = text.trim().lines().next().unwrap_or_default().to_owned();
                Complaint { needle, message: error.to_string() }
            };
            let pieces = split(text).map_err(complain)?;
            pieces.iter().try_for_each(|piece| match piece {
                Piece::Expression(expression) => check(expression).map_err(complain),
                Piece::Text(bare) if is_condition && pieces.len() == 1 => check(bare).map_err(complain),
                Piece::Text(_) => Ok(()),
            })
        }
        Value::Array(items) => items.iter().try_for_each(|item| check_expressions(item, false)),
        Value::Object(members) => members.iter().try_for_each(|(key, item)| check_expressions(item, key == "if")),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

pub(super) fn check_keys(value: &Value, known: &[&str], place: &str) -> Result<(), Complaint> {
    let unknown = value.as_object().into_iter().flatten().find(|(key, _)| !known.contains(&key.as_str()));
    match unknown {
        None => Ok(()),
        Some((key, _)) => Err(Complaint {
            needle: format!("{key}:"),
            message: format!("`{key}` in {place} is not supported by this engine"),
        }),
    }
}

/// The first need that leads back to itself.
pub(in crate::actions) fn cycle(model: &Workflow) -> Option<&str> {
    let mut settled: Vec<&str> = Vec::new();
    while settled.len() < model.jobs.len() {
        let ready = model.jobs.iter().find(|(id, job)| {
            !settled.contains(&id.as_str()) && needs(job).iter().all(|need| settled.contains(&need.as_str()))
        });
        match ready {
            Some((id, _)) => settled.push(id),
            None => return model.jobs.keys().map(String::as_str).find(|id| !settled.contains(id)),
        }
    }
    None
}
