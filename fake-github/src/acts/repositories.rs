//! Creating repositories, committing and pushing, and a repository's settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use serde_json::json;

use crate::actions::model::{Environment, Trigger};
use crate::git::{Commit, NO_COMMIT, NewCommit, Ref};
use crate::hub::Hub;
use crate::state::accounts::Kind;
use crate::state::apps::Installation;
use crate::state::apps::starts_workflows;
use crate::state::repositories::{Protection, Repository, Scoped, StoredEnvironment};
use crate::state::roles::Role;
use crate::state::{Effect, State};
use crate::webhooks::RefMove;

#[derive(Debug, Clone, Default)]
pub struct RepositorySetup {
    pub private: bool,
    /// Login → `read`, `triage`, `write`, `maintain`, `admin`.
    pub collaborators: BTreeMap<String, String>,
    /// Team slug → the same.
    pub teams: BTreeMap<String, String>,
    /// `main` when empty.
    pub default_branch: String,
    /// OIDC subjects name ids too, as for repositories made after July 2026.
    pub immutable_subject: bool,
}

/// Who committed. A login alone is enough: `Author::from("alice")`.
#[derive(Debug, Clone)]
pub struct Author {
    pub login: String,
}

impl From<&str> for Author {
    fn from(login: &str) -> Author {
        Author { login: login.to_owned() }
    }
}

/// Commits of one push that are looked at.
const PUSHED_COMMITS_MAX: usize = 100;

impl Hub {
    /// Creates an empty repository under an account, which is made if it does not exist.
    pub fn create_repository(&self, full_name: &str, setup: RepositorySetup) -> anyhow::Result<i64> {
        let (owner, name) = full_name.split_once('/').context("a repository is named owner/name")?;
        if self.lock().repository(full_name).is_some() {
            bail!("repository {full_name} already exists");
        }
        let branch = if setup.default_branch.is_empty() { "main" } else { &setup.default_branch };
        self.site().git.init(full_name, branch)?;
        let roles = |granted: BTreeMap<String, String>| -> anyhow::Result<BTreeMap<String, Role>> {
            let parse = |(name, role): (String, String)| {
                let role = Role::parse(&role).with_context(|| format!("{name}: no such role: {role}"))?;
                Ok((name, role))
            };
            granted.into_iter().map(parse).collect()
        };
        let (collaborators, teams) = (roles(setup.collaborators)?, roles(setup.teams)?);
        self.act(|state| {
            state.add_account(owner, Kind::Organization);
            for login in collaborators.keys() {
                state.add_account(login, Kind::User);
            }
            let (id, now) = (state.next_id(), state.now());
            let repository = Repository {
                id,
                full_name: full_name.to_owned(),
                owner: owner.to_owned(),
                name: name.to_owned(),
                private: setup.private,
                default_branch: branch.to_owned(),
                created_at: now,
                pushed_at: now,
                collaborators,
                teams,
                issues: BTreeMap::new(),
                labels: BTreeMap::new(),
                environments: BTreeMap::new(),
                variables: Scoped::default(),
                secrets: Scoped::default(),
                protection: BTreeMap::new(),
                statuses: Vec::new(),
                immutable_subject: setup.immutable_subject,
                subject_claims: Vec::new(),
            };
            state.repositories.insert(full_name.to_owned(), repository);
            state.announce_new_repository(full_name);
            Ok(id)
        })
    }

    /// Commits files to a branch, as a push does; a new branch starts at the default branch. The commit's id.
    pub fn commit(
        &self,
        repo: &str,
        branch: &str,
        message: &str,
        author: impl Into<Author>,
        files: &[(&str, Option<Vec<u8>>)],
    ) -> anyhow::Result<String> {
        let author = author.into();
        let (default_branch, email) = {
            let state = self.lock();
            let found = state.repository(repo).with_context(|| format!("no repository {repo}"))?;
            let email = state.account(&author.login).map(|account| account.email());
            (found.default_branch.clone(), email.unwrap_or_else(|| format!("{}@users.test", author.login)))
        };
        let full = format!("refs/heads/{branch}");
        let before = self.site().git.resolve(repo, &full);
        let from = format!("refs/heads/{default_branch}");
        let commit = NewCommit {
            branch,
            message,
            name: &author.login,
            email: &email,
            at_ms: self.site().now(),
            files,
            from: Some(&from),
        };
        let after = self.site().git.write_commit(repo, &commit)?;
        self.announce_move(repo, &full, before.as_deref(), Some(&after), &author.login);
        Ok(after)
    }

    /// Creates or moves a branch or tag, or deletes it with `None`, and announces it as a push does.
    pub fn set_ref(&self, repo: &str, full_ref: &str, sha: Option<&str>, by: &str) -> anyhow::Result<()> {
        let git = &self.site().git;
        let before = git.object_at(repo, full_ref).map(|found| found.sha);
        match sha {
            Some(sha) => git.update_ref(repo, full_ref, sha)?,
            None => git.delete_ref(repo, full_ref)?,
        }
        self.announce_move(repo, full_ref, before.as_deref(), sha, by);
        Ok(())
    }

    /// Tags a commit: annotated with a message, lightweight without.
    pub fn tag(&self, repo: &str, tag: &str, target: &str, message: Option<&str>, by: &str) -> anyhow::Result<String> {
        let git = &self.site().git;
        let sha = git.resolve(repo, target).with_context(|| format!("no commit {target} in {repo}"))?;
        let full = format!("refs/tags/{tag}");
        let object = match message {
            Some(message) => git.annotated_tag(repo, tag, &sha, message, self.site().now())?,
            None => {
                git.update_ref(repo, &full, &sha)?;
                sha
            }
        };
        self.announce_move(repo, &full, None, Some(&object), by);
        Ok(object)
    }

    /// Creates a fork: a repository of another account with the same branches, knowing where it came from.
    pub fn fork(&self, repo: &str, owner: &str) -> anyhow::Result<String> {
        let name = repo.split_once('/').context("a repository is named owner/name")?.1;
        let fork = format!("{owner}/{name}");
        let (private, default_branch) = {
            let state = self.lock();
            let found = state.repository(repo).with_context(|| format!("no repository {repo}"))?;
            (found.private, found.default_branch.clone())
        };
        self.create_user(owner);
        self.create_repository(&fork, RepositorySetup { private, default_branch, ..RepositorySetup::default() })?;
        self.site().git.fetch(&fork, repo, "+refs/heads/*:refs/heads/*")?;
        Ok(fork)
    }

    /// Announces every ref that differs between two lists of them.
    pub(crate) fn announce_refs(&self, repo: &str, before: &[Ref], after: &[Ref], pusher: &str) {
        let old: BTreeMap<&str, &str> = before.iter().map(|found| (found.name.as_str(), found.sha.as_str())).collect();
        let new: BTreeMap<&str, &str> = after.iter().map(|found| (found.name.as_str(), found.sha.as_str())).collect();
        let names: std::collections::BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        for name in names {
            self.announce_move(repo, name, old.get(name).copied(), new.get(name).copied(), pusher);
        }
    }

    /// Tells everyone that a ref moved: `push`, workflows, pull requests with this head or base.
    pub(crate) fn announce_move(
        &self,
        repo: &str,
        full_ref: &str,
        before: Option<&str>,
        after: Option<&str>,
        pusher: &str,
    ) {
        if before == after {
            return;
        }
        let git = &self.site().git;
        let commits = self.pushed_commits(repo, before, after);
        let forced = before.zip(after).is_some_and(|(before, after)| !git.is_ancestor(repo, before, after));
        self.journal.write(
            self.site().now(),
            "push",
            json!({"repository": repo, "ref": full_ref, "before": before, "after": after, "by": pusher}),
        );
        self.act(|state| {
            let now = state.now();
            if let Some(found) = state.repositories.get_mut(repo) {
                found.pushed_at = now;
            }
            let moved = RefMove {
                name: full_ref,
                before: before.unwrap_or(NO_COMMIT),
                after: after.unwrap_or(NO_COMMIT),
                forced,
                commits: &commits,
            };
            let payload = state.emit_push(repo, &moved, pusher);
            let Some(after) = after.filter(|_| starts_workflows(pusher)) else { return };
            state.request_check_suites(repo, full_ref, after, pusher);
            let sha = state.site.git.resolve(repo, full_ref).unwrap_or_else(|| after.to_owned());
            state.effects.push(Effect::Start(Trigger::Push {
                repo: repo.to_owned(),
                git_ref: full_ref.to_owned(),
                sha,
                payload,
                actor: pusher.to_owned(),
            }));
        });
        if let (Some(branch), Some(_)) = (full_ref.strip_prefix("refs/heads/"), after) {
            self.branch_moved(repo, branch, before, pusher);
        }
    }

    fn pushed_commits(&self, repo: &str, before: Option<&str>, after: Option<&str>) -> Vec<Arc<Commit>> {
        let git = &self.site().git;
        match (before, after) {
            (_, None) => Vec::new(),
            (Some(before), Some(after)) => git.commits(repo, &[&format!("{before}..{after}")], PUSHED_COMMITS_MAX),
            // A new branch brings only what no other branch has; the first one brings everything.
            (None, Some(after)) => {
                let branches = git.refs(repo, "refs/heads");
                let others =
                    branches.iter().filter(|branch| branch.sha != after).map(|branch| format!("^{}", branch.sha));
                let others: Vec<String> = others.collect();
                let mut range = vec![after];
                range.extend(others.iter().map(String::as_str));
                git.commits(repo, &range, PUSHED_COMMITS_MAX)
            }
        }
    }

    /// Creates or replaces an environment's protection. An id of 0 is given out here.
    pub fn set_environment(&self, repo: &str, environment: Environment) {
        self.act(|state| {
            let mut stored = state.environment_or_new(repo, &environment.name);
            let id = stored.id;
            stored = Environment { id, ..environment };
            let now = state.now();
            let Some(found) = state.repositories.get_mut(repo) else { return };
            if let Some(known) = found.environments.values_mut().find(|known| known.rules.id == id) {
                known.rules = stored;
                known.updated_at = now;
            }
        });
    }

    /// Lets only branches that match one of these patterns deploy to an environment; none lets all.
    pub fn set_branch_policy(&self, repo: &str, environment: &str, patterns: &[&str]) {
        self.act(|state| {
            let id = state.environment_or_new(repo, environment).id;
            let Some(found) = state.repositories.get_mut(repo) else { return };
            if let Some(known) = found.environments.values_mut().find(|known| known.rules.id == id) {
                known.branch_patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            }
        });
    }

    /// Sets a variable of the repository, or of one environment.
    pub fn set_variable(&self, repo: &str, environment: Option<&str>, name: &str, value: &str) {
        self.act(|state| {
            if let Some(found) = state.repositories.get_mut(repo) {
                found.variables.set(environment, name, value);
            }
        });
    }

    /// Sets a secret of the repository, or of one environment.
    pub fn set_secret(&self, repo: &str, environment: Option<&str>, name: &str, value: &str) {
        self.act(|state| {
            if let Some(found) = state.repositories.get_mut(repo) {
                found.secrets.set(environment, name, value);
            }
        });
    }

    pub fn protect_branch(&self, repo: &str, branch: &str, rules: Protection) {
        self.act(|state| {
            if let Some(found) = state.repositories.get_mut(repo) {
                found.protection.insert(branch.to_owned(), rules);
            }
        });
    }

    pub fn set_collaborator(&self, repo: &str, login: &str, role: Role) {
        self.act(|state| {
            state.add_account(login, Kind::User);
            if let Some(found) = state.repositories.get_mut(repo) {
                found.collaborators.insert(login.to_owned(), role);
            }
        });
    }

    /// The claims that make up the OIDC subject of the repository's jobs; empty for the default.
    pub fn set_subject_claims(&self, repo: &str, claims: &[&str]) {
        self.act(|state| {
            if let Some(found) = state.repositories.get_mut(repo) {
                found.subject_claims = claims.iter().map(|claim| (*claim).to_owned()).collect();
            }
        });
    }

    /// Names of all repositories, sorted.
    pub fn repositories(&self) -> Vec<String> {
        self.lock().repositories.keys().cloned().collect()
    }

    /// The commit a branch, tag or commit id names.
    pub fn resolve(&self, repo: &str, name: &str) -> Option<String> {
        self.site().git.resolve(repo, name)
    }

    /// A file at a branch, tag or commit.
    pub fn file(&self, repo: &str, at: &str, path: &str) -> Option<Vec<u8>> {
        let sha = self.site().git.resolve(repo, at)?;
        self.site().git.read_file(repo, &sha, path)
    }
}

impl State {
    /// The environment's rules; an unknown environment is created without any, as GitHub does.
    pub fn environment_or_new(&mut self, repo: &str, name: &str) -> Environment {
        if let Some(stored) = self.repository(repo).and_then(|found| found.environment(name)) {
            return stored.rules.clone();
        }
        let rules = Environment { id: self.next_id(), name: name.to_owned(), ..Environment::default() };
        let now = self.now();
        let stored =
            StoredEnvironment { rules: rules.clone(), created_at: now, updated_at: now, branch_patterns: Vec::new() };
        if let Some(found) = self.repositories.get_mut(repo) {
            found.environments.insert(name.to_owned(), stored);
        }
        rules
    }

    /// An app that is installed on everything of an account hears of each new repository.
    fn announce_new_repository(&mut self, repo: &str) {
        let owner = repo.split('/').next().unwrap_or_default().to_owned();
        let everywhere = |known: &&Installation| known.account == owner && known.repositories.is_none();
        let installations: Vec<i64> = self.installations.values().filter(everywhere).map(|known| known.id).collect();
        for id in installations {
            self.emit_installation_repositories(id, &[repo.to_owned()], &[], &owner);
        }
    }

    /// One suite per app that may write checks, made on every push to a branch.
    fn request_check_suites(&mut self, repo: &str, full_ref: &str, sha: &str, pusher: &str) {
        let Some(branch) = full_ref.strip_prefix("refs/heads/") else { return };
        let apps: Vec<i64> = self
            .apps
            .values()
            .filter(|app| app.permissions.get("checks").is_some_and(|level| level == "write"))
            .filter(|app| self.installation_of(app.id, repo).is_some())
            .map(|app| app.id)
            .collect();
        for app in apps {
            let suite = self.check_suite(repo, app, sha, Some(branch));
            self.emit_check_suite(suite, "requested", pusher);
        }
    }
}
