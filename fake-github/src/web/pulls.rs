//! Pull requests: list, conversation, checks, changes, review and merge.

use crate::state::checks::CheckRun;
use crate::state::issues::{Issue, PullRequest};

use super::Visit;
use super::html::{badge, button, escape, link, safe_target};
use super::issues::conversation;
use super::markdown;
use super::overview::{Page, navigation, readable};

fn state_word(issue: &Issue, pull: &PullRequest) -> &'static str {
    match () {
        () if pull.merged_at.is_some() => "merged",
        () if !issue.open => "closed",
        () if pull.draft => "draft",
        () => "open",
    }
}

pub fn list(visit: &Visit, repo: &str) -> Option<Page> {
    let repo = readable(visit, repo)?;
    let issues = visit.hub.issues(&repo);
    let rows: String = issues
        .iter()
        .rev()
        .filter_map(|issue| Some((issue, issue.pull.as_ref()?)))
        .map(|(issue, pull)| {
            let target = format!("/{repo}/pull/{}", issue.number);
            let text = format!("#{} {}", issue.number, issue.title);
            format!(
                "<li>{} {} <span class=note>{}</span></li>",
                link(&target, &text),
                badge(state_word(issue, pull)),
                escape(&issue.author)
            )
        })
        .collect();
    let empty = if rows.is_empty() { "<p>No pull requests.</p>" } else { "" };
    Some((format!("Pull requests of {repo}"), format!("{}{empty}<ul class=list>{rows}</ul>", navigation(&repo))))
}

pub fn pull(visit: &Visit, repo: &str, number: &str) -> Option<Page> {
    let repo = readable(visit, repo)?;
    let issue = visit.hub.issue(&repo, number.parse().ok()?)?;
    let pull = issue.pull.as_ref()?;
    let path = format!("/{repo}/pull/{}", issue.number);
    let body = format!(
        "{}<p>{} {} wants to merge {} commits into <code>{}</code> from <code>{}</code></p>\
         <h2>Conversation</h2>{}<h2>Reviews</h2>{}<h2>Checks</h2>{}<h2>Merge</h2>{}<h2>Changes</h2>{}",
        navigation(&repo),
        badge(state_word(&issue, pull)),
        escape(&issue.author),
        pull.commits,
        escape(&pull.base_branch),
        escape(&pull.head_branch),
        conversation(visit, &repo, issue.number, &path),
        reviews(&issue, pull, &path),
        checks(visit, &repo, &pull.head_sha),
        merge_box(visit, &repo, &issue, pull, &path),
        changes(visit, &repo, pull),
    );
    Some((format!("#{} {}", issue.number, issue.title), body))
}

fn reviews(issue: &Issue, pull: &PullRequest, path: &str) -> String {
    let given: String = pull
        .reviews
        .iter()
        .map(|review| {
            let stale = if review.commit_id == pull.head_sha { "" } else { " (of an older commit)" };
            let state = review.state.to_lowercase().replace('_', " ");
            format!("<li>{} {}{stale}{}</li>", escape(&review.author), badge(&state), markdown::render(&review.body))
        })
        .collect();
    let forms = match issue.open {
        true => format!(
            "<div class=row>{}{}</div>",
            button(&format!("{path}/review"), "Approve", &[("event", "approve")]),
            button(&format!("{path}/review"), "Request changes", &[("event", "request_changes")]),
        ),
        false => String::new(),
    };
    format!("<ul class=list>{given}</ul>{forms}")
}

fn checks(visit: &Visit, repo: &str, sha: &str) -> String {
    let runs = visit.hub.check_runs(repo, sha);
    if runs.is_empty() {
        return "<p>No checks yet.</p>".to_owned();
    }
    runs.iter().map(|run| check_details(repo, run)).collect()
}

fn check_details(repo: &str, run: &CheckRun) -> String {
    let state = run.conclusion.as_deref().unwrap_or(&run.status);
    let title = run.title.as_deref().unwrap_or_default();
    let details =
        run.details_url.as_deref().map(|url| format!("<p><a href=\"{}\">Details</a></p>", escape(safe_target(url))));
    let text = [&run.summary, &run.text].into_iter().flatten().map(|text| markdown::render(text)).collect::<String>();
    format!(
        "<details><summary>{} <b>{}</b> {}</summary>{}{text}{}</details>",
        badge(state),
        escape(&run.name),
        escape(title),
        details.unwrap_or_default(),
        button(&format!("/{repo}/runs/{}/rerequest", run.id), "Re-run", &[]),
    )
}

pub fn check(visit: &Visit, repo: &str, id: &str) -> Option<Page> {
    let repo = readable(visit, repo)?;
    let id: i64 = id.parse().ok()?;
    let run = visit.hub.lock().check_runs.get(&id).filter(|run| run.repo == repo).cloned()?;
    let html = check_details(&repo, &run).replacen("<details>", "<details open>", 1);
    Some((run.name, format!("{}{html}", navigation(&repo))))
}

fn merge_box(visit: &Visit, repo: &str, issue: &Issue, pull: &PullRequest, path: &str) -> String {
    if let Some(by) = &pull.merged_by {
        let sha = pull.merge_commit_sha.as_deref().unwrap_or_default();
        return format!("<p>Merged by {} as <code>{}</code>.</p>", escape(by), escape(sha.get(..7).unwrap_or(sha)));
    }
    if !issue.open {
        return button(&format!("{path}/reopen"), "Reopen", &[]);
    }
    let blockers = visit.hub.merge_blockers(repo, issue.number);
    let mut html: String = blockers.iter().map(|blocker| format!("<li>{}</li>", escape(blocker))).collect();
    if blockers.is_empty() {
        html = button(&format!("{path}/merge"), "Merge pull request", &[]);
    } else {
        html = format!("<p>Merging is blocked:</p><ul class=list>{html}</ul>");
    }
    if pull.draft {
        html.push_str(&button(&format!("{path}/ready"), "Ready for review", &[]));
    }
    format!("{html}{}", button(&format!("{path}/close"), "Close pull request", &[]))
}

fn changes(visit: &Visit, repo: &str, pull: &PullRequest) -> String {
    let git = &visit.hub.site().git;
    let from = git.merge_base(repo, &pull.base_sha, &pull.head_sha).unwrap_or_else(|| pull.base_sha.clone());
    let files = git.diff(repo, &from, &pull.head_sha);
    files
        .iter()
        .map(|file| {
            let lines: String = file.patch.as_deref().unwrap_or("(no text to show)").lines().map(diff_line).collect();
            format!(
                "<details open><summary><code>{}</code> <span class=good>+{}</span> <span class=bad>−{}</span></summary><pre>{lines}</pre></details>",
                escape(&file.path),
                file.additions,
                file.deletions
            )
        })
        .collect()
}

fn diff_line(line: &str) -> String {
    let class = match line.as_bytes().first() {
        Some(b'+') => "add",
        Some(b'-') => "del",
        Some(b'@') => "hunk",
        _ => "same",
    };
    format!("<span class={class}>{}</span>\n", escape(line))
}
