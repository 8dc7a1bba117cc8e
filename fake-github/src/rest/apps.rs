//! Apps, installations, installation tokens, the delivery log.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::auth::{Caller, grants};
use crate::shapes;
use crate::state::apps::{Code, Installation};
use crate::state::roles::Role;

use super::Answer;
use super::call::{Call, number};
use super::reply::{Refusal, Reply};

/// Repositories that one token request may name.
const TOKEN_REPOSITORIES_MAX: usize = 500;

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    Some(match (method, parts.as_slice()) {
        ("GET", ["app"]) => own_app(call),
        ("GET", ["apps", slug]) => app_by_slug(call, slug),
        ("GET", ["app", "installations"]) => installations(call),
        ("GET", ["app", "installations", id]) => installation(call, id).map(|found| shape(call, &found)),
        ("DELETE", ["app", "installations", id]) => installation(call, id).map(|found| {
            call.hub.uninstall_app(found.id);
            Reply::empty(204)
        }),
        ("PUT", ["app", "installations", id, "suspended"]) => suspend(call, id, true),
        ("DELETE", ["app", "installations", id, "suspended"]) => suspend(call, id, false),
        ("POST", ["app", "installations", id, "access_tokens"]) => create_token(call, id),
        ("DELETE", ["installation", "token"]) => revoke(call),
        ("GET", ["installation", "repositories"]) => repositories(call),
        ("GET", ["repos", owner, _, "installation"] | ["orgs" | "users", owner, "installation"]) => {
            of_account(call, owner)
        }
        ("GET", ["app", "hook", "config"]) => hook_config(call),
        ("PATCH", ["app", "hook", "config"]) => change_hook_config(call),
        ("GET", ["app", "hook", "deliveries"]) => deliveries(call),
        ("GET", ["app", "hook", "deliveries", id]) => delivery(call, id),
        ("POST", ["app", "hook", "deliveries", id, "attempts"]) => redeliver(call, id),
        ("POST", ["app-manifests", code, "conversions"]) => convert_manifest(call, code),
        ("GET", ["user", "installations"]) => installations_of_user(call),
        ("GET", ["user", "installations", id, "repositories"]) => repositories_of_user(call, id),
        _ => return None,
    })
}

fn own_app(call: &Call) -> Answer {
    let state_app = match call.caller {
        Caller::App(app) => app,
        _ => call.app()?,
    };
    let state = call.hub.lock();
    let app = state.apps.get(&state_app).ok_or_else(Refusal::not_found)?;
    let mut shape = shapes::integration(&state, app);
    shape["installations_count"] = json!(state.installations.values().filter(|found| found.app == app.id).count());
    Ok(Reply::ok(shape))
}

fn app_by_slug(call: &Call, slug: &str) -> Answer {
    let state = call.hub.lock();
    let app = state.app_by_slug(slug).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::integration(&state, app)))
}

fn installations(call: &Call) -> Answer {
    let app = call.app()?;
    let state = call.hub.lock();
    let found: Vec<_> = state.installations.values().filter(|found| found.app == app).collect();
    Ok(call.page(&found, |found| shapes::installation(&state, found)))
}

fn installation(call: &Call, id: &str) -> Result<Installation, Refusal> {
    let (app, id) = (call.app()?, number(id)?);
    let state = call.hub.lock();
    state.installations.get(&id).filter(|found| found.app == app).cloned().ok_or_else(Refusal::not_found)
}

fn shape(call: &Call, found: &Installation) -> Reply {
    Reply::ok(shapes::installation(&call.hub.lock(), found))
}

fn suspend(call: &Call, id: &str, suspended: bool) -> Answer {
    let found = installation(call, id)?;
    call.hub.suspend_installation(found.id, suspended);
    Ok(Reply::empty(204))
}

fn create_token(call: &Call, id: &str) -> Answer {
    let found = installation(call, id)?;
    if found.suspended_at.is_some() {
        return Err(Refusal::new(403, "This installation has been suspended"));
    }
    let permissions = narrowed_permissions(call, &found)?;
    let repositories = narrowed_repositories(call, &found)?;
    let (token, expires_at) = call.hub.installation_token(found.id, repositories.clone(), permissions.clone());
    let mut body = json!({
        "token": token,
        "expires_at": shapes::iso(expires_at),
        "permissions": permissions,
        "repository_selection": if found.repositories.is_some() || repositories.is_some() { "selected" } else { "all" },
    });
    if let Some(names) = repositories {
        let state = call.hub.lock();
        let shapes: Vec<Value> = names
            .iter()
            .filter_map(|name| state.repository(name))
            .map(|repo| shapes::repository(&state, repo))
            .collect();
        body["repositories"] = json!(shapes);
    }
    Ok(Reply::created(body))
}

fn narrowed_permissions(call: &Call, found: &Installation) -> Result<BTreeMap<String, String>, Refusal> {
    let Some(asked) = call.body.get("permissions").and_then(Value::as_object) else {
        return Ok(found.permissions.clone());
    };
    let mut narrowed = BTreeMap::from([("metadata".to_owned(), "read".to_owned())]);
    for (name, level) in asked {
        let level = level.as_str().unwrap_or_default();
        let wanted = if level == "write" { Role::Write } else { Role::Read };
        if !grants(&found.permissions, name, wanted) {
            return Err(Refusal::new(422, "The permissions requested are not granted to this installation."));
        }
        narrowed.insert(name.clone(), level.to_owned());
    }
    Ok(narrowed)
}

fn narrowed_repositories(call: &Call, found: &Installation) -> Result<Option<BTreeSet<String>>, Refusal> {
    let list = |field: &str| call.body.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let (names, ids) = (list("repositories"), list("repository_ids"));
    if names.is_empty() && ids.is_empty() {
        return Ok(None);
    }
    if names.len() + ids.len() > TOKEN_REPOSITORIES_MAX {
        return Err(Refusal::new(422, "Too many repositories were named."));
    }
    let state = call.hub.lock();
    let reachable = state.installed_repositories(found);
    let mut chosen = BTreeSet::new();
    for name in names.iter().filter_map(Value::as_str) {
        chosen.insert(format!("{}/{name}", found.account));
    }
    for id in ids.iter().filter_map(Value::as_i64) {
        chosen.insert(state.repository_by_id(id).map(|repo| repo.full_name.clone()).unwrap_or_default());
    }
    if chosen.iter().any(|name| !reachable.contains(name)) {
        let message =
            "There is at least one repository that does not exist or is not accessible to the parent installation.";
        return Err(Refusal::new(422, message));
    }
    Ok(Some(chosen))
}

fn revoke(call: &Call) -> Answer {
    let Caller::Installation { .. } = call.caller else { return Err(Refusal::requires_authentication()) };
    let header = call.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let token = header.rsplit(' ').next().unwrap_or_default().to_owned();
    call.hub.act(|state| state.tokens.remove(&token));
    Ok(Reply::empty(204))
}

fn repositories(call: &Call) -> Answer {
    let Caller::Installation { installation, repositories, .. } = &call.caller else {
        return Err(Refusal::new(
            403,
            "You must authenticate with an installation access token in order to list repositories for an installation.",
        ));
    };
    let state = call.hub.lock();
    let found = state.installations.get(installation).ok_or_else(Refusal::not_found)?;
    let mut names = state.installed_repositories(found);
    names.retain(|name| repositories.as_ref().is_none_or(|chosen| chosen.contains(name)));
    let repos: Vec<_> = names.iter().filter_map(|name| state.repository(name)).collect();
    let mut reply = call.counted_page("repositories", &repos, |repo| shapes::repository(&state, repo));
    if let Some(body) = &mut reply.body {
        body["repository_selection"] = json!(if found.repositories.is_some() { "selected" } else { "all" });
    }
    Ok(reply)
}

fn of_account(call: &Call, owner: &str) -> Answer {
    let app = call.app()?;
    let state = call.hub.lock();
    let found =
        state.installations.values().find(|found| found.app == app && found.account.eq_ignore_ascii_case(owner));
    Ok(Reply::ok(shapes::installation(&state, found.ok_or_else(Refusal::not_found)?)))
}

fn hook_config(call: &Call) -> Answer {
    let app = call.app()?;
    let state = call.hub.lock();
    let record = state.apps.get(&app).ok_or_else(Refusal::not_found)?;
    let mut config = json!({"content_type": "json", "insecure_ssl": "0", "secret": "********"});
    if let Some(url) = &record.webhook_url {
        config["url"] = json!(url);
    }
    Ok(Reply::ok(config))
}

fn change_hook_config(call: &Call) -> Answer {
    let app = call.app()?;
    let (url, secret) = (call.text("url").map(str::to_owned), call.text("secret").map(str::to_owned));
    call.hub.act(|state| {
        let Some(record) = state.apps.get_mut(&app) else { return };
        record.webhook_url = url.or(record.webhook_url.take());
        record.webhook_secret = secret.or(record.webhook_secret.take());
    });
    hook_config(call)
}

fn deliveries(call: &Call) -> Answer {
    let app = call.app()?;
    let state = call.hub.lock();
    let failed = match call.query.get("status").map(String::as_str) {
        Some("failure") => Some(true),
        Some("success") => Some(false),
        _ => None,
    };
    let found: Vec<_> = state
        .deliveries
        .values()
        .rev()
        .filter(|delivery| delivery.app == app && delivery.status.is_some())
        .filter(|delivery| failed.is_none_or(|failed| failed != (200..300).contains(&delivery.status_code)))
        .collect();
    // GitHub pages this list by cursor: the id to go on from.
    let from = call.query.get("cursor").and_then(|cursor| cursor.parse::<i64>().ok());
    let rest: Vec<_> = found.into_iter().filter(|delivery| from.is_none_or(|from| delivery.id < from)).collect();
    let per_page = call.query.get("per_page").and_then(|value| value.parse().ok()).unwrap_or(30).clamp(1, 100);
    let page: Vec<Value> = rest.iter().take(per_page).map(|delivery| shapes::delivery_item(delivery)).collect();
    let mut reply = Reply::ok(Value::Array(page));
    if rest.len() > per_page {
        let cursor = rest[per_page - 1].id;
        let url = format!("{}/app/hook/deliveries?per_page={per_page}&cursor={cursor}", call.hub.api_url());
        reply.headers.push(("link".to_owned(), format!("<{url}>; rel=\"next\"")));
    }
    Ok(reply)
}

fn delivery(call: &Call, id: &str) -> Answer {
    let (app, id) = (call.app()?, number(id)?);
    let state = call.hub.lock();
    let found = state.deliveries.get(&id).filter(|found| found.app == app).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::delivery(found)))
}

fn redeliver(call: &Call, id: &str) -> Answer {
    /// Deliveries can be sent again for three days.
    const REDELIVERY_MS: i64 = 3 * 24 * 60 * 60 * 1000;
    let (app, id) = (call.app()?, number(id)?);
    let oldest = call.hub.now_ms() - REDELIVERY_MS;
    let known = call.hub.lock().deliveries.get(&id).is_some_and(|found| found.app == app && found.created_at >= oldest);
    if !known {
        return Err(Refusal::not_found());
    }
    call.hub.redeliver(id);
    Ok(Reply::json(202, json!({})))
}

fn convert_manifest(call: &Call, code: &str) -> Answer {
    let now = call.hub.now_ms();
    let app = call.hub.act(|state| match state.codes.remove(code) {
        Some(Code::Manifest { app, expires_at }) if now < expires_at => Some(app),
        _ => None,
    });
    let state = call.hub.lock();
    let record = app.and_then(|app| state.apps.get(&app)).ok_or_else(Refusal::not_found)?;
    let mut shape = shapes::integration(&state, record);
    shapes::extend(
        &mut shape,
        json!({
            "client_secret": record.client_secret, "webhook_secret": record.webhook_secret,
            "pem": crate::auth::APP_PRIVATE_KEY,
        }),
    );
    Ok(Reply::created(shape))
}

/// Installations that both the person and the app reach.
fn installations_of_user(call: &Call) -> Answer {
    let login = call.user()?;
    let app = super::app_of(&call.caller);
    let state = call.hub.lock();
    let found: Vec<_> = state
        .installations
        .values()
        .filter(|found| app.is_none_or(|app| found.app == app))
        .filter(|found| {
            found.account == login
                || state.installed_repositories(found).iter().any(|name| state.role(name, login) >= Role::Read)
        })
        .collect();
    Ok(call.counted_page("installations", &found, |found| shapes::installation(&state, found)))
}

fn repositories_of_user(call: &Call, id: &str) -> Answer {
    let (login, id) = (call.user()?, number(id)?);
    let state = call.hub.lock();
    let found = state.installations.get(&id).ok_or_else(Refusal::not_found)?;
    let names = state.installed_repositories(found);
    let repos: Vec<_> = names
        .iter()
        .filter_map(|name| state.repository(name))
        .filter(|repo| state.role(&repo.full_name, login) >= Role::Read)
        .collect();
    let mut reply = call.counted_page("repositories", &repos, |repo| {
        let mut shape = shapes::repository(&state, repo);
        shape["permissions"] = shapes::role_flags(state.role(&repo.full_name, login));
        shape
    });
    if let Some(body) = &mut reply.body {
        body["repository_selection"] = json!(if found.repositories.is_some() { "selected" } else { "all" });
    }
    Ok(reply)
}
