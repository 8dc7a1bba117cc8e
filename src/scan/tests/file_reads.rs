//! Files that expressions read outside of their directory (spec 11 §17, §18).

use super::{scanned, warnings};
use crate::graph::model::Graph;
use crate::scan::{EntryKind, MemoryFiles};

const S3: &str = "terraform {\n  backend \"s3\" {}\n}\n";

fn stack(body: &str) -> String {
    format!("{S3}{body}\n")
}

/// What `stacks/a` watches when its file holds `body`.
fn watched(body: &str) -> Vec<String> {
    watches(&scanned(&MemoryFiles::default().with("stacks/a/main.tf", stack(body))), "stacks/a")
}

fn watches(graph: &Graph, key: &str) -> Vec<String> {
    let stack = graph.stacks.iter().find(|stack| stack.key == key).expect("the stack is there");
    stack.watch_paths.iter().chain(&stack.watch_globs).cloned().collect()
}

#[test]
fn static_paths_outside_of_the_stack_are_watched_wherever_the_call_stands() {
    for body in [
        "locals { a = file(\"../../shared/a.yaml\") }",
        "locals { a = yamldecode(file(\"${path.root}/../../shared/a.yaml\")) }",
        "resource \"x\" \"y\" {\n  nested {\n    z = [for k in var.v : { a = filebase64(\"${path.module}/../../shared/a.yaml\") }]\n  }\n}",
        "output \"o\" { value = \"x${templatefile(\"../../shared/a.yaml\", { b = file(var.c == 1 ? null : null) })}\" }",
        "locals {\n  a = <<-EOT\n    ${file(\"${path.cwd}/../../shared/a.yaml\")}\n  EOT\n}",
        "locals { a = core::filesha256(\n  \"../../shared/a.yaml\" # why\n) }",
        "locals { a = fileexists (\"../../shared/./x/../a.yaml\") }",
        "locals {\n  dir = \"${path.module}/../../shared\"\n  a = filemd5(\"${local.dir}/a.yaml\")\n}",
        "variable \"name\" { default = \"a\" }\nlocals { a = filebase64sha512(join(\"/\", [\"..\", \"..\", \"shared\", format(\"%s.yaml\", var.name)])) }",
        "check \"c\" {\n  assert {\n    condition = filesha1(\"../../shared/a.yaml\") != \"\"\n  }\n}",
    ] {
        assert_eq!(watched(body), ["shared/a.yaml"], "{body}");
    }
    let json = r#"{"locals": {"a": "${file(\"../../shared/a.yaml\")} and \"x\""}, "resource": {"x": {"y": [{"z": ["${filesha512(\"../b\")}"]}]}}}"#;
    let files = MemoryFiles::default().with("stacks/a/main.tf", S3).with("stacks/a/more.tf.json", json);
    assert_eq!(watches(&scanned(&files), "stacks/a"), ["shared/a.yaml", "stacks/b"]);
}

#[test]
fn what_is_no_such_call_or_lies_elsewhere_is_not_watched() {
    for body in [
        "# file(\"../../shared/a.yaml\")\n/* file(\"../x\") */",
        "locals { a = \"file(\\\"../../shared/a.yaml\\\")\" }",
        "locals { a = provider::x::file(\"../../shared/a.yaml\") }",
        "locals { a = myfile(\"../../shared/a.yaml\") }",
        "locals { file = \"../../shared/a.yaml\" }",
        "locals { a = file(\"own.json\") + file(\"${path.module}/own.json\") + file(\"./sub/own.json\") }",
        "locals { a = file(\"~/.ssh/id_rsa.pub\") + file(\"/etc/passwd\") + file(\"../../../outside\") }",
        "locals { a = file(null) + file(\"\") }",
        "locals { a = fileset(path.module, \"**/*.json\") }",
    ] {
        assert_eq!(watched(body), Vec::<String>::new(), "{body}");
        let graph = scanned(&MemoryFiles::default().with("stacks/a/main.tf", stack(body)));
        assert_eq!(warnings(&graph), Vec::<String>::new(), "{body}");
    }
}

#[test]
fn each_instance_reads_what_its_own_values_say() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", stack("variable \"env\" {}\nlocals { a = file(\"../../shared/${var.env}.json\") }"))
        .with(
            "stacks/a/.stackorder.yaml",
            "instances:\n  dev: { env: { TF_VAR_env: dev } }\n  prd: { env: { TF_VAR_env: prd } }\n",
        );
    let graph = scanned(&files);
    assert_eq!(watches(&graph, "stacks/a:dev"), ["shared/dev.json"]);
    assert_eq!(watches(&graph, "stacks/a:prd"), ["shared/prd.json"]);
}

#[test]
fn a_module_watches_for_its_callers_what_it_does_not_own() {
    let module = "variable \"kind\" { default = \"none\" }\n\
                  locals {\n  own = file(\"${path.module}/policies/x.json\")\n  also = templatefile(\"${path.module}/${var.kind}.tpl\", {})\n  \
                  all = [for f in fileset(path.module, \"p/*\") : file(\"${path.module}/p/${f}\")]\n  \
                  shared = file(\"${path.module}/../../shared/a.json\")\n  here = file(\"beside.json\")\n  other = file(\"${path.module}/../n/x.json\")\n}\n";
    let call = |source: &str, more: &str| stack(&format!("module \"m\" {{\n  source = \"{source}\"\n  {more}\n}}"));
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", call("../../modules/outer", ""))
        .with("stacks/b/main.tf", call("../../modules/m", "kind = \"../../odd/b\""))
        .with("stacks/c/main.tf", stack(""))
        .with("modules/outer/main.tf", "module \"m\" { source = \"../m\" }\n")
        .with("modules/m/main.tf", module)
        .with("modules/n/main.tf", "");
    let graph = scanned(&files);
    assert_eq!(watches(&graph, "stacks/a"), ["modules/n/x.json", "shared/a.json"]);
    assert_eq!(watches(&graph, "stacks/b"), ["modules/n/x.json", "odd/b.tpl", "shared/a.json"]);
    assert_eq!(watches(&graph, "stacks/c"), Vec::<String>::new());
    assert_eq!(warnings(&graph), Vec::<String>::new());
}

#[test]
fn a_module_below_its_caller_reads_beside_the_caller() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", stack("module \"m\" { source = \"../../modules/m\" }"))
        .with("stacks/a/inner/main.tf", S3)
        .with("modules/m/main.tf", "locals { x = file(\"inner/x.json\") }\n");
    assert_eq!(watches(&scanned(&files), "stacks/a"), ["stacks/a/inner/x.json"], "another stack owns it");
}

#[test]
fn a_set_of_files_is_watched_by_its_pattern_and_by_what_is_there() {
    let set = |arguments: &str| {
        let files = MemoryFiles::default()
            .with("stacks/a/main.tf", stack(&format!("locals {{ a = fileset({arguments}) }}")))
            .with("stacks/a/own.json", "")
            .with("shared/a.json", "")
            .with("shared/b.yaml", "")
            .with("shared/deep/c.json", "")
            .with("shared/deep/er/.d.json", "")
            .with_entry("shared/link.json", EntryKind::FileLink { target: "shared/a.json".into() })
            .with("other/e.json", "")
            .with_entry("linked", EntryKind::DirectoryLink { target: "shared/deep".into() })
            .with_entry("shared/deep/er/more", EntryKind::DirectoryLink { target: "other".into() });
        let graph = scanned(&files);
        assert_eq!(warnings(&graph), Vec::<String>::new(), "{arguments}");
        watches(&graph, "stacks/a")
    };
    for (arguments, expected) in [
        ("\"../../shared\", \"*.json\"", ["shared/a.json", "shared/link.json", "shared/*.json"].as_slice()),
        (
            "\"${path.module}/../../shared\", \"deep/**\"",
            &["other/e.json", "shared/deep/c.json", "shared/deep/er/.d.json", "other/**", "shared/deep/**"],
        ),
        ("path.module, \"../../shared/{a,b}.*\"", &["shared/a.json", "shared/b.yaml", "shared/{a,b}.*"]),
        ("\"../../shared\", \"[^b].j?on\"", &["shared/a.json", "shared/[^b].j?on"]),
        // For the tool that is a class of two letters.
        ("\"../../shared\", \"[!b].*\"", &["shared/b.yaml", "shared/[b!].*"]),
        ("\"../../shared\", \"none/*\"", &["shared/none/*"]),
        ("\"../../shared\", \"b.yaml\"", &["shared/b.yaml"]),
        ("\"../../shared\", \"[!!].json\"", &["shared/a.json", "shared/?.json"]),
        ("\"../../linked\", \"*\"", &["shared/deep/c.json", "shared/deep/*"]),
        ("\"../../linked\", \"c.json\"", &["shared/deep/c.json"]),
        ("\"../../..\", \"*\"", &[]),
        ("\"/etc\", \"*\"", &[]),
    ] {
        assert_eq!(set(arguments), expected, "{arguments}");
    }
}

#[test]
fn a_path_that_only_a_run_knows_is_named_with_its_place() {
    let unresolved = |body: &str| warnings(&scanned(&MemoryFiles::default().with("stacks/a/main.tf", stack(body))));
    assert_eq!(
        unresolved("\nlocals { a = file(var.path) }"),
        [
            "stacks/a/main.tf:5: what file() reads is not known before the tool runs, so its changes are not seen: var.path has no known value"
        ]
    );
    assert_eq!(
        unresolved("resource \"x\" \"y\" {\n  a = fileset(\"../../${each.key}\", \"*\")\n}"),
        [
            "stacks/a/main.tf:5: what fileset() reads is not known before the tool runs, so its changes are not seen: each.key has no known value"
        ]
    );
    assert_eq!(unresolved("locals { a = file(\"${path.module}/x/${each.key}.json\") }"), Vec::<String>::new());
    let of_a_set = "locals { a = [for f in fileset(\"../../shared\", \"**\") : file(\"../../shared/x/${f}\")] }";
    assert_eq!(unresolved(of_a_set), Vec::<String>::new(), "the set is watched already");
    let broken = unresolved("locals { a = fileset(\"../../shared\", \"[a\") }");
    assert!(broken[0].contains("its pattern \"shared/[a\""), "{broken:?}");
}

#[test]
fn links_and_submodules_are_watched_where_git_sees_their_change() {
    let files = MemoryFiles::default()
        .with(
            "stacks/a/main.tf",
            stack("locals { a = file(\"../../linked/c.json\") + file(\"../../vendor/x/y.json\") }"),
        )
        .with("shared/deep/c.json", "")
        .with_entry("linked", EntryKind::DirectoryLink { target: "shared/deep".into() })
        .with_entry("vendor", EntryKind::Submodule);
    assert_eq!(watches(&scanned(&files), "stacks/a"), ["shared/deep/c.json", "vendor"]);
}

#[test]
fn what_a_set_finds_behind_a_link_is_watched_where_it_really_is() {
    let globs = |body: &str| {
        let files = MemoryFiles::default()
            .with("stacks/a/main.tf", stack(body))
            .with("stacks/a/parts/own.json", "")
            .with_entry("stacks/a/parts/more", EntryKind::DirectoryLink { target: "shared".into() })
            .with("modules/m/main.tf", "locals { all = fileset(\"${path.module}/files\", \"**/*.json\") }")
            .with("modules/m/files/own.json", "")
            .with_entry("modules/m/files/more", EntryKind::DirectoryLink { target: "shared/deep".into() })
            .with("shared/deep/c.json", "")
            .with_entry("shared/again", EntryKind::DirectoryLink { target: "shared".into() })
            .with_entry("shared/far", EntryKind::DirectoryLink { target: "far/away".into() })
            .with("far/away/x.json", "");
        let graph = scanned(&files);
        assert_eq!(warnings(&graph), Vec::<String>::new(), "{body}");
        graph.stacks[0].watch_globs.clone()
    };
    let set = |directory: &str, pattern: &str| format!("locals {{ a = fileset(\"{directory}\", \"{pattern}\") }}");
    assert_eq!(globs(&set("../../shared", "*/*.json")), ["far/away/*.json", "shared/*.json", "shared/*/*.json"]);
    assert_eq!(globs(&set("../../shared", "*.json")), ["shared/*.json"], "it looks into no directory");
    assert_eq!(globs(&set("../../shared", "f*/new/*")), ["far/away/new/*", "shared/f*/new/*"]);
    assert_eq!(globs(&set("../..", "s*/again/again/*")), ["s*/again/again/*", "shared/*"], "links behind links");
    let of_its_own = ["far/away/**/*.json", "shared/**/*.json"];
    assert_eq!(globs(&set("${path.module}/parts", "**/*.json")), of_its_own, "what is its own is not watched");
    let call = "module \"m\" { source = \"../../modules/m\" }";
    assert_eq!(globs(call), ["shared/deep/**/*.json"]);
}

#[test]
fn a_set_with_hundreds_of_links_is_cut_off_with_a_warning() {
    let mut files =
        MemoryFiles::default().with("stacks/a/main.tf", stack("locals { a = fileset(\"../../set\", \"**\") }"));
    for number in 0..300 {
        let target = EntryKind::DirectoryLink { target: format!("real/{number:03}") };
        files = files.with_entry(&format!("set/{number:03}"), target).with(&format!("real/{number:03}/x"), "");
    }
    let graph = scanned(&files);
    assert_eq!(graph.stacks[0].watch_globs.len(), 100);
    let expected = "\"set/**\" looks behind more links to directories than the 100 that are followed; \
                    a change behind the others is not seen";
    assert_eq!(warnings(&graph), [expected]);
    assert_eq!(graph.warnings[0].stack, "stacks/a");
}

#[test]
fn what_is_read_counts_for_the_tree_hash() {
    let body = "locals { a = file(\"../../shared/a.json\") + fileset(\"../../set\", \"*.txt\") }";
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", stack(body))
        .with("shared/a.json", "{}")
        .with("set/a.txt", "")
        .with("set/a.json", "");
    let hash = scanned(&files).tree_hash;
    for (path, text) in [("shared/a.json", "[]"), ("set/b.txt", "")] {
        assert_ne!(scanned(&files.clone().with(path, text)).tree_hash, hash, "{path}");
    }
    for (path, text) in [("shared/b.json", ""), ("set/b.json", ""), ("set/a.json", "x")] {
        assert_eq!(scanned(&files.clone().with(path, text)).tree_hash, hash, "{path}");
    }
}

#[test]
fn thousands_of_calls_in_one_file_are_cut_off_with_a_warning() {
    let call = |number: usize| format!("  a{number} = file(\"../../shared/{number}.json\")\n");
    let body = format!("locals {{\n{}}}", (0..5_000).map(call).collect::<String>());
    let graph = scanned(&MemoryFiles::default().with("stacks/a/main.tf", stack(&body)));
    assert_eq!(watches(&graph, "stacks/a").len(), 1_000);
    assert_eq!(
        warnings(&graph),
        ["stacks/a/main.tf:1005: the file reads more than 1000 others; the rest is not watched"]
    );
    let nested = format!("locals {{ a = {}{} }}", "file(".repeat(900), ")".repeat(900));
    assert_eq!(watched(&nested), Vec::<String>::new());
}

#[test]
fn thousands_of_files_of_one_set_are_watched_by_their_pattern() {
    let mut files =
        MemoryFiles::default().with("stacks/a/main.tf", stack("locals { a = fileset(\"../../set\", \"*\") }"));
    for number in 0..3_000 {
        files.insert(&format!("set/{number:04}"), "");
    }
    let graph = scanned(&files);
    assert_eq!(
        (graph.stacks[0].watch_paths.len(), graph.stacks[0].watch_globs.as_slice()),
        (100, &["set/*".to_owned()][..])
    );
}
