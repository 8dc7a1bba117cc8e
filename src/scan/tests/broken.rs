//! Files that cannot be read, or not whole: they are named, the scan goes on, and no stack looks as if it had no edges.

use super::{edges, scanned, warnings};
use crate::graph::model::{Graph, STACK_INCOMPLETE};
use crate::graph::{ResolveRequest, resolve};
use crate::scan::{EntryKind, MemoryFiles, ScanOptions, scan};

const S3: &str = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"a\"\n  }\n}\n";
const CALL: &str = "module \"m\" { source = \"../../modules/m\" }\n";
const EDGE: &str = "stacks/a uses_module acme/infra//modules/m";

fn with(name: &str, bytes: impl Into<Vec<u8>>) -> MemoryFiles {
    MemoryFiles::default()
        .with("stacks/a/main.tf", S3)
        .with(&format!("stacks/a/{name}"), bytes)
        .with("modules/m/main.tf", "")
}

/// The file that each incomplete stack is marked with.
fn incomplete(graph: &Graph) -> Vec<(&str, &str)> {
    let all = graph.stacks.iter().flat_map(|stack| &stack.warnings);
    all.filter(|it| it.code == STACK_INCOMPLETE).map(|it| (it.stack.as_str(), it.file.as_str())).collect()
}

fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(unit).collect()
}

#[test]
fn a_latin_1_file_is_named_and_what_can_be_read_counts() {
    let graph = scanned(&with("more.tf", [b"locals { a = \"\xe9\" }\n".as_slice(), CALL.as_bytes()].concat()));
    assert_eq!(edges(&graph), [EDGE]);
    assert_eq!(warnings(&graph), ["stacks/a/more.tf:1: the file is not UTF-8: the tool does not read it"]);
    assert_eq!(incomplete(&graph), [("stacks/a", "stacks/a/more.tf")]);
}

#[test]
fn a_utf_16_file_is_named_and_what_can_be_read_counts() {
    for unit in [u16::to_le_bytes, u16::to_be_bytes] {
        let files = MemoryFiles::default()
            .with("stacks/a/main.tf", utf16(&format!("{S3}{CALL}"), unit))
            .with("modules/m/main.tf", "");
        let graph = scanned(&files);
        assert_eq!(edges(&graph), [EDGE]);
        assert_eq!(warnings(&graph), ["stacks/a/main.tf:1: the file is UTF-16, not UTF-8: the tool does not read it"]);
        assert_eq!(incomplete(&graph), [("stacks/a", "stacks/a/main.tf")]);
    }
    let json = utf16("{\"module\": {\"m\": {\"source\": \"../../modules/m\"}}}", u16::to_le_bytes);
    assert_eq!(edges(&scanned(&with("more.tf.json", json))), [EDGE]);
}

#[test]
fn an_oversized_file_is_refused_by_name() {
    let graph = scanned(&with("data.tf", vec![b'\n'; 9 * 1024 * 1024]));
    assert_eq!(warnings(&graph), ["stacks/a/data.tf: 9437184 bytes are more than 8388608; the file is not read"]);
    assert_eq!(incomplete(&graph), [("stacks/a", "stacks/a/data.tf")]);
}

#[test]
fn absurdly_deep_files_are_refused_by_name_and_cost_no_stack() {
    let deep = format!("locals {{ a = {}\n}}\n{CALL}", "[".repeat(300_000));
    let graph = scanned(&with("deep.tf", deep));
    assert_eq!(warnings(&graph), ["stacks/a/deep.tf:1: nested too deeply; the rest of the file is not read"]);
    assert_eq!(incomplete(&graph), [("stacks/a", "stacks/a/deep.tf")]);
    let blocks = scanned(&with("deep.tf", "a {\n".repeat(100_000)));
    assert_eq!(warnings(&blocks).len(), 1, "{:?}", warnings(&blocks));
    let json = scanned(&with("deep.tf.json", format!("{{\"a\": {}", "[".repeat(300_000))));
    assert_eq!(warnings(&json), ["stacks/a/deep.tf.json:1: nested too deeply"]);
    assert_eq!(incomplete(&json), [("stacks/a", "stacks/a/deep.tf.json")]);
}

#[test]
fn a_directory_whose_files_cannot_be_read_is_not_silently_no_stack() {
    let bad = || EntryKind::BadLink { reason: "the link dangles or loops".to_owned() };
    for files in [
        MemoryFiles::default().with_entry("stacks/a/main.tf", bad()),
        MemoryFiles::default().with("stacks/a/main.tf", vec![b'\n'; 9 * 1024 * 1024]),
        MemoryFiles::default().with("stacks/a/main.tf.json", "{\"terraform\": {\"backend\""),
    ] {
        let graph = scanned(&files);
        assert_eq!(graph.stacks, []);
        let found = graph.warnings.iter().find(|warning| warning.code == "stack_unread").expect("it is said");
        assert!(found.file.starts_with("stacks/a/main.tf") && found.message.starts_with("stacks/a has no backend"));
    }
    // A module is no stack either, and nobody expects it to be one.
    let module = MemoryFiles::default().with("modules/m/main.tf", "locals {");
    assert_eq!(warnings(&scanned(&module)), ["modules/m/main.tf:1: block \"locals\" is never closed"]);
}

#[test]
fn a_broken_module_marks_every_stack_that_reaches_it() {
    let files = MemoryFiles::default()
        .with("stacks/a/main.tf", format!("{S3}{CALL}"))
        .with("stacks/b/main.tf", S3.replace("\"a\"", "\"b\""))
        .with("modules/m/main.tf", "module \"n\" { source = \"../n\" }\n")
        .with("modules/n/main.tf", "locals {\n");
    let graph = scanned(&files);
    assert_eq!(incomplete(&graph), [("stacks/a", "modules/n/main.tf")]);
    assert_eq!(warnings(&graph), ["modules/n/main.tf:1: block \"locals\" is never closed"]);
}

#[test]
fn every_answer_names_the_stacks_that_may_have_more_edges() {
    let files = with("more.tf.json", "{\"module\": ").with("stacks/b/main.tf", S3.replace("\"a\"", "\"b\""));
    let scanned = scan(&files, &ScanOptions::new("acme/infra", "")).expect("the checkout is valid");
    for path in ["stacks/b/main.tf", "modules/m/main.tf"] {
        let request = ResolveRequest { changed_paths: vec![path.to_owned()], ..ResolveRequest::default() };
        let resolution = resolve(&scanned.graph, &scanned.config, &request);
        assert!(resolution.affected.iter().all(|stack| stack.key != "stacks/a"));
        let said: Vec<&str> =
            resolution.warnings.iter().filter(|it| it.code == STACK_INCOMPLETE).map(|it| it.stack.as_str()).collect();
        assert_eq!(said, ["stacks/a"], "{path}");
    }
}

#[test]
fn many_stacks_above_a_long_chain_of_modules_take_no_time() {
    let mut files = MemoryFiles::default();
    for number in 0..2_000 {
        let next = number + 1;
        files.insert(&format!("modules/m{number}/main.tf"), format!("module \"n\" {{ source = \"../m{next}\" }}\n"));
    }
    files.insert("modules/m2000/main.tf", "");
    for number in 0..1_000 {
        let call = "module \"m\" { source = \"../../modules/m0\" }\n";
        files.insert(&format!("stacks/s{number}/main.tf"), S3.replace("\"a\"", &format!("\"{number}\"")) + call);
    }
    let graph = scanned(&files);
    assert_eq!((graph.edges.len(), warnings(&graph)), (3_000, Vec::new()));
}
