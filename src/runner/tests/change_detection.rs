//! What went wrong for others when they asked which stacks a change reaches, over real repositories.
//!
//! Each `bl_NNN` is an entry of the field reports, and asserts what is right there.

use super::world::World;
use crate::graph::resolution::AffectedStack;
use crate::runner::affected::{Affected, affected};
use crate::runner::explain::explain;

fn stack(key: &str) -> String {
    format!("terraform {{\n  backend \"s3\" {{\n    bucket = \"b\"\n    key = \"{key}\"\n  }}\n}}\n")
}

fn calling(key: &str, source: &str) -> String {
    format!("{}module \"m\" {{\n  source = \"{source}\"\n}}\n", stack(key))
}

/// `main` with these files instead of the one stack of every world, and a branch that begins there.
async fn branch_of(files: &[(&str, &str)]) -> World {
    let mut world = World::new().await;
    std::fs::remove_dir_all(world.root.join("stacks")).unwrap();
    for (path, text) in files {
        world.write(path, text);
    }
    // Something to commit, even where the files are those of every world.
    world.write("docs/about.md", "a repository\n");
    world.commit();
    world.git(&["checkout", "-q", "-b", "change"]);
    world
}

/// Commits what was written and asks what it reaches.
fn reached(world: &mut World) -> Affected {
    world.commit();
    asked(world, "main")
}

fn asked(world: &mut World, base: &str) -> Affected {
    let policy = world.git(&["rev-parse", "refs/heads/main"]);
    world.set("STACKORDER_POLICY_SHA", &policy);
    affected(&world.local_job(), Some(base)).unwrap()
}

/// `key (reasons)`, one per stack, in order of waves.
fn rows(found: &Affected) -> Vec<String> {
    let reasons =
        |stack: &AffectedStack| stack.reasons.iter().map(|reason| reason.as_str()).collect::<Vec<_>>().join(", ");
    found.resolution.affected.iter().map(|stack| format!("{} ({})", stack.key, reasons(stack))).collect()
}

fn warnings(found: &Affected) -> Vec<String> {
    let all = &found.resolution.warnings;
    all.iter().filter(|warning| warning.code != "environment_default").map(ToString::to_string).collect()
}

#[tokio::test]
async fn bl_008_a_file_that_cannot_be_parsed_is_told_wherever_somebody_asks() {
    let mut world = branch_of(&[
        ("stacks/a/main.tf", &stack("a")),
        ("stacks/a/net.tf.json", "{\n  \"module\": "),
        ("stacks/b/main.tf", &stack("b")),
    ])
    .await;
    world.write("stacks/b/main.tf", &format!("{}# changed\n", stack("b")));
    let found = reached(&mut world);
    assert_eq!(rows(&found), ["stacks/b (changed)"]);
    let says = "stacks/a/net.tf.json: stacks/a: the file could not be read whole, so the stack may have more edges";
    assert!(warnings(&found).iter().any(|text| text.starts_with(says)), "{:?}", warnings(&found));
    let why = explain(&found, "stacks/a").unwrap().why_not;
    assert!(why.iter().any(|text| text.starts_with(says)), "{why:?}");
    let scan = &found.change.checkout.scanned.graph.warnings;
    assert!(scan.iter().any(|warning| warning.to_string().starts_with("stacks/a/net.tf.json:2: ")), "{scan:?}");
}

#[tokio::test]
async fn bl_031_a_change_two_modules_down_or_inside_the_stack_reaches_its_callers_only() {
    let mut world = branch_of(&[
        ("stacks/p1/main.tf", &calling("p1", "../../modules/a/")),
        ("stacks/p2/main.tf", &calling("p2", "../../modules/a")),
        ("stacks/p3/main.tf", &calling("p3", "./modules/x/")),
        ("stacks/p3/modules/x/main.tf", ""),
        ("modules/a/main.tf", "module \"b\" {\n  source = \"./../b\"\n}\n"),
        ("modules/b/main.tf", ""),
    ])
    .await;
    world.write("modules/b/main.tf", "# changed\n");
    assert_eq!(rows(&reached(&mut world)), ["stacks/p1 (module)", "stacks/p2 (module)"]);
    world.git(&["branch", "-f", "main", "change"]);
    world.write("stacks/p3/modules/x/main.tf", "# changed\n");
    assert_eq!(rows(&reached(&mut world)), ["stacks/p3 (changed, module)"]);
}

#[tokio::test]
async fn bl_062_a_change_of_dozens_of_stacks_is_told_in_full() {
    let texts: Vec<(String, String)> =
        (0..30).map(|number| (format!("stacks/s{number:02}/main.tf"), stack(&number.to_string()))).collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let mut world = branch_of(&files).await;
    for (path, text) in &files {
        world.write(path, &format!("{text}# changed\n"));
    }
    let found = reached(&mut world);
    assert_eq!((rows(&found).len(), found.resolution.waves.len()), (30, 1));
    assert!(found.is_any());
}

#[tokio::test]
async fn bl_042_a_module_behind_a_double_slash_changes_its_stacks() {
    let mut world = branch_of(&[
        ("stacks/a/main.tf", &calling("a", "../../tf//modules/registry")),
        ("stacks/b/main.tf", &stack("b")),
        ("tf/modules/registry/main.tf", ""),
    ])
    .await;
    world.write("tf/modules/registry/main.tf", "# changed\n");
    assert_eq!(rows(&reached(&mut world)), ["stacks/a (module)"]);
}

#[tokio::test]
async fn bl_043_a_broken_file_in_a_hidden_directory_stops_nothing() {
    let mut world = branch_of(&[("stacks/a/main.tf", &stack("a"))]).await;
    world.write(".submodules/x/tmpl/terragrunt.hcl", "locals {\n  broken = \"${\n");
    world.write(".submodules/x/main.tf", "terraform {\n  backend \"s3\" {\n");
    world.write("stacks/a/main.tf", &format!("{}# changed\n", stack("a")));
    let found = reached(&mut world);
    assert_eq!(rows(&found), ["stacks/a (changed)"]);
    assert_eq!(found.graph().stacks.len(), 1);
}

#[tokio::test]
async fn bl_043_a_submodule_is_not_walked_into() {
    let mut world = branch_of(&[("stacks/a/main.tf", &stack("a"))]).await;
    let head = world.git(&["rev-parse", "HEAD"]);
    world.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},stacks/sub")]);
    world.write("stacks/sub/main.tf", "terraform {\n  backend \"s3\" {\n");
    world.git(&["commit", "-q", "-m", "a submodule"]);
    let found = asked(&mut world, "main");
    assert_eq!((rows(&found), found.graph().stacks.len()), (Vec::new(), 1));
    assert!(warnings(&found).iter().any(|warning| warning.contains("stacks/sub")), "{:?}", warnings(&found));
}

#[tokio::test]
async fn bl_044_commits_made_on_main_after_the_branch_do_not_count() {
    let mut world = branch_of(&[("stacks/a/main.tf", &stack("a")), ("stacks/z/main.tf", &stack("z"))]).await;
    world.git(&["checkout", "-q", "main"]);
    world.write("stacks/z/main.tf", &format!("{}# C\n", stack("z")));
    world.commit();
    world.git(&["checkout", "-q", "change"]);
    world.write("stacks/a/main.tf", &format!("{}# D\n", stack("a")));
    assert_eq!(rows(&reached(&mut world)), ["stacks/a (changed)"]);
}

#[tokio::test]
async fn bl_046_a_deleted_stack_is_told_with_its_state_and_is_no_plain_success() {
    let mut world = branch_of(&[("stacks/a/main.tf", &stack("a")), ("stacks/old/main.tf", &stack("old"))]).await;
    std::fs::remove_dir_all(world.root.join("stacks/old")).unwrap();
    let found = reached(&mut world);
    assert!(found.is_any() && found.resolution.affected.is_empty());
    assert_eq!(found.resolution.removed[0].state, "s3://b/old");
    assert!(warnings(&found).iter().any(|text| text.contains("\"stacks/old\" is removed, its resources remain")));
    let explanation = explain(&found, "stacks/old").unwrap();
    assert_eq!((explanation.affected, explanation.removed.as_ref()), (false, found.resolution.removed.first()));
}

#[tokio::test]
async fn a_stack_that_read_the_state_of_a_deleted_one_is_planned() {
    let reading = "data \"terraform_remote_state\" \"old\" {\n  backend = \"s3\"\n  config = {\n    bucket = \"b\"\n    key = \"old\"\n  }\n}\n";
    let mut world = branch_of(&[
        ("stacks/old/main.tf", &stack("old")),
        ("stacks/app/main.tf", &format!("{}{reading}", stack("app"))),
        ("stacks/named/main.tf", &stack("named")),
        ("stacks/named/.stackorder.yaml", "depends_on: [stacks/old]\n"),
        ("stacks/after/main.tf", &stack("after")),
        ("stacks/after/.stackorder.yaml", "depends_on: [stacks/app]\n"),
    ])
    .await;
    std::fs::remove_dir_all(world.root.join("stacks/old")).unwrap();
    let found = reached(&mut world);
    let expected = ["stacks/app (reads_state)", "stacks/named (dependent)", "stacks/after (dependent)"];
    assert_eq!(rows(&found), expected);
    assert_eq!(found.resolution.affected[0].via, ["stacks/old"]);
    let chain = &explain(&found, "stacks/app").unwrap().because[0].chain;
    let steps: Vec<String> = chain.iter().map(|step| format!("{} {} {}", step.from, step.by, step.to)).collect();
    assert_eq!(steps, ["stacks/old/main.tf removed stacks/old", "stacks/old reads_state stacks/app"]);
}

#[tokio::test]
async fn bl_047_a_stack_moved_into_its_own_directory_is_planned_there_only() {
    let text = format!("{}{}", stack("p"), "# a line that git recognises\n".repeat(20));
    let mut world = branch_of(&[("stacks/parent/main.tf", &text)]).await;
    std::fs::create_dir(world.root.join("stacks/parent/sub")).unwrap();
    world.git(&["mv", "stacks/parent/main.tf", "stacks/parent/sub/main.tf"]);
    let found = reached(&mut world);
    assert_eq!(rows(&found), ["stacks/parent/sub (changed)"]);
    let removed = &found.resolution.removed;
    assert_eq!((removed[0].key.as_str(), removed[0].renamed_to.as_str()), ("stacks/parent", "stacks/parent/sub"));
}

#[tokio::test]
async fn bl_049_any_file_of_a_used_module_counts_whatever_its_name() {
    let mut world = branch_of(&[
        ("stacks/a/main.tf", &calling("a", "../../modules/p")),
        ("modules/p/main.tf", "locals {\n  policy = file(\"${path.module}/policies/x.json\")\n}\n"),
        ("modules/p/policies/x.json", "{}"),
    ])
    .await;
    world.write("modules/p/policies/x.json", "{\"a\": 1}");
    let found = reached(&mut world);
    assert_eq!(rows(&found), ["stacks/a (module)"]);
    let chain = &explain(&found, "stacks/a").unwrap().because[0].chain;
    let steps: Vec<String> = chain.iter().map(|step| format!("{} {} {}", step.from, step.by, step.to)).collect();
    assert_eq!(
        steps,
        ["modules/p/policies/x.json changed acme/infra//modules/p", "acme/infra//modules/p uses_module stacks/a",]
    );
}

#[tokio::test]
async fn bl_051_a_change_never_reaches_what_it_depends_on_nor_its_siblings() {
    let core = stack("core");
    let texts = ["a", "b", "c"].map(stack);
    let mut files = vec![("stacks/core/main.tf", core.as_str())];
    for (path, text) in ["stacks/a/main.tf", "stacks/b/main.tf", "stacks/c/main.tf"].into_iter().zip(&texts) {
        files.push((path, text));
    }
    for path in ["stacks/a/.stackorder.yaml", "stacks/b/.stackorder.yaml", "stacks/c/.stackorder.yaml"] {
        files.push((path, "depends_on: [stacks/core]\n"));
    }
    let mut world = branch_of(&files).await;
    world.write("stacks/a/main.tf", &format!("{}# changed\n", stack("a")));
    let found = reached(&mut world);
    assert_eq!(rows(&found), ["stacks/a (changed)"]);
    let why = explain(&found, "stacks/core").unwrap().why_not.join("\n");
    assert!(
        why.contains("stacks/a is affected and depends on it, but a change reaches only what comes after"),
        "{why}"
    );
    let why = explain(&found, "stacks/b").unwrap().why_not.join("\n");
    assert!(why.contains("it depends on stacks/core, which is not affected"), "{why}");
}

#[tokio::test]
async fn bl_052_dependents_follow_unless_they_are_switched_off_and_both_are_explained() {
    let files = |config: &'static str| {
        [
            ("stackorder.yaml", config.to_owned()),
            ("stacks/a/main.tf", stack("a")),
            ("stacks/b/main.tf", stack("b")),
            ("stacks/b/.stackorder.yaml", "depends_on: [stacks/a]\n".to_owned()),
        ]
    };
    let on = files("version: 1\n");
    let mut world = branch_of(&on.each_ref().map(|(path, text)| (*path, text.as_str()))).await;
    world.write("stacks/a/main.tf", &format!("{}# changed\n", stack("a")));
    let found = reached(&mut world);
    assert_eq!(rows(&found), ["stacks/a (changed)", "stacks/b (dependent)"]);
    assert_eq!(found.resolution.affected[1].via, ["stacks/a"]);
    let explanation = explain(&found, "stacks/b").unwrap();
    assert_eq!((explanation.wave, explanation.after.as_slice()), (Some(1), &["stacks/a".to_owned()][..]));
    assert_eq!(explanation.order.len(), 1);

    let off = files("version: 1\npropagate:\n  dependents: false\n");
    let mut world = branch_of(&off.each_ref().map(|(path, text)| (*path, text.as_str()))).await;
    world.write("stacks/a/main.tf", &format!("{}# changed\n", stack("a")));
    let found = reached(&mut world);
    assert_eq!(rows(&found), ["stacks/a (changed)"]);
    let why = explain(&found, "stacks/b").unwrap().why_not.join("\n");
    assert!(why.contains("it depends on stacks/a, but propagate.dependents is off"), "{why}");
}

#[tokio::test]
async fn bl_054_a_change_of_thousands_of_files_loses_none() {
    let mut world = branch_of(&[("stacks/zz/main.tf", &stack("zz"))]).await;
    std::fs::create_dir_all(world.root.join("docs")).unwrap();
    for number in 0..3_500 {
        std::fs::write(world.root.join(format!("docs/{number:04}.md")), number.to_string()).unwrap();
    }
    world.write("stacks/zz/main.tf", &format!("{}# changed\n", stack("zz")));
    let found = reached(&mut world);
    assert_eq!((rows(&found), found.change.paths.len()), (vec!["stacks/zz (changed)".to_owned()], 3_501));
}

#[tokio::test]
async fn bl_056_a_lock_file_alone_plans_its_stack_and_in_a_module_nothing() {
    let mut world = branch_of(&[
        ("stacks/a/main.tf", &stack("a")),
        ("stacks/b/main.tf", &calling("b", "../../modules/m")),
        ("modules/m/main.tf", ""),
    ])
    .await;
    world.write("stacks/a/.terraform.lock.hcl", "# changed\n");
    world.write("modules/m/.terraform.lock.hcl", "# changed\n");
    assert_eq!(rows(&reached(&mut world)), ["stacks/a (changed)"]);
}

#[tokio::test]
async fn bl_059_branches_named_like_a_directory_or_oddly_are_still_branches() {
    for name in ["stacks/a", "feat/#12-ü", "feature/main", "-dashed-is-refused"] {
        let mut world = branch_of(&[("stacks/a/main.tf", &stack("a"))]).await;
        if name.starts_with('-') {
            let refused = affected(&world.local_job(), Some(name)).unwrap_err().to_string();
            assert!(refused.contains("not a git revision"), "{refused}");
            continue;
        }
        world.git(&["branch", name]);
        world.write("stacks/a/main.tf", &format!("{}# changed\n", stack("a")));
        world.commit();
        assert_eq!(rows(&asked(&mut world, name)), ["stacks/a (changed)"], "{name}");
    }
}

#[tokio::test]
async fn bl_059_a_tag_with_the_name_of_the_default_branch_is_not_taken_for_it() {
    let mut world = branch_of(&[("stacks/a/main.tf", &stack("a")), ("stacks/b/main.tf", &stack("b"))]).await;
    world.write("stacks/a/main.tf", &format!("{}# main\n", stack("a")));
    world.commit();
    world.git(&["tag", "main"]);
    world.git(&["branch", "-f", "main", "change"]);
    world.git(&["update-ref", "refs/tags/main", "change~1"]);
    world.write("stacks/b/main.tf", &format!("{}# changed\n", stack("b")));
    world.commit();
    assert_eq!(rows(&asked(&mut world, "main")), ["stacks/b (changed)"]);
}

#[tokio::test]
async fn bl_060_an_empty_answer_says_what_made_it_empty() {
    let config = "version: 1\nstacks:\n  ignore: [\"**/*.md\"]\n";
    let mut world = branch_of(&[("stackorder.yaml", config), ("stacks/a/main.tf", &stack("a"))]).await;
    world.write("stacks/a/README.md", "changed\n");
    let found = reached(&mut world);
    assert_eq!(warnings(&found), ["none of the 1 changed paths counts: stacks.ignore matches them"]);
    let why = explain(&found, "stacks/a").unwrap().why_not.join("\n");
    assert!(why.contains("stacks/a/README.md changed and does not count: stacks.ignore matches it"), "{why}");

    let mut world = branch_of(&[("stacks/a/main.tf", &stack("a"))]).await;
    world.write("scripts/x.sh", "changed\n");
    assert_eq!(
        warnings(&reached(&mut world)),
        ["scripts/x.sh: changed path \"scripts/x.sh\" is in no stack or module"]
    );

    let mut world = branch_of(&[("stacks/a/main.tf", &stack("a"))]).await;
    world.write("stacks/a/main.tf", "# not committed\n");
    assert_eq!(rows(&asked(&mut world, "main")), Vec::<String>::new());
    assert!(world.printed().contains("and HEAD; what is not committed is not looked at"), "{}", world.printed());
}

#[tokio::test]
async fn bl_050_a_file_read_from_elsewhere_changed_and_nobody_was_planned() {
    let reading = |key: &str, expression: &str| format!("{}locals {{\n  it = {expression}\n}}\n", stack(key));
    let module = "locals {\n  it = jsondecode(file(\"${path.module}/../../shared/m.json\"))\n}\n";
    let mut world = branch_of(&[
        ("stacks/a/main.tf", &reading("a", "yamldecode(file(\"${path.root}/../../shared/a.yaml\"))")),
        ("stacks/b/main.tf", &reading("b", "templatefile(\"../../shared/b.tpl\", { x = 1 })")),
        ("stacks/c/main.tf", &calling("c", "../../modules/m")),
        ("stacks/d/main.tf", &reading("d", "filebase64(var.unknown)")),
        ("modules/m/main.tf", module),
        ("shared/a.yaml", "a: 1\n"),
        ("shared/m.json", "{}"),
    ])
    .await;
    world.write("shared/a.yaml", "a: 2\n");
    world.write("shared/b.tpl", "new\n");
    world.write("shared/m.json", "[]");
    let found = reached(&mut world);
    assert_eq!(rows(&found), ["stacks/a (watch_path)", "stacks/b (watch_path)", "stacks/c (watch_path)"]);
    assert_eq!(warnings(&found), Vec::<String>::new());
    let unresolved: Vec<String> = found.graph().warnings.iter().map(ToString::to_string).collect();
    assert!(unresolved[0].starts_with("stacks/d/main.tf:8: what filebase64() reads is not known"), "{unresolved:?}");
    let chain = &explain(&found, "stacks/a").unwrap().because[0].chain;
    assert_eq!((chain[0].from.as_str(), chain[0].to.as_str()), ("shared/a.yaml", "stacks/a"));
}

#[tokio::test]
async fn bl_050_a_file_that_no_scan_can_see_is_watched_because_the_configuration_says_so() {
    let unseen = format!("{}locals {{\n  it = templatefile(var.path, {{}})\n}}\n", stack("a"));
    let own = "watch: ['../../lambda/{{ .Name }}/**', ../../templates/x.tpl]\n";
    let files = [
        ("stacks/a/main.tf", unseen.as_str()),
        ("stacks/a/.stackorder.yaml", own),
        ("stacks/b/main.tf", &stack("b")),
        ("lambda/a/handler.py", "one"),
        ("templates/x.tpl", "one"),
    ];
    for path in ["lambda/a/handler.py", "lambda/a/new.py", "templates/x.tpl"] {
        let mut world = branch_of(&files).await;
        world.write(path, "two");
        let found = reached(&mut world);
        assert_eq!(rows(&found), ["stacks/a (watch_path)"], "{path}");
        assert_eq!(warnings(&found), Vec::<String>::new());
        let chain = &explain(&found, "stacks/a").unwrap().because[0].chain;
        assert_eq!((chain[0].from.as_str(), chain[0].by.as_str()), (path, "watch_path"));
    }

    let mut world = branch_of(&files).await;
    world.write("lambda/b/handler.py", "two");
    let found = reached(&mut world);
    assert_eq!(rows(&found), Vec::<String>::new());
    let why = explain(&found, "stacks/a").unwrap().why_not.join("\n");
    assert!(why.contains("nor does one match the 2 files and patterns outside that it reads or watches"), "{why}");

    // The entry is of the stack's own file, so taking it away is a change of the stack.
    let mut world = branch_of(&files).await;
    world.write("stacks/a/.stackorder.yaml", "");
    world.write("lambda/a/handler.py", "two");
    assert_eq!(rows(&reached(&mut world)), ["stacks/a (changed)"]);
}

#[tokio::test]
async fn bl_050_a_file_of_a_set_that_comes_or_goes_plans_its_readers() {
    let set = format!("{}locals {{\n  it = fileset(\"${{path.module}}/../../shared\", \"*.json\")\n}}\n", stack("a"));
    let files = [("stacks/a/main.tf", set.as_str()), ("shared/old.json", "{}"), ("shared/same.json", "{}")];
    let mut world = branch_of(&files).await;
    std::fs::remove_file(world.root.join("shared/old.json")).unwrap();
    assert_eq!(rows(&reached(&mut world)), ["stacks/a (watch_path)"]);

    let mut world = branch_of(&files).await;
    world.write("shared/new.json", "{}");
    assert_eq!(rows(&reached(&mut world)), ["stacks/a (watch_path)"]);

    let mut world = branch_of(&files).await;
    world.write("shared/new.txt", "not of the set");
    assert_eq!(rows(&reached(&mut world)), Vec::<String>::new());

    // A file that is read by its name stays watched when it is gone.
    let by_name = format!("{}locals {{\n  it = file(\"../../shared/old.json\")\n}}\n", stack("a"));
    let mut world = branch_of(&[("stacks/a/main.tf", &by_name), ("shared/old.json", "{}")]).await;
    std::fs::remove_file(world.root.join("shared/old.json")).unwrap();
    assert_eq!(rows(&reached(&mut world)), ["stacks/a (watch_path)"]);
}
