//! From an event to runs: which workflows match, what a run is called, its first and its next attempts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::expression::Contexts;
use super::host::RunChange;
use super::leg::{self, ref_parts};
use super::model::{Conclusion, DispatchError, Status, Trigger, WorkflowFacts, WorkflowRun};
use super::run::{self, Attempt, Frame, SecretSource};
use super::signals::Stop;
use super::state::{FinishedLeg, Inner, RunRecord};
use super::tree::{self, Node};
use super::triggers::{self, Event};
use super::workflow::{Source, WorkflowFile, events_of};

const DIRECTORY: &str = ".github/workflows";

/// GitHub's limits of a dispatch and of re-runs.
const INPUTS_MAX: usize = 25;
const RERUNS_MAX: u32 = 50;

/// A run that can be launched.
pub(super) struct Ready {
    run: WorkflowRun,
    inputs: Value,
    loaded: Result<Node, String>,
    previous: BTreeMap<String, FinishedLeg>,
}

/// The workflows of a trigger's commit that it starts.
pub(super) fn matching(engine: &Arc<Inner>, trigger: &Trigger) -> Vec<Ready> {
    let facts = match trigger {
        Trigger::Dispatch { .. } => return dispatched(engine, trigger).into_iter().collect(),
        Trigger::PullRequest { repo, merge_sha, number, .. } => (repo, merge_sha, format!("refs/pull/{number}/merge")),
        Trigger::Push { repo, sha, git_ref, .. } => (repo, sha, git_ref.clone()),
    };
    let (repo, commit, git_ref) = facts;
    let mut ready = Vec::new();
    for path in workflow_paths(engine, repo, commit) {
        let source = Source { repo: repo.clone(), commit: commit.clone(), path, full_ref: git_ref.clone() };
        let Some(bytes) = engine.host.read_file(repo, commit, &source.path) else { continue };
        match WorkflowFile::parse(source.clone(), &bytes) {
            Ok(file) if is_started(engine, &file.events(), trigger) => {
                ready.push(prepare(engine, &file, trigger, json!({}), BTreeMap::new()));
            }
            Ok(_) => {}
            // A file that cannot run is still known by its `on`; one without a readable `on` fails for any event.
            Err(_) if events_of(&bytes).is_some_and(|on| !is_started(engine, &on, trigger)) => {}
            Err(refusal) => {
                let run = new_run(engine, trigger, &source.path, &source.path);
                let previous = BTreeMap::new();
                ready.push(Ready { run, inputs: json!({}), loaded: Err(refusal.to_string()), previous });
            }
        }
    }
    ready
}

/// The workflow that a dispatch names, with its inputs.
pub(super) fn dispatched(engine: &Arc<Inner>, trigger: &Trigger) -> Result<Ready, DispatchError> {
    let Trigger::Dispatch { repo, file, git_ref, sha, inputs, .. } = trigger else {
        return Err(DispatchError::NoSuchWorkflow);
    };
    let path = if file.contains('/') { file.clone() } else { format!("{DIRECTORY}/{file}") };
    let default = engine.host.repository(repo).ok_or(DispatchError::NoSuchWorkflow)?.default_branch;
    let head = engine.host.resolve_ref(repo, &default).ok_or(DispatchError::NoSuchWorkflow)?;
    engine.host.read_file(repo, &head, &path).ok_or(DispatchError::NoSuchWorkflow)?;
    let bytes = engine.host.read_file(repo, sha, &path).ok_or(DispatchError::NoSuchWorkflow)?;
    if inputs.len() > INPUTS_MAX {
        let text = format!("you may only define up to {INPUTS_MAX} `inputs` for a `workflow_dispatch` event");
        return Err(DispatchError::Unprocessable(text));
    }
    let full_ref = engine.host.full_ref(repo, git_ref).unwrap_or_else(|| git_ref.clone());
    let source = Source { repo: repo.clone(), commit: sha.clone(), path, full_ref };
    let file = WorkflowFile::parse(source, &bytes).map_err(|e| DispatchError::Unprocessable(e.to_string()))?;
    let inputs = triggers::dispatch_inputs(&file.events(), inputs)?;
    Ok(prepare(engine, &file, trigger, Value::Object(inputs.typed), inputs.texts))
}

/// The next attempt of a completed run.
pub(super) fn again(engine: &Arc<Inner>, run_id: i64, failed_only: bool, actor: &str) -> Result<Ready, String> {
    let (mut run, finished) = {
        let state = engine.state();
        let record = state.runs.get(&run_id).ok_or("Not Found")?;
        if record.run.status != Status::Completed {
            return Err("This workflow is already running".to_owned());
        }
        if record.run.attempt > RERUNS_MAX {
            return Err(format!("This workflow run cannot be retried more than {RERUNS_MAX} times"));
        }
        (record.run.clone(), record.finished.clone())
    };
    run.attempt += 1;
    run.triggering_actor = actor.to_owned();
    run.status = Status::Queued;
    run.conclusion = None;
    run.started_at = engine.host.now_ms();
    let source = source_of(engine, &run);
    let loaded = tree::load(engine.host.as_ref(), source, None).map_err(|refusal| refusal.to_string());
    let inputs = match &loaded {
        Ok(node) if run.event == "workflow_dispatch" => triggers::dispatch_inputs(&node.file.events(), &run.inputs)
            .map(|inputs| Value::Object(inputs.typed))
            .map_err(|e| e.to_string())?,
        _ => json!({}),
    };
    Ok(Ready { run, inputs, loaded, previous: if failed_only { finished } else { BTreeMap::new() } })
}

/// Lists the run, tells the host and lets it go.
pub(super) fn launch(engine: &Arc<Inner>, ready: Ready) -> i64 {
    let Ready { mut run, inputs, loaded, previous } = ready;
    let id = run.id;
    let stop = Stop::new();
    let is_rerun = run.attempt > 1;
    let node = loaded.inspect_err(|_| run.title = run.path.clone());
    let startup_error = node.as_ref().err().cloned();
    {
        let mut state = engine.state();
        let mut past = Vec::new();
        if let Some(before) = state.runs.remove(&id) {
            past = before.past;
            past.push(before.run);
        }
        state.runs.insert(
            id,
            RunRecord {
                run: run.clone(),
                past,
                startup_error,
                stop: stop.clone(),
                stopping: None,
                finished: BTreeMap::new(),
                task: None,
            },
        );
    }
    // GitHub sends `requested` for the first attempt only.
    engine.change_run(id, (!is_rerun).then_some(RunChange::Requested), |_| {});
    let node = match node {
        Ok(node) => node,
        Err(_) => {
            engine.change_run(id, Some(RunChange::Completed), |run| {
                run.status = Status::Completed;
                run.conclusion = Some(Conclusion::StartupFailure);
            });
            return id;
        }
    };
    let attempt = Arc::new(Attempt { engine: Arc::clone(engine), run, inputs, stop, previous });
    let working = engine.busy.begin();
    let task = engine.runtime.spawn(run::drive(attempt, Arc::new(node), working));
    if let Some(record) = engine.state().runs.get_mut(&id) {
        record.task = Some(task.abort_handle());
    }
    id
}

/// Workflows on a repository's default branch, registered as they are seen.
pub(super) fn on_default_branch(engine: &Inner, repo: &str) -> Vec<WorkflowFacts> {
    let default = engine.host.repository(repo).map(|facts| facts.default_branch);
    let Some(commit) = default.and_then(|branch| engine.host.resolve_ref(repo, &branch)) else { return Vec::new() };
    let paths = workflow_paths(engine, repo, &commit);
    paths.iter().map(|path| register(engine, repo, path, &display_name(engine, repo, &commit, path))).collect()
}

fn display_name(engine: &Inner, repo: &str, commit: &str, path: &str) -> String {
    let source =
        Source { repo: repo.to_owned(), commit: commit.to_owned(), path: path.to_owned(), full_ref: String::new() };
    let bytes = engine.host.read_file(repo, commit, path).unwrap_or_default();
    WorkflowFile::parse(source, &bytes).map_or_else(|_| path.to_owned(), |file| file.name())
}

fn workflow_paths(engine: &Inner, repo: &str, commit: &str) -> Vec<String> {
    let names = engine.host.list_dir(repo, commit, DIRECTORY);
    let yaml = names.into_iter().filter(|name| name.ends_with(".yml") || name.ends_with(".yaml"));
    let mut paths: Vec<String> = yaml.map(|name| format!("{DIRECTORY}/{name}")).collect();
    paths.sort();
    paths
}

fn register(engine: &Inner, repo: &str, path: &str, name: &str) -> WorkflowFacts {
    let key = (repo.to_lowercase(), path.to_owned());
    let known = engine.state().workflows.get(&key).cloned();
    let id = known.map_or_else(|| engine.host.next_id(), |known| known.id);
    let facts = WorkflowFacts { id, repo: repo.to_owned(), path: path.to_owned(), name: name.to_owned() };
    engine.state().workflows.insert(key, facts.clone());
    facts
}

fn is_started(engine: &Inner, on: &Map<String, Value>, trigger: &Trigger) -> bool {
    match trigger {
        Trigger::PullRequest { repo, action, payload, head_sha, .. } => {
            let text = |pointer: &str| payload.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let changed = triggers::asks_for_paths(on, "pull_request")
                .then(|| engine.host.changed_files(repo, text("/pull_request/base/sha"), head_sha))
                .flatten();
            let base = text("/pull_request/base/ref");
            let event =
                Event { name: "pull_request", action, branch: Some(base), tag: None, paths: changed.as_deref() };
            triggers::matches(on, &event)
        }
        Trigger::Push { repo, git_ref, sha, payload, .. } => {
            let before = payload["before"].as_str().unwrap_or_default();
            let changed =
                triggers::asks_for_paths(on, "push").then(|| engine.host.changed_files(repo, before, sha)).flatten();
            let (branch, tag) = (git_ref.strip_prefix("refs/heads/"), git_ref.strip_prefix("refs/tags/"));
            triggers::matches(on, &Event { name: "push", action: "", branch, tag, paths: changed.as_deref() })
        }
        Trigger::Dispatch { .. } => on.contains_key("workflow_dispatch"),
    }
}

fn prepare(
    engine: &Arc<Inner>,
    file: &WorkflowFile,
    trigger: &Trigger,
    inputs: Value,
    texts: BTreeMap<String, String>,
) -> Ready {
    let mut run = new_run(engine, trigger, &file.source.path, &file.name());
    if run.event == "workflow_dispatch" {
        run.payload["inputs"] = if texts.is_empty() { Value::Null } else { json!(texts) };
    }
    run.inputs = texts;
    let loaded = tree::load(engine.host.as_ref(), file.source.clone(), None).map_err(|refusal| refusal.to_string());
    let loaded = loaded.and_then(|node| {
        if let Some(template) = &node.file.model.run_name {
            let named = title(engine, &run, &inputs, &node, template);
            let title = named.map_err(|message| node.file.refuse("run-name:", message).to_string())?;
            if !title.trim().is_empty() {
                run.title = title;
            }
        }
        Ok(node)
    });
    Ready { run, inputs, loaded, previous: BTreeMap::new() }
}

/// `run-name` sees `github` and `inputs`.
fn title(
    engine: &Arc<Inner>,
    run: &WorkflowRun,
    inputs: &Value,
    node: &Node,
    template: &str,
) -> Result<String, String> {
    let source = node.file.source.clone();
    let file = WorkflowFile::parse(source, node.file.text.as_bytes()).map_err(|e| e.to_string())?;
    let frame = Frame {
        node: Arc::new(Node { file, calls: BTreeMap::new() }),
        name_prefix: String::new(),
        key: String::new(),
        inputs: inputs.clone(),
        secrets: SecretSource::Repository,
        granted: None,
        stop: Stop::new(),
        held_groups: Vec::new(),
    };
    let attempt = Attempt {
        engine: Arc::clone(engine),
        run: run.clone(),
        inputs: inputs.clone(),
        stop: Stop::new(),
        previous: BTreeMap::new(),
    };
    let mut contexts = Contexts::default();
    contexts.set("github", leg::github_context(&attempt, &frame));
    contexts.set("inputs", inputs.clone());
    contexts.set("vars", json!(engine.host.variables(&run.repo, None)));
    contexts.text(template).map_err(|e| e.to_string())
}

fn source_of(engine: &Inner, run: &WorkflowRun) -> Source {
    let full_ref = engine.host.full_ref(&run.repo, &run.git_ref).unwrap_or_else(|| run.git_ref.clone());
    Source { repo: run.repo.clone(), commit: run.sha.clone(), path: run.path.clone(), full_ref }
}

fn new_run(engine: &Inner, trigger: &Trigger, path: &str, name: &str) -> WorkflowRun {
    let host = &engine.host;
    let now = host.now_ms();
    let facts = Told::of(engine, trigger);
    let workflow = register(engine, &facts.repo, path, name);
    let run_number = {
        let mut state = engine.state();
        let number = state.run_numbers.entry(workflow.id).or_insert(0);
        *number += 1;
        *number
    };
    WorkflowRun {
        id: host.next_id(),
        attempt: 1,
        run_number,
        workflow_id: workflow.id,
        repo: facts.repo,
        path: path.to_owned(),
        workflow_name: name.to_owned(),
        title: if facts.title.is_empty() { name.to_owned() } else { facts.title },
        event: facts.event.to_owned(),
        payload: facts.payload,
        head_branch: facts.head_branch,
        head_sha: facts.head_sha,
        git_ref: facts.git_ref,
        sha: facts.sha,
        pull_request: facts.pull_request,
        actor: facts.actor.clone(),
        triggering_actor: facts.actor,
        inputs: BTreeMap::new(),
        status: Status::Queued,
        conclusion: None,
        created_at: now,
        started_at: now,
        updated_at: now,
        from_fork: facts.from_fork,
    }
}

/// What a trigger says of its run.
struct Told {
    event: &'static str,
    repo: String,
    title: String,
    payload: Value,
    head_branch: String,
    head_sha: String,
    git_ref: String,
    sha: String,
    pull_request: Option<i64>,
    actor: String,
    from_fork: bool,
}

impl Told {
    fn of(engine: &Inner, trigger: &Trigger) -> Self {
        let text = |payload: &Value, pointer: &str| {
            payload.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match trigger.clone() {
            Trigger::PullRequest {
                repo, number, payload, head_branch, head_sha, merge_sha, actor, from_fork, ..
            } => Self {
                event: "pull_request",
                repo,
                title: text(&payload, "/pull_request/title"),
                payload,
                head_branch,
                head_sha,
                git_ref: format!("refs/pull/{number}/merge"),
                sha: merge_sha,
                pull_request: Some(number),
                actor,
                from_fork,
            },
            Trigger::Push { repo, git_ref, sha, payload, actor } => Self {
                event: "push",
                repo,
                title: text(&payload, "/head_commit/message").lines().next().unwrap_or_default().to_owned(),
                payload,
                head_branch: ref_parts(&git_ref).1.to_owned(),
                head_sha: sha.clone(),
                git_ref,
                sha,
                pull_request: None,
                actor,
                from_fork: false,
            },
            Trigger::Dispatch { repo, file, git_ref, sha, actor, .. } => {
                let full_ref = engine.host.full_ref(&repo, &git_ref).unwrap_or(git_ref);
                let repository = engine.host.repository(&repo).map(|facts| facts.json).unwrap_or_default();
                let mut payload = Map::new();
                payload.insert("inputs".to_owned(), Value::Null);
                payload.insert("ref".to_owned(), json!(full_ref));
                payload.insert("repository".to_owned(), repository);
                payload.insert("sender".to_owned(), json!({"login": actor}));
                payload.insert("workflow".to_owned(), json!(file));
                Self {
                    event: "workflow_dispatch",
                    repo,
                    title: String::new(),
                    payload: Value::Object(payload),
                    head_branch: ref_parts(&full_ref).1.to_owned(),
                    head_sha: sha.clone(),
                    git_ref: full_ref,
                    sha,
                    pull_request: None,
                    actor,
                    from_fork: false,
                }
            }
        }
    }
}
