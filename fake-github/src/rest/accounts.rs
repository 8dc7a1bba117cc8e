//! People, organisations, teams.

use serde_json::{Value, json};

use crate::auth::{Caller, grants};
use crate::shapes;
use crate::state::State;
use crate::state::accounts::Kind;
use crate::state::roles::Role;

use super::Answer;
use super::call::Call;
use super::reply::{Refusal, Reply};

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    Some(match (method, parts.as_slice()) {
        ("GET", ["user"]) => own_account(call),
        ("GET", ["user", "orgs"]) => own_organizations(call),
        ("GET", ["users", login]) => account(call, login),
        ("GET", ["orgs", org, "members"]) => members(call, org),
        ("GET", ["orgs", org, "members", login]) => check_member(call, org, login),
        ("GET", ["orgs", org, "memberships", login]) => organization_membership(call, org, login),
        ("GET", ["orgs", org, "repos"]) => repositories(call, org),
        ("GET", ["orgs", org, "teams"]) => teams(call, org),
        ("GET", ["orgs", org, "teams", slug]) => team(call, org, slug),
        ("GET", ["orgs", org, "teams", slug, "members"]) => team_members(call, org, slug),
        ("GET", ["orgs", org, "teams", slug, "memberships", login]) => team_membership(call, org, slug, login),
        _ => return None,
    })
}

fn own_account(call: &Call) -> Answer {
    let login = call.user()?;
    let state = call.hub.lock();
    let account = state.account(login).ok_or_else(Refusal::bad_credentials)?;
    Ok(Reply::ok(shapes::public_user(&state, account)))
}

fn own_organizations(call: &Call) -> Answer {
    let login = call.user()?;
    let state = call.hub.lock();
    let found: Vec<_> = state.accounts.values().filter(|org| org.members.contains_key(login)).collect();
    Ok(call.page(&found, |org| shapes::organization(&state, org)))
}

fn account(call: &Call, login: &str) -> Answer {
    let state = call.hub.lock();
    let account = state.account(login).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::public_user(&state, account)))
}

/// Teams and members need the Members permission; people must belong to the organisation.
fn may_read_members(call: &Call, state: &State, org: &str) -> Result<String, Refusal> {
    let found = state.account(org).filter(|org| org.kind == Kind::Organization).ok_or_else(Refusal::not_found)?;
    match &call.caller {
        Caller::Installation { installation, permissions, .. } => {
            let own = state.installations.get(installation).is_some_and(|known| known.account == found.login);
            match own && grants(permissions, "members", Role::Read) {
                true => Ok(found.login.clone()),
                false => Err(Refusal::not_accessible()),
            }
        }
        Caller::User { login, .. } if found.members.contains_key(login) => Ok(found.login.clone()),
        Caller::User { .. } => Err(Refusal::not_found()),
        Caller::App(_) | Caller::Job { .. } => Err(Refusal::not_accessible()),
        Caller::Anonymous => Err(Refusal::requires_authentication()),
    }
}

fn members(call: &Call, org: &str) -> Answer {
    let state = call.hub.lock();
    let org = may_read_members(call, &state, org)?;
    let logins: Vec<String> = state.account(&org).map(|org| org.members.keys().cloned().collect()).unwrap_or_default();
    Ok(call.page(&logins, |login| shapes::user(&state, login)))
}

fn check_member(call: &Call, org: &str, login: &str) -> Answer {
    let state = call.hub.lock();
    let org = may_read_members(call, &state, org)?;
    match state.account(&org).is_some_and(|org| org.members.contains_key(login)) {
        true => Ok(Reply::empty(204)),
        false => Err(Refusal::not_found()),
    }
}

fn organization_membership(call: &Call, org: &str, login: &str) -> Answer {
    let state = call.hub.lock();
    let org = may_read_members(call, &state, org)?;
    let found = state.account(&org).ok_or_else(Refusal::not_found)?;
    let owner = found.members.get(login).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(json!({
        "url": format!("{}/orgs/{org}/memberships/{login}", state.site.api()),
        "state": "active",
        "role": if *owner { "admin" } else { "member" },
        "organization_url": format!("{}/orgs/{org}", state.site.api()),
        "organization": shapes::organization(&state, found),
        "user": shapes::user(&state, login),
    })))
}

fn repositories(call: &Call, org: &str) -> Answer {
    let state = call.hub.lock();
    let repos: Vec<_> = state
        .repositories
        .values()
        .filter(|repo| repo.owner.eq_ignore_ascii_case(org) && state.sees(&call.caller, &repo.full_name))
        .collect();
    Ok(call.page(&repos, |repo| shapes::minimal_repository(&state, repo)))
}

fn teams(call: &Call, org: &str) -> Answer {
    let state = call.hub.lock();
    let org = may_read_members(call, &state, org)?;
    let found: Vec<_> = state.teams.values().filter(|team| team.org == org).collect();
    Ok(call.page(&found, |team| shapes::team(&state, team)))
}

fn team(call: &Call, org: &str, slug: &str) -> Answer {
    let state = call.hub.lock();
    let org = may_read_members(call, &state, org)?;
    let team = state.team(&org, slug).ok_or_else(Refusal::not_found)?;
    let mut shape = shapes::team(&state, team);
    let organization = state.account(&org).map_or(Value::Null, |org| {
        let mut shape = shapes::public_user(&state, org);
        if let Some(members) = shape.as_object_mut() {
            // What an organisation has not filled in is left out here, not null.
            members.retain(|_, value| !value.is_null());
        }
        shapes::extend(&mut shape, shapes::organization(&state, org));
        shapes::extend(
            &mut shape,
            json!({
                "has_organization_projects": false, "has_repository_projects": false, "archived_at": null,
                "type": "Organization",
            }),
        );
        shape
    });
    shapes::extend(
        &mut shape,
        json!({
            "members_count": state.team_members(&org, slug).len(), "repos_count": 0, "organization": organization,
            "created_at": shapes::iso(0), "updated_at": shapes::iso(0),
        }),
    );
    Ok(Reply::ok(shape))
}

fn team_members(call: &Call, org: &str, slug: &str) -> Answer {
    let state = call.hub.lock();
    let org = may_read_members(call, &state, org)?;
    state.team(&org, slug).ok_or_else(Refusal::not_found)?;
    let logins: Vec<String> = state.team_members(&org, slug).into_iter().collect();
    Ok(call.page(&logins, |login| shapes::user(&state, login)))
}

fn team_membership(call: &Call, org: &str, slug: &str, login: &str) -> Answer {
    let state = call.hub.lock();
    let org = may_read_members(call, &state, org)?;
    let team = state.team(&org, slug).ok_or_else(Refusal::not_found)?;
    let member = state.team_members(&org, slug).iter().any(|member| member.eq_ignore_ascii_case(login));
    if !member {
        return Err(Refusal::not_found());
    }
    let owner = state.account(&org).and_then(|org| org.members.get(login)).copied().unwrap_or(false);
    Ok(Reply::ok(json!({
        "url": format!("{}/organizations/{}/team/{}/memberships/{login}", state.site.api(), team.id, team.id),
        "role": if owner { "maintainer" } else { "member" },
        "state": "active",
    })))
}
