//! Issues, and the conversation that issues and pull requests share.

use crate::shapes::iso;

use super::Visit;
use super::html::{badge, button, escape, link};
use super::markdown;
use super::overview::{Page, navigation, readable};

pub fn list(visit: &Visit, repo: &str) -> Option<Page> {
    let repo = readable(visit, repo)?;
    let issues = visit.hub.issues(&repo);
    let rows: String = issues
        .iter()
        .rev()
        .filter(|issue| issue.pull.is_none())
        .map(|issue| {
            let state = badge(if issue.open { "open" } else { "closed" });
            let target = format!("/{repo}/issues/{}", issue.number);
            format!(
                "<li>{} {state} <span class=note>{}</span></li>",
                link(&target, &format!("#{} {}", issue.number, issue.title)),
                escape(&issue.labels.join(", "))
            )
        })
        .collect();
    let empty = if rows.is_empty() { "<p>No issues.</p>" } else { "" };
    Some((format!("Issues of {repo}"), format!("{}{empty}<ul class=list>{rows}</ul>", navigation(&repo))))
}

pub fn issue(visit: &Visit, repo: &str, number: &str) -> Option<Page> {
    let repo = readable(visit, repo)?;
    let issue = visit.hub.issue(&repo, number.parse().ok()?)?;
    let state = badge(if issue.open { "open" } else { "closed" });
    let path = format!("/{repo}/issues/{}", issue.number);
    let toggle = match issue.open {
        true => button(&format!("{path}/close"), "Close issue", &[]),
        false => button(&format!("{path}/reopen"), "Reopen issue", &[]),
    };
    let body =
        format!("{}<p>{state}</p>{}{toggle}", navigation(&repo), conversation(visit, &repo, issue.number, &path));
    Some((format!("#{} {}", issue.number, issue.title), body))
}

/// The description, every comment, and a box for another one.
pub fn conversation(visit: &Visit, repo: &str, number: i64, path: &str) -> String {
    let Some(issue) = visit.hub.issue(repo, number) else { return String::new() };
    let mut html =
        article("", &issue.author, issue.created_at, issue.body.as_deref().unwrap_or("*No description.*"), "");
    for comment in visit.hub.comments(repo, number) {
        let reactions: Vec<&str> = comment.reactions.iter().map(|reaction| emoji(&reaction.content)).collect();
        let id = format!("issuecomment-{}", comment.id);
        html.push_str(&article(&id, &comment.author, comment.created_at, &comment.body, &reactions.join(" ")));
    }
    html.push_str(&format!(
        "<form method=post action=\"{}/comment\"><label>Comment as <b>{}</b><textarea name=body required></textarea></label>\
         <button>Comment</button></form>",
        escape(path),
        escape(&visit.login)
    ));
    html
}

fn article(id: &str, author: &str, at: i64, body: &str, reactions: &str) -> String {
    format!(
        "<article id=\"{}\"><h3><b>{}</b> <span class=note>{}</span></h3>{}<p>{reactions}</p></article>",
        escape(id),
        escape(author),
        iso(at),
        markdown::render(body)
    )
}

fn emoji(content: &str) -> &'static str {
    match content {
        "+1" => "👍",
        "-1" => "👎",
        "laugh" => "😄",
        "confused" => "😕",
        "heart" => "❤️",
        "hooray" => "🎉",
        "rocket" => "🚀",
        _ => "👀",
    }
}
