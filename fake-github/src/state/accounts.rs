//! Users, bots, organisations and teams.

use std::collections::{BTreeMap, BTreeSet};

use super::State;
use super::roles::Role;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    User,
    Organization,
    Bot,
}

#[derive(Debug, Clone)]
pub struct Account {
    pub id: i64,
    pub login: String,
    pub kind: Kind,
    pub created_at: i64,
    /// Organisations only: login → owner or not.
    pub members: BTreeMap<String, bool>,
    /// Organisations only: what every member may do in every repository.
    pub base_role: Role,
}

impl Account {
    pub fn email(&self) -> String {
        format!("{}+{}@users.noreply.github.test", self.id, self.login)
    }
}

#[derive(Debug, Clone)]
pub struct Team {
    pub id: i64,
    pub org: String,
    pub slug: String,
    pub members: BTreeSet<String>,
    pub parent: Option<String>,
}

impl State {
    /// Adds an account, or returns the id of the one that exists.
    pub fn add_account(&mut self, login: &str, kind: Kind) -> i64 {
        if let Some(account) = self.account(login) {
            return account.id;
        }
        let account = Account {
            id: self.next_id(),
            login: login.to_owned(),
            kind,
            created_at: self.now(),
            members: BTreeMap::new(),
            base_role: Role::Read,
        };
        let id = account.id;
        self.accounts.insert(login.to_owned(), account);
        id
    }

    pub fn account(&self, login: &str) -> Option<&Account> {
        self.accounts
            .get(login)
            .or_else(|| self.accounts.values().find(|account| account.login.eq_ignore_ascii_case(login)))
    }

    pub fn team(&self, org: &str, slug: &str) -> Option<&Team> {
        self.teams.values().find(|team| team.org.eq_ignore_ascii_case(org) && team.slug.eq_ignore_ascii_case(slug))
    }

    /// Members of a team and of the teams below it, as GitHub's membership calls count them.
    pub fn team_members(&self, org: &str, slug: &str) -> BTreeSet<String> {
        // Deeper than any real tree of teams, and an end to a cycle.
        const TEAM_DEPTH_MAX: usize = 20;
        let mut members = BTreeSet::new();
        let mut level = vec![slug.to_owned()];
        for _ in 0..TEAM_DEPTH_MAX {
            let mut below = Vec::new();
            for slug in &level {
                members.extend(self.team(org, slug).into_iter().flat_map(|team| team.members.iter().cloned()));
                below.extend(
                    self.teams
                        .values()
                        .filter(|team| team.org.eq_ignore_ascii_case(org) && team.parent.as_ref() == Some(slug))
                        .map(|team| team.slug.clone()),
                );
            }
            if below.is_empty() {
                break;
            }
            level = below;
        }
        members
    }

    /// Whether a login, or a team's slug of the repository's owner, names this person.
    pub fn is_reviewer(&self, repo: &str, reviewer: &str, login: &str) -> bool {
        if reviewer.eq_ignore_ascii_case(login) {
            return true;
        }
        let owner = repo.split('/').next().unwrap_or_default();
        let slug = reviewer.rsplit('/').next().unwrap_or(reviewer);
        self.team(owner, slug).is_some() && self.team_members(owner, slug).contains(login)
    }
}
