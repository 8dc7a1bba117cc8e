//! Workflows, runs, jobs, artifacts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::actions::model::{Artifact, DispatchError, Trigger, WorkflowFacts, WorkflowRun};
use crate::host::{conclusion_name, status_name};
use crate::shapes;
use crate::state::roles::Role;

use super::Answer;
use super::call::{Call, number};
use super::reply::{Refusal, Reply};

/// Inputs of one dispatch.
const INPUTS_MAX: usize = 25;
/// Characters of all inputs together.
const INPUTS_CHARACTERS_MAX: usize = 65_535;
/// A filtered list of runs ends here.
const FILTERED_RUNS_MAX: usize = 1000;

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    let ["repos", owner, name, "actions", rest @ ..] = parts.as_slice() else { return None };
    Some(match (method, rest) {
        ("GET", ["workflows"]) => workflows(call, owner, name),
        ("GET", ["workflows", id]) => workflow(call, owner, name, id),
        ("GET", ["workflows", id, "runs"]) => runs_of_workflow(call, owner, name, id),
        ("POST", ["workflows", id, "dispatches"]) => dispatch(call, owner, name, id),
        ("GET", ["runs"]) => runs(call, owner, name),
        ("GET", ["runs", id]) => run(call, owner, name, id),
        ("GET", ["runs", id, "attempts", attempt]) => attempt_of_run(call, owner, name, id, attempt),
        ("GET", ["runs", id, "attempts", attempt, "jobs"]) => jobs(call, owner, name, id, Some(attempt)),
        ("GET", ["runs", id, "jobs"]) => jobs(call, owner, name, id, None),
        ("GET", ["runs", id, "artifacts"]) => artifacts_of_run(call, owner, name, id),
        ("GET", ["runs", id, "logs"]) => run_logs(call, owner, name, id),
        ("POST", ["runs", id, "cancel" | "force-cancel"]) => cancel(call, owner, name, id),
        ("POST", ["runs", id, "rerun"]) => rerun(call, owner, name, id, false),
        ("POST", ["runs", id, "rerun-failed-jobs"]) => rerun(call, owner, name, id, true),
        ("GET", ["jobs", id]) => job(call, owner, name, id),
        ("GET", ["jobs", id, "logs"]) => job_logs(call, owner, name, id),
        ("GET", ["artifacts"]) => artifacts(call, owner, name),
        ("GET", ["artifacts", id]) => artifact(call, owner, name, id),
        ("DELETE", ["artifacts", id]) => delete_artifact(call, owner, name, id),
        ("GET", ["artifacts", id, "zip"]) => download(call, owner, name, id),
        _ => return None,
    })
}

pub fn find_run(call: &Call, repo: &str, id: &str) -> Result<WorkflowRun, Refusal> {
    call.hub.engine().run(number(id)?).filter(|run| run.repo == repo).ok_or_else(Refusal::not_found)
}

fn workflows(call: &Call, owner: &str, name: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let found = call.hub.engine().workflows(&repo);
    let state = call.hub.lock();
    let known = state.repository(&repo).ok_or_else(Refusal::not_found)?;
    Ok(call.counted_page("workflows", &found, |workflow| shapes::workflow(&state, known, workflow)))
}

/// A workflow by its number or by the name of its file.
fn find_workflow(call: &Call, repo: &str, id: &str) -> Result<WorkflowFacts, Refusal> {
    let engine = call.hub.engine();
    let found = match id.parse::<i64>() {
        Ok(id) => engine.workflow_by_id(id),
        Err(_) => engine.workflow(repo, &format!(".github/workflows/{id}")),
    };
    found.filter(|found| found.repo == repo).ok_or_else(Refusal::not_found)
}

fn workflow(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let found = find_workflow(call, &repo, id)?;
    let state = call.hub.lock();
    let known = state.repository(&repo).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::workflow(&state, known, &found)))
}

fn dispatch(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Write)?;
    let file = match id.parse::<i64>() {
        Ok(_) => find_workflow(call, &repo, id)?.path.rsplit('/').next().unwrap_or_default().to_owned(),
        Err(_) => id.to_owned(),
    };
    let asked = call.text("ref").ok_or_else(|| Refusal::new(422, "Invalid request.\n\n\"ref\" wasn't supplied."))?;
    let inputs = inputs(call)?;
    // A branch or tag, never a commit.
    let git_ref = call.hub.site().git.full_ref(&repo, asked).filter(|full| full.starts_with("refs/"));
    let git_ref = git_ref.ok_or_else(|| Refusal::new(422, &format!("No ref found for: {asked}")))?;
    let sha = call.hub.site().git.resolve(&repo, &git_ref).ok_or_else(Refusal::not_found)?;
    let trigger = Trigger::Dispatch { repo: repo.clone(), file, git_ref, sha, inputs, actor: call.login() };
    let run = match call.hub.engine().dispatch(trigger) {
        Ok(run) => run,
        Err(DispatchError::NoSuchWorkflow) => return Err(Refusal::not_found()),
        Err(DispatchError::Unprocessable(message)) => return Err(Refusal::new(422, &message)),
    };
    let details = call.body.get("return_run_details").and_then(Value::as_bool).unwrap_or(false);
    if !details && !call.is_new_version() {
        return Ok(Reply::empty(204));
    }
    Ok(Reply::ok(json!({
        "workflow_run_id": run,
        "run_url": format!("{}/repos/{repo}/actions/runs/{run}", call.hub.api_url()),
        "html_url": format!("{}/{repo}/actions/runs/{run}", call.hub.base_url()),
    })))
}

fn inputs(call: &Call) -> Result<BTreeMap<String, String>, Refusal> {
    let given = call.body.get("inputs").and_then(Value::as_object).cloned().unwrap_or_default();
    if given.len() > INPUTS_MAX {
        return Err(Refusal::new(
            422,
            &format!("you may only define up to {INPUTS_MAX} `inputs` for a `workflow_dispatch` event"),
        ));
    }
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let inputs: BTreeMap<String, String> = given.into_iter().map(|(name, value)| (name, text(value))).collect();
    let characters: usize = inputs.iter().map(|(name, value)| name.chars().count() + value.chars().count()).sum();
    if characters > INPUTS_CHARACTERS_MAX {
        return Err(Refusal::new(422, "inputs are too large."));
    }
    Ok(inputs)
}

fn runs(call: &Call, owner: &str, name: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let found = call.hub.engine().runs(&repo);
    run_page(call, &repo, found)
}

fn runs_of_workflow(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let workflow = find_workflow(call, &repo, id)?;
    let mut found = call.hub.engine().runs(&repo);
    found.retain(|run| run.path == workflow.path);
    run_page(call, &repo, found)
}

fn run_page(call: &Call, repo: &str, mut runs: Vec<WorkflowRun>) -> Answer {
    let asked = |name: &str| call.query.get(name).map(String::as_str);
    let created = asked("created").map(created_range).transpose()?;
    runs.retain(|run| {
        let state = run.conclusion.map_or_else(|| status_name(run.status), conclusion_name);
        asked("event").is_none_or(|event| run.event == event)
            && asked("head_sha").is_none_or(|sha| run.head_sha == sha)
            && asked("branch").is_none_or(|branch| run.head_branch == branch)
            && asked("actor").is_none_or(|actor| run.actor == actor)
            && asked("status").is_none_or(|wanted| wanted == state || wanted == status_name(run.status))
            && created.is_none_or(|(from, to)| (from..=to).contains(&run.created_at.div_euclid(1000)))
    });
    let filters = ["event", "head_sha", "branch", "actor", "status", "created"];
    if filters.iter().any(|filter| call.query.contains_key(*filter)) {
        runs.truncate(FILTERED_RUNS_MAX);
    }
    let state = call.hub.lock();
    let known = state.repository(repo).ok_or_else(Refusal::not_found)?;
    Ok(call.counted_page("workflow_runs", &runs, |run| shapes::workflow_run(&state, known, run)))
}

/// `>=2026-11-29T10:00:00Z`, `2026-11-01..2026-11-29`, `2026-11-29`: seconds from and to.
fn created_range(text: &str) -> Result<(i64, i64), Refusal> {
    let invalid = || Refusal::validation("WorkflowRun", "created", "invalid");
    let second = |text: &str, end_of_day: bool| -> Result<i64, Refusal> {
        if let Ok(at) = text.parse::<jiff::Timestamp>() {
            return Ok(at.as_second());
        }
        let clock = if end_of_day { "23:59:59" } else { "00:00:00" };
        let at = format!("{text}T{clock}Z").parse::<jiff::Timestamp>().map_err(|_| invalid())?;
        Ok(at.as_second())
    };
    if let Some((from, to)) = text.split_once("..") {
        let from = if from == "*" { i64::MIN } else { second(from, false)? };
        return Ok((from, if to == "*" { i64::MAX } else { second(to, true)? }));
    }
    if let Some(from) = text.strip_prefix(">=") {
        return Ok((second(from, false)?, i64::MAX));
    }
    if let Some(from) = text.strip_prefix('>') {
        return Ok((second(from, true)? + 1, i64::MAX));
    }
    if let Some(to) = text.strip_prefix("<=") {
        return Ok((i64::MIN, second(to, true)?));
    }
    if let Some(to) = text.strip_prefix('<') {
        return Ok((i64::MIN, second(to, false)? - 1));
    }
    Ok((second(text, false)?, second(text, true)?))
}

fn run(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let found = find_run(call, &repo, id)?;
    run_shape(call, &repo, &found)
}

fn attempt_of_run(call: &Call, owner: &str, name: &str, id: &str, attempt: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let run = find_run(call, &repo, id)?;
    let attempt = attempt.parse().map_err(|_| Refusal::not_found())?;
    let found = call.hub.engine().run_attempt(run.id, attempt).ok_or_else(Refusal::not_found)?;
    run_shape(call, &repo, &found)
}

fn run_shape(call: &Call, repo: &str, run: &WorkflowRun) -> Answer {
    let state = call.hub.lock();
    let known = state.repository(repo).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::workflow_run(&state, known, run)))
}

fn jobs(call: &Call, owner: &str, name: &str, id: &str, attempt: Option<&str>) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let run = find_run(call, &repo, id)?;
    let mut jobs = call.hub.engine().jobs(run.id);
    let all = call.query.get("filter").map(String::as_str) == Some("all");
    let wanted = attempt.and_then(|attempt| attempt.parse().ok()).unwrap_or(run.attempt);
    jobs.retain(|job| (all && attempt.is_none()) || job.attempt == wanted);
    let state = call.hub.lock();
    Ok(call.counted_page("jobs", &jobs, |job| shapes::job(&state, job)))
}

fn job(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let found = call.hub.engine().job(number(id)?).filter(|job| job.repo == repo).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::job(&call.hub.lock(), &found)))
}

fn job_logs(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let found = call.hub.engine().job(number(id)?).filter(|job| job.repo == repo).ok_or_else(Refusal::not_found)?;
    Ok(Reply::redirect(format!("{}/_services/logs/{}", call.hub.base_url(), found.id)))
}

fn run_logs(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let run = find_run(call, &repo, id)?;
    // GitHub sends a zip archive here; nobody needs one of the fake yet, and a text says what a zip would.
    let jobs = call.hub.engine().jobs(run.id);
    let logs: Vec<String> =
        jobs.iter().map(|job| format!("=== {}\n{}\n", job.name, call.hub.engine().logs(job.id))).collect();
    Ok(Reply::raw("text/plain; charset=utf-8", logs.concat().into_bytes()))
}

fn cancel(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Write)?;
    let run = find_run(call, &repo, id)?;
    match call.hub.engine().cancel(run.id) {
        true => Ok(Reply::json(202, json!({}))),
        false => Err(Refusal::new(409, "Cannot cancel a workflow run that is completed.")),
    }
}

fn rerun(call: &Call, owner: &str, name: &str, id: &str, failed_only: bool) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Write)?;
    let run = find_run(call, &repo, id)?;
    match call.hub.engine().rerun(run.id, failed_only, &call.login()) {
        Ok(()) => Ok(Reply::created(json!({}))),
        Err(reason) => Err(Refusal::new(403, &reason)),
    }
}

fn artifact_page(call: &Call, repo: &str, mut artifacts: Vec<Artifact>) -> Answer {
    if let Some(name) = call.query.get("name") {
        artifacts.retain(|artifact| &artifact.name == name);
    }
    let engine = call.hub.engine();
    let runs: BTreeMap<i64, WorkflowRun> =
        artifacts.iter().filter_map(|artifact| Some((artifact.run_id, engine.run(artifact.run_id)?))).collect();
    let state = call.hub.lock();
    let known = state.repository(repo).ok_or_else(Refusal::not_found)?;
    Ok(call.counted_page("artifacts", &artifacts, |artifact| {
        shapes::artifact(&state, known, runs.get(&artifact.run_id), artifact)
    }))
}

fn artifacts_of_run(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let run = find_run(call, &repo, id)?;
    let artifacts = call.hub.engine().artifacts(run.id);
    artifact_page(call, &repo, artifacts)
}

fn artifacts(call: &Call, owner: &str, name: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let engine = call.hub.engine();
    let artifacts = engine.runs(&repo).iter().flat_map(|run| engine.artifacts(run.id)).collect();
    artifact_page(call, &repo, artifacts)
}

fn find_artifact(call: &Call, repo: &str, id: &str) -> Result<Artifact, Refusal> {
    call.hub.engine().artifact(number(id)?).filter(|artifact| artifact.repo == repo).ok_or_else(Refusal::not_found)
}

fn artifact(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let found = find_artifact(call, &repo, id)?;
    let run = call.hub.engine().run(found.run_id);
    let state = call.hub.lock();
    let known = state.repository(&repo).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::artifact(&state, known, run.as_ref(), &found)))
}

fn delete_artifact(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Write)?;
    let found = find_artifact(call, &repo, id)?;
    call.hub.engine().delete_artifact(found.id);
    Ok(Reply::empty(204))
}

fn download(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let found = find_artifact(call, &repo, id)?;
    if found.expired || found.expires_at <= call.hub.now_ms() {
        return Err(Refusal::new(410, "Artifact has expired"));
    }
    Ok(Reply::redirect(format!("{}/_services/artifacts/{}", call.hub.base_url(), found.id)))
}
