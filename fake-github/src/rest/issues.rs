//! Issues, comments, reactions.

use serde_json::{Value, json};

use crate::shapes;
use crate::state::issues::REACTIONS;
use crate::state::roles::Role;

use super::call::{Call, number};
use super::reply::{Refusal, Reply};
use super::{Answer, app_of};

/// Characters of an issue's or comment's body.
const BODY_MAX: usize = 65_536;

pub fn route(call: &Call) -> Option<Answer> {
    let (method, parts) = call.parts();
    let ["repos", owner, name, "issues", rest @ ..] = parts.as_slice() else { return None };
    Some(match (method, rest) {
        ("GET", []) => list(call, owner, name),
        ("POST", []) => create(call, owner, name),
        ("GET", ["comments"]) => repository_comments(call, owner, name),
        ("GET", ["comments", id]) => comment(call, owner, name, id),
        ("PATCH", ["comments", id]) => edit_comment(call, owner, name, id),
        ("DELETE", ["comments", id]) => delete_comment(call, owner, name, id),
        ("GET", ["comments", id, "reactions"]) => reactions(call, owner, name, id),
        ("POST", ["comments", id, "reactions"]) => react(call, owner, name, id),
        ("GET", [issue]) => get(call, owner, name, issue),
        ("PATCH", [issue]) => update(call, owner, name, issue),
        ("GET", [issue, "comments"]) => comments(call, owner, name, issue),
        ("POST", [issue, "comments"]) => create_comment(call, owner, name, issue),
        ("GET", [issue, "labels"]) => labels(call, owner, name, issue),
        ("POST", [issue, "labels"]) => add_labels(call, owner, name, issue),
        _ => return None,
    })
}

/// Comments on a pull request need Issues or Pull requests; those on an issue need Issues.
fn repo_of(call: &Call, owner: &str, name: &str, number: Option<i64>, level: Role) -> Result<String, Refusal> {
    let refused = match call.repo(owner, name, "issues", level) {
        Ok(repo) => return Ok(repo),
        Err(refused) => refused,
    };
    let repo = call.repo(owner, name, "pull_requests", level).map_err(|_| refused)?;
    match number.is_none_or(|number| call.hub.lock().pull(&repo, number).is_some()) {
        true => Ok(repo),
        false => Err(Refusal::not_accessible()),
    }
}

fn find(call: &Call, owner: &str, name: &str, issue: &str, level: Role) -> Result<(String, i64), Refusal> {
    let number = number(issue)?;
    let repo = repo_of(call, owner, name, Some(number), level)?;
    let known = call.hub.lock().issue(&repo, number).is_some();
    if known { Ok((repo, number)) } else { Err(Refusal::not_found()) }
}

fn find_comment(call: &Call, owner: &str, name: &str, id: &str, level: Role) -> Result<(String, i64), Refusal> {
    let id = number(id)?;
    let on = call.hub.lock().comments.get(&id).map(|comment| comment.number);
    let repo = repo_of(call, owner, name, on, level)?;
    let known = call.hub.lock().comments.get(&id).is_some_and(|comment| comment.repo == repo);
    if known { Ok((repo, id)) } else { Err(Refusal::not_found()) }
}

fn shape(call: &Call, repo: &str, number: i64) -> Result<Value, Refusal> {
    let state = call.hub.lock();
    let (found, issue) = state.repository(repo).zip(state.issue(repo, number)).ok_or_else(Refusal::not_found)?;
    Ok(shapes::listed_issue(&state, found, issue))
}

fn comment_shape(call: &Call, id: i64) -> Result<Value, Refusal> {
    let state = call.hub.lock();
    Ok(shapes::comment(&state, state.comments.get(&id).ok_or_else(Refusal::not_found)?))
}

fn list(call: &Call, owner: &str, name: &str) -> Answer {
    let repo = repo_of(call, owner, name, None, Role::Read)?;
    let asked = |name: &str| call.query.get(name).map(String::as_str);
    let wanted = asked("state").unwrap_or("open");
    let labels: Vec<&str> = asked("labels").into_iter().flat_map(|labels| labels.split(',')).collect();
    let state = call.hub.lock();
    let found = state.repository(&repo).ok_or_else(Refusal::not_found)?;
    let mut issues: Vec<_> = found
        .issues
        .values()
        .filter(|issue| wanted == "all" || issue.open == (wanted == "open"))
        .filter(|issue| labels.iter().all(|label| issue.labels.iter().any(|own| own == label)))
        .filter(|issue| asked("creator").is_none_or(|creator| issue.author == creator))
        .collect();
    if asked("direction") != Some("asc") {
        issues.reverse();
    }
    Ok(call.page(&issues, |issue| shapes::issue(&state, found, issue)))
}

/// A body within GitHub's limit, or GitHub's refusal.
fn body_of<'a>(call: &'a Call, resource: &str) -> Result<Option<&'a str>, Refusal> {
    match call.text("body") {
        Some(body) if body.chars().count() > BODY_MAX => {
            Err(Refusal::invalid(resource, "body", &format!("body is too long (maximum is {BODY_MAX} characters)")))
        }
        body => Ok(body),
    }
}

fn label_names(value: Option<&Value>) -> Option<Vec<String>> {
    let list = value?.as_array()?;
    let name = |label: &Value| label.as_str().or_else(|| label["name"].as_str()).map(str::to_owned);
    Some(list.iter().filter_map(name).collect())
}

fn create(call: &Call, owner: &str, name: &str) -> Answer {
    let repo = call.repo(owner, name, "issues", Role::Write)?;
    let title = call.required_text("Issue", "title")?;
    let body = body_of(call, "Issue")?.unwrap_or_default();
    let labels = label_names(call.body.get("labels")).unwrap_or_default();
    let number = call.hub.open_issue(&repo, title, body, &labels, &call.login(), app_of(&call.caller));
    shape(call, &repo, number).map(Reply::created)
}

fn get(call: &Call, owner: &str, name: &str, issue: &str) -> Answer {
    let (repo, number) = find(call, owner, name, issue, Role::Read)?;
    shape(call, &repo, number).map(Reply::ok)
}

fn update(call: &Call, owner: &str, name: &str, issue: &str) -> Answer {
    let (repo, number) = find(call, owner, name, issue, Role::Write)?;
    body_of(call, "Issue")?;
    apply_edit(call, &repo, number);
    let by = call.login();
    match call.text("state") {
        Some("closed") => call.hub.close(&repo, number, &by),
        Some("open") => call.hub.reopen(&repo, number, &by),
        Some(_) => return Err(Refusal::validation("Issue", "state", "invalid")),
        None => {}
    }
    shape(call, &repo, number).map(Reply::ok)
}

/// Title, body and labels of an issue or pull request.
pub fn apply_edit(call: &Call, repo: &str, number: i64) {
    let labels = label_names(call.body.get("labels"));
    call.hub.act(|state| {
        state.add_labels(repo, labels.as_deref().unwrap_or_default());
        let now = state.now();
        let Some(issue) = state.issue_mut(repo, number) else { return };
        if let Some(title) = call.text("title") {
            issue.title = title.to_owned();
        }
        if let Some(body) = call.text("body") {
            issue.body = Some(body.to_owned());
        }
        if let Some(labels) = labels {
            issue.labels = labels;
        }
        if let Some(reason) = call.text("state_reason") {
            issue.state_reason = Some(reason.to_owned());
        }
        issue.updated_at = now;
    });
}

fn comments(call: &Call, owner: &str, name: &str, issue: &str) -> Answer {
    let (repo, number) = find(call, owner, name, issue, Role::Read)?;
    let state = call.hub.lock();
    let found: Vec<_> = state.comments_of(&repo, number).collect();
    Ok(call.page(&found, |comment| shapes::comment(&state, comment)))
}

fn repository_comments(call: &Call, owner: &str, name: &str) -> Answer {
    let repo = repo_of(call, owner, name, None, Role::Read)?;
    let state = call.hub.lock();
    let found: Vec<_> = state.comments.values().filter(|comment| comment.repo == repo).collect();
    Ok(call.page(&found, |comment| shapes::comment(&state, comment)))
}

fn create_comment(call: &Call, owner: &str, name: &str, issue: &str) -> Answer {
    let (repo, number) = find(call, owner, name, issue, Role::Write)?;
    let body = body_of(call, "IssueComment")?.filter(|body| !body.trim().is_empty());
    let body = body.ok_or_else(|| Refusal::validation("IssueComment", "body", "missing_field"))?;
    let locked = call.hub.lock().issue(&repo, number).is_some_and(|issue| issue.locked);
    if locked {
        return Err(Refusal::new(403, "Unable to create comment because issue is locked."));
    }
    let id = call.hub.comment_as(&repo, number, &call.login(), body, app_of(&call.caller));
    comment_shape(call, id).map(Reply::created)
}

fn comment(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let (_, id) = find_comment(call, owner, name, id, Role::Read)?;
    comment_shape(call, id).map(Reply::ok)
}

/// A bot edits only what it wrote; people with push access edit everything.
fn may_change(call: &Call, id: i64) -> Result<(), Refusal> {
    let login = call.login();
    let state = call.hub.lock();
    let comment = state.comments.get(&id).ok_or_else(Refusal::not_found)?;
    match comment.author == login || state.role(&comment.repo, &login) >= Role::Write {
        true => Ok(()),
        false => Err(Refusal::not_accessible()),
    }
}

fn edit_comment(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let (_, id) = find_comment(call, owner, name, id, Role::Write)?;
    may_change(call, id)?;
    let body =
        body_of(call, "IssueComment")?.ok_or_else(|| Refusal::validation("IssueComment", "body", "missing_field"))?;
    call.hub.edit_comment(id, body, &call.login());
    comment_shape(call, id).map(Reply::ok)
}

fn delete_comment(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let (_, id) = find_comment(call, owner, name, id, Role::Write)?;
    may_change(call, id)?;
    call.hub.delete_comment(id, &call.login());
    Ok(Reply::empty(204))
}

fn reactions(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let (_, id) = find_comment(call, owner, name, id, Role::Read)?;
    let reactions = call.hub.reactions(id);
    let state = call.hub.lock();
    Ok(call.page(&reactions, |reaction| shapes::reaction(&state, reaction)))
}

fn react(call: &Call, owner: &str, name: &str, id: &str) -> Answer {
    let (_, id) = find_comment(call, owner, name, id, Role::Write)?;
    let content = call.required_text("Reaction", "content")?;
    if !REACTIONS.contains(&content) {
        return Err(Refusal::validation("Reaction", "content", "invalid"));
    }
    let (reaction, new) = call.hub.react(id, &call.login(), content).ok_or_else(Refusal::not_found)?;
    Ok(Reply::json(if new { 201 } else { 200 }, shapes::reaction(&call.hub.lock(), &reaction)))
}

fn labels(call: &Call, owner: &str, name: &str, issue: &str) -> Answer {
    let (repo, number) = find(call, owner, name, issue, Role::Read)?;
    let state = call.hub.lock();
    let (found, issue) = state.repository(&repo).zip(state.issue(&repo, number)).ok_or_else(Refusal::not_found)?;
    Ok(Reply::ok(json!(shapes::labels(&state, found, issue))))
}

fn add_labels(call: &Call, owner: &str, name: &str, issue: &str) -> Answer {
    let (repo, number) = find(call, owner, name, issue, Role::Write)?;
    let names = label_names(call.body.get("labels")).or_else(|| label_names(Some(&call.body))).unwrap_or_default();
    call.hub.act(|state| {
        state.add_labels(&repo, &names);
        let Some(issue) = state.issue_mut(&repo, number) else { return };
        let new: Vec<String> = names.into_iter().filter(|name| !issue.labels.contains(name)).collect();
        issue.labels.extend(new);
    });
    labels(call, owner, name, issue)
}
