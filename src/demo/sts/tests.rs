use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Value, json};

use super::*;

const ISSUER: &str = "https://token.actions.example";
const ROLE: &str = "arn:aws:iam::111122223333:role/apply-production";
const NOW: Millis = 1_900_000_000_000;

fn key() -> EncodingKey {
    EncodingKey::from_rsa_pem(include_bytes!("test-key.pem")).expect("the test key is a key")
}

fn token(claims: Value) -> String {
    let mut all = json!({
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "repo:acme/infra:environment:production",
        "exp": NOW / 1000 + 300,
        "nbf": NOW / 1000,
    });
    for (name, value) in claims.as_object().expect("claims are an object") {
        all[name] = value.clone();
    }
    let header = Header { kid: Some("k1".to_owned()), ..Header::new(Algorithm::RS256) };
    jsonwebtoken::encode(&header, &all, &key()).expect("the token is signed")
}

async fn sts() -> (Sts, wiremock::MockServer) {
    let issuer = wiremock::MockServer::start().await;
    let mut jwk = Jwk::from_encoding_key(&key(), Algorithm::RS256).expect("a public key");
    jwk.common.key_id = Some("k1".to_owned());
    let answer = wiremock::ResponseTemplate::new(200).set_body_json(JwkSet { keys: vec![jwk] });
    wiremock::Mock::given(wiremock::matchers::path("/jwks")).respond_with(answer).mount(&issuer).await;
    let roles = [(ROLE.to_owned(), TrustPolicy::for_subjects(["repo:acme/infra:environment:production"]))].into();
    let jwks_url = Some(format!("{}/jwks", issuer.uri()));
    let sts = Sts::new(jwks_url, Some(ISSUER.to_owned()), roles, Arc::new(|| NOW), Arc::default());
    (sts.expect("the client is made"), issuer)
}

async fn assume(sts: &Sts, role: &str, token: &str) -> (u16, String) {
    let form =
        format!("Action=AssumeRoleWithWebIdentity&RoleArn={role}&RoleSessionName=job-1&WebIdentityToken={token}");
    let (status, xml) = sts.answer(None, form.as_bytes()).await;
    (status.as_u16(), xml)
}

fn element<'a>(xml: &'a str, name: &str) -> &'a str {
    let (_, rest) = xml.split_once(&format!("<{name}>")).expect("the element is there");
    rest.split('<').next().unwrap_or_default()
}

#[tokio::test]
async fn a_job_of_the_trusted_environment_gets_keys_that_name_it() {
    let (sts, _issuer) = sts().await;
    let (status, xml) = assume(&sts, ROLE, &token(json!({}))).await;
    assert_eq!(status, 200, "{xml}");
    let access_key = element(&xml, "AccessKeyId");
    assert_eq!(sts.keys.secret_of(access_key).as_deref(), Some(element(&xml, "SecretAccessKey")));

    let header = format!("AWS4-HMAC-SHA256 Credential={access_key}/20300101/us-east-1/sts/aws4_request, Signature=x");
    let (_, xml) = sts.answer(Some(&header), b"Action=GetCallerIdentity").await;
    assert_eq!(element(&xml, "Arn"), "arn:aws:sts::111122223333:assumed-role/apply-production/job-1");
}

#[tokio::test]
async fn every_fault_of_a_token_is_refused() {
    let (sts, _issuer) = sts().await;
    let good = token(json!({}));
    let (head, signature) = good.rsplit_once('.').expect("three parts");
    let forged = format!("{head}.{}", signature.chars().rev().collect::<String>());
    for (role, token, status, code) in [
        (ROLE, token(json!({"sub": "repo:acme/infra:environment:staging"})), 403, "AccessDenied"),
        ("arn:aws:iam::111122223333:role/none", good.clone(), 403, "AccessDenied"),
        (ROLE, token(json!({"iss": "https://evil.example"})), 400, "InvalidIdentityToken"),
        (ROLE, token(json!({"aud": "https://stackorder.example"})), 400, "InvalidIdentityToken"),
        (ROLE, token(json!({"exp": NOW / 1000 - 60})), 400, "ExpiredTokenException"),
        (ROLE, token(json!({"nbf": NOW / 1000 + 60})), 400, "InvalidIdentityToken"),
        (ROLE, forged, 400, "InvalidIdentityToken"),
        (ROLE, "nonsense".to_owned(), 400, "InvalidIdentityToken"),
    ] {
        let (got, xml) = assume(&sts, role, &token).await;
        assert_eq!((got, element(&xml, "Code")), (status, code), "{xml}");
    }
}

#[tokio::test]
async fn an_unknown_key_has_no_identity() {
    let (sts, _issuer) = sts().await;
    let (status, _) = sts.answer(Some("AWS4-HMAC-SHA256 Credential=AKIAOTHER/x"), b"Action=GetCallerIdentity").await;
    assert_eq!(status, 403);
    assert_eq!(sts.answer(None, b"Action=GetCallerIdentity").await.0, 403);
    assert_eq!(sts.answer(None, b"Action=AssumeRole").await.0, 400);
}

#[test]
fn a_star_stands_for_any_text() {
    for (pattern, text, expected) in [
        ("repo:a/b:*", "repo:a/b:pull_request", true),
        ("repo:a/b:*", "repo:a/bc:pull_request", false),
        ("repo:*/b:environment:*", "repo:a/b:environment:prod", true),
        ("*", "", true),
        ("a*a", "a", false),
        ("a", "ab", false),
        ("*b*", "abc", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} against {text}");
    }
}
