//! What a person may do in a repository: the highest of all grants.

use super::State;
use super::accounts::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    None,
    Read,
    Triage,
    Write,
    Maintain,
    Admin,
}

impl Role {
    /// `pull`, `read`, `push`, `write`, …: both spellings that GitHub uses.
    pub fn parse(text: &str) -> Option<Role> {
        Some(match text {
            "none" => Role::None,
            "read" | "pull" => Role::Read,
            "triage" => Role::Triage,
            "write" | "push" => Role::Write,
            "maintain" => Role::Maintain,
            "admin" => Role::Admin,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Role::None => "none",
            Role::Read => "read",
            Role::Triage => "triage",
            Role::Write => "write",
            Role::Maintain => "maintain",
            Role::Admin => "admin",
        }
    }

    /// The four levels of the old `permission` field.
    pub fn permission(self) -> &'static str {
        match self {
            Role::None => "none",
            Role::Read | Role::Triage => "read",
            Role::Write | Role::Maintain => "write",
            Role::Admin => "admin",
        }
    }
}

impl State {
    pub fn role(&self, repo: &str, login: &str) -> Role {
        let (Some(repo), Some(account)) = (self.repository(repo), self.account(login)) else { return Role::None };
        let mut role = if repo.private { Role::None } else { Role::Read };
        if account.kind == Kind::Bot {
            return role;
        }
        if repo.owner.eq_ignore_ascii_case(login) {
            return Role::Admin;
        }
        if let Some(owner) = self.account(&repo.owner)
            && let Some(is_owner) = owner.members.get(&account.login)
        {
            role = role.max(if *is_owner { Role::Admin } else { owner.base_role });
        }
        if let Some(direct) = repo.collaborators.get(&account.login) {
            role = role.max(*direct);
        }
        for (slug, granted) in &repo.teams {
            if self.team_members(&repo.owner, slug).contains(&account.login) {
                role = role.max(*granted);
            }
        }
        role
    }

    /// `OWNER`, `MEMBER`, `COLLABORATOR`, `NONE`: how comments introduce their author.
    pub fn association(&self, repo: &str, login: &str) -> &'static str {
        let Some(found) = self.repository(repo) else { return "NONE" };
        if found.owner == login {
            return "OWNER";
        }
        if self.account(&found.owner).is_some_and(|owner| owner.members.contains_key(login)) {
            return "MEMBER";
        }
        if found.collaborators.contains_key(login) {
            return "COLLABORATOR";
        }
        "NONE"
    }
}
