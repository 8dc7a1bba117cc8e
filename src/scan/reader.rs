//! Reads each file of a checkout at most once, and remembers what the graph and the tree hash need of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use super::declarations::{self, Declarations};
use super::directory::{Directory, is_input_file, is_terraform_file, is_tofu_file, merge, read_by};
use super::files::{Files, Tree, file_name, parent};
use super::modules::Place;
use super::terraform_file::{self, NOTHING, TerraformFile};
use crate::config::model::Tool;
use crate::graph::model::Warning;
use crate::ids::hex;

/// A checkout while it is scanned.
pub(super) struct Reader<'f> {
    files: &'f dyn Files,
    pub tree: Tree<'f>,
    /// By directory, in name order.
    terraform: BTreeMap<String, Vec<ReadFile>>,
    /// Of every file that was read: hex SHA-256, empty for one that could not be.
    digests: RefCell<BTreeMap<Rc<str>, String>>,
    directories: RefCell<BTreeMap<Place, Rc<Directory>>>,
    declarations: RefCell<BTreeMap<Place, Rc<Declarations>>>,
    pub warnings: Vec<Warning>,
}

/// A Terraform file and what it says.
struct ReadFile {
    path: Rc<str>,
    terraform: Option<Box<TerraformFile>>,
}

impl AsRef<str> for ReadFile {
    fn as_ref(&self) -> &str {
        &self.path
    }
}

impl<'f> Reader<'f> {
    /// Lists the checkout and reads what belongs to every scan: Terraform, input and configuration files.
    pub fn open(files: &'f dyn Files) -> Self {
        let mut reader = Self {
            files,
            tree: Tree::new(files.list()),
            terraform: BTreeMap::new(),
            digests: RefCell::default(),
            directories: RefCell::default(),
            declarations: RefCell::default(),
            warnings: Vec::new(),
        };
        let is_wanted = |path: &str| is_terraform_file(path) || is_input_file(path) || is_config_file(path);
        let walked: Vec<&str> = reader.tree.walk().map(|(path, _)| path).filter(|path| is_wanted(path)).collect();
        let slots: Vec<OnceLock<Looked>> = walked.iter().map(|_| OnceLock::new()).collect();
        files.each(walked.len(), &|at| {
            slots[at].get_or_init(|| look(files, &reader.tree, walked[at]));
        });
        let found: Vec<(Rc<str>, Looked)> = walked
            .iter()
            .zip(slots)
            .map(|(path, slot)| {
                let looked = slot.into_inner().unwrap_or_else(|| look(files, &reader.tree, path));
                (Rc::from(*path), looked)
            })
            .collect();
        // All at once, because a map is built much faster from what is sorted already.
        let digest = |(path, looked)| {
            let digest = reader.take(&path, looked);
            (path, digest)
        };
        reader.digests = RefCell::new(found.into_iter().map(digest).collect());
        reader
    }

    /// The bytes of a file that something refers to.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let read = self.tree.read(self.files, path);
        let digest = read.as_ref().map_or(String::new(), |bytes| hex(&Sha256::digest(bytes)));
        self.digests.borrow_mut().insert(path.into(), digest);
        read
    }

    /// Reads a file for the hash alone, where it exists.
    pub fn note(&self, path: &str) {
        if self.tree.kind(path).is_some() && !self.digests.borrow().contains_key(path) {
            drop(self.read(path));
        }
    }

    /// Keeps what a file says, and gives its digest.
    fn take(&mut self, path: &Rc<str>, looked: Looked) -> String {
        let FileFacts { digest, terraform } = looked.unwrap_or_else(|reason| {
            // Whether a configuration file can be used is asked where a stack uses it.
            if is_config_file(path) {
                return FileFacts::default();
            }
            // The directory must not look as if the file were not there.
            let warning = Warning::new("file_unreadable", reason).in_file(path);
            self.warnings.push(warning.clone());
            let terraform = TerraformFile { warnings: vec![warning], ..TerraformFile::default() };
            FileFacts { terraform: Some(Box::new(terraform)), ..FileFacts::default() }
        });
        if is_terraform_file(path) {
            let file = ReadFile { path: path.clone(), terraform };
            match self.terraform.get_mut(parent(path)) {
                Some(files) => files.push(file),
                None => drop(self.terraform.insert(parent(path).to_owned(), vec![file])),
            }
        }
        digest
    }

    /// Reads a directory that the walk leaves out, because a module call leads there.
    pub fn enter(&mut self, directory: &str) {
        if self.has_terraform(directory) {
            return;
        }
        // It may have been asked for when nothing of it was read yet.
        for tool in [Tool::Terraform, Tool::Tofu] {
            self.directories.get_mut().remove(&(directory.to_owned(), tool));
        }
        let names = self.tree.below(directory).filter(|name| !name.contains('/') && is_terraform_file(name));
        let paths: Vec<String> = names
            .map(|name| if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") })
            .collect();
        for path in paths {
            if !self.digests.get_mut().contains_key(path.as_str()) {
                let path = Rc::from(path);
                let looked = look(self.files, &self.tree, &path);
                let digest = self.take(&path, looked);
                self.digests.get_mut().insert(path, digest);
            }
        }
    }

    /// Lets a name count for the hash, whatever the file holds.
    pub fn note_name(&self, path: &str) {
        self.digests.borrow_mut().entry(path.into()).or_default();
    }

    /// Whether a directory holds a Terraform file.
    pub fn has_terraform(&self, directory: &str) -> bool {
        self.terraform.contains_key(directory)
    }

    /// Directories that hold a Terraform file, in order.
    pub fn terraform_directories(&self) -> impl Iterator<Item = &str> {
        self.terraform.keys().map(String::as_str)
    }

    /// What the files of a directory say together to a tool.
    pub fn directory(&self, directory: &str, tool: Tool) -> Rc<Directory> {
        let merged = || {
            let files = read_by(tool, self.terraform_files(directory));
            Rc::new(merge(tool, files.map(|file| (&*file.path, file.terraform.as_deref().unwrap_or(&NOTHING)))))
        };
        self.directories.borrow_mut().entry((directory.to_owned(), tool)).or_insert_with(merged).clone()
    }

    /// Whether a directory holds files that only OpenTofu reads.
    pub fn has_tofu_file(&self, directory: &str) -> bool {
        self.terraform_files(directory).iter().any(|file| is_tofu_file(&file.path))
    }

    fn terraform_files(&self, directory: &str) -> &[ReadFile] {
        self.terraform.get(directory).map_or(&[], Vec::as_slice)
    }

    /// What a directory declares for its expressions.
    pub fn declarations(&self, directory: &str, tool: Tool) -> Rc<Declarations> {
        let key = (directory.to_owned(), tool);
        if let Some(known) = self.declarations.borrow().get(&key) {
            return known.clone();
        }
        let files = read_by(tool, self.terraform_files(directory));
        let files = files.filter_map(|file| Some((&*file.path, self.tree.read(self.files, &file.path).ok()?)));
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
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileFacts {
    /// Hex SHA-256.
    pub digest: String,
    /// `None` where it says nothing, which is the rule for a file that is not Terraform's.
    pub terraform: Option<Box<TerraformFile>>,
}

/// The facts, or why the file cannot be read.
type Looked = Result<FileFacts, String>;

fn look(files: &dyn Files, tree: &Tree<'_>, path: &str) -> Looked {
    if let Some(FileFacts { digest, terraform }) = files.known(path) {
        return Ok(FileFacts { digest, terraform: terraform.map(|file| Box::new(file.at(path))) });
    }
    let bytes = tree.read(files, path)?;
    let says = is_terraform_file(path).then(|| terraform_file::read(path, &bytes));
    let terraform = says.filter(|says| *says != NOTHING).map(Box::new);
    let facts = FileFacts { digest: hex(&Sha256::digest(&bytes)), terraform };
    files.learn(path, &facts);
    Ok(facts)
}

fn is_config_file(path: &str) -> bool {
    matches!(file_name(path), "stackorder.yaml" | ".stackorder.yaml")
}
