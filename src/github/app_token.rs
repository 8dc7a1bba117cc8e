//! The App's own credentials: its JWT, and one cached token per installation.
//!
//! Knows nothing of HTTP: whoever asks for an installation token brings the exchange with it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use crate::clock::{Clock, MINUTE_MS, Millis, SECOND_MS};

/// The caller's clock may run ahead of GitHub's.
const ISSUED_BEFORE_MS: Millis = MINUTE_MS;
/// GitHub refuses more than ten minutes, counted by its own clock.
const LIFETIME_MS: Millis = 9 * MINUTE_MS;
/// A token this close to its end is not handed out: a call that starts now may still wait for its turn.
const RENEW_BEFORE_MS: Millis = 5 * MINUTE_MS;

/// An installation token as GitHub hands it out.
#[derive(Clone)]
pub struct InstallationToken {
    pub secret: SecretString,
    pub expires_at: Millis,
}

/// One installation's token; the lock is held during the exchange, so that all who wait share one.
type Slot = Arc<tokio::sync::Mutex<Option<InstallationToken>>>;

pub struct AppTokens {
    app_id: u64,
    key: EncodingKey,
    clock: Arc<dyn Clock>,
    /// As many as there are installations of the App.
    slots: Mutex<BTreeMap<i64, Slot>>,
}

impl AppTokens {
    /// Reads the App's private key: RSA in PEM, PKCS #1 or PKCS #8.
    pub fn new(app_id: u64, pem: &SecretString, clock: Arc<dyn Clock>) -> Result<Self, jsonwebtoken::errors::Error> {
        let key = EncodingKey::from_rsa_pem(pem.expose_secret().as_bytes())?;
        Ok(Self { app_id, key, clock, slots: Mutex::default() })
    }

    /// A fresh JWT of the App itself.
    pub fn jwt(&self) -> Result<SecretString, jsonwebtoken::errors::Error> {
        #[derive(Serialize)]
        struct AppClaims {
            iat: i64,
            exp: i64,
            iss: String,
        }
        let issued = self.clock.now() - ISSUED_BEFORE_MS;
        let claims = AppClaims {
            iat: issued.div_euclid(SECOND_MS),
            exp: (issued + LIFETIME_MS).div_euclid(SECOND_MS),
            iss: self.app_id.to_string(),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.key).map(SecretString::from)
    }

    /// The cached token of an installation, or the one `exchange` brings.
    pub async fn installation<E, Exchange, Answer>(&self, id: i64, exchange: Exchange) -> Result<SecretString, E>
    where
        Exchange: FnOnce() -> Answer,
        Answer: Future<Output = Result<InstallationToken, E>>,
    {
        let slot = self.slot(id);
        let mut cached = slot.lock().await;
        if let Some(token) = cached.as_ref()
            && self.clock.now() + RENEW_BEFORE_MS <= token.expires_at
        {
            return Ok(token.secret.clone());
        }
        let token = exchange().await?;
        let secret = token.secret.clone();
        *cached = Some(token);
        Ok(secret)
    }

    /// Forgets a token that GitHub refused, unless it has been renewed meanwhile.
    pub async fn forget(&self, id: i64, refused: &SecretString) {
        let slot = self.slot(id);
        let mut cached = slot.lock().await;
        if cached.as_ref().is_some_and(|token| token.secret.expose_secret() == refused.expose_secret()) {
            *cached = None;
        }
    }

    fn slot(&self, id: i64) -> Slot {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use base64::Engine;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;

    use super::*;
    use crate::clock::HandClock;

    const TEST_KEY: &str = include_str!("../../tests/fixtures/keys/test-only-app.pem");
    const NOON: Millis = 1_800_000_000_000;

    fn tokens() -> (Arc<HandClock>, AppTokens) {
        let clock = Arc::new(HandClock::at(NOON));
        let tokens = AppTokens::new(77, &SecretString::from(TEST_KEY), clock.clone()).unwrap();
        (clock, tokens)
    }

    fn lasting_an_hour(secret: &str, now: Millis) -> Result<InstallationToken, std::convert::Infallible> {
        Ok(InstallationToken { secret: secret.into(), expires_at: now + 60 * MINUTE_MS })
    }

    #[test]
    fn the_jwt_starts_a_minute_ago_and_lasts_nine() {
        let (_, tokens) = tokens();
        let jwt = tokens.jwt().unwrap();
        let payload = jwt.expose_secret().split('.').nth(1).unwrap();
        let claims: serde_json::Value =
            serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
        let iat = NOON / 1000 - 60;
        assert_eq!(claims, serde_json::json!({"iat": iat, "exp": iat + 540, "iss": "77"}));
    }

    #[test]
    fn a_key_that_is_none_is_refused() {
        let clock = Arc::new(HandClock::at(NOON));
        assert!(AppTokens::new(77, &SecretString::from("not a key"), clock).is_err());
    }

    #[tokio::test]
    async fn many_requests_at_once_share_one_exchange() {
        let (_, tokens) = tokens();
        let tokens = Arc::new(tokens);
        let exchanges = Arc::new(AtomicU32::new(0));
        let asking: Vec<_> = (0..8)
            .map(|_| {
                let (tokens, exchanges) = (tokens.clone(), exchanges.clone());
                tokio::spawn(async move {
                    let exchange = || async {
                        exchanges.fetch_add(1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        lasting_an_hour("one", NOON)
                    };
                    tokens.installation(1, exchange).await.unwrap().expose_secret().to_owned()
                })
            })
            .collect();
        for asked in asking {
            assert_eq!(asked.await.unwrap(), "one");
        }
        assert_eq!(exchanges.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_token_is_renewed_five_minutes_before_its_end_and_belongs_to_one_installation() {
        let (clock, tokens) = tokens();
        let ask = async |id, secret: &str, now| {
            let token = tokens.installation(id, || async { lasting_an_hour(secret, now) }).await.unwrap();
            token.expose_secret().to_owned()
        };
        assert_eq!(ask(1, "first", NOON).await, "first");
        assert_eq!(ask(2, "other", NOON).await, "other");
        clock.advance(55 * MINUTE_MS);
        assert_eq!(ask(1, "second", clock.now()).await, "first");
        clock.advance(1);
        assert_eq!(ask(1, "second", clock.now()).await, "second");
    }

    #[tokio::test]
    async fn only_the_refused_token_is_forgotten() {
        let (_, tokens) = tokens();
        let ask = async |secret: &str| {
            let token = tokens.installation(1, || async { lasting_an_hour(secret, NOON) }).await.unwrap();
            token.expose_secret().to_owned()
        };
        assert_eq!(ask("first").await, "first");
        tokens.forget(1, &"older".into()).await;
        assert_eq!(ask("second").await, "first");
        tokens.forget(1, &"first".into()).await;
        assert_eq!(ask("second").await, "second");
    }
}
