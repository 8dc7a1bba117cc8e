//! The whole setup on one machine: fake GitHub, state store and job executor in this process, the server as its child.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use fake_github::actions::host::RunnerOptions;
use fake_github::actions::model::Environment;
use fake_github::{App, AppSetup, FakeGitHub, Hub, Options, Protection, RepositorySetup, RequiredCheck};
use tokio::sync::Mutex;

use super::balancer::Balancer;
use super::control::ControlDesk;
use super::doubler::Doubler;
use super::ports::free_port;
use super::s3::{S3Options, S3Store};
use super::sample;
use super::server_process::ServerProcess;
use super::sts::TrustPolicy;
use super::tool::DemoTool;
use crate::clock::{Clock as _, Millis, SystemClock};
use crate::ids::hex;

pub const REPOSITORY: &str = "acme/infra";
pub const STATE_BUCKET: &str = "stackorder-example-state";
const ACTIONS_REPOSITORY: &str = "stackorder/actions";
const WEBHOOK_SECRET: &str = "the demo's webhook secret";
/// Jobs at the same time: a laptop's worth.
const PARALLEL_JOBS: usize = 4;

/// What a laptop is started with.
pub struct LaptopOptions {
    /// Every webhook is delivered twice, and every report of a job reaches the server twice.
    pub twice: bool,
    /// Of the servers; otherwise a file among the demo's.
    pub database: Option<String>,
    /// At least one. More need a database that they can share.
    pub servers: usize,
    /// Kept when given; otherwise a directory of the demo's own, removed at the end.
    pub dir: Option<PathBuf>,
    pub tool: DemoTool,
    /// 0 picks a free one.
    pub port: u16,
    pub github_port: u16,
    /// How far ahead of the machine's clock everything starts.
    pub clock_ahead: Millis,
}

/// Everything that runs. Dropping it ends all of it.
pub struct Laptop {
    pub github: FakeGitHub,
    pub s3: S3Store,
    pub clock: Arc<SystemClock>,
    pub tool: DemoTool,
    pub app: App,
    pub installation_id: i64,
    /// Of `stackorder admin keys create`: reads, applies and unlocks.
    pub api_key: String,
    pub server_url: String,
    desk: Arc<ControlDesk>,
    /// All of one database.
    servers: Vec<Arc<Mutex<ServerProcess>>>,
    dir: DemoDir,
    program: PathBuf,
}

impl Laptop {
    pub async fn start(options: LaptopOptions) -> anyhow::Result<Self> {
        need_git()?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let github_port = free_port(options.github_port).context("the port for the fake GitHub")?;
        let server_port = free_port(options.port).context("the port for Stackorder")?;
        // The first thing that is made, after everything that could make it useless was asked for.
        let dir = DemoDir::make(options.dir)?;
        let clock = Arc::new(SystemClock::default());
        clock.set_offset(options.clock_ahead);
        let server_url = format!("http://127.0.0.1:{server_port}");
        let issuer = format!("http://127.0.0.1:{github_port}/_services/token");

        let now = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let s3 = S3Store::start(S3Options {
            root: dir.path().join("s3"),
            port: 0,
            jwks_url: Some(format!("{issuer}/.well-known/jwks")),
            issuer: Some(issuer),
            roles: roles(),
            now: now.clone(),
        })?;
        s3.create_bucket(STATE_BUCKET)?;

        let mut runner_environment = s3.environment();
        // Jobs reach the server under its own name, also when something stands in between.
        runner_environment.insert("STACKORDER_OIDC_AUDIENCE".to_owned(), server_url.clone());
        let bin = dir.path().join("bin");
        let tool_cache = dir.path().join("tools");
        std::fs::create_dir_all(&bin)?;
        options.tool.install(&bin, &program)?;
        cache_binary(&tool_cache, &program)?;
        let github = FakeGitHub::start(Options {
            root: dir.path().join("github"),
            port: github_port,
            clock: now,
            runner: RunnerOptions {
                root: dir.path().join("runner"),
                tool_cache,
                path: vec![bin],
                env: runner_environment,
                parallel_jobs: PARALLEL_JOBS,
                timing: Default::default(),
            },
            journal: Some(dir.path().join("github.ndjson")),
        })
        .await?;

        let app = github.create_app(AppSetup {
            slug: "stackorder".to_owned(),
            owner: "acme".to_owned(),
            permissions: app_permissions(),
            events: app_events(),
            webhook_url: Some(format!("{server_url}/webhooks/github")),
            webhook_secret: Some(WEBHOOK_SECRET.to_owned()),
            callback_urls: Vec::new(),
        });
        let database_url =
            options.database.unwrap_or_else(|| format!("sqlite://{}", dir.path().join("server.db").display()));
        let ports = ports_of(options.servers, server_port).await?;
        let desk = Arc::new(ControlDesk::open(options.clock_ahead).await?);
        let mut laptop = Self {
            github,
            s3,
            clock,
            tool: options.tool,
            app,
            installation_id: 0,
            api_key: String::new(),
            server_url,
            desk: desk.clone(),
            servers: Vec::new(),
            dir,
            program,
        };
        for port in ports {
            let environment = server_environment(&laptop.github, &laptop.app, &laptop.server_url, port, &database_url);
            let server = ServerProcess::new(laptop.program.clone(), environment, laptop.dir.path(), desk.clone());
            laptop.servers.push(Arc::new(Mutex::new(server)));
        }
        laptop.start_server().await?;
        laptop.api_key = laptop.create_key().await?;
        let mut jobs_see = laptop.server_url.clone();
        if options.twice {
            laptop.hub().faults().double_webhooks(true);
            jobs_see = Doubler::start(&laptop.server_url, laptop.hub().clone()).await?;
        }
        laptop.populate(&jobs_see)?;
        Ok(laptop)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn hub(&self) -> &Arc<Hub> {
        self.github.hub()
    }

    pub fn bin(&self) -> PathBuf {
        self.dir.path().join("bin")
    }

    /// The program that is running: the runner's CLI too.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Starts each server's process that is not up, and waits until it answers.
    pub async fn start_server(&self) -> anyhow::Result<()> {
        for server in &self.servers {
            server.lock().await.start().await?;
        }
        Ok(())
    }

    /// `kill -9`, as a machine that dies with all that serves.
    pub async fn kill_server(&self) -> anyhow::Result<()> {
        for server in &self.servers {
            server.lock().await.kill().await?;
        }
        Ok(())
    }

    /// A server's process, for whoever kills it at odd moments.
    pub fn server(&self) -> Arc<Mutex<ServerProcess>> {
        self.servers[0].clone()
    }

    /// Moves the clock of everything: fake, store and server.
    pub fn move_clock(&self, by: Millis) {
        let offset = self.clock.offset() + by;
        self.clock.set_offset(offset);
        self.desk.set_offset(offset);
        self.hub().engine().clock_moved();
    }

    /// A key made the way an operator makes one.
    async fn create_key(&self) -> anyhow::Result<String> {
        let args = ["admin", "keys", "create", "--name", "demo", "--format", "json"];
        let scopes = ["--scope", "read", "--scope", "apply", "--scope", "unlock"];
        let printed = self.servers[0].lock().await.admin(&[&args[..], &scopes[..]].concat()).await?;
        let json: serde_json::Value = serde_json::from_slice(&printed).context("the new key is not JSON")?;
        Ok(json["key"].as_str().context("no key in the answer")?.to_owned())
    }

    /// People, repositories, protection, and the App's installation.
    fn populate(&mut self, server_url: &str) -> anyhow::Result<()> {
        let hub = self.github.hub().clone();
        for login in ["alice", "bob", "carol", "rita"] {
            hub.create_user(login);
        }
        hub.create_organization("acme");
        hub.create_organization("stackorder");
        hub.create_repository(
            ACTIONS_REPOSITORY,
            RepositorySetup { default_branch: "main".to_owned(), ..Default::default() },
        )?;
        let actions = files_of(sample::actions_files(), &self.tool);
        let sha = hub.commit(ACTIONS_REPOSITORY, "main", "Actions of this version", "alice", &actions)?;
        hub.tag(ACTIONS_REPOSITORY, "v1", &sha, None, "alice")?;

        let collaborators = [("alice", "write"), ("bob", "write"), ("carol", "write"), ("rita", "read")];
        hub.create_repository(
            REPOSITORY,
            RepositorySetup {
                private: true,
                collaborators: collaborators
                    .iter()
                    .map(|(login, role)| ((*login).to_owned(), (*role).to_owned()))
                    .collect(),
                default_branch: "main".to_owned(),
                ..Default::default()
            },
        )?;
        hub.set_variable(REPOSITORY, None, "STACKORDER_SERVER_URL", server_url);
        hub.set_variable(REPOSITORY, None, "STACKORDER_VERSION", env!("CARGO_PKG_VERSION"));
        hub.set_environment(
            REPOSITORY,
            Environment { name: "production".to_owned(), reviewers: vec!["bob".to_owned()], ..Default::default() },
        );
        hub.set_environment(REPOSITORY, Environment { name: "staging".to_owned(), ..Default::default() });
        let files = files_of(sample::repository_files(), &self.tool);
        hub.commit(REPOSITORY, "main", "The stacks as they are", "alice", &files)?;
        let app = Some(self.app.id);
        let required = |context: &str| RequiredCheck { context: context.to_owned(), app_id: app };
        hub.protect_branch(
            REPOSITORY,
            "main",
            Protection {
                required_checks: vec![required("stackorder/plan"), required("stackorder/apply")],
                ..Default::default()
            },
        );
        self.installation_id = hub.install_app(self.app.id, "acme", &[REPOSITORY]);
        Ok(())
    }
}

/// The directory that holds everything the demo writes.
struct DemoDir {
    path: PathBuf,
    /// Made by the demo for itself, so removed by it.
    own: bool,
}

impl DemoDir {
    fn make(given: Option<PathBuf>) -> anyhow::Result<Self> {
        match given {
            Some(path) => {
                let is_empty = match std::fs::read_dir(&path) {
                    Ok(mut entries) => entries.next().is_none(),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
                    Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
                };
                if !is_empty {
                    bail!("{} is not empty; name an empty or new directory", path.display());
                }
                std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
                let path = path.canonicalize()?;
                Ok(Self { path, own: false })
            }
            None => {
                let name = format!("stackorder-demo-{}", hex(&rand::random::<[u8; 8]>()));
                let path = std::env::temp_dir().canonicalize()?.join(name);
                std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
                Ok(Self { path, own: true })
            }
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DemoDir {
    fn drop(&mut self) {
        if self.own
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "the demo's directory could not be removed");
        }
    }
}

fn need_git() -> anyhow::Result<()> {
    match std::process::Command::new("git").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) | Err(_) => bail!("the demo needs git, and there is none on PATH"),
    }
}

/// The ports of the servers: the one that everybody knows, or free ones behind it.
async fn ports_of(servers: usize, known: u16) -> anyhow::Result<Vec<u16>> {
    if servers == 1 {
        return Ok(vec![known]);
    }
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", known)).await?;
    let ports = (0..servers).map(|_| free_port(0)).collect::<anyhow::Result<Vec<u16>>>()?;
    Balancer::open(listener, ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect());
    Ok(ports)
}

/// The runner's tool cache already holds this program, so `setup` downloads nothing.
fn cache_binary(tool_cache: &Path, program: &Path) -> anyhow::Result<()> {
    let arch = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "x64",
    };
    let version = tool_cache.join("stackorder").join(env!("CARGO_PKG_VERSION"));
    let directory = version.join(arch);
    std::fs::create_dir_all(&directory)?;
    std::os::unix::fs::symlink(program, directory.join("stackorder"))?;
    std::fs::write(version.join(format!("{arch}.complete")), "")?;
    Ok(())
}

/// The sample for the tool that was found. Files that start with `#!` are committed executable.
fn files_of(files: &'static [sample::File], tool: &DemoTool) -> Vec<(&'static str, Option<Vec<u8>>)> {
    files
        .iter()
        .map(|(path, bytes, _)| {
            let content = if *path == "stackorder.yaml" {
                let named = format!("tool: {}", tool.configured_name());
                String::from_utf8_lossy(bytes).replace("tool: terraform", &named).into_bytes()
            } else {
                bytes.to_vec()
            };
            (*path, Some(content))
        })
        .collect()
}

/// Roles of the sample's wrapper workflows, each trusting exactly the jobs it is for.
fn roles() -> BTreeMap<String, TrustPolicy> {
    let arn = |name: &str| format!("arn:aws:iam::111122223333:role/{name}");
    let environment = |name: &str| format!("repo:{REPOSITORY}:environment:{name}");
    let mut roles = BTreeMap::from([(
        arn("plan"),
        TrustPolicy::for_subjects([format!("repo:{REPOSITORY}:pull_request"), environment("default")]),
    )]);
    for name in ["production", "staging", "shared", "default"] {
        roles.insert(arn(&format!("apply-{name}")), TrustPolicy::for_subjects([environment(name)]));
    }
    roles
}

fn server_environment(
    github: &FakeGitHub,
    app: &App,
    server_url: &str,
    port: u16,
    database_url: &str,
) -> BTreeMap<String, String> {
    let pairs = [
        ("STACKORDER_BASE_URL", server_url.to_owned()),
        ("STACKORDER_LISTEN", format!("127.0.0.1:{port}")),
        ("DATABASE_URL", database_url.to_owned()),
        ("GITHUB_APP_ID", app.id.to_string()),
        ("GITHUB_APP_PRIVATE_KEY", app.private_key_pem.clone()),
        ("GITHUB_WEBHOOK_SECRET", WEBHOOK_SECRET.to_owned()),
        ("GITHUB_API_URL", github.api_url()),
        ("GITHUB_WEB_URL", github.base_url().to_owned()),
        ("GITHUB_OIDC_ISSUER", github.oidc_issuer()),
        // This GitHub has no limits, and more happens here in a minute than elsewhere in an hour.
        ("GITHUB_WRITES_PER_MINUTE", "none".to_owned()),
        ("GITHUB_WRITES_PER_HOUR", "none".to_owned()),
        ("STACKORDER_LOG_FORMAT", "text".to_owned()),
        ("STACKORDER_OPEN_PAGES", "true".to_owned()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Spec 24 §1.
fn app_permissions() -> BTreeMap<String, String> {
    let pairs = [
        ("metadata", "read"),
        ("contents", "read"),
        ("pull_requests", "write"),
        ("checks", "write"),
        ("actions", "write"),
        ("issues", "write"),
        ("members", "read"),
        ("deployments", "write"),
    ];
    pairs.iter().map(|(name, level)| ((*name).to_owned(), (*level).to_owned())).collect()
}

/// Spec 24 §2.
fn app_events() -> Vec<String> {
    let events = [
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
    events.iter().map(|event| (*event).to_owned()).collect()
}
