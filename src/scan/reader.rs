//! Reads each file of a checkout at most once, and remembers what the graph and the tree hash need of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
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
    pub tree: Tree<'f>,
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
        let is_wanted = |path: &str| is_terraform_file(path) || is_input_file(path) || is_config_file(path);
        let walked: Vec<&str> = reader.tree.walk().map(|(path, _)| path).filter(|path| is_wanted(path)).collect();
        let slots: Vec<OnceLock<Looked>> = walked.iter().map(|_| OnceLock::new()).collect();
        files.each(walked.len(), &|at| {
            slots[at].get_or_init(|| look(files, &reader.tree, walked[at]));
        });
        let found: Vec<(String, Looked)> = walked
            .iter()
            .zip(slots)
            .map(|(path, slot)| {
                let looked = slot.into_inner().unwrap_or_else(|| look(files, &reader.tree, path));
                ((*path).to_owned(), looked)
            })
            .collect();
        for (path, looked) in found {
            reader.take(path, looked);
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

    /// Keeps what a file says.
    fn take(&mut self, path: String, looked: Looked) {
        let FileFacts { digest, terraform } = looked.unwrap_or_else(|reason| {
            // Whether a configuration file can be used is asked where a stack uses it.
            if is_config_file(&path) {
                return FileFacts::default();
            }
            // The directory must not look as if the file were not there.
            let warning = Warning::new("file_unreadable", reason).in_file(&path);
            self.warnings.push(warning.clone());
            let terraform = TerraformFile { warnings: vec![warning], ..TerraformFile::default() };
            FileFacts { terraform, ..FileFacts::default() }
        });
        if is_terraform_file(&path) {
            self.terraform.insert(path.clone(), terraform);
            self.by_directory.entry(parent(&path).to_owned()).or_default().push(path.clone());
        }
        self.digests.get_mut().insert(path, digest);
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
        for path in paths {
            if !self.digests.borrow().contains_key(&path) {
                let looked = look(self.files, &self.tree, &path);
                self.take(path, looked);
            }
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
        let files = paths.filter_map(|path| Some((path.as_str(), self.tree.read(self.files, path).ok()?)));
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

/// What a scan needs of the content of one file, wherever it lies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Hex SHA-256.
    pub digest: String,
    /// Says nothing for a file that is not Terraform's.
    #[serde(default, skip_serializing_if = "TerraformFile::is_empty")]
    pub terraform: TerraformFile,
}

/// The facts, or why the file cannot be read.
type Looked = Result<FileFacts, String>;

fn look(files: &dyn Files, tree: &Tree<'_>, path: &str) -> Looked {
    if let Some(FileFacts { digest, terraform }) = files.known(path) {
        return Ok(FileFacts { digest, terraform: terraform.at(path) });
    }
    let bytes = tree.read(files, path)?;
    let terraform = if is_terraform_file(path) { terraform_file::read(path, &bytes) } else { TerraformFile::default() };
    let facts = FileFacts { digest: hex(&Sha256::digest(&bytes)), terraform };
    files.learn(path, &facts);
    Ok(facts)
}

fn is_config_file(path: &str) -> bool {
    matches!(file_name(path), "stackorder.yaml" | ".stackorder.yaml")
}
