//! What one Terraform file says that the graph needs, read from either syntax.
//!
//! Every file is read alone and keeps its expressions unevaluated; [`super::directory`] puts a directory together
//! as Terraform would, and knows which file overrides which.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::hcl::{self, Block, Body, CALLS_MAX, Call};
use super::value::Expression;
use crate::graph::model::Warning;

/// The parts of one file that matter, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TerraformFile {
    pub backends: Vec<BackendBlock>,
    pub modules: Vec<ModuleCall>,
    pub remote_states: Vec<RemoteState>,
    /// Whether a provider is named, so that a lock file is to be expected.
    pub names_provider: bool,
    /// Lines of `archive_file` data sources: they write files while planning.
    pub archive_file_lines: Vec<u32>,
    pub file_reads: Vec<FileRead>,
    pub warnings: Vec<Warning>,
}

impl TerraformFile {
    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

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
        reader.warn(1, mistake);
    }
    let body = hcl::split(&text, 1);
    reader.top_level(&body);
    reader.file.read_files(path, body.calls.iter().map(|call| (call, call.line)));
    reader.file
}

/// The text of a file, and what is wrong with its encoding. The tool refuses all but UTF-8; what can be made out still
/// shows where the edges would be.
pub(super) fn decoded(bytes: &[u8]) -> (Cow<'_, str>, Option<&'static str>) {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let utf16 = |unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        let mistake = "the file is UTF-16, not UTF-8: the tool does not read it";
        (Cow::Owned(String::from_utf16_lossy(&units)), Some(mistake))
    };
    match bytes {
        [0xff, 0xfe, ..] => utf16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf16(u16::from_be_bytes),
        _ => match String::from_utf8_lossy(bytes) {
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

    /// The first mistake of a body is reported; the others are mostly its echo.
    fn warn_of(&mut self, body: &Body<'_>) {
        if let Some(first) = body.problems.first() {
            self.warn(first.line, &first.summary);
        }
    }

    fn top_level(&mut self, body: &Body<'_>) {
        self.warn_of(body);
        for block in &body.blocks {
            match (block.kind, block.labels.as_slice()) {
                ("terraform", []) => self.terraform(block),
                ("terraform", _) => self.warn(block.line, "a terraform block has no label"),
                ("provider", _) => self.file.names_provider = true,
                ("module", [name]) => self.module(block, name),
                ("module", _) => self.warn(block.line, "a module block needs exactly one label, its name"),
                ("data", [kind, name]) if kind == "terraform_remote_state" => self.remote_state(block, name),
                ("data", [kind, ..]) if kind == "terraform_remote_state" => {
                    self.warn(block.line, "a data block needs two labels, its type and its name");
                }
                ("data", [kind, ..]) if kind == "archive_file" => self.file.archive_file_lines.push(block.line),
                _ => {}
            }
        }
    }

    fn terraform(&mut self, block: &Block<'_>) {
        let body = hcl::split(block.body, block.body_line);
        self.warn_of(&body);
        for nested in &body.blocks {
            match (nested.kind, nested.labels.as_slice()) {
                ("required_providers", _) => self.file.names_provider = true,
                ("backend", [kind]) => {
                    let inner = hcl::split(nested.body, nested.body_line);
                    self.warn_of(&inner);
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
        let body = hcl::split(block.body, block.body_line);
        self.warn_of(&body);
        let (source, version) = (expression(&body, "source"), expression(&body, "version"));
        self.file.modules.push(ModuleCall { name: name.to_owned(), line: block.line, source, version });
    }

    fn remote_state(&mut self, block: &Block<'_>, name: &str) {
        let body = hcl::split(block.body, block.body_line);
        self.warn_of(&body);
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
        return match serde_json::from_str::<Json>(text) {
            Ok(Json::Object(map)) => {
                let mut lines = Lines::new(text);
                let entries = map.iter().filter(|(name, _)| *name != "//");
                let read = |(name, value): (&String, &Json)| (name.clone(), Expression::json(value, lines.of(&[name])));
                (entries.map(read).collect(), Vec::new())
            }
            Ok(_) => refuse(1, "the file is not a JSON object; its values are skipped".to_owned()),
            Err(error) => refuse(line_number(error.line()), json_summary(&error)),
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
    let mut reader = JsonReader { path, lines: Lines::new(&text), file: TerraformFile::default() };
    if let Some(mistake) = mistake {
        reader.warn(1, mistake);
    }
    match serde_json::from_str::<Json>(&text) {
        Ok(root) => {
            each(&root).for_each(|part| reader.top_level(part));
            reader.file_reads(&root);
        }
        Err(error) => {
            let summary = json_summary(&error);
            reader.warn(line_number(error.line()), &summary);
        }
    }
    reader.file
}

/// The message without the position, which stands in front of it anyway.
fn json_summary(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

fn line_number(line: usize) -> u32 {
    u32::try_from(line.max(1)).unwrap_or(u32::MAX)
}

struct JsonReader<'t> {
    path: &'t str,
    lines: Lines<'t>,
    file: TerraformFile,
}

impl JsonReader<'_> {
    fn warn(&mut self, line: u32, summary: &str) {
        self.file.warnings.push(Warning::new(SYNTAX, summary).at(self.path, line));
    }

    fn top_level(&mut self, root: &Json) {
        let Some(root) = root.as_object() else {
            return self.warn(1, "the file is not a JSON object");
        };
        self.file.names_provider |= root.contains_key("provider");
        for block in root.get("terraform").into_iter().flat_map(each) {
            self.terraform(block);
        }
        for (name, body) in root.get("module").into_iter().flat_map(each).flat_map(members) {
            let line = self.lines.of(&["module", name]);
            for call in each(body) {
                let expression = |key: &str| call.get(key).map(|value| Expression::json(value, line));
                let (source, version) = (expression("source"), expression("version"));
                self.file.modules.push(ModuleCall { name: name.to_owned(), line, source, version });
            }
        }
        for (kind, named) in root.get("data").into_iter().flat_map(each).flat_map(members) {
            for (name, body) in each(named).flat_map(members) {
                let line = self.lines.of(&[kind, name]);
                match kind {
                    "archive_file" => self.file.archive_file_lines.push(line),
                    "terraform_remote_state" => each(body).for_each(|block| self.remote_state(name, line, block)),
                    _ => {}
                }
            }
        }
    }

    /// The calls in all strings, of which every one is a template.
    fn file_reads(&mut self, root: &Json) {
        let mut texts = Vec::new();
        strings(root, &mut texts);
        let mut calls = Vec::new();
        for text in texts.into_iter().filter(|text| text.contains("file") && text.contains('{')) {
            let found = hcl::calls_in_template(text);
            if !found.is_empty() {
                let line = self.lines.of_string(text);
                calls.extend(found.into_iter().map(|call| (call, line)));
            }
            if calls.len() > CALLS_MAX {
                break;
            }
        }
        self.file.read_files(self.path, calls.iter().map(|(call, line)| (call, *line)));
    }

    fn terraform(&mut self, block: &Json) {
        self.file.names_provider |= block.get("required_providers").is_some();
        for (kind, body) in block.get("backend").into_iter().flat_map(each).flat_map(members) {
            let line = self.lines.of(&["backend", kind]);
            for body in each(body) {
                let read = |(name, value): (&str, &Json)| {
                    (name.to_owned(), Expression::json(value, self.lines.of(&["backend", kind, name])))
                };
                let attributes = members(body).map(read).collect();
                self.file.backends.push(BackendBlock { kind: kind.to_owned(), line, attributes });
            }
        }
    }

    fn remote_state(&mut self, name: &str, line: u32, block: &Json) {
        let expression = |key: &str| block.get(key).map(|value| Expression::json(value, line));
        self.file.remote_states.push(RemoteState {
            name: name.to_owned(),
            line,
            backend: expression("backend"),
            workspace: expression("workspace"),
            for_each: expression("for_each"),
            // The JSON syntax also lets an argument of a map stand as a list of one object.
            config: block.get("config").map(|config| {
                let only =
                    config.as_array().and_then(|list| if let [only] = list.as_slice() { Some(only) } else { None });
                Expression::json(only.unwrap_or(config), line)
            }),
        });
    }
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

/// Every string below a value; the library has bounded how deep they stand.
fn strings<'v>(value: &'v Json, found: &mut Vec<&'v str>) {
    match value {
        Json::String(text) => found.push(text),
        Json::Array(list) => list.iter().for_each(|value| strings(value, found)),
        Json::Object(map) => map.values().for_each(|value| strings(value, found)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Finds where a name is written: near enough to find the place, since the JSON library keeps no positions.
struct Lines<'t> {
    text: &'t str,
    /// Bytes that searches may still look at, so that many names in a large file do not cost quadratic time.
    budget: usize,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, budget: 64 * 1024 * 1024 }
    }

    /// The line of the last of `path` after the others; 1 once the budget is spent.
    fn of(&mut self, path: &[&str]) -> u32 {
        if self.budget < self.text.len() {
            return 1;
        }
        self.budget -= self.text.len();
        let mut at = 0;
        for name in path {
            let quoted = format!("\"{name}\"");
            match self.text[at..].find(&quoted) {
                Some(found) => at += found + quoted.len(),
                None => break,
            }
        }
        self.line_at(at)
    }

    /// The line of a string that is written without needless escapes; 1 for any other.
    fn of_string(&mut self, text: &str) -> u32 {
        if self.budget < self.text.len() {
            return 1;
        }
        self.budget -= self.text.len();
        let written = Json::from(text).to_string();
        self.line_at(self.text.find(&written).unwrap_or_default())
    }

    fn line_at(&self, at: usize) -> u32 {
        let newlines = self.text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        line_number(newlines + 1)
    }
}
