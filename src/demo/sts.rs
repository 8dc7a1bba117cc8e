//! The part of AWS STS that a job meets: who am I, and assuming a role with the job's OIDC token.
//!
//! Unlike the emulators, it checks what AWS checks: the token's signature against the issuer's keys, its issuer,
//! audience and age, and the trust policy of the role. A wrong environment therefore fails here as it would there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use hyper::StatusCode;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use crate::clock::{HOUR_MS, Millis, SECOND_MS, rfc3339};

pub(super) const DUMMY_ACCESS_KEY: &str = "AKDEMOSTACKORDER";
pub(super) const DUMMY_SECRET_KEY: &str = "c3RhY2tvcmRlci1kZW1vLW9ubHk";

/// The account of the sample's role ARNs.
const ACCOUNT: &str = "111122223333";

/// What `aws-actions/configure-aws-credentials` asks for, and what trust policies name.
const AUDIENCE: &str = "sts.amazonaws.com";

/// Clocks of issuer and store are one; a second covers rounding.
const LEEWAY_MS: Millis = SECOND_MS;

/// Session names of AWS.
const SESSION_NAME_CHARS: std::ops::RangeInclusive<usize> = 2..=64;

/// Who may assume a role: subjects of GitHub's tokens, where `*` stands for any text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustPolicy {
    pub subjects: Vec<String>,
}

impl TrustPolicy {
    /// `repo:acme/infra:environment:production`, `repo:acme/infra:*`, …
    pub fn for_subjects<S: Into<String>>(subjects: impl IntoIterator<Item = S>) -> Self {
        Self { subjects: subjects.into_iter().map(Into::into).collect() }
    }

    fn trusts(&self, subject: &str) -> bool {
        self.subjects.iter().any(|pattern| matches(pattern, subject))
    }
}

/// Access keys that are good for this store.
#[derive(Default)]
pub(super) struct Keys {
    issued: Mutex<BTreeMap<String, Issued>>,
}

struct Issued {
    secret: String,
    /// `arn:aws:sts::…:assumed-role/<role>/<session>`.
    arn: String,
}

impl Keys {
    pub(super) fn secret_of(&self, access_key: &str) -> Option<String> {
        if access_key == DUMMY_ACCESS_KEY {
            return Some(DUMMY_SECRET_KEY.to_owned());
        }
        self.lock().get(access_key).map(|issued| issued.secret.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Issued>> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A refusal as AWS words it.
struct Refused {
    status: StatusCode,
    code: &'static str,
    message: String,
}

fn refused(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refused {
    Refused { status, code, message: message.into() }
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: i64,
    #[serde(default)]
    nbf: Option<i64>,
}

pub(super) struct Sts {
    jwks_url: Option<String>,
    issuer: Option<String>,
    roles: BTreeMap<String, TrustPolicy>,
    now: Arc<dyn Fn() -> Millis + Send + Sync>,
    keys: Arc<Keys>,
    http: reqwest::Client,
}

impl Sts {
    pub(super) fn new(
        jwks_url: Option<String>,
        issuer: Option<String>,
        roles: BTreeMap<String, TrustPolicy>,
        now: Arc<dyn Fn() -> Millis + Send + Sync>,
        keys: Arc<Keys>,
    ) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(10))
            .build()
            .context("cannot make the client that fetches the issuer's keys")?;
        Ok(Self { jwks_url, issuer, roles, now, keys, http })
    }

    /// Answers one form; the body is always XML.
    pub(super) async fn answer(&self, authorization: Option<&str>, body: &[u8]) -> (StatusCode, String) {
        let form = form_fields(body);
        let field = |name: &str| form.get(name).map_or("", String::as_str);
        let answer = match field("Action") {
            "GetCallerIdentity" => self.caller_identity(authorization),
            "AssumeRoleWithWebIdentity" => {
                self.assume_role(field("RoleArn"), field("RoleSessionName"), field("WebIdentityToken")).await
            }
            action => Err(refused(StatusCode::BAD_REQUEST, "InvalidAction", format!("{action} is not played here"))),
        };
        match answer {
            Ok((action, result)) => (
                StatusCode::OK,
                format!(
                    "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result>{result}\
                     </{action}Result><ResponseMetadata><RequestId>demo</RequestId></ResponseMetadata>\
                     </{action}Response>"
                ),
            ),
            Err(Refused { status, code, message }) => (
                status,
                format!(
                    "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
                     <Code>{code}</Code><Message>{}</Message></Error><RequestId>demo</RequestId></ErrorResponse>",
                    escape(&message)
                ),
            ),
        }
    }

    fn caller_identity(&self, authorization: Option<&str>) -> Result<(&'static str, String), Refused> {
        // `AWS4-HMAC-SHA256 Credential=<access key>/<date>/…`
        let access_key = authorization
            .and_then(|header| header.split_once("Credential="))
            .and_then(|(_, scope)| scope.split('/').next())
            .ok_or_else(|| refused(StatusCode::FORBIDDEN, "MissingAuthenticationToken", "the request is not signed"))?;
        let arn = if access_key == DUMMY_ACCESS_KEY {
            Some(format!("arn:aws:iam::{ACCOUNT}:user/demo"))
        } else {
            self.keys.lock().get(access_key).map(|issued| issued.arn.clone())
        };
        let arn = arn.ok_or_else(|| {
            refused(StatusCode::FORBIDDEN, "InvalidClientTokenId", "the security token of the request is invalid")
        })?;
        let result =
            format!("<Arn>{}</Arn><UserId>{}</UserId><Account>{ACCOUNT}</Account>", escape(&arn), escape(access_key));
        Ok(("GetCallerIdentity", result))
    }

    async fn assume_role(&self, role: &str, session: &str, token: &str) -> Result<(&'static str, String), Refused> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
        if !SESSION_NAME_CHARS.contains(&session.len()) || !session.chars().all(plain) {
            let message = format!("{session:?} is no session name of 2 to 64 letters, digits and _+=,.@-");
            return Err(refused(StatusCode::BAD_REQUEST, "ValidationError", message));
        }
        let claims = self.verify(token).await?;
        // AWS answers alike for an unknown role and one that does not trust the caller.
        if !self.roles.get(role).is_some_and(|policy| policy.trusts(&claims.sub)) {
            tracing::debug!(role, subject = claims.sub, "a role was refused");
            return Err(refused(
                StatusCode::FORBIDDEN,
                "AccessDenied",
                "Not authorized to perform sts:AssumeRoleWithWebIdentity",
            ));
        }
        let id = uuid::Uuid::new_v4().simple().to_string();
        let access_key = format!("ASIA{}", id[..16].to_uppercase());
        let secret = uuid::Uuid::new_v4().simple().to_string();
        let arn = format!("arn:aws:sts::{ACCOUNT}:assumed-role/{}/{session}", role.rsplit('/').next().unwrap_or(role));
        let expires = rfc3339((self.now)() + HOUR_MS);
        let result = format!(
            "<SubjectFromWebIdentityToken>{subject}</SubjectFromWebIdentityToken><Audience>{AUDIENCE}</Audience>\
             <AssumedRoleUser><Arn>{arn}</Arn><AssumedRoleId>{access_key}:{session}</AssumedRoleId></AssumedRoleUser>\
             <Credentials><AccessKeyId>{access_key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>\
             <SessionToken>demo-session-{id}</SessionToken><Expiration>{expires}</Expiration></Credentials>",
            subject = escape(&claims.sub),
            arn = escape(&arn),
        );
        self.keys.lock().insert(access_key, Issued { secret, arn });
        Ok(("AssumeRoleWithWebIdentity", result))
    }

    async fn verify(&self, token: &str) -> Result<Claims, Refused> {
        let invalid = |message: String| refused(StatusCode::BAD_REQUEST, "InvalidIdentityToken", message);
        let (Some(jwks_url), Some(issuer)) = (&self.jwks_url, &self.issuer) else {
            return Err(invalid("no OpenID Connect provider is known in this account".to_owned()));
        };
        let kid = jsonwebtoken::decode_header(token)
            .map_err(|error| invalid(format!("the token is no JSON web token: {error}")))?
            .kid
            .ok_or_else(|| invalid("the token names no key".to_owned()))?;
        let keys = self.fetch_keys(jwks_url).await.map_err(|error| {
            refused(StatusCode::BAD_REQUEST, "IDPCommunicationError", format!("{jwks_url}: {error}"))
        })?;
        let key = keys.find(&kid).ok_or_else(|| invalid(format!("the issuer has no key {kid}")))?;
        let key = DecodingKey::from_jwk(key).map_err(|error| invalid(format!("key {kid}: {error}")))?;

        let mut validation = Validation::new(Algorithm::RS256);
        validation.set_issuer(&[issuer]);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        // The library reads the machine's clock; the demo's may have been moved.
        validation.validate_exp = false;
        let claims = jsonwebtoken::decode::<Claims>(token, &key, &validation)
            .map_err(|error| invalid(format!("the token was refused: {error}")))?
            .claims;

        let now = (self.now)();
        if claims.exp.saturating_mul(SECOND_MS).saturating_add(LEEWAY_MS) < now {
            return Err(refused(StatusCode::BAD_REQUEST, "ExpiredTokenException", "the token has expired"));
        }
        if claims.nbf.is_some_and(|from| from.saturating_mul(SECOND_MS) > now.saturating_add(LEEWAY_MS)) {
            return Err(invalid("the token is not valid yet".to_owned()));
        }
        Ok(claims)
    }

    async fn fetch_keys(&self, url: &str) -> Result<JwkSet, reqwest::Error> {
        self.http.get(url).send().await?.error_for_status()?.json().await
    }
}

/// The fields of a form body; of a repeated one the last.
fn form_fields(body: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(body);
    let Ok(mut url) = reqwest::Url::parse("http://sts/") else {
        return BTreeMap::new();
    };
    url.set_query(Some(&text));
    url.query_pairs().into_owned().collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Whether `text` is `pattern` with each `*` replaced by some text, as `StringLike` compares.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
