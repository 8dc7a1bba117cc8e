//! Reads each file of a checkout at most once, and remembers what the graph and the tree hash need of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use sha2::{Digest, Sha256};

use super::declarations::{self, Declarations};
use super::directory::{Directory, is_input_file, is_terraform_file, is_tofu_file, merge, read_by};
use super::files::{Files, Tree, file_name, parent};
use super::terraform_file::{self, TerraformFile};
use crate::config::model::Tool;
use crate::graph::model::Warning;
use crate::ids::hex;

/// A checkout while it is scanned.
pub(super) struct Reader<'f> {
    files: &'f dyn Files,
    pub tree: Tree,
    terraform: BTreeMap<String, TerraformFile>,
    /// Terraform files by directory, in name order.
    by_directory: BTreeMap<String, Vec<String>>,
    /// Of every file that was read: hex SHA-256, empty for one that could not be.
    digests: RefCell<BTreeMap<String, String>>,
    declarations: RefCell<BTreeMap<(String, Tool), Rc<Declarations>>>,
    pub warnings: Vec<Warning>,
}

impl<'f> Reader<'f> {
    /// Lists the checkout and reads what belongs to every scan: Terraform, input and configuration files.
    pub fn open(files: &'f dyn Files) -> Self {
        let mut reader = Self {
            files,
            tree: Tree::new(files.list()),
            terraform: BTreeMap::new(),
            by_directory: BTreeMap::new(),
            digests: RefCell::default(),
            declarations: RefCell::default(),
            warnings: Vec::new(),
        };
        let walked: Vec<String> = reader.tree.walk().map(|(path, _)| path.to_owned()).collect();
        for path in walked {
            if is_terraform_file(&path) {
                reader.read_terraform(&path);
            } else if is_input_file(&path) {
                if let Err(reason) = reader.read(&path) {
                    reader.warnings.push(Warning::new("file_unreadable", reason).in_file(&path));
                }
            } else if is_config_file(&path) {
                // It counts for the hash; whether it can be used is asked where a stack uses it.
                drop(reader.read(&path));
            }
        }
        reader
    }

    /// The bytes of a file that something refers to.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let read = self.tree.read(self.files, path);
        let digest = read.as_ref().map_or(String::new(), |bytes| hex(&Sha256::digest(bytes)));
        self.digests.borrow_mut().insert(path.to_owned(), digest);
        read
    }

    /// Reads a file for the hash alone, where it exists.
    pub fn note(&self, path: &str) {
        if self.tree.kind(path).is_some() && !self.digests.borrow().contains_key(path) {
            drop(self.read(path));
        }
    }

    fn read_terraform(&mut self, path: &str) {
        let file = match self.read(path) {
            Ok(bytes) => terraform_file::read(path, &bytes),
            Err(reason) => {
                // The directory must not look as if the file were not there.
                let warning = Warning::new("file_unreadable", reason).in_file(path);
                self.warnings.push(warning.clone());
                TerraformFile { warnings: vec![warning], ..TerraformFile::default() }
            }
        };
        self.terraform.insert(path.to_owned(), file);
        self.by_directory.entry(parent(path).to_owned()).or_default().push(path.to_owned());
    }

    /// Reads a directory that the walk leaves out, because a module call leads there.
    pub fn enter(&mut self, directory: &str) {
        if self.by_directory.contains_key(directory) {
            return;
        }
        let names = self.tree.below(directory).filter(|name| !name.contains('/') && is_terraform_file(name));
        let paths: Vec<String> = names
            .map(|name| if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") })
            .collect();
        for path in paths.iter().filter(|path| !self.digests.borrow().contains_key(*path)).collect::<Vec<_>>() {
            self.read_terraform(path);
        }
    }

    /// Lets a name count for the hash, whatever the file holds.
    pub fn note_name(&self, path: &str) {
        self.digests.borrow_mut().entry(path.to_owned()).or_default();
    }

    /// Whether a directory holds a Terraform file.
    pub fn has_terraform(&self, directory: &str) -> bool {
        !self.paths(directory).is_empty()
    }

    /// Directories that hold a Terraform file, in order.
    pub fn terraform_directories(&self) -> impl Iterator<Item = &str> {
        self.by_directory.keys().map(String::as_str)
    }

    /// What the files of a directory say together to a tool.
    pub fn directory(&self, directory: &str, tool: Tool) -> Directory {
        let paths = read_by(tool, self.paths(directory));
        merge(tool, paths.filter_map(|path| self.terraform.get(path).map(|file| (path.as_str(), file))))
    }

    /// Whether a directory holds files that only OpenTofu reads.
    pub fn has_tofu_file(&self, directory: &str) -> bool {
        self.paths(directory).iter().any(|path| is_tofu_file(path))
    }

    fn paths(&self, directory: &str) -> &[String] {
        self.by_directory.get(directory).map_or(&[], Vec::as_slice)
    }

    /// What a directory declares for its expressions.
    pub fn declarations(&self, directory: &str, tool: Tool) -> Rc<Declarations> {
        let key = (directory.to_owned(), tool);
        if let Some(known) = self.declarations.borrow().get(&key) {
            return known.clone();
        }
        let paths = read_by(tool, self.paths(directory));
        let files = paths.filter_map(|path| Some((path.as_str(), self.files.read(path).ok()?)));
        let read = Rc::new(declarations::read(files));
        self.declarations.borrow_mut().insert(key, read.clone());
        read
    }

    /// The tree hash of everything read so far (spec 11 §8).
    pub fn tree_hash(&self) -> String {
        let mut hash = Sha256::new();
        for (path, digest) in self.digests.borrow().iter() {
            hash.update(path.as_bytes());
            hash.update([0]);
            hash.update(digest.as_bytes());
            hash.update(b"\n");
        }
        hex(&hash.finalize())
    }
}

fn is_config_file(path: &str) -> bool {
    matches!(file_name(path), "stackorder.yaml" | ".stackorder.yaml")
}
