//! A checkout, a tool that does as it is told, and a server that answers what it is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::clock::HandClock;
use crate::runner::Job;
use crate::runner::console::{Console, Format};
use crate::runner::environment::Environment;
use crate::runner::facts::Facts;
use crate::runner::git::Git;
use crate::runner::interrupts::{Interrupts, Raised};
use crate::runner::process::Limits;
use crate::runner::server::Server;

pub const RUN_ID: &str = "0b0e6c5e-0c3b-4a3e-9d59-2f1f6a1b7c11";
pub const STACK: &str = "stacks/a";
/// Planted where no one may see it.
pub const SECRET: &str = "planted-secret-value";

/// Mimics Terraform: notes every call, plans `terraform_data.it`, and fails where a variable says so.
const STUB_TOOL: &str = r#"#!/bin/bash
echo "$*" >> "$STUB_DIR/calls"
case "$1" in
  version) if [ "$2" = -json ]; then echo "{\"terraform_version\":\"1.11.4\"${STUB_OUTDATED-,\"terraform_outdated\":false}}"; else echo "${STUB_NAME-Terraform} v1.11.4"; fi ;;
  init) case "$*" in *readonly*) exit "${STUB_READONLY_EXIT:-0}" ;; esac ;;
  plan)
    for arg in "$@"; do case "$arg" in -out=*) echo "a plan" > "${arg#-out=}" ;; esac; done
    echo "planning with $DB_PASSWORD"
    [ -n "$STUB_PLAN_ERROR" ] && { echo "Error: $STUB_PLAN_ERROR $DB_PASSWORD" >&2; exit 1; }
    exit 2 ;;
  show) if [ "$2" = -json ]; then cat "$STUB_DIR/plan.json"; else echo "  + password = \"$DB_PASSWORD\", other = planted-sensitive"; fi ;;
  apply)
    if [ -n "$STUB_APPLY_WAITS" ]; then
      trap 'echo "stopping gracefully"; exit 0' INT
      touch "$STUB_DIR/applying"
      while true; do sleep 0.05; done
    fi
    exit "${STUB_APPLY_EXIT:-0}" ;;
esac
exit 0
"#;

pub struct World {
    directory: tempfile::TempDir,
    pub root: PathBuf,
    pub env: Environment,
    pub clock: Arc<HandClock>,
    pub server: MockServer,
    out: Arc<Mutex<Vec<u8>>>,
    err: Arc<Mutex<Vec<u8>>>,
    interrupts: Interrupts,
    raise: watch::Sender<Raised>,
}

impl World {
    /// A dispatched job at the head of a repository with one stack, `stacks/a`.
    pub async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let root = base.join("checkout");
        let server = MockServer::start().await;
        let stub = base.join("stub");
        fs::create_dir_all(&stub).unwrap();
        write_script(&stub.join("terraform"), STUB_TOOL);
        fs::write(stub.join("plan.json"), plan_json(&["terraform_data.it"]).to_string()).unwrap();
        let text = |name: &str| base.join(name).display().to_string();
        let env = Environment::default()
            .with("PATH", std::env::var("PATH").unwrap())
            .with("HOME", base.display().to_string())
            .with("STUB_DIR", stub.display().to_string())
            .with("STACKORDER_TERRAFORM_BIN", stub.join("terraform").display().to_string())
            .with("DB_PASSWORD", SECRET)
            .with("GITHUB_ACTIONS", "true")
            .with("GITHUB_REPOSITORY", "acme/infra")
            .with("GITHUB_RUN_ID", "77")
            .with("GITHUB_RUN_ATTEMPT", "2")
            .with("GITHUB_EVENT_PATH", text("event.json"))
            .with("GITHUB_OUTPUT", text("outputs"))
            .with("GITHUB_STEP_SUMMARY", text("summary.md"))
            .with("GITHUB_API_URL", server.uri())
            .with("GITHUB_TOKEN", "github-token-value")
            .with("ACTIONS_ID_TOKEN_REQUEST_URL", format!("{}/oidc?api-version=2", server.uri()))
            .with("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "request-token-value");
        let (raise, interrupts) = Interrupts::by_hand();
        let clock = Arc::new(HandClock::at(1_000_000));
        let (out, err) = (Arc::default(), Arc::default());
        let mut world = Self { directory, root, env, clock, server, out, err, interrupts, raise };
        world.answer_oidc().await;
        world.write("stackorder.yaml", "version: 1\n");
        world.write(
            "stacks/a/main.tf",
            "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"a\"\n  }\n}\n",
        );
        world.git(&["init", "-q", "-b", "main"]);
        world.commit();
        world
    }

    /// The commit becomes the head of the run and of the default branch.
    pub fn commit(&mut self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "a change"]);
        let head = self.git(&["rev-parse", "HEAD"]);
        let event = json!({
            "inputs": {"run_id": RUN_ID, "sha": head},
            "repository": {"full_name": "acme/infra", "default_branch": "main"},
        });
        self.set_event(&event);
        self.env = self.env.clone().with("STACKORDER_POLICY_SHA", &head).with("GITHUB_SHA", &head);
        head
    }

    pub fn set_event(&self, event: &Value) {
        fs::write(self.directory.path().join("event.json"), event.to_string()).unwrap();
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.env = self.env.clone().with(name, value);
    }

    pub fn unset(&mut self, name: &str) {
        self.env = self.env.clone().without(|other| other == name);
    }

    pub fn write(&self, path: &str, text: &str) {
        let full = self.root.join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, text).unwrap();
    }

    pub fn write_hook(&self, name: &str, text: &str) {
        let full = self.root.join(format!(".stackorder/hooks/{name}.sh"));
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        write_script(&full, text);
    }

    pub fn git(&self, args: &[&str]) -> String {
        let done = Command::new("git")
            .args(["-C", &self.root.display().to_string(), "-c", "user.name=a", "-c", "user.email=a@example.com"])
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// A job that talks to the server.
    pub fn job(&self) -> Job {
        let server = Server::of(Some(&self.server.uri()), &self.env).unwrap();
        Job {
            server: server.map(|server| server.with_retry_delays(vec![Duration::ZERO], vec![Duration::ZERO; 3])),
            ..self.local_job()
        }
    }

    /// A job without a server.
    pub fn local_job(&self) -> Job {
        let root = self.root.canonicalize().unwrap();
        let git = Git::new(&root, &self.env);
        Job {
            facts: Facts::gather(&self.env, &git).unwrap(),
            env: self.env.clone(),
            root,
            git,
            console: Console::to(self.out.clone(), self.err.clone(), Format::Text, self.env.is_actions()),
            server: None,
            limits: Limits { interrupts: self.interrupts.clone(), cap: None },
            clock: self.clock.clone(),
        }
    }

    /// Raises an interrupt that only the command itself hears.
    pub fn interrupt(&self) {
        self.raise.send_modify(|raised| raised.count += 1);
    }

    /// Waits until the stub says that it is applying.
    pub async fn is_applying(&self) {
        let mark = self.stub("applying");
        for _ in 0..2_000 {
            if mark.exists() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the stub never began to apply");
    }

    pub fn set_plan(&self, addresses: &[&str]) {
        fs::write(self.stub("plan.json"), plan_json(addresses).to_string()).unwrap();
    }

    /// What the tool was asked to do, first words only.
    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.stub("calls")).unwrap_or_default();
        text.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    }

    pub fn stub(&self, name: &str) -> PathBuf {
        self.directory.path().join("stub").join(name)
    }

    pub fn output(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.directory.path().join("outputs")).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
    }

    pub fn summary(&self) -> String {
        fs::read_to_string(self.directory.path().join("summary.md")).unwrap_or_default()
    }

    /// Both streams, without the lines that tell GitHub what to mask.
    pub fn printed(&self) -> String {
        let text = |stream: &Arc<Mutex<Vec<u8>>>| String::from_utf8(stream.lock().unwrap().clone()).unwrap();
        let both = text(&self.out) + &text(&self.err);
        both.lines().filter(|line| !line.starts_with("::add-mask::")).collect::<Vec<_>>().join("\n")
    }

    pub fn masked(&self) -> bool {
        String::from_utf8(self.out.lock().unwrap().clone()).unwrap().contains(&format!("::add-mask::{SECRET}"))
    }

    pub async fn answer(&self, at: &str, status: u16, body: Value) {
        Mock::given(method("POST"))
            .and(path(at))
            .respond_with(ResponseTemplate::new(status).set_body_json(body))
            .mount(&self.server)
            .await;
    }

    pub async fn answer_result(&self) {
        self.answer(&stack_path("result"), 200, row(STACK)).await;
    }

    pub async fn answer_claim(&self, claim: &Value) {
        self.answer(&stack_path("claim"), 200, claim.clone()).await;
    }

    /// Bodies posted to a path, in order.
    pub async fn posted(&self, at: &str) -> Vec<Value> {
        let requests = self.server.received_requests().await.unwrap();
        let at = requests.iter().filter(|request| request.url.path() == at);
        at.map(|request| serde_json::from_slice(&request.body).unwrap_or(Value::Null)).collect()
    }

    pub async fn results(&self) -> Vec<Value> {
        self.posted(&stack_path("result")).await
    }

    pub async fn answer_oidc(&self) {
        Mock::given(method("GET"))
            .and(path("/oidc"))
            .respond_with(ResponseTemplate::new(200).set_body_json(json!({"value": "oidc-token-value"})))
            .mount(&self.server)
            .await;
    }
}

pub fn stack_path(what: &str) -> String {
    format!("/v1/runs/{RUN_ID}/stacks/stacks%2Fa/{what}")
}

pub fn row(key: &str) -> Value {
    json!({
        "stack_id": "6f0c2c64-6a5f-4a4b-8a57-0d7f1c1b2a33", "key": key, "path": key, "environment": "default",
        "wave": 0, "status": "applying", "plan_output": "full",
    })
}

/// A claim of `stacks/a` for a plan that adds `terraform_data.it`.
pub fn claim(bundle_sha256: &str) -> Value {
    let summarised = crate::plan::summary::summarise(&plan_json(&["terraform_data.it"])).unwrap();
    let mut row = row(STACK);
    row["plan_artifact"] = json!("stackorder-plan-stacks-a");
    row["plan_artifact_expires_at"] = json!("2026-11-29T00:00:00Z");
    json!({
        "row": row,
        "lock": {"stack_key": STACK, "run_id": RUN_ID, "pr_number": 7, "taken_at": "2026-11-29T00:00:00Z"},
        "bundle_sha256": bundle_sha256,
        "actions_digest": summarised.summary.actions_digest,
        "addresses": summarised.addresses,
        "job_token": "job-token-value",
    })
}

fn plan_json(addresses: &[&str]) -> Value {
    let create = |address: &&str| {
        json!({"address": address, "mode": "managed", "type": "terraform_data",
               "change": {"actions": ["create"], "before": null, "after": {"input": "planted-sensitive"},
                          "after_sensitive": {"input": true}}})
    };
    json!({
        "format_version": "1.2", "terraform_version": "1.11.4", "planned_values": {},
        "resource_changes": addresses.iter().map(create).collect::<Vec<_>>(),
    })
}

pub fn write_script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
