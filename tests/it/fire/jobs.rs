//! The jobs: what a runner's CLI says to the server, with its own way of trying again, and a ledger of what they did.
//!
//! The tool is left out, because the subject is the orchestrator: to apply is to write into the ledger.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use stackorder::api::{
    ClaimRequest, ClaimResponse, CreateRunRequest, CreateRunResponse, GraphUploadRequest, ResultStatus, RunStackJson,
    StackResult,
};
use stackorder::graph::resolution::{BaseFacts, Resolution};
use stackorder::ids::{RunId, hex};
use stackorder::plan::summary::PlanSummary;
use stackorder::run::status::Mode;
use stackorder::runner::server::{RETRY_DELAYS, RUN_RETRY_DELAYS};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::town::{self, Shape, Work};

/// As the CLI's.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// Exit codes of the CLI.
const DONE: u8 = 0;
const FAILED: u8 = 1;
const REFUSED: u8 = 3;

/// What really happened to the infrastructure, and what the server said to it.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Workflow runs that applied a stack, by repository and key: more than one applied it twice.
    pub applied: BTreeMap<(String, String), Vec<i64>>,
    /// Apply results that were taken, by repository and key.
    pub accepted: BTreeMap<(String, String), u32>,
    /// Jobs that were not let in, and what they were told.
    pub refused: Vec<String>,
    /// What must not happen: a job that could not finish what it had begun.
    pub broken: Vec<String>,
    /// Stacks that were applied before what they read.
    pub out_of_order: Vec<String>,
    /// Calls that had to be made again.
    pub retried: u32,
    /// When each call was last sent to the server, by its path.
    pub sent: BTreeMap<String, Instant>,
}

pub struct Door {
    front: String,
    work: Work,
    /// How long the tool takes to apply a stack.
    apply_takes: Duration,
    http: reqwest::Client,
    ledger: Mutex<Ledger>,
}

impl Door {
    /// Lets jobs in for as long as the runtime lives.
    pub fn open(listener: TcpListener, front: String, work: Work, apply_takes: Duration) -> Arc<Self> {
        let http = reqwest::Client::builder().no_proxy().timeout(ATTEMPT_TIMEOUT).build().unwrap();
        let door = Arc::new(Self { front, work, apply_takes, http, ledger: Mutex::default() });
        let keeper = door.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let door = keeper.clone();
                tokio::spawn(async move { door.attend(stream).await });
            }
        });
        door
    }

    pub fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no holder panics")
    }

    /// One job, from its question to its exit code.
    async fn attend(self: Arc<Self>, stream: TcpStream) {
        let (from, mut to) = stream.into_split();
        let mut lines = BufReader::new(from).lines();
        let mut said = BTreeMap::new();
        while let Ok(Some(line)) = lines.next_line().await {
            if line.is_empty() {
                let code = self.work(&Job { door: &self, said }).await;
                // A job that was cancelled meanwhile does not wait any more.
                let _ = to.write_all(format!("{code}\n").as_bytes()).await;
                return;
            }
            if let Some((name, value)) = line.split_once('=') {
                said.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    async fn work(&self, job: &Job<'_>) -> u8 {
        let worked = match job.of("mode") {
            "register" => job.plan_all().await,
            "plan" => job.plan_again().await,
            "apply" => return job.apply().await,
            other => panic!("the server dispatched {other:?}"),
        };
        match worked {
            Ok(()) => DONE,
            Err(Unheard::Refused(why)) => {
                self.ledger().refused.push(format!("{} {}: {why}", job.of("mode"), job.of("key")));
                REFUSED
            }
            Err(Unheard::Unreachable(why)) => {
                self.ledger().broken.push(format!("{} {}: {why}", job.of("mode"), job.of("key")));
                FAILED
            }
        }
    }
}

/// Why a call gave no answer to work with, as the CLI tells them apart.
#[derive(Debug)]
enum Unheard {
    Refused(String),
    Unreachable(String),
}

struct Job<'d> {
    door: &'d Door,
    said: BTreeMap<String, String>,
}

impl Job<'_> {
    fn of(&self, name: &str) -> &str {
        self.said.get(name).map_or("", String::as_str)
    }

    fn attempt_number(&self) -> u32 {
        self.of("attempt").parse().unwrap()
    }

    fn workflow_run(&self) -> i64 {
        self.of("workflow_run").parse().unwrap()
    }

    /// As `stackorder resolve`, then `stackorder plan` for one stack after the other.
    async fn plan_all(&self) -> Result<(), Unheard> {
        let scanned = town::scanned(self.of("repo"), self.of("branch"), self.door.work, self.of("sha"));
        let request = CreateRunRequest {
            repo: self.of("repo").to_owned(),
            sha: self.of("sha").to_owned(),
            pr_number: self.of("pull").parse().unwrap(),
            mode: Some(Mode::Plan),
            workflow_run_id: self.workflow_run(),
            workflow_run_attempt: self.attempt_number(),
            ..CreateRunRequest::default()
        };
        let run = self.post::<_, CreateRunResponse>("/v1/runs", &request, &RETRY_DELAYS).await?.run_id;
        let upload = GraphUploadRequest {
            changed_paths: town::stack_files(self.of("branch"), self.door.work)
                .into_iter()
                .map(|(path, _)| path)
                .collect(),
            graph: scanned.graph,
            base_sha: String::new(),
            config: Some(scanned.config),
            stacks: Vec::new(),
            // The base has none of these directories.
            base: BaseFacts::default(),
        };
        let resolution: Resolution = self.post(&format!("/v1/runs/{run}/graph"), &upload, &RUN_RETRY_DELAYS).await?;
        assert_eq!(resolution.affected.len(), self.door.work.stacks, "{:?}", resolution.warnings);
        let artifact = format!("stackorder-plan-chunk-0-{}", self.of("sha"));
        for stack in &resolution.affected {
            self.plan(&run, &stack.key, &artifact).await?;
        }
        Ok(())
    }

    /// A plan behind its upstream, made again.
    async fn plan_again(&self) -> Result<(), Unheard> {
        let run = RunId::parse(self.of("run")).unwrap();
        self.plan(&run, self.of("key"), "stackorder-plan-again").await
    }

    async fn plan(&self, run: &RunId, key: &str, artifact: &str) -> Result<(), Unheard> {
        let plan = digest(&[run.as_str(), key]);
        let result = StackResult {
            has_changes: self.door.work.shape == Shape::Fans,
            exit_code: 2,
            summary: Some(self.summary(key)),
            plan_artifact: artifact.to_owned(),
            plan_digest: plan.clone(),
            bundle_sha256: digest(&["bundle", &plan]),
            ..result(Mode::Plan)
        };
        self.post::<_, RunStackJson>(&format!("{}/result", stack_path(run, key)), &result, &RUN_RETRY_DELAYS)
            .await
            .map(drop)
    }

    /// As `stackorder apply`: claim, prove, apply, report.
    async fn apply(&self) -> u8 {
        let (run, key) = (RunId::parse(self.of("run")).unwrap(), self.of("key"));
        let slot = (self.of("repo").to_owned(), key.to_owned());
        let claim = ClaimRequest { sha: self.of("sha").to_owned(), workflow_run_attempt: self.attempt_number() };
        let path = format!("{}/claim", stack_path(&run, key));
        let claimed = match self.post::<_, ClaimResponse>(&path, &claim, &RUN_RETRY_DELAYS).await {
            Ok(claimed) => claimed,
            Err(Unheard::Refused(why)) => {
                self.door.ledger().refused.push(format!("claim {key}: {why}"));
                return REFUSED;
            }
            Err(Unheard::Unreachable(why)) => {
                self.door.ledger().broken.push(format!("claim {key}: {why}"));
                return REFUSED;
            }
        };
        if claimed.bundle_sha256 != self.of("bundle") {
            self.door.ledger().broken.push(format!("{key}: the bundle is not the one that was dispatched"));
            return REFUSED;
        }
        tokio::time::sleep(self.door.apply_takes).await;
        self.change_infrastructure(&slot);
        let result = StackResult { summary: Some(self.summary(key)), ..result(Mode::Apply) };
        let path = format!("{}/result", stack_path(&run, key));
        match self.post::<_, RunStackJson>(&path, &result, &RUN_RETRY_DELAYS).await {
            Ok(_) => {
                *self.door.ledger().accepted.entry(slot).or_default() += 1;
                DONE
            }
            Err(unheard) => {
                self.door.ledger().broken.push(format!("result of {key}: {unheard:?}"));
                FAILED
            }
        }
    }

    fn summary(&self, key: &str) -> PlanSummary {
        let actions_digest = Some(digest(&["actions", key]));
        match self.door.work.shape {
            Shape::Chain => PlanSummary { actions_digest, ..PlanSummary::default() },
            Shape::Fans => {
                let added = vec!["terraform_data.it".to_owned()];
                PlanSummary { adds: 1, added, actions_digest, ..PlanSummary::default() }
            }
        }
    }

    fn change_infrastructure(&self, slot: &(String, String)) {
        let (repo, key) = slot;
        let (directory, number) = key.rsplit_once("/s").expect("stacks have numbers");
        let mut ledger = self.door.ledger();
        if let Some(upstream) = self.door.work.shape.upstream_of(number.parse().expect("stacks have numbers")) {
            let before = (repo.clone(), format!("{directory}/s{upstream:02}"));
            if !ledger.applied.contains_key(&before) {
                ledger.out_of_order.push(format!("{repo} {key}"));
            }
        }
        ledger.applied.entry(slot.clone()).or_default().push(self.workflow_run());
    }

    /// A call as the CLI makes it: a fresh token for each attempt, and again when nobody knows whether it arrived.
    async fn post<B: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        delays: &[Duration],
    ) -> Result<A, Unheard> {
        let mut delays = delays.iter();
        loop {
            let why = match self.try_to_post(path, body).await {
                Ok((status, bytes)) if status.is_success() => {
                    return Ok(serde_json::from_slice(&bytes).expect("the server answers in its own shapes"));
                }
                Ok((status, bytes)) if status.is_server_error() => {
                    format!("{status} {}", String::from_utf8_lossy(&bytes))
                }
                Ok((status, bytes)) => {
                    return Err(Unheard::Refused(format!("{status} {}", String::from_utf8_lossy(&bytes))));
                }
                Err(error) => format!("{error:#}"),
            };
            self.door.ledger().retried += 1;
            match delays.next() {
                Some(delay) => tokio::time::sleep(*delay).await,
                None => return Err(Unheard::Unreachable(why)),
            }
        }
    }

    async fn try_to_post<B: Serialize>(&self, path: &str, body: &B) -> anyhow::Result<(StatusCode, Vec<u8>)> {
        let http = &self.door.http;
        let token: Value = http
            .get(format!("{}&audience={}", self.of("url"), self.door.front))
            .bearer_auth(self.of("token"))
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?;
        let token = token["value"].as_str().unwrap_or_default();
        self.door.ledger().sent.insert(path.to_owned(), Instant::now());
        let answer = http.post(format!("{}{path}", self.door.front)).bearer_auth(token).json(body).send().await?;
        Ok((answer.status(), answer.bytes().await?.to_vec()))
    }
}

fn stack_path(run: &RunId, key: &str) -> String {
    format!("/v1/runs/{run}/stacks/{}", key.replace('/', "%2F"))
}

fn result(mode: Mode) -> StackResult {
    StackResult {
        mode,
        status: ResultStatus::Success,
        exit_code: 0,
        has_changes: false,
        summary: None,
        plan_text: None,
        truncated: false,
        error_text: String::new(),
        plan_artifact: String::new(),
        bundle_sha256: String::new(),
        plan_digest: String::new(),
        job_url: String::new(),
        tool: "terraform".to_owned(),
        tool_version: String::new(),
        duration_ms: 0,
        backend: None,
        unconfirmed: false,
    }
}

fn digest(parts: &[&str]) -> String {
    hex(&Sha256::digest(parts.join("\n").as_bytes()))
}
