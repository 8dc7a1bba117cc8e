//! Whether a bearer token is that of an Actions job, and of which one (spec 23 §3.1).
//!
//! Verifies everything that needs no database. That the token was never seen and that its repository is known are the
//! caller's two checks, against the store. `sub` is never read.

mod claims;
mod jwks;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde::Deserialize;

use crate::clock::{Clock, MINUTE_MS, Millis, SECOND_MS};
use crate::github::workflow_pin::WorkflowPin;

pub use claims::Claims;
use claims::RawClaims;
use jwks::Jwks;

/// Why a token is not accepted, by what the caller answers. Reasons are for the log; they hold nothing of the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    /// 401: this is no token for us.
    #[error("the token is not accepted: {0}")]
    Unauthorized(String),
    /// 403: a token of GitHub's, of a job that may not.
    #[error("the job is not allowed: {0}")]
    Forbidden(String),
    /// 503: there are no keys to check it with.
    #[error("the keys of the issuer cannot be had: {0}")]
    Unavailable(String),
}

pub struct OidcSettings {
    /// `https://token.actions.githubusercontent.com`
    pub issuer: String,
    pub jwks_url: String,
    pub audience: String,
    pub required_workflow_ref: Option<WorkflowPin>,
}

pub struct OidcVerifier {
    issuer: String,
    audience: String,
    pin: Option<WorkflowPin>,
    clock: Arc<dyn Clock>,
    jwks: Jwks,
}

const TOKEN_BYTES_MAX: usize = 64 * 1024;
/// How far the issuer's clock and ours may differ.
const SKEW_MS: Millis = MINUTE_MS;
/// Tokens are asked for right before they are used.
const AGE_MAX_MS: Millis = 10 * MINUTE_MS;

impl OidcVerifier {
    /// Asks nobody: the keys are fetched with the first token.
    pub fn new(settings: OidcSettings, clock: Arc<dyn Clock>, http: reqwest::Client) -> Self {
        let OidcSettings { issuer, jwks_url, audience, required_workflow_ref } = settings;
        let jwks = Jwks::new(jwks_url, clock.clone(), http);
        Self { issuer, audience, pin: required_workflow_ref, clock, jwks }
    }

    pub async fn verify(&self, token: &str) -> Result<Claims, OidcError> {
        let parts = Parts::split(token)?;
        let key = self.jwks.key(&parts.kid).await?;
        let signed = jsonwebtoken::crypto::verify(parts.signature, parts.message.as_bytes(), &key, Algorithm::RS256);
        if !signed.is_ok_and(|good| good) {
            return Err(unauthorized("the signature is wrong"));
        }
        let raw: RawClaims = serde_json::from_slice(&decode(parts.payload)?)
            .map_err(|error| unauthorized(format!("the claims are unreadable: {error}")))?;
        self.check_addressee(&raw)?;
        self.check_times(&raw)?;
        let claims = Claims::try_from(raw)?;
        match &self.pin {
            Some(pin) if !pin.matches(&claims.job_workflow_ref) => {
                Err(OidcError::Forbidden(format!("workflow {:?} is not the required one", claims.job_workflow_ref)))
            }
            _ => Ok(claims),
        }
    }

    fn check_addressee(&self, raw: &RawClaims) -> Result<(), OidcError> {
        if raw.iss.as_deref() != Some(self.issuer.as_str()) {
            return Err(unauthorized("another issuer"));
        }
        let ours = self.audience.trim_end_matches('/');
        let meant = raw.aud.iter().flat_map(claims::OneOrMany::iter).any(|aud| aud.trim_end_matches('/') == ours);
        if meant { Ok(()) } else { Err(unauthorized("another audience")) }
    }

    fn check_times(&self, raw: &RawClaims) -> Result<(), OidcError> {
        let now = self.clock.now();
        let millis = |seconds: i64| seconds.saturating_mul(SECOND_MS);
        let exp = millis(raw.exp.ok_or_else(|| unauthorized("no exp"))?);
        let iat = millis(raw.iat.ok_or_else(|| unauthorized("no iat"))?);
        let nbf = raw.nbf.map(millis);
        if now > exp.saturating_add(SKEW_MS) {
            return Err(unauthorized("expired"));
        }
        if nbf.is_some_and(|nbf| now < nbf.saturating_sub(SKEW_MS)) {
            return Err(unauthorized("not valid yet"));
        }
        if iat > now + SKEW_MS {
            return Err(unauthorized("issued in the future"));
        }
        if iat < now - AGE_MAX_MS {
            return Err(unauthorized("issued more than 10 minutes ago"));
        }
        Ok(())
    }
}

impl Claims {
    /// Until when the token could be shown again: how long its `jti` has to be remembered.
    pub fn replay_until_ms(&self) -> Millis {
        self.exp_ms.saturating_add(SKEW_MS).min(self.iat_ms.saturating_add(AGE_MAX_MS))
    }
}

fn unauthorized(reason: impl Into<String>) -> OidcError {
    OidcError::Unauthorized(reason.into())
}

/// A token taken apart, its header checked, nothing of it trusted.
struct Parts<'a> {
    kid: String,
    payload: &'a str,
    signature: &'a str,
    /// What was signed: header and payload as they were sent.
    message: &'a str,
}

impl<'a> Parts<'a> {
    fn split(token: &'a str) -> Result<Self, OidcError> {
        #[derive(Deserialize)]
        struct Header {
            alg: String,
            kid: Option<String>,
            crit: Option<serde::de::IgnoredAny>,
        }
        if token.len() > TOKEN_BYTES_MAX {
            return Err(unauthorized(format!("longer than {TOKEN_BYTES_MAX} bytes")));
        }
        let malformed = || unauthorized("not a signed JWT");
        let (message, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (header, payload) = message.split_once('.').ok_or_else(malformed)?;
        // Before any key is looked up: all three parts must be strict base64.
        decode(payload)?;
        decode(signature)?;
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| malformed())?;
        if header.alg != "RS256" {
            return Err(unauthorized("the algorithm is not RS256"));
        }
        if header.crit.is_some() {
            return Err(unauthorized("the header demands extensions"));
        }
        let kid = header.kid.filter(|kid| !kid.is_empty()).ok_or_else(|| unauthorized("no kid"))?;
        Ok(Self { kid, payload, signature, message })
    }
}

/// URL-safe base64 without padding and without stray bits.
fn decode(part: &str) -> Result<Vec<u8>, OidcError> {
    BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| unauthorized("not strict base64"))
}
