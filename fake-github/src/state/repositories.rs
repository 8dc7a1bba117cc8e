//! Repositories and what belongs to one: environments, variables, secrets, labels, branch protection.

use std::collections::BTreeMap;

use crate::actions::model::Environment;

use super::issues::Issue;
use super::roles::Role;

#[derive(Debug, Clone)]
pub struct Repository {
    pub id: i64,
    pub full_name: String,
    pub owner: String,
    pub name: String,
    pub private: bool,
    pub default_branch: String,
    pub created_at: i64,
    pub pushed_at: i64,
    pub collaborators: BTreeMap<String, Role>,
    /// Team slug → role; the teams of the owner.
    pub teams: BTreeMap<String, Role>,
    /// Issues and pull requests share their numbers.
    pub issues: BTreeMap<i64, Issue>,
    pub labels: BTreeMap<String, Label>,
    pub environments: BTreeMap<String, StoredEnvironment>,
    pub variables: Scoped,
    pub secrets: Scoped,
    pub protection: BTreeMap<String, Protection>,
    /// `refs/heads/main` → commit, as last announced; what a push is compared with.
    pub statuses: Vec<CommitStatus>,
    /// Ids of workflows that were switched off.
    pub immutable_subject: bool,
    /// Claims of a customised OIDC subject; empty means the default.
    pub subject_claims: Vec<String>,
}

impl Repository {
    pub fn next_number(&self) -> i64 {
        self.issues.last_key_value().map_or(1, |(last, _)| last + 1)
    }

    pub fn environment(&self, name: &str) -> Option<&StoredEnvironment> {
        self.environments.values().find(|stored| stored.rules.name.eq_ignore_ascii_case(name))
    }
}

/// Values of a repository, and of its environments over them.
#[derive(Debug, Clone, Default)]
pub struct Scoped {
    pub repository: BTreeMap<String, String>,
    pub environments: BTreeMap<String, BTreeMap<String, String>>,
}

impl Scoped {
    pub fn effective(&self, environment: Option<&str>) -> BTreeMap<String, String> {
        let mut values = self.repository.clone();
        if let Some(name) = environment {
            let own = self.environments.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
            values.extend(own.flat_map(|(_, values)| values.clone()));
        }
        values
    }

    pub fn set(&mut self, environment: Option<&str>, name: &str, value: &str) {
        let values = match environment {
            None => &mut self.repository,
            Some(environment) => self.environments.entry(environment.to_owned()).or_default(),
        };
        values.insert(name.to_owned(), value.to_owned());
    }
}

#[derive(Debug, Clone)]
pub struct StoredEnvironment {
    pub rules: Environment,
    pub created_at: i64,
    pub updated_at: i64,
    /// Only branches matching one of these may deploy; none means all.
    pub branch_patterns: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Label {
    pub id: i64,
    pub name: String,
    pub color: String,
    pub description: Option<String>,
}

#[derive(Debug, Clone)]
pub struct CommitStatus {
    pub id: i64,
    pub sha: String,
    pub context: String,
    pub state: String,
    pub description: Option<String>,
    pub target_url: Option<String>,
    pub creator: String,
    pub created_at: i64,
}

/// Protection of one branch.
#[derive(Debug, Clone, Default)]
pub struct Protection {
    pub required_checks: Vec<RequiredCheck>,
    /// The head must contain the base's newest commit.
    pub strict: bool,
    pub required_approvals: u32,
    /// An approval counts only while its commit is the head.
    pub dismiss_stale_approvals: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredCheck {
    pub context: String,
    /// Only a check of this app counts; `None` is any source.
    pub app_id: Option<i64>,
}
