//! What the story's steps can do and see: people's acts on GitHub, the API with a key, the CLI on a clone, and waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use fake_github::actions::model::{Conclusion, Status, WorkflowRun};
use fake_github::{CheckRun, Hub, ReviewState};
use serde::Deserialize;
use tokio::process::Command;

use crate::api::RunJson;
use crate::demo::laptop::{Laptop, REPOSITORY};
use crate::run::status::{Mode, RowStatus, RunStatus};

/// No step waits longer for one thing; a healthy one takes seconds.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often a thing waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(40);

pub struct Stage {
    pub laptop: Laptop,
    http: reqwest::Client,
    /// What later steps need of earlier ones.
    pub pulls: BTreeMap<&'static str, i64>,
    clones: u32,
}

/// How a CLI process ended.
pub struct CliEnd {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug, Deserialize)]
struct Page<T> {
    items: Vec<T>,
}

#[derive(Debug, Deserialize)]
pub struct StackView {
    pub key: String,
    #[serde(default)]
    pub lock: Option<crate::graph::resolution::LockInfo>,
}

impl Stage {
    pub fn new(laptop: Laptop) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { laptop, http, pulls: BTreeMap::new(), clones: 0 })
    }

    pub fn say(&self, text: impl AsRef<str>) {
        anstream::println!("    - {}", text.as_ref());
    }

    pub fn hub(&self) -> &Hub {
        self.laptop.hub()
    }

    /// The last checks of all: the fake saw no request that GitHub would not have.
    pub fn finish(&self, ok: &mut bool) {
        let unexpected = self.hub().unexpected_requests();
        if !unexpected.is_empty() {
            anstream::println!("BROKEN: GitHub has no such routes: {unexpected:?}");
            *ok = false;
        }
    }

    // -- files --------------------------------------------------------------------------------------

    /// A file of the sample as it now stands on a branch.
    pub fn file(&self, at: &str, path: &str) -> anyhow::Result<String> {
        let bytes = self.hub().file(REPOSITORY, at, path).with_context(|| format!("no {path} at {at}"))?;
        Ok(String::from_utf8(bytes)?)
    }

    /// The file with one text replaced by another; the text must be there.
    pub fn edited(&self, at: &str, path: &str, from: &str, to: &str) -> anyhow::Result<String> {
        let text = self.file(at, path)?;
        ensure!(text.contains(from), "{path} does not hold {from:?}");
        Ok(text.replace(from, to))
    }

    // -- people on GitHub -----------------------------------------------------------------------------

    /// Commits the files to a new branch and opens a pull request.
    pub fn open(
        &mut self,
        name: &'static str,
        author: &str,
        title: &str,
        files: &[(&str, String)],
    ) -> anyhow::Result<i64> {
        let files: Vec<(&str, Option<Vec<u8>>)> =
            files.iter().map(|(path, text)| (*path, Some(text.clone().into_bytes()))).collect();
        let hub = self.laptop.hub();
        hub.commit(REPOSITORY, name, title, author, &files)?;
        let number = hub.open_pull_request(REPOSITORY, name, "main", title, "", author)?;
        self.pulls.insert(name, number);
        Ok(number)
    }

    pub fn push(&self, number: i64, author: &str, message: &str, files: &[(&str, String)]) -> anyhow::Result<String> {
        let files: Vec<(&str, Option<Vec<u8>>)> =
            files.iter().map(|(path, text)| (*path, Some(text.clone().into_bytes()))).collect();
        self.hub().push(REPOSITORY, number, message, author, &files)
    }

    pub fn comment(&self, number: i64, author: &str, body: &str) -> i64 {
        self.hub().comment(REPOSITORY, number, author, body)
    }

    /// Asks for an apply as a person does, who is not as quick as a machine: the last step of a plan job, which uploads the
    /// plan, comes after its result is shown.
    pub async fn apply(&self, number: i64, author: &str) -> anyhow::Result<i64> {
        self.until("the plan jobs to end", || async {
            let mut runs = self.hub().engine().runs(REPOSITORY).into_iter();
            let is_apply = |run: &WorkflowRun| run.inputs.get("mode").is_some_and(|mode| mode == "apply");
            runs.all(|run| is_apply(&run) || run.status == Status::Completed).then_some(())
        })
        .await?;
        Ok(self.comment(number, author, "stackorder apply"))
    }

    pub fn approve(&self, number: i64, author: &str) {
        self.hub().review(REPOSITORY, number, author, ReviewState::Approve, "Looks right.");
    }

    pub fn head(&self, number: i64) -> anyhow::Result<String> {
        let issue = self.hub().issue(REPOSITORY, number).context("no such pull request")?;
        Ok(issue.pull.context("an issue, not a pull request")?.head_sha)
    }

    /// Merges once GitHub lets it; what blocks it stands in the error.
    pub async fn merge(&self, number: i64, by: &str) -> anyhow::Result<String> {
        self.until("the merge to be allowed", || async {
            self.hub().merge_blockers(REPOSITORY, number).is_empty().then_some(())
        })
        .await
        .with_context(|| format!("#{number} is blocked: {:?}", self.hub().merge_blockers(REPOSITORY, number)))?;
        self.hub().merge(REPOSITORY, number, by).map_err(|error| anyhow::anyhow!("the merge was refused: {error}"))
    }

    /// Waits until the comment of an apply run links a deployment to this environment that needs a reviewer. Returns the
    /// workflow run that is linked: a duplicate that GitHub started may wait too, and approving it would lead nowhere.
    pub async fn linked_deployment(&self, number: i64, run: &str, environment: &str) -> anyhow::Result<i64> {
        let marker = format!("<!-- stackorder:run:{run} -->");
        self.until(&format!("a link to the deployment to {environment}"), || async {
            let comment =
                self.hub().comments(REPOSITORY, number).into_iter().find(|it| it.body.starts_with(&marker))?;
            let links = comment.body.lines().filter(|line| line.starts_with(&format!("- `{environment}`: [approve")));
            links.filter_map(|line| line.rsplit_once("/actions/runs/")?.1.strip_suffix(')')?.parse().ok()).find(
                |linked| self.hub().engine().pending(*linked).iter().any(|pending| pending.environment == environment),
            )
        })
        .await
    }

    pub fn approve_deployment(&self, workflow_run: i64, environment: &str, by: &str) -> anyhow::Result<()> {
        self.hub()
            .approve_deployments(REPOSITORY, workflow_run, environment, by)
            .map_err(|error| anyhow::anyhow!("the deployment could not be approved: {error}"))
    }

    /// Approves whatever waits for production until the apply run ends.
    pub async fn approve_until_done(&self, number: i64, run: &str) -> anyhow::Result<RunJson> {
        self.until("the apply to end", || async {
            let engine = self.hub().engine();
            for workflow_run in engine.runs(REPOSITORY) {
                if workflow_run.status == Status::Completed {
                    continue;
                }
                for pending in engine.pending(workflow_run.id) {
                    if pending.environment == "production" {
                        let _ = self.hub().approve_deployments(REPOSITORY, workflow_run.id, "production", "bob");
                    }
                }
            }
            let found = self.run(run).await.ok()?;
            found.status.is_terminal().then_some(found)
        })
        .await
        .with_context(|| format!("apply run {run} of #{number}"))
    }

    // -- what GitHub shows ------------------------------------------------------------------------------

    /// The newest check of each name at a commit.
    pub fn checks(&self, sha: &str) -> BTreeMap<String, CheckRun> {
        let mut checks = self.hub().check_runs(REPOSITORY, sha);
        checks.sort_by_key(|check| check.id);
        checks.into_iter().map(|check| (check.name.clone(), check)).collect()
    }

    /// Waits until the check has this conclusion; returns it.
    pub async fn check(&self, sha: &str, name: &str, conclusion: &str) -> anyhow::Result<CheckRun> {
        self.until(&format!("the check {name} to be {conclusion}"), || async {
            let check = self.checks(sha).remove(name)?;
            (check.conclusion.as_deref() == Some(conclusion)).then_some(check)
        })
        .await
        .with_context(|| {
            let seen: Vec<String> = self
                .checks(sha)
                .into_values()
                .map(|check| {
                    format!(
                        "{}={} ({})",
                        check.name,
                        check.conclusion.unwrap_or(check.status),
                        check.title.unwrap_or_default()
                    )
                })
                .collect();
            format!("checks of {sha}: {}", seen.join(", "))
        })
    }

    /// Waits for a comment of the App on the pull request that holds the text; returns the newest one.
    pub async fn reply(&self, number: i64, text: &str) -> anyhow::Result<String> {
        self.until(&format!("a comment on #{number} that says {text:?}"), || async {
            let comments = self.hub().comments(REPOSITORY, number);
            comments
                .into_iter()
                .rev()
                .find(|comment| comment.via_app.is_some() && comment.body.contains(text))
                .map(|found| found.body)
        })
        .await
        .with_context(|| {
            let bodies: Vec<String> =
                self.hub().comments(REPOSITORY, number).into_iter().map(|comment| comment.body).collect();
            format!("the comments are: {bodies:#?}")
        })
    }

    /// Every text that GitHub shows of a pull request and its checks.
    pub fn texts(&self, number: i64, shas: &[String]) -> Vec<String> {
        let mut texts: Vec<String> =
            self.hub().comments(REPOSITORY, number).into_iter().map(|comment| comment.body).collect();
        for sha in shas {
            for check in self.hub().all_check_runs(REPOSITORY, sha) {
                texts.extend([check.title, check.summary, check.text].into_iter().flatten());
            }
        }
        texts
    }

    // -- the API ------------------------------------------------------------------------------------------

    /// Reads from the API. A server that is just being killed and started again is waited for.
    pub async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let url = format!("{}{path}", self.laptop.server_url);
        let answer = self
            .until(&format!("an answer to {path}"), || async {
                let sent = self.http.get(&url).bearer_auth(&self.laptop.api_key).send().await.ok()?;
                let status = sent.status();
                if status.is_server_error() {
                    return None;
                }
                Some((status, sent.text().await.ok()?))
            })
            .await?;
        let (status, text) = answer;
        ensure!(status.is_success(), "{path} answered {status}: {text}");
        serde_json::from_str(&text).with_context(|| format!("{path} answered {text}"))
    }

    pub async fn run(&self, id: &str) -> anyhow::Result<RunJson> {
        self.get(&format!("/v1/runs/{id}")).await
    }

    /// Runs of a pull request, newest first, without their stacks.
    pub async fn runs(&self, number: i64, mode: Mode) -> anyhow::Result<Vec<RunJson>> {
        let page: Page<RunJson> = self.get(&format!("/v1/repos/{REPOSITORY}/runs?pr={number}&mode={mode}")).await?;
        Ok(page.items)
    }

    pub async fn all_runs(&self, mode: Mode) -> anyhow::Result<Vec<RunJson>> {
        let page: Page<RunJson> = self.get(&format!("/v1/repos/{REPOSITORY}/runs?mode={mode}&limit=500")).await?;
        Ok(page.items)
    }

    pub async fn stacks(&self) -> anyhow::Result<Vec<StackView>> {
        let page: Page<StackView> = self.get(&format!("/v1/repos/{REPOSITORY}/stacks?limit=500")).await?;
        Ok(page.items)
    }

    /// Locked stacks with the pull request that holds each; 0 for a manual run.
    pub async fn locks(&self) -> anyhow::Result<BTreeMap<String, i64>> {
        let stacks = self.stacks().await?;
        Ok(stacks.into_iter().filter_map(|stack| Some((stack.key, stack.lock?.pr_number))).collect())
    }

    /// Waits until the newest plan run of the head is finished; returns it with its stacks.
    pub async fn planned(&self, number: i64) -> anyhow::Result<RunJson> {
        let head = self.head(number)?;
        let found = self
            .until(&format!("the plan of #{number}"), || async {
                let runs = self.runs(number, Mode::Plan).await.ok()?;
                runs.into_iter().find(|run| {
                    run.sha.as_str() == head && (run.status == RunStatus::Planned || run.status.is_terminal())
                })
            })
            .await
            .with_context(|| self.last_logs())?;
        self.run(found.id.as_str()).await
    }

    /// Waits for an apply run of the pull request that is not among `known`.
    pub async fn new_apply(&self, number: i64, known: &BTreeSet<String>) -> anyhow::Result<RunJson> {
        let found = self
            .until(&format!("an apply of #{number} to start"), || async {
                let runs = self.runs(number, Mode::Apply).await.ok()?;
                runs.into_iter().find(|run| !known.contains(run.id.as_str()))
            })
            .await
            .with_context(|| {
                let bodies: Vec<String> =
                    self.hub().comments(REPOSITORY, number).into_iter().map(|comment| comment.body).collect();
                format!("the comments are: {bodies:#?}")
            })?;
        self.run(found.id.as_str()).await
    }

    pub async fn apply_ids(&self, number: i64) -> anyhow::Result<BTreeSet<String>> {
        Ok(self.runs(number, Mode::Apply).await?.into_iter().map(|run| run.id.to_string()).collect())
    }

    /// Waits until the run's stack has this status; returns the run.
    pub async fn row(&self, run: &str, key: &str, status: RowStatus) -> anyhow::Result<RunJson> {
        self.until(&format!("{key} to be {status}"), || async {
            let found = self.run(run).await.ok()?;
            found.stacks.iter().any(|row| row.key == key && row.status == status).then_some(found)
        })
        .await
        .with_context(|| format!("run {run}"))
    }

    // -- the CLI ------------------------------------------------------------------------------------------

    /// A fresh clone of the repository at a commit or branch, as alice.
    pub async fn clone_at(&mut self, at: &str) -> anyhow::Result<PathBuf> {
        self.clones += 1;
        let directory = self.laptop.dir().join(format!("clone-{}", self.clones));
        let token = self.hub().user_token("alice");
        let address = self.laptop.github.base_url().replacen("http://", &format!("http://alice:{token}@"), 1);
        let url = format!("{address}/{REPOSITORY}.git");
        run_git(self.laptop.dir(), &["clone", "--quiet", &url, &directory.display().to_string()]).await?;
        run_git(&directory, &["checkout", "--quiet", at]).await?;
        // What a person's clone of GitHub names, whatever address the demo listens on.
        run_git(
            &directory,
            &["remote", "set-url", "origin", &format!("{}/{REPOSITORY}.git", self.laptop.github.base_url())],
        )
        .await?;
        Ok(directory)
    }

    /// Runs this program's CLI in a clone, with the demo's state store, server and API key.
    pub async fn cli(&self, directory: &Path, args: &[&str]) -> anyhow::Result<CliEnd> {
        let output = self
            .command(self.laptop.program(), directory)
            .args(args)
            .env("STACKORDER_SERVER_URL", &self.laptop.server_url)
            .env("STACKORDER_API_KEY", &self.laptop.api_key)
            .output()
            .await?;
        Ok(CliEnd {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// I16: a plan of the stack at the clone's commit is empty.
    pub async fn plan_is_empty(&self, clone: &Path, stack: &str) -> anyhow::Result<()> {
        let directory = clone.join(stack);
        let tool = self.laptop.tool.program(&self.laptop.bin());
        for args in [
            &["init", "-input=false", "-no-color"][..],
            &["plan", "-input=false", "-no-color", "-lock=false", "-detailed-exitcode"][..],
        ] {
            let output = self.command(&tool, &directory).args(args).output().await?;
            let code = output.status.code().unwrap_or(-1);
            ensure!(
                code == 0,
                "{} {} in {stack} left with {code}: {}{}",
                tool.display(),
                args[0],
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(())
    }

    /// After a complete green apply, every affected stack plans empty at that commit.
    pub async fn all_plan_empty(&mut self, at: &str, stacks: &[&str]) -> anyhow::Result<()> {
        let clone = self.clone_at(at).await?;
        for stack in stacks {
            self.plan_is_empty(&clone, stack).await?;
        }
        self.say(format!("a plan of {} stacks at {} is empty", stacks.len(), &at[..7]));
        Ok(())
    }

    fn command(&self, program: &Path, directory: &Path) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .current_dir(directory)
            .env_clear()
            .env("PATH", format!("{}:{path}", self.laptop.bin().display()))
            .env("HOME", self.laptop.dir())
            .env("CHECKPOINT_DISABLE", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .envs(self.laptop.s3.environment())
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true);
        command
    }

    // -- waiting --------------------------------------------------------------------------------------------

    /// Looks until there is something to see, for at most [`PATIENCE`].
    pub async fn until<T, F: Future<Output = Option<T>>>(
        &self,
        what: &str,
        mut look: impl FnMut() -> F,
    ) -> anyhow::Result<T> {
        let started = Instant::now();
        loop {
            if let Some(seen) = look().await {
                return Ok(seen);
            }
            if started.elapsed() > PATIENCE {
                bail!("waited {} s for {what}", PATIENCE.as_secs());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The logs of failed jobs, for an error that should say why.
    pub fn last_logs(&self) -> String {
        let engine = self.hub().engine();
        let mut text = String::from("jobs:");
        for run in engine.runs(REPOSITORY).into_iter().take(3) {
            text.push_str(&format!("\n  run {} {} {:?} {:?}", run.id, run.title, run.status, run.conclusion));
            if let Some(error) = engine.startup_error(run.id) {
                text.push_str(&format!("\n    {error}"));
            }
            for job in engine.jobs(run.id) {
                text.push_str(&format!("\n    {} {:?} {:?}", job.name, job.status, job.conclusion));
                if job.conclusion == Some(Conclusion::Failure) {
                    let log = engine.logs(job.id);
                    let tail: Vec<&str> = log.lines().rev().take(25).collect();
                    for line in tail.into_iter().rev() {
                        text.push_str(&format!("\n      {line}"));
                    }
                }
            }
        }
        text
    }
}

/// The stacks of a run and their statuses, as one text: `stacks/prod/vpc planned, …`.
pub fn statuses(run: &RunJson) -> String {
    let rows: Vec<String> = run.stacks.iter().map(|row| format!("{} {}", row.key, row.status)).collect();
    rows.join(", ")
}

/// The keys of each wave of a run.
pub fn waves(run: &RunJson) -> Vec<Vec<&str>> {
    let mut waves: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for row in &run.stacks {
        waves.entry(row.wave).or_default().push(&row.key);
    }
    waves.into_values().collect()
}

async fn run_git(directory: &Path, args: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("git")
        .current_dir(directory)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .output()
        .await?;
    ensure!(output.status.success(), "git {} failed: {}", args[0], String::from_utf8_lossy(&output.stderr));
    Ok(())
}
