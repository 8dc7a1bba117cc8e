//! `stackorder admin keys …`: API keys, made on the server's own database (design §14).

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Format, actor, database};
use crate::cli::output;
use crate::clock::{Clock as _, DAY_MS, Millis, SystemClock, rfc3339};
use crate::ids::{RepoName, hex};
use crate::run::model::AuditEntry;
use crate::store::{ApiKey, Store};

#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Make a key and print it, once.
    #[command(
        after_help = "Example:\n  stackorder admin keys create --name bootstrap --scope apply --repo acme/infra --days 7"
    )]
    Create {
        /// Who or what uses it; shown as apikey:<name>.
        #[arg(long)]
        name: String,
        /// What it may do; may be given several times.
        #[arg(long = "scope", required = true)]
        scopes: Vec<Scope>,
        /// A repository it is good for, owner/name; may be given several times. None means every repository.
        #[arg(long = "repo")]
        repos: Vec<String>,
        /// Days until it expires.
        #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(i64).range(1..=3650))]
        days: i64,
    },
    /// List keys, never their secrets.
    #[command(after_help = "Examples:\n  stackorder admin keys list\n  stackorder admin keys list --format json")]
    List,
    /// Revoke a key by its name; it stops working at once.
    #[command(after_help = "Example:\n  stackorder admin keys revoke bootstrap")]
    Revoke { name: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scope {
    Read,
    Apply,
    Unlock,
}

pub(super) async fn run(command: KeysCommand, format: Format) -> anyhow::Result<()> {
    // Before a database is made for nothing.
    if let KeysCommand::Create { repos, .. } = &command {
        for repo in repos {
            RepoName::parse(repo)?;
        }
    }
    let store = database().await?;
    let shown = keys(&*store, command, format).await;
    store.close().await;
    output::print(shown?.as_bytes())
}

async fn keys(store: &dyn Store, command: KeysCommand, format: Format) -> anyhow::Result<String> {
    let now = SystemClock::default().now();
    match command {
        KeysCommand::Create { name, scopes, repos, days } => {
            let taken = store.api_keys().await?.into_iter().any(|key| key.name == name && key.revoked_at.is_none());
            anyhow::ensure!(!taken, "there is a key named {name:?} already; revoke it first");
            let secret = format!("sk_{}", hex(&rand::random::<[u8; 32]>()));
            let key = ApiKey {
                id: uuid::Uuid::new_v4().to_string(),
                name,
                key_hash: hex(&Sha256::digest(secret.as_bytes())),
                prefix: secret[..10].to_owned(),
                created_by: actor(),
                created_at: now,
                expires_at: Some(now + days * DAY_MS),
                repos,
                scopes: scopes.iter().map(|scope| scope_name(*scope).to_owned()).collect(),
                last_used_at: None,
                revoked_at: None,
            };
            store.save_api_key(&key).await?;
            store.add_audit(&audit("api_key_created", &key, now)).await?;
            let expires_at = rfc3339(now + days * DAY_MS);
            Ok(match format {
                Format::Text => format!("{secret}\n\nThis is shown once. It expires at {expires_at}.\n"),
                Format::Json => format!("{}\n", json!({ "name": key.name, "key": secret, "expires_at": expires_at })),
            })
        }
        KeysCommand::List => Ok(list(&store.api_keys().await?, format)),
        KeysCommand::Revoke { name } => {
            let keys = store.api_keys().await?;
            let key = keys.into_iter().find(|key| key.name == name && key.revoked_at.is_none());
            let key = key.with_context(|| format!("there is no key named {name:?}"))?;
            let key = ApiKey { revoked_at: Some(now), ..key };
            store.save_api_key(&key).await?;
            store.add_audit(&audit("api_key_revoked", &key, now)).await?;
            Ok(match format {
                Format::Text => format!("revoked {name}\n"),
                Format::Json => format!("{}\n", json!({ "name": name, "revoked_at": rfc3339(now) })),
            })
        }
    }
}

fn audit(action: &str, key: &ApiKey, now: Millis) -> AuditEntry {
    AuditEntry {
        at: now,
        actor: actor(),
        action: action.to_owned(),
        target: format!("apikey:{}", key.name),
        details: [("scopes".to_owned(), json!(key.scopes)), ("repos".to_owned(), json!(key.repos))].into(),
    }
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "read",
        Scope::Apply => "apply",
        Scope::Unlock => "unlock",
    }
}

fn list(keys: &[ApiKey], format: Format) -> String {
    match format {
        Format::Json => {
            let rows: Vec<_> = keys
                .iter()
                .map(|key| {
                    json!({
                        "name": key.name, "prefix": key.prefix, "scopes": key.scopes, "repos": key.repos,
                        "created_at": rfc3339(key.created_at), "expires_at": key.expires_at.map(rfc3339),
                        "last_used_at": key.last_used_at.map(rfc3339), "revoked_at": key.revoked_at.map(rfc3339),
                    })
                })
                .collect();
            format!("{}\n", json!(rows))
        }
        Format::Text => {
            let line = |key: &ApiKey| {
                let state = match (key.revoked_at, key.expires_at) {
                    (Some(at), _) => format!("revoked {}", rfc3339(at)),
                    (None, Some(at)) => format!("until {}", rfc3339(at)),
                    (None, None) => "no end".to_owned(),
                };
                let repos = if key.repos.is_empty() { "every repository".to_owned() } else { key.repos.join(",") };
                format!("{}  {}…  {}  {repos}  {state}\n", key.name, key.prefix, key.scopes.join(","))
            };
            keys.iter().map(line).collect()
        }
    }
}
