//! Checkouts that are not all of their repository, and histories that are not one line.

use std::process::Command;

use super::world::World;
use crate::runner::affected::{Affected, affected};
use crate::runner::base_copy::base_copy;

fn stack(key: &str, more: &str) -> String {
    format!("terraform {{\n  backend \"s3\" {{\n    bucket = \"b\"\n    key = \"{key}\"\n  }}\n}}\n{more}")
}

const CALL: &str = "module \"m\" {\n  source = \"../../modules/m\"\n}\n";

/// `main` with two stacks, of which the first uses a module, and a branch `change` that begins there.
async fn world() -> World {
    let mut world = World::new().await;
    world.write("stacks/a/main.tf", &stack("a", CALL));
    world.write("stacks/b/main.tf", &stack("b", ""));
    world.write("modules/m/main.tf", "");
    world.commit();
    world.git(&["checkout", "-q", "-b", "change"]);
    world
}

fn asked(world: &mut World) -> Affected {
    let policy = world.git(&["rev-parse", "refs/heads/main"]);
    world.set("STACKORDER_POLICY_SHA", &policy);
    affected(&world.local_job(), Some("main")).unwrap()
}

fn rows(found: &Affected) -> Vec<String> {
    let reasons = |reasons: &[crate::graph::resolution::Reason]| {
        reasons.iter().map(|reason| reason.as_str()).collect::<Vec<_>>().join(", ")
    };
    found.resolution.affected.iter().map(|stack| format!("{} ({})", stack.key, reasons(&stack.reasons))).collect()
}

/// Why nothing can be compared with `base`.
fn refused(world: &World, base: Option<&str>) -> String {
    affected(&world.local_job(), base).unwrap_err().to_string()
}

/// Clones the world's repository with these flags, and goes on in the clone.
fn clone(world: &mut World, flags: &[&str]) {
    let to = world.root.with_file_name("clone");
    let from = format!("file://{}", world.root.display());
    let done = Command::new("git")
        .args(["clone", "--quiet"])
        .args(flags)
        .arg(from)
        .arg(&to)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    world.root = to;
}

#[tokio::test]
async fn a_sparse_checkout_has_the_same_stacks_as_a_full_one() {
    let mut world = world().await;
    world.write("modules/m/main.tf", "# changed\n");
    world.write("stacks/b/main.tf", &stack("b", "# changed\n"));
    world.commit();
    let full = asked(&mut world);
    assert_eq!(rows(&full), ["stacks/a (module)", "stacks/b (changed)"]);

    world.git(&["sparse-checkout", "set", "stacks/a"]);
    assert!(!world.root.join("stacks/b").exists() && !world.root.join("modules").exists());
    let sparse = asked(&mut world);
    assert_eq!(rows(&sparse), rows(&full));
    assert_eq!((sparse.graph(), &sparse.resolution.removed), (full.graph(), &Vec::new()));

    // What somebody deletes by hand is not left out, it is gone.
    std::fs::remove_file(world.root.join("stacks/a/main.tf")).unwrap();
    let keys: Vec<String> = asked(&mut world).graph().stacks.iter().map(|stack| stack.key.clone()).collect();
    assert_eq!(keys, ["stacks/b"]);
}

/// A link is read by its text when it is left out itself, and when what it leads to is.
#[tokio::test]
async fn a_sparse_checkout_follows_the_same_links_as_a_full_one() {
    use std::os::unix::fs::symlink;
    let mut world = world().await;
    world.write("shared/calls.tf", CALL);
    world.write("top.tf", &CALL.replace("\"m\"", "\"n\""));
    world.write("stacks/b/main.tf", &stack("b", &CALL.replace("/m\"", "/linked\"")));
    world.write("stacks/c/main.tf", &stack("c", ""));
    for (text, path) in [
        ("../../shared/calls.tf", "stacks/a/calls.tf"),
        ("../c/top.tf", "stacks/b/top.tf"),
        ("../../top.tf", "stacks/c/top.tf"),
        ("m", "modules/linked"),
    ] {
        symlink(text, world.root.join(path)).unwrap();
    }
    world.write("stacks/a/main.tf", &stack("a", ""));
    world.commit();
    let full = asked(&mut world);
    let uses =
        |found: &Affected| found.graph().edges.iter().filter(|edge| edge.to.key.ends_with("//modules/m")).count();
    assert_eq!((uses(&full), full.graph().warnings.as_slice()), (3, &[][..]));
    for kept in ["stacks/a", "stacks/b", "shared", "modules"] {
        world.git(&["sparse-checkout", "set", kept]);
        let sparse = asked(&mut world);
        assert_eq!(sparse.graph(), full.graph(), "{kept}");
        assert_eq!(rows(&sparse), rows(&full), "{kept}");
    }
}

#[tokio::test]
async fn a_shallow_clone_says_what_it_needs() {
    let mut world = world().await;
    world.write("stacks/a/main.tf", &stack("a", "# changed\n"));
    world.commit();
    let base = world.git(&["rev-parse", "main"]);
    world.git(&["checkout", "-q", "main"]);
    world.write("stacks/b/main.tf", &stack("b", "# on main\n"));
    world.commit();
    world.git(&["checkout", "-q", "change"]);
    clone(&mut world, &["--depth=1", "--no-single-branch"]);
    let text = refused(&world, None);
    assert!(text.starts_with("origin/main and HEAD share no history here; the checkout is shallow"), "{text}");
    assert!(text.contains("fetch-depth: 0"), "{text}");
    let text = refused(&world, Some(&base));
    assert!(text.contains(&base) && text.contains("is no commit here") && text.contains("fetch-depth: 0"), "{text}");
}

#[tokio::test]
async fn a_clone_of_one_branch_says_that_its_base_is_missing() {
    let mut world = world().await;
    world.write("stacks/a/main.tf", &stack("a", "# changed\n"));
    world.commit();
    clone(&mut world, &["--depth=1", "--branch=change"]);
    let text = refused(&world, None);
    assert!(text.contains("there is no \"origin/main\" here; pass --base <ref>"), "{text}");
    assert!(text.contains("fetch-depth: 0"), "{text}");
}

#[tokio::test]
async fn unrelated_histories_are_refused_in_words() {
    let mut world = world().await;
    world.git(&["checkout", "-q", "--orphan", "other"]);
    world.commit();
    let text = refused(&world, Some("main"));
    assert!(text.starts_with("main and HEAD have unrelated histories: no commit is in both"), "{text}");
    assert!(!text.contains("fetch-depth"), "nothing is missing here: {text}");
}

#[tokio::test]
async fn a_merge_commit_brings_only_what_its_branch_changed() {
    let mut world = world().await;
    world.write("stacks/a/main.tf", &stack("a", "# changed\n"));
    world.commit();
    world.git(&["checkout", "-q", "main"]);
    world.write("stacks/b/main.tf", &stack("b", "# on main\n"));
    world.commit();
    // The branch takes over what is on main, as a person does it.
    world.git(&["checkout", "-q", "change"]);
    world.git(&["merge", "-q", "--no-edit", "main"]);
    assert_eq!(rows(&asked(&mut world)), ["stacks/a (changed)"]);
    // And what GitHub checks out for a pull request: the branch merged into main.
    world.git(&["checkout", "-q", "--detach", "main"]);
    world.git(&["merge", "-q", "--no-ff", "--no-edit", "change"]);
    assert_eq!(rows(&asked(&mut world)), ["stacks/a (changed)"]);
}

#[tokio::test]
async fn what_is_changed_in_the_merge_itself_counts() {
    let mut world = world().await;
    world.write("stacks/a/main.tf", &stack("a", "# ours\n"));
    world.commit();
    world.git(&["checkout", "-q", "main"]);
    world.write("README.md", "on main\n");
    world.commit();
    world.git(&["checkout", "-q", "change"]);
    world.git(&["merge", "-q", "--no-commit", "--no-ff", "main"]);
    world.write("stacks/b/main.tf", &stack("b", "# slipped in\n"));
    world.commit();
    assert_eq!(rows(&asked(&mut world)), ["stacks/a (changed)", "stacks/b (changed)"]);
}

#[tokio::test]
async fn branches_that_were_merged_into_each_other_are_compared() {
    let mut world = world().await;
    world.write("stacks/a/own.tf", "# ours\n");
    world.commit();
    let ours = world.git(&["rev-parse", "change"]);
    world.git(&["checkout", "-q", "main"]);
    world.write("stacks/b/main.tf", &stack("b", "# on main\n"));
    let theirs = world.commit();
    world.git(&["merge", "-q", "--no-ff", "--no-edit", &ours]);
    world.git(&["checkout", "-q", "change"]);
    world.git(&["merge", "-q", "--no-ff", "--no-edit", &theirs]);
    world.write("modules/m/main.tf", "# changed\n");
    world.commit();
    let found = asked(&mut world);
    // Either of the two commits where they parted may be taken, so more may be named, but not less.
    assert!(
        rows(&found).iter().any(|row| row.starts_with("stacks/a (") && row.contains("module")),
        "{:?}",
        rows(&found)
    );
}

#[tokio::test]
async fn a_submodule_that_moves_is_a_change_of_its_path() {
    let mut world = world().await;
    let head = world.git(&["rev-parse", "HEAD"]);
    world.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},stacks/a/vendor")]);
    world.git(&["commit", "-q", "-m", "a submodule"]);
    world.git(&["branch", "-f", "main", "change"]);
    let moved = world.git(&["rev-parse", "HEAD"]);
    world.git(&["update-index", "--cacheinfo", &format!("160000,{moved},stacks/a/vendor")]);
    world.git(&["commit", "-q", "-m", "moved"]);
    assert_eq!(rows(&asked(&mut world)), ["stacks/a (changed)"]);

    // Whatever git is told to pass over where a person looks.
    let section = "[submodule \"stacks/a/vendor\"]\n\tpath = stacks/a/vendor\n\turl = ../vendor\n\tignore = all\n";
    world.write(".gitmodules", section);
    world.git(&["config", "diff.ignoreSubmodules", "all"]);
    assert_eq!(rows(&asked(&mut world)), ["stacks/a (changed)"]);
}

#[tokio::test]
async fn a_change_that_mends_the_default_branch_is_resolved_all_the_same() {
    let mut world = world().await;
    world.git(&["checkout", "-q", "main"]);
    world.write("stackorder.yaml", "tool: nonsense\n");
    world.commit();
    world.git(&["checkout", "-q", "-B", "change"]);
    world.write("stackorder.yaml", "tool: terraform\n");
    world.write("stacks/b/main.tf", &stack("b", "# changed\n"));
    world.commit();
    let found = asked(&mut world);
    assert!(rows(&found).contains(&"stacks/b (changed)".to_owned()), "{:?}", rows(&found));
    assert!(world.printed().contains("the default branch's configuration does not count"), "{}", world.printed());

    // The same for a stack's own file, which the whole scan of the base ends at.
    let mut world = self::world().await;
    world.git(&["checkout", "-q", "main"]);
    world.write("stacks/a/.stackorder.yaml", "nonsense: 1\n");
    world.commit();
    world.git(&["checkout", "-q", "-B", "change"]);
    std::fs::remove_file(world.root.join("stacks/a/.stackorder.yaml")).unwrap();
    world.write("stackorder.yaml", "apply: { four_eyes: true }\nstacks: { ignore: [docs/**] }\n");
    world.commit();
    let found = asked(&mut world);
    assert_eq!(rows(&found), ["stacks/a (changed)"]);
    assert!(world.printed().contains("stacks that only the default branch knows do not count"), "{}", world.printed());
}

/// What CLI and server work out must be the same, and the server knows of directories only what is removed.
#[tokio::test]
async fn an_instance_that_is_gone_is_not_planned_because_the_configuration_differs() {
    let mut world = world().await;
    world.git(&["checkout", "-q", "main"]);
    world.write("stackorder.yaml", "stacks: { instances: { from_var_files: 'env/*.tfvars' } }\n");
    world.write("stacks/a/env/one.tfvars", "");
    world.write("stacks/a/env/two.tfvars", "");
    world.commit();
    world.git(&["checkout", "-q", "-B", "change"]);
    std::fs::remove_file(world.root.join("stacks/a/env/two.tfvars")).unwrap();
    let more = "stacks: { instances: { from_var_files: 'env/*.tfvars' }, ignore: [docs/**] }\n";
    world.write("stackorder.yaml", more);
    world.commit();
    let found = asked(&mut world);
    assert_eq!(rows(&found), Vec::<String>::new());
    assert_eq!(found.resolution.removed.len(), 1);
}

#[tokio::test]
async fn bl_162_a_pull_request_cannot_loosen_what_the_gate_asks_for() {
    let mut world = World::new().await;
    world.write("stackorder.yaml", "apply: { require_approvals: 2, four_eyes: true }\n");
    let base = world.commit();
    world.git(&["checkout", "-q", "-b", "change"]);
    world.write("stackorder.yaml", "apply: { require_approvals: 0 }\n");
    world.commit();
    world.set("STACKORDER_POLICY_SHA", &base);
    let job = world.local_job();
    let apply = base_copy(&job).unwrap().config.apply;
    assert_eq!((apply.require_approvals, apply.four_eyes), (2, true));
    assert_eq!(job.scan().unwrap().scanned.config.apply.require_approvals, 0, "the head says something else");
}
