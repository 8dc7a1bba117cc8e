//! Check runs and check suites. Only apps write them.

use serde_json::{Value, json};

use crate::auth::Caller;
use crate::shapes;
use crate::state::apps::ACTIONS_APP;
use crate::state::checks::CheckRun;
use crate::state::roles::Role;

use super::Answer;
use super::call::{Call, number};
use super::reply::{Refusal, Reply};

/// Characters of `output.summary` and `output.text` each.
const OUTPUT_MAX: usize = 65_535;
const ANNOTATIONS_PER_REQUEST_MAX: usize = 50;
const ACTIONS_MAX: usize = 3;

const STATUSES: [&str; 6] = ["queued", "in_progress", "completed", "waiting", "requested", "pending"];
const CONCLUSIONS: [&str; 8] =
    ["action_required", "cancelled", "failure", "neutral", "success", "skipped", "stale", "timed_out"];

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    let ["repos", owner, name, rest @ ..] = parts.as_slice() else { return None };
    Some(match (method, rest) {
        ("POST", ["check-runs"]) => create(call, owner, name),
        ("GET", ["check-runs", id]) => get(call, owner, name, id),
        ("PATCH", ["check-runs", id]) => update(call, owner, name, id),
        ("GET", ["check-runs", id, "annotations"]) => annotations(call, owner, name, id),
        ("POST", ["check-runs", id, "rerequest"]) => rerequest(call, owner, name, id),
        ("GET", ["check-suites", id]) => suite(call, owner, name, id),
        ("GET", ["check-suites", id, "check-runs"]) => of_suite(call, owner, name, id),
        ("GET", ["commits", at @ .., "check-runs"]) => of_commit(call, owner, name, &at.join("/")),
        ("GET", ["commits", at @ .., "check-suites"]) => suites(call, owner, name, &at.join("/")),
        _ => return None,
    })
}

fn writing_app(call: &Call) -> Result<i64, Refusal> {
    match &call.caller {
        Caller::Installation { app, .. } => Ok(*app),
        Caller::Job { .. } => Ok(ACTIONS_APP),
        _ => Err(Refusal::new(403, "You must authenticate via a GitHub App.")),
    }
}

fn shape(call: &Call, id: i64) -> Result<Value, Refusal> {
    let state = call.hub.lock();
    Ok(shapes::check_run(&state, state.check_runs.get(&id).ok_or_else(Refusal::not_found)?))
}

fn create(call: &Call, owner: &str, name: &str) -> Answer {
    let repo = call.repo(owner, name, "checks", Role::Write)?;
    let app = writing_app(call)?;
    let title = call.required_text("CheckRun", "name")?.to_owned();
    let sha = call.required_text("CheckRun", "head_sha")?;
    let sha = call.hub.site().git.resolve(&repo, sha);
    let sha = sha.ok_or_else(|| Refusal::new(422, "No commit found for SHA"))?;
    let run = call.hub.act(|state| {
        let branch = state.open_pulls(&repo, |pull| pull.head_sha == sha);
        let branch =
            branch.first().and_then(|number| state.pull(&repo, *number)).map(|(_, pull)| pull.head_branch.clone());
        let suite = state.check_suite(&repo, app, &sha, branch.as_deref());
        CheckRun {
            id: state.next_id(),
            repo: repo.clone(),
            suite,
            app,
            name: title,
            head_sha: sha,
            status: "queued".to_owned(),
            conclusion: None,
            external_id: String::new(),
            details_url: None,
            started_at: Some(state.now()),
            completed_at: None,
            title: None,
            summary: None,
            text: None,
            annotations: Vec::new(),
        }
    });
    let id = run.id;
    let run = changed(call, run)?;
    call.hub.store_check_run(run, true, &call.login());
    call.hub.act(|state| state.drop_old_check_runs(id));
    shape(call, id).map(Reply::created)
}

fn update(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "checks", Role::Write)?;
    let app = writing_app(call)?;
    let id = number(id)?;
    let run = call.hub.lock().check_runs.get(&id).filter(|run| run.repo == repo).cloned();
    let run = run.ok_or_else(Refusal::not_found)?;
    if run.app != app {
        return Err(Refusal::new(
            403,
            "Invalid app_id - check run can only be modified by the GitHub App that created it.",
        ));
    }
    let run = changed(call, run)?;
    call.hub.store_check_run(run, false, &call.login());
    shape(call, id).map(Reply::ok)
}

/// The run with what the request says about it.
fn changed(call: &Call, mut run: CheckRun) -> Result<CheckRun, Refusal> {
    let invalid = |field: &str| Refusal::validation("CheckRun", field, "invalid");
    let now = call.hub.now_ms();
    if let Some(status) = call.text("status") {
        if !STATUSES.contains(&status) {
            return Err(invalid("status"));
        }
        run.status = status.to_owned();
        if status != "completed" {
            (run.conclusion, run.completed_at) = (None, None);
        }
    }
    if let Some(conclusion) = call.text("conclusion") {
        if !CONCLUSIONS.contains(&conclusion) {
            return Err(invalid("conclusion"));
        }
        run.conclusion = Some(conclusion.to_owned());
        run.status = "completed".to_owned();
        run.completed_at = time(call.text("completed_at")).or(run.completed_at).or(Some(now));
    } else if run.status == "completed" && run.conclusion.is_none() {
        return Err(Refusal::validation("CheckRun", "conclusion", "missing_field"));
    }
    if let Some(name) = call.text("name") {
        run.name = name.to_owned();
    }
    if let Some(url) = call.text("details_url") {
        run.details_url = Some(url.to_owned());
    }
    if let Some(id) = call.text("external_id") {
        run.external_id = id.to_owned();
    }
    run.started_at = time(call.text("started_at")).or(run.started_at);
    if call.body.get("actions").and_then(Value::as_array).is_some_and(|actions| actions.len() > ACTIONS_MAX) {
        return Err(Refusal::new(422, &format!("Invalid request: no more than {ACTIONS_MAX} actions are allowed")));
    }
    if let Some(output) = call.body.get("output").filter(|output| output.is_object()) {
        run = with_output(output, run)?;
    }
    Ok(run)
}

fn with_output(output: &Value, mut run: CheckRun) -> Result<CheckRun, Refusal> {
    let text = |field: &str| output.get(field).and_then(Value::as_str).map(str::to_owned);
    for field in ["summary", "text"] {
        if text(field).is_some_and(|text| text.chars().count() > OUTPUT_MAX) {
            let message = format!("{field} exceeds a maximum length of {OUTPUT_MAX}");
            return Err(Refusal::invalid("CheckRun", field, &message));
        }
    }
    // GitHub wants both on every request that has an output.
    if text("summary").is_none() || (run.title.is_none() && text("title").is_none()) {
        return Err(Refusal::new(422, "Invalid request: output needs a title and a summary"));
    }
    run.title = text("title").or(run.title);
    run.summary = text("summary");
    run.text = text("text").or(run.text);
    let annotations = output.get("annotations").and_then(Value::as_array).cloned().unwrap_or_default();
    if annotations.len() > ANNOTATIONS_PER_REQUEST_MAX {
        let message = format!("Invalid request: no more than {ANNOTATIONS_PER_REQUEST_MAX} annotations are allowed");
        return Err(Refusal::new(422, &message));
    }
    run.annotations.extend(annotations);
    Ok(run)
}

fn time(text: Option<&str>) -> Option<i64> {
    Some(text?.parse::<jiff::Timestamp>().ok()?.as_millisecond())
}

fn get(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "checks", Role::Read)?;
    let id = number(id)?;
    let known = call.hub.lock().check_runs.get(&id).is_some_and(|run| run.repo == repo);
    if known { shape(call, id).map(Reply::ok) } else { Err(Refusal::not_found()) }
}

fn annotations(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "checks", Role::Read)?;
    let id = number(id)?;
    let state = call.hub.lock();
    let run = state.check_runs.get(&id).filter(|run| run.repo == repo).ok_or_else(Refusal::not_found)?;
    let blob = format!("{}/{repo}/blob/{}", state.site.web, run.head_sha);
    Ok(call.page(&run.annotations, |given| {
        let mut shape = json!({
            "start_column": null, "end_column": null, "title": null, "raw_details": null,
            "blob_href": format!("{blob}/{}", given["path"].as_str().unwrap_or_default()),
        });
        shapes::extend(&mut shape, given.clone());
        shape
    }))
}

fn rerequest(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    call.repo(owner, name, "checks", Role::Write)?;
    match call.hub.rerequest_check(number(id)?, &call.login()) {
        true => Ok(Reply::created(json!({}))),
        false => Err(Refusal::not_found()),
    }
}

fn suite(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "checks", Role::Read)?;
    let id = number(id)?;
    let state = call.hub.lock();
    let suite = state.check_suites.get(&id).filter(|suite| suite.repo == repo).ok_or_else(Refusal::not_found)?;
    let found = state.repository(&repo).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::check_suite(&state, found, suite)))
}

fn matching<'a>(call: &Call, runs: impl IntoIterator<Item = &'a CheckRun>) -> Vec<&'a CheckRun> {
    let asked = |name: &str| call.query.get(name).map(String::as_str);
    let app = asked("app_id").and_then(|id| id.parse::<i64>().ok());
    let runs = runs.into_iter();
    runs.filter(|run| asked("check_name").is_none_or(|name| run.name == name))
        .filter(|run| asked("status").is_none_or(|status| run.status == status))
        .filter(|run| app.is_none_or(|app| run.app == app))
        .collect()
}

fn of_commit(call: &Call, owner: &str, name: &str, at: &str) -> Answer {
    let repo = call.repo(owner, name, "checks", Role::Read)?;
    let sha = call.hub.site().git.resolve(&repo, at).ok_or_else(|| Refusal::new(422, "No commit found for SHA"))?;
    let state = call.hub.lock();
    let runs = if call.query.get("filter").map(String::as_str) == Some("all") {
        matching(call, state.check_runs.values().rev().filter(|run| run.repo == repo && run.head_sha == sha))
    } else {
        matching(call, state.latest_check_runs(&repo, &sha))
    };
    Ok(call.counted_page("check_runs", &runs, |run| shapes::check_run(&state, run)))
}

fn of_suite(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "checks", Role::Read)?;
    let id = number(id)?;
    let state = call.hub.lock();
    let runs = matching(call, state.suite_runs(id).filter(|run| run.repo == repo));
    Ok(call.counted_page("check_runs", &runs, |run| shapes::check_run(&state, run)))
}

fn suites(call: &Call, owner: &str, name: &str, at: &str) -> Answer {
    let repo = call.repo(owner, name, "checks", Role::Read)?;
    let sha = call.hub.site().git.resolve(&repo, at).ok_or_else(|| Refusal::new(422, "No commit found for SHA"))?;
    let state = call.hub.lock();
    let found = state.repository(&repo).ok_or_else(Refusal::not_found)?;
    let suites: Vec<_> =
        state.check_suites.values().filter(|suite| suite.repo == repo && suite.head_sha == sha).collect();
    Ok(call.counted_page("check_suites", &suites, |suite| shapes::check_suite(&state, found, suite)))
}

impl crate::state::State {
    /// GitHub deletes the oldest runs of a name beyond a thousand in one suite.
    fn drop_old_check_runs(&mut self, newest: i64) {
        const SAME_NAME_MAX: usize = 1000;
        let Some(run) = self.check_runs.get(&newest) else { return };
        let same = self.suite_runs(run.suite).filter(|other| other.name == run.name).map(|other| other.id);
        let same: Vec<i64> = same.collect();
        let excess = same.len().saturating_sub(SAME_NAME_MAX);
        for id in &same[..excess] {
            self.check_runs.remove(id);
        }
    }
}
