//! Any source has one meaning, and no meaning leads out of its package (`scan::module_source`).
//!
//! The input is a source, a newline and a version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stackorder::graph::model::ModuleKind;
use stackorder::ids::normalise_path;
use stackorder::scan::files::join;
use stackorder::scan::module_source::{Remote, Source, parse};

const HOME: &str = "github.com";
/// Directories that a call may stand in.
const CALLERS: [&str; 3] = ["", "stacks/prod/vpc", "a"];

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (source, version) = text.split_once('\n').unwrap_or((&text, ""));
    let parsed = parse(source, version, HOME);
    assert_eq!(parsed, parse(&format!(" \t{source} "), version, HOME), "blanks around a source mean nothing");
    assert_eq!(parsed, parse(source, version, "GitHub.com"), "hosts have no case");
    match &parsed {
        Source::Unsupported => {}
        Source::Local(path) => local(path),
        Source::Remote(remote) => {
            no_escape(remote);
            printed_and_read_again(remote);
            if remote.kind == ModuleKind::Git {
                assert_eq!(parsed, parse(source, "9.9.9", HOME), "git knows no version");
            }
        }
    }
});

fn local(path: &str) {
    assert!(path.starts_with("./") || path.starts_with("../"), "{path:?}");
    assert!(!path.contains('\\'), "{path:?}");
    assert_eq!(parse(path, "", HOME), Source::Local(path.to_owned()), "a local path means itself");
    for caller in CALLERS {
        let Some(joined) = join(caller, path) else { continue };
        assert!(joined.split('/').all(|segment| !matches!(segment, "." | "..")), "{joined:?} stays inside");
        assert_eq!(joined, normalise_path(&joined), "{joined:?} is clean");
        assert!(!joined.starts_with('/'), "{joined:?} is relative");
    }
}

/// The parts of a key hold no way out, and nothing that a database or a terminal chokes on.
fn no_escape(remote: &Remote) {
    let key = &remote.key;
    let path = if remote.reference.is_empty() { key.as_str() } else { without_reference(remote) };
    assert!(path.split('/').all(|segment| !matches!(segment, "." | "..")), "{key:?} stays inside");
    assert!(!key.contains(char::is_control), "{key:?} is one line of text");
}

fn without_reference(remote: &Remote) -> &str {
    remote.key.strip_suffix(&format!("@{}", remote.reference)).expect("a key ends with its ref")
}

/// A key written as a source again is the same module.
fn printed_and_read_again(remote: &Remote) {
    let reference = remote.reference.as_str();
    let path = if reference.is_empty() { remote.key.as_str() } else { without_reference(remote) };
    let (sources, version) = match (remote.kind, path.strip_prefix("registry:")) {
        // The slash keeps blanks at the end of a name.
        (ModuleKind::Registry, Some(address)) if address.contains("//") => (vec![format!("{address}/")], reference),
        (ModuleKind::Registry, Some(address)) => (vec![address.to_owned()], reference),
        // A key of two segments is one of home or of a host with short paths; people's names hold no dot.
        (ModuleKind::Git, None) => (vec![git_source("", path, reference), git_source(HOME, path, reference)], ""),
        (kind, _) => panic!("{:?} is no key of a {kind:?} module", remote.key),
    };
    let again: Vec<Source> = sources.iter().map(|source| parse(source, version, HOME)).collect();
    assert!(again.contains(&Source::Remote(remote.clone())), "{:?} written as {sources:?}: {again:?}", remote.key);
}

fn git_source(host: &str, path: &str, reference: &str) -> String {
    let (repository, subdirectory) = path.split_once("//").unwrap_or((path, ""));
    // The question mark keeps blanks at the end of a name.
    let subdirectory = if subdirectory.is_empty() { String::new() } else { format!("//{subdirectory}") };
    let host = if host.is_empty() { String::new() } else { format!("{host}/") };
    format!("git::https://{host}{repository}.git{subdirectory}?ref={reference}")
}
