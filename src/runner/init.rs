//! Writing the first files of a repository: all of them or none, and never through a link.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::Job;
use super::checkout::WorkingTree;
use super::stop::Stop;
use crate::init::{Account, NewFile, Proposal, propose};

impl Job {
    /// What a first run of this checkout needs.
    pub fn propose(&self, account: &Account) -> Result<Proposal, Stop> {
        let tree = WorkingTree::open(&self.root, &self.git)?;
        propose(&tree, &self.scan_options(), account).map_err(|error| Stop::failed(error.to_string()))
    }

    /// Writes the files below the root of the checkout. What exists is replaced only by force.
    pub fn write_all(&self, files: &[NewFile], force: bool) -> Result<(), Stop> {
        write_all(&self.root, files, force)
    }
}

/// Writes every file or none; directories that are missing are made.
fn write_all(root: &Path, files: &[NewFile], force: bool) -> Result<(), Stop> {
    let mut refused = Vec::new();
    for file in files {
        refused.extend(obstacle(root, &file.path, force));
    }
    if !refused.is_empty() {
        return Err(Stop::failed(refused.join("\n")));
    }
    let mut writing = Writing::default();
    let written = files.iter().try_for_each(|file| {
        writing.stage(root, file).map_err(|error| Stop::failed(format!("{}: {error}; nothing was written", file.path)))
    });
    written?;
    writing.publish(force)
}

/// Why a file cannot be written, if so.
fn obstacle(root: &Path, path: &str, force: bool) -> Option<String> {
    let mut directory = root.to_owned();
    let segments: Vec<&str> = path.split('/').collect();
    let (name, parents) = segments.split_last()?;
    for segment in parents {
        directory.push(segment);
        match fs::symlink_metadata(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return Some(format!("{}: {error}", directory.display())),
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return Some(format!(
                    "{path}: {} is no directory of its own; nothing is written through a link",
                    directory.display()
                ));
            }
        }
    }
    match fs::symlink_metadata(directory.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(format!("{path}: {error}")),
        Ok(found) if found.is_file() && force => None,
        Ok(found) if found.is_file() => {
            Some(format!("{path} exists already; --force replaces it, --dry-run shows what would be written"))
        }
        Ok(_) => Some(format!("{path} is a link or a directory; remove it first")),
    }
}

/// Files that are complete beside their places, until all of them are. What is not published is removed again.
#[derive(Default)]
struct Writing {
    staged: Vec<Staged>,
    /// Made for this, outermost first.
    directories: Vec<PathBuf>,
    /// Files that did not exist before.
    created: Vec<PathBuf>,
    /// What stood at a path before it was replaced.
    replaced: Vec<(PathBuf, Vec<u8>)>,
    is_done: bool,
}

struct Staged {
    beside: PathBuf,
    place: PathBuf,
    path: String,
}

impl Writing {
    fn stage(&mut self, root: &Path, file: &NewFile) -> io::Result<()> {
        let place = root.join(&file.path);
        let directory = place.parent().unwrap_or(root);
        self.make(root, directory)?;
        let name = format!(".{}.new-{}", place.file_name().unwrap_or_default().display(), std::process::id());
        let beside = directory.join(name);
        // A new file of our own: neither a link nor what somebody else put there is opened.
        let mut new = OpenOptions::new().write(true).create_new(true).open(&beside)?;
        self.staged.push(Staged { beside, place, path: file.path.clone() });
        new.write_all(file.content.as_bytes())?;
        new.sync_all()
    }

    fn make(&mut self, root: &Path, directory: &Path) -> io::Result<()> {
        let below = directory.strip_prefix(root).map_err(io::Error::other)?;
        let mut at = root.to_owned();
        for segment in below {
            at.push(segment);
            match fs::create_dir(&at) {
                Ok(()) => self.directories.push(at.clone()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn publish(mut self, force: bool) -> Result<(), Stop> {
        while let Some(Staged { beside, place, path }) = self.staged.pop() {
            let published = if force { self.replace(&beside, &place) } else { self.take(&beside, &place) };
            if let Err(error) = published {
                let _gone = fs::remove_file(&beside);
                return Err(Stop::failed(format!("{path}: {error}; nothing was written")));
            }
        }
        self.is_done = true;
        Ok(())
    }

    /// Takes a place that is still free: an empty file of our own first, because a rename replaces whatever is there.
    fn take(&mut self, beside: &Path, place: &Path) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).open(place)?;
        self.created.push(place.to_owned());
        fs::rename(beside, place)
    }

    fn replace(&mut self, beside: &Path, place: &Path) -> io::Result<()> {
        match fs::read(place) {
            Ok(before) => self.replaced.push((place.to_owned(), before)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.created.push(place.to_owned()),
            Err(error) => return Err(error),
        }
        fs::rename(beside, place)
    }
}

/// Puts everything back as it was. Errors have no one left to go to.
impl Drop for Writing {
    fn drop(&mut self) {
        for staged in &self.staged {
            let _gone = fs::remove_file(&staged.beside);
        }
        if self.is_done {
            return;
        }
        for place in &self.created {
            let _gone = fs::remove_file(place);
        }
        for (place, before) in &self.replaced {
            let _restored = fs::write(place, before);
        }
        for directory in self.directories.iter().rev() {
            let _kept_when_not_empty = fs::remove_dir(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<NewFile> {
        let file = |path: &str| NewFile { path: path.to_owned(), content: format!("of {path}\n") };
        vec![file("stackorder.yaml"), file(".github/workflows/a.yml"), file(".github/workflows/b.yml")]
    }

    fn everything(root: &Path) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let mut open = vec![root.to_owned()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
                if path.is_dir() && !path.is_symlink() {
                    open.push(path);
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn all_files_are_written_and_nothing_else_is_left() {
        let place = tempfile::tempdir().unwrap();
        write_all(place.path(), &files(), false).unwrap();
        let found = everything(place.path());
        assert_eq!(
            found,
            [".github", ".github/workflows", ".github/workflows/a.yml", ".github/workflows/b.yml", "stackorder.yaml"]
        );
        assert_eq!(fs::read_to_string(place.path().join("stackorder.yaml")).unwrap(), "of stackorder.yaml\n");
    }

    #[test]
    fn one_file_that_exists_stops_all_of_them_unless_forced() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join(".github/workflows")).unwrap();
        fs::write(place.path().join(".github/workflows/b.yml"), "mine").unwrap();
        let error = write_all(place.path(), &files(), false).unwrap_err().to_string();
        assert!(error.starts_with(".github/workflows/b.yml exists already; --force replaces it"), "{error}");
        assert_eq!(everything(place.path()), [".github", ".github/workflows", ".github/workflows/b.yml"]);

        write_all(place.path(), &files(), true).unwrap();
        let text = fs::read_to_string(place.path().join(".github/workflows/b.yml")).unwrap();
        assert_eq!(text, "of .github/workflows/b.yml\n");
    }

    #[test]
    fn a_failure_half_way_puts_everything_back() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("stackorder.yaml"), "before").unwrap();
        let mut writing = Writing::default();
        files().iter().for_each(|file| writing.stage(place.path(), file).unwrap());
        // The place of the last file is taken by a directory meanwhile, which nothing replaces.
        fs::create_dir(place.path().join(".github/workflows/b.yml")).unwrap();
        let error = writing.publish(true).unwrap_err().to_string();
        assert!(error.starts_with(".github/workflows/b.yml: "), "{error}");
        assert_eq!(fs::read_to_string(place.path().join("stackorder.yaml")).unwrap(), "before");
        assert_eq!(
            everything(place.path()),
            [".github", ".github/workflows", ".github/workflows/b.yml", "stackorder.yaml"]
        );
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_a_link() {
        use std::os::unix::fs::symlink;
        let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(elsewhere.path(), place.path().join(".github")).unwrap();
        symlink(elsewhere.path().join("target"), place.path().join("stackorder.yaml")).unwrap();
        let error = write_all(place.path(), &files(), true).unwrap_err().to_string();
        assert!(error.contains("stackorder.yaml is a link or a directory"), "{error}");
        assert!(error.contains(".github is no directory of its own"), "{error}");
        assert!(everything(elsewhere.path()).is_empty());
    }
}
