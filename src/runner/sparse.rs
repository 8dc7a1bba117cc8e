//! Files that a sparse checkout leaves out of the working tree.
//!
//! They belong to the commit all the same: without them their stacks would look deleted. So they are read from git.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::git::{Blobs, Git, GitError, TreeEntry, TreeKind};

/// The files that are only in git, with their blobs.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    ids: BTreeMap<String, String>,
    blobs: Option<Mutex<Blobs>>,
}

impl LeftOut {
    /// Of the files that git keeps out of the working tree.
    pub fn of(missing: Vec<TreeEntry>, git: &Git) -> Result<Self, GitError> {
        let files = missing.into_iter().filter(|file| file.kind == TreeKind::File);
        let ids: BTreeMap<String, String> = files.map(|file| (file.path, file.id)).collect();
        let blobs = if ids.is_empty() { None } else { Some(Mutex::new(git.blobs()?)) };
        Ok(Self { ids, blobs })
    }

    pub fn paths(&self) -> impl Iterator<Item = &String> {
        self.ids.keys()
    }

    /// The content of a file, or why it is not given; `None` for a file that is not left out.
    pub fn read(&self, path: &str, bytes_max: u64) -> Option<Result<Vec<u8>, String>> {
        let (id, blobs) = (self.ids.get(path)?, self.blobs.as_ref()?);
        Some(blobs.lock().unwrap_or_else(PoisonError::into_inner).read(id, bytes_max))
    }
}
