//! `stackorder admin keys` and `stackorder admin queue` as an operator types them, on a database of a server.

use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use stackorder::run::scene::{JobKind, NewJob};
use stackorder::store::{self, Outcome, QueueFilter, Store};
use tempfile::TempDir;

use crate::databases::sqlite_url;

struct Operator {
    dir: TempDir,
    store: Arc<dyn Store>,
}

impl Operator {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = store::open(&sqlite_url(dir.path()), 2).await.unwrap();
        Self { dir, store }
    }

    fn types(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stackorder"));
        command.arg("admin").args(args).env_clear().env("USER", "ann");
        command.env("DATABASE_URL", sqlite_url(self.dir.path())).output().unwrap()
    }

    #[track_caller]
    fn succeeds(&self, args: &[&str]) -> String {
        let output = self.types(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn reads(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.succeeds(&[args, &["--format", "json"]].concat())).unwrap()
    }

    /// Leaves with this code, says this on standard error, and prints nothing else.
    #[track_caller]
    fn is_refused(&self, args: &[&str], code: i32, why: &str) {
        let output = self.types(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(why), "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }

    async fn audited(&self) -> Vec<(String, String, String)> {
        let entries = self.store.audit(10, None).await.unwrap();
        entries.into_iter().map(|(_, entry)| (entry.actor, entry.action, entry.target)).collect()
    }

    async fn dies(&self, kind: JobKind, error: &str) {
        self.store.add_job(&NewJob::now(kind, json!({}), 0)).await.unwrap();
        let job = self.store.claim_job("w", 1_000, 60_000).await.unwrap().unwrap();
        let dead = Outcome::Dead { error: error.to_owned() };
        self.store.finish_job(&job, "w", &dead, 2_000).await.unwrap();
    }
}

fn entry(actor: &str, action: &str, target: &str) -> (String, String, String) {
    (actor.to_owned(), action.to_owned(), target.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_listed_and_put_back_once() {
    let operator = Operator::new().await;
    assert_eq!(operator.succeeds(&["queue", "list"]), "nothing\n");
    operator.dies(JobKind::Render, "GitHub answered 502 to a comment").await;
    operator.store.store_delivery("d-1", "push", "{}", 3_000).await.unwrap();

    let text = operator.succeeds(&["queue", "list"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("ID         STATE  ATTEMPTS  DUE "), "{text}");
    assert!(lines[1].starts_with("job:1      dead   1         1970-01-01T00:00:02Z  render"), "{text}");
    assert_eq!(lines[2], "    GitHub answered 502 to a comment");
    assert!(lines[3].starts_with("event:d-1  due    0         1970-01-01T00:00:03Z  push"), "{text}");
    let dead = operator.reads(&["queue", "list", "--dead"]);
    let expected = json!([{
        "id": "job:1", "kind": "render", "key": null, "state": "dead", "attempts": 1, "due_at": "1970-01-01T00:00:02Z",
        "claimed_until": null, "last_error": "GitHub answered 502 to a comment",
    }]);
    assert_eq!(dead, expected);
    assert_eq!(operator.reads(&["queue", "list", "--limit", "1"]).as_array().unwrap().len(), 1);

    assert_eq!(operator.succeeds(&["queue", "retry", "job:1"]), "job:1 is due again\n");
    operator.is_refused(&["queue", "retry", "job:1"], 1, "job:1 is no dead letter");
    assert_eq!(operator.audited().await, [entry("admin:ann", "queue_retry", "job:1")]);
    assert!(operator.store.queue(QueueFilter::Dead, 10).await.unwrap().is_empty());
    assert_eq!(operator.reads(&["queue", "list"])[1]["attempts"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_before_anything_is_done() {
    let operator = Operator::new().await;
    for id in ["7", "job:seven", "event:", "task:1", ""] {
        operator.is_refused(&["queue", "retry", id], 1, "is neither event:<delivery id> nor job:<number>");
    }
    operator.is_refused(&["queue", "retry", "event:nobody"], 1, "event:nobody is no dead letter");
    operator.is_refused(&["queue", "list", "--limit", "0"], 2, "0 is not in 1..=10000");
    operator.is_refused(&["queue", "list", "--format", "dot"], 1, "--format dot, mermaid and svg are only for graph");
    operator.is_refused(&["queue"], 2, "Usage: stackorder admin queue");
    operator.is_refused(&["keys", "create", "--name", "x", "--scope", "read", "--repo", "acme"], 1, "acme");
    operator.is_refused(&["keys", "create", "--name", "x", "--scope", "all"], 2, "invalid value 'all'");
    operator.is_refused(&["keys", "revoke", "nobody"], 1, "there is no key named \"nobody\"");
    assert!(operator.audited().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_shown_once_kept_as_a_hash_and_its_life_is_audited() {
    let operator = Operator::new().await;
    let scopes = ["--scope", "apply", "--scope", "read", "--repo", "acme/infra", "--days", "7"];
    let made = operator.reads(&[&["keys", "create", "--name", "ci"], &scopes[..]].concat());
    let secret = made["key"].as_str().unwrap();
    let hash = Sha256::digest(secret.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let kept = operator.store.api_key_by_hash(&hash).await.unwrap().unwrap();
    assert_eq!((kept.scopes.join(","), kept.repos.join(",")), ("read,apply".into(), "acme/infra".into()));
    assert_eq!((kept.expires_at.unwrap() - kept.created_at) / 86_400_000, 7);
    assert_eq!(kept.created_by, "admin:ann");
    operator.is_refused(
        &["keys", "create", "--name", "ci", "--scope", "read"],
        1,
        "there is a key named \"ci\" already",
    );

    for shown in [operator.succeeds(&["keys", "list"]), operator.reads(&["keys", "list"]).to_string()] {
        assert!(shown.contains("ci") && shown.contains("acme/infra") && shown.contains(&secret[..10]), "{shown}");
        assert!(!shown.contains(secret), "never again");
    }
    assert!(operator.reads(&["keys", "revoke", "ci"])["revoked_at"].is_string());
    assert!(operator.reads(&["keys", "list"])[0]["revoked_at"].is_string());
    let audited =
        [entry("admin:ann", "api_key_revoked", "apikey:ci"), entry("admin:ann", "api_key_created", "apikey:ci")];
    assert_eq!(operator.audited().await, audited);
}
