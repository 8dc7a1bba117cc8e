//! What this machine has: programs that some tests need and others do without.
//!
//! A test that lacks something says `not run: <name> (no <thing>)` and passes; `STACKORDER_TEST_REQUIRE`, a list such as
//! `postgres,terraform,browser`, makes that a failure. The last test of the binary lists everything once more.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

static NOT_RUN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Says past libtest's capture that a test did not run; fails it where the lacking thing is required.
pub fn not_run(test_name: &str, lacking: &str) {
    let required = std::env::var("STACKORDER_TEST_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|name| name.trim() == lacking), "{test_name} needs {lacking}, which is required");
    let line = format!("not run: {test_name} (no {lacking})");
    say(&line);
    NOT_RUN.lock().unwrap().push(line);
}

/// Everything that did not run, once more.
pub fn list_not_run() {
    let mut lines = NOT_RUN.lock().unwrap().clone();
    lines.sort();
    for line in lines {
        say(&line);
    }
}

/// Writes a line that libtest does not capture, as it does with `eprintln!` of tests that pass.
pub fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The program of this name on `PATH`.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_program(file))
}

/// The program, or `None` after saying that the test did not run.
pub fn program_for(test_name: &str, program: &str) -> Option<PathBuf> {
    let found = on_path(program);
    if found.is_none() {
        not_run(test_name, program);
    }
    found
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
