//! Real `git` against the fake.

use std::path::Path;
use std::process::Command;

use crate::world::{REPO, World};

/// Runs git; its output, or what it complained about.
fn git(directory: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .current_dir(directory)
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("NO_PROXY", "127.0.0.1")
        .envs([("GIT_AUTHOR_NAME", "alice"), ("GIT_AUTHOR_EMAIL", "alice@example.com")])
        .envs([("GIT_COMMITTER_NAME", "alice"), ("GIT_COMMITTER_EMAIL", "alice@example.com")])
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn clone_url(world: &World, token: &str) -> String {
    let host = world.hub.base_url().trim_start_matches("http://");
    format!("http://x-access-token:{token}@{host}/{REPO}.git")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_clones_pushes_and_thereby_updates_a_pull_request() {
    let world = World::new().await;
    let number = world.pull_request();
    let url = clone_url(&world, &world.hub.user_token("bob"));
    let home = world.directory.path();
    git(home, &["clone", "--quiet", &url, "work"]).unwrap();
    let work = home.join("work");
    assert_eq!(std::fs::read_to_string(work.join("vpc/main.tf")).unwrap(), "# vpc\n");

    git(&work, &["checkout", "--quiet", "topic"]).unwrap();
    std::fs::write(work.join("vpc/extra.tf"), "# extra\n").unwrap();
    git(&work, &["add", "."]).unwrap();
    git(&work, &["commit", "--quiet", "-m", "Extra"]).unwrap();
    git(&work, &["push", "--quiet"]).unwrap();
    let head = git(&work, &["rev-parse", "HEAD"]).unwrap();

    let pull = world.hub.issue(REPO, number).unwrap().pull.unwrap();
    assert_eq!((pull.head_sha.as_str(), pull.commits, pull.changed_files), (head.as_str(), 2, 2));
    let names = world.received_names().await;
    assert_eq!(
        names.iter().rev().take(3).rev().collect::<Vec<_>>(),
        ["push", "check_suite.requested", "pull_request.synchronize"]
    );

    git(&work, &["fetch", "--quiet", "origin", &format!("refs/pull/{number}/merge")]).unwrap();
    let merge = git(&work, &["rev-parse", "FETCH_HEAD"]).unwrap();
    assert_eq!(Some(merge), pull.merge_commit_sha);
}

#[tokio::test(flavor = "multi_thread")]
async fn git_is_refused_without_a_token_and_a_reader_cannot_push() {
    let world = World::new().await;
    let home = world.directory.path();
    let anonymous = format!("{}/{REPO}.git", world.hub.base_url());
    assert!(git(home, &["clone", "--quiet", &anonymous, "none"]).is_err());
    assert!(git(home, &["clone", "--quiet", &clone_url(&world, &world.hub.user_token("mallory")), "none"]).is_err());

    world.hub.set_collaborator(REPO, "mallory", fake_github::Role::Read);
    git(home, &["clone", "--quiet", &clone_url(&world, &world.hub.user_token("mallory")), "read"]).unwrap();
    let work = home.join("read");
    git(&work, &["commit", "--quiet", "--allow-empty", "-m", "No"]).unwrap();
    assert!(git(&work, &["push", "--quiet"]).unwrap_err().contains("403"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_token_fetches_one_commit_at_depth_one() {
    let world = World::new().await;
    let sha = world.hub.resolve(REPO, "main").unwrap();
    world.commit("main", "Next", &[("README.md", "# next\n")]);
    let url = clone_url(&world, &world.installation_token().await);
    let work = world.directory.path().join("shallow");
    std::fs::create_dir(&work).unwrap();
    git(&work, &["init", "--quiet"]).unwrap();
    git(&work, &["fetch", "--quiet", "--depth=1", &url, &sha]).unwrap();
    assert_eq!(git(&work, &["rev-parse", "FETCH_HEAD"]).unwrap(), sha);
}
