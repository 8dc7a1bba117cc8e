//! Where each key of a file stands: for problems found after parsing, and for showing where a setting comes from.

use std::collections::BTreeMap;

use crate::config::problem::{Problem, key_path};
use crate::config::yaml::{self, Node, Value};

/// The keys of one file that have a value, by key path, with their lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyLines(BTreeMap<String, u32>);

/// Most keys of a file that are remembered; more than its settings could ever be shown for.
const KEYS_MAX: usize = 50_000;
/// Longest key path that is remembered, in bytes.
const PATH_BYTES_MAX: usize = 1024;

impl KeyLines {
    /// Of a file that is no YAML nothing is known.
    pub fn of(bytes: &[u8]) -> Self {
        let mut lines = Self::default();
        if let Ok(Some(root)) = yaml::read(bytes).map(|document| document.root) {
            lines.add("", &root);
        }
        lines
    }

    pub fn line(&self, path: &str) -> Option<u32> {
        self.0.get(path).copied()
    }

    /// Gives a problem of a key its line, where it has none yet.
    pub fn place(&self, problem: Problem) -> Problem {
        Problem { line: problem.line.or_else(|| self.line(&problem.path)), ..problem }
    }

    /// The recursion is as deep as the tree, which the reader of YAML bounds.
    fn add(&mut self, path: &str, node: &Node) {
        match &node.value {
            Value::Null | Value::Scalar { .. } => {}
            Value::List(nodes) => {
                for (index, node) in nodes.iter().enumerate() {
                    self.insert(format!("{path}[{index}]"), node.line, node);
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    self.insert(key_path(path, &entry.key), entry.line, &entry.value);
                }
            }
        }
    }

    fn insert(&mut self, path: String, line: u32, node: &Node) {
        if node.value == Value::Null || self.0.len() >= KEYS_MAX || path.len() > PATH_BYTES_MAX {
            return;
        }
        self.add(&path, node);
        self.0.insert(path, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_items_are_found_by_their_path() {
        let lines = KeyLines::of(
            b"tool: tofu
apply:
  mode: on_merge
  four_eyes:
environments:
  \"infra/:eu\": a
backend_config:
  - a=b
  - c=d
",
        );
        for (path, line) in [
            ("tool", Some(1)),
            ("apply", Some(2)),
            ("apply.mode", Some(3)),
            ("apply.four_eyes", None),
            ("environments[\"infra/:eu\"]", Some(6)),
            ("backend_config[1]", Some(9)),
            ("nothing", None),
        ] {
            assert_eq!(lines.line(path), line, "{path}");
        }
    }

    #[test]
    fn a_hostile_file_costs_no_more_than_its_limits() {
        let long = "k".repeat(PATH_BYTES_MAX / 2 - 100);
        let nested = format!("{long}: {{ {long}: {{ {long}: {{ a: [x, x] }} }} }}");
        assert_eq!(KeyLines::of(nested.as_bytes()).0.len(), 2);
        let many = format!("a: [{}]", "x,".repeat(KEYS_MAX + 10));
        assert!(KeyLines::of(many.as_bytes()).0.len() <= KEYS_MAX + 1);
    }
}
