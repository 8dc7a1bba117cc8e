//! The checkout as the scan sees it: names first, contents on demand.
//!
//! The core does no I/O; whoever walks a directory or a git tree implements [`Files`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::reader::FileFacts;
use crate::ids::normalise_path;

/// A checkout or a commit. Paths are relative to the repository root and separated by `/`.
/// A scan reads from several threads at once.
pub trait Files: Sync {
    /// Every file, in any order. The walker may leave out `.git`, `.terraform` and `node_modules`.
    fn list(&self) -> Cow<'_, [Entry]>;

    /// The content, or the reason in a few words. A link is read through to its target.
    fn read(&self, path: &str) -> Result<Vec<u8>, String>;

    /// Does something once for each number below `count`, in any order, on as many threads as it likes.
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(work);
    }

    /// What an earlier scan found in this very content.
    fn known(&self, _path: &str) -> Option<FileFacts> {
        None
    }

    /// Tells what this scan found, for a later one.
    fn learn(&self, _path: &str, _facts: &FileFacts) {}
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub path: String,
    pub kind: EntryKind,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    File,
    /// A symbolic link whose end lies inside the checkout, with that end.
    FileLink {
        target: String,
    },
    DirectoryLink {
        target: String,
    },
    /// A symbolic link that leaves the checkout, dangles or loops, or what is no file at all; never followed or opened.
    BadLink {
        reason: String,
    },
    /// Another repository mounted here; never descended into.
    Submodule,
}

/// Files held in memory: for tests, and for a git tree that was read in one go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryFiles {
    files: BTreeMap<String, Vec<u8>>,
    others: BTreeMap<String, EntryKind>,
}

impl MemoryFiles {
    pub fn with(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.insert(path, content);
        self
    }

    pub fn insert(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.files.insert(path.to_owned(), content.into());
    }

    pub fn remove(&mut self, path: &str) {
        self.files.remove(path);
    }

    /// A link or a submodule.
    pub fn with_entry(mut self, path: &str, kind: EntryKind) -> Self {
        self.others.insert(path.to_owned(), kind);
        self
    }
}

impl Files for MemoryFiles {
    fn list(&self) -> Cow<'_, [Entry]> {
        let files = self.files.keys().map(|path| Entry { path: path.clone(), kind: EntryKind::File });
        let others = self.others.iter().map(|(path, kind)| Entry { path: path.clone(), kind: kind.clone() });
        files.chain(others).collect()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let path = match self.others.get(path) {
            Some(EntryKind::FileLink { target }) => target,
            Some(EntryKind::BadLink { reason }) => return Err(reason.clone()),
            _ => path,
        };
        self.files.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    }
}

/// Changed paths together with what changes through links.
///
/// Git reports a change at the target only, but the directory that holds a link to it changes too. A link that leads
/// elsewhere now changes for everybody who comes through it what stands at its end, so its end counts as changed.
pub fn with_links(entries: &[Entry], changed_paths: &[String]) -> Vec<String> {
    let changed: BTreeSet<&str> = changed_paths.iter().map(String::as_str).collect();
    let mut paths: BTreeSet<&str> = changed.clone();
    let mut ends = changed.clone();
    let mut directories = BTreeSet::new();
    for entry in entries.iter().filter(|entry| changed.contains(entry.path.as_str())) {
        match &entry.kind {
            EntryKind::FileLink { target } => drop(ends.insert(target)),
            EntryKind::DirectoryLink { target } => drop(directories.insert(target.as_str())),
            EntryKind::File | EntryKind::BadLink { .. } | EntryKind::Submodule => {}
        }
    }
    for entry in entries {
        let through_link = matches!(&entry.kind, EntryKind::FileLink { target } if ends.contains(target.as_str()));
        if through_link || directories.contains(parent(&entry.path)) {
            paths.insert(&entry.path);
        }
    }
    paths.into_iter().map(str::to_owned).collect()
}

/// The names of a checkout in the order that questions about them need.
#[derive(Debug)]
pub struct Tree<'f> {
    /// Sorted by path.
    entries: Cow<'f, [Entry]>,
    directories: BTreeSet<String>,
}

/// Links followed for one path; Linux allows as many.
const LINKS_MAX: usize = 40;

impl<'f> Tree<'f> {
    /// Of two entries with one path either may count.
    pub fn new(mut entries: Cow<'f, [Entry]>) -> Self {
        if !entries.is_sorted() {
            entries.to_mut().sort();
        }
        let mut directories = BTreeSet::from([String::new()]);
        let mut last = "";
        for entry in entries.iter() {
            let directory = parent(&entry.path);
            if std::mem::replace(&mut last, directory) == directory {
                continue;
            }
            // A directory that several files share is already there with all its parents.
            for parent in ancestors(&entry.path) {
                if directories.contains(parent) {
                    break;
                }
                directories.insert(parent.to_owned());
            }
        }
        Self { entries, directories }
    }

    /// What the scan walks, in order. Skipped directories hold files too, but only a reference leads to them.
    pub fn walk(&self) -> impl Iterator<Item = (&str, &EntryKind)> {
        self.entries.iter().filter(|entry| !is_skipped(&entry.path)).map(|entry| (entry.path.as_str(), &entry.kind))
    }

    pub fn kind(&self, path: &str) -> Option<&EntryKind> {
        self.entry(path).first().map(|entry| &entry.kind)
    }

    /// Every directory that holds a file, also deep below, the root as an empty path.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.directories.iter().map(String::as_str)
    }

    pub fn is_directory(&self, path: &str) -> bool {
        self.directories.contains(path)
    }

    /// The content of a file of this tree, or the reason in a few words. Links that leave the checkout are refused.
    pub fn read(&self, files: &dyn Files, path: &str) -> Result<Vec<u8>, String> {
        match self.kind(path) {
            Some(EntryKind::File | EntryKind::FileLink { .. }) => files.read(path),
            Some(EntryKind::BadLink { reason }) => Err(reason.clone()),
            Some(EntryKind::DirectoryLink { .. } | EntryKind::Submodule) => Err("it is not a file".to_owned()),
            None if self.is_directory(path) => Err("it is a directory".to_owned()),
            None => Err("no such file".to_owned()),
        }
    }

    /// Names of all files below a directory, relative to it.
    pub fn below<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = &'a str> {
        let length = if directory.is_empty() { 0 } else { directory.len() + 1 };
        self.entries_below(directory).iter().map(move |entry| &entry.path[length..])
    }

    /// All entries below a directory.
    pub fn entries_below(&self, directory: &str) -> &[Entry] {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let from = &self.entries[self.entries.partition_point(|entry| entry.path < prefix)..];
        &from[..from.partition_point(|entry| entry.path.starts_with(&prefix))]
    }

    /// The entry of a path, if there is one.
    pub fn entry(&self, path: &str) -> &[Entry] {
        let found = self.entries.binary_search_by(|entry| entry.path.as_str().cmp(path));
        found.map_or(&[], |at| &self.entries[at..=at])
    }

    /// The same without what is known to be no file. A link that cannot be followed might have been one.
    pub fn files_below<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = &'a str> {
        let path = move |name: &str| if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
        let is_file = move |kind: Option<&EntryKind>| {
            !matches!(kind, Some(EntryKind::DirectoryLink { .. } | EntryKind::Submodule))
        };
        self.below(directory).filter(move |name| is_file(self.kind(&path(name))))
    }

    /// The directory that a path stands for once links are followed, as the tool records it.
    pub fn real_directory(&self, path: &str) -> Option<String> {
        self.real_path(path).filter(|path| self.is_directory(path))
    }

    /// Where a path leads once links to directories are followed, whether there is something or not; `None` in circles.
    pub fn real_path(&self, path: &str) -> Option<String> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let link = ancestors_and_self(&path).find_map(|prefix| match self.kind(prefix) {
                Some(EntryKind::DirectoryLink { target }) => Some((prefix.len(), target)),
                _ => None,
            });
            match link {
                None => return Some(path),
                Some((length, target)) => path = normalise_path(&format!("{target}/{}", &path[length..])),
            }
        }
        None
    }

    /// Every link to a directory with its end, sorted by path.
    pub fn directory_links(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::DirectoryLink { target } => Some((entry.path.as_str(), target.as_str())),
            EntryKind::File | EntryKind::FileLink { .. } | EntryKind::BadLink { .. } | EntryKind::Submodule => None,
        })
    }

    pub fn has_links_below(&self, directory: &str) -> bool {
        self.entries_below(directory).iter().any(|entry| matches!(entry.kind, EntryKind::DirectoryLink { .. }))
    }

    /// The submodule that holds a path.
    pub fn submodule_of<'p>(&self, path: &'p str) -> Option<&'p str> {
        ancestors_and_self(path).find(|prefix| matches!(self.kind(prefix), Some(EntryKind::Submodule)))
    }
}

/// Directories that are never descended into: tool caches, and whatever hides behind a dot.
/// `.stackorder` and `.github` hold no stacks either, and are not read by the scan.
fn is_skipped(path: &str) -> bool {
    let mut segments = path.split('/').rev();
    segments.next();
    segments.any(|segment| segment == "node_modules" || segment.starts_with('.'))
}

/// The directory of a path and those above it, deepest first, the root (empty) last.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let path = rest.take()?;
        if path.is_empty() {
            return None;
        }
        let parent = path.rfind('/').map_or("", |slash| &path[..slash]);
        rest = Some(parent);
        Some(parent)
    })
}

fn ancestors_and_self(path: &str) -> impl Iterator<Item = &str> {
    std::iter::once(path).chain(ancestors(path))
}

pub fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..slash])
}

pub fn file_name(path: &str) -> &str {
    path.rfind('/').map_or(path, |slash| &path[slash + 1..])
}

/// `directory/relative`, cleaned; `None` when it leaves the repository.
pub fn join(directory: &str, relative: &str) -> Option<String> {
    let joined = normalise_path(&format!("{directory}/{relative}"));
    let leaves = joined == ".." || joined.starts_with("../");
    (!leaves).then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_changes_with_its_target() {
        let link = |path: &str, target: &str| Entry {
            path: path.to_owned(),
            kind: EntryKind::FileLink { target: target.to_owned() },
        };
        let entries = [link("stacks/a/main.tf", "shared/main.tf"), link("stacks/b/main.tf", "shared/other.tf")];
        assert_eq!(with_links(&entries, &["shared/main.tf".to_owned()]), ["shared/main.tf", "stacks/a/main.tf"]);
    }

    #[test]
    fn a_link_that_leads_elsewhere_changes_what_is_at_its_end() {
        let entry = |path: &str, kind: EntryKind| Entry { path: path.to_owned(), kind };
        let to_file = |target: &str| EntryKind::FileLink { target: target.to_owned() };
        let entries = [
            entry("common/net", EntryKind::DirectoryLink { target: "modules/net2".to_owned() }),
            entry("common/main.tf", to_file("shared/two.tf")),
            entry("modules/net2/main.tf", EntryKind::File),
            entry("modules/net2/deep/main.tf", EntryKind::File),
            entry("modules/net1/main.tf", EntryKind::File),
            entry("stacks/a/main.tf", to_file("shared/two.tf")),
        ];
        let paths =
            |changed: &[&str]| with_links(&entries, &changed.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        assert_eq!(paths(&["common/net"]), ["common/net", "modules/net2/main.tf"]);
        assert_eq!(paths(&["common/main.tf"]), ["common/main.tf", "stacks/a/main.tf"]);
    }

    #[test]
    fn paths_are_joined_inside_the_repository() {
        for (directory, relative, joined) in [
            ("a/b", "../c.tf", Some("a/c.tf")),
            ("a", "..", Some("")),
            ("", "./x//y/", Some("x/y")),
            ("a", "../../x", None),
            ("", "..", None),
        ] {
            assert_eq!(join(directory, relative).as_deref(), joined, "{directory} {relative}");
        }
        assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a/b", "a", ""]);
        assert_eq!(ancestors("").count(), 0);
    }
}
