//! Commits, comparisons, commit statuses.

use serde_json::{Value, json};

use crate::shapes;
use crate::state::repositories::CommitStatus;
use crate::state::roles::Role;

use super::Answer;
use super::call::Call;
use super::reply::{Refusal, Reply};

/// Files that one comparison or commit lists at most.
const FILES_MAX: usize = 300;
/// Commits that one comparison lists at most.
const COMMITS_MAX: usize = 250;

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    let ["repos", owner, name, rest @ ..] = parts.as_slice() else { return None };
    Some(match (method, rest) {
        ("GET", ["commits"]) => commits(call, owner, name),
        // The longer paths below a ref belong to other resources; a branch's own slashes are part of the ref.
        ("GET", ["commits", .., "check-runs" | "check-suites"]) => return None,
        ("GET", ["commits", at @ .., "status"]) => combined_status(call, owner, name, &at.join("/")),
        ("GET", ["commits", at @ .., "statuses"]) => statuses(call, owner, name, &at.join("/")),
        ("GET", ["commits", sha, "pulls"]) => pulls(call, owner, name, sha),
        ("GET", ["commits", at @ ..]) => commit(call, owner, name, &at.join("/")),
        ("GET", ["compare", basehead @ ..]) => compare(call, owner, name, &basehead.join("/")),
        ("POST", ["statuses", sha]) => create_status(call, owner, name, sha),
        _ => return None,
    })
}

fn resolve(call: &Call, repo: &str, at: &str) -> Result<String, Refusal> {
    let at = at.strip_prefix("heads/").unwrap_or(at);
    let missing = || Refusal::new(422, &format!("No commit found for SHA: {at}"));
    call.hub.site().git.resolve(repo, at).ok_or_else(missing)
}

fn commits(call: &Call, owner: &str, name: &str) -> Answer {
    const LISTED_MAX: usize = 1000;
    let repo = call.repo(owner, name, "contents", Role::Read)?;
    let branch = call.hub.lock().repository(&repo).map(|found| found.default_branch.clone()).unwrap_or_default();
    let at = resolve(call, &repo, call.query.get("sha").unwrap_or(&branch))?;
    let mut range = vec![at.as_str()];
    if let Some(path) = call.query.get("path") {
        range.extend(["--", path]);
    }
    let found = call.hub.site().git.commits(&repo, &range, LISTED_MAX);
    let state = call.hub.lock();
    Ok(call.page(&found, |commit| shapes::commit(&state, &repo, commit)))
}

fn commit(call: &Call, owner: &str, name: &str, at: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Read)?;
    let sha = resolve(call, &repo, at)?;
    if call.accepts("sha") {
        return Ok(Reply::raw("application/vnd.github.sha", sha.into_bytes()));
    }
    let git = &call.hub.site().git;
    let commit = git.commit(&repo, &sha).ok_or_else(Refusal::not_found)?;
    let files = git.diff(&repo, commit.parents.first().map_or(crate::git::NO_COMMIT, |parent| parent), &sha);
    let state = call.hub.lock();
    let mut shape = shapes::commit(&state, &repo, &commit);
    let (additions, deletions) = files.iter().fold((0, 0), |(a, d), file| (a + file.additions, d + file.deletions));
    shape["stats"] = json!({"total": additions + deletions, "additions": additions, "deletions": deletions});
    shape["files"] = files.iter().take(FILES_MAX).map(|file| shapes::file_change(&state, &repo, &sha, file)).collect();
    Ok(Reply::ok(shape))
}

fn compare(call: &Call, owner: &str, name: &str, basehead: &str) -> Answer {
    let repo = call.repo(owner, name, "contents", Role::Read)?;
    let (base, head) = basehead.split_once("...").ok_or_else(Refusal::not_found)?;
    let git = &call.hub.site().git;
    let find = |name: &str| git.resolve(&repo, name).ok_or_else(Refusal::not_found);
    let (base_sha, head_sha) = (find(base)?, find(head)?);
    let merge_base = git.merge_base(&repo, &base_sha, &head_sha);
    let merge_base =
        merge_base.ok_or_else(|| Refusal::new(404, &format!("No common ancestor between {base} and {head}.")))?;
    let ahead = git.commits(&repo, &[&format!("{base_sha}..{head_sha}")], COMMITS_MAX);
    let ahead_by = git.count(&repo, &format!("{base_sha}..{head_sha}"));
    let behind_by = git.count(&repo, &format!("{head_sha}..{base_sha}"));
    let files = git.diff(&repo, &merge_base, &head_sha);
    let read = |sha: &str| git.commit(&repo, sha).ok_or_else(Refusal::not_found);
    let (base_commit, merge_base_commit) = (read(&base_sha)?, read(&merge_base)?);
    let state = call.hub.lock();
    let page = format!("{}/{repo}/compare/{base}...{head}", state.site.web);
    let status = match (ahead_by, behind_by) {
        (0, 0) => "identical",
        (_, 0) => "ahead",
        (0, _) => "behind",
        _ => "diverged",
    };
    Ok(Reply::ok(json!({
        "url": format!("{}/compare/{base}...{head}", shapes::repository_url(&state, &repo)),
        "html_url": page,
        "permalink_url": page,
        "diff_url": format!("{page}.diff"),
        "patch_url": format!("{page}.patch"),
        "base_commit": shapes::commit(&state, &repo, &base_commit),
        "merge_base_commit": shapes::commit(&state, &repo, &merge_base_commit),
        "status": status,
        "ahead_by": ahead_by,
        "behind_by": behind_by,
        "total_commits": ahead_by,
        "commits": ahead.iter().rev().map(|commit| shapes::commit(&state, &repo, commit)).collect::<Vec<_>>(),
        "files": files.iter().take(FILES_MAX).map(|file| shapes::file_change(&state, &repo, &head_sha, file)).collect::<Vec<_>>(),
    })))
}

fn pulls(call: &Call, owner: &str, name: &str, sha: &str) -> Answer {
    let repo = call.repo(owner, name, "pull_requests", Role::Read)?;
    let state = call.hub.lock();
    let found = state.repository(&repo).ok_or_else(Refusal::not_found)?;
    let pulls: Vec<_> = found
        .issues
        .values()
        .filter_map(|issue| Some((issue, issue.pull.as_ref()?)))
        .filter(|(_, pull)| pull.head_sha == sha || pull.merge_commit_sha.as_deref() == Some(sha))
        .collect();
    Ok(call.page(&pulls, |(issue, pull)| shapes::simple_pull(&state, found, issue, pull)))
}

fn status_shape(call: &Call, state: &crate::state::State, repo: &str, status: &CommitStatus) -> Value {
    json!({
        "id": status.id,
        "node_id": shapes::node_id("StatusContext", status.id),
        "url": format!("{}/repos/{repo}/statuses/{}", call.hub.api_url(), status.sha),
        "avatar_url": format!("{}/avatars/0.svg", call.hub.base_url()),
        "state": status.state,
        "description": status.description,
        "target_url": status.target_url,
        "context": status.context,
        "created_at": shapes::iso(status.created_at),
        "updated_at": shapes::iso(status.created_at),
        "creator": shapes::user(state, &status.creator),
    })
}

fn statuses(call: &Call, owner: &str, name: &str, at: &str) -> Answer {
    let repo = call.repo(owner, name, "statuses", Role::Read)?;
    let sha = resolve(call, &repo, at)?;
    let state = call.hub.lock();
    let found = state.repository(&repo).ok_or_else(Refusal::not_found)?;
    let list: Vec<_> = found.statuses.iter().rev().filter(|status| status.sha == sha).collect();
    Ok(call.page(&list, |status| status_shape(call, &state, &repo, status)))
}

fn combined_status(call: &Call, owner: &str, name: &str, at: &str) -> Answer {
    let repo = call.repo(owner, name, "statuses", Role::Read)?;
    let sha = resolve(call, &repo, at)?;
    let state = call.hub.lock();
    let found = state.repository(&repo).ok_or_else(Refusal::not_found)?;
    let mut newest = std::collections::BTreeMap::new();
    for status in found.statuses.iter().filter(|status| status.sha == sha) {
        newest.insert(status.context.to_lowercase(), status);
    }
    let any = |wanted: &[&str]| newest.values().any(|status| wanted.contains(&status.state.as_str()));
    let combined = match () {
        () if any(&["failure", "error"]) => "failure",
        () if newest.is_empty() || any(&["pending"]) => "pending",
        () => "success",
    };
    let url = format!("{}/commits/{sha}", shapes::repository_url(&state, &repo));
    Ok(Reply::ok(json!({
        "state": combined,
        "sha": sha,
        "total_count": newest.len(),
        "statuses": newest.values().map(|status| status_shape(call, &state, &repo, status)).collect::<Vec<_>>(),
        "repository": shapes::minimal_repository(&state, found),
        "commit_url": url,
        "url": format!("{url}/status"),
    })))
}

fn create_status(call: &Call, owner: &str, name: &str, sha: &str) -> Answer {
    let repo = call.repo(owner, name, "statuses", Role::Write)?;
    let sha = resolve(call, &repo, sha)?;
    let wanted = call.required_text("Status", "state")?;
    if !matches!(wanted, "error" | "failure" | "pending" | "success") {
        return Err(Refusal::validation("Status", "state", "invalid"));
    }
    let creator = call.login();
    let status = call.hub.act(|state| {
        let status = CommitStatus {
            id: state.next_id(),
            sha: sha.clone(),
            context: call.text("context").unwrap_or("default").to_owned(),
            state: wanted.to_owned(),
            description: call.text("description").map(str::to_owned),
            target_url: call.text("target_url").map(str::to_owned),
            creator: creator.clone(),
            created_at: state.now(),
        };
        if let Some(found) = state.repositories.get_mut(&repo) {
            found.statuses.push(status.clone());
        }
        status
    });
    Ok(Reply::created(status_shape(call, &call.hub.lock(), &repo, &status)))
}
