//! Pull requests, their files, commits, reviews and merging.

use serde_json::{Value, json};

use crate::ReviewState;
use crate::shapes;
use crate::state::roles::Role;

use super::Answer;
use super::call::{Call, number};
use super::reply::{Refusal, Reply};

/// Files that a pull request lists at most.
const FILES_MAX: usize = 3000;

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    let ["repos", owner, name, "pulls", rest @ ..] = parts.as_slice() else { return None };
    Some(match (method, rest) {
        ("GET", []) => list(call, owner, name),
        ("POST", []) => create(call, owner, name),
        ("GET", [pull]) => get(call, owner, name, pull),
        ("PATCH", [pull]) => update(call, owner, name, pull),
        ("GET", [pull, "files"]) => files(call, owner, name, pull),
        ("GET", [pull, "commits"]) => commits(call, owner, name, pull),
        ("GET", [pull, "comments"]) => review_comments(call, owner, name, pull),
        ("GET", [pull, "merge"]) => check_merged(call, owner, name, pull),
        ("PUT", [pull, "merge"]) => merge(call, owner, name, pull),
        ("GET", [pull, "requested_reviewers"]) => requested_reviewers(call, owner, name, pull),
        ("GET", [pull, "reviews"]) => reviews(call, owner, name, pull),
        ("POST", [pull, "reviews"]) => create_review(call, owner, name, pull),
        ("GET", [pull, "reviews", review]) => self::review(call, owner, name, pull, review),
        ("PUT", [pull, "reviews", review, "dismissals"]) => dismiss(call, owner, name, pull, review),
        _ => return None,
    })
}

/// Repository and number of a pull request that the caller may read or write.
fn find(call: &Call, owner: &str, name: &str, pull: &str, level: Role) -> Result<(String, i64), Refusal> {
    let repo = call.repo(owner, name, "pull_requests", level)?;
    let number = number(pull)?;
    let known = call.hub.lock().pull(&repo, number).is_some();
    if known { Ok((repo, number)) } else { Err(Refusal::not_found()) }
}

fn shape(call: &Call, repo: &str, number: i64) -> Result<Value, Refusal> {
    let state = call.hub.lock();
    let found = state.repository(repo).zip(state.pull(repo, number));
    let (found, (issue, pull)) = found.ok_or_else(Refusal::not_found)?;
    let mut shape = shapes::pull(&state, found, issue, pull);
    if let (true, Some(members)) = (call.is_new_version(), shape.as_object_mut()) {
        members.remove("merge_commit_sha");
        members.remove("assignee");
    }
    Ok(shape)
}

fn list(call: &Call, owner: &str, name: &str) -> Answer {
    let repo = call.repo(owner, name, "pull_requests", Role::Read)?;
    let wanted = call.query.get("state").map_or("open", String::as_str);
    let state = call.hub.lock();
    let found = state.repository(&repo).ok_or_else(Refusal::not_found)?;
    let base = call.query.get("base");
    let head = call.query.get("head").map(|head| head.rsplit(':').next().unwrap_or(head));
    let mut pulls: Vec<_> = found
        .issues
        .values()
        .filter_map(|issue| Some((issue, issue.pull.as_ref()?)))
        .filter(|(issue, _)| wanted == "all" || issue.open == (wanted == "open"))
        .filter(|(_, pull)| base.is_none_or(|base| &pull.base_branch == base))
        .filter(|(_, pull)| head.is_none_or(|head| pull.head_branch == head))
        .collect();
    if call.query.get("direction").map(String::as_str) != Some("asc") {
        pulls.reverse();
    }
    Ok(call.page(&pulls, |(issue, pull)| shapes::simple_pull(&state, found, issue, pull)))
}

fn create(call: &Call, owner: &str, name: &str) -> Answer {
    let repo = call.repo(owner, name, "pull_requests", Role::Write)?;
    let field = |field| call.required_text("PullRequest", field);
    let (title, head, base) = (field("title")?, field("head")?, field("base")?);
    let draft = call.body.get("draft").and_then(Value::as_bool).unwrap_or(false);
    let body = call.text("body").unwrap_or_default();
    let opened = call.hub.open(&repo, head, base, title, body, &call.login(), draft);
    let number = opened.map_err(|error| Refusal::invalid("PullRequest", "head", &format!("{error:#}")))?;
    shape(call, &repo, number).map(Reply::created)
}

fn get(call: &Call, owner: &str, name: &str, pull: &str) -> Answer {
    let (repo, number) = find(call, owner, name, pull, Role::Read)?;
    if call.accepts("diff") || call.accepts("patch") {
        let changes = changes(call, &repo, number)?;
        let text: Vec<String> = changes
            .iter()
            .map(|change| {
                let old = change.previous.as_ref().unwrap_or(&change.path);
                format!("diff --git a/{old} b/{}\n{}\n", change.path, change.patch.as_deref().unwrap_or_default())
            })
            .collect();
        return Ok(Reply::raw("application/vnd.github.diff; charset=utf-8", text.concat().into_bytes()));
    }
    let shape = shape(call, &repo, number)?;
    let hidden = shape["state"] == "open" && call.hub.faults().hides_mergeability();
    Ok(Reply::ok(if hidden { shapes::forget_mergeability(shape) } else { shape }))
}

fn update(call: &Call, owner: &str, name: &str, pull: &str) -> Answer {
    let (repo, number) = find(call, owner, name, pull, Role::Write)?;
    let by = call.login();
    super::issues::apply_edit(call, &repo, number);
    if let Some(base) = call.text("base") {
        let moved = call.hub.retarget(&repo, number, base, &by);
        moved.map_err(|error| Refusal::invalid("PullRequest", "base", &format!("{error:#}")))?;
    }
    match call.text("state") {
        Some("closed") => call.hub.close(&repo, number, &by),
        Some("open") => call.hub.reopen(&repo, number, &by),
        _ => {}
    }
    shape(call, &repo, number).map(Reply::ok)
}

fn changes(call: &Call, repo: &str, number: i64) -> Result<Vec<crate::git::FileChange>, Refusal> {
    let (base, head) = {
        let state = call.hub.lock();
        let (_, pull) = state.pull(repo, number).ok_or_else(Refusal::not_found)?;
        (pull.base_sha.clone(), pull.head_sha.clone())
    };
    let git = &call.hub.site().git;
    let from = git.merge_base(repo, &base, &head).unwrap_or(base);
    Ok(git.diff(repo, &from, &head))
}

fn files(call: &Call, owner: &str, name: &str, pull: &str) -> Answer {
    let (repo, number) = find(call, owner, name, pull, Role::Read)?;
    let mut files = changes(call, &repo, number)?;
    files.truncate(FILES_MAX);
    let state = call.hub.lock();
    let head = state.pull(&repo, number).map(|(_, pull)| pull.head_sha.clone()).unwrap_or_default();
    Ok(call.page(&files, |file| shapes::file_change(&state, &repo, &head, file)))
}

fn commits(call: &Call, owner: &str, name: &str, pull: &str) -> Answer {
    /// A pull request lists this many commits at most.
    const COMMITS_MAX: usize = 250;
    let (repo, number) = find(call, owner, name, pull, Role::Read)?;
    let range = {
        let state = call.hub.lock();
        let (_, pull) = state.pull(&repo, number).ok_or_else(Refusal::not_found)?;
        format!("{}..{}", pull.base_sha, pull.head_sha)
    };
    let mut found = call.hub.site().git.commits(&repo, &[&range], COMMITS_MAX);
    found.reverse();
    let state = call.hub.lock();
    Ok(call.page(&found, |commit| shapes::commit(&state, &repo, commit)))
}

fn review_comments(call: &Call, owner: &str, name: &str, pull: &str) -> Answer {
    find(call, owner, name, pull, Role::Read)?;
    Ok(Reply::ok(json!([])))
}

fn requested_reviewers(call: &Call, owner: &str, name: &str, pull: &str) -> Answer {
    find(call, owner, name, pull, Role::Read)?;
    Ok(Reply::ok(json!({"users": [], "teams": []})))
}

fn check_merged(call: &Call, owner: &str, name: &str, pull: &str) -> Answer {
    let (repo, number) = find(call, owner, name, pull, Role::Read)?;
    match call.hub.lock().pull(&repo, number).is_some_and(|(_, pull)| pull.merged_at.is_some()) {
        true => Ok(Reply::empty(204)),
        false => Err(Refusal::not_found()),
    }
}

fn merge(call: &Call, owner: &str, name: &str, pull: &str) -> Answer {
    let (repo, number) = find(call, owner, name, pull, Role::Read)?;
    call.repo(owner, name, "contents", Role::Write)?;
    let head = call.hub.lock().pull(&repo, number).map(|(_, pull)| pull.head_sha.clone());
    if call.text("sha").is_some_and(|sha| Some(sha) != head.as_deref()) {
        return Err(Refusal::new(409, "Head branch was modified. Review and try the merge again."));
    }
    match call.hub.merge(&repo, number, &call.login()) {
        Ok(sha) => Ok(Reply::ok(json!({"sha": sha, "merged": true, "message": "Pull Request successfully merged"}))),
        Err(reasons) => Err(Refusal::new(405, &format!("Pull Request is not mergeable: {reasons}"))),
    }
}

fn reviews(call: &Call, owner: &str, name: &str, pull: &str) -> Answer {
    let (repo, number) = find(call, owner, name, pull, Role::Read)?;
    let state = call.hub.lock();
    let found = state.repository(&repo).zip(state.pull(&repo, number));
    let (found, (_, pull)) = found.ok_or_else(Refusal::not_found)?;
    Ok(call.page(&pull.reviews, |review| shapes::review(&state, found, number, review)))
}

fn review(call: &Call, owner: &str, name: &str, pull: &str, review: &str) -> Answer {
    let (repo, pull) = find(call, owner, name, pull, Role::Read)?;
    review_shape(call, &repo, pull, number(review)?).map(Reply::ok)
}

fn review_shape(call: &Call, repo: &str, number: i64, review: i64) -> Result<Value, Refusal> {
    let state = call.hub.lock();
    let found = state.repository(repo).zip(state.pull(repo, number));
    let (found, (_, pull)) = found.ok_or_else(Refusal::not_found)?;
    let review = pull.reviews.iter().find(|known| known.id == review).ok_or_else(Refusal::not_found)?;
    Ok(shapes::review(&state, found, number, review))
}

fn create_review(call: &Call, owner: &str, name: &str, pull: &str) -> Answer {
    let (repo, number) = find(call, owner, name, pull, Role::Write)?;
    let (login, body) = (call.login(), call.text("body").unwrap_or_default());
    let wanted = match call.text("event") {
        Some("APPROVE") => ReviewState::Approve,
        Some("REQUEST_CHANGES") => ReviewState::RequestChanges,
        Some("COMMENT") => ReviewState::Comment,
        _ => return Err(Refusal::validation("PullRequestReview", "event", "invalid")),
    };
    let author = call.hub.lock().issue(&repo, number).map(|issue| issue.author.clone());
    if wanted == ReviewState::Approve && author.as_deref() == Some(&login) {
        return Err(Refusal::new(422, "Can not approve your own pull request"));
    }
    let id = call.hub.review(&repo, number, &login, wanted, body).ok_or_else(Refusal::not_found)?;
    review_shape(call, &repo, number, id).map(Reply::ok)
}

fn dismiss(call: &Call, owner: &str, name: &str, pull: &str, review: &str) -> Answer {
    let (repo, pull) = find(call, owner, name, pull, Role::Write)?;
    let review = number(review)?;
    call.required_text("PullRequestReview", "message")?;
    if !call.hub.dismiss_review(&repo, pull, review, &call.login()) {
        return Err(Refusal::not_found());
    }
    review_shape(call, &repo, pull, review).map(Reply::ok)
}
