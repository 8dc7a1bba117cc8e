//! What one Terraform file says that the graph needs, read from either syntax.
//!
//! Every file is read alone and keeps its expressions unevaluated; [`super::directory`] puts a directory together
//! as Terraform would, and knows which file overrides which.
//!
//! - `native_syntax`, `json_syntax`: the two ways to write one.

mod json_syntax;
mod native_syntax;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::hcl::{self, CALLS_MAX, Call};
use super::json::{self, Kind, Member};
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
    if path.ends_with(".json") { json_syntax::read(path, bytes) } else { native_syntax::read(path, bytes) }
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
