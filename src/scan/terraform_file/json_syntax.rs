//! A file in the JSON syntax.

use std::collections::BTreeSet;

use super::super::hcl::{self, CALLS_MAX};
use super::super::json::{self, Kind, Member, Node};
use super::super::value::Expression;
use super::{BackendBlock, ModuleCall, RemoteState, SYNTAX, TerraformFile, decoded};
use crate::graph::model::Warning;

pub(super) fn read(path: &str, bytes: &[u8]) -> TerraformFile {
    let (text, mistake) = decoded(bytes);
    let mut reader = JsonReader { path, file: TerraformFile::default() };
    if bytes.starts_with(b"\xef\xbb\xbf") {
        reader.warn(1, "the file begins with a byte order mark, which the tool refuses in JSON");
    }
    if let Some(mistake) = mistake.filter(|_| bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff")) {
        reader.warn(1, mistake);
    }
    match json::read(&text) {
        Ok(root) => {
            root.each().for_each(|part| reader.top_level(part));
            reader.file_reads(&root);
        }
        Err(problem) => reader.warn(problem.line, &problem.summary),
    }
    reader.file
}

struct JsonReader<'p> {
    path: &'p str,
    file: TerraformFile,
}

impl JsonReader<'_> {
    fn warn(&mut self, line: u32, summary: &str) {
        self.file.warnings.push(Warning::new(SYNTAX, summary).at(self.path, line));
    }

    fn top_level(&mut self, root: &Node) {
        if !matches!(root.kind, Kind::Object(_)) {
            return self.warn(root.line, "the file is not a JSON object");
        }
        self.file.names_provider |= root.get("provider").is_some();
        for block in root.of("terraform").flat_map(Node::each) {
            self.terraform(block);
        }
        for block in root.of("locals").flat_map(Node::each) {
            self.given_once(block);
        }
        let calls: Vec<&Member> = root.of("module").flat_map(|modules| self.labelled(modules, "module")).collect();
        for call in calls {
            for body in call.value.each() {
                self.given_once(body);
                let expression = |name: &str| body.get(name).map(expression_of);
                let (source, version) = (expression("source"), expression("version"));
                self.file.modules.push(ModuleCall { name: call.name.clone(), line: call.line, source, version });
            }
        }
        for (kind, block) in root.of("data").flat_map(Node::each).flat_map(Node::members).flat_map(labels) {
            match kind {
                "archive_file" => self.file.archive_file_lines.push(block.line),
                "terraform_remote_state" => {
                    block.value.each().for_each(|body| self.remote_state(&block.name, block.line, body));
                }
                _ => {}
            }
        }
    }

    /// The calls in all strings, of which every one is a template.
    fn file_reads(&mut self, root: &Node) {
        let mut texts = Vec::new();
        root.texts(&mut texts);
        let mut calls = Vec::new();
        for (text, line) in texts.into_iter().filter(|(text, _)| text.contains("file") && text.contains('{')) {
            calls.extend(hcl::calls_in_template(text).into_iter().map(|call| (call, line)));
            if calls.len() > CALLS_MAX {
                break;
            }
        }
        self.file.read_files(self.path, calls.iter().map(|(call, line)| (call, *line)));
    }

    /// The members that label blocks. What is none of them, comments included, Terraform refuses.
    fn labelled<'n>(&mut self, blocks: &'n Node, kind: &str) -> Vec<&'n Member> {
        for other in blocks.each().filter(|blocks| !matches!(blocks.kind, Kind::Object(_))) {
            self.warn(other.line, &format!("{kind:?} needs an object whose keys are names"));
        }
        if let Some(comment) = blocks.each().flat_map(Node::all_members).find(|member| member.name == "//") {
            self.warn(comment.line, &format!("a comment stands where the names of {kind} blocks belong"));
        }
        blocks.each().flat_map(Node::members).collect()
    }

    fn given_once(&mut self, body: &Node) {
        let mut names = BTreeSet::new();
        if let Some(again) = body.members().find(|member| !names.insert(member.name.as_str())) {
            self.warn(again.line, &format!("argument {:?} is given twice", again.name));
        }
    }

    fn terraform(&mut self, block: &Node) {
        self.file.names_provider |= block.get("required_providers").is_some();
        for backend in block.of("backend").flat_map(Node::each).flat_map(Node::members) {
            for body in backend.value.each() {
                let read =
                    |member: &Member| (member.name.clone(), Expression::json(&member.value.to_value(), member.line));
                let attributes = body.members().map(read).collect();
                self.file.backends.push(BackendBlock { kind: backend.name.clone(), line: backend.line, attributes });
            }
        }
    }

    fn remote_state(&mut self, name: &str, line: u32, block: &Node) {
        let expression = |key: &str| block.get(key).map(|node| Expression::json(&node.to_value(), line));
        self.file.remote_states.push(RemoteState {
            name: name.to_owned(),
            line,
            backend: expression("backend"),
            workspace: expression("workspace"),
            for_each: expression("for_each"),
            // The JSON syntax also lets an argument of a map stand as a list of one object.
            config: block.get("config").map(|config| {
                let only = match &config.kind {
                    Kind::List(list) if list.len() == 1 => &list[0],
                    _ => config,
                };
                Expression::json(&only.to_value(), line)
            }),
        });
    }
}

fn expression_of(node: &Node) -> Expression {
    Expression::json(&node.to_value(), node.line)
}

/// The second level of labels below a first one.
fn labels(kind: &Member) -> impl Iterator<Item = (&str, &Member)> {
    kind.value.each().flat_map(Node::members).map(|member| (kind.name.as_str(), member))
}
