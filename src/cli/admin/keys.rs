//! `stackorder admin keys …`: API keys, made on the server's own database (design §14).

use clap::Subcommand;
use serde_json::json;

use super::{Format, actor, database};
use crate::cli::output;
use crate::clock::{Clock as _, SystemClock, rfc3339};
use crate::keys::{self, DAYS_DEFAULT, DAYS_MAX, Giver, KeyJson, Scope, Wanted};
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
        #[arg(long, default_value_t = DAYS_DEFAULT, value_parser = clap::value_parser!(i64).range(1..=DAYS_MAX))]
        days: i64,
    },
    /// List keys, never their secrets.
    #[command(after_help = "Examples:\n  stackorder admin keys list\n  stackorder admin keys list --format json")]
    List,
    /// Revoke a key by its name; it stops working at once.
    #[command(after_help = "Example:\n  stackorder admin keys revoke bootstrap")]
    Revoke { name: String },
}

pub(super) async fn run(command: KeysCommand, format: Format) -> anyhow::Result<()> {
    // Before a database is made for nothing.
    let asked = match command {
        KeysCommand::Create { name, scopes, repos, days } => {
            Asked::Create(Wanted::parse(&name, &scopes, &repos, Some(days))?)
        }
        KeysCommand::List => Asked::List,
        KeysCommand::Revoke { name } => Asked::Revoke(name),
    };
    let store = database().await?;
    let shown = answer(&*store, asked, format).await;
    store.close().await;
    output::print(shown?.as_bytes())
}

enum Asked {
    Create(Wanted),
    List,
    Revoke(String),
}

async fn answer(store: &dyn Store, asked: Asked, format: Format) -> anyhow::Result<String> {
    let (actor, now) = (actor(), SystemClock::default().now());
    let giver = Giver::Operator(&actor);
    match asked {
        Asked::Create(wanted) => {
            let (key, secret) = keys::create(store, giver, wanted, now).await?;
            let expires_at = key.expires_at.map(rfc3339).unwrap_or_default();
            Ok(match format {
                Format::Text => format!("{secret}\n\nThis is shown once. It expires at {expires_at}.\n"),
                Format::Json => format!("{}\n", json!({ "name": key.name, "key": secret, "expires_at": expires_at })),
            })
        }
        Asked::List => Ok(list(&keys::list(store, giver).await?, format)),
        Asked::Revoke(name) => {
            keys::revoke(store, giver, &name, now).await?;
            Ok(match format {
                Format::Text => format!("revoked {name}\n"),
                Format::Json => format!("{}\n", json!({ "name": name, "revoked_at": rfc3339(now) })),
            })
        }
    }
}

fn list(keys: &[ApiKey], format: Format) -> String {
    match format {
        Format::Json => {
            let rows: Vec<KeyJson> = keys.iter().map(KeyJson::from).collect();
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
