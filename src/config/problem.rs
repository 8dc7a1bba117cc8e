//! What is wrong with a configuration file, and where.
//!
//! A problem is for people: it names the file, the key path and the offending value (spec 10 §12).

use std::fmt;

use serde::Serialize;

/// One thing to correct in a configuration file. Sorted by file, line and key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// Relative to the repository root.
    pub file: String,
    /// Where the value stands; absent when the whole file is meant.
    pub line: Option<u32>,
    /// The key path, such as `backend_config[1]` or `instances.prod.env.X.apply`; empty when no key is meant.
    pub path: String,
    /// What is wrong, with the offending value quoted.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.path.as_str(), self.line) {
            ("", None) => write!(f, "{}: {}", self.file, self.message),
            ("", Some(line)) => write!(f, "{}: line {line}: {}", self.file, self.message),
            (path, None) => write!(f, "{}: {path}: {}", self.file, self.message),
            (path, Some(line)) => write!(f, "{}: {path}: {} (line {line})", self.file, self.message),
        }
    }
}

impl Problem {
    /// A problem of a key without a line, as found after parsing.
    pub fn of_key(file: &str, path: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, path: path.to_owned(), message: message.into() }
    }
}

/// Most characters of one key in a key path; no name or path that anybody writes there is longer.
const KEY_CHARS_MAX: usize = 512;

/// The key path of a key below another. Keys of `environments` are paths themselves and stand in brackets.
/// A long key is cut, because everything below it repeats it.
pub(super) fn key_path(parent: &str, key: &str) -> String {
    let key = match key.char_indices().nth(KEY_CHARS_MAX) {
        None => key.to_owned(),
        Some((end, _)) => format!("{}…", &key[..end]),
    };
    match parent {
        "" => key,
        "environments" => format!("{parent}[{key:?}]"),
        _ => format!("{parent}.{key}"),
    }
}

/// Most problems reported for one file: more than anyone reads, and a bound on what a hostile file costs.
pub(super) const PROBLEMS_MAX: usize = 200;

/// Most characters of a value that a message repeats: enough to recognise it, short enough for one line.
const QUOTED_CHARS_MAX: usize = 80;

/// The value in double quotes, escaped, and cut when it is long.
pub fn quoted(value: &str) -> String {
    match value.char_indices().nth(QUOTED_CHARS_MAX) {
        None => format!("{value:?}"),
        Some((end, _)) => format!("{:?}…", &value[..end]),
    }
}

/// The known name that a typo most likely meant: at most two edits away, or a third of its length.
pub fn nearest<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    /// Longer than any key we know; keeps the distance cheap for hostile keys.
    const NAME_CHARS_MAX: usize = 64;
    if written.chars().count() > NAME_CHARS_MAX {
        return None;
    }
    known
        .iter()
        .map(|name| (edit_distance(&written.to_lowercase(), &name.to_lowercase()), *name))
        .filter(|(distance, name)| *distance <= 2.max(name.len() / 3) && *distance < name.len())
        .min()
        .map(|(_, name)| name)
}

/// Levenshtein distance, one row at a time.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_as_file_key_and_what_is_wrong() {
        let message = r#""yolo" is not one of before_merge, on_merge"#;
        let problem = Problem::of_key("stackorder.yaml", "apply.mode", message);
        assert_eq!(problem.to_string(), r#"stackorder.yaml: apply.mode: "yolo" is not one of before_merge, on_merge"#);

        let placed = Problem { line: Some(7), ..problem };
        assert_eq!(
            placed.to_string(),
            r#"stackorder.yaml: apply.mode: "yolo" is not one of before_merge, on_merge (line 7)"#
        );

        let syntax = Problem { line: Some(3), ..Problem::of_key("stackorder.yaml", "", "no") };
        assert_eq!(syntax.to_string(), "stackorder.yaml: line 3: no");
    }

    #[test]
    fn a_typo_finds_the_key_that_was_meant() {
        let known = ["depends_on", "workspace", "env", "environment"];
        assert_eq!(nearest("depend_on", &known), Some("depends_on"));
        assert_eq!(nearest("dependsOn", &known), Some("depends_on"));
        assert_eq!(nearest("enviroment", &known), Some("environment"));
        assert_eq!(nearest("backend", &known), None);
        assert_eq!(nearest(&"x".repeat(10_000), &known), None);
    }

    #[test]
    fn a_long_key_does_not_make_everything_below_it_long() {
        let long = key_path("env", &"é".repeat(10_000));
        assert_eq!(long, format!("env.{}…", "é".repeat(KEY_CHARS_MAX)));
        assert_eq!(key_path("environments", "a/:x"), "environments[\"a/:x\"]");
    }

    #[test]
    fn long_values_are_cut_on_a_character() {
        assert_eq!(quoted("a\"b"), r#""a\"b""#);
        assert_eq!(quoted(&"é".repeat(81)), format!("\"{}\"…", "é".repeat(80)));
    }
}
