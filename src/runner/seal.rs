//! Plan bundles that only the holders of a key can read: a tar of the plain bundle, encrypted with age (spec 12 §6.2, §6.3).
//!
//! Whoever may read the repository's Actions may download an artifact, and a plan file holds secrets in clear.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Component, Path, PathBuf};

use age::x25519::{Identity, Recipient};

use super::bundle::{self, BUNDLE_BYTES_MAX, BundleError, ENTRIES_MAX};
use super::stack_job::private_file;

/// Ends the name of a sealed bundle.
pub const EXTENSION: &str = ".tar.age";

/// Why a bundle cannot be sealed or opened. Keys are never part of it.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("{0}")]
    Key(String),
    #[error("{file} cannot be opened: {reason}", file = .file.display())]
    Closed { file: PathBuf, reason: String },
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error("{path}: {source}", path = .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Public keys, separated by blanks or commas.
pub fn recipients(text: &str) -> Result<Vec<Recipient>, SealError> {
    let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    let read = |word: &str| {
        // What stands in place of a public key may be a secret one.
        word.parse().map_err(|reason| SealError::Key(format!("one of the recipients is no age public key: {reason}")))
    };
    words.map(read).collect()
}

/// Secret keys, one a line; comments and blank lines between them are fine, as in the file that `age-keygen` writes.
fn identities(text: &str) -> Result<Vec<Identity>, SealError> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read =
        |line: &str| line.parse().map_err(|_| SealError::Key("one of the identities is no age secret key".into()));
    lines.map(read).collect()
}

/// Replaces what the directory holds by one file that only these recipients can read.
pub fn seal(directory: &Path, artifact: &str, recipients: &[Recipient]) -> Result<(), SealError> {
    let file = directory.with_file_name(format!("{artifact}{EXTENSION}.part"));
    let failed = |source: io::Error| SealError::Io { path: file.clone(), source };
    let sealed = private_file(&file).map_err(failed)?;
    let keys = recipients.iter().map(|one| one as &dyn age::Recipient);
    let encryptor = age::Encryptor::with_recipients(keys).map_err(|error| SealError::Key(error.to_string()))?;
    let output = encryptor.wrap_output(BufWriter::new(sealed)).map_err(failed)?;
    let mut tar = tar::Builder::new(output);
    for path in bundle::files_of(directory)? {
        let mut plain = File::open(directory.join(&path)).map_err(failed)?;
        tar.append_file(&path, &mut plain).map_err(failed)?;
    }
    let output = tar.into_inner().map_err(failed)?;
    output.finish().and_then(|mut written| written.flush()).map_err(failed)?;
    bundle::make_empty(directory)?;
    std::fs::rename(&file, directory.join(format!("{artifact}{EXTENSION}"))).map_err(failed)
}

/// Unpacks a sealed bundle into a directory that only the owner may read; whatever was there is gone.
pub fn open(file: &Path, secret_keys: &str, into: &Path) -> Result<(), SealError> {
    let identities = identities(secret_keys)?;
    let closed = |reason: String| SealError::Closed { file: file.to_owned(), reason };
    let sealed = File::open(file).map_err(|source| SealError::Io { path: file.to_owned(), source })?;
    let decryptor = age::Decryptor::new_buffered(BufReader::new(sealed)).map_err(|error| closed(error.to_string()))?;
    let keys = identities.iter().map(|one| one as &dyn age::Identity);
    let plain = decryptor.decrypt(keys).map_err(|error| closed(error.to_string()))?;
    bundle::make_empty(into)?;
    let mut archive = tar::Archive::new(plain);
    let (mut bytes, mut entries) = (0, 0);
    for entry in archive.entries().map_err(|error| closed(error.to_string()))? {
        let mut entry = entry.map_err(|error| closed(error.to_string()))?;
        let path = entry.path().map_err(|error| closed(error.to_string()))?.into_owned();
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || !entry.header().entry_type().is_file() {
            return Err(closed(format!("{} is no file of a bundle", path.display())));
        }
        bytes += entry.size();
        entries += 1;
        if bytes > BUNDLE_BYTES_MAX || entries > ENTRIES_MAX {
            return Err(closed(format!("it holds more than {BUNDLE_BYTES_MAX} bytes or {ENTRIES_MAX} files")));
        }
        let to = into.join(&path);
        let written = to.parent().map_or(Ok(()), std::fs::create_dir_all);
        let is_executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
        written
            .and_then(|()| private_file(&to))
            .and_then(|mut plain| io::copy(&mut entry, &mut plain).map(|_| plain))
            .and_then(|plain| if is_executable { make_executable(&plain) } else { Ok(()) })
            .map_err(|error| closed(error.to_string()))?;
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(file: &File) -> io::Result<()> {
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
}

#[cfg(not(unix))]
fn make_executable(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A public key, and its secret one.
    pub fn keys() -> (String, String) {
        use age::secrecy::ExposeSecret as _;
        let identity = Identity::generate();
        (identity.to_public().to_string(), identity.to_string().expose_secret().to_owned())
    }

    fn a_bundle(root: &Path) -> PathBuf {
        let directory = root.join("vpc");
        bundle::make_empty(&directory).unwrap();
        std::fs::create_dir_all(directory.join("files/deep")).unwrap();
        std::fs::write(directory.join("vpc.tfplan"), "the secret of the plan").unwrap();
        std::fs::write(directory.join(".terraform.lock.hcl"), "lock").unwrap();
        std::fs::write(directory.join("files/deep/archive.zip"), [0, 159, 146, 150]).unwrap();
        directory
    }

    #[test]
    fn what_is_sealed_opens_for_each_recipient_with_the_same_digest_and_for_nobody_else() {
        let root = tempfile::tempdir().unwrap();
        let directory = a_bundle(root.path());
        let digest = bundle::digest(&directory).unwrap();
        let [(ann, anns), (bob, bobs), (_, carls)] = [keys(), keys(), keys()];
        seal(&directory, "vpc", &recipients(&format!("{ann}, {bob}")).unwrap()).unwrap();

        let left: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["vpc.tar.age"]);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1, "nothing is left beside it");
        let sealed = directory.join("vpc.tar.age");
        let bytes = std::fs::read(&sealed).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"secret"));

        let into = root.path().join("opened");
        for secret in [anns.clone(), format!("# created: today\n{carls}\n{bobs}\n")] {
            open(&sealed, &secret, &into).unwrap();
            assert_eq!(bundle::digest(&into).unwrap(), digest);
        }
        assert!(matches!(open(&sealed, &carls, &into), Err(SealError::Closed { .. })));
        assert!(matches!(open(&sealed, "", &into), Err(SealError::Closed { .. })));
    }

    #[test]
    fn a_sealed_bundle_that_was_cut_or_changed_is_not_opened() {
        let root = tempfile::tempdir().unwrap();
        let directory = a_bundle(root.path());
        let (public, secret) = keys();
        seal(&directory, "vpc", &recipients(&public).unwrap()).unwrap();
        let sealed = directory.join("vpc.tar.age");
        let whole = std::fs::read(&sealed).unwrap();
        let into = root.path().join("opened");
        for length in [0, 10, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&sealed, &whole[..length]).unwrap();
            assert!(open(&sealed, &secret, &into).is_err(), "{length} of {} bytes", whole.len());
        }
        let mut changed = whole.clone();
        let last = changed.len() - 1;
        changed[last] ^= 1;
        std::fs::write(&sealed, changed).unwrap();
        assert!(open(&sealed, &secret, &into).is_err());
    }

    #[test]
    fn an_archive_that_leaves_its_directory_is_refused() {
        let (public, secret) = keys();
        for path in ["../outside", "/outside", "files/../../outside"] {
            let root = tempfile::tempdir().unwrap();
            let file = root.path().join("x.tar.age");
            let keys = recipients(&public).unwrap();
            let keys = keys.iter().map(|one| one as &dyn age::Recipient);
            let output =
                age::Encryptor::with_recipients(keys).unwrap().wrap_output(File::create(&file).unwrap()).unwrap();
            let mut tar = tar::Builder::new(output);
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(4);
            header.set_mode(0o600);
            header.set_cksum();
            tar.append(&header, &b"evil"[..]).unwrap();
            tar.into_inner().unwrap().finish().unwrap();
            let opened = open(&file, &secret, &root.path().join("a/opened"));
            assert!(matches!(opened, Err(SealError::Closed { .. })), "{path}: {opened:?}");
            assert!(!root.path().join("outside").exists() && !root.path().join("a/outside").exists());
        }
    }

    #[test]
    fn keys_that_are_none_are_refused_without_being_told() {
        let (_, secret) = keys();
        let told = recipients(&secret).unwrap_err().to_string();
        assert!(!told.contains(&secret[..20]), "{told}");
        assert!(recipients("age1xyz").is_err());
        assert!(recipients(" , ").unwrap().is_empty());
        let told = identities("not a key at all").err().unwrap().to_string();
        assert!(!told.contains("not a key"), "{told}");
    }
}
