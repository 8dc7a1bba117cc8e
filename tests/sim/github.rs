//! GitHub as the server sees it: pull requests, workflow runs, checks, comments, and the webhooks that tell of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use serde_json::{Value, json};
use stackorder::clock::{Clock as _, HandClock, Millis, SECOND_MS, rfc3339};
use stackorder::github::api::*;
use stackorder::graph::resolution::MatrixEntry;
use stackorder::ids::Sha;

use super::faults::{Faults, others_go_first};

pub const REPOSITORY: i64 = 7;
pub const NAME: &str = "acme/infra";
const PLAN_FILE: &str = ".github/workflows/stackorder-plan.yml";
const RUN_FILE: &str = ".github/workflows/stackorder-run.yml";
/// How long GitHub keeps an artifact here: long, unless a fault ends it early.
const ARTIFACT_MS: Millis = 90 * 24 * 3_600_000;

/// How often others go first while GitHub takes its time, a second each.
const LONG: usize = 150;

/// GitHub behind the boundary that may fail.
#[derive(Debug)]
pub struct Hub {
    model: Mutex<Model>,
    faults: Arc<Faults>,
}

/// The same without faults: what people, jobs and laws see.
#[derive(Debug)]
pub struct Model {
    clock: Arc<HandClock>,
    pub config: String,
    numbers: i64,
    pub commits: BTreeMap<Sha, Commit>,
    /// The default branch, newest last.
    pub main: Vec<Sha>,
    pub pulls: BTreeMap<i64, Pull>,
    pub runs: BTreeMap<i64, WorkflowRun>,
    /// Workflow runs whose jobs are still to be made.
    pub fresh: BTreeSet<i64>,
    /// By workflow run.
    pub artifacts: BTreeMap<i64, Vec<ArtifactFacts>>,
    comments: BTreeMap<i64, (i64, Comment)>,
    /// When each comment of a person was written.
    said: BTreeMap<i64, Millis>,
    pub checks: BTreeMap<i64, Check>,
    /// Each with whether it is open.
    pub issues: BTreeMap<i64, (Issue, bool)>,
    /// Deliveries that GitHub has not sent yet: event and payload.
    pub events: Vec<(&'static str, Value)>,
    /// Dispatches that GitHub took its time over: who asks again meanwhile is refused more often.
    slow: BTreeSet<String>,
    /// Who may push, and who is in the team, as it changed: since when, which right, of whom, and whether they have it.
    rights: Vec<(Millis, Right, String, bool)>,
}

/// What an apply may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    Write,
    Team,
}

#[derive(Debug, Clone)]
pub struct Commit {
    /// Content of each stack.
    pub files: BTreeMap<String, u32>,
    /// How much of the default branch is in it.
    pub base: usize,
}

#[derive(Debug, Clone)]
pub struct Pull {
    pub number: i64,
    pub head: Sha,
    pub is_open: bool,
    pub is_merged: bool,
    pub is_draft: bool,
    pub base_ref: &'static str,
    pub merge_commit: Option<Sha>,
    pub merged_by: Option<String>,
    pub reviews: Vec<Review>,
}

#[derive(Debug, Clone)]
pub struct WorkflowRun {
    pub id: i64,
    pub attempt: u32,
    pub work: Work,
    pub title: String,
    pub created_at: Millis,
    pub conclusion: Option<&'static str>,
    pub jobs: Vec<i64>,
    /// What each job is called, how it stands, and whether a runner has worked on it.
    pub shown: BTreeMap<i64, JobFacts>,
    /// Environments that wait for a reviewer.
    pub waiting: BTreeSet<String>,
}

/// What a workflow run is there for.
#[derive(Debug, Clone)]
pub enum Work {
    PullRequest { number: i64, head: Sha },
    Dispatched { mode: String, run_id: String, sha: String, entries: Vec<MatrixEntry> },
}

impl Hub {
    pub fn new(clock: Arc<HandClock>, faults: Arc<Faults>, config: String, stacks: &[String]) -> Self {
        let mut model = Model {
            clock,
            config,
            numbers: 1000,
            commits: BTreeMap::new(),
            main: Vec::new(),
            pulls: BTreeMap::new(),
            runs: BTreeMap::new(),
            fresh: BTreeSet::new(),
            artifacts: BTreeMap::new(),
            comments: BTreeMap::new(),
            said: BTreeMap::new(),
            checks: BTreeMap::new(),
            issues: BTreeMap::new(),
            events: Vec::new(),
            slow: BTreeSet::new(),
            rights: Vec::new(),
        };
        for login in ["ada", "bob", "cleo"] {
            model.rights.push((0, Right::Write, login.to_owned(), true));
        }
        for login in ["ada", "bob"] {
            model.rights.push((0, Right::Team, login.to_owned(), true));
        }
        let first = model.commit(stacks.iter().map(|key| (key.clone(), 0)).collect(), 0);
        model.main.push(first);
        Self { model: Mutex::new(model), faults }
    }

    pub fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().expect("one thread")
    }

    /// One question or order: it may fail before GitHub knew of it, or after GitHub did it.
    async fn ask<T: Send>(&self, what: &str, act: impl FnOnce(&mut Model) -> Result<T> + Send) -> Result<T> {
        let lost = |message: &str| GitHubError::Temporary { what: what.to_owned(), message: message.to_owned() };
        self.faults.cross("a server died before it asked GitHub").await;
        if self.faults.hits("GitHub did not hear", 80) {
            return Err(lost("connection reset"));
        }
        let answer = act(&mut self.model());
        if self.faults.hits("GitHub acted and answered 502", 80) {
            return Err(lost("502"));
        }
        self.faults.cross("a server died after GitHub acted").await;
        answer
    }
}

impl Model {
    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    pub fn has(&self, right: Right, login: &str) -> bool {
        let of = self.rights.iter().rev().find(|(_, kind, who, _)| *kind == right && who == login);
        of.is_some_and(|(_, _, _, has)| *has)
    }

    /// Whether somebody had a right at that time or has got it since.
    pub fn had(&self, right: Right, login: &str, since: Millis) -> bool {
        let mut had = false;
        for (at, _, _, has) in self.rights.iter().filter(|(_, kind, who, _)| *kind == right && who == login) {
            if *at <= since {
                had = *has;
            } else {
                had |= has;
            }
        }
        had
    }

    pub fn give(&mut self, right: Right, login: &str, has: bool) {
        self.rights.push((self.now(), right, login.to_owned(), has));
    }

    pub fn said_at(&self, comment: i64) -> Option<Millis> {
        self.said.get(&comment).copied()
    }

    /// How many people approve of a commit, at some moment since then.
    pub fn approvals(&self, number: i64, sha: &Sha, since: Millis) -> usize {
        let sha = sha.to_string();
        let reviews = &self.pulls[&number].reviews;
        let approves = |author: &str| {
            let own = || reviews.iter().filter(|review| review.author == author);
            own().any(|review| {
                let stands = !own().any(|later| {
                    later.state != ReviewState::Approved
                        && later.submitted_at > review.submitted_at
                        && later.submitted_at < since
                });
                review.state == ReviewState::Approved && review.commit == sha && stands
            })
        };
        ["bob", "cleo"].into_iter().filter(|author| approves(author)).count()
    }

    pub fn number(&mut self) -> i64 {
        self.numbers += 1;
        self.numbers
    }

    pub fn commit(&mut self, files: BTreeMap<String, u32>, base: usize) -> Sha {
        let sha = Sha::parse(&format!("{:040x}", self.number())).expect("40 digits");
        self.commits.insert(sha.clone(), Commit { files, base });
        sha
    }

    pub fn tip(&self) -> &Sha {
        self.main.last().expect("there is a first commit")
    }

    /// Paths that a commit changes against the default branch where it left it.
    pub fn changed(&self, sha: &Sha) -> Vec<String> {
        let commit = &self.commits[sha];
        let base = &self.commits[&self.main[commit.base]];
        let changed = commit.files.iter().filter(|(key, content)| base.files.get(*key) != Some(content));
        changed.map(|(key, _)| format!("{key}/main.tf")).collect()
    }

    /// Files of the default branch that changed after this commit left it.
    fn ahead(&self, sha: &str) -> Comparison {
        let Some(commit) = Sha::parse(sha).ok().and_then(|sha| self.commits.get(&sha)) else {
            return Comparison::default();
        };
        let (then, now) = (&self.commits[&self.main[commit.base]], &self.commits[self.tip()]);
        let changed = now.files.iter().filter(|(key, content)| then.files.get(*key) != Some(content));
        Comparison {
            files: changed.map(|(key, _)| format!("{key}/main.tf")).collect(),
            truncated: false,
            commits: self.main[commit.base + 1..].iter().map(ToString::to_string).collect(),
        }
    }

    fn repository(&self) -> Value {
        json!({ "id": REPOSITORY, "full_name": NAME, "default_branch": "main" })
    }

    fn tell(&mut self, event: &'static str, mut payload: Value) {
        payload["repository"] = self.repository();
        payload["installation"] = json!({ "id": 1 });
        self.events.push((event, payload));
    }

    pub fn tell_pull(&mut self, action: &str, number: i64, sender: &str) {
        let pull = self.pulls[&number].clone();
        let repo = json!({ "id": REPOSITORY });
        let changes = if action == "edited" { json!({ "base": {} }) } else { json!({}) };
        self.tell(
            "pull_request",
            json!({
                "action": action, "sender": { "login": sender, "type": "User" }, "changes": changes,
                "pull_request": {
                    "number": number, "merged": pull.is_merged, "merge_commit_sha": pull.merge_commit,
                    "merged_by": pull.merged_by.map(|login| json!({ "login": login })),
                    "head": { "ref": format!("topic-{number}"), "sha": pull.head, "repo": repo },
                    "base": { "ref": pull.base_ref, "sha": self.tip(), "repo": repo },
                },
            }),
        );
    }

    pub fn tell_push(&mut self) {
        let after = self.tip().clone();
        self.tell("push", json!({ "ref": "refs/heads/main", "after": after }));
    }

    pub fn say(&mut self, number: i64, author: &str, body: &str) -> i64 {
        let id = self.number();
        let comment = Comment { id, author: author.to_owned(), body: body.to_owned() };
        self.comments.insert(id, (number, comment));
        self.said.insert(id, self.now());
        self.tell(
            "issue_comment",
            json!({
                "action": "created", "sender": { "login": author, "type": "User" },
                "issue": { "number": number, "pull_request": {} },
                "comment": { "id": id, "body": body, "user": { "login": author, "type": "User" } },
            }),
        );
        id
    }

    /// Starts the plan workflow of a pull request's head.
    pub fn start_plan(&mut self, number: i64) {
        let head = self.pulls[&number].head.clone();
        self.start(Work::PullRequest { number, head }, format!("plan of #{number}"));
    }

    fn start(&mut self, work: Work, title: String) -> i64 {
        let id = self.number();
        let run = WorkflowRun {
            id,
            attempt: 1,
            work,
            title,
            created_at: self.now(),
            conclusion: None,
            jobs: Vec::new(),
            shown: BTreeMap::new(),
            waiting: BTreeSet::new(),
        };
        self.runs.insert(id, run);
        self.fresh.insert(id);
        self.tell_run(id, "requested");
        id
    }

    /// Another attempt of a workflow run that ended.
    pub fn run_again(&mut self, id: i64) {
        let run = self.runs.get_mut(&id).expect("it is there");
        run.attempt += 1;
        run.conclusion = None;
        run.jobs.clear();
        self.fresh.insert(id);
        self.tell_run(id, "requested");
    }

    pub fn facts(&self, id: i64) -> Option<WorkflowRunFacts> {
        let run = self.runs.get(&id)?;
        let (event, path, head_branch, head_sha) = match &run.work {
            Work::PullRequest { number, head } => {
                ("pull_request", PLAN_FILE, format!("topic-{number}"), head.to_string())
            }
            Work::Dispatched { .. } => ("workflow_dispatch", RUN_FILE, "main".to_owned(), self.tip().to_string()),
        };
        Some(WorkflowRunFacts {
            id,
            attempt: run.attempt,
            title: run.title.clone(),
            event: event.to_owned(),
            path: path.to_owned(),
            head_branch,
            head_sha,
            completed: run.conclusion.is_some(),
            conclusion: run.conclusion.unwrap_or_default().to_owned(),
            created_at: run.created_at,
        })
    }

    pub fn tell_run(&mut self, id: i64, action: &str) {
        let facts = self.facts(id).expect("a run that is there");
        let status = if facts.completed { "completed" } else { "in_progress" };
        self.tell(
            "workflow_run",
            json!({
                "action": action,
                "workflow_run": {
                    "id": id, "run_attempt": facts.attempt, "path": facts.path, "display_title": facts.title,
                    "event": facts.event, "head_branch": facts.head_branch, "head_sha": facts.head_sha,
                    "status": status, "conclusion": facts.conclusion, "created_at": rfc3339(facts.created_at),
                },
            }),
        );
    }

    pub fn tell_job(&mut self, run: i64, job: i64) {
        let attempt = self.runs[&run].attempt;
        let shown = self.runs[&run].shown[&job].clone();
        self.tell(
            "workflow_job",
            json!({
                "action": shown.status,
                "workflow_job": {
                    "id": job, "run_id": run, "run_attempt": attempt, "name": shown.name, "status": shown.status,
                    "html_url": shown.html_url,
                },
            }),
        );
    }

    pub fn upload(&mut self, run: i64, name: &str) {
        let (id, expires_at) = (self.number(), Some(self.now() + ARTIFACT_MS));
        let artifact = ArtifactFacts { id, name: name.to_owned(), expired: false, expires_at };
        self.artifacts.entry(run).or_default().push(artifact);
    }

    pub fn is_expired(&self, name: &str) -> bool {
        self.artifacts.values().flatten().any(|artifact| artifact.name == name && artifact.expired)
    }

    /// The artifacts of a workflow run are gone.
    pub fn expire(&mut self, run: i64) {
        for artifact in self.artifacts.get_mut(&run).into_iter().flatten() {
            artifact.expired = true;
        }
    }

    fn pull(&self, number: i64) -> Result<PullRequest> {
        let Some(pull) = self.pulls.get(&number) else {
            return Err(GitHubError::NotFound { what: format!("#{number}") });
        };
        Ok(PullRequest {
            number,
            title: "Change".to_owned(),
            open: pull.is_open,
            merged: pull.is_merged,
            draft: pull.is_draft,
            author: "ada".to_owned(),
            head_sha: pull.head.clone(),
            head_ref: format!("topic-{number}"),
            from_fork: false,
            base_ref: pull.base_ref.to_owned(),
            base_sha: self.tip().clone(),
            mergeable: Some(true),
            mergeable_state: "clean".to_owned(),
            merge_commit_sha: pull.merge_commit.clone(),
            merged_by: pull.merged_by.clone(),
        })
    }

    fn newest_first(&self, keep: impl Fn(&WorkflowRun) -> bool) -> Vec<WorkflowRunFacts> {
        let runs = self.runs.values().rev().filter(|run| keep(run));
        runs.filter_map(|run| self.facts(run.id)).collect()
    }
}

fn no(what: &str) -> GitHubError {
    GitHubError::NotFound { what: what.to_owned() }
}

#[async_trait]
impl Api for Hub {
    fn edit_every(&self, _: &RepoRef) -> Millis {
        // `Database` spaces renderings.
        0
    }
    async fn hook_deliveries(&self, _: Millis) -> Result<Vec<HookDelivery>> {
        // What is lost here is lost for good: the looks of every hour have to find it.
        Ok(Vec::new())
    }
    async fn redeliver(&self, _: i64) -> Result<()> {
        Err(no("delivery"))
    }
    async fn bot_login(&self) -> Result<String> {
        Ok("stackorder[bot]".to_owned())
    }
    async fn installations(&self) -> Result<Vec<InstallationFacts>> {
        let only =
            InstallationFacts { id: 1, account: "acme".into(), account_type: "Organization".into(), suspended: false };
        self.ask("installations", |_| Ok(vec![only])).await
    }
    async fn installation_repositories(&self, _: i64) -> Result<Vec<RepositoryFacts>> {
        self.ask("repositories", |_| Ok(vec![facts()])).await
    }
    async fn repository(&self, _: &RepoRef) -> Result<RepositoryFacts> {
        self.ask("the repository", |_| Ok(facts())).await
    }
    async fn file(&self, _: &RepoRef, path: &str, _: &str) -> Result<Option<Vec<u8>>> {
        self.ask("a file", |model| Ok((path == "stackorder.yaml").then(|| model.config.clone().into_bytes()))).await
    }
    async fn branch_head(&self, _: &RepoRef, _: &str) -> Result<Sha> {
        self.ask("the default branch", |model| Ok(model.tip().clone())).await
    }
    async fn commit(&self, _: &RepoRef, _: &Sha) -> Result<(String, String)> {
        self.ask("a commit", |_| Ok(("Change".to_owned(), "ada".to_owned()))).await
    }
    async fn compare(&self, _: &RepoRef, base: &str, _: &str) -> Result<Comparison> {
        self.ask("a comparison", |model| Ok(model.ahead(base))).await
    }
    async fn tree(&self, _: &RepoRef, sha: &Sha) -> Result<(Vec<(String, String)>, bool)> {
        self.ask("a tree", |model| {
            let files = &model.commits.get(sha).ok_or_else(|| no("commit"))?.files;
            Ok((files.iter().map(|(key, content)| (format!("{key}/main.tf"), content.to_string())).collect(), false))
        })
        .await
    }
    async fn pull_request(&self, _: &RepoRef, number: i64) -> Result<PullRequest> {
        self.ask("a pull request", |model| model.pull(number)).await
    }
    async fn open_pull_requests(&self, _: &RepoRef) -> Result<Vec<PullRequest>> {
        self.ask("open pull requests", |model| {
            model.pulls.values().filter(|pull| pull.is_open).map(|pull| model.pull(pull.number)).collect()
        })
        .await
    }
    async fn pull_request_files(&self, _: &RepoRef, number: i64) -> Result<Vec<String>> {
        self.ask("files", |model| {
            let head = model.pulls.get(&number).ok_or_else(|| no("pull request"))?.head.clone();
            Ok(model.changed(&head))
        })
        .await
    }
    async fn reviews(&self, _: &RepoRef, number: i64) -> Result<Vec<Review>> {
        self.ask("reviews", |model| Ok(model.pulls.get(&number).map(|pull| pull.reviews.clone()).unwrap_or_default()))
            .await
    }
    async fn permission(&self, _: &RepoRef, login: &str) -> Result<Permission> {
        self.ask("a permission", |model| {
            Ok(if model.has(Right::Write, login) { Permission::Write } else { Permission::Read })
        })
        .await
    }
    async fn membership(&self, _: &RepoRef, _: &str, _: &str, login: &str) -> Result<Membership> {
        self.ask("a membership", |model| {
            Ok(if model.has(Right::Team, login) { Membership::Active } else { Membership::None })
        })
        .await
    }
    async fn comments(&self, _: &RepoRef, number: i64) -> Result<Vec<Comment>> {
        self.ask("comments", |model| {
            Ok(model.comments.values().filter(|(of, _)| *of == number).map(|(_, comment)| comment.clone()).collect())
        })
        .await
    }
    async fn create_comment(&self, _: &RepoRef, number: i64, body: &str) -> Result<i64> {
        self.ask("a new comment", |model| {
            let id = model.number();
            let comment = Comment { id, author: "stackorder[bot]".to_owned(), body: body.to_owned() };
            model.comments.insert(id, (number, comment));
            Ok(id)
        })
        .await
    }
    async fn edit_comment(&self, _: &RepoRef, id: i64, body: &str) -> Result<()> {
        self.ask("a comment", |model| {
            let (_, comment) = model.comments.get_mut(&id).ok_or_else(|| no("comment"))?;
            body.clone_into(&mut comment.body);
            Ok(())
        })
        .await
    }
    async fn delete_comment(&self, _: &RepoRef, id: i64) -> Result<()> {
        self.ask("a comment", |model| model.comments.remove(&id).map(drop).ok_or_else(|| no("comment"))).await
    }
    async fn react(&self, _: &RepoRef, _: i64, _: Reaction) -> Result<()> {
        self.ask("a reaction", |_| Ok(())).await
    }
    async fn create_check(&self, _: &RepoRef, check: &Check) -> Result<i64> {
        self.ask("a new check", |model| {
            let id = model.number();
            model.checks.insert(id, check.clone());
            Ok(id)
        })
        .await
    }
    async fn update_check(&self, _: &RepoRef, id: i64, check: &Check) -> Result<()> {
        self.ask("a check", |model| {
            *model.checks.get_mut(&id).ok_or_else(|| no("check"))? = check.clone();
            Ok(())
        })
        .await
    }
    async fn checks(&self, _: &RepoRef, sha: &Sha, name: Option<&str>) -> Result<Vec<CheckRunFacts>> {
        self.ask("checks", |model| {
            let of = model.checks.iter().filter(|(_, check)| check.head_sha == *sha);
            let named = of.filter(|(_, check)| name.is_none_or(|name| check.name == name));
            Ok(named
                .map(|(id, check)| {
                    let (completed, conclusion) = match &check.status {
                        CheckStatus::Completed(conclusion) => (true, conclusion.as_str().to_owned()),
                        _ => (false, String::new()),
                    };
                    let app_slug = "stackorder".to_owned();
                    CheckRunFacts { id: *id, name: check.name.clone(), app_slug, completed, conclusion }
                })
                .collect())
        })
        .await
    }
    async fn issues(&self, _: &RepoRef, _: &str) -> Result<Vec<Issue>> {
        self.ask("issues", |model| {
            Ok(model.issues.values().filter(|(_, open)| *open).map(|(issue, _)| issue.clone()).collect())
        })
        .await
    }
    async fn create_issue(&self, _: &RepoRef, title: &str, body: &str, _: &str) -> Result<i64> {
        self.ask("a new issue", |model| {
            let number = model.number();
            let issue = Issue { number, title: title.to_owned(), body: body.to_owned() };
            model.issues.insert(number, (issue, true));
            Ok(number)
        })
        .await
    }
    async fn edit_issue(&self, _: &RepoRef, number: i64, body: &str) -> Result<()> {
        self.ask("an issue", |model| {
            let (issue, _) = model.issues.get_mut(&number).ok_or_else(|| no("issue"))?;
            body.clone_into(&mut issue.body);
            Ok(())
        })
        .await
    }
    async fn close_issue(&self, _: &RepoRef, number: i64) -> Result<()> {
        self.ask("an issue", |model| {
            model.issues.get_mut(&number).ok_or_else(|| no("issue"))?.1 = false;
            Ok(())
        })
        .await
    }
    async fn dispatch(&self, _: &RepoRef, request: &DispatchRequest) -> Result<Option<i64>> {
        let title = format!("stackorder {} {} wave {}", request.mode, request.run_id, request.wave);
        let is_slow = self.model().slow.contains(&title);
        if self.faults.hits("GitHub refused a dispatch", if is_slow { 2 } else { 90 }) {
            let message = "Workflow does not have 'workflow_dispatch' trigger".to_owned();
            return Err(GitHubError::Permanent { status: 422, what: "a dispatch".to_owned(), message });
        }
        let names_it = !self.faults.hits("a dispatch was answered without a run id", 6);
        // Whoever asks may be given up before it is heard.
        if self.faults.hits("GitHub took its time over a dispatch", 8) {
            self.model().slow.insert(title.clone());
            for _ in 0..LONG {
                self.model().clock.advance(SECOND_MS);
                others_go_first().await;
            }
        }
        self.ask("a dispatch", |model| {
            let entries: Vec<MatrixEntry> = serde_json::from_str(&request.stacks).expect("entries are JSON");
            let (mode, run_id, sha) = (request.mode.clone(), request.run_id.clone(), request.sha.clone());
            let id = model.start(Work::Dispatched { mode, run_id, sha, entries }, title);
            Ok(names_it.then_some(id))
        })
        .await
    }
    async fn dispatched_runs(&self, _: &RepoRef, since: Millis) -> Result<Vec<WorkflowRunFacts>> {
        self.ask("workflow runs", |model| {
            Ok(model.newest_first(|run| matches!(run.work, Work::Dispatched { .. }) && run.created_at >= since))
        })
        .await
    }
    async fn plan_runs(&self, _: &RepoRef, wanted: &Sha) -> Result<Vec<WorkflowRunFacts>> {
        self.ask("plan runs", |model| {
            Ok(model.newest_first(|run| matches!(&run.work, Work::PullRequest { head, .. } if head == wanted)))
        })
        .await
    }
    async fn workflow_run(&self, _: &RepoRef, id: i64) -> Result<WorkflowRunFacts> {
        self.ask("a workflow run", |model| model.facts(id).ok_or_else(|| no("workflow run"))).await
    }
    async fn rerun(&self, _: &RepoRef, id: i64) -> Result<()> {
        self.ask("a re-run", |model| {
            let run = model.runs.get(&id).ok_or_else(|| no("workflow run"))?;
            if run.conclusion.is_none() {
                let message = "This workflow is already running".to_owned();
                return Err(GitHubError::Permanent { status: 403, what: "a re-run".to_owned(), message });
            }
            model.run_again(id);
            Ok(())
        })
        .await
    }
    async fn jobs(&self, _: &RepoRef, id: i64) -> Result<Vec<JobFacts>> {
        self.ask("jobs", |model| {
            let run = model.runs.get(&id).ok_or_else(|| no("workflow run"))?;
            Ok(run.jobs.iter().map(|job| run.shown[job].clone()).collect())
        })
        .await
    }
    async fn artifacts(&self, _: &RepoRef, id: i64) -> Result<Vec<ArtifactFacts>> {
        self.ask("artifacts", |model| Ok(model.artifacts.get(&id).cloned().unwrap_or_default())).await
    }
    async fn pending_deployments(&self, _: &RepoRef, id: i64) -> Result<Vec<String>> {
        self.ask("deployments", |model| {
            Ok(model.runs.get(&id).map(|run| run.waiting.iter().cloned().collect()).unwrap_or_default())
        })
        .await
    }
    async fn answer_protection_rule(&self, _: &RepoRef, _: i64, _: &str, _: bool, _: &str) -> Result<()> {
        self.ask("a protection rule", |_| Ok(())).await
    }
}

fn facts() -> RepositoryFacts {
    let name = stackorder::ids::RepoName::parse(NAME).expect("it is a name");
    RepositoryFacts { id: REPOSITORY, name, default_branch: "main".to_owned(), private: true }
}
