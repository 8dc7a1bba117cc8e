//! The first page, a repository, its environments.

use super::Visit;
use super::html::{escape, link};

/// Title and body of a page.
pub type Page = (String, String);

pub fn home(visit: &Visit) -> Page {
    let state = visit.hub.lock();
    let repositories: String = state
        .repositories
        .values()
        .filter(|repo| state.role(&repo.full_name, &visit.login) >= crate::state::roles::Role::Read)
        .map(|repo| {
            let open = repo.issues.values().filter(|issue| issue.open && issue.pull.is_some()).count();
            format!("<li>{} · {open} open pull requests</li>", link(&format!("/{}", repo.full_name), &repo.full_name))
        })
        .collect();
    let empty = if repositories.is_empty() { "<p>No repository is visible to you.</p>" } else { "" };
    ("Repositories".to_owned(), format!("<ul class=list>{repositories}</ul>{empty}"))
}

/// Links between the pages of a repository.
pub fn navigation(repo: &str) -> String {
    let pages = [
        ("Code", ""),
        ("Pull requests", "/pulls"),
        ("Issues", "/issues"),
        ("Actions", "/actions"),
        ("Environments", "/settings/environments"),
    ];
    let links: String =
        pages.iter().map(|(label, rest)| link(&format!("/{repo}{rest}"), label)).collect::<Vec<_>>().join(" ");
    format!("<nav aria-label=Repository>{links}</nav>")
}

/// The repository's name in its own letter case, if the visitor may read it.
pub fn readable(visit: &Visit, repo: &str) -> Option<String> {
    let state = visit.hub.lock();
    let found = state.repository(repo)?;
    (state.role(&found.full_name, &visit.login) >= crate::state::roles::Role::Read).then(|| found.full_name.clone())
}

pub fn repository(visit: &Visit, repo: &str) -> Option<Page> {
    const COMMITS_SHOWN: usize = 20;
    let repo = readable(visit, repo)?;
    let branch = visit.hub.lock().repository(&repo)?.default_branch.clone();
    let git = &visit.hub.site().git;
    let mut body = navigation(&repo);
    let head = git.resolve(&repo, &format!("refs/heads/{branch}"));
    let Some(head) = head else {
        body.push_str("<p>This repository is empty.</p>");
        return Some((repo, body));
    };
    let files: String = git
        .tree(&repo, &head, "", true)
        .iter()
        .filter(|entry| entry.kind == "blob")
        .map(|entry| format!("<li><code>{}</code></li>", escape(&entry.path)))
        .collect();
    let commits: String = git
        .commits(&repo, &[&head], COMMITS_SHOWN)
        .iter()
        .map(|commit| {
            let title = commit.message.lines().next().unwrap_or_default();
            format!(
                "<li><code>{}</code> {} <span class=note>{}</span></li>",
                &commit.sha[..7],
                escape(title),
                escape(&commit.author.name)
            )
        })
        .collect();
    let clone = format!("{}/{repo}.git", visit.hub.base_url());
    body.push_str(&format!("<p>Clone: <code>{}</code></p>", escape(&clone)));
    body.push_str(&format!("<h2>Commits on {}</h2><ul class=list>{commits}</ul>", escape(&branch)));
    body.push_str(&format!("<details><summary>Files</summary><ul class=list>{files}</ul></details>"));
    Some((repo, body))
}

pub fn environments(visit: &Visit, repo: &str) -> Option<Page> {
    let repo = readable(visit, repo)?;
    let state = visit.hub.lock();
    let rows: String = state
        .repository(&repo)?
        .environments
        .values()
        .map(|stored| {
            let rules = &stored.rules;
            let reviewers = if rules.reviewers.is_empty() { "none".to_owned() } else { rules.reviewers.join(", ") };
            let app = if rules.protection_rule_app { "asks the app" } else { "" };
            format!(
                "<tr><td>{}</td><td>{}</td><td>{} min</td><td>{app}</td></tr>",
                escape(&rules.name),
                escape(&reviewers),
                rules.wait_timer_minutes
            )
        })
        .collect();
    let table = format!(
        "<table><thead><tr><th>Environment</th><th>Reviewers</th><th>Wait</th><th>Rule</th></tr></thead><tbody>{rows}</tbody></table>"
    );
    let empty =
        if rows.is_empty() { "<p>No environments yet: the first job that names one creates it.</p>" } else { "" };
    Some((format!("Environments of {repo}"), format!("{}{empty}{table}", navigation(&repo))))
}
