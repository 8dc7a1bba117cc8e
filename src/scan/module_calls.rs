//! What one module call means: its target, or the warning why there is none (spec 11 §6).

use super::directory::At;
use super::files::join;
use super::module_source::{self, Remote, Source};
use super::reader::Reader;
use super::terraform_file::ModuleCall;
use super::value::{Expression, Value};
use crate::graph::model::Warning;

/// The names that a module key is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Home<'a> {
    pub repo: &'a str,
    pub host: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub target: Target,
    /// As written, or as evaluated.
    pub source: String,
    pub at: (String, u32),
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A directory of the repository.
    Local(String),
    Remote(Remote),
}

/// Whether source and version can be read without any value.
pub(super) fn is_literal(call: &ModuleCall) -> bool {
    [&call.source, &call.version].into_iter().flatten().all(|expression| expression.literal().is_some())
}

/// The call with its values from `evaluate`.
pub(super) fn resolve(
    reader: &Reader<'_>,
    home: Home<'_>,
    directory: &str,
    call: &At<ModuleCall>,
    evaluate: &dyn Fn(&Expression) -> Result<Value, String>,
) -> Result<Call, Warning> {
    let line = call.it.source.as_ref().map_or(call.it.line, |source| source.line);
    let name = call.it.name.as_str();
    let refuse = |code: &str, what: String| Warning::new(code, format!("module {name:?}: {what}")).at(&call.file, line);
    let source = match call.it.source.as_ref().map(evaluate) {
        None | Some(Ok(Value::Null)) => return Err(refuse("module_no_source", "it has no source".to_owned())),
        Some(Ok(Value::Text(source))) if source.trim().is_empty() => {
            return Err(refuse("module_no_source", "its source is empty".to_owned()));
        }
        Some(Ok(Value::Text(source))) => source.trim().to_owned(),
        Some(Ok(_)) => return Err(refuse("module_unresolved", "its source is not text".to_owned())),
        Some(Err(why)) => {
            let what = format!("its source is not known before the tool runs, so the edge is unresolved: {why}");
            return Err(refuse("module_unresolved", what));
        }
    };
    let version = call.it.version.as_ref().and_then(|version| evaluate(version).ok()?.into_text()).unwrap_or_default();
    let target = match module_source::parse(&source, &version, home.host) {
        Source::Unsupported => {
            return Err(refuse("module_unsupported", format!("source {source:?} is not supported")));
        }
        Source::Remote(remote) => Target::Remote(remote),
        // The tool takes this for the name of a registry, and refuses it.
        Source::Local(_) if call.it.version.is_some() => {
            return Err(refuse("module_version_on_local", format!("source {source:?} is local and takes no version")));
        }
        Source::Local(path) => Target::Local(
            local(reader, directory, &path).map_err(|(code, why)| refuse(code, format!("source {source:?} {why}")))?,
        ),
    };
    Ok(Call { target, source, at: (call.file.clone(), line), name: name.to_owned() })
}

/// The directory that a local source means, or the code and reason of the warning.
fn local(reader: &Reader<'_>, directory: &str, source: &str) -> Result<String, (&'static str, String)> {
    let Some(path) = join(directory, source) else {
        return Err(("module_outside", "leads out of the repository".to_owned()));
    };
    if let Some(submodule) = reader.tree.submodule_of(&path) {
        return Err(("module_in_submodule", format!("leads into the git submodule {submodule:?}, which is not read")));
    }
    let Some(real) = reader.tree.real_directory(&path) else {
        return Err(("module_not_directory", "is not a directory of the repository".to_owned()));
    };
    if real == directory {
        return Err(("module_itself", "is the calling directory itself".to_owned()));
    }
    Ok(real)
}
