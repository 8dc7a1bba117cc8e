//! The corner cases of spec 30 §18 that are about resolving, and the rules of spec 11 §9–§14 around them.

use std::collections::BTreeSet;

use super::{changing, rows, small};
use crate::config::model::{PropagateConfig, RepoConfig};
use crate::graph::cycles::{cycles, spelled};
use crate::graph::model::{Graph, Stack, Warning};
use crate::graph::ordering;
use crate::graph::resolution::{BaseFacts, RemovedStack, Resolution};
use crate::graph::resolve::{ResolveRequest, resolve};
use crate::graph::union::{UnionInput, resolve_union};
use crate::graph::validate::validate;

fn resolved(graph: &Graph, paths: &[&str]) -> Resolution {
    resolve(graph, &RepoConfig::default(), &changing(paths))
}

fn requesting(graph: &Graph, paths: &[&str], requested: &[&str]) -> Resolution {
    let requested = requested.iter().map(|key| (*key).to_owned()).collect();
    resolve(graph, &RepoConfig::default(), &ResolveRequest { requested, ..changing(paths) })
}

fn codes(warnings: &[Warning]) -> Vec<&str> {
    // Small graphs configure no environment.
    warnings.iter().map(|warning| warning.code.as_str()).filter(|code| *code != "environment_default").collect()
}

#[test]
fn case_003_only_the_deepest_stack_and_module_around_a_path_change() {
    let graph = small::graph("live, live/inner, m/x < other, m/x/sub < another, m/x/sub < live");
    assert_eq!(rows(&resolved(&graph, &["live/inner/main.tf"])), ["0 live/inner (changed)"]);
    assert_eq!(rows(&resolved(&graph, &["live"])), ["0 live (changed)"]);
    assert_eq!(rows(&resolved(&graph, &["m/x/sub/a.json"])), ["0 another (module)", "0 live (module)"]);
    assert_eq!(rows(&resolved(&graph, &["live2/main.tf"])), Vec::<String>::new());
}

#[test]
fn a_stack_that_the_pull_request_applied_stays_affected_and_reaches_its_dependents() {
    let graph = small::graph("vpc <- eks, other");
    let applied = |keys: &[&str], paths: &[&str]| {
        let applied = keys.iter().map(|key| (*key).to_owned()).collect();
        resolve(&graph, &RepoConfig::default(), &ResolveRequest { applied, ..changing(paths) })
    };
    let reverted = applied(&["vpc"], &["other/main.tf"]);
    assert_eq!(rows(&reverted), ["0 other (changed)", "0 vpc (changed)", "1 eks (dependent)"]);
    assert_eq!(codes(&reverted.warnings), ["applied_before"]);

    let still_changed = applied(&["vpc"], &["vpc/main.tf"]);
    assert_eq!((rows(&still_changed).len(), codes(&still_changed.warnings).len()), (2, 0));

    let gone = applied(&["cache"], &["other/main.tf"]);
    assert_eq!((rows(&gone), codes(&gone.warnings)), (vec!["0 other (changed)".to_owned()], vec!["applied_and_gone"]));
}

#[test]
fn a_module_inside_a_stack_changes_both() {
    let mut graph = small::graph("m/x < other, live");
    graph.modules[0].path = "live/mod".to_owned();
    assert_eq!(rows(&resolved(&graph, &["live/mod/main.tf"])), ["0 live (changed)", "0 other (module)"]);
}

#[test]
fn case_006_both_modules_of_a_chain_are_in_via() {
    let graph = small::graph("m/b < m/a, m/a < live/x");
    let resolution = resolved(&graph, &["m/b/main.tf"]);
    assert_eq!(rows(&resolution), ["0 live/x (module)"]);
    assert_eq!(resolution.affected[0].via, ["acme/infra//m/a", "acme/infra//m/b"]);
}

#[test]
fn case_007_git_modules_never_match_a_path() {
    let mut graph = small::graph("m/x < live");
    graph.modules[0].kind = crate::graph::model::ModuleKind::Git;
    let resolution = resolved(&graph, &["m/x/main.tf"]);
    assert_eq!((rows(&resolution), codes(&resolution.warnings)), (Vec::new(), vec!["path_unowned"]));
    assert_eq!(rows(&resolved(&graph, &["live/main.tf"])), ["0 live (changed)"], "whose ref is bumped");
}

#[test]
fn paths_are_cleaned_ignored_or_named() {
    let graph = small::graph("live/a");
    let same = ["/live//a/x.tf", "live\\a\\x.tf", "./live/b/../a/x.tf"];
    for path in same {
        assert_eq!(rows(&resolved(&graph, &[path])), ["0 live/a (changed)"], "{path}");
    }
    for path in ["", "live/a/.terraform/x", "live/a/README", "docs/x.md", "stackorder.yaml", ".stackorder/hooks/x.sh"] {
        let resolution = resolved(&graph, &[path]);
        assert_eq!(rows(&resolution), Vec::<String>::new(), "{path}");
        assert!(!codes(&resolution.warnings).contains(&"path_unowned"), "{path}");
    }
    for path in ["../x", "scripts/x.sh"] {
        assert_eq!(codes(&resolved(&graph, &[path]).warnings), ["path_unowned"], "{path}");
    }
    let mut config = RepoConfig::default();
    config.stacks.ignore = vec!["[".to_owned(), "**/*.txt".to_owned()];
    config.stacks.ignore_lockfile = true;
    let paths = ["live/a/x.txt", "live/a/.terraform.lock.hcl"];
    assert_eq!(codes(&resolve(&graph, &config, &changing(&paths)).warnings), ["ignore_glob", "nothing_affected"]);
}

/// atlantis#1970: a lock file alone plans its stack; in a module folder it plans nothing.
#[test]
fn a_lock_file_counts_for_a_stack_only() {
    let graph = small::graph("m/x < live/a");
    assert_eq!(rows(&resolved(&graph, &["live/a/.terraform.lock.hcl"])), ["0 live/a (changed)"]);
    assert_eq!(rows(&resolved(&graph, &["m/x/.terraform.lock.hcl"])), Vec::<String>::new());
}

#[test]
fn propagation_follows_dependents_and_never_siblings() {
    let graph = small::graph("core <- a, core <- b, a <= deep, core <= deep");
    assert_eq!(rows(&resolved(&graph, &["a/x.tf"])), ["0 a (changed)", "1 deep (reads_state)"]);
    let all = ["0 core (changed)", "1 a (changed, dependent)", "1 b (dependent)", "2 deep (reads_state)"];
    let resolution = resolved(&graph, &["core/x.tf", "a/x.tf"]);
    assert_eq!(rows(&resolution), all);
    assert_eq!(resolution.affected[3].via, ["a", "core"]);
    let off = RepoConfig {
        propagate: PropagateConfig { dependents: false, ..PropagateConfig::default() },
        ..RepoConfig::default()
    };
    let resolution = resolve(&graph, &off, &changing(&["core/x.tf", "a/x.tf"]));
    assert_eq!(rows(&resolution), ["0 core (changed)", "1 a (changed)"]);
    assert_eq!(resolution.affected[1].via, Vec::<String>::new());
}

#[test]
fn changed_settings_are_a_reason_of_their_own() {
    let graph = small::graph("a <- b");
    let base = BaseFacts { settings: vec!["a".into(), "gone".into()], ..BaseFacts::default() };
    let resolution = resolve(&graph, &RepoConfig::default(), &ResolveRequest { base, ..ResolveRequest::default() });
    assert_eq!(rows(&resolution), ["0 a (config)", "1 b (dependent)"]);
}

#[test]
fn who_depended_on_a_removed_stack_is_affected() {
    let mut graph = small::graph("old <- b, b <- c");
    graph.stacks.retain(|stack| stack.key != "old");
    let removed =
        RemovedStack { key: "old".into(), path: "old".into(), state: String::new(), renamed_to: String::new() };
    let base = BaseFacts { removed: vec![removed], ..BaseFacts::default() };
    let resolution = resolve(&graph, &RepoConfig::default(), &ResolveRequest { base, ..ResolveRequest::default() });
    assert_eq!(rows(&resolution), ["0 b (dependent)", "1 c (dependent)"]);
    assert_eq!(resolution.affected[0].via, ["old"]);
}

#[test]
fn a_request_schedules_exactly_the_valid_stacks() {
    let graph = small::graph("a <- b, b <- c, other, x/y:one, x/y:two");
    let all = requesting(&graph, &["a/x.tf"], &["", "  "]);
    assert_eq!(all.affected.len(), 3);
    let some = requesting(&graph, &["a/x.tf"], &[" ./a/ ", "ACME/infra//c", "other"]);
    assert_eq!(rows(&some), ["0 a (changed)", "0 other (requested)", "1 c (dependent)"]);
    assert_eq!(some.waves, [vec!["a".to_owned(), "other".to_owned()], vec!["c".to_owned()]]);
    let none = requesting(&graph, &["a/x.tf"], &["nope", "acme/net//a", "x/y"]);
    assert_eq!(none.affected, []);
    assert_eq!(
        codes(&none.warnings),
        ["nothing_affected", "requested_instances", "requested_unknown", "requested_unknown"]
    );
}

#[test]
fn cycles_are_spelled_from_their_smallest_key() {
    let graph = small::graph("b <- a, a <- b, x <- y, y <- z, z <- x, y <- x, self <- self, end <- a");
    let found = cycles(&ordering(&graph));
    assert_eq!(spelled(&found), "a -> b -> a; self -> self; x -> y -> x");
}

#[test]
fn case_011_012_a_cycle_in_the_affected_set_schedules_nothing_even_when_the_request_avoids_it() {
    let graph = small::graph("b <- a, a <- b, free, b <- c");
    let resolution = requesting(&graph, &["a/x.tf"], &["c"]);
    assert_eq!(resolution.cycles, [["a", "b", "a"]]);
    assert_eq!(rows(&resolution), ["0 c (dependent)"]);
    assert!(resolution.waves.is_empty() && resolution.matrix.include.is_empty());
    assert_eq!(resolved(&graph, &["free/x.tf"]).cycles, Vec::<Vec<String>>::new());
}

#[test]
fn bl_087_two_stacks_that_read_each_other_looped_for_ever() {
    let graph = small::graph("b <= a, a <= b, free, b <- c");
    let knotted = resolved(&graph, &["a/x.tf", "b/x.tf", "free/x.tf"]);
    assert_eq!(knotted.cycles, [["a", "b", "a"]], "told once, with its path");
    assert!(knotted.waves.is_empty() && knotted.matrix.include.is_empty(), "nothing of it is planned or applied");

    let outside = resolved(&graph, &["free/x.tf"]);
    assert!(outside.cycles.is_empty());
    assert_eq!(rows(&outside), ["0 free (changed)"], "what the cycle does not reach is planned");
}

#[test]
fn external_stacks_are_listed_and_never_scheduled() {
    let mut graph = small::graph("a <- acme/net//x, acme/up//y <- a");
    for stack in graph.stacks.iter_mut().filter(|stack| stack.key.contains("//")) {
        stack.external = true;
    }
    let resolution = resolved(&graph, &["a/x.tf"]);
    assert_eq!(rows(&resolution), ["0 a (changed)"]);
    assert_eq!(resolution.external, ["acme/net//x"]);
}

#[test]
fn stacks_that_cannot_be_scheduled_are_named() {
    let mut graph = small::graph("a");
    let odd = |key: &str| Stack { key: key.into(), path: key.into(), ..Stack::default() };
    graph.stacks.extend([odd("../x"), odd("./y"), odd("/z")]);
    let resolution = resolved(&graph, &["y/main.tf", "z/main.tf", "a/main.tf"]);
    assert_eq!(rows(&resolution), ["0 a (changed)"]);
    assert_eq!(codes(&resolution.warnings).iter().filter(|code| **code == "not_schedulable").count(), 3);
}

#[test]
fn case_022_locks_are_shown_and_stop_nothing() {
    let graph = small::graph("a");
    let lock = crate::graph::resolution::LockInfo {
        stack_id: None,
        stack_key: "a".into(),
        run_id: crate::ids::RunId::from_random([7; 16]),
        pr_number: 12,
        taken_at: crate::clock::Millis::default(),
        reason: String::new(),
    };
    let locks = [("a".to_owned(), lock.clone())].into();
    let resolution = resolve(&graph, &RepoConfig::default(), &ResolveRequest { locks, ..changing(&["a/x.tf"]) });
    assert_eq!(resolution.affected[0].locked_by, Some(lock));
    assert_eq!(resolution.matrix.include.len(), 1);
}

#[test]
fn validation_tells_errors_from_warnings() {
    let good = validate(&small::graph("a <- b, m/x < b"));
    assert_eq!((good.errors.len(), good.warnings.len()), (0, 0));
    let mut graph =
        small::graph("a <- b, b <- a, self <- self, m/x < m/y, m/y < m/x, m/z < gone, lost <- b, seen <= unseen");
    graph.stacks.retain(|stack| !["gone", "lost", "seen"].contains(&stack.key.as_str()));
    graph.modules[2].path.clear();
    graph.stacks.push(graph.stacks[0].clone());
    graph.stacks.push(Stack { key: "odd".into(), path: "other".into(), ..Stack::default() });
    let found = validate(&graph);
    assert_eq!(
        found.errors,
        [
            "cycle: a -> b -> a",
            "cycle: self -> self",
            "edge depends_on self -> self: a node cannot depend on itself",
            "edge reads_state unseen -> seen: there is no \"seen\"",
            "edge uses_module gone -> acme/infra//m/z: there is no \"gone\"",
            "stack \"a\" is there twice",
        ]
    );
    assert_eq!(codes(&found.warnings), ["depends_on_unknown", "key_mismatch", "module_cycle", "module_without_path"]);
}

/// A pull request that narrows discovery, and one that deletes.
#[test]
fn case_014_016_a_pull_request_cannot_take_stacks_out_of_its_own_plan() {
    let base_graph = small::graph("live/a <= live/b, m/x < live/a");
    let graph = small::graph("live/b, m/x");
    let (base, spelled_out, mut head) = (RepoConfig::default(), RepoConfig::default(), RepoConfig::default());
    head.stacks.discover = vec!["live/b".to_owned()];
    let gone = BTreeSet::new();
    let request = changing(&["m/x/main.tf"]);
    let input = |head| UnionInput { graph: &graph, head, base: &base, base_graph: Some(&base_graph), gone: &gone };
    let same = resolve_union(input(&spelled_out), &request);
    assert_eq!((same.added, rows(&same.resolution)), (Vec::new(), Vec::new()));

    let united = resolve_union(input(&head), &request);
    assert_eq!(united.added, ["live/a"]);
    assert_eq!(rows(&united.resolution), ["0 live/a (module)", "1 live/b (reads_state)"]);
    let warning = united.resolution.warnings.iter().find(|warning| warning.code == "configuration_differs").unwrap();
    assert_eq!(
        warning.message,
        "stackorder.yaml differs from the default branch in stacks.discover; the change is resolved under both; planned because of it: live/a"
    );

    let gone = BTreeSet::from(["live/a".to_owned()]);
    let input = UnionInput { graph: &graph, head: &head, base: &base, base_graph: Some(&base_graph), gone: &gone };
    let deleted = resolve_union(input, &changing(&["live/a/main.tf"]));
    assert_eq!((deleted.added, rows(&deleted.resolution)), (Vec::new(), Vec::new()));
    assert_eq!(deleted.resolution.removed[0].key, "live/a");
}

/// Each file used to be compared with every instance: a pull request of a few megabytes kept a server busy for hours.
#[test]
fn thousands_of_instances_and_of_their_files_cost_no_more_than_both() {
    const COUNT: usize = 4_000;
    let stack = |number: usize| Stack {
        key: format!("live/a:i{number}"),
        path: "live/a".to_owned(),
        instance: format!("i{number}"),
        ..Stack::default()
    };
    let graph = Graph { stacks: (0..COUNT).map(stack).collect(), ..Graph::default() };
    let mut config = RepoConfig::default();
    config.stacks.instances.from_var_files = "env/*.tfvars".to_owned();
    let paths: Vec<String> = (0..COUNT).map(|number| format!("live/a/env/i{number}.tfvars")).collect();
    let request = ResolveRequest { changed_paths: paths, ..ResolveRequest::default() };
    assert_eq!(resolve(&graph, &config, &request).affected.len(), COUNT);
}

/// Spec 11 §18: the var file of exactly one instance changes that instance alone.
#[test]
fn an_instances_own_var_file_is_of_no_other_instance() {
    let backend = "terraform {\n  backend \"s3\" {}\n}\n";
    let files = |own: &str| {
        crate::scan::MemoryFiles::default()
            .with("stackorder.yaml", "stacks: { instances: { from_var_files: 'envs/*' } }\n")
            .with("stacks/a/main.tf", backend)
            .with("stacks/a/.stackorder.yaml", own)
            .with("stacks/a/envs/dev.tfvars", "")
            .with("stacks/a/envs/prd.vars", "")
            .with("stacks/a/both.tfvars", "")
            .with("stacks/a/dev.tfbackend", "")
    };
    let reached = |own: &str, path: &str| {
        let (graph, config) = super::graph_of(&files(own));
        rows(&resolve(&graph, &config, &changing(&[path])))
    };
    let all = ["0 stacks/a:dev (changed)", "0 stacks/a:prd (changed)"];
    for (own, path, expected) in [
        ("", "stacks/a/envs/dev.tfvars", &all[..1]),
        ("", "stacks/a/envs/prd.vars", &all[1..]),
        ("var_files: [both.tfvars]\n", "stacks/a/both.tfvars", &all[..]),
        ("var_files: ['envs/dev.tfvars']\n", "stacks/a/envs/dev.tfvars", &all[..]),
        ("backend_config: [stacks/a/dev.tfbackend]\n", "stacks/a/dev.tfbackend", &all[..]),
        ("", "stacks/a/both.tfvars", &all[..]),
        ("", "stacks/a/main.tf", &all[..]),
        ("", "stacks/a/.stackorder.yaml", &all[..]),
        ("", "stacks/a/terraform.tfvars", &all[..]),
        // An instance that is gone with its file is listed as removed; the others have nothing to do with it.
        ("", "stacks/a/envs/old.tfvars", &[]),
        ("instances: [dev, prd]\n", "stacks/a/envs/old.tfvars", &all[..]),
    ] {
        assert_eq!(reached(own, path), expected, "{own:?} {path}");
    }
    // Without any file the directory is one stack again, and that is a new one.
    let bare = crate::scan::MemoryFiles::default()
        .with("stackorder.yaml", "stacks: { instances: { from_var_files: 'envs/*' } }\n")
        .with("stacks/a/main.tf", backend);
    let (graph, config) = super::graph_of(&bare);
    let resolution = resolve(&graph, &config, &changing(&["stacks/a/envs/dev.tfvars"]));
    assert_eq!(rows(&resolution), ["0 stacks/a (changed)"]);
}

#[test]
fn a_watched_pattern_reaches_its_stacks_but_not_for_their_own_files() {
    let mut graph = small::graph("a, b, c");
    graph.stacks[0].watch_globs = vec!["shared/*.json".to_owned(), "[".to_owned()];
    graph.stacks[1].watch_globs = vec!["shared/*.json".to_owned(), "**/x.json".to_owned()];
    let resolution = resolved(&graph, &["shared/new.json"]);
    assert_eq!(rows(&resolution), ["0 a (watch_path)", "0 b (watch_path)"]);
    assert_eq!(codes(&resolution.warnings), ["watch_globs"], "one of the patterns is none");
    assert_eq!(rows(&resolved(&graph, &["b/x.json"])), ["0 b (changed)"]);
    assert_eq!(rows(&resolved(&graph, &["c/x.json"])), ["0 b (watch_path)", "0 c (changed)"]);
    assert_eq!(rows(&resolved(&graph, &["shared/new.txt"])), Vec::<String>::new());
}

#[test]
fn no_number_of_stacks_leaves_a_watched_glob_out() {
    let names: Vec<String> = (0..1_200).map(|number| format!("s/{number:04}")).collect();
    let mut graph = small::graph(&names.join(", "));
    for (number, stack) in graph.stacks.iter_mut().enumerate() {
        stack.watch_globs = vec![format!("lambda/{number:04}/**")];
    }
    let one = resolve(&graph, &RepoConfig::default(), &changing(&["lambda/1100/src/main.py"]));
    assert_eq!(one.affected.iter().map(|stack| stack.key.as_str()).collect::<Vec<_>>(), ["s/1100"]);
    assert!(!codes(&one.warnings).contains(&"watch_globs"), "{:?}", one.warnings);

    for (number, stack) in graph.stacks.iter_mut().enumerate() {
        stack.watch_globs = vec![format!("**/{number:04}.py")];
    }
    let all = resolve(&graph, &RepoConfig::default(), &changing(&["lambda/1100.py"]));
    assert_eq!(all.affected.len(), 1_200, "what cannot be told apart counts for all");
    assert!(codes(&all.warnings).contains(&"watch_globs"), "{:?}", codes(&all.warnings));
}
