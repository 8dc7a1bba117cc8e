//! The plan bundle: what travels from a plan to its apply (spec 12 §6.2).
//!
//! Its digest is over the plain files, so an apply can prove that it holds what was reviewed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::config::glob::PathGlobs;
use crate::plan::digest::bundle_sha256;

/// Most bytes of `files/`.
const FILES_BYTES_MAX: u64 = 500 * 1024 * 1024;

/// Most bytes of a whole bundle: the files and a plan file larger than any tool writes.
pub(super) const BUNDLE_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Most files and directories that are looked at in one stack directory or bundle.
pub(super) const ENTRIES_MAX: usize = 200_000;

pub const LOCK_FILE: &str = ".terraform.lock.hcl";
const FILES: &str = "files";
const MODULES: &str = ".terraform/modules/";

/// Why a bundle cannot be made or used; the text names the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BundleError(String);

fn broken(path: &Path, reason: impl std::fmt::Display) -> BundleError {
    BundleError(format!("{}: {reason}", path.display()))
}

/// Makes a directory that only its owner may read and that git does not see.
pub fn make_private(directory: &Path) -> std::io::Result<()> {
    if !directory.is_dir() {
        create_private(directory)?;
    }
    let ignore = directory.join(".gitignore");
    if ignore.exists() { Ok(()) } else { fs::write(ignore, "*\n") }
}

/// An empty directory of our own making, instead of whatever an earlier run left there.
pub fn make_empty(directory: &Path) -> Result<(), BundleError> {
    match fs::symlink_metadata(directory) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(directory).map_err(|error| broken(directory, error))?,
        Ok(_) => fs::remove_file(directory).map_err(|error| broken(directory, error))?,
        Err(_) => {}
    }
    create_private(directory).map_err(|error| broken(directory, error))
}

/// Plans hold secrets in clear, so nobody else may enter.
fn create_private(directory: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Adds lock file and plan files to a directory that holds the plan file already, and gives back its digest.
pub fn complete(bundle: &Path, stack_directory: &Path, plan_files: &[String]) -> Result<String, BundleError> {
    let lock = stack_directory.join(LOCK_FILE);
    if lock.is_file() {
        fs::copy(&lock, bundle.join(LOCK_FILE)).map_err(|error| broken(&lock, error))?;
    }
    if !plan_files.is_empty() {
        let globs = PathGlobs::new(plan_files).map_err(|error| BundleError(format!("stacks.plan_files: {error}")))?;
        copy_plan_files(bundle, stack_directory, &globs)?;
    }
    digest(bundle)
}

fn copy_plan_files(bundle: &Path, stack_directory: &Path, globs: &PathGlobs) -> Result<(), BundleError> {
    let mut bytes = 0;
    for (path, kind) in below(stack_directory, may_travel)? {
        let from = stack_directory.join(&path);
        match kind {
            Kind::Link if globs.matches(&path) => {
                return Err(broken(&from, "stacks.plan_files matches a symbolic link, which cannot travel"));
            }
            Kind::File(size) if globs.matches(&path) => {
                bytes += size;
                if bytes > FILES_BYTES_MAX {
                    return Err(broken(&from, format!("with it stacks.plan_files passes {FILES_BYTES_MAX} bytes")));
                }
                copy(&from, &bundle.join(FILES).join(&path))?;
            }
            Kind::Link | Kind::File(_) => {}
        }
    }
    Ok(())
}

/// Of `.terraform` only the modules travel: all else is made again by `init`.
fn may_travel(path: &str) -> bool {
    path != ".git"
        && (path == ".terraform"
            || path == ".terraform/modules"
            || path.starts_with(MODULES)
            || !path.starts_with(".terraform/"))
}

/// The files of a bundle, sorted. Links are refused, as [`digest`] does.
pub(super) fn files_of(bundle: &Path) -> Result<Vec<String>, BundleError> {
    let is_file = |(path, kind)| match kind {
        Kind::Link => Err(broken(&bundle.join(path), "a bundle holds no symbolic links")),
        Kind::File(_) => Ok(path),
    };
    below(bundle, |_| true)?.into_iter().map(is_file).collect()
}

/// The digest of a bundle on disk. Links are refused: they would prove what they do not hold.
pub fn digest(bundle: &Path) -> Result<String, BundleError> {
    let mut digests = BTreeMap::new();
    let mut bytes = 0;
    for (path, kind) in below(bundle, |_| true)? {
        let full = bundle.join(&path);
        match kind {
            Kind::Link => return Err(broken(&full, "a bundle holds no symbolic links")),
            Kind::File(size) => {
                bytes += size;
                if bytes > BUNDLE_BYTES_MAX {
                    return Err(broken(&full, format!("with it the bundle passes {BUNDLE_BYTES_MAX} bytes")));
                }
                digests.insert(path, file_digest(&full)?);
            }
        }
    }
    Ok(bundle_sha256(&digests))
}

/// What stands where a bundle should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// Plain, with its plan file.
    Plain(PathBuf),
    Encrypted(PathBuf),
}

/// Looks at what was downloaded.
pub fn find(bundle: &Path) -> Result<Found, BundleError> {
    let entries = match fs::read_dir(bundle) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(broken(bundle, error)),
    };
    let (mut plans, mut encrypted, mut count) = (Vec::new(), Vec::new(), 0);
    for entry in entries {
        let path = entry.map_err(|error| broken(bundle, error))?.path();
        count += 1;
        match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if name.ends_with(".tfplan") => plans.push(path),
            Some(name) if name.ends_with(".tar.age") => encrypted.push(path),
            Some(_) | None => {}
        }
    }
    match (plans.as_slice(), encrypted.as_slice()) {
        _ if count == 0 => Ok(Found::Nothing),
        ([plan], []) => Ok(Found::Plain(plan.clone())),
        ([], [sealed]) => Ok(Found::Encrypted(sealed.clone())),
        _ => Err(broken(bundle, "it does not hold exactly one plan file")),
    }
}

/// Files put in place for an apply, and what stood there before.
#[derive(Debug)]
pub struct InPlace {
    stack_directory: PathBuf,
    own: PathBuf,
    /// Relative to the stack directory, with whether the checkout had a file of its own there.
    placed: Vec<(String, bool)>,
    /// Under `.terraform/modules`, to be placed after `init`.
    modules: Vec<String>,
    bundle: PathBuf,
}

/// Copies a bundle's files to where the plan was made, keeping the checkout's own in `own`.
pub fn put_in_place(bundle: &Path, stack_directory: &Path, own: &Path) -> Result<InPlace, BundleError> {
    make_empty(own)?;
    let mut in_place = InPlace {
        stack_directory: stack_directory.to_owned(),
        own: own.to_owned(),
        placed: Vec::new(),
        modules: Vec::new(),
        bundle: bundle.to_owned(),
    };
    let lock = bundle.join(LOCK_FILE);
    if lock.is_file() {
        in_place.place(&lock, LOCK_FILE)?;
    }
    let files = bundle.join(FILES);
    if files.is_dir() {
        for (path, _) in below(&files, |_| true)? {
            if path.starts_with(MODULES) {
                in_place.modules.push(path);
            } else {
                in_place.place(&files.join(&path), &path)?;
            }
        }
    }
    Ok(in_place)
}

impl InPlace {
    /// Puts the files below `.terraform/modules` in place, which `init` would have cleared.
    pub fn put_modules(&mut self) -> Result<(), BundleError> {
        for path in std::mem::take(&mut self.modules) {
            self.place(&self.bundle.join(FILES).join(&path), &path)?;
        }
        Ok(())
    }

    /// Puts the checkout's own files back.
    pub fn undo(self) -> Result<(), BundleError> {
        for (path, had_own) in &self.placed {
            let to = self.stack_directory.join(path);
            if *had_own {
                copy(&self.own.join(path), &to)?;
            } else {
                fs::remove_file(&to).map_err(|error| broken(&to, error))?;
            }
        }
        Ok(())
    }

    fn place(&mut self, from: &Path, path: &str) -> Result<(), BundleError> {
        let to = self.stack_directory.join(path);
        let parent = to.parent().unwrap_or(&self.stack_directory);
        if !stays_inside(&self.stack_directory, path) {
            return Err(broken(&to, "a file of the bundle leads out of the stack directory"));
        }
        fs::create_dir_all(parent).map_err(|error| broken(parent, error))?;
        let had_own = match fs::symlink_metadata(&to) {
            Ok(found) if found.is_file() => {
                copy(&to, &self.own.join(path))?;
                true
            }
            Ok(_) => return Err(broken(&to, "a file of the bundle would replace a link or a directory")),
            Err(_) => false,
        };
        copy(from, &to)?;
        self.placed.push((path.to_owned(), had_own));
        Ok(())
    }
}

/// Whether no existing directory on the way is a link, and no segment leads up.
fn stays_inside(root: &Path, path: &str) -> bool {
    let mut at = root.to_owned();
    let segments: Vec<&str> = path.split('/').collect();
    let Some((_file, directories)) = segments.split_last() else { return false };
    for segment in directories {
        at.push(segment);
        if at.is_symlink() {
            return false;
        }
    }
    segments.iter().all(|segment| !matches!(*segment, "" | "." | ".."))
}

enum Kind {
    File(u64),
    Link,
}

/// Everything below a directory that a predicate lets through, sorted by path; links are named and never followed.
fn below(root: &Path, keep: impl Fn(&str) -> bool) -> Result<Vec<(String, Kind)>, BundleError> {
    let mut found = Vec::new();
    let mut open = vec![String::new()];
    let mut seen = 0;
    while let Some(directory) = open.pop() {
        let full = root.join(&directory);
        for entry in fs::read_dir(&full).map_err(|error| broken(&full, error))? {
            let entry = entry.map_err(|error| broken(&full, error))?;
            seen += 1;
            if seen > ENTRIES_MAX {
                return Err(broken(root, format!("it holds more than {ENTRIES_MAX} files and directories")));
            }
            let name = entry.file_name();
            // What has no name in the digest may not be in the bundle.
            let Some(name) = name.to_str() else { return Err(broken(&entry.path(), "its name is no UTF-8")) };
            let path = if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
            if !keep(&path) {
                continue;
            }
            let kind = fs::symlink_metadata(entry.path()).map_err(|error| broken(&entry.path(), error))?;
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_symlink() {
                found.push((path, Kind::Link));
            } else if kind.is_file() {
                found.push((path, Kind::File(kind.len())));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> Result<(), BundleError> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(|error| broken(parent, error))?;
    }
    fs::copy(from, to).map(|_| ()).map_err(|error| broken(from, error))
}

fn file_digest(path: &Path) -> Result<[u8; 32], BundleError> {
    let mut file = File::open(path).map_err(|error| broken(path, error))?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0_u8; 64 * 1024];
    loop {
        match file.read(&mut chunk).map_err(|error| broken(path, error))? {
            0 => return Ok(hash.finalize().into()),
            read => hash.update(&chunk[..read]),
        }
    }
}
