//! Starting the fake: one address for API, pages, git and OIDC.

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;

use crate::actions::engine::Engine;
use crate::actions::host::{Host, RunnerOptions};
use crate::git::GitStore;
use crate::git_http::{self, GitRequest};
use crate::hub::Hub;
use crate::journal::Journal;
use crate::rest::{self, RawRequest};
use crate::state::Site;
use crate::web;

/// Milliseconds since the epoch.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

#[derive(Clone)]
pub struct Options {
    /// Bare repositories go below `git/`; created if missing.
    pub root: PathBuf,
    /// 0 picks a free one.
    pub port: u16,
    pub clock: Clock,
    pub runner: RunnerOptions,
    /// One JSON object per line for every call, webhook, job and push.
    pub journal: Option<PathBuf>,
}

/// The largest push that is taken.
const GIT_BODY_BYTES_MAX: usize = 512 * 1024 * 1024;
/// The largest body of an API call or form.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A running fake GitHub. Dropping it stops serving and ends its jobs.
pub struct FakeGitHub {
    hub: Arc<Hub>,
    server: tokio::task::JoinHandle<()>,
}

impl FakeGitHub {
    /// Binds 127.0.0.1 and serves everything. Must be called inside a multi-threaded Tokio runtime.
    pub async fn start(options: Options) -> anyhow::Result<FakeGitHub> {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))
            .await
            .with_context(|| format!("cannot listen on port {}", options.port))?;
        let web = format!("http://{}", listener.local_addr()?);
        let git_root = options.root.join("git");
        std::fs::create_dir_all(&git_root).with_context(|| format!("cannot create {}", git_root.display()))?;
        let journal = Journal::open(options.journal.as_deref())?;
        let hub = Arc::new(Hub::new(Site::new(web, GitStore::new(git_root), options.clock), journal)?);
        let host: Arc<dyn Host> = hub.clone();
        hub.set_engine(Engine::new(host, options.runner));
        let app = Router::new().fallback(dispatch).with_state(hub.clone());
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!("the fake GitHub stopped serving: {error}");
            }
        });
        Ok(FakeGitHub { hub, server })
    }

    /// The object behind it, to be shared with tasks.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }
}

impl Deref for FakeGitHub {
    type Target = Arc<Hub>;

    fn deref(&self) -> &Arc<Hub> {
        &self.hub
    }
}

impl Drop for FakeGitHub {
    fn drop(&mut self) {
        self.server.abort();
        self.hub.engine().shutdown();
    }
}

async fn dispatch(State(hub): State<Arc<Hub>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let method = parts.method.as_str().to_owned();
    let git = git_http::split(&path);
    let limit = if git.is_some() { GIT_BODY_BYTES_MAX } else { BODY_BYTES_MAX };
    let Ok(body) = to_bytes(body, limit).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let body = body.to_vec();
    let headers = parts.headers;
    if let Some((repo, service_path)) = git {
        return git_http::serve(hub, GitRequest { repo, service_path, method, query, headers, body }).await;
    }
    let api = path.strip_prefix("/api/v3").filter(|rest| rest.is_empty() || rest.starts_with('/')).map(str::to_owned);
    let answered = tokio::task::spawn_blocking(move || match api {
        Some(path) => rest::serve(&hub, RawRequest { method, path, query, headers, body }),
        None => web::serve(&hub, RawRequest { method, path, query, headers, body }),
    });
    match answered.await {
        Ok(response) => response,
        Err(error) => {
            tracing::error!("a request to the fake GitHub failed: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
