//! From a request's credential to a caller (spec 20 §2, spec 23 §3.1, §5).

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};

use super::Shared;
use super::errors::ApiError;
use crate::clock::{MINUTE_MS, Millis};
use crate::github::oidc::OidcError;
use crate::ids::{RepoName, hex};
use crate::orchestrator::runner_calls::Caller;
use crate::store::ApiKey;

/// Prefix of API keys; any other bearer value is an OIDC token.
const KEY_PREFIX: &str = "sk_";
/// Longest bearer value looked at.
const TOKEN_BYTES_MAX: usize = 64 * 1024;
/// How often the use of a key is written down: a list of keys shows minutes.
const USE_NOTED_EVERY_MS: Millis = MINUTE_MS;

/// A runner job or an API key. Each OIDC token is accepted once.
impl FromRequestParts<Arc<Shared>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, ApiError> {
        let token = bearer(&parts.headers)?;
        if token.starts_with(KEY_PREFIX) {
            api_key(shared, token).await.map(Caller::Key)
        } else {
            job(shared, token).await
        }
    }
}

/// Only an API key; anything else is 401.
impl FromRequestParts<Arc<Shared>> for ApiKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, ApiError> {
        let token = bearer(&parts.headers)?;
        if !token.starts_with(KEY_PREFIX) {
            return Err(ApiError::unauthorized("this route takes an API key"));
        }
        api_key(shared, token).await
    }
}

async fn job(shared: &Shared, token: &str) -> Result<Caller, ApiError> {
    let claims = shared.oidc.verify(token).await.map_err(|error| match error {
        OidcError::Unauthorized(reason) => ApiError::unauthorized(reason),
        OidcError::Forbidden(reason) => ApiError::forbidden(reason),
        OidcError::Unavailable(reason) => ApiError::unavailable(reason),
    })?;
    let now = shared.app.now();
    if !shared.app.store.use_token_id(&claims.jti, claims.replay_until_ms(), now).await? {
        return Err(ApiError::unauthorized("this token was used before"));
    }
    let name = RepoName::parse(&claims.repository).map_err(|error| ApiError::forbidden(error.to_string()))?;
    let known = shared.app.store.repo_by_name(&name).await?;
    let repo = known.filter(|repo| repo.id == claims.repository_id).ok_or_else(|| {
        ApiError::forbidden(format!("{name} is not a repository that the Stackorder App is installed on"))
    })?;
    if repo.suspended {
        return Err(ApiError::forbidden("the App installation is suspended"));
    }
    Ok(Caller::Job { claims, repo: Box::new(repo) })
}

async fn api_key(shared: &Shared, token: &str) -> Result<ApiKey, ApiError> {
    // Looked up by hash, so the time it takes tells nothing about other keys.
    let hash = hex(&Sha256::digest(token.as_bytes()));
    let now = shared.app.now();
    let found = shared.app.store.api_key_by_hash(&hash).await?;
    let usable = found.filter(|key| key.revoked_at.is_none() && key.expires_at.is_none_or(|at| at > now));
    let key = usable.ok_or_else(|| ApiError::unauthorized("unknown, expired or revoked API key"))?;
    if key.last_used_at.is_none_or(|at| now - at >= USE_NOTED_EVERY_MS) {
        shared.app.store.touch_api_key(&key.id, now).await?;
    }
    Ok(key)
}

fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(ApiError::unauthorized("exactly one Authorization: Bearer header is required"));
    };
    let text = value.to_str().map_err(|_| ApiError::unauthorized("the Authorization header is not text"))?;
    let token =
        text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token);
    match token {
        Some(token) if !token.is_empty() && !token.contains(' ') && token.len() <= TOKEN_BYTES_MAX => Ok(token),
        Some(_) | None => Err(ApiError::unauthorized("a well-formed Bearer token is required")),
    }
}
