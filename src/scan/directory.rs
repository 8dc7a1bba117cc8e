//! The Terraform files of one directory, put together in the order in which the tool reads them (spec 11 §4).

use std::collections::BTreeMap;

use super::files::file_name;
use super::terraform_file::{BackendBlock, FileRead, ModuleCall, RemoteState, TerraformFile};
use crate::config::model::Tool;
use crate::graph::model::Warning;

/// Something with the file it stands in.
#[derive(Debug, Clone, PartialEq)]
pub struct At<T> {
    pub file: String,
    pub it: T,
}

/// What a directory says as a whole to one tool, overrides applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Directory {
    pub tool: Tool,
    pub backend: Option<At<BackendBlock>>,
    pub modules: Vec<At<ModuleCall>>,
    pub remote_states: Vec<At<RemoteState>>,
    pub file_reads: Vec<At<FileRead>>,
    pub names_provider: bool,
    /// Positions of `archive_file` data sources.
    pub archive_files: Vec<(String, u32)>,
    /// Whether any file is not an override; the tool sees no configuration without one.
    pub has_base_file: bool,
    /// Whether there are override files.
    pub has_override: bool,
    /// Mistakes in the files, and a second backend.
    pub warnings: Vec<Warning>,
}

/// Endings of configuration; the last two are read by OpenTofu alone.
const ENDINGS: [&str; 4] = [".tf", ".tf.json", ".tofu", ".tofu.json"];

/// A name that either tool reads as configuration.
pub fn is_terraform_file(path: &str) -> bool {
    let name = file_name(path);
    ENDINGS.iter().any(|ending| name.ends_with(ending)) && !name.starts_with('.')
}

/// A name that only OpenTofu reads.
pub fn is_tofu_file(path: &str) -> bool {
    path.ends_with(".tofu") || path.ends_with(".tofu.json")
}

/// The files of a directory that the tool reads: OpenTofu takes `x.tofu` instead of an `x.tf` beside it.
/// Files are given with the paths that they are known by, in order.
pub fn read_by<F: AsRef<str>>(tool: Tool, files: &[F]) -> impl Iterator<Item = &F> {
    let hidden = move |path: &str| {
        let (stem, ending) = match path.strip_suffix(".tf") {
            Some(stem) => (stem, ".tofu"),
            None => (path.strip_suffix(".tf.json")?, ".tofu.json"),
        };
        let instead = format!("{stem}{ending}");
        Some(files.binary_search_by(|file| file.as_ref().cmp(&instead)).is_ok())
    };
    let has_tofu = files.iter().any(|file| is_tofu_file(file.as_ref()));
    files.iter().filter(move |file| match tool {
        Tool::Terraform => !is_tofu_file(file.as_ref()),
        Tool::Tofu => !has_tofu || hidden(file.as_ref()) != Some(true),
    })
}

/// A name of variable or backend values.
pub fn is_input_file(path: &str) -> bool {
    [".tfvars", ".tfvars.json", ".tfbackend"].iter().any(|ending| path.ends_with(ending))
}

/// A name whose content is laid over that of the other files.
pub(super) fn is_override(path: &str) -> bool {
    let name = file_name(path);
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    stem == "override" || stem.ends_with("_override")
}

/// Merges the files that a tool reads of one directory, given in name order.
pub fn merge<'a>(tool: Tool, files: impl Iterator<Item = (&'a str, &'a TerraformFile)>) -> Directory {
    let (overrides, base): (Vec<_>, Vec<_>) = files.partition(|(path, _)| is_override(path));
    let (has_base_file, has_override) = (!base.is_empty(), !overrides.is_empty());
    let mut directory = Directory { tool, has_base_file, has_override, ..Directory::default() };
    let mut called = BTreeMap::new();
    for (path, file) in &base {
        directory.add_common(path, file);
        directory.add_backends(path, file);
        for call in &file.modules {
            if let Some((file, line)) = called.insert(call.name.as_str(), (*path, call.line)) {
                let message = format!("module {:?} is called already at {file}:{line}", call.name);
                directory.warnings.push(Warning::new("module_twice", message).at(path, call.line));
            }
            directory.modules.push(At { file: (*path).to_owned(), it: call.clone() });
        }
        let at = |it: &RemoteState| At { file: (*path).to_owned(), it: it.clone() };
        directory.remote_states.extend(file.remote_states.iter().map(at));
    }
    for (path, file) in &overrides {
        directory.add_common(path, file);
        // The last backend of an override replaces whatever stood before.
        if let Some(block) = file.backends.last() {
            directory.backend = Some(At { file: (*path).to_owned(), it: block.clone() });
        }
        file.modules.iter().for_each(|call| directory.override_module(path, call));
        file.remote_states.iter().for_each(|block| directory.override_remote_state(path, block));
    }
    directory
}

impl Directory {
    fn add_common(&mut self, path: &str, file: &TerraformFile) {
        self.names_provider |= file.names_provider;
        self.archive_files.extend(file.archive_file_lines.iter().map(|line| (path.to_owned(), *line)));
        let at = |it: &FileRead| At { file: path.to_owned(), it: it.clone() };
        self.file_reads.extend(file.file_reads.iter().map(at));
        self.warnings.extend(file.warnings.iter().cloned());
    }

    fn add_backends(&mut self, path: &str, file: &TerraformFile) {
        for block in &file.backends {
            match &self.backend {
                None => self.backend = Some(At { file: path.to_owned(), it: block.clone() }),
                Some(first) => {
                    let message = format!("second backend block; the one at {}:{} counts", first.file, first.it.line);
                    self.warnings.push(Warning::new("backend_second", message).at(path, block.line));
                }
            }
        }
    }

    fn override_module(&mut self, path: &str, call: &ModuleCall) {
        match self.modules.iter_mut().find(|base| base.it.name == call.name) {
            None => {
                let message = format!("module {:?} overrides no call of its directory", call.name);
                self.warnings.push(Warning::new("override_without_base", message).at(path, call.line));
            }
            Some(base) => {
                // A position belongs to the source, so it moves with it.
                if call.source.is_some() {
                    base.file = path.to_owned();
                    base.it.line = call.line;
                    base.it.source.clone_from(&call.source);
                }
                if call.version.is_some() {
                    base.it.version.clone_from(&call.version);
                }
            }
        }
    }

    fn override_remote_state(&mut self, path: &str, block: &RemoteState) {
        match self.remote_states.iter_mut().find(|base| base.it.name == block.name) {
            None => self.remote_states.push(At { file: path.to_owned(), it: block.clone() }),
            Some(base) => {
                for (mine, theirs) in [
                    (&mut base.it.backend, &block.backend),
                    (&mut base.it.workspace, &block.workspace),
                    (&mut base.it.config, &block.config),
                    (&mut base.it.for_each, &block.for_each),
                ] {
                    if theirs.is_some() {
                        mine.clone_from(theirs);
                    }
                }
            }
        }
    }
}
