//! A working tree and a commit as the scan sees them.
//!
//! Git decides which files there are: what is tracked, and on a laptop what is new and not ignored.
//! Nothing outside of the repository is ever read, whatever links say.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::git::{Blobs, Difference, Git, GitError, TreeEntry, TreeKind, WorkingCopy};
use super::parallel;
use super::root::Root;
use super::sparse::LeftOut;
use crate::ids::{Sha, normalise_path};
use crate::scan::files::{Entry, EntryKind, Files, join, parent};

/// Most bytes of one file that a scan reads; no configuration written by hand comes near it.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Most files of a directory that is no git repository.
const WALKED_FILES_MAX: usize = 1_000_000;

/// Links followed for one path; Linux allows as many.
const LINKS_MAX: usize = 40;

/// A checkout on disk.
#[derive(Debug)]
pub struct WorkingTree {
    root: Root,
    /// Sorted by path.
    entries: Vec<Entry>,
    /// Of each entry that is a file as the index has it: the id of its content.
    ids: Vec<Option<String>>,
    left_out: LeftOut,
}

impl WorkingTree {
    /// Lists the checkout under `root`, whose links must be resolved already.
    pub fn open(root: &Path, git: &Git) -> Result<Self, GitError> {
        let mut entries: Vec<(Entry, Option<String>)> = Vec::new();
        let mut left_out = LeftOut::default();
        let on_disk = |path: String| kind_of(root, &path).map(|kind| (Entry { path, kind }, None));
        if git.is_repository() {
            let WorkingCopy { index, skipped, differences } = git.working_copy()?;
            let mut differing = BTreeSet::new();
            for difference in differences {
                let (Difference::Untracked(path) | Difference::Deleted(path) | Difference::Modified(path)) = difference;
                if differing.insert(path.clone()) {
                    entries.extend(on_disk(path));
                }
            }
            entries.reserve(index.len());
            for TreeEntry { kind, id, path } in index {
                entries.extend(match kind {
                    TreeKind::Submodule => Some((Entry { path, kind: EntryKind::Submodule }, None)),
                    _ if differing.contains(&path) => None,
                    TreeKind::Link => on_disk(path),
                    TreeKind::File => Some((Entry { path, kind: EntryKind::File }, Some(id))),
                });
            }
            let (there, missing): (Vec<TreeEntry>, Vec<TreeEntry>) =
                skipped.into_iter().partition(|file| kind_of(root, &file.path).is_some());
            entries.extend(there.into_iter().filter_map(|file| on_disk(file.path)));
            left_out = LeftOut::of(missing, git)?;
            for (entry, _) in &mut entries {
                if matches!(entry.kind, EntryKind::BadLink { .. })
                    && let Some(kind) = left_out.look_behind(&entry.path)
                {
                    entry.kind = kind;
                }
            }
        } else {
            entries.extend(walk(root).filter_map(on_disk).take(WALKED_FILES_MAX));
        }
        entries.extend(left_out.entries().map(|entry| (entry, None)));
        entries.sort();
        entries.dedup_by(|a, b| a.0.path == b.0.path);
        let (entries, ids) = entries.into_iter().unzip();
        Ok(Self { root: Root::open(root), entries, ids, left_out })
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The id of a file's content where git vouches for it.
    pub fn id(&self, path: &str) -> Option<&str> {
        let at = self.entries.binary_search_by(|entry| entry.path.as_str().cmp(path)).ok()?;
        self.ids[at].as_deref()
    }
}

impl Files for WorkingTree {
    fn list(&self) -> Cow<'_, [Entry]> {
        Cow::Borrowed(&self.entries)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let path = &self.left_out.end_of(path);
        if let Some(content) = self.left_out.read(path, FILE_BYTES_MAX) {
            return content;
        }
        self.root.read(path, FILE_BYTES_MAX)
    }

    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        parallel::each(count, work);
    }
}

/// What stands at a path on disk; `None` for nothing, and for a directory.
fn kind_of(root: &Path, path: &str) -> Option<EntryKind> {
    let full = root.join(path);
    let found = match fs::symlink_metadata(&full) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return None,
        // What nobody may look at is not gone: reading it fails in words, and its stack counts as incomplete.
        Err(_) => return Some(EntryKind::File),
    };
    if found.is_file() {
        return Some(EntryKind::File);
    }
    if found.is_dir() {
        return None;
    }
    let bad = |reason: &str| Some(EntryKind::BadLink { reason: reason.to_owned() });
    if !found.is_symlink() {
        return bad("it is neither a file nor a directory");
    }
    let Ok(real) = full.canonicalize() else { return bad("the link dangles or loops") };
    let Ok(inside) = real.strip_prefix(root) else { return bad("the link leads out of the checkout") };
    let Some(target) = inside.to_str().map(normalise_path) else { return bad("its target is no UTF-8") };
    Some(if real.is_dir() { EntryKind::DirectoryLink { target } } else { EntryKind::FileLink { target } })
}

/// Every path below a directory without git's help; hidden ones too, but nothing of git itself.
fn walk(root: &Path) -> impl Iterator<Item = String> {
    let walker = ignore::WalkBuilder::new(root)
        .standard_filters(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    let files = walker.flatten().filter(|found| found.file_type().is_none_or(|kind| !kind.is_dir()));
    files.filter_map(move |found| {
        let path = found.path().strip_prefix(root).ok().and_then(Path::to_str).map(normalise_path)?;
        (!path.is_empty()).then_some(path)
    })
}

/// A commit, read from git's store.
#[derive(Debug)]
pub struct Commit {
    entries: Vec<Entry>,
    blobs_by_path: BTreeMap<String, String>,
    git: Git,
    /// Processes of git that wait for a question; there are as many as threads that ask at once.
    idle: Mutex<Vec<Blobs>>,
}

impl Commit {
    pub fn open(git: &Git, commit: &Sha) -> Result<Self, GitError> {
        let tree = git.tree(commit)?;
        let mut blobs = git.blobs()?;
        let links: BTreeMap<String, String> = tree
            .iter()
            .filter(|file| file.kind == TreeKind::Link)
            .filter_map(|file| {
                let target = String::from_utf8(blobs.read(&file.id, FILE_BYTES_MAX).ok()?).ok()?;
                Some((file.path.clone(), target))
            })
            .collect();
        let blobs_by_path: BTreeMap<String, String> = tree
            .iter()
            .filter(|file| file.kind != TreeKind::Submodule)
            .map(|file| (file.path.clone(), file.id.clone()))
            .collect();
        let entries = tree
            .into_iter()
            .map(|file| {
                let kind = match file.kind {
                    TreeKind::Submodule => EntryKind::Submodule,
                    TreeKind::Link => link_kind(&file.path, &links, &blobs_by_path),
                    TreeKind::File => EntryKind::File,
                };
                Entry { path: file.path, kind }
            })
            .collect();
        Ok(Self { entries, blobs_by_path, git: git.clone(), idle: Mutex::new(vec![blobs]) })
    }
}

impl Commit {
    /// The id of a file's content.
    pub fn id(&self, path: &str) -> Option<&str> {
        self.blobs_by_path.get(self.end_of(path).ok()?).map(String::as_str)
    }

    /// Where a path ends once it is followed.
    fn end_of<'p>(&'p self, path: &'p str) -> Result<&'p str, String> {
        let at = self.entries.binary_search_by(|entry| entry.path.as_str().cmp(path)).ok();
        match at.map(|at| &self.entries[at].kind) {
            Some(EntryKind::FileLink { target }) => Ok(target),
            Some(EntryKind::BadLink { reason }) => Err(reason.clone()),
            _ => Ok(path),
        }
    }
}

impl Files for Commit {
    fn list(&self) -> Cow<'_, [Entry]> {
        Cow::Borrowed(&self.entries)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let path = self.end_of(path)?;
        let id = self.blobs_by_path.get(path).ok_or("no such file")?;
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle().pop();
        let mut blobs = waiting.map_or_else(|| self.git.blobs().map_err(|error| error.to_string()), Ok)?;
        let content = blobs.read(id, FILE_BYTES_MAX);
        idle().push(blobs);
        content
    }

    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        parallel::each(count, work);
    }
}

/// What a link stands for, found among names alone. A link through another directory link counts as bad.
pub(super) fn link_kind(path: &str, links: &BTreeMap<String, String>, files: &BTreeMap<String, String>) -> EntryKind {
    let bad = |reason: &str| EntryKind::BadLink { reason: reason.to_owned() };
    let at = match end_of_link(path, links) {
        Ok(at) => at,
        Err(reason) => return bad(reason),
    };
    let below = format!("{at}/");
    let is_directory = files.range(below.clone()..).next().is_some_and(|(path, _)| path.starts_with(&below));
    match (files.contains_key(&at), is_directory) {
        (true, _) => EntryKind::FileLink { target: at },
        (false, true) => EntryKind::DirectoryLink { target: at },
        (false, false) => bad("the link dangles"),
    }
}

/// The path that a link ends at by the texts of all links, or why it ends nowhere. What is no link ends at itself.
pub(super) fn end_of_link(path: &str, links: &BTreeMap<String, String>) -> Result<String, &'static str> {
    let mut at = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Some(target) = links.get(&at) else { return Ok(at) };
        let next = if target.starts_with('/') { None } else { join(parent(&at), target) };
        at = next.ok_or("the link leads out of the checkout")?;
    }
    Err("the link loops")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_cannot_be_looked_at_is_not_taken_for_one_that_is_gone() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("a.tf"), "").unwrap();
        assert_eq!(kind_of(place.path(), "a.tf"), Some(EntryKind::File));
        assert_eq!(kind_of(place.path(), "b.tf"), None);
        assert_eq!(kind_of(place.path(), "a.tf/b.tf"), None);
        let _socket = std::os::unix::net::UnixListener::bind(place.path().join("c.tf")).unwrap();
        assert!(matches!(kind_of(place.path(), "c.tf"), Some(EntryKind::BadLink { .. })));
        // Stands for a directory without permission, in which root may look all the same.
        let too_long = "x".repeat(5_000);
        assert_eq!(kind_of(place.path(), &too_long), Some(EntryKind::File));
    }
}
