//! Repositories, environments, labels, branch protection.

use serde_json::{Value, json};

use crate::state::State;
use crate::state::repositories::{Label, Protection, Repository, StoredEnvironment};

use super::{extend, iso, node_id, user};

/// The URL members that every shape of a repository has.
const URLS: [(&str, &str); 37] = [
    ("archive_url", "/{archive_format}{/ref}"),
    ("assignees_url", "/assignees{/user}"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("branches_url", "/branches{/branch}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("comments_url", "/comments{/number}"),
    ("commits_url", "/commits{/sha}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("contents_url", "/contents/{+path}"),
    ("contributors_url", "/contributors"),
    ("deployments_url", "/deployments"),
    ("downloads_url", "/downloads"),
    ("events_url", "/events"),
    ("forks_url", "/forks"),
    ("git_commits_url", "/git/commits{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("hooks_url", "/hooks"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("issue_events_url", "/issues/events{/number}"),
    ("issues_url", "/issues{/number}"),
    ("keys_url", "/keys{/key_id}"),
    ("labels_url", "/labels{/name}"),
    ("languages_url", "/languages"),
    ("merges_url", "/merges"),
    ("milestones_url", "/milestones{/number}"),
    ("notifications_url", "/notifications{?since,all,participating}"),
    ("pulls_url", "/pulls{/number}"),
    ("releases_url", "/releases{/id}"),
    ("stargazers_url", "/stargazers"),
    ("statuses_url", "/statuses/{sha}"),
    ("subscribers_url", "/subscribers"),
    ("subscription_url", "/subscription"),
    ("tags_url", "/tags"),
    ("teams_url", "/teams"),
    ("trees_url", "/git/trees{/sha}"),
    ("url", ""),
];

pub fn repository_url(state: &State, full_name: &str) -> String {
    format!("{}/repos/{full_name}", state.site.api())
}

/// `minimal-repository`, the shape inside workflow runs and check suites.
pub fn minimal_repository(state: &State, repo: &Repository) -> Value {
    let url = repository_url(state, &repo.full_name);
    let mut shape = json!({
        "id": repo.id,
        "node_id": node_id("Repository", repo.id),
        "name": repo.name,
        "full_name": repo.full_name,
        "private": repo.private,
        "owner": user(state, &repo.owner),
        "html_url": format!("{}/{}", state.site.web, repo.full_name),
        "description": null,
        "fork": false,
    });
    for (name, rest) in URLS {
        shape[name] = json!(format!("{url}{rest}"));
    }
    shape
}

/// `repository`, the shape of lists, webhooks and pull requests.
pub fn repository(state: &State, repo: &Repository) -> Value {
    let mut shape = minimal_repository(state, repo);
    let open = repo.issues.values().filter(|issue| issue.open).count();
    let page = format!("{}/{}", state.site.web, repo.full_name);
    let host = state.site.web.trim_start_matches("http://");
    extend(
        &mut shape,
        json!({
            "created_at": iso(repo.created_at),
            "updated_at": iso(repo.pushed_at),
            "pushed_at": iso(repo.pushed_at),
            "git_url": format!("git://{host}/{}.git", repo.full_name),
            "ssh_url": format!("git@{host}:{}.git", repo.full_name),
            "clone_url": format!("{page}.git"),
            "svn_url": page,
            "homepage": null,
            "size": 1,
            "stargazers_count": 0,
            "watchers_count": 0,
            "language": "HCL",
            "has_issues": true,
            "has_projects": false,
            "has_downloads": true,
            "has_wiki": false,
            "has_pages": false,
            "has_discussions": false,
            "forks_count": 0,
            "mirror_url": null,
            "archived": false,
            "disabled": false,
            "open_issues_count": open,
            "license": null,
            "allow_forking": true,
            "is_template": false,
            "web_commit_signoff_required": false,
            "topics": [],
            "visibility": if repo.private { "private" } else { "public" },
            "forks": 0,
            "open_issues": open,
            "watchers": 0,
            "default_branch": repo.default_branch,
        }),
    );
    shape
}

/// `full-repository`, as `GET /repos/{owner}/{repo}` answers.
pub fn full_repository(state: &State, repo: &Repository) -> Value {
    let mut shape = repository(state, repo);
    extend(
        &mut shape,
        json!({
            "subscribers_count": 0, "network_count": 0, "allow_merge_commit": true, "allow_squash_merge": false,
            "allow_rebase_merge": false, "delete_branch_on_merge": false, "temp_clone_token": null,
        }),
    );
    if state.account(&repo.owner).is_some_and(|owner| owner.kind == crate::state::accounts::Kind::Organization) {
        shape["organization"] = user(state, &repo.owner);
    }
    shape
}

pub fn environment(state: &State, repo: &Repository, stored: &StoredEnvironment) -> Value {
    let rules = &stored.rules;
    let mut protection = Vec::new();
    if rules.wait_timer_minutes > 0 {
        protection.push(json!({
            "id": rules.id * 10 + 1, "node_id": node_id("Gate", rules.id * 10 + 1), "type": "wait_timer",
            "wait_timer": rules.wait_timer_minutes,
        }));
    }
    if !rules.reviewers.is_empty() {
        protection.push(json!({
            "id": rules.id * 10 + 2, "node_id": node_id("Gate", rules.id * 10 + 2), "type": "required_reviewers",
            "prevent_self_review": rules.prevent_self_review,
            "reviewers": rules.reviewers.iter().map(|name| reviewer(state, &repo.owner, name)).collect::<Vec<_>>(),
        }));
    }
    if !stored.branch_patterns.is_empty() {
        let id = rules.id * 10 + 3;
        protection.push(json!({"id": id, "node_id": node_id("Gate", id), "type": "branch_policy"}));
    }
    let policy = if stored.branch_patterns.is_empty() {
        Value::Null
    } else {
        json!({"protected_branches": false, "custom_branch_policies": true})
    };
    json!({
        "id": rules.id,
        "node_id": node_id("Environment", rules.id),
        "name": rules.name,
        "url": format!("{}/environments/{}", repository_url(state, &repo.full_name), encode(&rules.name)),
        "html_url": format!("{}/{}/settings/environments", state.site.web, repo.full_name),
        "created_at": iso(stored.created_at),
        "updated_at": iso(stored.updated_at),
        "protection_rules": protection,
        "deployment_branch_policy": policy,
    })
}

/// A person, or a team of the repository's owner.
pub fn reviewer(state: &State, owner: &str, name: &str) -> Value {
    let slug = name.rsplit('/').next().unwrap_or(name);
    match state.team(owner, slug) {
        Some(found) if state.account(name).is_none() => json!({"type": "Team", "reviewer": super::team(state, found)}),
        _ => json!({"type": "User", "reviewer": user(state, name)}),
    }
}

pub fn label(state: &State, repo: &str, label: &Label) -> Value {
    json!({
        "id": label.id,
        "node_id": node_id("Label", label.id),
        "url": format!("{}/labels/{}", repository_url(state, repo), encode(&label.name)),
        "name": label.name,
        "description": label.description,
        "color": label.color,
        "default": false,
    })
}

/// The rules of a branch, as `GET …/rules/branches/{branch}` lists them.
pub fn branch_rules(repo: &Repository, rules: &Protection) -> Vec<Value> {
    let source = json!({"ruleset_source_type": "Repository", "ruleset_source": repo.full_name, "ruleset_id": repo.id});
    let mut list = Vec::new();
    if !rules.required_checks.is_empty() {
        let checks: Vec<Value> = rules
            .required_checks
            .iter()
            .map(|check| match check.app_id {
                Some(app) => json!({"context": check.context, "integration_id": app}),
                None => json!({"context": check.context}),
            })
            .collect();
        list.push(json!({
            "type": "required_status_checks",
            "parameters": {
                "required_status_checks": checks, "strict_required_status_checks_policy": rules.strict,
                "do_not_enforce_on_create": false,
            },
        }));
    }
    if rules.required_approvals > 0 {
        list.push(json!({
            "type": "pull_request",
            "parameters": {
                "required_approving_review_count": rules.required_approvals,
                "dismiss_stale_reviews_on_push": rules.dismiss_stale_approvals,
                "require_code_owner_review": false,
                "require_last_push_approval": false,
                "required_review_thread_resolution": false,
            },
        }));
    }
    for rule in &mut list {
        extend(rule, source.clone());
    }
    list
}

/// A path segment with everything but unreserved characters escaped.
pub fn encode(segment: &str) -> String {
    const UNRESERVED: &percent_encoding::AsciiSet =
        &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    percent_encoding::utf8_percent_encode(segment, UNRESERVED).to_string()
}
