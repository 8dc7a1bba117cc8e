//! Both configuration files from bytes to values, fully checked (spec 10 §1, §12).
//!
//! Every problem of a file is reported at once, each at its key and line.
//!
//! - `root`: the keys of `stackorder.yaml`.
//! - `stack`: the keys of `.stackorder.yaml` and of instance overrides.
//! - `settings`: the keys that both files share.
//! - `places`: where a key belongs that stands at the wrong place.

mod places;
mod root;
mod settings;
mod stack;

use crate::config::model::{RepoConfig, StackConfig};
use crate::config::problem::PROBLEMS_MAX;
use crate::config::strict::{At, Reader};
use crate::config::yaml::{self, Node, YamlError};

pub use crate::config::problem::Problem;

/// Parses the root file. `file` is what problems call it.
pub fn parse_repo_config(file: &str, bytes: &[u8]) -> Result<RepoConfig, Vec<Problem>> {
    let (root, repeated) = read(file, bytes)?;
    match root {
        Some(node) => collect(Reader::new(file, places::in_root_file), &node, repeated, Reader::repo_config),
        None => Err(vec![Problem::of_key(file, "", "file is empty; the minimum is `version: 1`")]),
    }
}

/// Parses a stack file; an empty one changes nothing.
pub fn parse_stack_config(file: &str, bytes: &[u8]) -> Result<StackConfig, Vec<Problem>> {
    let (root, repeated) = read(file, bytes)?;
    match root {
        Some(node) => collect(Reader::new(file, places::in_stack_file), &node, repeated, Reader::stack_config),
        None => Ok(StackConfig::default()),
    }
}

/// The tree of a file, and its repeated keys, which are reported together with everything else.
fn read(file: &str, bytes: &[u8]) -> Result<(Option<Node>, Vec<Problem>), Vec<Problem>> {
    let problem = |error: YamlError| {
        let YamlError { line, path, message } = error;
        Problem { file: file.to_owned(), line, path, message }
    };
    let problems = |errors: Vec<YamlError>| errors.into_iter().map(problem).collect::<Vec<_>>();
    let document = yaml::read(bytes).map_err(problems)?;
    Ok((document.root, problems(document.repeated)))
}

fn collect<'f, T>(
    mut reader: Reader<'f>,
    node: &Node,
    repeated: Vec<Problem>,
    read: impl Fn(&mut Reader<'f>, &At<'_>) -> T,
) -> Result<T, Vec<Problem>> {
    reader.problems = repeated;
    let config = read(&mut reader, &At { node, path: String::new() });
    if reader.problems.is_empty() {
        return Ok(config);
    }
    let is_full = reader.problems.len() == PROBLEMS_MAX;
    reader.problems.sort_by(|a, b| (a.line, &a.path).cmp(&(b.line, &b.path)));
    if is_full {
        let message = format!("only the first {PROBLEMS_MAX} problems are listed");
        reader.problems.push(Problem::of_key(reader.file, "", message));
    }
    Err(reader.problems)
}

#[cfg(test)]
mod tests;
