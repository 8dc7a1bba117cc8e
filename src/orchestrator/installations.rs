//! Which repositories the App reaches, and their default-branch policy (spec 24 §2, §13; spec 22 §5).

use std::collections::BTreeSet;

use serde_json::json;

use super::bells::Queue;
use super::{App, Result, repo_ref};
use crate::config::parse::parse_repo_config;
use crate::github::api::{GitHubError, InstallationFacts, RepositoryFacts};
use crate::github::webhook::{InstallationEvent, InstallationRepositoriesEvent, PushEvent};
use crate::ids::RepoName;
use crate::run::model::{AuditEntry, Repo};
use crate::run::scene::{JobKind, NewJob};
use crate::store::Installation;

/// The file at the root of the default branch.
const CONFIG_FILE: &str = "stackorder.yaml";

impl App {
    pub(super) async fn installation_changed(&self, event: InstallationEvent) -> Result<()> {
        let suspended = match event.action.as_str() {
            "deleted" => return Ok(self.store.delete_installation(event.installation.id).await?),
            "suspend" => true,
            "created" | "unsuspend" | "new_permissions_accepted" => false,
            _ => return Ok(()),
        };
        let installation = installation_of(&event.installation, suspended);
        self.store.save_installation(&installation).await?;
        if suspended {
            return Ok(());
        }
        let named: Vec<_> = event.repositories.into_iter().map(|repo| (repo.id, repo.name)).collect();
        self.add_repositories(installation.id, &named).await
    }

    pub(super) async fn installed_repositories_changed(&self, event: InstallationRepositoriesEvent) -> Result<()> {
        for id in event.removed {
            self.store.delete_repo(id).await?;
        }
        let known = self.store.installations().await?.into_iter().any(|known| known.id == event.installation.id);
        if !known {
            self.store.save_installation(&installation_of(&event.installation, false)).await?;
        }
        let named: Vec<_> = event.added.into_iter().map(|repo| (repo.id, repo.name)).collect();
        self.add_repositories(event.installation.id, &named).await
    }

    /// A push may rename the default branch or change its policy.
    pub(super) async fn pushed(&self, event: PushEvent) -> Result<()> {
        let Some(mut repo) = self.known(event.repo.id).await? else { return Ok(()) };
        if !event.default_branch.is_empty() && event.default_branch != repo.default_branch {
            repo.default_branch = event.default_branch;
            self.store.save_repo(&repo).await?;
        }
        if !event.deleted && event.reference == format!("refs/heads/{}", repo.default_branch) {
            self.load_config_soon(repo.id).await?;
        }
        Ok(())
    }

    /// Lists installations and repositories at GitHub; forgets what it no longer lists, unless any listing failed.
    pub async fn sync_installations(&self) -> Result<()> {
        let listed = self.github.installations().await?;
        let mut complete = true;
        let mut seen_repos: BTreeSet<i64> = BTreeSet::new();
        for facts in &listed {
            self.store.save_installation(&installation_of(facts, facts.suspended)).await?;
            if facts.suspended {
                complete = false;
                continue;
            }
            match self.github.installation_repositories(facts.id).await {
                Ok(repositories) => {
                    for repository in repositories {
                        seen_repos.insert(repository.id);
                        self.save_repository(facts.id, &repository).await?;
                    }
                }
                Err(error) => {
                    tracing::warn!(installation = facts.id, %error, "repositories could not be listed");
                    complete = false;
                }
            }
        }
        if complete {
            let installed: BTreeSet<i64> = listed.iter().map(|facts| facts.id).collect();
            for installation in self.store.installations().await? {
                if !installed.contains(&installation.id) {
                    self.store.delete_installation(installation.id).await?;
                }
            }
            for repo in self.store.repos().await? {
                if !seen_repos.contains(&repo.id) {
                    self.store.delete_repo(repo.id).await?;
                }
            }
        }
        Ok(())
    }

    /// Records a repository; one that was never read gets its configuration loaded.
    pub(super) async fn save_repository(&self, installation_id: i64, facts: &RepositoryFacts) -> Result<()> {
        let known = self.store.repo(facts.id).await?;
        let never_read = known.as_ref().is_none_or(|repo| repo.config_sha.is_empty());
        let repo = Repo {
            id: facts.id,
            installation_id,
            full_name: facts.name.clone(),
            default_branch: facts.default_branch.clone(),
            private: facts.private,
            suspended: false,
            config: known.as_ref().and_then(|repo| repo.config.clone()),
            config_sha: known.as_ref().map(|repo| repo.config_sha.clone()).unwrap_or_default(),
            default_graph: known.and_then(|repo| repo.default_graph),
        };
        self.store.save_repo(&repo).await?;
        if never_read {
            self.load_config_soon(repo.id).await?;
        }
        Ok(())
    }

    /// Repositories as an event names them: the default branch has to be asked for.
    pub(super) async fn add_repositories(&self, installation_id: i64, named: &[(i64, RepoName)]) -> Result<()> {
        for (id, name) in named {
            let reference = crate::github::api::RepoRef { id: *id, installation_id, name: name.clone() };
            match self.github.repository(&reference).await {
                Ok(facts) => self.save_repository(installation_id, &facts).await?,
                Err(GitHubError::NotFound { .. }) => tracing::info!(repo = %name, "gone before it was added"),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    pub(super) async fn load_config_soon(&self, repo_id: i64) -> Result<()> {
        let job = NewJob::keyed(
            JobKind::LoadConfig,
            format!("load_config:{repo_id}"),
            json!({ "repo_id": repo_id }),
            self.now(),
        );
        self.store.add_job(&job).await?;
        self.bells.ring(Queue::Outbox);
        Ok(())
    }

    /// Reads `stackorder.yaml` at the branch's current head. Invalid: the previous one stays, with an audit entry.
    pub(super) async fn load_config(&self, repo_id: i64) -> Result<()> {
        let Some(repo) = self.store.repo(repo_id).await? else { return Ok(()) };
        if repo.suspended {
            return Ok(());
        }
        let github = repo_ref(&repo);
        let head = match self.github.branch_head(&github, &repo.default_branch).await {
            Ok(head) => head,
            // An empty repository has no branch yet.
            Err(GitHubError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let Some(bytes) = self.github.file(&github, CONFIG_FILE, head.as_str()).await? else {
            return Ok(self.store.save_config(repo_id, None, head.as_str()).await?);
        };
        match parse_repo_config(CONFIG_FILE, &bytes) {
            Ok(config) => Ok(self.store.save_config(repo_id, Some(&config), head.as_str()).await?),
            Err(problems) => {
                let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                tracing::warn!(repo = %repo.full_name, %head, problems = text, "the configuration is invalid; the previous one stays");
                let entry = AuditEntry {
                    at: self.now(),
                    actor: "stackorder".to_owned(),
                    action: "config_invalid".to_owned(),
                    target: format!("repo:{}", repo.full_name),
                    details: [("sha".to_owned(), json!(head)), ("error".to_owned(), json!(text))].into(),
                };
                Ok(self.store.add_audit(&entry).await?)
            }
        }
    }
}

fn installation_of(facts: &InstallationFacts, suspended: bool) -> Installation {
    Installation { id: facts.id, account: facts.account.clone(), account_type: facts.account_type.clone(), suspended }
}
