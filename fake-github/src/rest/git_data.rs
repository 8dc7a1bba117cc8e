//! The git database: refs, tags, trees, blobs, commits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::shapes;
use crate::state::roles::Role;

use super::Answer;
use super::call::Call;
use super::reply::{Refusal, Reply};

/// A recursive tree ends here and says that it was truncated.
const TREE_ENTRIES_MAX: usize = 100_000;

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    let ["repos", owner, name, "git", rest @ ..] = parts.as_slice() else { return None };
    Some(match (method, rest) {
        ("GET", ["ref", path @ ..]) => git_ref(call, owner, name, &path.join("/")),
        ("GET", ["matching-refs", path @ ..]) => matching_refs(call, owner, name, &path.join("/")),
        ("POST", ["refs"]) => create_ref(call, owner, name),
        ("PATCH", ["refs", path @ ..]) => update_ref(call, owner, name, &path.join("/")),
        ("DELETE", ["refs", path @ ..]) => delete_ref(call, owner, name, &path.join("/")),
        ("GET", ["tags", sha]) => tag(call, owner, name, sha),
        ("GET", ["trees", at]) => tree(call, owner, name, at),
        ("GET", ["blobs", sha]) => blob(call, owner, name, sha),
        ("GET", ["commits", sha]) => commit(call, owner, name, sha),
        _ => return None,
    })
}

fn git_ref(call: &Call, owner: &str, name: &str, path: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Read)?;
    let found = call.hub.site().git.object_at(&repo, &format!("refs/{path}")).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::git_ref(&call.hub.lock(), &repo, &found)))
}

fn matching_refs(call: &Call, owner: &str, name: &str, path: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Read)?;
    let prefix = format!("refs/{path}");
    let mut found = call.hub.site().git.refs(&repo, "refs");
    found.retain(|found| found.name.starts_with(&prefix));
    let state = call.hub.lock();
    Ok(call.page(&found, |found| shapes::git_ref(&state, &repo, found)))
}

fn create_ref(call: &Call, owner: &str, name: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Write)?;
    let (full, sha) = (call.required_text("Reference", "ref")?, call.required_text("Reference", "sha")?);
    if call.hub.site().git.object_at(&repo, full).is_some() {
        return Err(Refusal::new(422, "Reference already exists"));
    }
    move_ref(call, &repo, full, sha).map(Reply::created)
}

fn update_ref(call: &Call, owner: &str, name: &str, path: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Write)?;
    let full = format!("refs/{path}");
    let before = call.hub.site().git.object_at(&repo, &full);
    let before = before.ok_or_else(|| Refusal::new(422, "Reference does not exist"))?;
    let sha = call.required_text("Reference", "sha")?;
    let forced = call.body.get("force").and_then(Value::as_bool).unwrap_or(false);
    if !forced && !call.hub.site().git.is_ancestor(&repo, &before.sha, sha) {
        return Err(Refusal::new(422, "Update is not a fast forward"));
    }
    move_ref(call, &repo, &full, sha).map(Reply::ok)
}

fn move_ref(call: &Call, repo: &str, full: &str, sha: &str) -> Result<Value, Refusal> {
    if call.hub.site().git.resolve(repo, sha).is_none() {
        return Err(Refusal::new(422, "Object does not exist"));
    }
    let moved = call.hub.set_ref(repo, full, Some(sha), &call.login());
    moved.map_err(|error| Refusal::new(422, &format!("{error:#}")))?;
    let found = call.hub.site().git.object_at(repo, full).ok_or_else(Refusal::not_found)?;
    Ok(shapes::git_ref(&call.hub.lock(), repo, &found))
}

fn delete_ref(call: &Call, owner: &str, name: &str, path: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Write)?;
    let full = format!("refs/{path}");
    call.hub.site().git.object_at(&repo, &full).ok_or_else(|| Refusal::new(422, "Reference does not exist"))?;
    call.hub.set_ref(&repo, &full, None, &call.login()).map_err(|error| Refusal::new(422, &format!("{error:#}")))?;
    Ok(Reply::empty(204))
}

fn tag(call: &Call, owner: &str, name: &str, sha: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Read)?;
    let text = call.hub.site().git.cat_file(&repo, "tag", sha).ok_or_else(Refusal::not_found)?;
    let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
    let field =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap_or_default();
    let tagger = field("tagger");
    let (person, email, at) = split_signature(tagger);
    let state = call.hub.lock();
    let url = shapes::repository_url(&state, &repo);
    let (object, kind) = (field("object"), field("type"));
    Ok(Reply::ok(json!({
        "node_id": shapes::node_id("Tag", sha),
        "sha": sha,
        "url": format!("{url}/git/tags/{sha}"),
        "tag": field("tag"),
        "message": message.trim_end(),
        "tagger": {"name": person, "email": email, "date": shapes::iso(at * 1000)},
        "object": {"sha": object, "type": kind, "url": format!("{url}/git/{kind}s/{object}")},
        "verification": {"verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null},
    })))
}

/// `GitHub <noreply@github.test> 1700000000 +0000`
fn split_signature(text: &str) -> (&str, &str, i64) {
    let (name, rest) = text.split_once(" <").unwrap_or((text, ""));
    let (email, rest) = rest.split_once("> ").unwrap_or((rest, ""));
    (name, email, rest.split(' ').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0))
}

fn tree(call: &Call, owner: &str, name: &str, at: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Read)?;
    let git = &call.hub.site().git;
    let sha = git.run(&repo, &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{at}^{{tree}}")]);
    let sha = String::from_utf8_lossy(&sha.map_err(|_| Refusal::not_found())?).trim().to_owned();
    let recursive = call.query.contains_key("recursive");
    let entries = git.tree(&repo, &sha, "", recursive);
    let state = call.hub.lock();
    let url = shapes::repository_url(&state, &repo);
    let shape = |entry: &crate::git::TreeEntry| {
        let mut shape = json!({
            "path": entry.path, "mode": entry.mode, "type": entry.kind, "sha": entry.sha,
            "url": format!("{url}/git/{}s/{}", entry.kind, entry.sha),
        });
        if let Some(size) = entry.size {
            shape["size"] = json!(size);
        }
        shape
    };
    Ok(Reply::ok(json!({
        "sha": sha,
        "url": format!("{url}/git/trees/{sha}"),
        "tree": entries.iter().take(TREE_ENTRIES_MAX).map(shape).collect::<Vec<_>>(),
        "truncated": entries.len() > TREE_ENTRIES_MAX,
    })))
}

fn blob(call: &Call, owner: &str, name: &str, sha: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Read)?;
    let bytes = call.hub.site().git.blob(&repo, sha).ok_or_else(Refusal::not_found)?;
    if call.accepts("raw") {
        return Ok(Reply::raw("application/vnd.github.raw", bytes));
    }
    let url = shapes::repository_url(&call.hub.lock(), &repo);
    Ok(Reply::ok(json!({
        "sha": sha, "node_id": shapes::node_id("Blob", sha), "size": bytes.len(), "url": format!("{url}/git/blobs/{sha}"),
        "content": STANDARD.encode(&bytes), "encoding": "base64",
    })))
}

fn commit(call: &Call, owner: &str, name: &str, sha: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Read)?;
    let found = call.hub.site().git.commit(&repo, sha).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(shapes::git_commit(&call.hub.lock(), &repo, &found)))
}
