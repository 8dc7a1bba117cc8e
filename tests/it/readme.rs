//! The README and the documents it leads to: the two commands are there, every command line parses, every link has a target.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A newcomer sees this much without scrolling far.
const FIRST_SCREEN_LINES: usize = 40;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// README, `docs/`, and the READMEs of the parts, with their texts; sorted.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> =
        ["README.md", "actions/README.md", "localstack/README.md"].map(|name| root().join(name)).to_vec();
    let docs = std::fs::read_dir(root().join("docs")).expect("docs/ exists");
    paths.extend(docs.map(|entry| entry.expect("docs/ can be listed").path()));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("a text"))).collect()
}

/// Code of a Markdown text: the lines of fenced blocks, and spans between back-ticks outside of them.
fn code(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            found.push(line.trim().to_owned());
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found
}

/// The words after `stackorder` in a piece of code, whether it is called by name or through cargo.
/// Comments on pull requests start the same way; their `plan`, `apply` and `unlock` are commands here too.
fn words(code: &str) -> Option<Vec<String>> {
    let starts = ["stackorder ", "cargo run --release -- "];
    let rest = starts.iter().find_map(|start| code.strip_prefix(start))?;
    let line = rest.split(" #").next().expect("split yields at least one part");
    Some(split(line))
}

/// Words as a shell makes them, as far as these documents quote.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn stackorder(args: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stackorder")).args(args).env_clear().output().expect("the program starts")
}

/// The command and its subcommands: words up to the first flag, value or key.
fn subcommands(words: &[String]) -> &[String] {
    let is_name = |word: &String| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    let names = words.iter().take_while(|word| is_name(word)).count();
    let deepest = match words.first().map(String::as_str) {
        Some("admin") => 3,
        Some("config") => 2,
        _ => 1,
    };
    &words[..names.min(deepest)]
}

#[test]
fn the_first_screen_of_the_readme_holds_both_commands() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("a README");
    let first: Vec<&str> = readme.lines().take(FIRST_SCREEN_LINES).collect();
    for command in ["cargo run --release -- demo", "cargo test"] {
        assert!(first.contains(&command), "{command:?} is no line of the first {FIRST_SCREEN_LINES}");
    }
}

#[test]
fn ci_runs_the_tests_as_the_readme_says() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("a README");
    let (_, after) =
        readme.split_once("<!-- .ci/run runs the next block -->\n```sh\n").expect("the mark and its block");
    let (block, _) = after.split_once("\n```").expect("the block ends");
    assert_eq!(block, "cargo test");
    let script = std::fs::read_to_string(root().join(".ci/run")).expect(".ci/run exists");
    assert!(script.contains("<!-- .ci/run runs the next block -->"), "the script no longer looks for the mark");
}

#[test]
fn every_command_that_a_document_names_exists() {
    let mut seen = BTreeSet::new();
    for (path, text) in documents() {
        for code in code(&text) {
            let Some(words) = words(&code) else { continue };
            // A command of comments only; here it is clap's own, which explains nothing about itself.
            if words.first().is_some_and(|word| word == "help") {
                continue;
            }
            let command = subcommands(&words).to_vec();
            assert!(!command.is_empty(), "{}: {code:?} names no command", path.display());
            if seen.insert(command.clone()) {
                let help = stackorder(&[&command[..], &["--help".to_owned()]].concat());
                let error = String::from_utf8_lossy(&help.stderr);
                assert!(help.status.success(), "{}: {code:?}: {error}", path.display());
            }
        }
    }
    for expected in ["serve", "demo", "plan", "apply", "graph", "affected", "explain"] {
        assert!(seen.contains(&vec![expected.to_owned()]), "no document names {expected}: {seen:?}");
    }
    assert!(seen.contains(["admin", "keys", "create"].map(str::to_owned).as_slice()), "{seen:?}");
}

#[test]
fn every_flag_that_a_document_gives_exists() {
    for (path, text) in documents() {
        for code in code(&text) {
            let Some(words) = words(&code) else { continue };
            let command = subcommands(&words);
            let flags: Vec<&String> = words.iter().filter(|word| word.starts_with("--")).collect();
            if command.is_empty() || flags.is_empty() {
                continue;
            }
            let help = stackorder(&[command, &["--help".to_owned()]].concat());
            let help = String::from_utf8_lossy(&help.stdout).into_owned();
            for flag in flags {
                let is_known = help.split(|c: char| c.is_whitespace() || c == ',').any(|word| word == flag);
                assert!(is_known, "{}: {code:?}: {command:?} has no {flag}", path.display());
            }
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut links = 0;
    for (path, text) in documents() {
        let folder = path.parent().expect("a file has a folder");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { folder.join(file) };
            assert!(file.exists(), "{}: {target} does not exist", path.display());
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&file).expect("an anchor is of a text");
                let has = text.lines().filter(|line| line.starts_with('#')).any(|line| anchor_of(line) == anchor);
                assert!(has, "{}: {target} has no such heading", path.display());
            }
            links += 1;
        }
    }
    assert!(links >= 8, "only {links} links were found");
}

/// As GitHub makes anchors of headings.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_variable_of_the_server_is_documented() {
    let source = std::fs::read_to_string(root().join("src/settings.rs")).expect("the settings");
    let code = source.split("#[cfg(test)]").next().expect("split yields at least one part");
    let operating = std::fs::read_to_string(root().join("docs/operating.md")).expect("the document");
    let is_name = |text: &str| {
        (text.starts_with("STACKORDER_") || text.starts_with("GITHUB_") || text.starts_with("DATABASE_"))
            && text.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let variables: BTreeSet<&str> = code.split('"').filter(|text| is_name(text)).collect();
    assert!(variables.len() >= 15, "{variables:?}");
    for variable in variables {
        assert!(operating.contains(&format!("| `{variable}` |")), "docs/operating.md has no row for {variable}");
    }
}
