//! Pull requests and reviews.

use serde_json::{Value, json};

use crate::state::State;
use crate::state::issues::{Issue, PullRequest, Review};
use crate::state::repositories::Repository;

use super::{extend, iso, iso_or_null, labels, node_id, repository, repository_url, user};

/// `pull-request-simple`, the shape of lists.
pub fn simple_pull(state: &State, repo: &Repository, issue: &Issue, pull: &PullRequest) -> Value {
    let number = issue.number;
    let url = format!("{}/pulls/{number}", repository_url(state, &repo.full_name));
    let issue_url = format!("{}/issues/{number}", repository_url(state, &repo.full_name));
    let page = format!("{}/{}/pull/{number}", state.site.web, repo.full_name);
    let statuses = format!("{}/statuses/{}", repository_url(state, &repo.full_name), pull.head_sha);
    let head_repo = pull.head_repo.as_deref().and_then(|name| state.repository(name));
    let head_owner = head_repo.map_or(repo.owner.as_str(), |found| found.owner.as_str());
    let href = |href: String| json!({"href": href});
    json!({
        "url": url,
        "id": pull.id,
        "node_id": node_id("PullRequest", pull.id),
        "html_url": page,
        "diff_url": format!("{page}.diff"),
        "patch_url": format!("{page}.patch"),
        "issue_url": issue_url,
        "commits_url": format!("{url}/commits"),
        "review_comments_url": format!("{url}/comments"),
        "review_comment_url": format!("{}/pulls/comments{{/number}}", repository_url(state, &repo.full_name)),
        "comments_url": format!("{issue_url}/comments"),
        "statuses_url": statuses,
        "number": number,
        "state": if issue.open { "open" } else { "closed" },
        "locked": issue.locked,
        "title": issue.title,
        "user": user(state, &issue.author),
        "body": issue.body,
        "labels": labels(state, repo, issue),
        "milestone": null,
        "active_lock_reason": null,
        "created_at": iso(issue.created_at),
        "updated_at": iso(issue.updated_at),
        "closed_at": iso_or_null(issue.closed_at),
        "merged_at": iso_or_null(pull.merged_at),
        "merge_commit_sha": pull.merge_commit_sha,
        "assignee": null,
        "assignees": [],
        "requested_reviewers": [],
        "requested_teams": [],
        "head": {
            "label": format!("{head_owner}:{}", pull.head_branch),
            "ref": pull.head_branch,
            "sha": pull.head_sha,
            "user": user(state, head_owner),
            "repo": head_repo.map(|found| repository(state, found)),
        },
        "base": {
            "label": format!("{}:{}", repo.owner, pull.base_branch),
            "ref": pull.base_branch,
            "sha": pull.base_sha,
            "user": user(state, &repo.owner),
            "repo": repository(state, repo),
        },
        "_links": {
            "self": href(url.clone()),
            "html": href(page),
            "issue": href(issue_url.clone()),
            "comments": href(format!("{issue_url}/comments")),
            "review_comments": href(format!("{url}/comments")),
            "review_comment": href(format!("{}/pulls/comments{{/number}}", repository_url(state, &repo.full_name))),
            "commits": href(format!("{url}/commits")),
            "statuses": href(statuses),
        },
        "author_association": state.association(&repo.full_name, &issue.author),
        "auto_merge": null,
        "draft": pull.draft,
    })
}

/// `pull-request`, with what GitHub has computed so far about merging it.
pub fn pull(state: &State, repo: &Repository, issue: &Issue, pull: &PullRequest) -> Value {
    let mut shape = simple_pull(state, repo, issue, pull);
    extend(
        &mut shape,
        json!({
            "merged": pull.merged_at.is_some(),
            "mergeable": if issue.open { json!(pull.mergeable) } else { Value::Null },
            "rebaseable": if issue.open { json!(pull.mergeable) } else { Value::Null },
            "mergeable_state": state.mergeable_state(&repo.full_name, issue.number),
            "merged_by": pull.merged_by.as_ref().map(|login| user(state, login)),
            "comments": state.comments_of(&repo.full_name, issue.number).count(),
            "review_comments": 0,
            "maintainer_can_modify": false,
            "commits": pull.commits,
            "additions": pull.additions,
            "deletions": pull.deletions,
            "changed_files": pull.changed_files,
        }),
    );
    shape
}

/// A pull request as GitHub shows it before its background job has computed the test merge.
pub fn forget_mergeability(mut pull: Value) -> Value {
    pull["mergeable"] = Value::Null;
    pull["rebaseable"] = Value::Null;
    pull["mergeable_state"] = json!("unknown");
    pull
}

/// `pull-request-minimal`, inside checks and workflow runs.
pub fn minimal_pull(state: &State, repo: &Repository, issue: &Issue, pull: &PullRequest) -> Value {
    let url = repository_url(state, &repo.full_name);
    let side = |branch: &str, sha: &str| json!({"ref": branch, "sha": sha, "repo": {"id": repo.id, "url": url, "name": repo.name}});
    json!({
        "id": pull.id,
        "number": issue.number,
        "url": format!("{url}/pulls/{}", issue.number),
        "head": side(&pull.head_branch, &pull.head_sha),
        "base": side(&pull.base_branch, &pull.base_sha),
    })
}

/// The pull requests of this repository whose head is this commit; forks' are left out, as GitHub does.
pub fn pulls_of_commit(state: &State, repo: &Repository, sha: &str) -> Vec<Value> {
    let numbers = state.pulls_with_head(&repo.full_name, sha);
    let found = numbers.into_iter().filter_map(|number| state.pull(&repo.full_name, number));
    found.map(|(issue, pull)| minimal_pull(state, repo, issue, pull)).collect()
}

pub fn review(state: &State, repo: &Repository, number: i64, review: &Review) -> Value {
    let page = format!("{}/{}/pull/{number}", state.site.web, repo.full_name);
    let url = format!("{}/pulls/{number}", repository_url(state, &repo.full_name));
    json!({
        "id": review.id,
        "node_id": node_id("PullRequestReview", review.id),
        "user": user(state, &review.author),
        "body": review.body,
        "state": review.state,
        "html_url": format!("{page}#pullrequestreview-{}", review.id),
        "pull_request_url": url,
        "author_association": state.association(&repo.full_name, &review.author),
        "_links": {
            "html": {"href": format!("{page}#pullrequestreview-{}", review.id)},
            "pull_request": {"href": url},
        },
        "submitted_at": iso(review.submitted_at),
        "commit_id": review.commit_id,
    })
}
