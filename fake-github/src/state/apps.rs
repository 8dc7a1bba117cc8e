//! GitHub Apps, their installations, the tokens of everyone, and webhook deliveries.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::State;

/// The id of GitHub's own Actions app, which writes the check runs of jobs.
pub const ACTIONS_APP: i64 = 15_368;

/// Who acts when a job uses its own token.
pub const ACTIONS_BOT: &str = "github-actions[bot]";

/// What a job does with its own token starts no workflow, or workflows could start each other without end.
pub fn starts_workflows(actor: &str) -> bool {
    actor != ACTIONS_BOT
}

pub type Permissions = BTreeMap<String, String>;

#[derive(Clone)]
pub struct AppRecord {
    pub id: i64,
    pub slug: String,
    pub name: String,
    pub owner: String,
    pub client_id: String,
    pub client_secret: String,
    pub permissions: Permissions,
    pub events: Vec<String>,
    pub webhook_url: Option<String>,
    pub webhook_secret: Option<String>,
    pub hook_id: i64,
    pub callback_urls: Vec<String>,
    pub created_at: i64,
}

impl AppRecord {
    pub fn actions(now: i64) -> AppRecord {
        AppRecord {
            id: ACTIONS_APP,
            slug: "github-actions".to_owned(),
            name: "GitHub Actions".to_owned(),
            owner: "github".to_owned(),
            client_id: "Iv1.05c79e9ad1f6bdfa".to_owned(),
            client_secret: String::new(),
            permissions: Permissions::new(),
            events: Vec::new(),
            webhook_url: None,
            webhook_secret: None,
            hook_id: 0,
            callback_urls: Vec::new(),
            created_at: now,
        }
    }

    pub fn bot_login(&self) -> String {
        format!("{}[bot]", self.slug)
    }
}

#[derive(Debug, Clone)]
pub struct Installation {
    pub id: i64,
    pub app: i64,
    pub account: String,
    /// Chosen repositories; `None` is all of the account.
    pub repositories: Option<BTreeSet<String>>,
    pub permissions: Permissions,
    pub events: Vec<String>,
    pub created_at: i64,
    pub suspended_at: Option<i64>,
}

/// What a token stands for.
#[derive(Debug, Clone)]
pub enum Grant {
    Installation {
        installation: i64,
        /// A narrower choice than the installation's.
        repositories: Option<BTreeSet<String>>,
        permissions: Permissions,
        expires_at: i64,
    },
    Job {
        job: i64,
        run: i64,
        repo: String,
        permissions: Permissions,
    },
    /// Bearer token of a job's id-token endpoint.
    IdToken {
        job: i64,
        run: i64,
    },
    User {
        login: String,
        /// The app it was made for; `None` reaches everything the person does.
        app: Option<i64>,
        expires_at: Option<i64>,
    },
}

/// A one-time code of a browser flow.
#[derive(Debug, Clone)]
pub enum Code {
    OAuth { app: i64, login: String, redirect_uri: String, challenge: Option<String>, expires_at: i64 },
    Manifest { app: i64, expires_at: i64 },
}

/// One attempt to deliver a webhook; a redelivery is another one with the same guid.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub id: i64,
    pub guid: String,
    pub app: i64,
    pub event: String,
    pub action: Option<String>,
    pub installation: Option<i64>,
    pub repository: Option<i64>,
    pub payload: Value,
    pub redelivery: bool,
    /// A fault kept it back on purpose.
    pub lost: bool,
    pub created_at: i64,
    pub delivered_at: Option<i64>,
    pub duration_ms: i64,
    /// `OK`, or what went wrong.
    pub status: Option<String>,
    pub status_code: u16,
    pub request_headers: BTreeMap<String, String>,
    pub response_body: String,
}

impl State {
    pub fn app_by_slug(&self, slug: &str) -> Option<&AppRecord> {
        self.apps.values().find(|app| app.slug == slug)
    }

    /// The app an `iss` claim or a client id names.
    pub fn app_by_issuer(&self, issuer: &str) -> Option<&AppRecord> {
        self.apps.values().find(|app| app.client_id == issuer || app.id.to_string() == issuer)
    }

    /// Names of the repositories an installation reaches.
    pub fn installed_repositories(&self, installation: &Installation) -> Vec<String> {
        self.repositories
            .values()
            .filter(|repo| repo.owner == installation.account)
            .filter(|repo| installation.repositories.as_ref().is_none_or(|chosen| chosen.contains(&repo.full_name)))
            .map(|repo| repo.full_name.clone())
            .collect()
    }

    pub fn installation_of(&self, app: i64, repo: &str) -> Option<&Installation> {
        self.installations.values().find(|installation| {
            installation.app == app && self.installed_repositories(installation).iter().any(|name| name == repo)
        })
    }
}
