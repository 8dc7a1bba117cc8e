//! Comments with their reactions, and the issues that drift opens.

use reqwest::Method;
use serde::{Deserialize, Serialize};

use super::GitHubClient;
use crate::github::api::{Comment, GitHubError, Issue, Reaction, RepoRef, Result};

#[derive(Serialize)]
struct Body<'a> {
    body: &'a str,
}

#[derive(Deserialize)]
struct User {
    login: String,
}

pub(super) async fn list(client: &GitHubClient, repo: &RepoRef, number: i64) -> Result<Vec<Comment>> {
    #[derive(Deserialize)]
    struct Written {
        id: i64,
        user: Option<User>,
        body: Option<String>,
    }
    let segments = ["issues", &number.to_string(), "comments"];
    let call = client.root.repo_call(Method::GET, repo, &segments, &format!("comments on {number}"))?;
    let pages: Vec<Vec<Written>> = client.pages(call.list()).await?;
    let comments = pages.into_iter().flatten().map(|comment| Comment {
        id: comment.id,
        author: comment.user.map(|user| user.login).unwrap_or_default(),
        body: comment.body.unwrap_or_default(),
    });
    Ok(comments.collect())
}

pub(super) async fn create(client: &GitHubClient, repo: &RepoRef, number: i64, body: &str) -> Result<i64> {
    #[derive(Deserialize)]
    struct Created {
        id: i64,
    }
    let segments = ["issues", &number.to_string(), "comments"];
    let call = client.root.repo_call(Method::POST, repo, &segments, &format!("a comment on {number}"))?;
    let created: Created = client.read(call.json(&Body { body }).once()).await?;
    Ok(created.id)
}

pub(super) async fn edit(client: &GitHubClient, repo: &RepoRef, id: i64, body: &str) -> Result<()> {
    let segments = ["issues", "comments", &id.to_string()];
    let call = client.root.repo_call(Method::PATCH, repo, &segments, &format!("comment {id}"))?;
    client.tell(call.json(&Body { body })).await
}

/// A comment that is gone already is deleted.
pub(super) async fn delete(client: &GitHubClient, repo: &RepoRef, id: i64) -> Result<()> {
    let segments = ["issues", "comments", &id.to_string()];
    let call = client.root.repo_call(Method::DELETE, repo, &segments, &format!("comment {id}"))?;
    match client.tell(call).await {
        Err(GitHubError::NotFound { .. }) => Ok(()),
        told => told,
    }
}

/// GitHub keeps one reaction of each kind and person, so a second call changes nothing.
pub(super) async fn react(client: &GitHubClient, repo: &RepoRef, comment_id: i64, reaction: Reaction) -> Result<()> {
    #[derive(Serialize)]
    struct Content {
        content: &'static str,
    }
    let content = match reaction {
        Reaction::Eyes => "eyes",
        Reaction::Rocket => "rocket",
    };
    let segments = ["issues", "comments", &comment_id.to_string(), "reactions"];
    let call = client.root.repo_call(Method::POST, repo, &segments, &format!("comment {comment_id}"))?;
    client.tell(call.json(&Content { content })).await
}

pub(super) async fn issues(client: &GitHubClient, repo: &RepoRef, label: &str) -> Result<Vec<Issue>> {
    #[derive(Deserialize)]
    struct Listed {
        number: i64,
        title: String,
        body: Option<String>,
        pull_request: Option<serde::de::IgnoredAny>,
    }
    let call = client.root.repo_call(Method::GET, repo, &["issues"], &format!("issues labelled {label}"))?;
    let call = call.query("state", "open").query("labels", label).list();
    let pages: Vec<Vec<Listed>> = client.pages(call).await?;
    let issues = pages.into_iter().flatten().filter(|listed| listed.pull_request.is_none()).map(|listed| Issue {
        number: listed.number,
        title: listed.title,
        body: listed.body.unwrap_or_default(),
    });
    Ok(issues.collect())
}

pub(super) async fn create_issue(
    client: &GitHubClient,
    repo: &RepoRef,
    title: &str,
    body: &str,
    label: &str,
) -> Result<i64> {
    #[derive(Serialize)]
    struct NewIssue<'a> {
        title: &'a str,
        body: &'a str,
        labels: [&'a str; 1],
    }
    #[derive(Deserialize)]
    struct Created {
        number: i64,
    }
    let call = client.root.repo_call(Method::POST, repo, &["issues"], "an issue")?;
    let created: Created = client.read(call.json(&NewIssue { title, body, labels: [label] }).once()).await?;
    Ok(created.number)
}

pub(super) async fn edit_issue(client: &GitHubClient, repo: &RepoRef, number: i64, body: &str) -> Result<()> {
    let segments = ["issues", &number.to_string()];
    let call = client.root.repo_call(Method::PATCH, repo, &segments, &format!("issue {number}"))?;
    client.tell(call.json(&Body { body })).await
}

pub(super) async fn close_issue(client: &GitHubClient, repo: &RepoRef, number: i64) -> Result<()> {
    #[derive(Serialize)]
    struct State {
        state: &'static str,
    }
    let segments = ["issues", &number.to_string()];
    let call = client.root.repo_call(Method::PATCH, repo, &segments, &format!("issue {number}"))?;
    client.tell(call.json(&State { state: "closed" })).await
}
