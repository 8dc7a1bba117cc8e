//! What earlier scans found, kept between processes by git's id of the content.
//!
//! Only a file that git calls unchanged is looked up, so an edit is read and never guessed. Whoever can write the cache
//! can change what a scan says; it belongs where only the owner of the checkout writes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::checkout::{Commit, WorkingTree};
use crate::scan::directory::is_terraform_file;
use crate::scan::{Entry, FileFacts, Files};

/// Goes up with every change of what the scan takes out of a file.
const FORMAT: u32 = 3;

const FILE_NAME: &str = "files";

/// Letters of a SHA-256.
const DIGEST_LEN: usize = 64;

/// A larger cache forgets what the last scan did not use.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Files whose content has a name that git gave it.
pub(super) trait Identified: Files {
    /// What the bytes of a working tree are may depend on filters; those of a commit never do.
    const SPACE: char;

    /// Equal ids mean equal bytes.
    fn id(&self, path: &str) -> Option<&str>;
}

impl Identified for WorkingTree {
    const SPACE: char = 'w';

    fn id(&self, path: &str) -> Option<&str> {
        self.id(path)
    }
}

impl Identified for Commit {
    const SPACE: char = 'c';

    fn id(&self, path: &str) -> Option<&str> {
        self.id(path)
    }
}

/// The cache of one directory while a scan uses it.
#[derive(Debug)]
pub(super) struct ScanCache {
    directory: PathBuf,
    /// A line of header, then `<key> <digest>` in the order of the keys, which are equally long. What a Terraform file
    /// says follows as JSON.
    text: String,
    lines: Vec<Line>,
    learned: Mutex<BTreeMap<String, String>>,
}

#[derive(Debug)]
struct Line {
    /// The key begins with it; most comparisons need not go to the text.
    start: u64,
    key: Range<usize>,
    facts: Range<usize>,
    used: AtomicBool,
}

impl ScanCache {
    /// What the directory holds. A cache that is missing, of another version or damaged is an empty one.
    pub fn open(directory: &Path) -> Self {
        let text = Some(directory.join(FILE_NAME))
            .filter(|file| fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= 2 * BYTES_MAX))
            .and_then(|file| fs::read_to_string(file).ok())
            .filter(|text| text.starts_with(&header()))
            .unwrap_or_default();
        let mut at = text.find('\n').map_or(text.len(), |end| end + 1);
        let mut lines = Vec::new();
        while let Some(length) = text[at..].find('\n') {
            let end = at + length;
            if let Some(space) = text[at..end].find(' ').map(|space| at + space) {
                let start = start_of(&text[at..space]);
                lines.push(Line { start, key: at..space, facts: space + 1..end, used: AtomicBool::new(false) });
            }
            at = end + 1;
        }
        Self { directory: directory.to_owned(), text, lines, learned: Mutex::default() }
    }

    fn get(&self, key: &str) -> Option<FileFacts> {
        let start = start_of(key);
        let order = |line: &Line| line.start.cmp(&start).then_with(|| self.text[line.key.clone()].cmp(key));
        let line = &self.lines[self.lines.binary_search_by(order).ok()?];
        let facts = read_facts(&self.text[line.facts.clone()])?;
        line.used.store(true, Ordering::Relaxed);
        Some(facts)
    }

    fn put(&self, key: String, facts: &FileFacts) {
        let facts = written_facts(facts);
        self.learned.lock().unwrap_or_else(PoisonError::into_inner).insert(key, facts);
    }

    /// Writes what this scan learned, if anything. Of two scans at once one is remembered.
    pub fn save(self) -> io::Result<()> {
        let mut entries = self.learned.into_inner().unwrap_or_else(PoisonError::into_inner);
        if entries.is_empty() {
            return Ok(());
        }
        let learned: usize = entries.values().map(String::len).sum();
        let is_crowded = (self.text.len() + learned) as u64 > BYTES_MAX;
        for line in self.lines {
            if !is_crowded || line.used.into_inner() {
                let key = self.text[line.key].to_owned();
                entries.entry(key).or_insert_with(|| self.text[line.facts].to_owned());
            }
        }
        let mut text = header();
        for (key, facts) in entries {
            text.extend([&key, " ", &facts, "\n"]);
        }
        fs::create_dir_all(&self.directory)?;
        let unfinished = self.directory.join(format!("{FILE_NAME}.{}", std::process::id()));
        fs::write(&unfinished, text)
            .and_then(|()| fs::rename(&unfinished, self.directory.join(FILE_NAME)))
            .inspect_err(|_| drop(fs::remove_file(&unfinished)))
    }
}

fn header() -> String {
    format!("stackorder scan cache {FORMAT} of {}\n", env!("CARGO_PKG_VERSION"))
}

/// Numbers of texts compare as the texts do, where they differ.
fn start_of(text: &str) -> u64 {
    let mut start = [0; 8];
    start.iter_mut().zip(text.bytes()).for_each(|(start, byte)| *start = byte);
    u64::from_be_bytes(start)
}

fn written_facts(facts: &FileFacts) -> String {
    match &facts.terraform {
        None => facts.digest.clone(),
        Some(says) => {
            let json = serde_json::to_string(says).expect("what a file says has text keys");
            format!("{} {json}", facts.digest)
        }
    }
}

fn read_facts(text: &str) -> Option<FileFacts> {
    let (digest, says) = match text.split_once(' ') {
        None => (text, None),
        Some((digest, json)) => (digest, Some(serde_json::from_str(json).ok()?)),
    };
    // A line that was cut off is no shorter digest.
    (digest.len() == DIGEST_LEN).then(|| FileFacts { digest: digest.to_owned(), terraform: says })
}

/// Files whose content is looked up before it is read.
pub(super) struct Remembered<'a, T> {
    pub files: &'a T,
    pub cache: &'a ScanCache,
}

impl<T: Identified> Remembered<'_, T> {
    /// Equal bytes say different things under names of different kinds.
    fn key(&self, path: &str) -> Option<String> {
        let syntax = match (is_terraform_file(path), path.ends_with(".json")) {
            (true, false) => 'h',
            (true, true) => 'j',
            (false, _) => 'o',
        };
        Some(format!("{}{}{syntax}", self.files.id(path)?, T::SPACE))
    }
}

impl<T: Identified> Files for Remembered<'_, T> {
    fn list(&self) -> Cow<'_, [Entry]> {
        self.files.list()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.files.read(path)
    }

    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        self.files.each(count, work);
    }

    fn known(&self, path: &str) -> Option<FileFacts> {
        self.cache.get(&self.key(path)?)
    }

    fn learn(&self, path: &str, facts: &FileFacts) {
        if let Some(key) = self.key(path) {
            self.cache.put(key, facts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(digest: &str) -> FileFacts {
        FileFacts { digest: format!("{digest:0>DIGEST_LEN$}"), ..FileFacts::default() }
    }

    fn put(directory: &Path, entries: &[&str]) {
        let cache = ScanCache::open(directory);
        for key in entries {
            cache.put((*key).to_owned(), &facts(key));
        }
        cache.save().unwrap();
    }

    #[test]
    fn what_was_learned_is_known_the_next_time() {
        let directory = tempfile::tempdir().unwrap();
        let directory = &directory.path().join("made/when/missing");
        put(directory, &["bb", "aa"]);
        put(directory, &["cc", "ab"]);
        let cache = ScanCache::open(directory);
        for key in ["aa", "ab", "bb", "cc"] {
            assert_eq!(cache.get(key), Some(facts(key)));
        }
        assert_eq!(cache.get("dd"), None);
        let files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(files, [FILE_NAME], "nothing half written is left");
    }

    #[test]
    fn a_damaged_or_foreign_cache_is_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(FILE_NAME);
        let header = header();
        let other = header.replace(" of ", " of another ");
        let digest = facts("a").digest;
        for damaged in [
            String::new(),
            "\n\n".to_owned(),
            header.trim_end().to_owned(),
            format!("{header}a"),
            format!("{header}a \n"),
            format!("{header}a 0a\n"),
            format!("{header}a {digest} \n"),
            format!("{header}a {digest} {{\"backends\":\n"),
            format!("{header}a {digest}"),
            format!("{other}a {digest}\n"),
        ] {
            fs::write(&file, &damaged).unwrap();
            assert_eq!(ScanCache::open(directory.path()).get("a"), None, "{damaged:?}");
            put(directory.path(), &["a"]);
            assert_eq!(ScanCache::open(directory.path()).get("a"), Some(facts("a")), "{damaged:?}");
        }
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(ScanCache::open(directory.path()).get("a"), None);
    }
}
