//! Users, organisations and teams.

use serde_json::{Value, json};

use crate::state::State;
use crate::state::accounts::{Account, Kind, Team};
use crate::state::roles::Role;

use super::{iso, node_id};

/// `simple-user`; an unknown login is GitHub's `ghost`.
pub fn user(state: &State, login: &str) -> Value {
    let (id, login, kind) = match state.account(login) {
        Some(account) => (account.id, account.login.as_str(), account.kind),
        None => (10_137, "ghost", Kind::User),
    };
    let (web, url) = (&state.site.web, format!("{}/users/{login}", state.site.api()));
    let kind = match kind {
        Kind::User => "User",
        Kind::Organization => "Organization",
        Kind::Bot => "Bot",
    };
    let page = match login.strip_suffix("[bot]") {
        Some(app) => format!("{web}/apps/{app}"),
        None => format!("{web}/{login}"),
    };
    json!({
        "login": login,
        "id": id,
        "node_id": node_id(kind, id),
        "avatar_url": format!("{web}/avatars/{id}.svg"),
        "gravatar_id": "",
        "url": url,
        "html_url": page,
        "followers_url": format!("{url}/followers"),
        "following_url": format!("{url}/following{{/other_user}}"),
        "gists_url": format!("{url}/gists{{/gist_id}}"),
        "starred_url": format!("{url}/starred{{/owner}}{{/repo}}"),
        "subscriptions_url": format!("{url}/subscriptions"),
        "organizations_url": format!("{url}/orgs"),
        "repos_url": format!("{url}/repos"),
        "events_url": format!("{url}/events{{/privacy}}"),
        "received_events_url": format!("{url}/received_events"),
        "type": kind,
        "user_view_type": "public",
        "site_admin": false,
    })
}

/// `public-user`, as `GET /users/{username}` and `GET /user` answer.
pub fn public_user(state: &State, account: &Account) -> Value {
    let mut user = user(state, &account.login);
    super::extend(
        &mut user,
        json!({
            "name": account.login, "company": null, "blog": "", "location": null, "email": null, "hireable": null,
            "bio": null, "twitter_username": null, "public_repos": 0, "public_gists": 0, "followers": 0,
            "following": 0, "created_at": iso(account.created_at), "updated_at": iso(account.created_at),
        }),
    );
    user
}

/// `organization-simple`.
pub fn organization(state: &State, account: &Account) -> Value {
    let url = format!("{}/orgs/{}", state.site.api(), account.login);
    json!({
        "login": account.login,
        "id": account.id,
        "node_id": node_id("Organization", account.id),
        "url": url,
        "repos_url": format!("{url}/repos"),
        "events_url": format!("{url}/events"),
        "hooks_url": format!("{url}/hooks"),
        "issues_url": format!("{url}/issues"),
        "members_url": format!("{url}/members{{/member}}"),
        "public_members_url": format!("{url}/public_members{{/member}}"),
        "avatar_url": format!("{}/avatars/{}.svg", state.site.web, account.id),
        "description": null,
    })
}

pub fn team(state: &State, team: &Team) -> Value {
    let org = state.account(&team.org).map_or(0, |org| org.id);
    let url = format!("{}/organizations/{org}/team/{}", state.site.api(), team.id);
    json!({
        "id": team.id,
        "node_id": node_id("Team", team.id),
        "name": team.slug,
        "slug": team.slug,
        "description": null,
        "privacy": "closed",
        "notification_setting": "notifications_enabled",
        "permission": "pull",
        "type": "organization",
        "organization_id": org,
        "url": url,
        "html_url": format!("{}/orgs/{}/teams/{}", state.site.web, team.org, team.slug),
        "members_url": format!("{url}/members{{/member}}"),
        "repositories_url": format!("{url}/repos"),
        "parent": null,
    })
}

/// What `GET …/collaborators/{login}/permission` says.
pub fn collaborator_permission(state: &State, login: &str, role: Role) -> Value {
    let mut user = user(state, login);
    super::extend(&mut user, json!({"permissions": role_flags(role), "role_name": role.name()}));
    json!({"permission": role.permission(), "role_name": role.name(), "user": user})
}

pub fn role_flags(role: Role) -> Value {
    json!({
        "pull": role >= Role::Read, "triage": role >= Role::Triage, "push": role >= Role::Write,
        "maintain": role >= Role::Maintain, "admin": role >= Role::Admin,
    })
}
