//! Files that expressions read with `file`, `templatefile`, `fileset` and their kin (spec 11 §17): what of it lies
//! outside of the directory that reads it is watched.
//!
//! A path counts when it is known before the tool runs. The tool runs in the directory of the stack, so a relative path
//! begins there wherever it stands, and `path.module` is the way from there to the module. What only a run knows is a
//! warning, unless it begins in a directory whose every file counts anyway.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::directory::{At, Directory};
use super::evaluation::Scope;
use super::file_sets::{self, FileSets, Place};
use super::files::{ancestors, file_name, join, parent};
use super::reader::Reader;
use super::stacks::Built;
use super::terraform_file::FileRead;
use super::value::Expression;
use crate::config::glob::parts::{from_root, has_pattern, literal_start, segments};
use crate::graph::model::Warning;

/// What one call comes to, and the directory whose files hold it.
pub(super) type Found = BTreeSet<(String, Target)>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// A file, existing or not, relative to the repository.
    Path(String),
    /// All files that match, those to come too.
    Glob(String),
    /// Something below this directory, if that much is known.
    Unknown { below: Option<String>, warning: Warning },
}

/// What `path.module` says where it does not matter which stack calls the module; no path begins so.
const OWN_DIRECTORY: &str = "\0";

/// Whether a call in the files of a module may read something else than what the module owns.
pub(super) fn may_leave(reader: &Reader<'_>, directory: &str, read: &FileRead) -> bool {
    let scope = Scope::new(BTreeMap::new(), Rc::default(), None).of_paths(OWN_DIRECTORY);
    let text = |expression: &Expression| scope.text(expression, None).ok().flatten();
    let inner = match (&read.pattern, text(&read.path)) {
        (None, Some(path)) => path.strip_prefix(OWN_DIRECTORY).and_then(|rest| join(directory, rest)),
        (Some(pattern), Some(path)) => {
            let glob = path.strip_prefix(OWN_DIRECTORY).zip(text(pattern));
            glob.and_then(|(rest, pattern)| join(directory, rest).filter(|_| !pattern.contains("..")))
        }
        // What stands for the rest is not written to climb; values of variables and locals may well be.
        (_, None) => {
            let climbs = |text: &str| ["..", "var.", "local."].iter().any(|part| text.contains(part));
            let written = read.path.written();
            let begins_here = scope.start(&read.path).strip_prefix(OWN_DIRECTORY).is_some_and(|it| it.starts_with('/'));
            (begins_here && !climbs(&written)).then(|| directory.to_owned())
        }
    };
    // What a set finds behind a link lies anywhere.
    let looks_behind_links = || read.pattern.is_some() && reader.tree.has_links_below(directory);
    // A directory in between may be a module or stack of its own.
    let is_below = |path: &str| path == directory || path.starts_with(&format!("{directory}/"));
    inner.is_none_or(|path| {
        let mut between = std::iter::once(path.as_str()).chain(ancestors(&path)).take_while(|it| *it != directory);
        !is_below(&path) || between.any(|it| reader.has_terraform(it))
    }) || looks_behind_links()
}

/// Who reads.
#[derive(Clone, Copy)]
pub(super) struct View<'a, 'f> {
    pub reader: &'a Reader<'f>,
    /// The directory of the stack.
    pub stack: &'a str,
    /// The directory whose files hold the calls.
    pub directory: &'a str,
}

impl View<'_, '_> {
    /// What calls read for one stack. `scope` is asked for only where a value is needed.
    pub fn find(self, reads: &[At<FileRead>], scope: &dyn Fn() -> Rc<Scope>) -> Found {
        let module = relative(self.stack, self.directory);
        let constants = Scope::new(BTreeMap::new(), Rc::default(), None).of_paths(&module);
        let full = OnceCell::new();
        let full = || full.get_or_init(|| scope().of_paths(&module));
        let text =
            |expression: &Expression| constants.text(expression, None).or_else(|_| full().text(expression, None));
        let mut found = Found::new();
        for read in reads {
            let target = match self.target(&read.it, &text) {
                Ok(target) => target,
                Err(why) => {
                    let begins = constants.start(&read.it.path);
                    let begins = if begins.is_empty() { full().start(&read.it.path) } else { begins };
                    Some(self.unknown(read, &begins, &why))
                }
            };
            found.extend(target.map(|target| (self.directory.to_owned(), target)));
        }
        found
    }

    /// `None` for what no commit of this repository changes.
    fn target(
        self,
        read: &FileRead,
        text: &dyn Fn(&Expression) -> Result<Option<String>, String>,
    ) -> Result<Option<Target>, String> {
        // A call with null or nothing stands in a branch that is not taken.
        let Some(path) = text(&read.path)? else { return Ok(None) };
        match &read.pattern {
            None if path.is_empty() => Ok(None),
            None => Ok(self.file(&path)),
            Some(pattern) => match text(pattern)? {
                Some(pattern) => self.glob(&path, &pattern),
                None => Ok(None),
            },
        }
    }

    fn file(self, path: &str) -> Option<Target> {
        let path = self.inside(path)?;
        if let Some(submodule) = self.reader.tree.submodule_of(&path) {
            return Some(Target::Path(submodule.to_owned()));
        }
        // Git tells of a change where the file really is.
        let real = self.reader.tree.real_path(parent(&path)).and_then(|real| join(&real, file_name(&path)));
        Some(Target::Path(real.unwrap_or(path)))
    }

    fn glob(self, directory: &str, pattern: &str) -> Result<Option<Target>, String> {
        if is_elsewhere(directory) {
            return Ok(None);
        }
        let (directory, pattern) = (without_negation(directory), without_negation(pattern));
        let written = format!("{directory}/{pattern}");
        let Some(glob) = from_root(self.stack, &written).filter(|glob| !glob.is_empty()) else { return Ok(None) };
        Ok(Some(match file_sets::place(&self.reader.tree, &glob) {
            Place::Submodule(path) => Target::Path(path),
            Place::Glob(glob) if !has_pattern(&glob) => Target::Path(literal_start(&glob)),
            Place::Glob(glob) => {
                crate::config::glob::check(&glob).map_err(|error| format!("its pattern {error}"))?;
                Target::Glob(glob)
            }
        }))
    }

    fn unknown(self, read: &At<FileRead>, begins: &str, why: &str) -> Target {
        let directory = begins.rfind('/').map(|slash| &begins[..slash]);
        let function = &read.it.function;
        let message =
            format!("what {function}() reads is not known before the tool runs, so its changes are not seen: {why}");
        let warning = Warning::new("file_read_unresolved", message).at(&read.file, read.it.line);
        Target::Unknown { below: directory.and_then(|directory| self.inside(directory)), warning }
    }

    fn inside(self, path: &str) -> Option<String> {
        if is_elsewhere(path) { None } else { join(self.stack, path) }
    }
}

/// `[!a]` is no negation for the tool: an exclamation mark in a class stands for itself, so it moves behind the letters.
fn without_negation(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains("[!") {
        return Cow::Borrowed(pattern);
    }
    let mut plain = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once("[!") {
        let (class, behind) = after.split_at(after.find(']').unwrap_or(after.len()));
        let letters = class.trim_start_matches(['!', '^']);
        let marks = &class[..class.len() - letters.len()];
        plain.push_str(before);
        // A class of nothing but such marks cannot be written; one letter of any kind is more than the tool looks for.
        if letters.is_empty() && behind.starts_with(']') {
            plain.push('?');
            rest = &behind[1..];
        } else {
            plain.extend(["[", letters, "!", marks]);
            rest = behind;
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Absolute, or in somebody's home.
fn is_elsewhere(path: &str) -> bool {
    path.starts_with(['/', '~'])
}

/// The way from one directory to another.
fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (segments(from).collect(), segments(to).collect());
    let common = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
    let way: Vec<&str> = from[common..].iter().map(|_| "..").chain(to[common..].iter().copied()).collect();
    if way.is_empty() { ".".to_owned() } else { way.join("/") }
}

/// Which directories own what lies in them.
pub(super) struct Owners<'a> {
    pub stacks: &'a BTreeMap<String, Rc<Directory>>,
    pub modules: &'a BTreeSet<String>,
}

impl Owners<'_> {
    fn stack_of<'p>(&self, path: &'p str) -> Option<&'p str> {
        std::iter::once(path).chain(ancestors(path)).find(|it| self.stacks.contains_key(*it))
    }

    fn module_of<'p>(&self, path: &'p str) -> Option<&'p str> {
        std::iter::once(path).chain(ancestors(path)).find(|it| self.modules.contains(*it))
    }

    /// Whether a change of the path is a change of the stack or of the module that reads it.
    fn is_own(&self, path: &str, stack: &str, reader: &str) -> bool {
        self.stack_of(path) == Some(stack) || self.module_of(path) == Some(reader)
    }

    /// The same for everything below a directory.
    fn is_own_tree(&self, directory: &str, stack: &str, reader: &str) -> bool {
        let below = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let is_below = |path: Option<&String>| path.is_some_and(|path| path.starts_with(&below));
        (self.stack_of(directory) == Some(stack)
            && !is_below(self.stacks.range(below.clone()..).next().map(|(path, _)| path)))
            || (self.module_of(directory) == Some(reader) && !is_below(self.modules.range(below.clone()..).next()))
    }
}

/// Gives every stack the files that its own files and its modules read elsewhere; `of_modules` by stack key.
pub(super) fn watch(
    reader: &Reader<'_>,
    sets: &FileSets<'_, '_>,
    stacks: &mut [Built],
    mut of_modules: BTreeMap<String, Found>,
    owners: &Owners<'_>,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for built in stacks {
        let mut found = of_modules.remove(&built.stack.key).unwrap_or_default();
        if let Some(directory) = owners.stacks.get(&built.stack.path).filter(|it| !it.file_reads.is_empty()) {
            let view = View { reader, stack: &built.stack.path, directory: &built.stack.path };
            found.extend(view.find(&directory.file_reads, &|| built.scope(reader)));
        }
        if found.is_empty() {
            continue;
        }
        let path = built.stack.path.clone();
        let mut paths: BTreeSet<String> = built.stack.watch_paths.drain(..).collect();
        let mut globs = BTreeSet::new();
        let is_elsewhere_too = |glob: &str, by: &str| {
            let start = literal_start(glob);
            !owners.is_own_tree(&start, &path, by) || reader.tree.has_links_below(&start)
        };
        for (by, target) in &found {
            match target {
                Target::Path(target) if !owners.is_own(target, &path, by) => {
                    reader.note(target);
                    paths.insert(target.clone());
                }
                Target::Glob(glob) if is_elsewhere_too(glob, by) => {
                    let set = sets.set(glob);
                    let elsewhere = |glob: &&String| !owners.is_own_tree(&literal_start(glob), &path, by);
                    globs.extend(set.globs.iter().filter(elsewhere).cloned());
                    paths.extend(set.files.iter().filter(|it| !owners.is_own(it, &path, by)).cloned());
                    warnings.extend(set.is_cut.then(|| file_sets::too_many_links(glob).of_stack(&built.stack.key)));
                }
                Target::Path(_) | Target::Glob(_) | Target::Unknown { .. } => {}
            }
        }
        let all_globs =
            || found.iter().filter_map(|(_, it)| if let Target::Glob(glob) = it { Some(glob) } else { None });
        let is_seen = |below: &str, by: &str| {
            let is_watched = |glob: &String| is_within(below, &literal_start(glob));
            owners.is_own(below, &path, by) || all_globs().any(is_watched)
        };
        warnings.extend(found.iter().filter_map(|(by, target)| match target {
            Target::Unknown { below: Some(below), .. } if is_seen(below, by) => None,
            Target::Unknown { warning, .. } => Some(warning.clone()),
            Target::Path(_) | Target::Glob(_) => None,
        }));
        built.stack.watch_paths = paths.into_iter().collect();
        built.stack.watch_globs = globs.into_iter().collect();
    }
    warnings
}

fn is_within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || directory.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_module_is_the_one_that_the_tool_records() {
        for (from, to, way) in [
            ("stacks/a", "stacks/a", "."),
            ("stacks/a", "modules/m", "../../modules/m"),
            ("stacks/a", "stacks/a/m", "m"),
            ("stacks/a", "stacks/ab", "../ab"),
            ("a", "", ".."),
        ] {
            assert_eq!(relative(from, to), way, "{from} {to}");
        }
    }

    #[test]
    fn an_exclamation_mark_in_a_class_is_a_letter() {
        for (written, plain) in [
            ("a/[!b].*", "a/[b!].*"),
            ("[!ab][!c]", "[ab!][c!]"),
            ("[!!a]", "[a!!]"),
            ("[!^a]", "[a!^]"),
            ("[!]x", "?x"),
            ("[!!]", "?"),
            ("[!!!]/[!a", "?/[a!"),
            ("[^a]!", "[^a]!"),
        ] {
            assert_eq!(without_negation(written), plain, "{written}");
        }
    }
}
