//! A working tree and a commit as the scan sees them.
//!
//! Git decides which files there are: what is tracked, and on a laptop what is new and not ignored.
//! Nothing outside of the repository is ever read, whatever links say.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::git::{Blobs, Git, GitError, TreeEntry, is_inside};
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
    root: PathBuf,
    entries: Vec<Entry>,
    /// Directories that were found to lie inside the root; asking once per file costs as much as reading it.
    inside: RefCell<BTreeSet<String>>,
    left_out: LeftOut,
}

impl WorkingTree {
    /// Lists the checkout under `root`, whose links must be resolved already.
    pub fn open(root: &Path, git: &Git) -> Result<Self, GitError> {
        let (mut entries, mut missing) = (Vec::new(), BTreeSet::new());
        if git.is_repository() {
            let tracked = git.index()?.into_iter();
            let untracked =
                git.untracked()?.into_iter().map(|path| TreeEntry { mode: String::new(), id: String::new(), path });
            for file in tracked.chain(untracked) {
                let kind = if file.mode == SUBMODULE { Some(EntryKind::Submodule) } else { kind_of(root, &file.path) };
                match kind {
                    Some(kind) => entries.push(Entry { path: file.path, kind }),
                    None => drop(missing.insert(file.path)),
                }
            }
        } else {
            walk(root, &mut entries);
        }
        let left_out = LeftOut::among(&missing, git)?;
        entries.extend(left_out.paths().map(|path| Entry { path: path.clone(), kind: EntryKind::File }));
        entries.sort();
        entries.dedup_by(|a, b| a.path == b.path);
        Ok(Self { root: root.to_owned(), entries, inside: RefCell::default(), left_out })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn is_inside(&self, directory: &str) -> bool {
        if self.inside.borrow().contains(directory) {
            return true;
        }
        let found = is_inside(&self.root, &self.root.join(directory));
        if found {
            self.inside.borrow_mut().insert(directory.to_owned());
        }
        found
    }
}

impl Files for WorkingTree {
    fn list(&self) -> Vec<Entry> {
        self.entries.clone()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        if let Some(content) = self.left_out.read(path, FILE_BYTES_MAX) {
            return content;
        }
        let full = self.root.join(path);
        let found = fs::symlink_metadata(&full).map_err(|error| error.to_string())?;
        let size = if found.is_symlink() {
            if !is_inside(&self.root, &full) {
                return Err("the link leads out of the checkout, or nowhere".to_owned());
            }
            fs::metadata(&full).map_err(|error| error.to_string())?.len()
        } else {
            found.len()
        };
        if !self.is_inside(parent(path)) {
            return Err("it is not inside the checkout".to_owned());
        }
        if size > FILE_BYTES_MAX {
            return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
        }
        fs::read(&full).map_err(|error| error.to_string())
    }
}

const SUBMODULE: &str = "160000";
const LINK: &str = "120000";

/// What stands at a path on disk; `None` for nothing, and for what is neither file nor link.
fn kind_of(root: &Path, path: &str) -> Option<EntryKind> {
    let full = root.join(path);
    let found = fs::symlink_metadata(&full).ok()?;
    if found.is_file() {
        return Some(EntryKind::File);
    }
    if !found.is_symlink() {
        return None;
    }
    let bad = |reason: &str| Some(EntryKind::BadLink { reason: reason.to_owned() });
    let Ok(real) = full.canonicalize() else { return bad("the link dangles or loops") };
    let Ok(inside) = real.strip_prefix(root) else { return bad("the link leads out of the checkout") };
    let Some(target) = inside.to_str().map(normalise_path) else { return bad("its target is no UTF-8") };
    Some(if real.is_dir() { EntryKind::DirectoryLink { target } } else { EntryKind::FileLink { target } })
}

/// Every file below a directory without git's help; hidden ones too, but nothing of git itself.
fn walk(root: &Path, entries: &mut Vec<Entry>) {
    let walker = ignore::WalkBuilder::new(root)
        .standard_filters(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    for found in walker.flatten() {
        if entries.len() == WALKED_FILES_MAX {
            break;
        }
        let Some(path) = found.path().strip_prefix(root).ok().and_then(Path::to_str).map(normalise_path) else {
            continue;
        };
        if path.is_empty() || found.file_type().is_some_and(|kind| kind.is_dir()) {
            continue;
        }
        entries.extend(kind_of(root, &path).map(|kind| Entry { path, kind }));
    }
}

/// A commit, read from git's store.
#[derive(Debug)]
pub struct Commit {
    entries: Vec<Entry>,
    blobs_by_path: BTreeMap<String, String>,
    blobs: RefCell<Blobs>,
}

impl Commit {
    pub fn open(git: &Git, commit: &Sha) -> Result<Self, GitError> {
        let tree = git.tree(commit)?;
        let mut blobs = git.blobs()?;
        let links: BTreeMap<String, String> = tree
            .iter()
            .filter(|file| file.mode == LINK)
            .filter_map(|file| {
                let target = String::from_utf8(blobs.read(&file.id, FILE_BYTES_MAX).ok()?).ok()?;
                Some((file.path.clone(), target))
            })
            .collect();
        let blobs_by_path: BTreeMap<String, String> = tree
            .iter()
            .filter(|file| file.mode != SUBMODULE)
            .map(|file| (file.path.clone(), file.id.clone()))
            .collect();
        let entries = tree
            .into_iter()
            .map(|file| {
                let kind = match file.mode.as_str() {
                    SUBMODULE => EntryKind::Submodule,
                    LINK => link_kind(&file.path, &links, &blobs_by_path),
                    _ => EntryKind::File,
                };
                Entry { path: file.path, kind }
            })
            .collect();
        Ok(Self { entries, blobs_by_path, blobs: RefCell::new(blobs) })
    }
}

impl Files for Commit {
    fn list(&self) -> Vec<Entry> {
        self.entries.clone()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let at = self.entries.binary_search_by(|entry| entry.path.as_str().cmp(path)).ok();
        let path = match at.map(|at| &self.entries[at].kind) {
            Some(EntryKind::FileLink { target }) => target,
            Some(EntryKind::BadLink { reason }) => return Err(reason.clone()),
            _ => path,
        };
        let id = self.blobs_by_path.get(path).ok_or("no such file")?;
        self.blobs.borrow_mut().read(id, FILE_BYTES_MAX)
    }
}

/// Where a link of a commit ends, found among its names alone. A link through another directory link counts as bad.
fn link_kind(path: &str, links: &BTreeMap<String, String>, files: &BTreeMap<String, String>) -> EntryKind {
    let bad = |reason: &str| EntryKind::BadLink { reason: reason.to_owned() };
    let mut at = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Some(target) = links.get(&at) else {
            let below = format!("{at}/");
            let is_directory = files.range(below.clone()..).next().is_some_and(|(path, _)| path.starts_with(&below));
            return match (files.contains_key(&at), is_directory) {
                (true, _) => EntryKind::FileLink { target: at },
                (false, true) => EntryKind::DirectoryLink { target: at },
                (false, false) => bad("the link dangles"),
            };
        };
        if target.starts_with('/') {
            return bad("the link leads out of the checkout");
        }
        match join(parent(&at), target) {
            Some(next) => at = next,
            None => return bad("the link leads out of the checkout"),
        }
    }
    bad("the link loops")
}
