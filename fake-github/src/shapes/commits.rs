//! Commits, refs, trees, comparisons and file lists.

use serde_json::{Value, json};

use crate::git::{Commit, FileChange, Ref, Signature};
use crate::state::State;

use super::{encode, node_id, repository_url, user};

fn git_user(signature: &Signature) -> Value {
    json!({"name": signature.name, "email": signature.email, "date": signature.date})
}

fn unsigned() -> Value {
    json!({"verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null})
}

/// The account that a commit's address or name belongs to.
fn account_of(state: &State, signature: &Signature) -> Value {
    let found = state
        .accounts
        .values()
        .find(|account| account.email() == signature.email || account.login.eq_ignore_ascii_case(&signature.name));
    found.map_or(Value::Null, |account| user(state, &account.login))
}

/// `commit`, as the commits API answers.
pub fn commit(state: &State, repo: &str, commit: &Commit) -> Value {
    let (url, page) = (repository_url(state, repo), format!("{}/{repo}", state.site.web));
    let sha = &commit.sha;
    let parent = |sha: &String| json!({"sha": sha, "url": format!("{url}/commits/{sha}"), "html_url": format!("{page}/commit/{sha}")});
    json!({
        "sha": sha,
        "node_id": node_id("Commit", sha),
        "url": format!("{url}/commits/{sha}"),
        "html_url": format!("{page}/commit/{sha}"),
        "comments_url": format!("{url}/commits/{sha}/comments"),
        "commit": {
            "url": format!("{url}/git/commits/{sha}"),
            "author": git_user(&commit.author),
            "committer": git_user(&commit.committer),
            "message": commit.message,
            "comment_count": 0,
            "tree": {"sha": commit.tree, "url": format!("{url}/git/trees/{}", commit.tree)},
            "verification": unsigned(),
        },
        "author": account_of(state, &commit.author),
        "committer": account_of(state, &commit.committer),
        "parents": commit.parents.iter().map(parent).collect::<Vec<_>>(),
    })
}

/// `git-commit`, as the git database API answers.
pub fn git_commit(state: &State, repo: &str, commit: &Commit) -> Value {
    let (url, page) = (repository_url(state, repo), format!("{}/{repo}", state.site.web));
    let parent = |sha: &String| json!({"sha": sha, "url": format!("{url}/git/commits/{sha}"), "html_url": format!("{page}/commit/{sha}")});
    json!({
        "sha": commit.sha,
        "node_id": node_id("Commit", &commit.sha),
        "url": format!("{url}/git/commits/{}", commit.sha),
        "html_url": format!("{page}/commit/{}", commit.sha),
        "author": git_user(&commit.author),
        "committer": git_user(&commit.committer),
        "message": commit.message,
        "tree": {"sha": commit.tree, "url": format!("{url}/git/trees/{}", commit.tree)},
        "parents": commit.parents.iter().map(parent).collect::<Vec<_>>(),
        "verification": unsigned(),
    })
}

/// `simple-commit`, inside workflow runs and check suites.
pub fn simple_commit(commit: &Commit) -> Value {
    json!({
        "id": commit.sha,
        "tree_id": commit.tree,
        "message": commit.message,
        "timestamp": commit.committer.date,
        "author": {"name": commit.author.name, "email": commit.author.email},
        "committer": {"name": commit.committer.name, "email": commit.committer.email},
    })
}

/// A commit of a push payload.
pub fn pushed_commit(state: &State, repo: &str, commit: &Commit) -> Value {
    let files = state.site.git.diff(repo, commit.parents.first().map_or(crate::git::NO_COMMIT, |p| p), &commit.sha);
    let names = |status: &[&str]| -> Vec<&str> {
        files.iter().filter(|file| status.contains(&file.status)).map(|file| file.path.as_str()).collect()
    };
    json!({
        "id": commit.sha,
        "tree_id": commit.tree,
        "distinct": true,
        "message": commit.message,
        "timestamp": commit.committer.date,
        "url": format!("{}/{repo}/commit/{}", state.site.web, commit.sha),
        "author": {"name": commit.author.name, "email": commit.author.email},
        "committer": {"name": commit.committer.name, "email": commit.committer.email},
        "added": names(&["added", "renamed", "copied"]),
        "removed": names(&["removed"]),
        "modified": names(&["modified", "changed"]),
    })
}

/// `diff-entry`.
pub fn file_change(state: &State, repo: &str, commit: &str, file: &FileChange) -> Value {
    let (url, page) = (repository_url(state, repo), format!("{}/{repo}", state.site.web));
    let path: Vec<String> = file.path.split('/').map(encode).collect();
    let path = path.join("/");
    let mut shape = json!({
        "sha": file.sha,
        "filename": file.path,
        "status": file.status,
        "additions": file.additions,
        "deletions": file.deletions,
        "changes": file.additions + file.deletions,
        "blob_url": format!("{page}/blob/{commit}/{path}"),
        "raw_url": format!("{page}/raw/{commit}/{path}"),
        "contents_url": format!("{url}/contents/{path}?ref={commit}"),
    });
    if let Some(patch) = &file.patch {
        shape["patch"] = json!(patch);
    }
    if let Some(previous) = &file.previous {
        shape["previous_filename"] = json!(previous);
    }
    shape
}

pub fn git_ref(state: &State, repo: &str, found: &Ref) -> Value {
    let url = repository_url(state, repo);
    json!({
        "ref": found.name,
        "node_id": node_id("Ref", &found.name),
        "url": format!("{url}/git/{}", found.name),
        "object": {
            "type": found.kind,
            "sha": found.sha,
            "url": format!("{url}/git/{}s/{}", found.kind, found.sha),
        },
    })
}
