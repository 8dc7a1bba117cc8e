//! Working tree, commits, facts and stack keys.

use serde_json::json;

use super::world::World;
use crate::ids::Sha;
use crate::runner::base_copy::base_copy;
use crate::runner::checkout::{Commit, WorkingTree};
use crate::runner::server::Server;
use crate::runner::stack::choose;
use crate::runner::stop::Stop;
use crate::scan::{EntryKind, Files};

#[tokio::test]
async fn links_are_followed_inside_the_checkout_and_never_out_of_it() {
    let mut world = World::new().await;
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, world.root.join(at)).unwrap();
    link("main.tf", "stacks/a/linked.tf");
    link("stacks/a", "directory");
    link("/etc/passwd", "stacks/a/out.tf");
    link("../../../outside", "stacks/a/up.tf");
    link("loop", "loop");
    let head = Sha::parse(&world.commit()).unwrap();
    let job = world.local_job();

    let tree = WorkingTree::open(&job.root, &job.git).unwrap();
    let commit = Commit::open(&job.git, &head).unwrap();

    for files in [&tree as &dyn Files, &commit as &dyn Files] {
        let entries = files.list();
        let kind = |path: &str| entries.iter().find(|entry| entry.path == path).unwrap().kind.clone();
        assert_eq!(kind("stacks/a/linked.tf"), EntryKind::FileLink { target: "stacks/a/main.tf".to_owned() });
        assert_eq!(kind("directory"), EntryKind::DirectoryLink { target: "stacks/a".to_owned() });
        for path in ["stacks/a/out.tf", "stacks/a/up.tf", "loop"] {
            assert!(matches!(kind(path), EntryKind::BadLink { .. }), "{path}");
            assert!(files.read(path).is_err(), "{path}");
        }
        assert_eq!(files.read("stacks/a/linked.tf"), files.read("stacks/a/main.tf"));
        assert!(files.read("../outside").is_err());
    }
}

#[tokio::test]
async fn a_working_tree_has_what_is_new_and_not_what_is_ignored_or_gone() {
    let mut world = World::new().await;
    world.write(".gitignore", "ignored.tf\ntracked.tf\n");
    world.write("stacks/a/tracked.tf", "");
    world.git(&["add", "-f", "stacks/a/tracked.tf"]);
    world.write("stacks/a/gone.tf", "");
    world.commit();
    std::fs::remove_file(world.root.join("stacks/a/gone.tf")).unwrap();
    world.write("stacks/a/new.tf", "");
    world.write("stacks/a/ignored.tf", "");
    let job = world.local_job();
    let paths: Vec<String> =
        WorkingTree::open(&job.root, &job.git).unwrap().list().iter().map(|entry| entry.path.clone()).collect();
    assert_eq!(paths, [".gitignore", "stackorder.yaml", "stacks/a/main.tf", "stacks/a/new.tf", "stacks/a/tracked.tf"]);
}

/// A cache keeps what it read under the id of the content, for every later checkout.
#[tokio::test]
async fn git_vouches_for_no_file_that_it_was_told_not_to_look_at() {
    let world = World::new().await;
    let id = |world: &World| {
        let job = world.local_job();
        let tree = WorkingTree::open(&job.root, &job.git).unwrap();
        assert!(tree.list().iter().any(|entry| entry.path == "stacks/a/main.tf"));
        tree.id("stacks/a/main.tf").map(str::to_owned)
    };
    assert!(id(&world).is_some());
    world.git(&["update-index", "--assume-unchanged", "stacks/a/main.tf"]);
    world.write("stacks/a/main.tf", "# something else\n");
    assert_eq!(id(&world), None);
}

#[tokio::test]
async fn stack_keys_resolve_as_the_table_says() {
    let mut world = World::new().await;
    world.write("stacks/i/main.tf", "terraform {\n  backend \"s3\" {\n    key = \"i\"\n  }\n}\n");
    world.write("stacks/i/.stackorder.yaml", "instances: [blue, green]\n");
    world.commit();
    let checkout = world.local_job().scan().unwrap();
    let key =
        |argument: &str| choose(&checkout, argument).map(|stack| (stack.key.to_string(), stack.settings.workspace));
    let refused = |argument: &str| match key(argument) {
        Err(Stop::Failed(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(key("./stacks/i/:blue"), Ok(("stacks/i:blue".to_owned(), String::new())));
    assert!(refused("stacks/i").contains("name one of stacks/i:blue, stacks/i:green"));
    assert!(refused("stacks/i:red").contains("no such instance"));
    assert_eq!(key("stacks/a"), Ok(("stacks/a".to_owned(), String::new())));
    assert_eq!(key("stacks/a:adhoc"), Ok(("stacks/a:adhoc".to_owned(), "adhoc".to_owned())));
    assert!(refused("stacks/nowhere").contains("no directory"));
    assert!(refused("../x").contains("stack key"));
}

#[tokio::test]
async fn settings_that_cannot_be_read_are_an_error_and_not_the_defaults() {
    let world = World::new().await;
    let job = world.local_job();
    let head = job.git.commit_of("HEAD").unwrap().unwrap();
    assert!(job.git.show(&head, "stackorder.yaml").unwrap().is_some());
    assert_eq!(job.git.show(&head, "nothing.yaml"), Ok(None));

    let blob = world.git(&["rev-parse", "HEAD:stackorder.yaml"]);
    std::fs::remove_file(world.root.join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();

    assert!(job.git.show(&head, "stackorder.yaml").is_err());
    assert!(matches!(base_copy(&job), Err(Stop::Failed(_))));
}

#[tokio::test]
async fn a_server_address_with_a_password_is_refused_without_repeating_it() {
    let world = World::new().await;
    for url in ["https://me:hunter22@stackorder.example.com", "me:hunter22@host", "https://host/?key=hunter22"] {
        let Err(Stop::Failed(text)) = Server::of(Some(url), &world.env) else {
            panic!("{url} was taken");
        };
        assert!(text.contains("https://stackorder.example.com") && !text.contains("hunter22"), "{text}");
    }
    for url in ["https://stackorder.example.com/", "http://127.0.0.1:8080", "https://example.com/stackorder"] {
        assert!(Server::of(Some(url), &world.env).is_ok(), "{url}");
    }
}

#[tokio::test]
async fn a_pull_request_job_is_about_the_head_not_the_merge_commit() {
    let world = World::new().await;
    world.set_event(&json!({
        "pull_request": {"number": 7, "head": {"sha": "feed", "repo": {"full_name": "ACME/infra"}}, "base": {"sha": "beef"}},
        "repository": {"full_name": "acme/infra", "default_branch": "trunk"},
    }));
    let facts = world.local_job().facts;
    assert_eq!((facts.commit.as_str(), facts.base.as_str(), facts.pr_number), ("feed", "beef", 7));
    assert_eq!((facts.default_branch.as_str(), facts.is_fork), ("trunk", false));
    assert_eq!((facts.workflow_run_id, facts.workflow_run_attempt), (77, 2));
}
