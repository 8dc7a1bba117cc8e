//! Clone, fetch and push over HTTP: `git http-backend` behind our own authentication.

use std::process::Stdio;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode, header};
use tokio::io::AsyncWriteExt;

use crate::auth::{self, Caller};
use crate::git::{ISOLATION, Ref};
use crate::hub::Hub;
use crate::state::roles::Role;

/// `acme/infra.git/info/refs` → `acme/infra` and `/info/refs`.
pub fn split(path: &str) -> Option<(String, String)> {
    let path = path.trim_start_matches('/');
    let mut parts = path.splitn(3, '/');
    let (owner, name, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let service = matches!(rest, "info/refs" | "git-upload-pack" | "git-receive-pack" | "HEAD");
    // As GitHub: the suffix may be left out.
    let name = name.strip_suffix(".git").unwrap_or(name);
    service.then(|| (format!("{owner}/{name}"), format!("/{rest}")))
}

pub struct GitRequest {
    pub repo: String,
    pub service_path: String,
    pub method: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Answers one request of the smart protocol, and announces the refs a push moved.
pub async fn serve(hub: Arc<Hub>, request: GitRequest) -> Response<Body> {
    let push = request.service_path == "/git-receive-pack" || request.query.contains("service=git-receive-pack");
    let caller = auth::from_headers(&hub, &request.headers).unwrap_or(Caller::Anonymous);
    let repo = match admit(&hub, &caller, &request.repo, push) {
        Ok(repo) => repo,
        Err(denied) => return denied.answer(),
    };
    if request.service_path != "/git-receive-pack" {
        return backend(&hub, &repo, &request).await;
    }
    // One push at a time, so that the refs before and after belong to this one.
    let _turn = hub.pushes.lock().await;
    let before = pushed_refs(&hub, &repo);
    let answer = backend(&hub, &repo, &request).await;
    hub.site().git.refs_moved(&repo);
    let after = pushed_refs(&hub, &repo);
    let pusher = hub.lock().login_of(&caller);
    let told = hub.clone();
    let announced = tokio::task::spawn_blocking(move || {
        told.announce_refs(&repo, &before, &after, &pusher);
    });
    if announced.await.is_err() {
        tracing::error!("announcing a push failed");
    }
    answer
}

fn pushed_refs(hub: &Hub, repo: &str) -> Vec<Ref> {
    let mut refs = hub.site().git.refs(repo, "refs/heads");
    refs.extend(hub.site().git.refs(repo, "refs/tags"));
    refs
}

/// Why git is turned away.
enum Denied {
    /// git asks for credentials only after a 401.
    SignIn,
    Hidden,
    ReadOnly,
}

impl Denied {
    fn answer(self) -> Response<Body> {
        match self {
            Denied::Hidden => plain(StatusCode::NOT_FOUND, "Repository not found."),
            Denied::ReadOnly => plain(StatusCode::FORBIDDEN, "Permission to the repository denied."),
            Denied::SignIn => {
                let mut answer = plain(StatusCode::UNAUTHORIZED, "Authentication required");
                let challenge = header::HeaderValue::from_static("Basic realm=\"GitHub\"");
                answer.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                answer
            }
        }
    }
}

fn admit(hub: &Hub, caller: &Caller, repo: &str, push: bool) -> Result<String, Denied> {
    let anonymous = matches!(caller, Caller::Anonymous);
    let state = hub.lock();
    let found = state.repository(repo).filter(|found| state.may(caller, &found.full_name, "contents", Role::Read));
    let found = found.ok_or(if anonymous { Denied::SignIn } else { Denied::Hidden })?;
    if push && !state.may(caller, &found.full_name, "contents", Role::Write) {
        return Err(if anonymous { Denied::SignIn } else { Denied::ReadOnly });
    }
    Ok(found.full_name.clone())
}

async fn backend(hub: &Hub, repo: &str, request: &GitRequest) -> Response<Body> {
    match run_backend(hub, repo, request).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!("git http-backend for {repo}: {error:#}");
            plain(StatusCode::INTERNAL_SERVER_ERROR, "git http-backend failed")
        }
    }
}

async fn run_backend(hub: &Hub, repo: &str, request: &GitRequest) -> anyhow::Result<Response<Body>> {
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut command = tokio::process::Command::new("git");
    command
        .arg("http-backend")
        .envs(ISOLATION)
        .env("GIT_PROJECT_ROOT", hub.site().git.root())
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", format!("/{repo}.git{}", request.service_path))
        .env("REQUEST_METHOD", &request.method)
        .env("QUERY_STRING", &request.query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_USER", "git")
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().expect("standard input was piped above");
    let feed = async {
        // The program may close its input early; its answer tells why.
        stdin.write_all(&request.body).await.ok();
        drop(stdin);
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    parse_cgi(output?.stdout)
}

fn parse_cgi(output: Vec<u8>) -> anyhow::Result<Response<Body>> {
    let end = output.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or_else(|| anyhow::anyhow!("no header in the answer of git http-backend"))?;
    let mut answer = Response::builder().status(StatusCode::OK);
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        answer = match name {
            "Status" => answer.status(value.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(500)),
            _ => answer.header(name, value),
        };
    }
    Ok(answer.body(Body::from(output[end + 4..].to_vec()))?)
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut answer = Response::new(Body::from(format!("{text}\n")));
    *answer.status_mut() = status;
    answer
}
