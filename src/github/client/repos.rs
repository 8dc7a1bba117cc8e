//! The App, its installations, and what stands in a repository: files, commits, trees, people's permissions.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use serde::Deserialize;

use super::GitHubClient;
use super::call::Caller;
use super::send::unreadable;
use crate::github::api::{
    Comparison, GitHubError, InstallationFacts, Membership, Permission, RepoRef, RepositoryFacts, Result,
};
use crate::ids::{RepoName, Sha};

pub(super) async fn bot_login(client: &GitHubClient) -> Result<String> {
    #[derive(Deserialize)]
    struct App {
        slug: String,
    }
    let app: App = client.read(client.root.call(Method::GET, Caller::App, &["app"], "the App")?).await?;
    Ok(format!("{}[bot]", app.slug))
}

pub(super) async fn installations(client: &GitHubClient) -> Result<Vec<InstallationFacts>> {
    let call = client.root.call(Method::GET, Caller::App, &["app", "installations"], "installations")?;
    let pages: Vec<Vec<Installation>> = client.pages(call.list()).await?;
    Ok(pages.into_iter().flatten().map(InstallationFacts::from).collect())
}

#[derive(Deserialize)]
struct Installation {
    id: i64,
    account: Option<Account>,
    suspended_at: Option<String>,
}

/// A user or an organisation; an enterprise has a slug instead of a login.
#[derive(Deserialize)]
struct Account {
    login: Option<String>,
    slug: Option<String>,
    r#type: Option<String>,
}

impl From<Installation> for InstallationFacts {
    fn from(installation: Installation) -> Self {
        let account = installation.account.unwrap_or(Account { login: None, slug: None, r#type: None });
        Self {
            id: installation.id,
            account: account.login.or(account.slug).unwrap_or_default(),
            account_type: account.r#type.unwrap_or_default(),
            suspended: installation.suspended_at.is_some(),
        }
    }
}

pub(super) async fn of_installation(client: &GitHubClient, installation_id: i64) -> Result<Vec<RepositoryFacts>> {
    #[derive(Deserialize)]
    struct Page {
        repositories: Vec<Repository>,
    }
    let what = format!("repositories of installation {installation_id}");
    let segments = ["installation", "repositories"];
    let call = client.root.call(Method::GET, Caller::Installation(installation_id), &segments, &what)?;
    let pages: Vec<Page> = client.pages(call.list()).await?;
    pages.into_iter().flat_map(|page| page.repositories).map(|repository| facts(repository, &what)).collect()
}

pub(super) async fn one(client: &GitHubClient, repo: &RepoRef) -> Result<RepositoryFacts> {
    let call = client.root.repo_call(Method::GET, repo, &[], "facts")?;
    facts(client.read(call).await?, repo.name.as_str())
}

#[derive(Deserialize)]
struct Repository {
    id: i64,
    full_name: String,
    default_branch: String,
    private: bool,
}

fn facts(repository: Repository, what: &str) -> Result<RepositoryFacts> {
    Ok(RepositoryFacts {
        id: repository.id,
        name: RepoName::parse(&repository.full_name).map_err(|error| unreadable(what, error))?,
        default_branch: repository.default_branch,
        private: repository.private,
    })
}

pub(super) async fn file(
    client: &GitHubClient,
    repo: &RepoRef,
    path: &str,
    reference: &str,
) -> Result<Option<Vec<u8>>> {
    /// A file, or what stands in its place: a submodule has another type.
    #[derive(Deserialize)]
    struct Contents {
        r#type: String,
        content: Option<String>,
        encoding: Option<String>,
    }
    let mut segments = vec!["contents"];
    segments.extend(path.split('/'));
    let found = async {
        let call = client.root.repo_call(Method::GET, repo, &segments, path)?.query("ref", reference);
        Ok((client.read::<serde_json::Value>(call.clone()).await?, call))
    };
    let (found, call) = match found.await {
        Ok((found, call)) if !found.is_array() => (found, call),
        // A list is a directory.
        Ok(_) | Err(GitHubError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let contents: Contents = serde_json::from_value(found).map_err(|error| unreadable(&call.what, error))?;
    if contents.r#type != "file" {
        return Ok(None);
    }
    match (contents.content, contents.encoding) {
        (Some(content), Some(encoding)) if encoding == "base64" => {
            let lines: String = content.split_ascii_whitespace().collect();
            BASE64_STANDARD.decode(lines).map(Some).map_err(|error| unreadable(&call.what, error))
        }
        // Above 1 MB GitHub gives the text of a file only as such.
        _ => Ok(Some(client.send(&call.raw()).await?.body)),
    }
}

pub(super) async fn branch_head(client: &GitHubClient, repo: &RepoRef, branch: &str) -> Result<Sha> {
    #[derive(Deserialize)]
    struct Reference {
        object: Object,
    }
    #[derive(Deserialize)]
    struct Object {
        sha: String,
    }
    let mut segments = vec!["git", "ref", "heads"];
    segments.extend(branch.split('/'));
    let what = format!("branch {branch}");
    let reference: Reference = client.read(client.root.repo_call(Method::GET, repo, &segments, &what)?).await?;
    Sha::parse(&reference.object.sha).map_err(|error| unreadable(&what, error))
}

pub(super) async fn commit(client: &GitHubClient, repo: &RepoRef, sha: &Sha) -> Result<(String, String)> {
    #[derive(Deserialize)]
    struct Commit {
        commit: Inner,
        author: Option<User>,
    }
    #[derive(Deserialize)]
    struct Inner {
        message: String,
    }
    /// `{}` where the author has no account.
    #[derive(Deserialize)]
    struct User {
        login: Option<String>,
    }
    let what = format!("commit {}", sha.short());
    let call = client.root.repo_call(Method::GET, repo, &["commits", sha.as_str()], &what)?;
    let commit: Commit = client.read(call).await?;
    let subject = commit.commit.message.lines().next().unwrap_or_default().to_owned();
    Ok((subject, commit.author.and_then(|user| user.login).unwrap_or_default()))
}

/// GitHub lists no more changed files than this, and only on the first page.
const COMPARE_FILES_MAX: usize = 300;

pub(super) async fn compare(client: &GitHubClient, repo: &RepoRef, base: &str, head: &str) -> Result<Comparison> {
    #[derive(Deserialize)]
    struct Page {
        #[serde(default)]
        commits: Vec<Commit>,
        #[serde(default)]
        files: Vec<ChangedFile>,
    }
    #[derive(Deserialize)]
    struct Commit {
        sha: String,
    }
    let range = format!("{base}...{head}");
    let call = client.root.repo_call(Method::GET, repo, &["compare", &range], &format!("comparison {range}"))?;
    let pages: Vec<Page> = client.pages(call.list()).await?;
    let truncated = pages.first().is_some_and(|page| page.files.len() >= COMPARE_FILES_MAX);
    let files = both_names(pages.iter().flat_map(|page| &page.files));
    let commits = pages.into_iter().flat_map(|page| page.commits).map(|commit| commit.sha).collect();
    Ok(Comparison { files, truncated, commits })
}

/// A file of a comparison or of a pull request.
#[derive(Deserialize)]
pub(super) struct ChangedFile {
    filename: String,
    previous_filename: Option<String>,
}

/// Every path that changed, sorted: a rename changes two.
pub(super) fn both_names<'a>(files: impl Iterator<Item = &'a ChangedFile>) -> Vec<String> {
    let names: BTreeSet<&String> =
        files.flat_map(|file| [Some(&file.filename), file.previous_filename.as_ref()]).flatten().collect();
    names.into_iter().cloned().collect()
}

pub(super) async fn tree(client: &GitHubClient, repo: &RepoRef, sha: &Sha) -> Result<(Vec<(String, String)>, bool)> {
    #[derive(Deserialize)]
    struct Tree {
        tree: Vec<Entry>,
        #[serde(default)]
        truncated: bool,
    }
    /// `blob`, `tree`, or `commit` for a submodule.
    #[derive(Deserialize)]
    struct Entry {
        path: String,
        r#type: String,
        sha: String,
    }
    let what = format!("tree {}", sha.short());
    let call = client.root.repo_call(Method::GET, repo, &["git", "trees", sha.as_str()], &what)?;
    let tree: Tree = client.read(call.query("recursive", "1")).await?;
    let leaves = tree.tree.into_iter().filter(|entry| entry.r#type != "tree");
    let mut paths: Vec<(String, String)> = leaves.map(|entry| (entry.path, entry.sha)).collect();
    paths.sort();
    Ok((paths, tree.truncated))
}

pub(super) async fn permission(client: &GitHubClient, repo: &RepoRef, login: &str) -> Result<Permission> {
    #[derive(Deserialize)]
    struct Granted {
        permission: String,
        /// The real role; a custom one has a name of its own.
        role_name: Option<String>,
    }
    let segments = ["collaborators", login, "permission"];
    let call = client.root.repo_call(Method::GET, repo, &segments, &format!("permission of {login}"));
    let granted: Granted = match async { client.read(call?).await }.await {
        Ok(granted) => granted,
        Err(GitHubError::NotFound { .. }) => return Ok(Permission::None),
        Err(error) => return Err(error),
    };
    let role = granted.role_name.as_deref().and_then(permission_named);
    Ok(role.or_else(|| permission_named(&granted.permission)).unwrap_or(Permission::None))
}

fn permission_named(name: &str) -> Option<Permission> {
    match name {
        "admin" => Some(Permission::Admin),
        "maintain" => Some(Permission::Maintain),
        "write" => Some(Permission::Write),
        "triage" => Some(Permission::Triage),
        "read" => Some(Permission::Read),
        "none" => Some(Permission::None),
        _ => None,
    }
}

pub(super) async fn membership(
    client: &GitHubClient,
    repo: &RepoRef,
    organisation: &str,
    team: &str,
    login: &str,
) -> Result<Membership> {
    #[derive(Deserialize)]
    struct State {
        state: String,
    }
    let segments = ["orgs", organisation, "teams", team, "memberships", login];
    let what = format!("membership of {login} in {organisation}/{team}");
    let call = client.root.call(Method::GET, Caller::Installation(repo.installation_id), &segments, &what);
    match async { client.read::<State>(call?).await }.await {
        Ok(State { state }) if state == "active" => Ok(Membership::Active),
        Ok(_) | Err(GitHubError::NotFound { .. }) => Ok(Membership::None),
        // Not the 403 that a suspended installation gets when it asks for a token.
        Err(GitHubError::Permanent { status: 403, what: refused, .. }) if refused == what => Ok(Membership::Unreadable),
        Err(error) => Err(error),
    }
}
