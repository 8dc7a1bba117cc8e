//! Repositories, their collaborators, branches and branch rules.

use serde_json::{Value, json};

use crate::shapes;
use crate::state::repositories::Protection;
use crate::state::roles::Role;

use super::Answer;
use super::call::{Call, number};
use super::reply::{Refusal, Reply};

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    Some(match (method, parts.as_slice()) {
        ("GET", ["repos", owner, name]) => repository(call, owner, name),
        ("GET", ["repositories", id]) => repository_by_id(call, id),
        ("GET", ["repos", owner, name, "collaborators"]) => collaborators(call, owner, name),
        ("GET", ["repos", owner, name, "collaborators", login]) => check_collaborator(call, owner, name, login),
        ("GET", ["repos", owner, name, "collaborators", login, "permission"]) => permission(call, owner, name, login),
        ("GET", ["repos", owner, name, "teams"]) => teams(call, owner, name),
        ("GET", ["repos", owner, name, "branches"]) => branches(call, owner, name),
        ("GET", ["repos", owner, name, "branches", branch @ ..]) => self::branch(call, owner, name, &branch.join("/")),
        ("GET", ["repos", owner, name, "rules", "branches", branch @ ..]) => {
            rules(call, owner, name, &branch.join("/"))
        }
        _ => return None,
    })
}

fn repository(call: &Call, owner: &str, name: &str) -> Answer {
    let name = call.repo(owner, name, "metadata", Role::Read)?;
    let state = call.hub.lock();
    let repo = state.repository(&name).ok_or_else(Refusal::not_found)?;
    let mut shape = shapes::full_repository(&state, repo);
    if let crate::auth::Caller::User { login, .. } = &call.caller {
        shape["permissions"] = shapes::role_flags(state.role(&name, login));
    }
    Ok(Reply::ok(shape))
}

fn repository_by_id(call: &Call, id: &str) -> Answer {
    let id = number(id)?;
    let name =
        call.hub.lock().repository_by_id(id).map(|repo| repo.full_name.clone()).ok_or_else(Refusal::not_found)?;
    let (owner, name) = name.split_once('/').ok_or_else(Refusal::not_found)?;
    repository(call, owner, name)
}

fn collaborators(call: &Call, owner: &str, name: &str) -> Answer {
    let name = call.repo(owner, name, "metadata", Role::Read)?;
    let state = call.hub.lock();
    let people: Vec<(&str, Role)> = state
        .accounts
        .values()
        .filter(|account| account.kind == crate::state::accounts::Kind::User)
        .map(|account| (account.login.as_str(), state.role(&name, &account.login)))
        .filter(|(_, role)| {
            *role > Role::Read || state.repository(&name).is_some_and(|repo| repo.private && *role == Role::Read)
        })
        .collect();
    Ok(call.page(&people, |(login, role)| {
        let mut shape = shapes::user(&state, login);
        shapes::extend(&mut shape, json!({"role_name": role.name(), "permissions": shapes::role_flags(*role)}));
        shape
    }))
}

fn check_collaborator(call: &Call, owner: &str, name: &str, login: &str) -> Answer {
    let name = call.repo(owner, name, "metadata", Role::Read)?;
    match call.hub.lock().role(&name, login) {
        Role::None => Err(Refusal::not_found()),
        _ => Ok(Reply::empty(204)),
    }
}

fn permission(call: &Call, owner: &str, name: &str, login: &str) -> Answer {
    let name = call.repo(owner, name, "metadata", Role::Read)?;
    let state = call.hub.lock();
    if state.account(login).is_none() {
        return Err(Refusal::new(404, &format!("{login} is not a user")));
    }
    Ok(Reply::ok(shapes::collaborator_permission(&state, login, state.role(&name, login))))
}

fn teams(call: &Call, owner: &str, name: &str) -> Answer {
    let name = call.repo(owner, name, "metadata", Role::Read)?;
    let state = call.hub.lock();
    let repo = state.repository(&name).ok_or_else(Refusal::not_found)?;
    let found: Vec<_> = repo.teams.keys().filter_map(|slug| state.team(&repo.owner, slug)).collect();
    Ok(call.page(&found, |team| shapes::team(&state, team)))
}

fn branches(call: &Call, owner: &str, name: &str) -> Answer {
    let name = call.repo(owner, name, "contents", Role::Read)?;
    let found = call.hub.site().git.refs(&name, "refs/heads");
    let state = call.hub.lock();
    let url = shapes::repository_url(&state, &name);
    Ok(call.page(&found, |branch| {
        let short = branch.name.trim_start_matches("refs/heads/");
        let protected = state.repository(&name).is_some_and(|repo| repo.protection.contains_key(short));
        json!({
            "name": short,
            "commit": {"sha": branch.sha, "url": format!("{url}/commits/{}", branch.sha)},
            "protected": protected,
        })
    }))
}

fn branch(call: &Call, owner: &str, name: &str, branch: &str) -> Answer {
    let name = call.repo(owner, name, "contents", Role::Read)?;
    let git = &call.hub.site().git;
    let missing = || Refusal::new(404, "Branch not found");
    let sha = git.resolve(&name, &format!("refs/heads/{branch}")).ok_or_else(missing)?;
    let commit = git.commit(&name, &sha).ok_or_else(missing)?;
    let state = call.hub.lock();
    let url = format!("{}/branches/{}", shapes::repository_url(&state, &name), shapes::encode(branch));
    let rules = state.repository(&name).and_then(|repo| repo.protection.get(branch));
    Ok(Reply::ok(json!({
        "name": branch,
        "commit": shapes::commit(&state, &name, &commit),
        "_links": {"self": url, "html": format!("{}/{name}/tree/{branch}", state.site.web)},
        "protected": rules.is_some(),
        "protection": protection(rules),
        "protection_url": format!("{url}/protection"),
    })))
}

fn protection(rules: Option<&Protection>) -> Value {
    let contexts: Vec<&str> =
        rules.into_iter().flat_map(|rules| rules.required_checks.iter().map(|check| check.context.as_str())).collect();
    let checks: Vec<Value> = rules
        .into_iter()
        .flat_map(|rules| rules.required_checks.iter())
        .map(|check| json!({"context": check.context, "app_id": check.app_id}))
        .collect();
    json!({
        "enabled": rules.is_some(),
        "required_status_checks": {
            "enforcement_level": if rules.is_some() { "non_admins" } else { "off" }, "contexts": contexts, "checks": checks,
        },
    })
}

fn rules(call: &Call, owner: &str, name: &str, branch: &str) -> Answer {
    let name = call.repo(owner, name, "metadata", Role::Read)?;
    let state = call.hub.lock();
    let repo = state.repository(&name).ok_or_else(Refusal::not_found)?;
    let rules = repo.protection.get(branch).map(|rules| shapes::branch_rules(repo, rules)).unwrap_or_default();
    Ok(call.page(&rules, Value::clone))
}
