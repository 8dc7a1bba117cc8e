//! Environments, variables, labels and the OIDC subject of a repository.

use serde_json::{Value, json};

use crate::shapes;
use crate::state::roles::Role;

use super::Answer;
use super::call::Call;
use super::reply::{Refusal, Reply};

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    let ["repos", owner, name, rest @ ..] = parts.as_slice() else { return None };
    Some(match (method, rest) {
        ("GET", ["environments"]) => environments(call, owner, name),
        ("GET", ["environments", environment]) => self::environment(call, owner, name, environment),
        ("GET", ["actions", "variables"]) => variables(call, owner, name, None),
        ("GET", ["environments", environment, "variables"]) => variables(call, owner, name, Some(environment)),
        ("GET", ["actions", "oidc", "customization", "sub"]) => subject(call, owner, name),
        ("PUT", ["actions", "oidc", "customization", "sub"]) => set_subject(call, owner, name),
        ("GET", ["labels"]) => labels(call, owner, name),
        ("GET", ["labels", label]) => self::label(call, owner, name, label),
        ("POST", ["labels"]) => create_label(call, owner, name),
        _ => return None,
    })
}

fn environments(call: &Call, owner: &str, name: &str) -> Answer {
    let name = call.repo(owner, name, "actions", Role::Read)?;
    let state = call.hub.lock();
    let repo = state.repository(&name).ok_or_else(Refusal::not_found)?;
    let stored: Vec<_> = repo.environments.values().collect();
    Ok(call.counted_page("environments", &stored, |stored| shapes::environment(&state, repo, stored)))
}

fn environment(call: &Call, owner: &str, name: &str, environment: &str) -> Answer {
    let name = call.repo(owner, name, "actions", Role::Read)?;
    let state = call.hub.lock();
    let repo = state.repository(&name).ok_or_else(Refusal::not_found)?;
    let stored = repo.environment(environment).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::environment(&state, repo, stored)))
}

fn variables(call: &Call, owner: &str, name: &str, environment: Option<&str>) -> Answer {
    let permission = if environment.is_some() { "environments" } else { "actions_variables" };
    let name = call.repo(owner, name, permission, Role::Read)?;
    let state = call.hub.lock();
    let repo = state.repository(&name).ok_or_else(Refusal::not_found)?;
    let values = match environment {
        None => repo.variables.repository.clone(),
        Some(environment) => repo.variables.environments.get(environment).cloned().unwrap_or_default(),
    };
    let at = shapes::iso(repo.created_at);
    let values: Vec<_> = values.into_iter().collect();
    Ok(call.counted_page(
        "variables",
        &values,
        |(name, value)| json!({"name": name, "value": value, "created_at": at, "updated_at": at}),
    ))
}

fn subject(call: &Call, owner: &str, name: &str) -> Answer {
    let name = call.repo(owner, name, "actions", Role::Read)?;
    let state = call.hub.lock();
    let repo = state.repository(&name).ok_or_else(Refusal::not_found)?;
    let owner_id = state.account(&repo.owner).map_or(0, |owner| owner.id);
    let prefix = match repo.immutable_subject {
        true => format!("repo:{}@{owner_id}/{}@{}", repo.owner, repo.name, repo.id),
        false => format!("repo:{name}"),
    };
    let mut body = json!({
        "use_default": repo.subject_claims.is_empty(),
        "use_immutable_subject": repo.immutable_subject,
        "sub_claim_prefix": prefix,
    });
    if !repo.subject_claims.is_empty() {
        body["include_claim_keys"] = json!(repo.subject_claims);
    }
    Ok(Reply::ok(body))
}

fn set_subject(call: &Call, owner: &str, name: &str) -> Answer {
    let name = call.repo(owner, name, "actions", Role::Write)?;
    let keys = call.body.get("include_claim_keys").and_then(Value::as_array).cloned().unwrap_or_default();
    let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
    let default = call.body.get("use_default").and_then(Value::as_bool).unwrap_or(false);
    call.hub.set_subject_claims(&name, if default { &[] } else { &keys });
    Ok(Reply::created(json!({})))
}

fn labels(call: &Call, owner: &str, name: &str) -> Answer {
    let name = call.repo(owner, name, "issues", Role::Read)?;
    let state = call.hub.lock();
    let repo = state.repository(&name).ok_or_else(Refusal::not_found)?;
    let labels: Vec<_> = repo.labels.values().collect();
    Ok(call.page(&labels, |label| shapes::label(&state, &name, label)))
}

fn label(call: &Call, owner: &str, name: &str, label: &str) -> Answer {
    let name = call.repo(owner, name, "issues", Role::Read)?;
    let state = call.hub.lock();
    let found = state.repository(&name).and_then(|repo| repo.labels.get(label)).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::label(&state, &name, found)))
}

fn create_label(call: &Call, owner: &str, name: &str) -> Answer {
    let name = call.repo(owner, name, "issues", Role::Write)?;
    let label = call.required_text("Label", "name")?.to_owned();
    let known = call.hub.lock().repository(&name).is_some_and(|repo| repo.labels.contains_key(&label));
    if known {
        return Err(Refusal::validation("Label", "name", "already_exists"));
    }
    call.hub.act(|state| {
        state.add_labels(&name, std::slice::from_ref(&label));
        let found = state.repositories.get_mut(&name).and_then(|repo| repo.labels.get_mut(&label));
        if let Some(found) = found {
            found.color = call.text("color").unwrap_or("ededed").to_owned();
            found.description = call.text("description").map(str::to_owned);
        }
    });
    let state = call.hub.lock();
    let found = state.repository(&name).and_then(|repo| repo.labels.get(&label)).ok_or_else(Refusal::not_found)?;
    Ok(Reply::created(shapes::label(&state, &name, found)))
}
