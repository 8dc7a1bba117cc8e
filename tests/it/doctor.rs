//! `stackorder admin doctor` against the fake GitHub: a set-up that is well, and one test for each thing that may be wrong.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU16, Ordering};

use axum::Router;
use axum::http::StatusCode;
use fake_github::actions::host::RunnerOptions;
use fake_github::actions::model::Environment;
use fake_github::{App, AppSetup, FakeGitHub, Options, Protection, RepositorySetup, RequiredCheck};
use stackorder::clock::{Clock as _, DAY_MS, HandClock, MINUTE_MS, SystemClock};
use stackorder::config::ROOT_FILE;
use stackorder::config::parse::parse_repo_config;
use stackorder::doctor::examine::examine;
use stackorder::doctor::{Finding, Severity, findings};
use stackorder::github::client::{ClientSettings, GitHubClient};
use stackorder::graph::model::{Graph, Stack};
use stackorder::ids::{RepoName, Sha};
use stackorder::run::model::Repo;
use stackorder::run::scene::{Changes, Effects, JobKind, NewJob, StoredGraph};
use stackorder::settings::Settings;
use stackorder::store::{self, Installation, Outcome, Store};
use tempfile::TempDir;

const REPOSITORY: &str = "acme/infra";
const NOON: i64 = 1_800_000_000_000;
/// Instead of a difference: GitHub's clock is the machine's.
const REAL_TIME: i64 = i64::MAX;
const PLAN_FILE: &str = ".github/workflows/stackorder-plan.yml";
const RUN_FILE: &str = ".github/workflows/stackorder-run.yml";
const PLAN: &str = include_str!("../../demo/repository/.github/workflows/stackorder-plan.yml");
const RUN: &str = include_str!("../../demo/repository/.github/workflows/stackorder-run.yml");
const PERMISSIONS: [(&str, &str); 7] = [
    ("contents", "read"),
    ("pull_requests", "write"),
    ("checks", "write"),
    ("actions", "write"),
    ("issues", "write"),
    ("members", "read"),
    ("deployments", "write"),
];
const EVENTS: [&str; 9] = [
    "pull_request",
    "pull_request_review",
    "issue_comment",
    "push",
    "check_run",
    "check_suite",
    "workflow_run",
    "workflow_job",
    "deployment_protection_rule",
];

/// A server's settings and database, the GitHub it works for, and somebody who takes its webhooks. All is well at first.
struct World {
    github: FakeGitHub,
    app: App,
    repo_id: i64,
    installation: i64,
    store: Arc<dyn Store>,
    variables: BTreeMap<String, String>,
    /// The server's clock, and by how much GitHub's is off it.
    clock: Arc<HandClock>,
    github_off_by: Arc<AtomicI64>,
    /// What the server answers to webhooks.
    answer: Arc<AtomicU16>,
    root: TempDir,
}

impl World {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let clock = Arc::new(HandClock::at(NOON));
        let (off, now) = (Arc::new(AtomicI64::new(0)), clock.clone());
        let github_off_by = off.clone();
        let github = FakeGitHub::start(Options {
            root: root.path().join("github"),
            port: 0,
            clock: Arc::new(move || match off.load(Ordering::SeqCst) {
                REAL_TIME => SystemClock::default().now(),
                off => now.now() + off,
            }),
            runner: RunnerOptions {
                root: root.path().join("runner"),
                tool_cache: root.path().join("tools"),
                path: Vec::new(),
                env: BTreeMap::new(),
                parallel_jobs: 1,
                timing: Default::default(),
            },
            journal: None,
        })
        .await
        .unwrap();
        let answer = Arc::new(AtomicU16::new(202));
        let base_url = receiver(answer.clone()).await;
        let app = github.create_app(AppSetup {
            slug: "stackorder".to_owned(),
            owner: "acme".to_owned(),
            permissions: owned(&PERMISSIONS),
            events: EVENTS.map(str::to_owned).to_vec(),
            webhook_url: Some(format!("{base_url}/webhooks/github")),
            webhook_secret: Some("secret".to_owned()),
            ..AppSetup::default()
        });
        let repo_id = github.create_repository(REPOSITORY, RepositorySetup::default()).unwrap();
        let file = |path: &'static str, text: &str| (path, Some(text.as_bytes().to_vec()));
        let files = [file(PLAN_FILE, PLAN), file(RUN_FILE, RUN)];
        github.commit(REPOSITORY, "main", "Begin", "alice", &files).unwrap();
        let installation = github.install_app(app.id, "acme", &[REPOSITORY]);
        require(&github, &[("stackorder/plan", Some(app.id)), ("stackorder/apply", Some(app.id))]);
        let reviewers = vec!["alice".to_owned()];
        github.set_environment(
            REPOSITORY,
            Environment { name: "production".into(), reviewers, ..Environment::default() },
        );
        github.set_environment(REPOSITORY, Environment { name: "staging".into(), ..Environment::default() });
        github.set_branch_policy(REPOSITORY, "staging", &["main"]);
        github.idle().await;

        let url = format!("sqlite://{}", root.path().join("server.db").display());
        let store = store::open(&url, 2).await.unwrap();
        let variables = [
            ("STACKORDER_BASE_URL", base_url),
            ("DATABASE_URL", url),
            ("GITHUB_APP_ID", app.id.to_string()),
            ("GITHUB_APP_PRIVATE_KEY", app.private_key_pem.clone()),
            ("GITHUB_WEBHOOK_SECRET", "secret".to_owned()),
            ("GITHUB_API_URL", github.api_url()),
        ];
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let world = Self { github, app, repo_id, installation, store, variables, clock, github_off_by, answer, root };
        world.knows_its_repository("environments:\n  prod: production\n  stage: staging\n").await;
        assert!(world.store.take_lease("scheduler", "host:1", NOON, DAY_MS).await.unwrap());
        world
    }

    async fn knows_its_repository(&self, configuration: &str) {
        let (account, account_type) = ("acme".to_owned(), "Organization".to_owned());
        let installation = Installation { id: self.installation, account, account_type, suspended: false };
        self.store.save_installation(&installation).await.unwrap();
        let repo = Repo {
            id: self.repo_id,
            installation_id: self.installation,
            full_name: RepoName::parse(REPOSITORY).unwrap(),
            default_branch: "main".into(),
            private: true,
            suspended: false,
            config: None,
            config_sha: String::new(),
            default_graph: None,
        };
        self.store.save_repo(&repo).await.unwrap();
        let stack = |key: &str| Stack { key: key.to_owned(), path: key.to_owned(), ..Stack::default() };
        let graph = StoredGraph {
            repo_id: self.repo_id,
            sha: Sha::parse(&"1".repeat(40)).unwrap(),
            content_hash: "c".into(),
            tree_hash: "t".into(),
            pr_number: 0,
            graph: Graph { stacks: vec![stack("prod/vpc"), stack("stage/vpc")], ..Graph::default() },
            created_at: NOON,
        };
        let effects = Effects { graph: Some(graph), ..Effects::default() };
        self.store.commit(Changes { repo_id: self.repo_id, effects, ..Changes::default() }).await.unwrap();
        self.configure(configuration).await;
    }

    async fn configure(&self, configuration: &str) {
        let config = parse_repo_config(ROOT_FILE, configuration.as_bytes()).unwrap();
        self.store.save_config(self.repo_id, Some(&config), "sha").await.unwrap();
    }

    fn set(&mut self, variable: &str, value: &str) {
        self.variables.insert(variable.to_owned(), value.to_owned());
    }

    async fn examined(&self) -> Vec<Finding> {
        let settings = Settings::from_environment(&self.variables).unwrap();
        let github = GitHubClient::new(ClientSettings {
            api_url: settings.github_api_url.clone(),
            app_id: settings.app.id,
            private_key_pem: settings.app.private_key_pem.clone(),
            clock: self.clock.clone(),
            user_agent: "stackorder/test".to_owned(),
            writes: settings.writes,
        })
        .unwrap();
        let found = findings(&examine(&settings, &github, &*self.clock, &[]).await);
        assert!(self.github.unexpected_requests().is_empty(), "{:?}", self.github.unexpected_requests());
        for finding in &found {
            assert_eq!(finding.severity == Severity::Ok, finding.fix.is_empty(), "{finding:?}");
        }
        found
    }

    /// What is not well, each as `severity check where: what`.
    async fn wrong(&self) -> Vec<String> {
        let found = self.examined().await;
        let wrong = found.iter().filter(|finding| finding.severity != Severity::Ok);
        wrong.map(|one| format!("{} {} {}: {}", one.severity.as_str(), one.check(), one.place, one.what)).collect()
    }

    fn commit(&self, path: &str, text: Option<&str>) {
        let files = [(path, text.map(|text| text.as_bytes().to_vec()))];
        self.github.commit(REPOSITORY, "main", "Change", "alice", &files).unwrap();
    }

    fn doctor(&self, flags: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stackorder"));
        command.args(["admin", "doctor"]).args(flags).env_clear().envs(&self.variables).output().unwrap()
    }
}

fn owned(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, level)| ((*name).to_owned(), (*level).to_owned())).collect()
}

fn require(github: &FakeGitHub, checks: &[(&str, Option<i64>)]) {
    let required_checks =
        checks.iter().map(|(name, app_id)| RequiredCheck { context: (*name).to_owned(), app_id: *app_id }).collect();
    github.protect_branch(REPOSITORY, "main", Protection { required_checks, ..Protection::default() });
}

/// Takes webhooks, and answers them as told. Its address.
async fn receiver(answer: Arc<AtomicU16>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(move || {
        let status = StatusCode::from_u16(answer.load(Ordering::SeqCst)).unwrap();
        async move { status }
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_wrong_where_all_is_well() {
    let world = World::new().await;
    assert_eq!(world.wrong().await, Vec::<String>::new());
    let checks: std::collections::BTreeSet<&str> = world.examined().await.iter().map(Finding::check).collect();
    let expected = [
        "address",
        "app",
        "clock",
        "database",
        "dead-letters",
        "deliveries",
        "environments",
        "events",
        "installations",
        "leader",
        "permissions",
        "required-checks",
        "webhook",
        "workflows",
    ];
    assert_eq!(checks.into_iter().collect::<Vec<_>>(), expected, "everything was looked at");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_that_is_missing_is_named_with_what_it_is_for() {
    let world = World::new().await;
    let permissions: Vec<(&str, &str)> =
        PERMISSIONS.into_iter().filter(|(name, _)| !["checks", "members", "deployments"].contains(name)).collect();
    world.github.ask_for(world.app.id, &permissions, &EVENTS);
    assert_eq!(
        world.wrong().await,
        ["problem permissions server: the App lacks checks: write (else no check can be written)"],
        "nobody needs members yet, and an Enterprise Server has no protection rules"
    );
    world.configure("apply:\n  allowed_teams: [platform]\nenvironments:\n  prod: production\n  stage: staging\n").await;
    let wrong = world.wrong().await;
    assert!(wrong[0].contains("checks: write") && wrong[0].contains("members: read"), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_app_must_never_have_is_a_warning() {
    let world = World::new().await;
    let permissions: Vec<(&str, &str)> = PERMISSIONS.into_iter().chain([("secrets", "read")]).collect();
    world.github.ask_for(world.app.id, &permissions, &EVENTS);
    assert_eq!(world.wrong().await, ["warning permissions server: the App may use secrets, which it never needs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_not_subscribed_are_named() {
    let world = World::new().await;
    world.github.ask_for(world.app.id, &PERMISSIONS, &EVENTS[..7]);
    assert_eq!(world.wrong().await, ["problem events server: the App is not told of workflow_job"]);
    let without_review: Vec<&str> = EVENTS.into_iter().filter(|event| *event != "pull_request_review").collect();
    world.github.ask_for(world.app.id, &PERMISSIONS, &without_review);
    assert_eq!(world.wrong().await, ["warning events server: the App is not told of pull_request_review"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_has_not_accepted_new_permissions_is_a_problem() {
    let world = World::new().await;
    let few = [("contents", "read"), ("pull_requests", "write"), ("actions", "write"), ("issues", "write")];
    world.github.ask_for(world.app.id, &few, &EVENTS[..1]);
    world.github.create_repository("slow/infra", RepositorySetup::default()).unwrap();
    world.github.install_app(world.app.id, "slow", &["slow/infra"]);
    world.github.ask_for(world.app.id, &PERMISSIONS, &EVENTS);
    world.github.idle().await;
    assert_eq!(
        world.wrong().await,
        ["problem installations slow: the account has not granted checks: write (else no check can be written); \
          events: issue_comment, push, check_run, workflow_run, workflow_job"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_installation_and_none_at_all_are_warnings() {
    let world = World::new().await;
    world.github.suspend_installation(world.installation, true);
    let wrong = world.wrong().await;
    assert!(
        wrong.iter().any(|one| one.starts_with("warning installations acme: the installation is suspended")),
        "{wrong:?}"
    );
    world.github.uninstall_app(world.installation);
    let wrong = world.wrong().await;
    assert!(wrong.contains(&"warning installations server: the App is installed nowhere".to_owned()), "{wrong:?}");
    assert!(
        wrong.iter().any(|one| one.starts_with("problem workflows acme/infra: ")),
        "its files cannot be read: {wrong:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_github_does_not_know_is_a_problem() {
    let mut world = World::new().await;
    world.set("GITHUB_APP_ID", "999999");
    let wrong = world.wrong().await;
    let app = wrong.iter().find(|one| one.starts_with("problem app server: ")).unwrap();
    assert!(app.ends_with("GitHub does not know the App by its key: GitHub has no App of this key"), "{app}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_off_is_told_from_githubs_own() {
    let world = World::new().await;
    world.github_off_by.store(-10_000, Ordering::SeqCst);
    assert_eq!(world.wrong().await, ["warning clock server: the clock is 9 s ahead of GitHub's"]);
    world.github_off_by.store(15 * MINUTE_MS, Ordering::SeqCst);
    let wrong = world.wrong().await;
    assert_eq!(wrong[0], "problem clock server: the clock is 15 min behind GitHub's");
    assert!(wrong[1].starts_with("problem app server: "), "which is why GitHub refuses the key: {wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_public_address_and_the_audience_are_compared() {
    let mut world = World::new().await;
    world.set("STACKORDER_OIDC_AUDIENCE", "https://other.test");
    let wrong = world.wrong().await;
    assert_eq!(
        wrong,
        [
            "warning address server: tokens of jobs must be made out to \"https://other.test\", which is not the public address"
        ]
    );
    world.set("STACKORDER_BASE_URL", "http://stackorder.test");
    world.set("STACKORDER_OIDC_AUDIENCE", "http://stackorder.test/");
    let wrong = world.wrong().await;
    assert_eq!(wrong[0], "warning address server: the public address http://stackorder.test is not encrypted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_goes_elsewhere_is_a_problem() {
    let world = World::new().await;
    world.github.set_webhook_url(world.app.id, "https://old.test/webhooks/github");
    let wrong = world.wrong().await;
    assert_eq!(wrong.len(), 1);
    assert!(
        wrong[0].starts_with("problem webhook server: GitHub sends webhooks to \"https://old.test/webhooks/github\"")
    );
    world.github.set_webhook_url(world.app.id, "");
    let wrong = world.wrong().await;
    assert_eq!(
        wrong,
        ["problem webhook server: the App has no webhook address, so nothing that happens on GitHub arrives"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_that_failed_are_told_and_those_that_arrived_later_are_not() {
    let world = World::new().await;
    world.clock.advance(MINUTE_MS);
    world.answer.store(500, Ordering::SeqCst);
    world.commit("README.md", Some("Stacks.\n"));
    world.github.idle().await;
    let wrong = world.wrong().await;
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].starts_with("problem deliveries server: ") && wrong[0].contains("push at "), "{wrong:?}");
    assert!(wrong[0].contains("(500 Internal Server Error)"), "{wrong:?}");

    world.clock.advance(MINUTE_MS);
    world.answer.store(202, Ordering::SeqCst);
    world.commit("README.md", Some("More stacks.\n"));
    world.github.idle().await;
    assert!(world.wrong().await[0].starts_with("warning deliveries server: "), "the newest one arrived");

    world.clock.advance(MINUTE_MS);
    for failed in world.github.failed_deliveries() {
        world.github.redeliver(failed).unwrap();
    }
    world.github.idle().await;
    assert_eq!(world.wrong().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn workflow_files_that_are_missing_or_wrong_are_problems() {
    let world = World::new().await;
    world.commit(PLAN_FILE, None);
    let run = RUN.replace("run-name: stackorder ${{ inputs.mode }}", "run-name: ${{ inputs.mode }}");
    let run = run.replace("      sha:\n        type: string\n        required: false\n", "");
    let run = run.replace("jobs:\n", "concurrency: apply\njobs:\n").replace("      id-token: write\n", "");
    world.commit(RUN_FILE, Some(&run));
    let wrong = world.wrong().await;
    let heads = [
        "problem workflows acme/infra: main has no .github/workflows/stackorder-plan.yml",
        "problem workflows acme/infra: .github/workflows/stackorder-run.yml: its run-name is",
        "problem workflows acme/infra: .github/workflows/stackorder-run.yml: it lacks the inputs sha",
        "warning workflows acme/infra: .github/workflows/stackorder-run.yml: it has a concurrency group",
        "problem workflows acme/infra: .github/workflows/stackorder-run.yml: a job lacks the permission id-token: write",
    ];
    assert_eq!(wrong.len(), heads.len(), "{wrong:#?}");
    for (one, head) in wrong.iter().zip(heads) {
        assert!(one.starts_with(head), "{one:?} does not start with {head:?}");
    }
    world.commit(PLAN_FILE, Some(&PLAN.replace("[opened, synchronize, reopened]", "[opened]")));
    world.commit(RUN_FILE, Some("on: [push\n"));
    let wrong = world.wrong().await;
    assert!(wrong[0].ends_with("stackorder-plan.yml: it does not start when a pull request is synchronize, reopened"));
    assert!(wrong[1].contains("stackorder-run.yml is no YAML"), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn required_checks_count_only_from_the_app() {
    let world = World::new().await;
    require(&world.github, &[("stackorder/plan", None)]);
    assert_eq!(
        world.wrong().await,
        [
            "warning required-checks acme/infra: main requires stackorder/plan from any source, so any job with checks: \
             write can post it",
            "warning required-checks acme/infra: main does not require stackorder/apply, so a pull request merges without it",
        ]
    );
    require(&world.github, &[("stackorder/plan", Some(1)), ("stackorder/apply", Some(world.app.id))]);
    let wrong = world.wrong().await;
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].starts_with("problem required-checks acme/infra: main requires stackorder/plan from App 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_merge_applies_no_apply_check_may_be_required() {
    let world = World::new().await;
    world.configure("apply:\n  mode: on_merge\nenvironments:\n  prod: production\n  stage: staging\n").await;
    let wrong = world.wrong().await;
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].starts_with("problem required-checks acme/infra: main requires stackorder/apply"), "{wrong:?}");
    require(&world.github, &[("stackorder/plan", Some(world.app.id))]);
    assert_eq!(world.wrong().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn environments_without_protection_and_a_default_with_reviewers_are_told() {
    let world = World::new().await;
    world.configure("environments:\n  prod: live\n  stage: staging\n").await;
    world.github.set_branch_policy(REPOSITORY, "staging", &[]);
    let reviewers = vec!["alice".to_owned()];
    let default = Environment { name: "default".into(), reviewers, ..Environment::default() };
    world.github.set_environment(REPOSITORY, default);
    assert_eq!(
        world.wrong().await,
        [
            "problem environments acme/infra: environment default has reviewers, so every plan and drift check waits for a \
             person",
            "warning environments acme/infra: environment live, under which prod/vpc applies, does not exist, and GitHub \
             makes it unprotected",
            "warning environments acme/infra: environment staging, under which stage/vpc applies, has neither reviewers nor \
             a branch policy",
        ]
    );
    world.configure("environments:\n  stage: production\n").await;
    let wrong = world.wrong().await;
    assert!(
        wrong[1].starts_with("warning environments acme/infra: prod/vpc applies under environment default"),
        "{wrong:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_gone_and_dead_letters_are_told() {
    let world = World::new().await;
    world.store.add_job(&NewJob::now(JobKind::Prune, serde_json::json!({}), 0)).await.unwrap();
    let job = world.store.claim_job("w", NOON, MINUTE_MS).await.unwrap().unwrap();
    world.store.finish_job(&job, "w", &Outcome::Dead { error: "x".into() }, NOON).await.unwrap();
    world.clock.advance(DAY_MS);
    assert_eq!(
        world.wrong().await,
        [
            "problem leader server: no server leads: the last leader was not seen after 2027-01-16T08:00:00Z",
            "warning dead-letters server: 1 webhook or job was given up, the newest (prune, job:1) at 2027-01-15T08:00:00Z",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_or_not_migrated_is_a_problem_and_stays_as_it_is() {
    let mut world = World::new().await;
    let path = world.root.path().join("other.db");
    let url = format!("sqlite://{}", path.display());
    world.set("DATABASE_URL", &url);
    let wrong = world.wrong().await;
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].starts_with("problem database server: the database cannot be used: "), "{wrong:?}");
    assert!(!path.exists(), "looking makes none");
    std::fs::write(&path, "").unwrap();
    let wrong = world.wrong().await;
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].starts_with("problem database server: the schema lacks "), "{wrong:?}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "looking does not migrate");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_github_that_does_not_answer_is_a_problem_and_no_crash() {
    let world = World::new().await;
    let of_repository = |tail: &str| format!("/repos/{REPOSITORY}/{tail}");
    for path in ["/app/hook/deliveries".to_owned(), of_repository("rules/branches/"), of_repository("environments")] {
        world.github.faults().fail_rest("GET", &path, 404, 9, false);
    }
    let wrong = world.wrong().await;
    let checks: Vec<&str> = wrong.iter().map(|one| one.split(' ').nth(1).unwrap()).collect();
    assert_eq!(checks, ["deliveries", "required-checks", "environments"], "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_leaves_with_what_it_found() {
    let mut world = World::new().await;
    world.github_off_by.store(REAL_TIME, Ordering::SeqCst);
    let now = SystemClock::default().now();
    assert!(world.store.take_lease("scheduler", "host:1", now, DAY_MS).await.unwrap());
    require(&world.github, &[("stackorder/plan", None), ("stackorder/apply", Some(world.app.id))]);

    let text = world.doctor(&[]);
    let shown = String::from_utf8_lossy(&text.stdout);
    assert_eq!(text.status.code(), Some(1), "{shown}");
    assert!(shown.contains("warning  required-checks") && shown.contains("0 problems, 1 warning, "), "{shown}");
    assert!(shown.contains("/docs/troubleshooting.md#doctor-required-checks"), "{shown}");
    assert!(!shown.contains('\x1b'), "no colours in a pipe");
    assert_eq!(world.doctor(&["--warnings-ok"]).status.code(), Some(0));
    assert_eq!(world.doctor(&["--repo", "nobody"]).status.code(), Some(1));
    assert_eq!(world.doctor(&["--nonsense"]).status.code(), Some(2), "a usage error of a server command");
    let other = world.doctor(&["--repo", "acme/other"]);
    assert_eq!(other.status.code(), Some(0), "{}", String::from_utf8_lossy(&other.stdout));

    world.set("STACKORDER_BASE_URL", "https://elsewhere.test");
    let json = world.doctor(&["--format", "json", "--warnings-ok"]);
    assert_eq!(json.status.code(), Some(1), "a webhook that goes elsewhere is a problem");
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&json.stdout).unwrap();
    let webhook = rows.iter().find(|row| row["check"] == "webhook").unwrap();
    assert_eq!((&webhook["severity"], &webhook["where"]), (&"problem".into(), &"server".into()));
    assert!(webhook["fix"].as_str().unwrap().contains("https://elsewhere.test/webhooks/github"));
}
