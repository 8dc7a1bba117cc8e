//! A small GitHub around the engine: bare repositories on disk, everything else in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_github::actions::engine::Engine;
use fake_github::actions::host::{Host, JobChange, RepositoryFacts, RunChange, RunnerOptions, Timing};
use fake_github::actions::model::{Conclusion, DispatchError, Environment, Job, Trigger, WorkflowRun};
use serde_json::json;

pub const NOON: i64 = 1_790_000_000_000;

/// What the tests set and read.
#[derive(Default)]
pub struct Facts {
    pub environments: BTreeMap<String, Environment>,
    pub variables: BTreeMap<String, String>,
    pub secrets: BTreeMap<String, String>,
    pub environment_secrets: BTreeMap<String, BTreeMap<String, String>>,
    /// `run requested`, `job a queued`, in order.
    pub told: Vec<String>,
    pub oidc: Option<(String, String)>,
}

pub struct FakeHost {
    git_root: PathBuf,
    next: AtomicI64,
    pub now: AtomicI64,
    pub facts: Mutex<Facts>,
    /// Counts everything the engine told.
    changes: tokio::sync::watch::Sender<u64>,
}

impl FakeHost {
    fn git(&self, repo: &str, arguments: &[&str]) -> Option<Vec<u8>> {
        let output = Command::new("git").arg("-C").arg(self.git_root.join(repo)).args(arguments).output().unwrap();
        output.status.success().then_some(output.stdout)
    }

    fn line(&self, repo: &str, arguments: &[&str]) -> Option<String> {
        self.git(repo, arguments).map(|bytes| String::from_utf8(bytes).unwrap().trim().to_owned())
    }
}

impl Host for FakeHost {
    fn now_ms(&self) -> i64 {
        self.now.load(Ordering::SeqCst)
    }

    fn next_id(&self) -> i64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    fn web_url(&self) -> String {
        "http://github.test".to_owned()
    }

    fn api_url(&self) -> String {
        "http://api.github.test".to_owned()
    }

    fn clone_url(&self, repo: &str) -> String {
        format!("file://{}", self.git_root.join(repo).display())
    }

    fn resolve_ref(&self, repo: &str, git_ref: &str) -> Option<String> {
        self.repository(repo)?;
        self.line(repo, &["rev-parse", "--verify", "--quiet", &format!("{git_ref}^{{commit}}")])
    }

    fn full_ref(&self, repo: &str, git_ref: &str) -> Option<String> {
        self.line(repo, &["rev-parse", "--symbolic-full-name", git_ref])
            .map(|name| if name.is_empty() { git_ref.to_owned() } else { name })
    }

    fn read_file(&self, repo: &str, commit: &str, path: &str) -> Option<Vec<u8>> {
        self.git(repo, &["show", &format!("{commit}:{path}")])
    }

    fn list_dir(&self, repo: &str, commit: &str, path: &str) -> Vec<String> {
        let listed = self.line(repo, &["ls-tree", "--name-only", &format!("{commit}:{path}")]);
        listed.unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn repository(&self, repo: &str) -> Option<RepositoryFacts> {
        self.git_root.join(repo).exists().then(|| RepositoryFacts {
            id: 1,
            owner: repo.split('/').next().unwrap().to_owned(),
            owner_id: 2,
            private: false,
            default_branch: "main".to_owned(),
            json: json!({"full_name": repo}),
        })
    }

    fn environment(&self, _repo: &str, name: &str) -> Environment {
        let known = self.facts.lock().unwrap().environments.get(name).cloned();
        known.unwrap_or_else(|| Environment { id: 9, name: name.to_owned(), ..Environment::default() })
    }

    fn variables(&self, _repo: &str, _environment: Option<&str>) -> BTreeMap<String, String> {
        self.facts.lock().unwrap().variables.clone()
    }

    fn secrets(&self, _repo: &str, environment: Option<&str>) -> BTreeMap<String, String> {
        let facts = self.facts.lock().unwrap();
        let own = environment.and_then(|name| facts.environment_secrets.get(name)).cloned().unwrap_or_default();
        facts.secrets.clone().into_iter().chain(own).collect()
    }

    fn job_token(&self, job: &Job) -> String {
        format!("ghs_token_of_{}", job.id)
    }

    fn oidc_request(&self, job: &Job) -> Option<(String, String)> {
        let granted = job.permissions.get("id-token").is_some_and(|level| level == "write");
        self.facts.lock().unwrap().oidc.clone().filter(|_| granted)
    }

    fn run_changed(&self, run: &WorkflowRun, change: RunChange) {
        self.facts.lock().unwrap().told.push(format!("run {} {change:?}", run.attempt));
    }

    fn job_changed(&self, _run: &WorkflowRun, job: &Job, change: JobChange) {
        self.changes.send_modify(|count| *count += 1);
        if change != JobChange::Progress {
            self.facts.lock().unwrap().told.push(format!("{} {change:?}", job.name));
        }
    }
}

/// The engine, its host and a directory that goes with the test.
pub struct World {
    pub engine: Arc<Engine>,
    pub host: Arc<FakeHost>,
    pub directory: tempfile::TempDir,
}

impl World {
    /// `acme/infra` with these files on `main`.
    pub fn new(files: &[(&str, &str)]) -> Self {
        Self::with_options(files, |_| {})
    }

    pub fn with_options(files: &[(&str, &str)], change: impl FnOnce(&mut RunnerOptions)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let host = Arc::new(FakeHost {
            git_root: directory.path().join("git"),
            next: AtomicI64::new(100),
            now: AtomicI64::new(NOON),
            facts: Mutex::default(),
            changes: tokio::sync::watch::Sender::new(0),
        });
        let short = Duration::from_millis(150);
        let mut options = RunnerOptions {
            root: directory.path().join("runner"),
            tool_cache: directory.path().join("tools"),
            path: Vec::new(),
            env: BTreeMap::new(),
            parallel_jobs: 4,
            timing: Timing { terminate_after: short, kill_after: short, output_grace: short, ..Timing::default() },
        };
        options.env.insert("SIGNALS".to_owned(), directory.path().display().to_string());
        assert!(Command::new("mkfifo").arg(directory.path().join("ready")).status().unwrap().success());
        change(&mut options);
        let engine = Engine::new(Arc::<FakeHost>::clone(&host), options);
        let world = Self { engine, host, directory };
        world.commit("acme/infra", files);
        world
    }

    /// Commits files to `main` of a repository, made when it is new.
    pub fn commit(&self, repo: &str, files: &[(&str, &str)]) -> String {
        let bare = self.host.git_root.join(repo);
        let work = self.directory.path().join("source").join(repo);
        if !bare.exists() {
            std::fs::create_dir_all(&bare).unwrap();
            std::fs::create_dir_all(&work).unwrap();
            git(&bare, &["init", "--quiet", "--bare", "--initial-branch=main"]);
            git(&bare, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
            git(&work, &["init", "--quiet", "--initial-branch=main"]);
        }
        for (path, text) in files {
            let path = work.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        git(&work, &["add", "-A"]);
        git(&work, &["commit", "--quiet", "--allow-empty", "-m", "a change"]);
        git(&work, &["push", "--quiet", bare.to_str().unwrap(), "main"]);
        self.host.resolve_ref(repo, "main").unwrap()
    }

    pub fn tag(&self, repo: &str, name: &str) {
        git(&self.host.git_root.join(repo), &["tag", name, "main"]);
    }

    /// Makes a ref of the repository point at its `main`.
    pub fn point(&self, repo: &str, full_ref: &str) {
        git(&self.host.git_root.join(repo), &["update-ref", full_ref, "main"]);
    }

    pub fn push(&self) -> Vec<i64> {
        let sha = self.host.resolve_ref("acme/infra", "main").unwrap();
        self.engine.start(Trigger::Push {
            repo: "acme/infra".to_owned(),
            git_ref: "refs/heads/main".to_owned(),
            sha,
            payload: json!({"head_commit": {"message": "a change"}}),
            actor: "mona".to_owned(),
        })
    }

    /// Pushes, waits until nothing moves, and gives the only run.
    pub async fn pushed(&self) -> i64 {
        let ids = self.push();
        assert_eq!(ids.len(), 1, "one workflow listens to pushes");
        self.engine.idle().await;
        ids[0]
    }

    pub fn pull_request(&self, from_fork: bool) -> Vec<i64> {
        self.point("acme/infra", "refs/pull/7/merge");
        let head_repo = if from_fork { "hubot/infra" } else { "acme/infra" };
        let sha = self.host.resolve_ref("acme/infra", "main").unwrap();
        self.engine.start(Trigger::PullRequest {
            repo: "acme/infra".to_owned(),
            number: 7,
            action: "opened".to_owned(),
            payload: json!({"number": 7, "pull_request": {"title": "Add a vpc", "base": {"ref": "main"},
                            "head": {"ref": "topic", "sha": sha, "repo": {"full_name": head_repo}}}}),
            head_branch: "topic".to_owned(),
            head_sha: sha.clone(),
            merge_sha: sha,
            actor: "mona".to_owned(),
            from_fork,
        })
    }

    pub fn dispatch(&self, file: &str, inputs: &[(&str, &str)]) -> Result<i64, DispatchError> {
        let sha = self.host.resolve_ref("acme/infra", "main").unwrap();
        self.engine.dispatch(Trigger::Dispatch {
            repo: "acme/infra".to_owned(),
            file: file.to_owned(),
            git_ref: "main".to_owned(),
            sha,
            inputs: inputs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            actor: "mona".to_owned(),
        })
    }

    /// `a success, b / c failure` of the newest attempt, by name.
    pub fn jobs(&self, run: i64) -> String {
        let attempt = self.engine.run(run).unwrap().attempt;
        let jobs = self.engine.jobs(run).into_iter().filter(|job| job.attempt == attempt);
        let mut lines: Vec<String> =
            jobs.map(|job| format!("{} {}", job.name, word(job.conclusion, job.status))).collect();
        lines.extend(self.engine.startup_error(run));
        lines.sort();
        lines.join(", ")
    }

    pub fn job(&self, run: i64, name: &str) -> Job {
        let mut jobs = self.engine.jobs(run);
        jobs.retain(|job| job.name == name);
        jobs.pop().unwrap_or_else(|| panic!("no job {name} among {}", self.jobs(run)))
    }

    /// The job's log without the times.
    pub fn log(&self, run: i64, name: &str) -> String {
        let log = self.engine.logs(self.job(run, name).id);
        log.lines().map(|line| line.split_once(' ').map_or("", |(_, text)| text)).collect::<Vec<_>>().join("\n")
    }

    pub fn conclusion(&self, run: i64) -> String {
        let run = self.engine.run(run).unwrap();
        word(run.conclusion, run.status)
    }

    pub fn output(&self, run: i64, job: &str, name: &str) -> String {
        self.engine.outputs(self.job(run, job).id).get(name).cloned().unwrap_or_default()
    }

    /// The process whose id a step left in `$SIGNALS/<name>` is no more, or only a zombie.
    pub fn assert_gone(&self, name: &str) {
        let pid = std::fs::read_to_string(self.directory.path().join(name)).unwrap();
        let state = Command::new("ps").args(["-o", "stat=", "-p", pid.trim()]).output().unwrap();
        let state = String::from_utf8(state.stdout).unwrap();
        assert!(state.trim().is_empty() || state.starts_with('Z'), "process {pid} is {state}");
    }

    /// Waits for a state, looked at after every change the engine tells.
    pub async fn until(&self, mut reached: impl FnMut() -> bool) {
        let mut changes = self.host.changes.subscribe();
        let waiting = changes.wait_for(|_| reached());
        tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("the state was never reached").unwrap();
    }

    /// Waits until a step writes into `$SIGNALS/ready`, a pipe that is there from the start.
    pub async fn ready(&self) {
        let pipe = self.directory.path().join("ready");
        let opened = tokio::task::spawn_blocking(move || std::fs::read(pipe).unwrap());
        tokio::time::timeout(Duration::from_secs(60), opened).await.expect("the step never got ready").unwrap();
    }
}

fn word(conclusion: Option<Conclusion>, status: impl serde::Serialize) -> String {
    let value = conclusion.map_or_else(|| json!(status), |conclusion| json!(conclusion));
    value.as_str().unwrap().to_owned()
}

fn git(directory: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=Mona", "-c", "user.email=mona@github.test", "-c", "commit.gpgsign=false"];
    let status = Command::new("git").arg("-C").arg(directory).args(identity).args(arguments).status().unwrap();
    assert!(status.success(), "git {arguments:?} failed");
}
