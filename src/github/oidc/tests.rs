use std::sync::LazyLock;

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Value, json};
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;
use crate::clock::{HOUR_MS, HandClock};

const NOW: Millis = 1_800_000_000_000;
const ISSUER: &str = "https://token.actions.test";
const PIN: &str = "acme/actions/.github/workflows/*.yml@refs/tags/v1*";

static KEY: LazyLock<EncodingKey> =
    LazyLock::new(|| key(include_str!("../../../tests/fixtures/keys/test-only-oidc.pem")));
static OTHER_KEY: LazyLock<EncodingKey> =
    LazyLock::new(|| key(include_str!("../../../tests/fixtures/keys/test-only-oidc-other.pem")));

fn key(pem: &str) -> EncodingKey {
    EncodingKey::from_rsa_pem(pem.as_bytes()).unwrap()
}

fn key_set(keys: &[(&str, &EncodingKey)]) -> ResponseTemplate {
    let keys = keys.iter().map(|(kid, key)| {
        let mut jwk = serde_json::to_value(Jwk::from_encoding_key(key, Algorithm::RS256).unwrap()).unwrap();
        jwk["kid"] = json!(kid);
        jwk["use"] = json!("sig");
        jwk
    });
    ResponseTemplate::new(200).set_body_json(json!({"keys": keys.collect::<Vec<_>>()}))
}

struct World {
    server: MockServer,
    clock: Arc<HandClock>,
    verifier: OidcVerifier,
}

impl World {
    /// An issuer whose answer to the key request is still open.
    async fn silent() -> Self {
        crate::github::install_crypto();
        let server = MockServer::start().await;
        let clock = Arc::new(HandClock::at(NOW));
        let settings = OidcSettings {
            issuer: ISSUER.to_owned(),
            jwks_url: format!("{}/jwks", server.uri()),
            audience: "https://stackorder.test/".to_owned(),
            required_workflow_ref: Some(WorkflowPin::parse(PIN).unwrap()),
        };
        let verifier = OidcVerifier::new(settings, clock.clone(), reqwest::Client::new());
        Self { server, clock, verifier }
    }

    async fn new() -> Self {
        let world = Self::silent().await;
        world.serve(key_set(&[("k1", &KEY)])).await;
        world
    }

    /// From now on the issuer answers this.
    async fn serve(&self, answer: ResponseTemplate) {
        self.server.reset().await;
        Mock::given(path("/jwks")).respond_with(answer).mount(&self.server).await;
    }

    /// Key requests since the last [`World::serve`].
    async fn fetches(&self) -> usize {
        self.server.received_requests().await.unwrap().len()
    }

    async fn verify(&self, kid: &str, key: &EncodingKey, claims: &Value) -> Result<Claims, OidcError> {
        self.verifier.verify(&token(kid, key, claims)).await
    }

    /// Verifies the usual claims with some changed; null takes one out.
    async fn verify_with(&self, changes: Value) -> Result<Claims, OidcError> {
        let mut claims = claims();
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        self.verify("k1", &KEY, &claims).await
    }
}

fn token(kid: &str, key: &EncodingKey, claims: &Value) -> String {
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::RS256) };
    jsonwebtoken::encode(&header, claims, key).unwrap()
}

/// What GitHub puts into the token of an apply job, an instant ago.
fn claims() -> Value {
    let iat = NOW / 1000;
    json!({
        "sub": "repo:acme/infra:environment:prod", "jti": "j1", "aud": "https://stackorder.test", "iss": ISSUER,
        "ref": "refs/heads/main", "repository": "acme/infra", "repository_id": "456789", "actor": "octocat",
        "run_id": "30433642", "run_attempt": "2", "event_name": "workflow_dispatch", "check_run_id": "4",
        "job_workflow_ref": "acme/actions/.github/workflows/apply.yml@refs/tags/v1.2.0", "environment": "prod",
        "head_ref": "", "base_ref": "", "nbf": iat - 600, "iat": iat, "exp": iat + 300,
    })
}

fn reason(verified: Result<Claims, OidcError>) -> String {
    match verified {
        Err(OidcError::Unauthorized(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_token_of_the_issuer_says_which_job_it_is() {
    let world = World::new().await;
    let claims = world.verify_with(json!({})).await.unwrap();
    assert_eq!((claims.repository.as_str(), claims.repository_id), ("acme/infra", 456_789));
    assert_eq!((claims.run_id, claims.run_attempt, claims.check_run_id), (30_433_642, 2, 4));
    assert_eq!((claims.event_name.as_str(), claims.git_ref.as_str()), ("workflow_dispatch", "refs/heads/main"));
    assert_eq!((claims.environment.as_deref(), claims.jti.as_str()), (Some("prod"), "j1"));
    assert_eq!(claims.exp_ms, NOW + 300_000);
    assert_eq!(claims.replay_until_ms(), NOW + 360_000);
}

#[tokio::test]
async fn bl_137_neither_shape_of_the_subject_decides_anything() {
    let world = World::new().await;
    let expected = world.verify_with(json!({})).await.unwrap();
    for sub in [
        "repo:acme@12/infra@34:environment:prod",
        "repo:acme@12/infra@34:ref:refs/heads/main",
        "repo:other/repository:environment:production%3Aeast",
        "project:a:b@c:d",
        "",
    ] {
        assert_eq!(world.verify_with(json!({"sub": sub})).await.unwrap(), expected, "{sub}");
    }
}

#[tokio::test]
async fn numbers_may_be_numbers_and_an_empty_environment_is_none() {
    let world = World::new().await;
    let claims =
        world.verify_with(json!({"repository_id": 456_789, "run_attempt": 1, "environment": ""})).await.unwrap();
    assert_eq!((claims.repository_id, claims.run_attempt, claims.environment), (456_789, 1, None));
    let claims = world.verify_with(json!({"environment": null, "check_run_id": null})).await.unwrap();
    assert_eq!((claims.check_run_id, claims.environment), (0, None));
}

#[tokio::test]
async fn audiences_may_be_lists_and_end_in_slashes() {
    let world = World::new().await;
    for aud in [json!("https://stackorder.test//"), json!(["https://x", "https://stackorder.test/"])] {
        assert!(world.verify_with(json!({"aud": aud})).await.is_ok(), "{aud}");
    }
    for aud in [json!("https://stackorder.test.evil"), json!([]), json!(null), json!("https://github.com/acme")] {
        assert_eq!(reason(world.verify_with(json!({"aud": aud})).await), "another audience");
    }
}

#[tokio::test]
async fn times_have_a_minute_of_grace_and_ten_of_age() {
    let world = World::new().await;
    let now = NOW / 1000;
    for (changes, refusal) in [
        (json!({"exp": now - 60}), None),
        (json!({"exp": now - 61}), Some("expired")),
        (json!({"exp": null}), Some("no exp")),
        (json!({"nbf": now + 60}), None),
        (json!({"nbf": now + 61}), Some("not valid yet")),
        (json!({"nbf": null}), None),
        (json!({"iat": now + 60}), None),
        (json!({"iat": now + 61}), Some("issued in the future")),
        (json!({"iat": now - 600}), None),
        (json!({"iat": now - 601}), Some("issued more than 10 minutes ago")),
        (json!({"iat": null}), Some("no iat")),
        (json!({"iat": i64::MIN}), Some("issued more than 10 minutes ago")),
        (json!({"iat": i64::MAX, "exp": i64::MAX}), Some("issued in the future")),
    ] {
        let verified = world.verify_with(changes.clone()).await;
        assert_eq!(
            verified.err().map(|error| error.to_string()),
            refusal.map(|reason| format!("the token is not accepted: {reason}")),
            "{changes}"
        );
    }
}

#[tokio::test]
async fn claims_that_are_needed_are_named_when_they_miss() {
    let world = World::new().await;
    assert_eq!(reason(world.verify_with(json!({"iss": "https://evil"})).await), "another issuer");
    for name in ["jti", "repository", "repository_id", "event_name", "ref", "run_id", "run_attempt"] {
        assert_eq!(reason(world.verify_with(json!({name: null})).await), format!("no {name}"));
    }
    assert_eq!(reason(world.verify_with(json!({"jti": ""})).await), "no jti");
}

#[tokio::test]
async fn another_workflow_is_forbidden_not_unknown() {
    let world = World::new().await;
    for other in [json!("acme/infra/.github/workflows/apply.yml@refs/heads/x"), json!(null)] {
        let verified = world.verify_with(json!({"job_workflow_ref": other})).await;
        assert!(matches!(verified, Err(OidcError::Forbidden(_))), "{verified:?}");
    }
}

#[tokio::test]
async fn forged_and_malformed_tokens_are_refused() {
    let world = World::new().await;
    let good = token("k1", &KEY, &claims());
    assert!(world.verifier.verify(&good).await.is_ok());
    assert_eq!(reason(world.verify("k1", &OTHER_KEY, &claims()).await), "the signature is wrong");

    let (head, rest) = good.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    let encoded = |json: Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
    let mut richer = claims();
    richer["environment"] = json!("root");
    for (bad, why) in [
        (format!("{head}.{}.{signature}", encoded(richer)), "the signature is wrong"),
        (format!("{head}.{payload}."), "the signature is wrong"),
        (format!("{head}.{payload}.{signature}="), "not strict base64"),
        (format!("{head}.{payload}.{}+", &signature[1..]), "not strict base64"),
        (format!("{}.{payload}.", encoded(json!({"alg": "none", "kid": "k1"}))), "the algorithm is not RS256"),
        (
            format!("{}.{payload}.{signature}", encoded(json!({"alg": "HS256", "kid": "k1"}))),
            "the algorithm is not RS256",
        ),
        (format!("{}.{payload}.{signature}", encoded(json!({"alg": "RS256"}))), "no kid"),
        (
            format!("{}.{payload}.{signature}", encoded(json!({"alg": "RS256", "kid": "k1", "crit": ["b64"]}))),
            "the header demands extensions",
        ),
        (format!("{head}.{payload}"), "not a signed JWT"),
        (format!("{good}.x"), "not strict base64"),
        (String::new(), "not a signed JWT"),
        ("a".repeat(TOKEN_BYTES_MAX + 1), "longer than 65536 bytes"),
    ] {
        assert_eq!(reason(world.verifier.verify(&bad).await), why, "{bad}");
    }
}

#[tokio::test]
async fn a_new_key_is_fetched_but_invented_ones_cause_one_fetch_a_minute() {
    let world = World::new().await;
    assert!(world.verify_with(json!({})).await.is_ok());
    for kid in ["x", "y", "z"] {
        assert_eq!(reason(world.verify(kid, &KEY, &claims()).await), "the key is unknown");
    }
    assert_eq!(world.fetches().await, 1);

    world.serve(key_set(&[("k1", &KEY), ("k2", &OTHER_KEY)])).await;
    world.clock.advance(FETCH_APART_AND_A_BIT_MS);
    assert!(world.verify("k2", &OTHER_KEY, &claims()).await.is_ok());
    assert!(world.verify("k1", &KEY, &claims()).await.is_ok());
    assert_eq!(world.fetches().await, 1);
}

const FETCH_APART_AND_A_BIT_MS: Millis = MINUTE_MS + 1;

#[tokio::test]
async fn an_old_set_is_kept_when_the_issuer_does_not_answer() {
    let world = World::new().await;
    assert!(world.verify_with(json!({})).await.is_ok());
    world.serve(ResponseTemplate::new(500)).await;
    world.clock.advance(HOUR_MS);
    let later = (NOW + HOUR_MS) / 1000;
    for _ in 0..3 {
        assert!(world.verify_with(json!({"iat": later, "exp": later + 300})).await.is_ok());
    }
    assert_eq!(world.fetches().await, 1);
}

#[tokio::test]
async fn without_any_key_the_answer_is_unavailable() {
    let world = World::silent().await;
    for useless in [
        ResponseTemplate::new(503),
        ResponseTemplate::new(200).set_body_string("<html>"),
        ResponseTemplate::new(200).set_body_json(json!({"keys": []})),
        ResponseTemplate::new(200).set_body_string(" ".repeat(1024 * 1024 + 1)),
    ] {
        world.serve(useless).await;
        let verified = world.verify_with(json!({})).await;
        assert!(matches!(verified, Err(OidcError::Unavailable(_))), "{verified:?}");
        assert_eq!(world.fetches().await, 1);
        world.clock.advance(5_000);
    }
}

#[tokio::test]
async fn many_first_tokens_share_one_fetch_and_survive_a_caller_that_hangs_up() {
    let world = World::new().await;
    let verifier = Arc::new(world.verifier);
    let good = token("k1", &KEY, &claims());
    let verifying =
        |verifier: Arc<OidcVerifier>, good: String| tokio::spawn(async move { verifier.verify(&good).await });
    let hung_up = verifying(verifier.clone(), good.clone());
    tokio::task::yield_now().await;
    hung_up.abort();
    let waiting: Vec<_> = (0..8).map(|_| verifying(verifier.clone(), good.clone())).collect();
    for verified in waiting {
        assert!(verified.await.unwrap().is_ok());
    }
    assert_eq!(world.server.received_requests().await.unwrap().len(), 1);
}
