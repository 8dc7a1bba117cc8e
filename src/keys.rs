//! API keys: made, listed and revoked by an operator on the server's database, or over the API by a key that may
//! (design §14).

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::clock::{DAY_MS, Millis, rfc3339};
use crate::ids::{RepoName, hex};
use crate::run::model::AuditEntry;
use crate::store::{ApiKey, Store, StoreError};

#[cfg(test)]
mod tests;

/// How long a key lives when nobody says so, and at most.
pub const DAYS_DEFAULT: i64 = 90;
pub const DAYS_MAX: i64 = 3650;
/// Longest name: it stands in audit rows and comments as `apikey:<name>`.
const NAME_CHARS_MAX: usize = 64;
/// Most repositories one key names.
const REPOS_MAX: usize = 1000;

/// What a key may do in its repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read runs, stacks and the audit log.
    Read,
    /// Apply by hand, plan again, ask for applies.
    Apply,
    /// Free stacks.
    Unlock,
    /// Make, list and revoke keys that may do no more than this one.
    Keys,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Apply => "apply",
            Scope::Unlock => "unlock",
            Scope::Keys => "keys",
        }
    }
}

/// Why a key is not made or revoked.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("{field}: {reason}")]
    Invalid { field: &'static str, reason: String },
    #[error("there is a key named {0:?} already; revoke it first")]
    Taken(String),
    #[error("there is no key named {0:?}")]
    Unknown(String),
    /// More than the key that asks may do itself.
    #[error("{0}")]
    Beyond(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn invalid(field: &'static str, reason: impl Into<String>) -> KeyError {
    KeyError::Invalid { field, reason: reason.into() }
}

/// A key as somebody wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    name: String,
    scopes: Vec<Scope>,
    /// Empty means every repository.
    repos: Vec<RepoName>,
    /// `None` is [`DAYS_DEFAULT`], or as long as the key that asks lives, if that is less.
    days: Option<i64>,
}

impl Wanted {
    /// Checks what was asked for. A name is letters, digits, `-`, `_` and `.`; scopes are at least one; days are 1 to
    /// [`DAYS_MAX`].
    pub fn parse(name: &str, scopes: &[Scope], repos: &[String], days: Option<i64>) -> Result<Self, KeyError> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_name) {
            let rule = format!("1 to {NAME_CHARS_MAX} letters, digits, \"-\", \"_\" and \".\"");
            return Err(invalid("name", rule));
        }
        if scopes.is_empty() {
            return Err(invalid("scopes", "name at least one of read, apply, unlock, keys"));
        }
        if days.is_some_and(|days| !(1..=DAYS_MAX).contains(&days)) {
            return Err(invalid("days", format!("1 to {DAYS_MAX}")));
        }
        if repos.len() > REPOS_MAX {
            return Err(invalid("repos", format!("at most {REPOS_MAX}; none means every repository")));
        }
        let named = repos.iter().map(|repo| RepoName::parse(repo).map_err(|error| invalid("repos", error.to_string())));
        let mut repos: Vec<RepoName> = named.collect::<Result<_, _>>()?;
        repos.sort();
        repos.dedup();
        let mut scopes = scopes.to_vec();
        scopes.sort();
        scopes.dedup();
        Ok(Self { name: name.to_owned(), scopes, repos, days })
    }
}

/// Who asks: an operator on the database, who may do everything, or a key.
#[derive(Debug, Clone, Copy)]
pub enum Giver<'a> {
    /// As the audit log names them.
    Operator(&'a str),
    Key(&'a ApiKey),
}

impl Giver<'_> {
    fn actor(self) -> String {
        match self {
            Giver::Operator(name) => name.to_owned(),
            Giver::Key(key) => format!("apikey:{}", key.name),
        }
    }

    /// Whether a key that may do this may do no more than the giver.
    fn covers(self, scopes: &[String], repos: &[String]) -> Result<(), String> {
        let Giver::Key(own) = self else { return Ok(()) };
        if let Some(scope) = scopes.iter().find(|scope| !own.scopes.contains(scope)) {
            return Err(format!("this key may not {scope} itself"));
        }
        if own.repos.is_empty() {
            return Ok(());
        }
        if repos.is_empty() {
            return Err("this key is not good for every repository: name some of its own".to_owned());
        }
        let foreign = repos.iter().find(|repo| !own.repos.iter().any(|known| known.eq_ignore_ascii_case(repo)));
        foreign.map_or(Ok(()), |repo| Err(format!("this key is not good for {repo}")))
    }

    /// The last moment of a key: no later than that of the giver.
    fn expiry(self, days: Option<i64>, now: Millis) -> Result<Millis, String> {
        let end = match self {
            Giver::Operator(_) => None,
            Giver::Key(own) => own.expires_at,
        };
        let wanted = now + days.unwrap_or(DAYS_DEFAULT) * DAY_MS;
        match end.filter(|end| *end < wanted) {
            None => Ok(wanted),
            Some(end) if days.is_none() => Ok(end),
            Some(end) => Err(format!("this key expires itself at {}", rfc3339(end))),
        }
    }
}

/// Makes a key. The secret comes back beside it, once; only its hash is kept. Who asks for more than they may is in the audit
/// log.
pub async fn create(
    store: &dyn Store,
    giver: Giver<'_>,
    wanted: Wanted,
    now: Millis,
) -> Result<(ApiKey, String), KeyError> {
    let scopes: Vec<String> = wanted.scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
    let repos: Vec<String> = wanted.repos.iter().map(ToString::to_string).collect();
    let within = giver.covers(&scopes, &repos).and_then(|()| giver.expiry(wanted.days, now));
    let expires_at = match within {
        Ok(expires_at) => expires_at,
        Err(reason) => {
            let details = json!({ "scopes": scopes, "repos": repos, "reason": reason });
            store.add_audit(&audit("api_key_refused", giver, &wanted.name, details, now)).await?;
            return Err(KeyError::Beyond(reason));
        }
    };
    let taken = store.api_keys().await?.into_iter().any(|key| key.name == wanted.name && key.revoked_at.is_none());
    if taken {
        return Err(KeyError::Taken(wanted.name));
    }
    let secret = format!("sk_{}", hex(&rand::random::<[u8; 32]>()));
    let key = ApiKey {
        id: uuid::Uuid::new_v4().to_string(),
        name: wanted.name,
        key_hash: hex(&Sha256::digest(secret.as_bytes())),
        prefix: secret[..10].to_owned(),
        created_by: giver.actor(),
        created_at: now,
        expires_at: Some(expires_at),
        repos,
        scopes,
        last_used_at: None,
        revoked_at: None,
    };
    store.save_api_key(&key).await?;
    store.add_audit(&audit("api_key_created", giver, &key.name, may(&key), now)).await?;
    Ok((key, secret))
}

/// The keys that may do no more than who asks, in order of their names, with those that ended.
pub async fn list(store: &dyn Store, giver: Giver<'_>) -> Result<Vec<ApiKey>, KeyError> {
    let mut keys = store.api_keys().await?;
    keys.retain(|key| giver.covers(&key.scopes, &key.repos).is_ok());
    keys.sort_by(|a, b| (&a.name, a.created_at).cmp(&(&b.name, b.created_at)));
    Ok(keys)
}

/// Revokes every living key of this name; it stops working at once. One that may do more than who asks is unknown to them.
pub async fn revoke(store: &dyn Store, giver: Giver<'_>, name: &str, now: Millis) -> Result<(), KeyError> {
    let keys = list(store, giver).await?;
    let living: Vec<ApiKey> = keys.into_iter().filter(|key| key.name == name && key.revoked_at.is_none()).collect();
    if living.is_empty() {
        return Err(KeyError::Unknown(name.to_owned()));
    }
    for key in living {
        let key = ApiKey { revoked_at: Some(now), ..key };
        store.save_api_key(&key).await?;
        store.add_audit(&audit("api_key_revoked", giver, &key.name, may(&key), now)).await?;
    }
    Ok(())
}

/// A key as it is shown: never its hash.
#[derive(Debug, Serialize)]
pub struct KeyJson {
    name: String,
    prefix: String,
    scopes: Vec<String>,
    repos: Vec<String>,
    created_by: String,
    created_at: String,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    revoked_at: Option<String>,
}

impl From<&ApiKey> for KeyJson {
    fn from(key: &ApiKey) -> Self {
        Self {
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            scopes: key.scopes.clone(),
            repos: key.repos.clone(),
            created_by: key.created_by.clone(),
            created_at: rfc3339(key.created_at),
            expires_at: key.expires_at.map(rfc3339),
            last_used_at: key.last_used_at.map(rfc3339),
            revoked_at: key.revoked_at.map(rfc3339),
        }
    }
}

/// What a key may do, for the audit log.
fn may(key: &ApiKey) -> Value {
    json!({ "scopes": key.scopes, "repos": key.repos })
}

fn audit(action: &str, giver: Giver<'_>, name: &str, details: Value, now: Millis) -> AuditEntry {
    AuditEntry {
        at: now,
        actor: giver.actor(),
        action: action.to_owned(),
        target: format!("apikey:{name}"),
        details: details.as_object().cloned().unwrap_or_default().into_iter().collect(),
    }
}
