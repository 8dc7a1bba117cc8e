//! Who may use whom (the rules that the compiler does not know), read from the text of the sources.
//!
//! Paths of `use` are resolved, `super` and groups included; in other code `crate::…` and names of crates are looked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Modules that decide and do nothing else.
const CORE: [&str; 16] = [
    "ids",
    "clock",
    "causes",
    "guide",
    "config",
    "init",
    "scan",
    "graph",
    "waves",
    "plan",
    "redaction",
    "command",
    "api",
    "run",
    "gate",
    "render",
];
/// What such a module never names: I/O, the process, the time, chance.
const EFFECTS: [&str; 15] = [
    "sqlx",
    "octocrab",
    "axum",
    "tokio",
    "reqwest",
    "hyper",
    "tower",
    "rand",
    "std::fs",
    "std::env",
    "std::process",
    "std::net",
    "std::thread",
    "std::io::stdin",
    "std::io::stdout",
];
const CLOCKS: [&str; 4] = ["Utc::now", "SystemTime::now", "Instant::now", "Timestamp::now"];
/// The only core module that may ask what time it is: it holds the clock of the process.
const THE_CLOCK: &str = "clock";

/// Module, and what it must not reach.
const LAYERS: [(&str, &[&str]); 11] = [
    ("doctor", &["runner", "demo", "cli", "server", "http", "web"]),
    ("server", &["runner", "demo", "cli"]),
    ("http", &["runner", "demo", "cli", "server"]),
    ("web", &["runner", "demo", "cli", "server"]),
    ("orchestrator", &["runner", "demo", "cli", "server", "http", "web"]),
    ("keys", &["runner", "demo", "cli", "server", "http", "web", "orchestrator", "github"]),
    ("store", &["runner", "demo", "cli", "server", "http", "web", "orchestrator", "github"]),
    ("github", &["runner", "demo", "cli", "server", "http", "web", "orchestrator"]),
    ("settings", &["runner", "demo", "cli", "http", "web", "orchestrator"]),
    ("runner", &["demo", "cli", "server", "http", "web", "orchestrator", "store", "github"]),
    ("demo", &["orchestrator", "http", "web", "store", "github"]),
];

const LINES_MAX: usize = 700;

#[test]
fn the_core_has_no_effects_and_no_clock() {
    let mut found = Vec::new();
    for file in sources().iter().filter(|file| CORE.contains(&file.module())) {
        let clocks = if file.module() == THE_CLOCK { &[][..] } else { &CLOCKS[..] };
        for name in EFFECTS.iter().chain(clocks).filter(|name| file.names(name)) {
            found.push(format!("{} names {name}", file.path.display()));
        }
        let outer = ["store", "github", "orchestrator", "http", "web", "runner", "server", "settings", "demo", "cli"];
        for module in outer.iter().filter(|module| file.reaches(module)) {
            found.push(format!("{} reaches {module}", file.path.display()));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_layer_reaches_one_above_it_and_the_server_starts_no_process() {
    let mut found = Vec::new();
    for file in &sources() {
        let (_, forbidden) = LAYERS.iter().find(|(module, _)| *module == file.module()).unwrap_or(&("", &[]));
        for module in forbidden.iter().filter(|module| file.reaches(module)) {
            found.push(format!("{} reaches {module}", file.path.display()));
        }
        let serves = ["server", "http", "web", "orchestrator", "store", "github"].contains(&file.module());
        for name in ["std::process::Command", "tokio::process"].iter().filter(|name| serves && file.names(name)) {
            found.push(format!("{} names {name}", file.path.display()));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn files_stay_short_and_nothing_is_left_for_later() {
    let unfinished = [
        concat!("#[", "ignore"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[", "should_panic"),
        concat!("#[", "allow("),
        concat!("dbg", "!("),
    ];
    let mut found = Vec::new();
    for folder in ["src", "tests", "fake-github"] {
        for path in rust_files(&root().join(folder)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().count();
            if lines > LINES_MAX {
                found.push(format!("{} has {lines} lines", path.display()));
            }
            for words in unfinished.iter().filter(|words| text.contains(**words)) {
                found.push(format!("{} has {words}", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn groups_and_super_are_read_as_what_they_mean() {
    let file = Source::new("src/http/auth/keys.rs", "use super::super::{a, b::{self, c as d}};\nuse std::{fs, io};\n");
    let expected = ["crate::http::a", "crate::http::b", "crate::http::b::c", "std::fs", "std::io"];
    assert_eq!(file.uses, expected.map(str::to_owned).into());
    assert!(file.names("std::fs") && !file.names("std::f"));
    let file =
        Source::new("src/http/mod.rs", "use super::runner::x;\n// crate::demo::y\nfn f() { crate::store::z() }\n");
    assert_eq!((file.reaches("runner"), file.reaches("demo"), file.reaches("store")), (true, false, true));
}

struct Source {
    path: PathBuf,
    /// Every path that a `use` names, in full.
    uses: BTreeSet<String>,
    /// The code without comments and unit tests.
    code: String,
}

impl Source {
    fn new(path: impl Into<PathBuf>, text: &str) -> Self {
        let path = path.into();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = lines.collect::<Vec<_>>().join("\n");
        let here = module_path(&path);
        let mut uses = BTreeSet::new();
        for statement in use_statements(&code) {
            for path in expand(&statement) {
                uses.insert(resolve(&path, &here));
            }
        }
        Self { path, uses, code }
    }

    /// The module below the crate that the file belongs to.
    fn module(&self) -> &str {
        let below = self.path.strip_prefix("src").unwrap();
        let first =
            below.components().next().expect("a file has a name").as_os_str().to_str().expect("names are ASCII");
        first.trim_end_matches(".rs")
    }

    /// Whether it names the path, in a `use` or anywhere in its code.
    fn names(&self, path: &str) -> bool {
        let within =
            |used: &String| used.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        self.uses.iter().any(within) || self.code.match_indices(path).any(|(at, _)| is_whole(&self.code, at, path))
    }

    fn reaches(&self, module: &str) -> bool {
        self.names(&format!("crate::{module}"))
    }
}

/// The text at `at` is the path and not a part of a longer name, and code goes on with `::` or `(`.
fn is_whole(code: &str, at: usize, path: &str) -> bool {
    let before = code[..at].chars().next_back();
    let after = &code[at + path.len()..];
    !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-' || c == '"')
        && (after.starts_with("::") || after.starts_with('('))
}

/// `src/http/auth.rs` → `crate`, `http`, `auth`; `mod.rs` is its folder, `lib.rs` and `main.rs` the crate.
fn module_path(path: &Path) -> Vec<String> {
    let below = path.strip_prefix("src").unwrap().with_extension("");
    let names = below.iter().map(|name| name.to_string_lossy().into_owned());
    let names = names.filter(|name| !["mod", "lib", "main"].contains(&name.as_str()));
    std::iter::once("crate".to_owned()).chain(names).collect()
}

fn use_statements(code: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let starts = |line: &str| {
        line.find("use ").filter(|at| ["", "pub ", "pub(crate) ", "pub(super) "].contains(&line[..*at].trim_start()))
    };
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some(at) = starts(line) else { continue };
        let mut statement = line[at + 4..].to_owned();
        while !statement.contains(';') {
            let Some(more) = lines.next() else { break };
            statement.push_str(more.trim());
        }
        statements.push(statement.split(';').next().unwrap_or_default().to_owned());
    }
    statements
}

/// `a::{b, c::{self, d as e}}` → `a::b`, `a::c`, `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((head, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return vec![path.trim_end_matches("::self").to_owned()];
    };
    let group = group.trim().strip_suffix('}').unwrap_or(group);
    let mut paths = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = group[from..at].trim();
                from = (at + 1).min(group.len());
                if !part.is_empty() {
                    paths.extend(expand(&format!("{head}{part}")));
                }
            }
            _ => {}
        }
    }
    paths
}

fn resolve(path: &str, here: &[String]) -> String {
    let mut base = here.to_vec();
    let mut rest = path;
    if let Some(inner) = rest.strip_prefix("self::") {
        return format!("{}::{inner}", base.join("::"));
    }
    if !rest.starts_with("super") {
        return rest.to_owned();
    }
    while let Some(outer) = rest.strip_prefix("super") {
        base.pop();
        rest = outer.trim_start_matches("::");
    }
    format!("{}::{rest}", base.join("::")).trim_end_matches("::").to_owned()
}

/// Everything below `src` but unit tests in files of their own.
fn sources() -> Vec<Source> {
    let root = root();
    let mut files = rust_files(&root.join("src"));
    files.retain(|path| !path.ends_with("tests.rs") && !path.iter().any(|name| name == "tests"));
    assert!(files.len() > 100, "only {} sources were found", files.len());
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            Source::new(path.strip_prefix(&root).unwrap(), &text)
        })
        .collect()
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every `.rs` file below a folder, in order.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}
