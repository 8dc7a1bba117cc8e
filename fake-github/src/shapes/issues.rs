//! Issues, comments and reactions.

use serde_json::{Value, json};

use crate::state::State;
use crate::state::issues::{Comment, Issue, REACTIONS, Reaction};
use crate::state::repositories::Repository;

use super::{integration, iso, iso_or_null, label, node_id, repository, repository_url, user};

pub fn issue(state: &State, repo: &Repository, issue: &Issue) -> Value {
    let url = format!("{}/issues/{}", repository_url(state, &repo.full_name), issue.number);
    let kind = if issue.pull.is_some() { "pull" } else { "issues" };
    let mut shape = json!({
        "id": issue.id,
        "node_id": node_id("Issue", issue.id),
        "url": url,
        "repository_url": repository_url(state, &repo.full_name),
        "labels_url": format!("{url}/labels{{/name}}"),
        "comments_url": format!("{url}/comments"),
        "events_url": format!("{url}/events"),
        "timeline_url": format!("{url}/timeline"),
        "html_url": format!("{}/{}/{kind}/{}", state.site.web, repo.full_name, issue.number),
        "number": issue.number,
        "state": if issue.open { "open" } else { "closed" },
        "state_reason": issue.state_reason,
        "title": issue.title,
        "body": issue.body,
        "user": user(state, &issue.author),
        "labels": labels(state, repo, issue),
        "assignee": null,
        "assignees": [],
        "milestone": null,
        "locked": issue.locked,
        "active_lock_reason": null,
        "comments": state.comments_of(&repo.full_name, issue.number).count(),
        "created_at": iso(issue.created_at),
        "updated_at": iso(issue.updated_at),
        "closed_at": iso_or_null(issue.closed_at),
        "closed_by": issue.closed_by.as_ref().map(|login| user(state, login)),
        "author_association": state.association(&repo.full_name, &issue.author),
        "performed_via_github_app": app(state, issue.via_app),
        "reactions": rollup(&issue.reactions, &url),
    });
    if let Some(pull) = &issue.pull {
        let page = format!("{}/{}/pull/{}", state.site.web, repo.full_name, issue.number);
        shape["draft"] = json!(pull.draft);
        shape["pull_request"] = json!({
            "url": format!("{}/pulls/{}", repository_url(state, &repo.full_name), issue.number),
            "html_url": page,
            "diff_url": format!("{page}.diff"),
            "patch_url": format!("{page}.patch"),
            "merged_at": iso_or_null(pull.merged_at),
        });
    }
    shape
}

/// The issue inside REST lists names its repository too.
pub fn listed_issue(state: &State, repo: &Repository, issue: &Issue) -> Value {
    let mut shape = self::issue(state, repo, issue);
    shape["repository"] = repository(state, repo);
    shape
}

pub fn labels(state: &State, repo: &Repository, issue: &Issue) -> Vec<Value> {
    let known = issue.labels.iter().filter_map(|name| repo.labels.get(name));
    known.map(|found| label(state, &repo.full_name, found)).collect()
}

pub fn comment(state: &State, comment: &Comment) -> Value {
    let url = format!("{}/issues/comments/{}", repository_url(state, &comment.repo), comment.id);
    let kind = match state.issue(&comment.repo, comment.number) {
        Some(Issue { pull: Some(_), .. }) => "pull",
        _ => "issues",
    };
    let page = format!("{}/{}/{kind}/{}", state.site.web, comment.repo, comment.number);
    json!({
        "id": comment.id,
        "node_id": node_id("IssueComment", comment.id),
        "url": url,
        "html_url": format!("{page}#issuecomment-{}", comment.id),
        "issue_url": format!("{}/issues/{}", repository_url(state, &comment.repo), comment.number),
        "user": user(state, &comment.author),
        "body": comment.body,
        "created_at": iso(comment.created_at),
        "updated_at": iso(comment.updated_at),
        "author_association": state.association(&comment.repo, &comment.author),
        "performed_via_github_app": app(state, comment.via_app),
        "reactions": rollup(&comment.reactions, &url),
    })
}

pub fn reaction(state: &State, reaction: &Reaction) -> Value {
    json!({
        "id": reaction.id,
        "node_id": node_id("Reaction", reaction.id),
        "user": user(state, &reaction.author),
        "content": reaction.content,
        "created_at": iso(reaction.created_at),
    })
}

fn app(state: &State, id: Option<i64>) -> Value {
    id.and_then(|id| state.apps.get(&id)).map_or(Value::Null, |app| integration(state, app))
}

fn rollup(reactions: &[Reaction], url: &str) -> Value {
    let mut shape = json!({"url": format!("{url}/reactions"), "total_count": reactions.len()});
    for content in REACTIONS {
        shape[content] = json!(reactions.iter().filter(|reaction| reaction.content == content).count());
    }
    shape
}
