//! Reading files below one directory, and never outside of it, whatever links say.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// A directory whose own links are resolved.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    /// Held open, so that the kernel itself keeps every path below it.
    #[cfg(target_os = "linux")]
    directory: Option<File>,
}

impl Root {
    pub fn open(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            #[cfg(target_os = "linux")]
            directory: File::open(path).ok(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content of a file below, or why it is not given.
    pub fn read(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
        let file = self.file(path)?;
        let meta = file.metadata().map_err(|error| error.to_string())?;
        if !meta.is_file() {
            return Err("it is not a file".to_owned());
        }
        if meta.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        // One byte more than there should be, so that the end is seen without asking once more.
        let mut content = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0) + 1);
        file.take(bytes_max + 1).read_to_end(&mut content).map_err(|error| error.to_string())?;
        if content.len() as u64 > bytes_max {
            return Err(too_large(bytes_max));
        }
        Ok(content)
    }

    #[cfg(target_os = "linux")]
    fn file(&self, path: &str) -> Result<File, String> {
        use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
        use rustix::io::Errno;
        let Some(directory) = &self.directory else { return self.checked_file(path) };
        // Nothing that opens may wait: a pipe under a file's name would.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let below = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match openat2(directory, path, flags, Mode::empty(), below) {
            Ok(file) => Ok(File::from(file)),
            // A kernel without the call, a link to an absolute path that may well end inside, and a rename meanwhile.
            Err(Errno::NOSYS | Errno::PERM | Errno::XDEV | Errno::AGAIN) => self.checked_file(path),
            Err(error) => Err(std::io::Error::from(error).to_string()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn file(&self, path: &str) -> Result<File, String> {
        self.checked_file(path)
    }

    /// Follows the links first, and opens where they end.
    fn checked_file(&self, path: &str) -> Result<File, String> {
        let real = self.path.join(path).canonicalize().map_err(|error| error.to_string())?;
        if !real.starts_with(&self.path) {
            return Err("it is not inside the checkout".to_owned());
        }
        if !real.is_file() {
            return Err("it is not a file".to_owned());
        }
        File::open(real).map_err(|error| error.to_string())
    }
}

fn too_large(bytes_max: u64) -> String {
    format!("it is larger than {bytes_max} bytes")
}
