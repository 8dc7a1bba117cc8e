//! Which modules there are and who calls them (spec 11 §6).

use super::{edges, scanned, warnings};
use crate::graph::model::STACK_INCOMPLETE;
use crate::graph::{ResolveRequest, resolve};
use crate::scan::{EntryKind, MemoryFiles, ScanOptions, scan};

const S3: &str = "terraform {\n  backend \"s3\" {}\n}\n";

fn calls(sources: &[&str]) -> String {
    let call = |(number, source): (usize, &&str)| format!("module \"m{number}\" {{\n  source = \"{source}\"\n}}\n");
    S3.to_owned() + &sources.iter().enumerate().map(call).collect::<String>()
}

#[test]
fn local_calls_are_followed_to_the_end_and_cycles_tolerated() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", calls(&["../../lib/x/", "./inner"]))
        .with("stacks/a/inner/main.tf", "")
        .with("lib/x/main.tf", "module \"y\" { source = \"./../y\" }\n")
        .with("lib/y/main.tf", "module \"x\" { source = \"../x\" }\n")
        .with("modules/unused/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(
        edges(&graph),
        [
            "acme/infra//lib/x uses_module acme/infra//lib/y",
            "acme/infra//lib/y uses_module acme/infra//lib/x",
            "stacks/a uses_module acme/infra//lib/x",
            "stacks/a uses_module acme/infra//stacks/a/inner",
        ]
    );
    let sources: Vec<&str> = graph.modules.iter().map(|module| module.source.as_str()).collect();
    assert_eq!(sources, ["../../lib/x/", "./../y", "./modules/unused", "./inner"]);
    assert_eq!(warnings(&graph), Vec::<String>::new());
}

#[test]
fn calls_that_lead_nowhere_warn_with_their_place() {
    let files = MemoryFiles::default()
        .with(
            "stacks/a/main.tf",
            calls(&["", "../../../out", "./", "./none", "m", "${local.dir}/m", "../sub/x"])
                + "module \"bare\" {}\nmodule { source = \"./x\" }\n",
        )
        .with_entry("stacks/sub", EntryKind::Submodule);
    let graph = scanned(&files);
    assert_eq!(graph.modules, []);
    let mut found = warnings(&graph);
    found.sort();
    assert_eq!(
        found,
        [
            "stacks/a/main.tf:11: module \"m2\": source \"./\" is the calling directory itself",
            "stacks/a/main.tf:14: module \"m3\": source \"./none\" is not a directory of the repository",
            "stacks/a/main.tf:17: module \"m4\": source \"m\" is not supported",
            "stacks/a/main.tf:20: module \"m5\": its source is not known before the tool runs, so the edge is unresolved: local.dir is not declared",
            "stacks/a/main.tf:23: module \"m6\": source \"../sub/x\" leads into the git submodule \"stacks/sub\", which is not read",
            "stacks/a/main.tf:25: module \"bare\": it has no source",
            "stacks/a/main.tf:26: a module block needs exactly one label, its name",
            "stacks/a/main.tf:5: module \"m0\": its source is empty",
            "stacks/a/main.tf:8: module \"m1\": source \"../../../out\" leads out of the repository",
        ]
    );
}

#[test]
fn spellings_of_one_module_make_one_edge() {
    let files = MemoryFiles::default()
        .with(
            "stacks/a/main.tf",
            calls(&[
                "../../modules/m/",
                "../../modules/m",
                "git::https://github.com/acme/x.git?ref=v1",
                "github.com/acme/x?ref=v1",
            ]),
        )
        .with("modules/m/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a uses_module acme/infra//modules/m", "stacks/a uses_module acme/x@v1"]);
    assert_eq!(graph.edges[0].meta["source"], "../../modules/m");
    assert_eq!(
        (graph.edges[1].meta["source"].as_str(), graph.edges[1].meta["ref"].as_str()),
        ("git::https://github.com/acme/x.git?ref=v1", "v1")
    );
}

#[test]
fn a_git_source_of_this_repository_without_a_ref_stays_local() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", calls(&["github.com/acme/infra//modules/m"]))
        .with("modules/m/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a uses_module acme/infra//modules/m"]);
    assert_eq!(graph.modules[0].kind, crate::graph::model::ModuleKind::Local);
    assert_eq!(warnings(&graph).len(), 1);
}

#[test]
fn a_module_that_calls_itself_through_git_makes_no_edge() {
    let call = "module \"again\" { source = \"github.com/acme/infra//modules/m\" }\n";
    let files =
        MemoryFiles::default().with("stacks/a/main.tf", calls(&["../../modules/m"])).with("modules/m/main.tf", call);
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a uses_module acme/infra//modules/m"]);
    let source = "\"github.com/acme/infra//modules/m\"";
    let said = format!("modules/m/main.tf:1: module \"again\": source {source} is the calling directory itself");
    assert!(warnings(&graph).contains(&said), "{:?}", warnings(&graph));
    assert_eq!(crate::graph::validate::validate(&graph).errors, Vec::<String>::new());
}

/// Repositories of one module keep its examples below it.
#[test]
fn the_repository_root_may_be_a_module() {
    let files = MemoryFiles::default()
        .with("main.tf", "module \"n\" { source = \"./modules/n\" }\nlocals { f = fileset(path.module, \"**\") }\n")
        .with("modules/n/main.tf", "")
        .with("stacks/a/main.tf", calls(&["../../"]))
        .with("stacks/b/main.tf", calls(&["github.com/acme/infra"]))
        .with("stacks/c/main.tf", S3);
    let scanned = scan(&files, &ScanOptions::new("acme/infra", "")).expect("the checkout is valid");
    assert_eq!(
        edges(&scanned.graph),
        [
            "acme/infra uses_module acme/infra//modules/n",
            "stacks/a uses_module acme/infra",
            "stacks/b uses_module acme/infra",
        ]
    );
    let json = serde_json::to_string(&scanned.graph).expect("a graph is JSON");
    let graph = serde_json::from_str(&json).expect("a graph is read again");
    for (path, affected) in [
        ("main.tf", ["stacks/a", "stacks/b"].as_slice()),
        ("templates/x.tpl", &["stacks/a", "stacks/b"]),
        ("modules/n/main.tf", &["stacks/a", "stacks/b"]),
        ("stackorder.yaml", &[]),
    ] {
        let request = ResolveRequest { changed_paths: vec![path.to_owned()], ..ResolveRequest::default() };
        let resolution = resolve(&graph, &scanned.config, &request);
        let keys: Vec<&str> = resolution.affected.iter().map(|stack| stack.key.as_str()).collect();
        assert_eq!(keys, affected, "{path}");
    }
    let broken = super::scanned(&files.with("broken.tf", "locals {"));
    let incomplete = broken.stacks.iter().filter(|stack| stack.warnings.iter().any(|it| it.code == STACK_INCOMPLETE));
    assert_eq!(incomplete.map(|stack| stack.key.as_str()).collect::<Vec<_>>(), ["stacks/a", "stacks/b"]);
}

/// terramate#697: an override may repeat a module without its source.
#[test]
fn overrides_keep_or_replace_the_source() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", calls(&["../../m/vpc", "../../m/vpc"]))
        .with(
            "stacks/a/main_override.tf",
            "module \"m0\" { cidr = \"10.1.0.0/16\" }\nmodule \"m1\" { source = \"../../m/eks\" }\n",
        )
        .with("m/vpc/main.tf", "")
        .with("m/eks/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a uses_module acme/infra//m/eks", "stacks/a uses_module acme/infra//m/vpc"]);
    assert_eq!(warnings(&graph), Vec::<String>::new());
}

/// atlantis#1275: a linked module directory is recorded under its real path, and its own sources start there.
#[test]
fn linked_directories_are_followed_to_their_real_place() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", calls(&["../../modules/link", "../../loop"]))
        .with_entry("modules/link", EntryKind::DirectoryLink { target: "shared/real".into() })
        .with_entry("loop", EntryKind::DirectoryLink { target: "loop".into() })
        .with("shared/real/main.tf", "module \"n\" { source = \"../next\" }\n")
        .with("shared/next/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(
        edges(&graph),
        ["acme/infra//shared/real uses_module acme/infra//shared/next", "stacks/a uses_module acme/infra//shared/real",]
    );
    assert_eq!(warnings(&graph).len(), 1);
}

/// checkov#3225, terraform's JSON syntax: byte order marks and comments are no obstacle.
#[test]
fn json_and_byte_order_marks_are_read() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", format!("\u{feff}{S3}"))
        .with(
            "stacks/a/more.tf.json",
            "{\"//\": \"why\", \"module\": {\n \"m\": {\"//\": \"y\", \"source\": \"./m/\"}}}",
        )
        .with("stacks/a/broken.tf.json", "{\n \"module\": ")
        .with("stacks/a/m/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(edges(&graph), ["stacks/a uses_module acme/infra//stacks/a/m"]);
    assert_eq!(warnings(&graph), ["stacks/a/broken.tf.json:2: the document ends too early"]);
}

#[test]
fn a_module_in_a_hidden_directory_is_read_when_somebody_calls_it() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", calls(&["./.lib/m"]))
        .with("stacks/a/.lib/m/main.tf", "module \"n\" { source = \"../n\" }\n")
        .with("stacks/a/.lib/n/main.tf", "");
    assert_eq!(edges(&scanned(&files)).len(), 2);
}

#[test]
fn a_directory_may_be_a_stack_and_a_module() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", calls(&["../b"]))
        .with("stacks/b/main.tf", calls(&["github.com/acme/x?ref=1"]));
    let graph = scanned(&files);
    assert_eq!(
        edges(&graph),
        [
            "acme/infra//stacks/b uses_module acme/x@1",
            "stacks/a uses_module acme/infra//stacks/b",
            "stacks/b uses_module acme/x@1",
        ]
    );
}

/// Terraform records `./m//sub` as `./m/sub`.
#[test]
fn a_double_slash_in_a_local_source_is_one_way_into_the_package() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", calls(&["./m//sub", "./m/sub/"]))
        .with("stacks/a/m/sub/main.tf", "module \"n\" { source = \"../other\" }\n")
        .with("stacks/a/m/other/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(
        edges(&graph),
        [
            "acme/infra//stacks/a/m/sub uses_module acme/infra//stacks/a/m/other",
            "stacks/a uses_module acme/infra//stacks/a/m/sub",
        ]
    );
    assert_eq!(warnings(&graph), Vec::<String>::new());
}
