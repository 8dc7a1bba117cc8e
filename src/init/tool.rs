//! Terraform or OpenTofu, and which version, by what the checkout says of itself.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::is_of_tofu;
use crate::config::model::Tool;
use crate::scan::files::{EntryKind, Files, Tree, file_name};

/// What speaks for each tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToolFound {
    /// For each tool the first few files that speak for it, with the words why.
    evidence: BTreeMap<Tool, Vec<String>>,
    /// A file that only OpenTofu reads.
    tofu_file: Option<String>,
    versions: BTreeMap<Tool, BTreeSet<String>>,
}

/// Pieces of evidence that are kept; a person needs one or two.
const EVIDENCE_MAX: usize = 3;
/// Longest file of a version manager that is read.
const VERSION_FILE_BYTES_MAX: usize = 4096;
/// Longest lock file that is searched.
const LOCK_FILE_BYTES_MAX: usize = 1024 * 1024;

impl ToolFound {
    /// The tool that the checkout proves: its own files, else everything that speaks for one and nothing for the other.
    pub(super) fn tool(&self) -> Option<Tool> {
        if self.tofu_file.is_some() {
            return Some(Tool::Tofu);
        }
        match self.evidence.keys().collect::<Vec<_>>().as_slice() {
            [only] => Some(**only),
            _ => None,
        }
    }

    /// Why, in a few words.
    pub(super) fn why(&self) -> String {
        match &self.tofu_file {
            Some(file) => format!("{file} is read by OpenTofu alone"),
            None => self.evidence.values().flatten().cloned().collect::<Vec<_>>().join(", "),
        }
    }

    /// The one version that version managers install of this tool.
    pub(super) fn version(&self, tool: Tool) -> Option<&str> {
        match self.versions.get(&tool)?.iter().collect::<Vec<_>>().as_slice() {
            [only] => Some(only.as_str()),
            _ => None,
        }
    }

    /// All of them, when there are several.
    pub(super) fn versions(&self, tool: Tool) -> Vec<&str> {
        self.versions.get(&tool).into_iter().flatten().map(String::as_str).collect()
    }

    /// Whether files speak for both.
    pub(super) fn is_disputed(&self) -> bool {
        self.tool().is_none() && !self.evidence.is_empty()
    }

    fn speaks_for(&mut self, tool: Tool, why: String) {
        let evidence = self.evidence.entry(tool).or_default();
        if evidence.len() < EVIDENCE_MAX {
            evidence.push(why);
        }
    }

    fn version_of(&mut self, tool: Tool, path: &str, text: &str) {
        let text = text.trim();
        if is_exact_version(text) {
            self.speaks_for(tool, format!("{path} says {text}"));
            self.versions.entry(tool).or_default().insert(text.to_owned());
        }
    }
}

pub(super) fn of(files: &dyn Files) -> ToolFound {
    let tree = Tree::new(files.list());
    let mut found = ToolFound::default();
    for (path, kind) in tree.walk() {
        if !matches!(kind, EntryKind::File) {
            continue;
        }
        if is_of_tofu(path) {
            found.tofu_file.get_or_insert_with(|| path.to_owned());
        }
        let text = |bytes_max: usize| {
            let bytes = files.read(path).ok().filter(|bytes| bytes.len() <= bytes_max)?;
            String::from_utf8(bytes).ok()
        };
        match file_name(path) {
            ".terraform-version" => {
                text(VERSION_FILE_BYTES_MAX).iter().for_each(|text| found.version_of(Tool::Terraform, path, text));
            }
            ".opentofu-version" => {
                text(VERSION_FILE_BYTES_MAX).iter().for_each(|text| found.version_of(Tool::Tofu, path, text));
            }
            ".tool-versions" => {
                for line in text(VERSION_FILE_BYTES_MAX).unwrap_or_default().lines() {
                    let mut words = line.split_whitespace();
                    match (words.next(), words.next()) {
                        (Some("terraform"), Some(version)) => found.version_of(Tool::Terraform, path, version),
                        (Some("opentofu" | "tofu"), Some(version)) => found.version_of(Tool::Tofu, path, version),
                        _ => {}
                    }
                }
            }
            ".terraform.lock.hcl" => {
                let text = text(LOCK_FILE_BYTES_MAX).unwrap_or_default();
                for (tool, host) in [(Tool::Terraform, "registry.terraform.io"), (Tool::Tofu, "registry.opentofu.org")]
                {
                    if text.contains(&format!("provider \"{host}/")) {
                        found.speaks_for(tool, format!("{path} locks providers of {host}"));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// `1.11.4`, with a suffix such as `-rc1` or without; not `latest` and no constraint.
fn is_exact_version(text: &str) -> bool {
    let (numbers, suffix) = text.split_once('-').map_or((text, None), |(numbers, suffix)| (numbers, Some(suffix)));
    let is_number = |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_suffix =
        |part: &str| (1..=16).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    numbers.split('.').count() == 3 && numbers.split('.').all(is_number) && suffix.is_none_or(is_suffix)
}
