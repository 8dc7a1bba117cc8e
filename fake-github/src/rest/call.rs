//! One request: its path in pieces, its query, its body, who makes it and what they may do.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::HeaderMap;
use serde_json::Value;

use crate::auth::{self, Caller};
use crate::hub::Hub;
use crate::state::roles::Role;

use super::reply::Refusal;

/// A request as it came over the wire, with the path below `/api/v3`.
pub struct RawRequest {
    pub method: String,
    /// Still percent-encoded.
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl RawRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

pub struct Call {
    pub hub: Arc<Hub>,
    pub method: String,
    pub path: String,
    /// Decoded.
    pub segments: Vec<String>,
    pub query: BTreeMap<String, String>,
    pub headers: HeaderMap,
    pub body: Value,
    pub caller: Caller,
}

/// Versions of the API that are answered; the first is the default.
pub const API_VERSIONS: [&str; 2] = ["2022-11-28", "2026-03-10"];

impl Call {
    pub fn read(hub: &Arc<Hub>, raw: RawRequest) -> Result<Call, Refusal> {
        if raw.header("user-agent").is_none() {
            return Err(Refusal::new(
                403,
                "Request forbidden by administrative rules. Please make sure your request has a User-Agent header",
            ));
        }
        if let Some(version) = raw.header("x-github-api-version")
            && !API_VERSIONS.contains(&version)
        {
            return Err(Refusal::new(410, &format!("{version} is not a supported version of the REST API")));
        }
        let caller = auth::from_headers(hub, &raw.headers)?;
        let body = match raw.body.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&raw.body).map_err(|_| Refusal::new(400, "Problems parsing JSON"))?,
        };
        Ok(Call {
            hub: hub.clone(),
            segments: raw.path.trim_matches('/').split('/').map(decode).collect(),
            query: parse_query(&raw.query),
            method: raw.method,
            path: raw.path,
            headers: raw.headers,
            body,
            caller,
        })
    }

    /// Method and path for a `match`.
    pub fn parts(&self) -> (&str, Vec<&str>) {
        (&self.method, self.segments.iter().map(String::as_str).collect())
    }

    pub fn is_new_version(&self) -> bool {
        self.headers.get("x-github-api-version").is_some_and(|version| version == API_VERSIONS[1])
    }

    pub fn accepts(&self, media_type: &str) -> bool {
        let accept = self.headers.get("accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
        accept.contains(media_type)
    }

    pub fn text(&self, field: &str) -> Option<&str> {
        self.body.get(field)?.as_str()
    }

    pub fn required_text(&self, resource: &str, field: &str) -> Result<&str, Refusal> {
        self.text(field)
            .filter(|text| !text.is_empty())
            .ok_or_else(|| Refusal::validation(resource, field, "missing_field"))
    }

    /// The full name of a repository in which the caller has a permission, or GitHub's refusal: 404 for what it cannot
    /// see, 403 for what it may not do.
    pub fn repo(&self, owner: &str, name: &str, permission: &str, level: Role) -> Result<String, Refusal> {
        let state = self.hub.lock();
        let found = state.repository(&format!("{owner}/{name}")).ok_or_else(Refusal::not_found)?;
        if !state.sees(&self.caller, &found.full_name) {
            return Err(Refusal::not_found());
        }
        if !state.may(&self.caller, &found.full_name, permission, level) {
            return Err(match &self.caller {
                Caller::Anonymous => Refusal::requires_authentication(),
                Caller::App(_) | Caller::Installation { .. } | Caller::Job { .. } => Refusal::not_accessible(),
                Caller::User { .. } if level >= Role::Write => {
                    Refusal::new(403, "Must have push access to the repository")
                }
                Caller::User { .. } => Refusal::not_found(),
            });
        }
        Ok(found.full_name.clone())
    }

    /// The app whose JWT this call carries.
    pub fn app(&self) -> Result<i64, Refusal> {
        match self.caller {
            Caller::App(app) => Ok(app),
            Caller::Anonymous => Err(Refusal::new(401, "A JSON web token could not be decoded")),
            _ => Err(Refusal::new(403, "You must authenticate with a JSON web token (JWT) to use this endpoint")),
        }
    }

    /// The person whose token this call carries.
    pub fn user(&self) -> Result<&str, Refusal> {
        match &self.caller {
            Caller::User { login, .. } => Ok(login),
            Caller::Anonymous => Err(Refusal::requires_authentication()),
            _ => Err(Refusal::not_accessible()),
        }
    }

    pub fn login(&self) -> String {
        self.hub.lock().login_of(&self.caller)
    }
}

/// A number in a path; anything else is a path that does not exist.
pub fn number(text: &str) -> Result<i64, Refusal> {
    text.parse().map_err(|_| Refusal::not_found())
}

fn decode(segment: &str) -> String {
    percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

pub fn parse_query(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
        })
        .collect()
}
