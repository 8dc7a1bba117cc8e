//! Pending deployments, and the answers of people and apps to them.

use serde_json::{Value, json};

use crate::auth::Caller;
use crate::shapes;
use crate::state::roles::Role;

use super::Answer;
use super::actions::find_run;
use super::call::Call;
use super::reply::{Refusal, Reply};

/// What the documentation of custom protection rules allows for a text beside a deployment.
const RULE_COMMENT_CHARACTERS_MAX: usize = 1024;

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    let ["repos", owner, name, "actions", "runs", id, rest] = parts.as_slice() else { return None };
    Some(match (method, *rest) {
        ("GET", "pending_deployments") => pending(call, owner, name, id),
        ("POST", "pending_deployments") => review(call, owner, name, id),
        ("POST", "deployment_protection_rule") => answer_rule(call, owner, name, id),
        _ => return None,
    })
}

fn pending(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let run = find_run(call, &repo, id)?;
    let pending = call.hub.engine().pending(run.id);
    let login = call.login();
    let state = call.hub.lock();
    let known = state.repository(&repo).ok_or_else(Refusal::not_found)?;
    let shapes = pending.iter().map(|pending| shapes::pending_deployment(&state, known, pending, &login));
    Ok(Reply::ok(Value::Array(shapes.collect())))
}

/// Only a required reviewer can answer, with a token of their own: no installation may.
fn review(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "actions", Role::Read)?;
    let login = call.user()?.to_owned();
    let run = find_run(call, &repo, id)?;
    let ids = call.body.get("environment_ids").and_then(Value::as_array).cloned().unwrap_or_default();
    let ids: Vec<i64> = ids.iter().filter_map(Value::as_i64).collect();
    let environments: Vec<String> = call
        .hub
        .engine()
        .pending(run.id)
        .into_iter()
        .filter(|pending| ids.contains(&pending.environment_id))
        .map(|pending| pending.environment)
        .collect();
    if environments.is_empty() {
        return Err(Refusal::new(422, "No pending deployment requests to approve or reject"));
    }
    let approved = match call.text("state") {
        Some("approved") => true,
        Some("rejected") => false,
        _ => return Err(Refusal::validation("Deployment", "state", "invalid")),
    };
    let comment = call.text("comment").unwrap_or_default();
    call.hub
        .review_deployments(&repo, run.id, &environments, approved, &login, comment)
        .map_err(|reason| Refusal::new(422, &reason))?;
    Ok(Reply::ok(json!([])))
}

/// An app answers its custom protection rule.
fn answer_rule(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let repo = call.repo(owner, name, "deployments", Role::Write)?;
    let Caller::Installation { .. } = call.caller else { return Err(Refusal::not_accessible()) };
    let run = find_run(call, &repo, id)?;
    let environment = call.required_text("DeploymentProtectionRule", "environment_name")?;
    let comment = call.text("comment").unwrap_or_default();
    if comment.chars().count() > RULE_COMMENT_CHARACTERS_MAX {
        return Err(Refusal::validation("DeploymentProtectionRule", "comment", "too_long"));
    }
    let approved = match call.text("state") {
        Some("approved") => true,
        Some("rejected") => false,
        // A comment alone reports on progress.
        None if !comment.is_empty() => return Ok(Reply::empty(204)),
        _ => return Err(Refusal::validation("DeploymentProtectionRule", "state", "invalid")),
    };
    call.hub.act(|state| state.asked_rules.remove(&(run.id, environment.to_lowercase())));
    match call.hub.engine().answer_protection_rule(run.id, environment, approved, comment) {
        true => Ok(Reply::empty(204)),
        false => Err(Refusal::new(422, "No pending deployment protection rule for this environment")),
    }
}
