//! People, organisations, teams and their tokens.

use crate::auth::new_token;
use crate::hub::Hub;
use crate::state::accounts::{Kind, Team};
use crate::state::apps::Grant;
use crate::state::roles::Role;

impl Hub {
    /// Adds a person; the id of the one that exists, if any.
    pub fn create_user(&self, login: &str) -> i64 {
        self.act(|state| state.add_account(login, Kind::User))
    }

    pub fn create_organization(&self, login: &str) -> i64 {
        self.act(|state| state.add_account(login, Kind::Organization))
    }

    /// Makes a person a member of an organisation, as an owner or not.
    pub fn add_organization_member(&self, org: &str, login: &str, owner: bool) {
        self.act(|state| {
            state.add_account(login, Kind::User);
            if let Some(org) = state.accounts.get_mut(org) {
                org.members.insert(login.to_owned(), owner);
            }
        });
    }

    /// What every member may do in every repository of the organisation; `read` unless said otherwise.
    pub fn set_base_role(&self, org: &str, role: Role) {
        self.act(|state| {
            if let Some(org) = state.accounts.get_mut(org) {
                org.base_role = role;
            }
        });
    }

    /// Creates or replaces a team; its members become members of the organisation.
    pub fn create_team(&self, org: &str, slug: &str, members: &[&str]) -> i64 {
        for login in members {
            if !self.lock().accounts.get(org).is_some_and(|org| org.members.contains_key(*login)) {
                self.add_organization_member(org, login, false);
            }
        }
        self.act(|state| {
            let key = (org.to_owned(), slug.to_owned());
            let known = state.teams.get(&key);
            let team = Team {
                id: known.map_or_else(|| state.next_id(), |team| team.id),
                org: org.to_owned(),
                slug: slug.to_owned(),
                members: members.iter().map(|login| (*login).to_owned()).collect(),
                parent: known.and_then(|team| team.parent.clone()),
            };
            let id = team.id;
            state.teams.insert(key, team);
            id
        })
    }

    /// Puts a team below another one of the same organisation.
    pub fn set_parent_team(&self, org: &str, slug: &str, parent: &str) {
        self.act(|state| {
            if let Some(team) = state.teams.get_mut(&(org.to_owned(), slug.to_owned())) {
                team.parent = Some(parent.to_owned());
            }
        });
    }

    /// A token of a person that reaches everything the person does, and does not end.
    pub fn user_token(&self, login: &str) -> String {
        let token = new_token("ghp");
        let grant = Grant::User { login: login.to_owned(), app: None, expires_at: None };
        self.act(|state| state.tokens.insert(token.clone(), grant));
        token
    }
}
