//! GitHub's own example answers are read as what they say.

use std::sync::LazyLock;

use serde_json::Value;
use wiremock::matchers::path;
use wiremock::{Mock, ResponseTemplate};

use super::{NOW, SHA, World, a_check, a_dispatch, ok};
use crate::github::api::{Api, Membership, Reaction, ReviewState};
use crate::ids::Sha;

/// `tests/fixtures/github/README.md` says where they come from.
static EXAMPLES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../../tests/fixtures/github/answers.json")).unwrap());

const EXAMPLE_RUN: i64 = 30_433_642;

impl World {
    /// Answers a path below the repository with an example.
    async fn show(&self, verb: &str, tail: &str, example: &str) {
        self.answer(verb, tail, ok(EXAMPLES[example].clone())).await;
    }
}

async fn show_at(world: &World, place: &str, example: &str) {
    let answer = ResponseTemplate::new(200).set_body_json(&EXAMPLES[example]);
    Mock::given(path(format!("/api/v3{place}"))).respond_with(answer).mount(&world.server).await;
}

#[tokio::test]
async fn the_app_its_tokens_and_repositories() {
    let world = World::without_tokens().await;
    show_at(&world, "/app", "app").await;
    show_at(&world, "/app/installations/9/access_tokens", "token").await;
    show_at(&world, "/installation/repositories", "installation repositories").await;
    show_at(&world, "/orgs/github/teams/justice-league/memberships/octocat", "membership").await;
    assert_eq!(world.client.bot_login().await.unwrap(), "octoapp[bot]");
    let repositories = world.client.installation_repositories(9).await.unwrap();
    assert_eq!((repositories[0].id, repositories[0].name.as_str()), (1_296_269, "octocat/Hello-World"));
    let membership = world.client.membership(&world.repo, "github", "justice-league", "octocat").await.unwrap();
    assert_eq!(membership, Membership::Active);
}

#[tokio::test]
async fn what_stands_in_a_repository() {
    let World { client, repo, .. } = &{
        let world = World::new().await;
        world.show("GET", "/contents/lib", "directory").await;
        world.show("GET", "/contents/jquery", "submodule").await;
        world.show("GET", "/git/ref/heads/feature/A", "reference").await;
        world.show("GET", "/compare/master...topic", "comparison").await;
        world.show("GET", &format!("/git/trees/{SHA}"), "tree").await;
        world
    };
    assert_eq!(client.file(repo, "lib", "main").await.unwrap(), None);
    assert_eq!(client.file(repo, "jquery", "main").await.unwrap(), None);
    let head = client.branch_head(repo, "feature/A").await.unwrap();
    assert_eq!(head.as_str(), "aa218f56b14c9653891f9e74264a383fa43fefbd");
    let comparison = client.compare(repo, "master", "topic").await.unwrap();
    assert_eq!((comparison.files, comparison.commits.len()), (vec!["file1.txt".to_owned()], 1));
    let (paths, truncated) = client.tree(repo, &Sha::parse(SHA).unwrap()).await.unwrap();
    assert_eq!((paths[0].0.as_str(), truncated), ("subdir/file.txt", false));
}

#[tokio::test]
async fn what_people_say_on_a_pull_request() {
    let world = World::new().await;
    for (verb, tail, example) in [
        ("GET", "/pulls/7/files", "files"),
        ("GET", "/pulls/7/reviews", "reviews"),
        ("GET", "/issues/7/comments", "comments"),
        ("POST", "/issues/7/comments", "comment"),
        ("POST", "/issues/comments/1/reactions", "reaction"),
        ("GET", "/issues", "issues"),
        ("POST", "/issues", "issue"),
    ] {
        world.show(verb, tail, example).await;
    }
    let (client, repo) = (&world.client, &world.repo);
    assert_eq!(client.pull_request_files(repo, 7).await.unwrap(), ["file1.txt"]);
    let review = &client.reviews(repo, 7).await.unwrap()[0];
    assert_eq!((review.author.as_str(), review.state), ("octocat", ReviewState::Approved));
    let comment = &client.comments(repo, 7).await.unwrap()[0];
    assert_eq!((comment.id, comment.author.as_str(), comment.body.as_str()), (1, "octocat", "Me too"));
    assert_eq!(client.create_comment(repo, 7, "Me too").await.unwrap(), 1);
    client.react(repo, 1, Reaction::Rocket).await.unwrap();
    // The only one of the example is a pull request.
    assert!(client.issues(repo, "bug").await.unwrap().is_empty());
    assert_eq!(client.create_issue(repo, "t", "b", "bug").await.unwrap(), 1347);
}

#[tokio::test]
async fn checks_and_workflow_runs() {
    let world = World::new().await;
    for (verb, tail, example) in [
        ("POST", "/check-runs", "check"),
        ("GET", &*format!("/commits/{SHA}/check-runs"), "checks"),
        ("POST", "/actions/workflows/stackorder-run.yml/dispatches", "dispatch"),
        ("GET", "/actions/workflows/stackorder-plan.yml/runs", "workflow runs"),
        ("GET", "/actions/runs/30433642", "workflow run"),
        ("GET", "/actions/runs/30433642/artifacts", "artifacts"),
    ] {
        world.show(verb, tail, example).await;
    }
    let (client, repo, sha) = (&world.client, &world.repo, Sha::parse(SHA).unwrap());
    assert_eq!(client.create_check(repo, &a_check()).await.unwrap(), 4);
    let check = &client.checks(repo, &sha, None).await.unwrap()[0];
    assert_eq!((check.completed, check.conclusion.as_str(), check.app_slug.as_str()), (true, "neutral", "octoapp"));
    assert_eq!(client.dispatch(repo, &a_dispatch()).await.unwrap(), Some(1));
    assert_eq!(client.plan_runs(repo, &sha).await.unwrap()[0].id, EXAMPLE_RUN);
    let run = client.workflow_run(repo, EXAMPLE_RUN).await.unwrap();
    assert_eq!((run.title.as_str(), run.path.as_str()), ("Update README.md", ".github/workflows/build.yml"));
    assert!(!run.completed && run.created_at < NOW);
    let artifacts = client.artifacts(repo, EXAMPLE_RUN).await.unwrap();
    assert_eq!((artifacts.len(), artifacts[0].name.as_str(), artifacts[0].expired), (2, "Rails", false));
}
