//! Finding out: the database and GitHub are asked, one thing after the other, and nothing is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::facts::{DatabaseFacts, Facts, Known, RepositoryFacts};
use super::workflows::{PLAN_FILE, RUN_FILE};
use crate::causes::chain;
use crate::clock::Clock;
use crate::config::environments::EnvironmentRules;
use crate::github::api::{Api as _, RepoRef};
use crate::github::client::GitHubClient;
use crate::graph::settings;
use crate::ids::RepoName;
use crate::orchestrator::{LEADER, repo_ref};
use crate::run::model::Repo;
use crate::settings::Settings;
use crate::store::{self, QueueFilter, Schema, Store};

/// Connections of a command that does one thing.
const CONNECTIONS: u32 = 1;
/// Dead letters that are counted.
const DEAD_MAX: u32 = 1_000;
/// Where GitHub's own API is; any other is an Enterprise Server's.
const GITHUB_COM: &str = "https://api.github.com";

/// Everything the doctor judges. Without names every repository that the server knows is looked at.
pub async fn examine(settings: &Settings, github: &GitHubClient, clock: &dyn Clock, only: &[RepoName]) -> Facts {
    let opened = open(&settings.database_url).await;
    let database = match &opened {
        Err(reason) => Err(reason.clone()),
        Ok((schema, None)) => Ok(DatabaseFacts { schema: *schema, leader: None, dead: Vec::new() }),
        Ok((schema, Some(store))) => read_database(*schema, &**store).await,
    };
    let mut repositories = Vec::new();
    if let Ok((_, Some(store))) = &opened {
        // A database that cannot list them has been found out above.
        for repo in store.repos().await.unwrap_or_default() {
            let is_wanted = only.is_empty() || only.iter().any(|name| repo.full_name.same_as(name.as_str()));
            if is_wanted && !repo.suspended {
                repositories.push(read_repository(&**store, github, &repo).await);
            }
        }
        store.close().await;
    }
    Facts {
        now: clock.now(),
        base_url: settings.base_url.clone(),
        audience: settings.oidc_audience.clone(),
        is_enterprise: settings.github_api_url != GITHUB_COM,
        app_id: i64::try_from(settings.app.id).unwrap_or(i64::MAX),
        database,
        clock_ahead_by: known(github.clock_ahead_by().await),
        registered: known(github.registered().await),
        granted: known(github.granted().await),
        hook: known(github.hook().await),
        attempts: known(github.delivery_attempts().await),
        repositories,
    }
}

/// The store is opened only when that changes nothing: opening migrates.
async fn open(url: &str) -> Known<(Schema, Option<Arc<dyn Store>>)> {
    let schema = known(store::schema_of(url).await)?;
    let store = match schema {
        Schema::Current => Some(known(store::open(url, CONNECTIONS).await)?),
        Schema::Older(_) | Schema::Newer(_) => None,
    };
    Ok((schema, store))
}

async fn read_database(schema: Schema, store: &dyn Store) -> Known<DatabaseFacts> {
    let leader = known(store.lease(LEADER).await)?;
    let dead = known(store.queue(QueueFilter::Dead, DEAD_MAX).await)?;
    Ok(DatabaseFacts { schema, leader, dead })
}

async fn read_repository(store: &dyn Store, github: &GitHubClient, repo: &Repo) -> RepositoryFacts {
    let reference: RepoRef = repo_ref(repo);
    let branch = &repo.default_branch;
    RepositoryFacts {
        name: repo.full_name.clone(),
        default_branch: branch.clone(),
        policy: repo.policy(),
        plan_workflow: known(github.file(&reference, PLAN_FILE, branch).await),
        run_workflow: known(github.file(&reference, RUN_FILE, branch).await),
        required_checks: known(github.required_checks(&reference, branch).await),
        environments: known(github.environments(&reference).await),
        applied_under: applied_under(store, repo).await,
    }
}

/// Environments of the stacks of the default branch, or of the newest graph while it has none; each with its first stack.
async fn applied_under(store: &dyn Store, repo: &Repo) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let newest = match &repo.default_graph {
        Some(sha) => Some(sha.clone()),
        None => store.newest_graph(repo.id).await.ok().flatten(),
    };
    let Some(sha) = newest else { return found };
    let Ok(Some(graph)) = store.graph(repo.id, &sha).await else { return found };
    let policy = repo.policy();
    let rules = EnvironmentRules::of(&policy);
    for stack in graph.stacks.iter().filter(|stack| !stack.external) {
        let environment = settings::of(stack, &policy, &rules, &mut Vec::new()).environment;
        found.entry(environment).or_insert_with(|| stack.key.clone());
    }
    found
}

fn known<T, E: std::error::Error>(asked: Result<T, E>) -> Known<T> {
    asked.map_err(|error| chain(&error))
}
