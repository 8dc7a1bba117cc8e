//! Who is calling: an app, an installation, a job, a person, or nobody; and what that lets them do.

use std::collections::BTreeSet;

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use crate::hub::Hub;
use crate::rest::Refusal;
use crate::state::State;
use crate::state::apps::{ACTIONS_APP, Grant, Permissions};
use crate::state::roles::Role;

/// Every app of the fake signs with this key; it protects nothing.
pub const APP_PRIVATE_KEY: &str = include_str!("keys/app.test-key.pem");
const APP_PUBLIC_KEY: &str = include_str!("keys/app.test-key.pub.pem");

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    Anonymous,
    /// An app itself, by a JWT it signed.
    App(i64),
    Installation {
        installation: i64,
        app: i64,
        repositories: Option<BTreeSet<String>>,
        permissions: Permissions,
    },
    Job {
        job: i64,
        run: i64,
        repo: String,
        permissions: Permissions,
    },
    User {
        login: String,
        app: Option<i64>,
    },
}

/// Reads `Authorization`. No header is `Anonymous`; a bad one is refused, never ignored.
pub fn from_headers(hub: &Hub, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(Caller::Anonymous) };
    let value = value.to_str().map_err(|_| Refusal::bad_credentials())?;
    let (scheme, credential) = value.split_once(' ').ok_or_else(Refusal::bad_credentials)?;
    let token = match scheme.to_ascii_lowercase().as_str() {
        "bearer" | "token" => credential.trim().to_owned(),
        "basic" => basic_password(credential).ok_or_else(Refusal::bad_credentials)?,
        _ => return Err(Refusal::bad_credentials()),
    };
    from_token(hub, &token)
}

fn from_token(hub: &Hub, token: &str) -> Result<Caller, Refusal> {
    let state = hub.lock();
    if token.starts_with("ey") && token.matches('.').count() == 2 {
        return app_jwt(&state, token);
    }
    let now = state.now();
    match state.tokens.get(token) {
        Some(Grant::Installation { installation, repositories, permissions, expires_at }) if now < *expires_at => {
            let found = state.installations.get(installation).ok_or_else(Refusal::bad_credentials)?;
            Ok(Caller::Installation {
                installation: *installation,
                app: found.app,
                repositories: repositories.clone(),
                permissions: permissions.clone(),
            })
        }
        Some(Grant::Job { job, run, repo, permissions }) => {
            Ok(Caller::Job { job: *job, run: *run, repo: repo.clone(), permissions: permissions.clone() })
        }
        Some(Grant::User { login, app, expires_at }) if expires_at.is_none_or(|at| now < at) => {
            Ok(Caller::User { login: login.clone(), app: *app })
        }
        _ => Err(Refusal::bad_credentials()),
    }
}

fn basic_password(credential: &str) -> Option<String> {
    let decoded = String::from_utf8(STANDARD.decode(credential.trim()).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    // `https://TOKEN@host` sends the token as the user.
    Some(if password.is_empty() || password == "x-oauth-basic" { user } else { password }.to_owned())
}

#[derive(Deserialize)]
struct AppClaims {
    iss: serde_json::Value,
    iat: Option<serde_json::Value>,
    exp: Option<serde_json::Value>,
}

fn app_jwt(state: &State, token: &str) -> Result<Caller, Refusal> {
    let refused = |text: &str| Refusal::new(401, text);
    let mut validation = Validation::new(Algorithm::RS256);
    // Times are compared with the fake's clock below, not with the machine's.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let key = DecodingKey::from_rsa_pem(APP_PUBLIC_KEY.as_bytes()).map_err(|_| Refusal::new(500, "no app key"))?;
    let decoded = jsonwebtoken::decode::<AppClaims>(token, &key, &validation)
        .map_err(|_| refused("A JSON web token could not be decoded"))?;
    let claims = decoded.claims;
    let issuer = match &claims.iss {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let app = state.app_by_issuer(&issuer).ok_or_else(|| Refusal::new(404, "Integration not found"))?;
    let seconds = |claim: &Option<serde_json::Value>| {
        claim.as_ref().and_then(|value| value.as_i64().or_else(|| value.as_f64().map(|float| float as i64)))
    };
    let now = state.now().div_euclid(1000);
    let exp = seconds(&claims.exp).ok_or_else(|| {
        refused("'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
    })?;
    if exp <= now {
        return Err(refused("'Expiration time' claim ('exp') is in the past"));
    }
    if exp > now + 600 {
        return Err(refused("'Expiration time' claim ('exp') is too far in the future"));
    }
    let issued = seconds(&claims.iat).filter(|iat| *iat <= now + 60);
    if issued.is_none() {
        return Err(refused(
            "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
        ));
    }
    Ok(Caller::App(app.id))
}

impl State {
    /// Whether the caller may know that the repository exists.
    pub fn sees(&self, caller: &Caller, repo: &str) -> bool {
        let Some(found) = self.repository(repo) else { return false };
        let name = &found.full_name;
        match caller {
            Caller::Anonymous | Caller::App(_) => !found.private,
            Caller::Installation { installation, repositories, .. } => {
                !found.private
                    || self.installations.get(installation).is_some_and(|known| {
                        self.installed_repositories(known).contains(name)
                            && repositories.as_ref().is_none_or(|chosen| chosen.contains(name))
                    })
            }
            Caller::Job { repo: own, .. } => !found.private || own == name,
            Caller::User { login, app } => {
                self.role(name, login) >= Role::Read
                    && (!found.private || app.is_none_or(|app| self.installation_of(app, name).is_some()))
            }
        }
    }

    /// Whether the caller has a permission (`contents`, `checks`, …) of at least `Read` or `Write` there.
    pub fn may(&self, caller: &Caller, repo: &str, permission: &str, level: Role) -> bool {
        if !self.sees(caller, repo) {
            return false;
        }
        let Some(found) = self.repository(repo) else { return false };
        let public_read = !found.private && level == Role::Read;
        match caller {
            Caller::Anonymous | Caller::App(_) => public_read,
            Caller::Installation { installation, permissions, .. } => {
                let covered = self.installations.get(installation).is_some_and(|known| {
                    known.suspended_at.is_none() && self.installed_repositories(known).contains(&found.full_name)
                });
                public_read || (covered && grants(permissions, permission, level))
            }
            Caller::Job { repo: own, permissions, .. } => {
                public_read || (own == &found.full_name && grants(permissions, permission, level))
            }
            Caller::User { login, .. } => {
                // Anyone who can read may comment, review and open issues.
                let conversation = matches!(permission, "issues" | "pull_requests");
                let needed = if conversation { Role::Read } else { level };
                self.role(&found.full_name, login) >= needed
            }
        }
    }

    /// The login that acts: a person, an app's bot, or the bot of Actions.
    pub fn login_of(&self, caller: &Caller) -> String {
        let app = match caller {
            Caller::User { login, .. } => return login.clone(),
            Caller::Anonymous => return "ghost".to_owned(),
            Caller::App(app) | Caller::Installation { app, .. } => *app,
            Caller::Job { .. } => ACTIONS_APP,
        };
        self.apps.get(&app).map_or_else(|| "ghost".to_owned(), |app| app.bot_login())
    }
}

/// Job permissions are spelled with `-`, app permissions with `_`; reading metadata is always granted.
pub fn grants(permissions: &Permissions, permission: &str, level: Role) -> bool {
    if permission == "metadata" {
        return level == Role::Read;
    }
    let found = permissions.get(permission).or_else(|| permissions.get(&permission.replace('_', "-")));
    match found.map(String::as_str) {
        Some("write" | "admin") => true,
        Some("read") => level <= Role::Read,
        _ => false,
    }
}

/// A new secret with this prefix. Installation tokens have GitHub's newer, longer form.
pub fn new_token(prefix: &str) -> String {
    let part = || uuid::Uuid::new_v4().simple().to_string();
    if prefix == "ghs" {
        format!("ghs_{}.{}_{}-{}", part(), part(), part(), part())
    } else {
        format!("{prefix}_{}", part())
    }
}
