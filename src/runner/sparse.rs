//! Files that a sparse checkout leaves out of the working tree.
//!
//! They belong to the commit all the same: without them their stacks would look deleted. So they are read from git, and
//! links among them, or from the working tree to them, are followed by their texts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::checkout::{end_of_link, link_kind};
use super::git::{Blobs, Git, GitError, TreeEntry, TreeKind};
use crate::ids::normalise_path;
use crate::scan::files::{Entry, EntryKind, file_name};

/// The files that are only in git, with their blobs.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    ids: BTreeMap<String, String>,
    /// The texts of links that are left out or lead to something that is.
    links: BTreeMap<String, String>,
    root: PathBuf,
    blobs: Option<Mutex<Blobs>>,
}

/// Longest text of a link; Linux allows as much.
const LINK_BYTES_MAX: u64 = 4096;

impl LeftOut {
    /// Of the files that git keeps out of the working tree.
    pub fn of(missing: Vec<TreeEntry>, git: &Git) -> Result<Self, GitError> {
        if missing.is_empty() {
            return Ok(Self::default());
        }
        let mut blobs = git.blobs()?;
        let (mut ids, mut links) = (BTreeMap::new(), BTreeMap::new());
        for TreeEntry { kind, id, path } in missing {
            match kind {
                TreeKind::File => drop(ids.insert(path, id)),
                // One that cannot be read leads to itself, which is then told.
                TreeKind::Link => {
                    let text = blobs.read(&id, LINK_BYTES_MAX).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                    let text = text.unwrap_or_else(|| file_name(&path).to_owned());
                    links.insert(path, text);
                }
                TreeKind::Submodule => {}
            }
        }
        Ok(Self { ids, links, root: git.root().to_owned(), blobs: Some(Mutex::new(blobs)) })
    }

    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        let files = self.ids.keys().map(|path| Entry { path: path.clone(), kind: EntryKind::File });
        let links = self.links.keys().map(|path| Entry { path: path.clone(), kind: self.kind_behind(path) });
        files.chain(links)
    }

    /// What a link of the working tree stands for that seems to dangle, because what it leads to is left out.
    pub fn look_behind(&mut self, path: &str) -> Option<EntryKind> {
        // A checkout that is not sparse has nothing to look for.
        self.blobs.as_ref()?;
        let text = fs::read_link(self.root.join(path)).ok()?.into_os_string().into_string().ok()?;
        self.links.insert(path.to_owned(), text);
        let kind = self.kind_behind(path);
        if matches!(kind, EntryKind::BadLink { .. }) {
            self.links.remove(path);
            return None;
        }
        Some(kind)
    }

    /// Where a link is read instead; every other path as it is.
    pub fn end_of<'p>(&self, path: &'p str) -> Cow<'p, str> {
        match self.links.contains_key(path).then(|| end_of_link(path, &self.links)) {
            Some(Ok(end)) => Cow::Owned(end),
            Some(Err(_)) | None => Cow::Borrowed(path),
        }
    }

    /// The content of a file, or why it is not given; `None` for a file that is not left out.
    pub fn read(&self, path: &str, bytes_max: u64) -> Option<Result<Vec<u8>, String>> {
        let (id, blobs) = (self.ids.get(path)?, self.blobs.as_ref()?);
        Some(blobs.lock().unwrap_or_else(PoisonError::into_inner).read(id, bytes_max))
    }

    /// What a link stands for that is left out, or leads to what is; it may end in the working tree.
    fn kind_behind(&self, path: &str) -> EntryKind {
        let among_left_out = link_kind(path, &self.links, &self.ids);
        match (&among_left_out, end_of_link(path, &self.links)) {
            (EntryKind::BadLink { .. }, Ok(end)) => kind_on_disk(&self.root, &end).unwrap_or(among_left_out),
            _ => among_left_out,
        }
    }
}

fn kind_on_disk(root: &Path, end: &str) -> Option<EntryKind> {
    let real = root.join(end).canonicalize().ok()?;
    let target = real.strip_prefix(root).ok()?.to_str().map(normalise_path)?;
    Some(if real.is_dir() { EntryKind::DirectoryLink { target } } else { EntryKind::FileLink { target } })
}
