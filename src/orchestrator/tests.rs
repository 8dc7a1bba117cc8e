//! The orchestrator over maps and a scripted GitHub.

mod bad_input;
mod commands;
mod cross_repo;
mod deployments;
mod drifting;
mod failures;
mod field_reports;
mod github;
mod life;
mod queue;
mod recovery;
mod rendering;
mod requests;
mod resolving;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rand::SeedableRng;
use serde_json::{Value, json};

use self::github::Scripted;
use super::bells::Queue;
use super::runner_calls::{CallError, Caller};
use super::workers::work;
use super::*;
use crate::api::{ClaimRequest, CreateRunRequest, GraphUploadRequest, StackResult, UnlockRequest};
use crate::clock::{HandClock, MINUTE_MS};
use crate::config::model::{ApplyMode, RepoConfig};
use crate::github::api::{ArtifactFacts, CheckStatus, JobFacts, WorkflowRunFacts};
use crate::github::oidc::Claims;
use crate::graph::resolution::Resolution;
use crate::ids::{RepoName, Sha};
use crate::run::model::{Dispatch, Run};
use crate::run::report::Refused;
use crate::run::scene::{Changes, Effects, JobKind};
use crate::run::status::{Mode, RunStatus, Trigger};
use crate::run::tests::story::{graph, key, result, sha};
use crate::store::{ApiKey, Installation, MemoryStore, Outcome, Retention, RunFilter};

const REPO: i64 = 7;
const KEEP: Retention = Retention { plan_text_ms: MINUTE_MS, events_ms: MINUTE_MS, drift_ms: MINUTE_MS };

struct World {
    app: App,
    github: Arc<Scripted>,
    clock: Arc<HandClock>,
    /// The newest workflow run that a dispatch started.
    workflow_runs: AtomicI64,
}

impl World {
    async fn new() -> Self {
        Self::over(Arc::new(Scripted::new()), Arc::new(HandClock::at(1_000_000))).await
    }

    /// An empty database beside this GitHub.
    async fn over(github: Arc<Scripted>, clock: Arc<HandClock>) -> Self {
        let store = Arc::new(MemoryStore::default());
        let installation =
            Installation { id: 1, account: "acme".into(), account_type: "Organization".into(), suspended: false };
        store.save_installation(&installation).await.unwrap();
        let repo = Repo {
            id: REPO,
            installation_id: 1,
            full_name: RepoName::parse("acme/infra").unwrap(),
            default_branch: "main".to_owned(),
            private: true,
            suspended: false,
            config: None,
            config_sha: String::new(),
            default_graph: None,
        };
        store.save_repo(&repo).await.unwrap();
        let addresses = Addresses { base_url: "https://so.test".into(), web_url: "https://github.test".into() };
        let random = rand::rngs::StdRng::seed_from_u64(1);
        let app = App::new(store, github.clone(), clock.clone(), addresses, random);
        Self { app, github, clock, workflow_runs: AtomicI64::new(900) }
    }

    async fn repo(&self) -> Repo {
        self.app.store.repo(REPO).await.unwrap().unwrap()
    }

    async fn policy(&self, change: impl FnOnce(&mut RepoConfig)) {
        let mut config = RepoConfig::clone(&self.repo().await.policy());
        change(&mut config);
        self.app.store.save_config(REPO, Some(&config), "").await.unwrap();
    }

    /// Works inbox and outbox off until nothing is due.
    async fn settle(&self) {
        const PIECES_MAX: u32 = 1_000;
        for _ in 0..PIECES_MAX {
            if !work_one(&self.app, "worker", &KEEP).await.unwrap() {
                return;
            }
        }
        panic!("the queues never run dry");
    }

    /// A delivery arrives, and all that follows from it is done.
    async fn deliver(&self, id: &str, event: &str, mut payload: Value) {
        payload["repository"] = json!({ "id": REPO, "full_name": "acme/infra", "default_branch": "main" });
        self.app.store.store_delivery(id, event, &payload.to_string(), self.app.now()).await.unwrap();
        self.settle().await;
    }

    /// Somebody comments on the pull request, a second later.
    async fn comment(&self, id: i64, author: &str, body: &str) {
        self.clock.advance(1000);
        self.deliver(&format!("comment-{id}"), "issue_comment", commented(id, author, body)).await;
    }

    /// Something happens to the pull request.
    async fn pull_request(&self, delivery: &str, action: &str) {
        let end = |name: &str| json!({ "ref": name, "sha": sha('a'), "repo": { "id": REPO } });
        let pull = json!({ "number": 1, "head": end("topic"), "base": end("main") });
        self.deliver(delivery, "pull_request", json!({ "action": action, "pull_request": pull })).await;
    }

    /// The pull request is merged into its base.
    async fn merge(&self, delivery: &str) {
        {
            let pull = &mut self.github.script().pull;
            (pull.open, pull.merged, pull.merge_commit_sha) = (false, true, Some(sha('d')));
            pull.merged_by = Some("ada".to_owned());
        }
        self.pull_request(delivery, "closed").await;
    }

    /// Bodies of the comments on the pull request that tell something once, without their markers.
    fn notes(&self) -> Vec<String> {
        let comments = self.github.script().comments.clone();
        let notes = comments.into_iter().filter(|(at, _)| *at == 1).filter_map(|(_, comment)| {
            let (marker, body) = comment.body.split_once('\n')?;
            marker.starts_with("<!-- stackorder:note:").then(|| body.to_owned())
        });
        notes.collect()
    }

    /// `status | title` of a check at a commit.
    fn check(&self, at: char, name: &str) -> Option<String> {
        let script = self.github.script();
        let check = script.checks.values().find(|check| check.name == name && check.head_sha == sha(at))?;
        let status = match check.status {
            CheckStatus::Queued => "queued",
            CheckStatus::InProgress => "in progress",
            CheckStatus::Completed(conclusion) => conclusion.as_str(),
        };
        Some(format!("{status} | {}", check.title))
    }

    /// `stack #1, other a manual run`.
    async fn locks(&self) -> String {
        let locks = self.app.store.locks(None).await.unwrap();
        locks.iter().map(|lock| format!("{} {}", lock.key, lock.holder())).collect::<Vec<_>>().join(", ")
    }

    /// The newest apply.
    async fn apply(&self) -> Run {
        let filter = RunFilter { mode: Some(Mode::Apply), limit: 1, ..RunFilter::default() };
        self.app.store.runs(&filter).await.unwrap().pop().expect("an apply")
    }

    /// The newest apply: `failed: eks blocked, vpc failed`.
    async fn applied(&self) -> String {
        let run = self.apply().await;
        let rows = self.app.store.rows(&run.id).await.unwrap();
        let mut rows: Vec<String> = rows.iter().map(|row| format!("{} {}", row.key, row.status)).collect();
        rows.sort();
        format!("{}: {}", run.status, rows.join(", "))
    }

    /// The job of a stack of a run, of the workflow run that serves its dispatch.
    async fn job(&self, run: &RunId, stack: &str) -> Caller {
        let scene = self.app.store.scene(run).await.unwrap().unwrap();
        let dispatch = scene.row(run, &key(stack)).and_then(|row| row.dispatch_id.clone()).expect("it is dispatched");
        let dispatch = &scene.dispatches[&dispatch];
        let next = || 1 + self.workflow_runs.fetch_add(1, Ordering::Relaxed);
        let Caller::Job { mut claims, repo } = self.plan_job().await else { unreachable!() };
        claims.event_name = "workflow_dispatch".to_owned();
        claims.git_ref = "refs/heads/main".to_owned();
        claims.run_id = dispatch.workflow_run_id.unwrap_or_else(next);
        claims.environment = Some(dispatch.environment.clone());
        claims.check_run_id = 1 + scene.rows(run).position(|row| row.key.as_str() == stack).unwrap() as i64;
        Caller::Job { claims, repo }
    }

    async fn claim(&self, run: &RunId, stack: &str) -> std::result::Result<(), CallError> {
        let at = self.app.store.run(run).await.unwrap().unwrap().sha;
        let request = ClaimRequest { sha: at.to_string(), workflow_run_attempt: 1 };
        self.app.claim(&self.job(run, stack).await, run, &key(stack), &request).await.map(drop)
    }

    /// `vpc +1, eks !`: each stack of the newest apply is claimed and reported, and what follows is done.
    async fn jobs(&self, outcomes: &str) {
        let run = self.apply().await.id;
        for part in outcomes.split(',').map(str::trim) {
            let (stack, outcome) = part.split_once(' ').unwrap();
            self.clock.advance(1000);
            self.claim(&run, stack).await.unwrap();
            let report = result(Mode::Apply, outcome, "");
            self.app.report_result(&self.job(&run, stack).await, &run, &key(stack), &report).await.unwrap();
            self.settle().await;
        }
    }

    /// The clock shows this.
    fn at(&self, time: i64) {
        self.clock.advance(time - self.app.now());
    }

    /// The artifact of a plan is there.
    fn uploads(&self, planned: &StackResult) {
        let name = planned.plan_artifact.clone();
        self.github.script().artifacts.push(ArtifactFacts { id: 1, name, expired: false, expires_at: None });
    }

    /// The dispatched job of a stack reports its plan, and what follows is done.
    async fn replanned(&self, run: &RunId, stack: &str, outcome: &str) {
        self.clock.advance(1000);
        let planned = result(Mode::Plan, outcome, &format!("{stack}-{run}"));
        self.uploads(&planned);
        self.app.report_result(&self.job(run, stack).await, run, &key(stack), &planned).await.unwrap();
        self.settle().await;
    }

    /// A job of the pull request's plan workflow.
    async fn plan_job(&self) -> Caller {
        self.plan_job_of(1).await
    }

    async fn plan_job_of(&self, number: i64) -> Caller {
        let claims = Claims {
            repository: "acme/infra".to_owned(),
            repository_id: REPO,
            event_name: "pull_request".to_owned(),
            git_ref: format!("refs/pull/{number}/merge"),
            run_id: 99 + number,
            run_attempt: 1,
            environment: None,
            actor: "ada".to_owned(),
            job_workflow_ref: String::new(),
            check_run_id: 0,
            jti: String::new(),
            iat_ms: 0,
            exp_ms: 0,
        };
        Caller::Job { claims, repo: Box::new(self.repo().await) }
    }

    /// `vpc` and `eks`, both changed and planned at this head; answers whether the graph was known.
    async fn plan(&self, head: Sha) -> (RunId, bool) {
        let (run, resolution) = self.resolve(head.clone(), &["vpc/main.tf", "eks/main.tf"]).await;
        let job = self.plan_job().await;
        for stack in ["vpc", "eks"] {
            let planned = result(Mode::Plan, "+1", &format!("{stack}-{head}"));
            self.uploads(&planned);
            self.app.report_result(&job, &run, &key(stack), &planned).await.unwrap();
        }
        (run, resolution.cached)
    }

    /// The run of a head that changes these paths of `vpc <- eks`.
    async fn resolve(&self, head: Sha, changed: &[&str]) -> (RunId, Resolution) {
        self.clock.advance(1000);
        self.github.script().pull.head_sha = head.clone();
        let job = self.plan_job().await;
        let request = CreateRunRequest {
            repo: "acme/infra".to_owned(),
            sha: head.to_string(),
            pr_number: 1,
            ..CreateRunRequest::default()
        };
        let created = self.app.create_run(&job, &request).await.unwrap();
        let upload = upload("vpc <- eks", changed);
        let resolution = self.app.upload_graph(&job, &created.run_id, upload).await.unwrap();
        (created.run_id, resolution)
    }

    /// Payloads of the renderings that wait, which are then done.
    async fn waiting(&self) -> Vec<String> {
        let mut payloads = Vec::new();
        while let Some(job) = self.app.store.claim_job("worker", self.app.now(), 1000).await.unwrap() {
            self.app.store.finish_job(&job, "worker", &Outcome::Done, self.app.now()).await.unwrap();
            if job.kind == JobKind::Render {
                payloads.push(job.payload.to_string());
            }
        }
        payloads
    }

    async fn runs(&self) -> Vec<Run> {
        self.app.store.runs(&RunFilter { limit: 100, ..RunFilter::default() }).await.unwrap()
    }

    async fn dispatches(&self) -> Vec<Dispatch> {
        self.app.store.open_dispatches().await.unwrap()
    }

    /// Plans dispatched by the server, because the base was changed.
    async fn dispatched(&self) -> Dispatch {
        self.plan(sha('a')).await;
        self.github.script().files = vec!["vpc/main.tf".to_owned()];
        self.app.base_changed(&self.repo().await, 1, "delivery").await.unwrap();
        self.dispatches().await.remove(0)
    }
}

/// What a resolve job uploads.
fn upload(stacks: &str, changed: &[&str]) -> GraphUploadRequest {
    GraphUploadRequest {
        graph: crate::graph::model::Graph { tree_hash: "same".to_owned(), ..graph(stacks) },
        changed_paths: changed.iter().map(ToString::to_string).collect(),
        base_sha: String::new(),
        config: None,
        stacks: Vec::new(),
        base: Default::default(),
    }
}

/// The payload of a comment on the pull request.
fn commented(id: i64, author: &str, body: &str) -> Value {
    json!({
        "action": "created",
        "issue": { "number": 1, "pull_request": {} },
        "comment": { "id": id, "body": body, "user": { "login": author } },
        "sender": { "login": author },
    })
}

/// One delivery and one job; whether there was any.
async fn work_one(app: &App, worker: &str, retention: &Retention) -> Result<bool> {
    let delivery = work(app, Queue::Inbox, worker, retention).await?;
    Ok(work(app, Queue::Outbox, worker, retention).await? || delivery)
}

fn api_key(scopes: &[&str], repos: &[&str]) -> ApiKey {
    ApiKey {
        id: "k".to_owned(),
        name: "ci".to_owned(),
        key_hash: String::new(),
        prefix: String::new(),
        created_by: String::new(),
        created_at: 0,
        expires_at: None,
        repos: repos.iter().map(ToString::to_string).collect(),
        scopes: scopes.iter().map(ToString::to_string).collect(),
        last_used_at: None,
        revoked_at: None,
    }
}

fn manual() -> CreateRunRequest {
    CreateRunRequest {
        repo: "acme/infra".to_owned(),
        sha: sha('a').to_string(),
        mode: Some(Mode::Apply),
        trigger: Some(Trigger::Manual),
        stacks: vec!["vpc".to_owned()],
        ..CreateRunRequest::default()
    }
}

fn refused<T: std::fmt::Debug>(answer: std::result::Result<T, CallError>) -> Refused {
    match answer {
        Err(CallError::Refused(refused)) => refused,
        other => panic!("not refused: {other:?}"),
    }
}

fn served(dispatch: &Dispatch) -> WorkflowRunFacts {
    WorkflowRunFacts {
        id: 900,
        attempt: 1,
        title: format!("stackorder plan {} wave 0", dispatch.run_id),
        event: "workflow_dispatch".to_owned(),
        path: workflow_runs::RUN_WORKFLOW.to_owned(),
        head_branch: "main".to_owned(),
        head_sha: sha('f').to_string(),
        completed: false,
        conclusion: String::new(),
        created_at: 0,
    }
}

#[tokio::test]
async fn who_locks_a_stack_is_shown_by_each_pull_request_that_plans_it() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.waiting().await;

    let apply = Caller::Key(api_key(&["apply"], &[]));
    let started = world.app.create_run(&apply, &manual()).await.unwrap();
    assert_eq!(world.waiting().await, [r#"{"locks_of":["vpc"],"repo_id":7}"#]);
    world.app.show_locks(&world.repo().await, &[key("vpc")].into()).await.unwrap();
    assert_eq!(world.waiting().await, [r#"{"pr_number":1,"repo_id":7}"#]);

    let report = result(Mode::Apply, "+1", "b");
    world.app.report_result(&apply, &started.run_id, &key("vpc"), &report).await.unwrap();
    assert_eq!(world.waiting().await, [r#"{"locks_of":["vpc"],"repo_id":7}"#], "and that it is free again");
    world.app.show_locks(&world.repo().await, &[key("other")].into()).await.unwrap();
    assert!(world.waiting().await.is_empty());
}

#[tokio::test]
async fn a_key_that_only_reads_reports_nothing() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    let apply = Caller::Key(api_key(&["apply"], &[]));
    let started = world.app.create_run(&apply, &manual()).await.unwrap();

    let report = result(Mode::Apply, "+1", "b");
    let reader = Caller::Key(api_key(&["read"], &[]));
    let answer = world.app.report_result(&reader, &started.run_id, &key("vpc"), &report).await;
    assert!(matches!(refused(answer), Refused::Forbidden(_)));
    world.app.report_result(&apply, &started.run_id, &key("vpc"), &report).await.unwrap();
}

#[tokio::test]
async fn a_repository_that_a_key_does_not_name_does_not_exist_for_it() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    let elsewhere = api_key(&["apply", "unlock"], &["acme/apps"]);
    let answer = world.app.create_run(&Caller::Key(elsewhere.clone()), &manual()).await;
    assert!(matches!(refused(answer), Refused::NotFound(_)));
    let request =
        UnlockRequest { repo: "acme/infra".to_owned(), stack_key: "vpc".to_owned(), ..UnlockRequest::default() };
    assert!(matches!(refused(world.app.unlock(&elsewhere, &request).await), Refused::NotFound(_)));

    let reader = api_key(&["read"], &["acme/infra"]);
    assert!(matches!(refused(world.app.unlock(&reader, &request).await), Refused::Forbidden(_)));
}

#[tokio::test]
async fn case_013_the_graph_of_an_empty_commit_is_not_stored_again() {
    let world = World::new().await;
    assert!(!world.plan(sha('a')).await.1);
    let (run, resolution) = world.resolve(sha('b'), &["vpc/main.tf", "eks/main.tf"]).await;

    assert!(resolution.cached);
    assert!(resolution.matrix.include.iter().all(|entry| entry.sha == sha('b').as_str()), "{resolution:?}");
    assert!(world.app.store.graph(REPO, &sha('b')).await.unwrap().is_none());
    let scene = world.app.store.scene(&run).await.unwrap().unwrap();
    assert_eq!((&scene.runs[&run].sha, scene.runs[&run].graph_sha.as_ref()), (&sha('b'), Some(&sha('a'))));
    assert!(scene.graph_of(&scene.runs[&run]).is_some());
}

#[tokio::test]
async fn case_154_a_changed_base_is_planned_again_once_for_each_delivery() {
    let world = World::new().await;
    let dispatch = world.dispatched().await;
    let statuses = |runs: Vec<Run>| runs.into_iter().map(|run| (run.trigger, run.status)).collect::<Vec<_>>();
    let once = [(Trigger::Rerequest, RunStatus::Planning), (Trigger::PullRequest, RunStatus::Superseded)];
    world.clock.advance(1000);
    assert_eq!(world.runs().await[0].id, dispatch.run_id);
    let mut seen = statuses(world.runs().await);
    seen.sort_by_key(|(trigger, _)| *trigger == Trigger::PullRequest);
    assert_eq!(seen, once);

    world.app.base_changed(&world.repo().await, 1, "delivery").await.unwrap();
    assert_eq!(world.runs().await.len(), 2);
    assert_eq!(world.dispatches().await, [dispatch]);
}

#[tokio::test]
async fn only_the_default_branches_own_file_serves_a_dispatch() {
    let world = World::new().await;
    let dispatch = world.dispatched().await;
    let facts = served(&dispatch);
    let others = [
        WorkflowRunFacts { event: "push".to_owned(), ..facts.clone() },
        WorkflowRunFacts { path: ".github/workflows/mine.yml".to_owned(), ..facts.clone() },
        WorkflowRunFacts { head_branch: "topic".to_owned(), ..facts.clone() },
    ];
    let repo = world.repo().await;
    for other in others {
        assert_eq!(world.app.bind_by_title(&repo, &other).await.unwrap(), None, "{other:?}");
    }
    assert_eq!(world.app.bind_by_title(&repo, &facts).await.unwrap().unwrap().id, dispatch.id);
}

#[tokio::test]
async fn case_158_only_a_dispatch_none_of_whose_jobs_started_is_sent_again() {
    for (started, dispatches) in [(Some(false), 1), (Some(true), 0), (None, 0)] {
        let world = World::new().await;
        let dispatch = world.dispatched().await;
        world.github.script().jobs = started
            .map(|started| JobFacts {
                id: 1,
                name: "plan vpc".to_owned(),
                status: "completed".to_owned(),
                started,
                html_url: String::new(),
            })
            .into_iter()
            .collect();
        let facts = WorkflowRunFacts { completed: true, conclusion: "cancelled".to_owned(), ..served(&dispatch) };
        world.app.close_dispatch(&world.repo().await, &dispatch, &facts).await.unwrap();
        assert_eq!(world.dispatches().await.len(), dispatches, "{started:?}");
    }
}

#[tokio::test]
async fn a_decision_that_somebody_else_took_is_not_taken_again() {
    let world = World::new().await;
    let effects = Effects { once: vec!["name".to_owned()], ..Effects::default() };
    world.app.store.commit(Changes { repo_id: REPO, effects, ..Changes::default() }).await.unwrap();

    let mut decisions = 0;
    let subject = Subject::Pull { repo_id: REPO, number: 1 };
    let decided = world.app.decide(&subject, |next| {
        decisions += 1;
        next.effects.once.push("name".to_owned());
    });
    assert_eq!(decided.await.unwrap(), None);
    assert_eq!(decisions, 1);
}

#[tokio::test]
async fn a_stack_file_of_the_default_branch_that_does_not_parse_refuses_the_apply() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    world.github.script().stack_file = Some("apply: [");
    world.app.commented(&world.repo().await, 1, 5, "ada", "stackorder apply").await.unwrap();

    let audit = world.app.store.audit(10, None).await.unwrap();
    let reason = audit.iter().find_map(|(_, entry)| entry.details.get("reason")).unwrap().to_string();
    assert!(reason.contains("`apply.allowed_teams` cannot be determined"), "{reason}");
    assert!(world.runs().await.iter().all(|run| run.mode == Mode::Plan));
}

#[tokio::test]
async fn a_merge_told_again_leaves_the_default_graph() {
    let world = World::new().await;
    world.plan(sha('a')).await;
    {
        let pull = &mut world.github.script().pull;
        (pull.open, pull.merged, pull.merge_commit_sha) = (false, true, Some(sha('d')));
    }
    world.app.pull_request_closed(&world.repo().await, 1).await.unwrap();
    assert_eq!(world.repo().await.default_graph, Some(sha('a')));

    let effects = Effects { default_graph: Some(sha('e')), ..Effects::default() };
    world.app.store.commit(Changes { repo_id: REPO, effects, ..Changes::default() }).await.unwrap();
    world.app.pull_request_closed(&world.repo().await, 1).await.unwrap();
    assert_eq!(world.repo().await.default_graph, Some(sha('e')));
}

#[tokio::test]
async fn case_135_what_a_merge_changed_is_planned_again_at_the_merge_commit() {
    let world = World::new().await;
    let mut config = RepoConfig::default();
    config.apply.mode = ApplyMode::OnMerge;
    world.app.store.save_config(REPO, Some(&config), "").await.unwrap();
    world.plan(sha('a')).await;
    {
        let mut script = world.github.script();
        let tree = |blob: &str| vec![("vpc/main.tf".to_owned(), blob.to_owned())];
        script.trees = [(sha('a'), tree("1")), (sha('d'), tree("2"))].into();
        let pull = &mut script.pull;
        (pull.open, pull.merged, pull.merge_commit_sha) = (false, true, Some(sha('d')));
        pull.merged_by = Some("ada".to_owned());
    }
    world.app.pull_request_closed(&world.repo().await, 1).await.unwrap();

    let runs = world.runs().await;
    let apply = runs.iter().find(|run| run.mode == Mode::Apply).expect("the merge applies");
    let scene = world.app.store.scene(&apply.id).await.unwrap().unwrap();
    assert_eq!(scene.row(&apply.id, &key("vpc")).unwrap().behind, ["the merge"]);
    let replan = scene.replan_of(&apply.id, 0).expect("vpc is planned again");
    assert_eq!((&replan.sha, scene.rows(&replan.id).count()), (&sha('d'), 1));
}

#[tokio::test]
async fn a_plan_workflow_is_run_again_once_for_a_comment() {
    for (completed, reruns) in [(true, 1), (false, 0)] {
        let world = World::new().await;
        let facts = WorkflowRunFacts {
            id: 55,
            attempt: 1,
            title: String::new(),
            event: "pull_request".to_owned(),
            path: String::new(),
            head_branch: "topic".to_owned(),
            head_sha: sha('a').to_string(),
            completed,
            conclusion: String::new(),
            created_at: 0,
        };
        world.github.script().plan_runs = vec![facts];
        for _ in 0..2 {
            world.app.commented(&world.repo().await, 1, 5, "ada", "stackorder plan").await.unwrap();
            world.settle().await;
        }
        let told = world.github.script().told.clone();
        assert_eq!(told.iter().filter(|told| *told == "rerun 55").count(), reruns);
    }
}

#[tokio::test]
async fn a_superseded_run_is_refused_as_that_whoever_reports() {
    let world = World::new().await;
    let (old, _) = world.plan(sha('a')).await;
    world.plan(sha('b')).await;
    let report = result(Mode::Plan, "+1", "late");
    let reader = Caller::Key(api_key(&["read"], &[]));
    for caller in [world.plan_job().await, reader] {
        let answer = world.app.report_result(&caller, &old, &key("vpc"), &report).await;
        assert!(matches!(refused(answer), Refused::Superseded(_)));
    }
}

#[tokio::test]
async fn an_upload_is_refused_for_the_state_of_its_run_before_what_it_says() {
    let world = World::new().await;
    let (run, _) = world.plan(sha('a')).await;
    let mut upload = GraphUploadRequest {
        graph: crate::graph::model::Graph { sha: sha('c').to_string(), ..graph("vpc <- eks") },
        changed_paths: Vec::new(),
        base_sha: String::new(),
        config: Some(RepoConfig { version: 2, ..RepoConfig::default() }),
        stacks: Vec::new(),
        base: Default::default(),
    };
    let job = world.plan_job().await;
    assert!(matches!(refused(world.app.upload_graph(&job, &run, upload.clone()).await), Refused::Conflict(_)));

    let request = CreateRunRequest {
        repo: "acme/infra".to_owned(),
        sha: sha('b').to_string(),
        pr_number: 1,
        ..CreateRunRequest::default()
    };
    world.github.script().pull.head_sha = sha('b');
    let run = world.app.create_run(&job, &request).await.unwrap().run_id;
    let field = |refused: Refused| match refused {
        Refused::Invalid { field, .. } => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(refused(world.app.upload_graph(&job, &run, upload.clone()).await)), "graph.sha");
    upload.graph.sha = sha('b').to_string();
    upload.graph.repo = "acme/other".to_owned();
    assert_eq!(field(refused(world.app.upload_graph(&job, &run, upload.clone()).await)), "graph.repo");
    upload.graph.repo = "ACME/infra".to_owned();
    assert_eq!(field(refused(world.app.upload_graph(&job, &run, upload.clone()).await)), "config");
    assert_eq!(world.app.store.run(&run).await.unwrap().unwrap().status, RunStatus::Pending);
}

#[tokio::test]
async fn a_job_that_nothing_dispatched_reads_no_run() {
    let world = World::new().await;
    let (run, _) = world.plan(sha('a')).await;
    let Caller::Job { mut claims, repo } = world.plan_job().await else { unreachable!() };
    claims.event_name = "push".to_owned();
    claims.git_ref = "refs/heads/main".to_owned();
    let pushed = Caller::Job { claims, repo };
    assert!(matches!(refused(world.app.read_run(&pushed, &run).await), Refused::Forbidden(_)));
}
