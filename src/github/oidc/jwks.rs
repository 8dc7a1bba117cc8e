//! The issuer's keys: fetched when needed, kept for an hour, never fetched as often as bad tokens arrive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde::Deserialize;

use super::{OidcError, unauthorized};
use crate::clock::{Clock, HOUR_MS, MINUTE_MS, Millis, SECOND_MS};

const FETCH_MAX: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Issuers have a handful of keys.
const KEYS_MAX: usize = 100;
const KEY_BITS_MIN: usize = 2048;

/// Age at which a set is asked for again.
const FRESH_MS: Millis = HOUR_MS;
/// Shortest time between two fetches, so that tokens with invented keys cannot cause more.
const FETCH_APART_MS: Millis = MINUTE_MS;
/// The same while there is no set at all and every token waits for one.
const FIRST_FETCH_APART_MS: Millis = 5 * SECOND_MS;

type Keys = BTreeMap<String, DecodingKey>;

/// The key set behind one address.
pub(super) struct Jwks(Arc<Shared>);

struct Shared {
    url: String,
    clock: Arc<dyn Clock>,
    http: reqwest::Client,
    known: Mutex<Known>,
    /// Held while fetching: one at a time, and who waited looks again first.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    /// Empty until the first good answer.
    keys: Keys,
    fetched_at: Option<Millis>,
    tried_at: Option<Millis>,
    failure: String,
}

impl Jwks {
    pub fn new(url: String, clock: Arc<dyn Clock>, http: reqwest::Client) -> Self {
        Self(Arc::new(Shared { url, clock, http, known: Mutex::default(), fetching: tokio::sync::Mutex::default() }))
    }

    /// The key of that name; asks the issuer if it is unknown or the set is old.
    pub async fn key(&self, kid: &str) -> Result<DecodingKey, OidcError> {
        if self.0.may_fetch(kid) {
            let (shared, kid) = (self.0.clone(), kid.to_owned());
            // A task of its own: a caller that hangs up must not leave a half-made fetch to the others.
            let fetch = tokio::spawn(async move { shared.refresh(&kid).await });
            fetch.await.map_err(|_| OidcError::Unavailable("the fetch was cut off".to_owned()))?;
        }
        let known = self.0.known();
        match known.keys.get(kid) {
            Some(key) => Ok(key.clone()),
            None if known.keys.is_empty() => Err(OidcError::Unavailable(known.failure.clone())),
            None => Err(unauthorized("the key is unknown")),
        }
    }
}

impl Shared {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this key asks for a fetch that is not too soon.
    fn may_fetch(&self, kid: &str) -> bool {
        let known = self.known();
        let now = self.clock.now();
        let fresh = known.fetched_at.is_some_and(|at| now - at < FRESH_MS);
        let apart = if known.keys.is_empty() { FIRST_FETCH_APART_MS } else { FETCH_APART_MS };
        let waited = known.tried_at.is_none_or(|at| now - at >= apart);
        waited && !(fresh && known.keys.contains_key(kid))
    }

    async fn refresh(&self, kid: &str) {
        let _one_at_a_time = self.fetching.lock().await;
        if !self.may_fetch(kid) {
            return;
        }
        let fetched = self.fetch().await;
        let mut known = self.known();
        let now = self.clock.now();
        known.tried_at = Some(now);
        match fetched {
            Ok(keys) => {
                known.keys = keys;
                known.fetched_at = Some(now);
            }
            // The old set stays: a key that was good an hour ago is better than no answer.
            Err(reason) => {
                tracing::warn!(url = self.url, reason, "cannot fetch the issuer's keys");
                known.failure = reason;
            }
        }
    }

    async fn fetch(&self) -> Result<Keys, String> {
        let asked = self.http.get(&self.url).timeout(FETCH_MAX).send().await;
        let mut answer = asked.map_err(|error| error.to_string())?;
        if !answer.status().is_success() {
            return Err(format!("status {}", answer.status().as_u16()));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| error.to_string())? {
            if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(format!("the answer is larger than {ANSWER_BYTES_MAX} bytes"));
            }
            bytes.extend_from_slice(&chunk);
        }
        usable_keys(&bytes)
    }
}

/// The keys of a set that may sign for us, by name.
fn usable_keys(set: &[u8]) -> Result<Keys, String> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<serde_json::Value>,
    }
    let set: Set = serde_json::from_slice(set).map_err(|error| format!("the answer is no key set: {error}"))?;
    // One unreadable key, of a kind we do not know, must not hide the others.
    let keys: Keys = set.keys.into_iter().take(KEYS_MAX).filter_map(usable_key).collect();
    if keys.is_empty() { Err("the set has no usable key".to_owned()) } else { Ok(keys) }
}

fn usable_key(key: serde_json::Value) -> Option<(String, DecodingKey)> {
    #[derive(Deserialize)]
    struct Key {
        kty: String,
        kid: String,
        r#use: Option<String>,
        alg: Option<String>,
        n: String,
        e: String,
    }
    let key: Key = serde_json::from_value(key).ok()?;
    let meant = key.kty == "RSA"
        && key.r#use.as_deref().is_none_or(|purpose| purpose == "sig")
        && key.alg.as_deref().is_none_or(|algorithm| algorithm == "RS256");
    let modulus = BASE64_URL_SAFE_NO_PAD.decode(&key.n).ok()?;
    if !meant || bits(&modulus) < KEY_BITS_MIN {
        return None;
    }
    Some((key.kid, DecodingKey::from_rsa_components(&key.n, &key.e).ok()?))
}

/// Length of a big-endian number.
fn bits(number: &[u8]) -> usize {
    let mut significant = number.iter().skip_while(|byte| **byte == 0);
    let Some(first) = significant.next() else { return 0 };
    8 - first.leading_zeros() as usize + 8 * significant.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_as_long_as_its_highest_bit() {
        for (number, length) in [(&[][..], 0), (&[0, 0][..], 0), (&[1][..], 1), (&[0, 0x80, 0][..], 16)] {
            assert_eq!(bits(number), length);
        }
    }

    #[test]
    fn keys_that_are_short_or_for_another_purpose_are_left_out() {
        let long = BASE64_URL_SAFE_NO_PAD.encode([0xC1; 256]);
        let short = BASE64_URL_SAFE_NO_PAD.encode([0xC1; 255]);
        let key = |kid: &str, n: &str, extra: serde_json::Value| {
            let mut key = serde_json::json!({"kty": "RSA", "kid": kid, "n": n, "e": "AQAB"});
            key.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            key
        };
        let set = serde_json::json!({"keys": [
            key("plain", &long, serde_json::json!({})),
            key("marked", &long, serde_json::json!({"use": "sig", "alg": "RS256"})),
            key("short", &short, serde_json::json!({})),
            key("encrypts", &long, serde_json::json!({"use": "enc"})),
            key("other", &long, serde_json::json!({"alg": "RS512"})),
            {"kty": "EC", "kid": "curve", "crv": "P-256", "x": "AA", "y": "AA"},
            "nonsense",
        ]});
        let keys = usable_keys(set.to_string().as_bytes()).unwrap();
        assert_eq!(keys.keys().collect::<Vec<_>>(), ["marked", "plain"]);
    }
}
