//! Workflow and action files: read, checked, and refused where this engine cannot do what they ask.
//!
//! `github-actions-models` decides what is well formed. It drops what it does not know (defaults of inputs, a few keys),
//! so the plain value of the file is kept beside it and every key is looked at once.

use github_actions_models::action::{self, Action, Runs};
use github_actions_models::common::Uses;
use github_actions_models::workflow::job::{NormalJob, ReusableWorkflowCallJob, RunStep, Step, UsesStep};
use github_actions_models::workflow::{Job, Workflow};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::expression::template::{Piece, split};
use super::expression::{ExpressionError, check};

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

/// A step of a job or of a composite action, in one form.
#[derive(Debug, Clone)]
pub(super) struct StepSpec {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) condition: Option<String>,
    pub(super) continue_on_error: String,
    pub(super) timeout_minutes: Option<String>,
    pub(super) env: Pairs,
    pub(super) body: StepBody,
}

#[derive(Debug, Clone)]
pub(super) enum StepBody {
    Uses { uses: String, with: Pairs },
    Run { script: String, shell: Option<String>, working_directory: Option<String> },
}

/// A mapping of templates, or one expression that gives the mapping.
#[derive(Debug, Clone)]
pub(super) enum Pairs {
    Literal(Vec<(String, String)>),
    Expression(String),
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

/// The steps of a job, in one form.
pub(super) fn steps(job: &NormalJob) -> Vec<StepSpec> {
    job.steps.iter().filter_map(StepSpec::from_job).collect()
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

    fn from_action(step: &action::Step) -> Self {
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
    pub(super) fn display_name(&self) -> String {
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
    pub(super) fn of(env: &LoE<github_actions_models::common::Env>) -> Self {
        match env {
            LoE::Expr(expression) => Self::Expression(expression.as_curly().to_owned()),
            LoE::Literal(pairs) => Self::Literal(pairs.iter().map(|(k, v)| (k.clone(), v.to_string())).collect()),
        }
    }
}

/// A literal as text, or the expression with its fence: either way a template.
pub(super) fn literal_or_raw<T: std::fmt::Display>(value: &LoE<T>) -> String {
    match value {
        LoE::Expr(expression) => expression.as_curly().to_owned(),
        LoE::Literal(literal) => literal.to_string(),
    }
}

pub(super) fn condition(value: &github_actions_models::common::If) -> String {
    match value {
        github_actions_models::common::If::Bool(b) => b.to_string(),
        github_actions_models::common::If::Expr(expression) => expression.clone(),
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

/// A refusal that still looks for its line.
struct Complaint {
    needle: String,
    message: String,
}

impl Complaint {
    fn at(self, source: &Source, text: &str) -> Refusal {
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
const STEP_KEYS: [&str; 10] =
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

fn check_workflow(raw: &Value) -> Result<(), Complaint> {
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
fn check_expressions(value: &Value, is_condition: bool) -> Result<(), Complaint> {
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

fn check_keys(value: &Value, known: &[&str], place: &str) -> Result<(), Complaint> {
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
pub(super) fn cycle(model: &Workflow) -> Option<&str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<WorkflowFile, String> {
        let source = Source {
            repo: "acme/infra".to_owned(),
            commit: "c".to_owned(),
            path: ".github/workflows/x.yml".to_owned(),
            full_ref: "refs/heads/main".to_owned(),
        };
        WorkflowFile::parse(source, text.as_bytes()).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn a_workflow_keeps_the_order_of_its_jobs_and_the_defaults_of_its_inputs() {
        let file = parse(
            "name: x\non:\n  workflow_dispatch:\n    inputs:\n      a: {type: number, default: 3}\njobs:\n  zeta:\n    \
             runs-on: x\n    steps: [{run: 'true'}]\n  alpha:\n    uses: ./.github/workflows/y.yml\n",
        )
        .unwrap();
        assert_eq!(file.model.jobs.keys().collect::<Vec<_>>(), ["zeta", "alpha"]);
        assert_eq!(file.events()["workflow_dispatch"]["inputs"]["a"]["default"], 3);
        assert!(call_of(&file.model.jobs["alpha"]).is_some());
    }

    #[test]
    fn what_cannot_run_is_refused_by_file_line_and_name() {
        let cases = [
            ("on: push\njobs:\n  a:\n    runs-on: x\n    container: node\n    steps: []\n", ":5:", "`container`"),
            (
                "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - background: true\n        run: x\n",
                ":6:",
                "`background`",
            ),
            ("on: push\njobs:\n  a:\n    needs: b\n    runs-on: x\n    steps: []\n", ":4:", "unknown job 'b'"),
            ("on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - name: odd\n", ":6:", "exactly one of"),
            ("on: push\nfoo: 1\njobs: {a: {runs-on: x, steps: []}}\n", ":2:", "`foo`"),
            ("jobs: {a: {runs-on: x, steps: []}}\n", ":1:", "No event triggers"),
            ("on: push\njobs: {}\n", ":2:", "no jobs"),
            ("on: [\n", ".yml:", ""),
            (
                "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - if: github.ref ==\n        run: x\n",
                ":6:",
                "invalid expression",
            ),
            (
                "on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n      - run: |\n          echo ${{ nope( }}\n",
                ":7:",
                "invalid expression",
            ),
            (
                "on: push\nconcurrency: {group: a, queue: max}\njobs: {a: {runs-on: x, steps: []}}\n",
                ":2:",
                "`concurrency.queue: max`",
            ),
        ];
        for (text, line, part) in cases {
            let refusal = parse(text).unwrap_err();
            assert!(refusal.starts_with("acme/infra/.github/workflows/x.yml:"), "{refusal}");
            assert!(refusal.contains(line) && refusal.contains(part), "{text}: {refusal}");
        }
    }

    #[test]
    fn words_that_old_yaml_takes_for_booleans_stay_words() {
        let file = parse("on: push\njobs: {n: {runs-on: x, env: {y: no, v: yes}, steps: [{run: x}]}}\n").unwrap();
        assert_eq!(file.job_raw("n")["env"], serde_json::json!({"y": "no", "v": "yes"}));
    }

    #[test]
    fn a_circle_of_needs_is_found() {
        let file = parse(
            "on: push\njobs:\n  a: {needs: b, runs-on: x, steps: []}\n  b: {needs: [a], runs-on: x, steps: []}\n",
        )
        .unwrap();
        assert_eq!(cycle(&file.model), Some("a"));
    }
}
