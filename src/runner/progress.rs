//! One line on a terminal while a scan takes long; nothing anywhere else.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::console::Console;
use crate::scan::files::{Entry, Files, parent};
use crate::scan::{FileFacts, ScanError, ScanOptions, Scanned, scan as scan_quietly};

/// A scan that ends sooner needs no words.
const PATIENCE: Duration = Duration::from_secs(1);

/// Often enough to look alive.
const TICK: Duration = Duration::from_millis(120);

const FRAMES: [&str; 4] = ["-", "\\", "|", "/"];

/// Clears the line that the cursor is on.
const CLEAR: &str = "\r\x1b[2K";

/// Around a line that must not go on in the next one where the terminal is narrow: that one would not be cleared.
const CUT: &str = "\x1b[?7l";
const CUT_NO_MORE: &str = "\x1b[?7h";

/// Scans, and on a terminal says how far it is when that takes long.
pub(super) fn scan(
    console: &Console,
    what: &str,
    files: &dyn Files,
    options: &ScanOptions,
) -> Result<Scanned, Vec<ScanError>> {
    let Some(terminal) = console.terminal() else { return scan_quietly(files, options) };
    let counts = Arc::new(Counts::default());
    let _line = Progress::start(what, counts.clone(), terminal);
    scan_quietly(&Counted::new(files, counts), options)
}

/// What has been read so far.
#[derive(Debug, Default)]
struct Counts {
    files: AtomicUsize,
    directories: AtomicUsize,
}

/// Shows counts until it is dropped, and then leaves no trace.
struct Progress {
    ended: Option<Sender<()>>,
    line: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins to wait; the first line comes after a second.
    fn start(what: &str, counts: Arc<Counts>, to: Arc<Mutex<dyn Write + Send>>) -> Self {
        Self::after(PATIENCE, what, counts, to)
    }

    fn after(patience: Duration, what: &str, counts: Arc<Counts>, to: Arc<Mutex<dyn Write + Send>>) -> Self {
        let (ended, end) = channel();
        let what = what.to_owned();
        let line = std::thread::Builder::new().spawn(move || show(patience, &what, &counts, &to, &end));
        // Without a thread there is no line, which is no reason to stop.
        Self { ended: Some(ended), line: line.ok() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.ended.take());
        if let Some(line) = self.line.take() {
            let _panicked = line.join();
        }
    }
}

fn show(patience: Duration, what: &str, counts: &Counts, to: &Mutex<dyn Write + Send>, end: &Receiver<()>) {
    let mut wait = patience;
    let mut frames = FRAMES.iter().cycle();
    let mut is_shown = false;
    while end.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        let frame = frames.next().unwrap_or(&"-");
        let files = counts.files.load(Ordering::Relaxed);
        let directories = counts.directories.load(Ordering::Relaxed);
        write(to, &format!("{CLEAR}{CUT}{frame} {what}: {files} files of {directories} directories read{CUT_NO_MORE}"));
        is_shown = true;
        wait = TICK;
    }
    if is_shown {
        write(to, CLEAR);
    }
}

fn write(to: &Mutex<dyn Write + Send>, text: &str) {
    let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
    let _closed = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

/// Files that are counted as they are read.
struct Counted<'a> {
    files: &'a dyn Files,
    counts: Arc<Counts>,
    directories: Mutex<BTreeSet<String>>,
}

impl<'a> Counted<'a> {
    fn new(files: &'a dyn Files, counts: Arc<Counts>) -> Self {
        Self { files, counts, directories: Mutex::default() }
    }

    fn count(&self, path: &str) {
        self.counts.files.fetch_add(1, Ordering::Relaxed);
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        if directories.insert(parent(path).to_owned()) {
            self.counts.directories.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Files for Counted<'_> {
    fn list(&self) -> Cow<'_, [Entry]> {
        self.files.list()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.count(path);
        self.files.read(path)
    }

    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        self.files.each(count, work);
    }

    fn known(&self, path: &str) -> Option<FileFacts> {
        let known = self.files.known(path);
        if known.is_some() {
            self.count(path);
        }
        known
    }

    fn learn(&self, path: &str, facts: &FileFacts) {
        self.files.learn(path, facts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::MemoryFiles;

    /// Hands every write on, so that a test waits for it and for nothing else.
    struct Told(Sender<String>);

    impl Write for Told {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _gone = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn started(patience: Duration) -> (Progress, Receiver<String>) {
        let counts = Arc::new(Counts::default());
        let files = MemoryFiles::default().with("a/x.tf", "").with("a/y.tf", "").with("b/x.tf", "");
        let counted = Counted::new(&files, counts.clone());
        for path in ["a/x.tf", "a/y.tf", "b/x.tf"] {
            counted.read(path).unwrap();
        }
        let (tell, told) = channel();
        (Progress::after(patience, "scanning", counts, Arc::new(Mutex::new(Told(tell)))), told)
    }

    #[test]
    fn a_long_scan_shows_its_counts_and_leaves_no_trace() {
        let (progress, told) = started(Duration::ZERO);
        let first = told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(first, "\r\u{1b}[2K\u{1b}[?7l- scanning: 3 files of 2 directories read\u{1b}[?7h");
        drop(progress);
        assert_eq!(told.iter().last().as_deref(), Some(CLEAR));
    }

    #[test]
    fn a_short_scan_says_nothing() {
        let (progress, told) = started(Duration::from_secs(3_600));
        drop(progress);
        assert_eq!(told.iter().count(), 0);
    }
}
