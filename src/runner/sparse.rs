//! Files that a sparse checkout leaves out of the working tree.
//!
//! They belong to the commit all the same: without them their stacks would look deleted. So they are read from git.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::git::{Blobs, Git, GitError, TreeEntry};

/// The files that are only in git, with their blobs.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    ids: BTreeMap<String, String>,
    blobs: Option<RefCell<Blobs>>,
}

impl LeftOut {
    /// Those of `missing`, tracked files that are not on disk, that a sparse checkout left out. The others are deleted.
    pub fn among(missing: &BTreeSet<String>, git: &Git) -> Result<Self, GitError> {
        if missing.is_empty() {
            return Ok(Self::default());
        }
        let is_file = |file: &TreeEntry| file.mode.starts_with("100") && missing.contains(&file.path);
        let left_out = git.left_out()?.into_iter().filter(is_file);
        let ids: BTreeMap<String, String> = left_out.map(|file| (file.path, file.id)).collect();
        let blobs = if ids.is_empty() { None } else { Some(RefCell::new(git.blobs()?)) };
        Ok(Self { ids, blobs })
    }

    pub fn paths(&self) -> impl Iterator<Item = &String> {
        self.ids.keys()
    }

    /// The content of a file, or why it is not given; `None` for a file that is not left out.
    pub fn read(&self, path: &str, bytes_max: u64) -> Option<Result<Vec<u8>, String>> {
        let (id, blobs) = (self.ids.get(path)?, self.blobs.as_ref()?);
        Some(blobs.borrow_mut().read(id, bytes_max))
    }
}
