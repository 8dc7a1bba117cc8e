//! The claims of an Actions token: as sent, and as we use them.

use serde::{Deserialize, Deserializer};

use super::{OidcError, unauthorized};
use crate::clock::{Millis, SECOND_MS};

/// Who the job is, as GitHub vouches for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// `owner/name`; compared with what the store knows by [`Claims::repository_id`].
    pub repository: String,
    pub repository_id: i64,
    pub event_name: String,
    /// `refs/heads/main`, `refs/pull/7/merge`.
    pub git_ref: String,
    /// The workflow run.
    pub run_id: i64,
    pub run_attempt: u32,
    /// Only if the job names one.
    pub environment: Option<String>,
    pub actor: String,
    /// The called workflow file and its reference; empty where GitHub leaves it out.
    pub job_workflow_ref: String,
    /// The job, by its check run; 0 on Enterprise Servers that do not say.
    pub check_run_id: i64,
    pub jti: String,
    pub iat_ms: Millis,
    pub exp_ms: Millis,
}

/// The payload as sent. Everything else in it is ignored.
#[derive(Deserialize)]
pub(super) struct RawClaims {
    pub iss: Option<String>,
    pub aud: Option<OneOrMany>,
    #[serde(default, deserialize_with = "number")]
    pub exp: Option<i64>,
    #[serde(default, deserialize_with = "number")]
    pub nbf: Option<i64>,
    #[serde(default, deserialize_with = "number")]
    pub iat: Option<i64>,
    jti: Option<String>,
    repository: Option<String>,
    #[serde(default, deserialize_with = "number")]
    repository_id: Option<i64>,
    event_name: Option<String>,
    r#ref: Option<String>,
    #[serde(default, deserialize_with = "number")]
    run_id: Option<i64>,
    #[serde(default, deserialize_with = "number")]
    run_attempt: Option<i64>,
    environment: Option<String>,
    actor: Option<String>,
    job_workflow_ref: Option<String>,
    #[serde(default, deserialize_with = "number")]
    check_run_id: Option<i64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub fn iter(&self) -> std::slice::Iter<'_, String> {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one).iter(),
            OneOrMany::Many(many) => many.iter(),
        }
    }
}

/// GitHub sends ids and counters as strings, times as numbers; whole numbers of either kind are read.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(i64),
        Text(String),
    }
    match Option::<Written>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Written::Number(number)) => Ok(Some(number)),
        Some(Written::Text(text)) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

impl TryFrom<RawClaims> for Claims {
    type Error = OidcError;

    fn try_from(raw: RawClaims) -> Result<Self, OidcError> {
        let attempt = required(raw.run_attempt, "run_attempt")?;
        Ok(Self {
            repository: required(raw.repository.filter(|name| !name.is_empty()), "repository")?,
            repository_id: required(raw.repository_id, "repository_id")?,
            event_name: required(raw.event_name, "event_name")?,
            git_ref: required(raw.r#ref, "ref")?,
            run_id: required(raw.run_id, "run_id")?,
            run_attempt: u32::try_from(attempt).map_err(|_| unauthorized("run_attempt is no count"))?,
            environment: raw.environment.filter(|name| !name.is_empty()),
            actor: raw.actor.unwrap_or_default(),
            job_workflow_ref: raw.job_workflow_ref.unwrap_or_default(),
            check_run_id: raw.check_run_id.unwrap_or_default(),
            jti: required(raw.jti.filter(|jti| !jti.is_empty()), "jti")?,
            iat_ms: required(raw.iat, "iat")?.saturating_mul(SECOND_MS),
            exp_ms: required(raw.exp, "exp")?.saturating_mul(SECOND_MS),
        })
    }
}

fn required<T>(claim: Option<T>, name: &str) -> Result<T, OidcError> {
    claim.ok_or_else(|| unauthorized(format!("no {name}")))
}
