use super::*;
use crate::clock::DAY_MS;
use crate::store::MemoryStore;

const NOW: Millis = 1_760_000_000_000;

fn wanted(scopes: &[Scope], repos: &[&str], days: Option<i64>) -> Wanted {
    let repos: Vec<String> = repos.iter().map(ToString::to_string).collect();
    Wanted::parse("nightly", scopes, &repos, days).unwrap()
}

/// A key for `acme/infra` that may read and hand out keys, and has ten days left.
async fn limited(store: &MemoryStore) -> ApiKey {
    let wanted = Wanted::parse("ci", &[Scope::Keys, Scope::Read], &["acme/infra".to_owned()], Some(10)).unwrap();
    create(store, Giver::Operator("admin:ann"), wanted, NOW).await.unwrap().0
}

#[tokio::test]
async fn a_key_gives_away_no_more_than_it_may_do_itself() {
    let store = MemoryStore::default();
    let own = limited(&store).await;
    let before = store.api_keys().await.unwrap();
    for (scopes, repos, days, reason) in [
        (&[Scope::Read, Scope::Apply][..], &["acme/infra"][..], None, "this key may not apply itself"),
        (&[Scope::Read], &["acme/infra", "acme/web"], None, "this key is not good for acme/web"),
        (&[Scope::Read], &[], None, "this key is not good for every repository: name some of its own"),
        (&[Scope::Read], &["acme/infra"], Some(11), "this key expires itself at 2025-10-19T08:53:20Z"),
    ] {
        let refused = create(&store, Giver::Key(&own), wanted(scopes, repos, days), NOW).await.unwrap_err();
        assert_eq!(refused.to_string(), reason);
    }
    assert_eq!(store.api_keys().await.unwrap(), before);

    let (made, secret) =
        create(&store, Giver::Key(&own), wanted(&[Scope::Read], &["Acme/Infra"], None), NOW).await.unwrap();
    assert_eq!((made.created_by.as_str(), made.expires_at), ("apikey:ci", Some(NOW + 10 * DAY_MS)));
    assert_eq!(made.key_hash, hex(&Sha256::digest(secret.as_bytes())));
    let twice = create(&store, Giver::Key(&own), wanted(&[Scope::Read], &["acme/infra"], None), NOW).await;
    assert!(matches!(twice, Err(KeyError::Taken(name)) if name == "nightly"));
}

#[tokio::test]
async fn a_key_sees_and_revokes_only_what_may_do_no_more_than_itself() {
    let store = MemoryStore::default();
    let own = limited(&store).await;
    let root = Wanted::parse("root", &[Scope::Read], &[], None).unwrap();
    create(&store, Giver::Operator("admin:ann"), root, NOW).await.unwrap();
    let names = |keys: Vec<ApiKey>| keys.into_iter().map(|key| key.name).collect::<Vec<_>>();
    assert_eq!(names(list(&store, Giver::Operator("admin:ann")).await.unwrap()), ["ci", "root"]);
    assert_eq!(names(list(&store, Giver::Key(&own)).await.unwrap()), ["ci"]);
    for name in ["root", "nobody"] {
        let refused = revoke(&store, Giver::Key(&own), name, NOW).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("there is no key named {name:?}"));
    }
    revoke(&store, Giver::Key(&own), "ci", NOW + 1).await.unwrap();
    let kept = store.api_key_by_hash(&own.key_hash).await.unwrap().unwrap();
    assert_eq!(kept.revoked_at, Some(NOW + 1));
    let told: Vec<_> = store.audit(10, None).await.unwrap().into_iter().map(|(_, entry)| entry).collect();
    assert_eq!((told[0].actor.as_str(), told[0].action.as_str()), ("apikey:ci", "api_key_revoked"));
}

/// Two that made the same name at one moment.
#[tokio::test]
async fn revoking_a_name_revokes_every_living_key_of_it() {
    let store = MemoryStore::default();
    let own = limited(&store).await;
    let twin = ApiKey { id: "twin".to_owned(), key_hash: "0".repeat(64), ..own };
    store.save_api_key(&twin).await.unwrap();

    revoke(&store, Giver::Operator("admin:ann"), "ci", NOW + 1).await.unwrap();

    assert!(store.api_keys().await.unwrap().iter().all(|key| key.revoked_at == Some(NOW + 1)));
    let again = revoke(&store, Giver::Operator("admin:ann"), "ci", NOW + 2).await;
    assert!(matches!(again, Err(KeyError::Unknown(_))), "they are gone");
}

#[test]
fn what_is_no_key_is_refused_by_the_name_of_its_field() {
    let parse = |name: &str, scopes: &[Scope], repo: &str, days| {
        Wanted::parse(name, scopes, &[repo.to_owned()], days).unwrap_err().to_string()
    };
    for name in ["", "two words", "a:b", "ß", &"x".repeat(65)] {
        assert!(parse(name, &[Scope::Read], "acme/infra", None).starts_with("name: 1 to 64 letters"), "{name:?}");
    }
    assert_eq!(parse("ci", &[], "acme/infra", None), "scopes: name at least one of read, apply, unlock, keys");
    assert!(parse("ci", &[Scope::Read], "acme", None).starts_with("repos: "));
    for days in [0, -1, 3651, i64::MAX] {
        assert_eq!(parse("ci", &[Scope::Read], "acme/infra", Some(days)), "days: 1 to 3650");
    }
}
