//! Any bytes in a checkout are read: each file, its declarations and expressions, and the graph of them (`scan`).
//!
//! The input is `stacks/a/main.tf`; what follows a line `-- path --` is another file.
#![no_main]

use std::borrow::Cow;
use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use stackorder::graph::model::{EdgeType, Graph, Module, NodeKind, Warning};
use stackorder::graph::resolve::{ResolveRequest, resolve};
use stackorder::graph::validate::validate;
use stackorder::scan::directory::is_terraform_file;
use stackorder::scan::terraform_file::{self, TerraformFile};
use stackorder::scan::{Entry, Files, MemoryFiles, ScanOptions, Scanned, scan};
use stackorder_fuzz::{checkout, in_memory, lines};

const MAIN: &str = "stacks/a/main.tf";
/// What sources and remote states of the seeds lead to.
const AROUND: [(&str, &str); 3] = [
    ("modules/m/main.tf", "module \"n\" {\n  source = \"../n\"\n}\n"),
    ("modules/n/main.tf", "variable \"v\" {\n  default = \"x\"\n}\n"),
    ("stacks/b/main.tf", "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"b.tfstate\"\n  }\n}\n"),
];

fuzz_target!(|bytes: &[u8]| {
    let mut files = checkout(bytes, MAIN);
    let found: Vec<bool> = files.iter().map(|(path, content)| one_file(path, content)).collect();
    // Compiling the globs of a scan takes most of the time, so a checkout with nothing in it is not scanned.
    if !found.contains(&true) {
        return;
    }
    for (path, content) in AROUND {
        if !files.iter().any(|(known, _)| known == path) {
            files.push((path.to_owned(), content.into()));
        }
    }
    let memory = in_memory(&files);
    let options = ScanOptions::new("acme/infra", "");
    let scanned = scan(&memory, &options);
    match &scanned {
        Err(errors) => assert!(!errors.is_empty()),
        Ok(scanned) => {
            graph_laws(&scanned.graph, &memory);
            resolution_laws(scanned);
        }
    }
    match (bytes.len() % 4, &scanned) {
        (0, _) => assert_eq!(scanned, scan(&Backwards(&memory), &options), "the order of the files means nothing"),
        (1, Ok(scanned)) => line_endings_mean_nothing(&files, &scanned.graph, &options),
        _ => {}
    }
});

/// The same files, listed from the last to the first.
struct Backwards<'f>(&'f MemoryFiles);

impl Files for Backwards<'_> {
    fn list(&self) -> Cow<'_, [Entry]> {
        self.0.list().iter().rev().cloned().collect()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.0.read(path)
    }
}

/// Every line that a file is said to have is one of its lines. Says whether there is anything for a graph in it.
fn one_file(path: &str, content: &[u8]) -> bool {
    let file = terraform_file::read(path, content);
    let last = lines(content);
    let inside = |line: u32, what: &str| assert!((1..=last).contains(&line), "{what} on line {line} of {last}");
    file.modules.iter().for_each(|call| inside(call.line, &call.name));
    file.backends.iter().for_each(|block| inside(block.line, &block.kind));
    file.remote_states.iter().for_each(|block| inside(block.line, &block.name));
    let (values, warnings) = terraform_file::read_attributes(path, content);
    values.iter().for_each(|(name, value)| inside(value.line, name));
    for warning in file.warnings.iter().chain(&warnings) {
        warning.line.iter().for_each(|line| inside(*line, &warning.message));
    }
    // A line of bytes in front of UTF-16 makes it something else.
    let is_utf16 = content.starts_with(b"\xff\xfe") || content.starts_with(b"\xfe\xff");
    if !path.ends_with(".json") && !is_utf16 {
        a_line_in_front_moves_lines_and_nothing_else(path, content, &file);
    }
    !(file.modules.is_empty() && file.backends.is_empty() && file.remote_states.is_empty())
}

fn a_line_in_front_moves_lines_and_nothing_else(path: &str, content: &[u8], file: &TerraformFile) {
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    let moved = [b"\xef\xbb\xbf# a comment\n", content].concat();
    let moved = terraform_file::read(path, &moved);
    let calls = |file: &TerraformFile, by: u32| -> Vec<_> {
        file.modules
            .iter()
            .map(|call| (call.name.clone(), call.line + by, call.source.clone().map(|it| it.text)))
            .collect()
    };
    assert_eq!(calls(file, 1), calls(&moved, 0));
    assert_eq!(file.names_provider, moved.names_provider);
}

fn graph_laws(graph: &Graph, files: &MemoryFiles) {
    let stacks: BTreeSet<&str> = graph.stacks.iter().map(|stack| stack.key.as_str()).collect();
    let modules: BTreeSet<&str> = graph.modules.iter().map(|module| module.key.as_str()).collect();
    assert_eq!((stacks.len(), modules.len()), (graph.stacks.len(), graph.modules.len()), "keys stand once");
    let known = |kind: NodeKind, key: &str| match kind {
        NodeKind::Stack => stacks.contains(key),
        NodeKind::Module => modules.contains(key),
    };
    for edge in &graph.edges {
        assert!(known(edge.from.kind, &edge.from.key), "{edge:?} begins somewhere");
        // What somebody wrote down by hand may name a stack that is not there; a warning says so.
        assert!(edge.kind == EdgeType::DependsOn || known(edge.to.kind, &edge.to.key), "{edge:?} ends somewhere");
    }
    let paths: Vec<String> = files.list().iter().map(|entry| entry.path.clone()).collect();
    let is_directory = |path: &str| paths.iter().any(|file| path.is_empty() || file.starts_with(&format!("{path}/")));
    for stack in graph.stacks.iter().filter(|stack| !stack.external) {
        assert!(is_directory(&stack.path), "{:?} is a directory", stack.path);
    }
    for directory in graph.modules.iter().filter_map(Module::directory) {
        assert!(is_directory(directory), "{directory:?} is a directory");
    }
    let errors = validate(graph).errors;
    assert!(errors.iter().all(|error| error.starts_with("cycle: ")), "a server takes the graph: {errors:?}");
    let of_stacks = graph.stacks.iter().flat_map(|stack| &stack.warnings);
    graph.warnings.iter().chain(of_stacks).for_each(|warning| warning_laws(warning, files));
}

/// A warning names its kind and a place that exists.
fn warning_laws(warning: &Warning, files: &MemoryFiles) {
    assert!(!warning.code.is_empty() && !warning.message.is_empty(), "{warning:?}");
    if let Some(line) = warning.line {
        let content = files.read(&warning.file).unwrap_or_else(|why| panic!("{warning:?}: {why}"));
        assert!((1..=lines(&content)).contains(&line), "{warning:?}");
    }
}

/// A stack is affected by every change of its own Terraform files.
fn resolution_laws(scanned: &Scanned) {
    if let Some(stack) = scanned.graph.stacks.iter().find(|stack| !stack.external) {
        let file = if stack.path.is_empty() { "main.tf".to_owned() } else { format!("{}/main.tf", stack.path) };
        let request = ResolveRequest { changed_paths: vec![file], ..ResolveRequest::default() };
        let resolution = resolve(&scanned.graph, &scanned.config, &request);
        let found = resolution.affected.iter().any(|affected| affected.key == stack.key);
        assert!(found, "{:?} is reached by its own change: {:?}", stack.key, resolution.warnings);
    }
}

fn line_endings_mean_nothing(files: &[(String, Vec<u8>)], graph: &Graph, options: &ScanOptions) {
    let is_text = |content: &[u8]| !content.contains(&b'\r');
    let with_carriage_returns =
        |content: &[u8]| content.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]);
    let other: Vec<(String, Vec<u8>)> = files
        .iter()
        .map(|(path, content)| match is_terraform_file(path) && is_text(content) {
            true => (path.clone(), with_carriage_returns(content)),
            false => (path.clone(), content.clone()),
        })
        .collect();
    let other = scan(&in_memory(&other), options).expect("it was read with the other line endings").graph;
    assert_eq!(graph.edges, other.edges, "line endings mean nothing to edges");
    assert_eq!(graph.modules, other.modules, "line endings mean nothing to modules");
}
