//! Files and directories at a commit, and archives of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::git::TreeEntry;
use crate::shapes;
use crate::state::State;
use crate::state::roles::Role;

use super::Answer;
use super::call::Call;
use super::reply::{Refusal, Reply};

/// Beyond this size the API gives no content inside JSON.
const INLINE_BYTES_MAX: usize = 1_000_000;

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    Some(match (method, parts.as_slice()) {
        ("GET", ["repos", owner, name, "contents", path @ ..]) => contents(call, owner, name, &path.join("/")),
        ("GET", ["repos", owner, name, "tarball"]) => archive(call, owner, name, "tar.gz", ""),
        ("GET", ["repos", owner, name, "tarball", at @ ..]) => archive(call, owner, name, "tar.gz", &at.join("/")),
        ("GET", ["repos", owner, name, "zipball", at @ ..]) => archive(call, owner, name, "zip", &at.join("/")),
        _ => return None,
    })
}

fn commit_at(call: &Call, repo: &str, asked: Option<&str>) -> Result<String, Refusal> {
    let branch = call.hub.lock().repository(repo).map(|found| found.default_branch.clone());
    let asked = asked.filter(|asked| !asked.is_empty()).map(str::to_owned).or(branch).unwrap_or_default();
    let missing = || Refusal::new(404, &format!("No commit found for the ref {asked}"));
    call.hub.site().git.resolve(repo, &asked).ok_or_else(missing)
}

fn contents(call: &Call, owner: &str, name: &str, path: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Read)?;
    let asked = call.query.get("ref").map(String::as_str);
    let commit = commit_at(call, &repo, asked)?;
    let at = asked.unwrap_or(&commit).to_owned();
    let git = &call.hub.site().git;
    let path = path.trim_matches('/');
    if path.is_empty() {
        return Ok(directory(&call.hub.lock(), &repo, &at, git.tree(&repo, &commit, "", false)));
    }
    let entry = git.tree_entry(&repo, &commit, path).ok_or_else(Refusal::not_found)?;
    if entry.kind == "tree" {
        return Ok(directory(&call.hub.lock(), &repo, &at, git.tree(&repo, &commit, path, false)));
    }
    let bytes = git.blob(&repo, &entry.sha).ok_or_else(Refusal::not_found)?;
    if call.accepts("raw") {
        return Ok(Reply::raw("application/vnd.github.raw; charset=utf-8", bytes));
    }
    let mut shape = entry_shape(&call.hub.lock(), &repo, &at, &entry);
    let inline = bytes.len() <= INLINE_BYTES_MAX;
    shapes::extend(
        &mut shape,
        json!({
            "encoding": if inline { "base64" } else { "none" },
            "content": if inline { lines_of_60(&STANDARD.encode(&bytes)) } else { String::new() },
        }),
    );
    Ok(Reply::ok(shape))
}

/// GitHub breaks base64 into lines; a client that cannot read those cannot read GitHub.
fn lines_of_60(text: &str) -> String {
    let lines = text.as_bytes().chunks(60).map(String::from_utf8_lossy);
    lines.map(|line| format!("{line}\n")).collect()
}

fn directory(state: &State, repo: &str, at: &str, entries: Vec<TreeEntry>) -> Reply {
    /// A directory listing ends here.
    const ENTRIES_MAX: usize = 1000;
    let shapes = entries.iter().take(ENTRIES_MAX).map(|entry| entry_shape(state, repo, at, entry));
    Reply::ok(Value::Array(shapes.collect()))
}

fn entry_shape(state: &State, repo: &str, at: &str, entry: &TreeEntry) -> Value {
    let path: Vec<String> = entry.path.split('/').map(shapes::encode).collect();
    let path = path.join("/");
    let (url, page) = (shapes::repository_url(state, repo), format!("{}/{repo}", state.site.web));
    let own = format!("{url}/contents/{path}?ref={}", shapes::encode(at));
    let (kind, git, html) = match entry.kind.as_str() {
        "tree" => ("dir", format!("{url}/git/trees/{}", entry.sha), format!("{page}/tree/{at}/{path}")),
        "commit" => ("file", format!("{url}/git/trees/{}", entry.sha), format!("{page}/tree/{at}/{path}")),
        _ if entry.mode == "120000" => {
            ("symlink", format!("{url}/git/blobs/{}", entry.sha), format!("{page}/blob/{at}/{path}"))
        }
        _ => ("file", format!("{url}/git/blobs/{}", entry.sha), format!("{page}/blob/{at}/{path}")),
    };
    let download = (entry.kind == "blob").then(|| format!("{page}/raw/{at}/{path}"));
    json!({
        "type": kind,
        "size": entry.size.unwrap_or(0),
        "name": entry.path.rsplit('/').next(),
        "path": entry.path,
        "sha": entry.sha,
        "url": own,
        "git_url": git,
        "html_url": html,
        "download_url": download,
        "_links": {"self": own, "git": git, "html": html},
    })
}

fn archive(call: &Call, owner: &str, name: &str, format: &str, at: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Read)?;
    let commit = commit_at(call, &repo, Some(at))?;
    let prefix = format!("--prefix={}-{}/", repo.replace('/', "-"), &commit[..7]);
    let bytes = call.hub.site().git.run(&repo, &["archive", &format!("--format={format}"), &prefix, &commit]);
    let kind = if format == "zip" { "application/zip" } else { "application/x-gzip" };
    Ok(Reply::raw(kind, bytes.map_err(|_| Refusal::not_found())?))
}
