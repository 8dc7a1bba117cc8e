//! A file in the native syntax.

use super::super::hcl::{self, Block, Body};
use super::super::value::Expression;
use super::{BackendBlock, ModuleCall, RemoteState, SYNTAX, TerraformFile, decoded};
use crate::graph::model::Warning;

pub(super) fn read(path: &str, bytes: &[u8]) -> TerraformFile {
    let mut reader = HclReader { path, file: TerraformFile::default() };
    let (text, mistake) = decoded(bytes);
    if let Some(mistake) = mistake {
        let valid = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
        let newlines = bytes[..valid].iter().filter(|byte| **byte == b'\n').count();
        reader.warn(u32::try_from(newlines + 1).unwrap_or(u32::MAX), mistake);
    }
    let body = hcl::split(&text, 1);
    reader.top_level(&body);
    reader.file.read_files(path, body.calls.iter().map(|call| (call, call.line)));
    reader.file
}

struct HclReader<'p> {
    path: &'p str,
    file: TerraformFile,
}

impl HclReader<'_> {
    fn warn(&mut self, line: u32, summary: &str) {
        self.file.warnings.push(Warning::new(SYNTAX, summary).at(self.path, line));
    }

    fn top_level(&mut self, body: &Body<'_>) {
        // The first mistake of a body is reported; the others are mostly its echo.
        if let Some(first) = body.problems.first() {
            self.warn(first.line, &first.summary);
        }
        if let Some(outside) = body.attributes.first() {
            self.warn(outside.line, &format!("argument {:?} stands outside of every block", outside.name));
        }
        for block in &body.blocks {
            self.labels(block);
            match (block.kind, block.labels.as_slice()) {
                ("terraform", []) => self.terraform(block),
                ("provider", _) => self.file.names_provider = true,
                ("module", [name]) => self.module(block, name),
                ("data", [kind, name]) if kind == "terraform_remote_state" => self.remote_state(block, name),
                ("data", [kind, ..]) if kind == "archive_file" => self.file.archive_file_lines.push(block.line),
                ("variable", [_]) => drop(self.body(block)),
                ("locals", []) => {
                    if let Some(nested) = self.body(block).blocks.first() {
                        self.warn(nested.line, "a locals block holds no blocks");
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether a block of a known kind has the labels that it needs.
    fn labels(&mut self, block: &Block<'_>) {
        let (wanted, message) = match block.kind {
            "terraform" | "locals" | "moved" | "import" | "removed" => (0, "has no label"),
            "module" => (1, "needs exactly one label, its name"),
            "variable" | "output" | "check" => (1, "needs one label, its name"),
            "provider" => (1, "needs one label, the provider"),
            "resource" | "data" | "ephemeral" => (2, "needs two labels, its type and its name"),
            // Newer versions know more kinds.
            _ => return,
        };
        if block.labels.len() != wanted {
            self.warn(block.line, &format!("a {} block {message}", block.kind));
        } else if let Some(odd) = block.labels.iter().find(|label| !is_name(label)) {
            self.warn(
                block.line,
                &format!("{odd:?} is not a name: it holds more than letters, digits, \"_\" and \"-\""),
            );
        }
    }

    /// The body of a block that is read, its first mistake reported.
    fn body<'t>(&mut self, block: &Block<'t>) -> Body<'t> {
        let body = hcl::split_block(block);
        // The rest of the file in a block that is never closed is full of echoes.
        if let Some(first) = body.first_mistake().filter(|_| block.is_closed) {
            self.warn(first.line, &first.summary);
        }
        body
    }

    fn terraform(&mut self, block: &Block<'_>) {
        let body = self.body(block);
        for nested in &body.blocks {
            match (nested.kind, nested.labels.as_slice()) {
                ("required_providers", _) => self.file.names_provider = true,
                ("backend", [kind]) => {
                    let inner = self.body(nested);
                    let attributes = inner.attributes.iter();
                    self.file.backends.push(BackendBlock {
                        kind: kind.to_string(),
                        line: nested.line,
                        attributes: attributes
                            .map(|attribute| {
                                (attribute.name.to_owned(), Expression::hcl(attribute.value, attribute.line))
                            })
                            .collect(),
                    });
                }
                ("backend", _) => self.warn(nested.line, "a backend block needs exactly one label, its type"),
                _ => {}
            }
        }
    }

    fn module(&mut self, block: &Block<'_>, name: &str) {
        let body = self.body(block);
        let (source, version) = (expression(&body, "source"), expression(&body, "version"));
        self.file.modules.push(ModuleCall { name: name.to_owned(), line: block.line, source, version });
    }

    fn remote_state(&mut self, block: &Block<'_>, name: &str) {
        let body = self.body(block);
        self.file.remote_states.push(RemoteState {
            name: name.to_owned(),
            line: block.line,
            backend: expression(&body, "backend"),
            workspace: expression(&body, "workspace"),
            config: expression(&body, "config"),
            for_each: expression(&body, "for_each"),
        });
    }
}

/// Whether a label can be the name of something.
fn is_name(label: &str) -> bool {
    let is_letter = |c: char| c.is_alphabetic() || c == '_';
    label.chars().next().is_some_and(is_letter)
        && label.chars().all(|c| !c.is_ascii() || c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn expression(body: &Body<'_>, name: &str) -> Option<Expression> {
    body.attribute(name).map(|attribute| Expression::hcl(attribute.value, attribute.line))
}
