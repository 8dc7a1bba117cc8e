//! Files that the configuration says to watch.

use super::{scanned, warnings};
use crate::config::model::RepoConfig;
use crate::graph::model::Graph;
use crate::graph::resolution::Reason;
use crate::graph::{ResolveRequest, resolve};
use crate::scan::{EntryKind, MemoryFiles, ScanOptions, scan};

const S3: &str = "terraform {\n  backend \"s3\" {}\n}\n";

/// A checkout whose `stacks/a` has this file.
fn checkout(own: &str) -> MemoryFiles {
    MemoryFiles::default()
        .with("stacks/a/main.tf", S3)
        .with("stacks/a/.stackorder.yaml", own)
        .with("stacks/b/main.tf", S3)
        .with("lambda/one/handler.py", "")
        .with("lambda/two/handler.py", "")
}

fn globs(graph: &Graph, key: &str) -> Vec<String> {
    graph.stacks.iter().find(|stack| stack.key == key).expect("the stack is there").watch_globs.clone()
}

/// The stacks that a change of the path reaches, with their reasons.
fn reached(graph: &Graph, path: &str) -> Vec<String> {
    let request = ResolveRequest { changed_paths: vec![path.to_owned()], ..ResolveRequest::default() };
    let affected = resolve(graph, &RepoConfig::default(), &request).affected;
    let reasons = |reasons: &[Reason]| reasons.iter().map(|reason| reason.as_str()).collect::<Vec<_>>().join(", ");
    affected.iter().map(|stack| format!("{} ({})", stack.key, reasons(&stack.reasons))).collect()
}

#[test]
fn a_watched_file_reaches_the_stack_and_each_instance_its_own() {
    let graph = scanned(&checkout(
        "watch: [../../templates/*.tpl]\ninstances: { one: , two: { watch: ['../../lambda/{{ .Instance }}/**'] } }\n",
    ));
    assert_eq!(globs(&graph, "stacks/a:one"), ["templates/*.tpl"]);
    assert_eq!(globs(&graph, "stacks/a:two"), ["lambda/two/**", "templates/*.tpl"]);
    assert_eq!(globs(&graph, "stacks/b"), Vec::<String>::new());
    assert_eq!(reached(&graph, "lambda/two/new/file.py"), ["stacks/a:two (watch_path)"]);
    assert_eq!(reached(&graph, "templates/x.tpl"), ["stacks/a:one (watch_path)", "stacks/a:two (watch_path)"]);
    assert_eq!(reached(&graph, "lambda/one/handler.py"), Vec::<String>::new());
}

#[test]
fn a_file_of_its_own_has_no_second_reason_and_one_of_a_sibling_has() {
    let files = checkout("watch: ['../**']\n").with("stacks/a/inner/main.tf", S3);
    let graph = scanned(&files);
    assert_eq!(reached(&graph, "stacks/a/main.tf"), ["stacks/a (changed)"]);
    assert_eq!(reached(&graph, "stacks/b/main.tf"), ["stacks/a (watch_path)", "stacks/b (changed)"]);
    assert_eq!(reached(&graph, "stacks/a/inner/x"), ["stacks/a (watch_path)", "stacks/a/inner (changed)"]);
}

#[test]
fn an_instance_can_watch_the_var_file_of_another() {
    let files = checkout("instances: { one: , two: { watch: [one.tfvars] } }\n")
        .with("stackorder.yaml", "stacks: { instances: { from_var_files: '*.tfvars' } }\n")
        .with("stacks/a/one.tfvars", "")
        .with("stacks/a/two.tfvars", "");
    let scanned = scan(&files, &ScanOptions::new("acme/infra", "")).unwrap();
    let request = ResolveRequest { changed_paths: vec!["stacks/a/one.tfvars".to_owned()], ..Default::default() };
    let affected = resolve(&scanned.graph, &scanned.config, &request).affected;
    let keys: Vec<&str> = affected.iter().map(|stack| stack.key.as_str()).collect();
    assert_eq!(keys, ["stacks/a:one", "stacks/a:two"]);
}

#[test]
fn links_and_submodules_are_watched_where_git_sees_their_change() {
    let files = checkout("watch: ['../../linked/**', ../../linked/new/x.py, '../../vendor/x/**', '../../all/**']\n")
        .with_entry("linked", EntryKind::DirectoryLink { target: "lambda/one".into() })
        .with_entry("vendor", EntryKind::Submodule)
        .with("all/own.txt", "")
        .with_entry("all/deep/er", EntryKind::DirectoryLink { target: "lambda/two".into() });
    let graph = scanned(&files);
    assert_eq!(globs(&graph, "stacks/a"), ["all/**", "lambda/one/**", "lambda/one/new/x.py", "lambda/two/**"]);
    assert_eq!(reached(&graph, "vendor"), ["stacks/a (watch_path)"]);
    assert_eq!(reached(&graph, "lambda/two/new.py"), ["stacks/a (watch_path)"]);
}

#[test]
fn a_directory_with_the_letters_of_patterns_in_its_name_is_itself() {
    let files = MemoryFiles::default()
        .with("stacks/[a]/main.tf", S3)
        .with("stacks/[a]/.stackorder.yaml", "watch: ['{x,y}.json', '../*.txt']\n")
        .with("stacks/a.txt", "");
    assert_eq!(globs(&scanned(&files), "stacks/[a]"), ["stacks/*.txt", r"stacks/\[a\]/{x,y}.json"]);
}

#[test]
fn entries_that_match_nothing_are_named_with_their_line() {
    let own = "watch:
  - ../../lambda/**
  - ../../lamda/**
  - ../../lambda/one/
  - ../../docs/*.md
instances:
  one:
    watch: ['../../lambda/{{ .Instance }}/*.rb']
  two:
";
    let graph = scanned(&checkout(own).with("docs/read.md", ""));
    assert_eq!(
        warnings(&graph),
        [
            "stacks/a/.stackorder.yaml:5: watch: \"../../docs/*.md\" matches only files that stacks.ignore leaves out",
            "stacks/a/.stackorder.yaml:3: watch: \"../../lamda/**\" matches no file",
            "stacks/a/.stackorder.yaml:4: watch: \"../../lambda/one/\" is a directory; write \"../../lambda/one/**\" for the files in it",
            "stacks/a/.stackorder.yaml:8: watch: \"../../lambda/one/*.rb\" matches no file",
        ]
    );
    let once = "watch: ['../../lambda/{{ .Instance }}/*']\ninstances: [one, three]\n";
    assert_eq!(warnings(&scanned(&checkout(once))), Vec::<String>::new(), "one of the instances has files");
}

#[test]
fn whether_an_entry_matches_counts_for_the_tree_hash_and_what_the_files_hold_does_not() {
    let files = checkout("watch: ['../../new/*']\n");
    let hash = scanned(&files).tree_hash;
    let there = files.clone().with("new/a", "");
    assert_ne!(scanned(&there).tree_hash, hash);
    assert_eq!(scanned(&there.clone().with("new/a", "x").with("new/b", "")).tree_hash, scanned(&there).tree_hash);
}

#[test]
fn a_glob_that_leaves_the_repository_stops_the_scan_at_its_line() {
    let files = checkout("instances:\n  one:\n    watch:\n      - ../../../elsewhere/**\n");
    let errors = scan(&files, &ScanOptions::new("acme/infra", "")).unwrap_err();
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let expected = "stacks/a/.stackorder.yaml: instances.one.watch[0]: \"../../../elsewhere/**\": leads out of the repository (line 4)";
    assert_eq!(shown, [expected]);
}
