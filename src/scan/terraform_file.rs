//! What one Terraform file says that the graph needs, read from either syntax.
//!
//! Every file is read alone and keeps its expressions unevaluated; [`super::directory`] puts a directory together
//! as Terraform would, and knows which file overrides which.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::hcl::{self, Block, Body, CALLS_MAX, Call};
use super::json::{self, Kind, Member, Node};
use super::value::Expression;
use crate::graph::model::Warning;

/// The parts of one file that matter, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TerraformFile {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<BackendBlock>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<ModuleCall>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remote_states: Vec<RemoteState>,
    /// Whether a provider is named, so that a lock file is to be expected.
    pub names_provider: bool,
    /// Lines of `archive_file` data sources: they write files while planning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub archive_file_lines: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub file_reads: Vec<FileRead>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// What most files say.
pub(super) static NOTHING: TerraformFile = TerraformFile {
    backends: Vec::new(),
    modules: Vec::new(),
    remote_states: Vec::new(),
    names_provider: false,
    archive_file_lines: Vec::new(),
    file_reads: Vec::new(),
    warnings: Vec::new(),
};

impl TerraformFile {
    /// The same content at another place.
    pub fn at(mut self, path: &str) -> Self {
        for warning in &mut self.warnings {
            path.clone_into(&mut warning.file);
        }
        self
    }
}

/// `backend "<kind>" { … }` inside a `terraform` block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackendBlock {
    pub kind: String,
    pub line: u32,
    pub attributes: Vec<(String, Expression)>,
}

/// `module "<name>" { … }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModuleCall {
    pub name: String,
    pub line: u32,
    pub source: Option<Expression>,
    pub version: Option<Expression>,
}

/// `data "terraform_remote_state" "<name>" { … }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteState {
    pub name: String,
    pub line: u32,
    pub backend: Option<Expression>,
    pub workspace: Option<Expression>,
    pub config: Option<Expression>,
    pub for_each: Option<Expression>,
}

/// A call of `file`, `fileset` or their kin, wherever it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileRead {
    pub function: String,
    pub line: u32,
    /// The file or, for `fileset`, the directory.
    pub path: Expression,
    /// What `fileset` looks for there.
    pub pattern: Option<Expression>,
}

impl FileRead {
    fn of(call: &Call<'_>, line: u32) -> Option<Self> {
        let argument = |number| call.argument(number).map(|text| Expression::hcl(text, line));
        let pattern = if call.function == "fileset" { Some(argument(1)?) } else { None };
        Some(Self { function: call.function.to_owned(), line, path: argument(0)?, pattern })
    }
}

/// Larger files are generated data, not configuration that somebody reviews.
pub(super) const FILE_BYTES_MAX: usize = 8 * 1024 * 1024;

const SYNTAX: &str = "syntax";

/// Reads one file. It never fails: what could not be read is a warning.
pub fn read(path: &str, bytes: &[u8]) -> TerraformFile {
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("{} bytes are more than {FILE_BYTES_MAX}; the file is not read", bytes.len());
        let warning = Warning::new("file_too_large", message).in_file(path);
        return TerraformFile { warnings: vec![warning], ..TerraformFile::default() };
    }
    if path.ends_with(".json") { read_json(path, bytes) } else { read_hcl(path, bytes) }
}

fn read_hcl(path: &str, bytes: &[u8]) -> TerraformFile {
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

/// The text of a file, and what is wrong with its encoding. The tool refuses all but UTF-8; what can be made out still
/// shows where the edges would be.
pub(super) fn decoded(bytes: &[u8]) -> (Cow<'_, str>, Option<&'static str>) {
    let utf16 = |unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        let mistake = "the file is UTF-16, not UTF-8: the tool does not read it";
        (Cow::Owned(String::from_utf16_lossy(&units)), Some(mistake))
    };
    match bytes {
        [0xff, 0xfe, ..] => utf16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf16(u16::from_be_bytes),
        _ => match String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)) {
            text @ Cow::Borrowed(_) => (text, None),
            text @ Cow::Owned(_) => (text, Some("the file is not UTF-8: the tool does not read it")),
        },
    }
}

impl TerraformFile {
    /// Notes the files that calls read, each with its line in this file.
    fn read_files<'t, 'c: 't>(&mut self, path: &str, calls: impl Iterator<Item = (&'t Call<'c>, u32)>) {
        for (number, (call, line)) in calls.enumerate() {
            if number == CALLS_MAX {
                let message = format!("the file reads more than {CALLS_MAX} others; the rest is not watched");
                self.warnings.push(Warning::new("file_reads_too_many", message).at(path, line));
                return;
            }
            self.file_reads.extend(FileRead::of(call, line));
        }
    }
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

/// The attributes of a backend file (`*.tfbackend` or any other name), JSON when the name ends `.json`.
pub fn read_attributes(path: &str, bytes: &[u8]) -> (Vec<(String, Expression)>, Vec<Warning>) {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let refuse = |line: u32, message: String| (Vec::new(), vec![Warning::new(SYNTAX, message).at(path, line)]);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return refuse(1, "the file is not UTF-8; its values are skipped".to_owned());
    };
    if path.ends_with(".json") {
        return match json::read(text) {
            Ok(root) if matches!(root.kind, Kind::Object(_)) => {
                let read =
                    |member: &Member| (member.name.clone(), Expression::json(&member.value.to_value(), member.line));
                (root.members().map(read).collect(), Vec::new())
            }
            Ok(_) => refuse(1, "the file is not a JSON object; its values are skipped".to_owned()),
            Err(problem) => refuse(problem.line, problem.summary),
        };
    }
    let body = hcl::split(text, 1);
    let mut warnings = Vec::new();
    if let Some(first) = body.problems.first() {
        warnings.push(Warning::new(SYNTAX, first.summary.as_str()).at(path, first.line));
    }
    let attributes = body.attributes.iter();
    let read = attributes.map(|found| (found.name.to_owned(), Expression::hcl(found.value, found.line))).collect();
    (read, warnings)
}

fn read_json(path: &str, bytes: &[u8]) -> TerraformFile {
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

/// A block may stand alone or in a list of its kind.
pub(super) fn each(value: &Json) -> impl Iterator<Item = &Json> {
    match value {
        Json::Array(list) => list.iter(),
        other => std::slice::from_ref(other).iter(),
    }
}

/// Members of an object; `//` is how the JSON syntax writes a comment.
pub(super) fn members(value: &Json) -> impl Iterator<Item = (&str, &Json)> {
    let members = value.as_object().into_iter().flatten();
    members.filter(|(name, _)| *name != "//").map(|(name, value)| (name.as_str(), value))
}
