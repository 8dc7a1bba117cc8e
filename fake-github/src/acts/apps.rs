//! Registering and installing GitHub Apps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::auth::{APP_PRIVATE_KEY, new_token};
use crate::hub::Hub;
use crate::state::accounts::Kind;
use crate::state::apps::{AppRecord, Grant, Installation, Permissions};

#[derive(Debug, Clone, Default)]
pub struct AppSetup {
    pub slug: String,
    /// The account that owns the app; `github` when empty.
    pub owner: String,
    /// `checks` → `write`, …; reading metadata is always granted.
    pub permissions: BTreeMap<String, String>,
    pub events: Vec<String>,
    pub webhook_url: Option<String>,
    pub webhook_secret: Option<String>,
    pub callback_urls: Vec<String>,
}

/// What the person who registered an app is shown once.
#[derive(Clone)]
pub struct App {
    pub id: i64,
    pub slug: String,
    pub client_id: String,
    pub client_secret: String,
    pub webhook_secret: Option<String>,
    pub private_key_pem: String,
}

/// Installation tokens end after this long.
pub const INSTALLATION_TOKEN_MS: i64 = 60 * 60 * 1000;

impl Hub {
    /// Registers an app and sends it a `ping`. Must be called inside a Tokio runtime.
    pub fn create_app(self: &Arc<Self>, setup: AppSetup) -> App {
        let id = self.site().next_id();
        self.start_sender(id);
        self.act(|state| {
            let mut permissions = setup.permissions;
            permissions.entry("metadata".to_owned()).or_insert_with(|| "read".to_owned());
            let owner = if setup.owner.is_empty() { "github".to_owned() } else { setup.owner };
            let record = AppRecord {
                id,
                name: setup.slug.clone(),
                slug: setup.slug,
                owner,
                client_id: format!("Iv23fake{id:012}"),
                client_secret: new_token("secret"),
                permissions,
                events: setup.events,
                webhook_url: setup.webhook_url,
                webhook_secret: setup.webhook_secret,
                hook_id: state.next_id(),
                callback_urls: setup.callback_urls,
                created_at: state.now(),
            };
            state.add_account(&record.bot_login(), Kind::Bot);
            let app = app_of(&record);
            state.apps.insert(id, record);
            state.emit_ping(id);
            app
        })
    }

    /// Where an app's webhooks go from now on.
    pub fn set_webhook_url(&self, app: i64, url: &str) {
        self.act(|state| {
            if let Some(app) = state.apps.get_mut(&app) {
                app.webhook_url = Some(url.to_owned());
            }
        });
    }

    /// Changes what an app asks for. Its installations keep what they have granted until somebody accepts.
    pub fn ask_for(&self, app: i64, permissions: &[(&str, &str)], events: &[&str]) {
        self.act(|state| {
            let Some(app) = state.apps.get_mut(&app) else { return };
            app.permissions =
                permissions.iter().map(|(name, level)| ((*name).to_owned(), (*level).to_owned())).collect();
            app.permissions.entry("metadata".to_owned()).or_insert_with(|| "read".to_owned());
            app.events = events.iter().map(|event| (*event).to_owned()).collect();
        });
    }

    /// Where people may be sent after they signed in to an app.
    pub fn set_callback_urls(&self, app: i64, urls: &[&str]) {
        self.act(|state| {
            if let Some(app) = state.apps.get_mut(&app) {
                app.callback_urls = urls.iter().map(|url| (*url).to_owned()).collect();
            }
        });
    }

    /// Installs an app on an account: on chosen repositories, or on all of them when none are named.
    pub fn install_app(&self, app: i64, account: &str, repositories: &[&str]) -> i64 {
        self.act(|state| {
            let (permissions, events) =
                state.apps.get(&app).map(|app| (app.permissions.clone(), app.events.clone())).unwrap_or_default();
            let chosen: BTreeSet<String> = repositories.iter().map(|name| (*name).to_owned()).collect();
            let installation = Installation {
                id: state.next_id(),
                app,
                account: account.to_owned(),
                repositories: (!chosen.is_empty()).then_some(chosen),
                permissions,
                events,
                created_at: state.now(),
                suspended_at: None,
            };
            let id = installation.id;
            state.installations.insert(id, installation);
            let sender = installer(state, account);
            state.emit_installation(id, "created", &sender);
            id
        })
    }

    pub fn uninstall_app(&self, installation: i64) {
        self.act(|state| {
            let Some(known) = state.installations.get(&installation) else { return };
            let sender = installer(state, &known.account.clone());
            state.emit_installation(installation, "deleted", &sender);
            state.installations.remove(&installation);
            state.tokens.retain(
                |_, grant| !matches!(grant, Grant::Installation { installation: of, .. } if *of == installation),
            );
        });
    }

    /// Suspends an installation, or lifts the suspension.
    pub fn suspend_installation(&self, installation: i64, suspended: bool) {
        self.act(|state| {
            let now = state.now();
            let Some(known) = state.installations.get_mut(&installation) else { return };
            known.suspended_at = suspended.then_some(now);
            let account = known.account.clone();
            let sender = installer(state, &account);
            state.emit_installation(installation, if suspended { "suspend" } else { "unsuspend" }, &sender);
        });
    }

    /// Changes which repositories an installation reaches.
    pub fn change_installation(&self, installation: i64, add: &[&str], remove: &[&str]) {
        self.act(|state| {
            let Some(known) = state.installations.get_mut(&installation) else { return };
            let account = known.account.clone();
            let chosen = known.repositories.get_or_insert_default();
            chosen.extend(add.iter().map(|name| (*name).to_owned()));
            chosen.retain(|name| !remove.contains(&name.as_str()));
            let sender = installer(state, &account);
            let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            if !add.is_empty() {
                state.emit_installation_repositories(installation, &names(add), &[], &sender);
            }
            if !remove.is_empty() {
                state.emit_installation_repositories(installation, &[], &names(remove), &sender);
            }
        });
    }

    /// A token of an installation and when it ends, never wider than the installation.
    pub(crate) fn installation_token(
        &self,
        installation: i64,
        repositories: Option<BTreeSet<String>>,
        permissions: Permissions,
    ) -> (String, i64) {
        let token = new_token("ghs");
        let expires_at = self.site().now() + INSTALLATION_TOKEN_MS;
        let grant = Grant::Installation { installation, repositories, permissions, expires_at };
        self.act(|state| state.tokens.insert(token.clone(), grant));
        (token, expires_at)
    }
}

pub(crate) fn app_of(record: &AppRecord) -> App {
    App {
        id: record.id,
        slug: record.slug.clone(),
        client_id: record.client_id.clone(),
        client_secret: record.client_secret.clone(),
        webhook_secret: record.webhook_secret.clone(),
        private_key_pem: APP_PRIVATE_KEY.to_owned(),
    }
}

/// Who acts for an account: the person, or the organisation's first owner or member.
fn installer(state: &crate::state::State, account: &str) -> String {
    let Some(found) = state.account(account) else { return account.to_owned() };
    let owner = found.members.iter().find(|(_, owner)| **owner).or_else(|| found.members.iter().next());
    owner.map_or_else(|| account.to_owned(), |(login, _)| login.clone())
}
