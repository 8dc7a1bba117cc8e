//! Workflow commands (`::name key=value::text`) and the file protocol (`GITHUB_OUTPUT` and its like).

use std::collections::BTreeMap;

/// A line of output that tells the runner something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) name: String,
    pub(super) properties: BTreeMap<String, String>,
    pub(super) text: String,
}

/// The command on a line, if there is one.
pub(super) fn parse(line: &str) -> Option<Command> {
    let (head, text) = line.trim_start().strip_prefix("::")?.split_once("::")?;
    let (name, properties) = head.split_once(' ').unwrap_or((head, ""));
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return None;
    }
    let properties = properties
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.trim().to_owned(), unescape(value).replace("%3A", ":").replace("%2C", ",")))
        .collect();
    Some(Command { name: name.to_ascii_lowercase(), properties, text: unescape(text) })
}

fn unescape(text: &str) -> String {
    text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
}

/// Entries of a `GITHUB_OUTPUT`, `GITHUB_ENV` or `GITHUB_STATE` file in order: `name=value`, or `name<<DELIMITER`, lines
/// and the delimiter alone.
pub(super) fn parse_entries(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut entries = Vec::new();
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let equals = line.find('=').unwrap_or(usize::MAX);
        let heredoc = line.find("<<").unwrap_or(usize::MAX);
        if equals < heredoc {
            let (name, value) = (&line[..equals], &line[equals + 1..]);
            entries.push((checked(name, line)?, value.to_owned()));
        } else if heredoc < equals {
            let (name, delimiter) = (&line[..heredoc], &line[heredoc + 2..]);
            let name = checked(name, line)?;
            if delimiter.is_empty() {
                return Err(format!("Invalid format '{line}'. Delimiter must not be empty"));
            }
            let mut value: Vec<&str> = Vec::new();
            loop {
                match lines.next() {
                    Some(end) if end == delimiter => break,
                    Some(inner) => value.push(inner),
                    None => return Err(format!("Invalid value. Matching delimiter not found '{delimiter}'")),
                }
            }
            entries.push((name, value.join("\n")));
        } else {
            return Err(format!("Invalid format '{line}'"));
        }
    }
    Ok(entries)
}

fn checked(name: &str, line: &str) -> Result<String, String> {
    if name.is_empty() { Err(format!("Invalid format '{line}'. Name must not be empty")) } else { Ok(name.to_owned()) }
}

/// Names that `GITHUB_ENV` may not set.
pub(super) fn is_reserved_variable(name: &str) -> bool {
    name.eq_ignore_ascii_case("NODE_OPTIONS") || name.starts_with("GITHUB_") || name.starts_with("RUNNER_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_a_name_properties_and_text() {
        let command = parse("::error file=a%2Cb.rs,line=3,title=x%3A y::first%0Asecond 100%25").unwrap();
        assert_eq!(command.name, "error");
        assert_eq!(command.properties["file"], "a,b.rs");
        assert_eq!(command.properties["line"], "3");
        assert_eq!(command.properties["title"], "x: y");
        assert_eq!(command.text, "first\nsecond 100%");
        assert_eq!(parse("::add-mask::a::b").unwrap().text, "a::b");
        for plain in ["echo ::error::x", ":: ::x", "::x", "std::vec::Vec"] {
            assert_eq!(parse(plain), None, "{plain}");
        }
    }

    #[test]
    fn entries_take_both_forms() {
        let text = "a=1\r\nb=x=y<<z\nc<<EOF\nline 1\n\nd=no\nEOF\n\ne=";
        let expected = [("a", "1"), ("b", "x=y<<z"), ("c", "line 1\n\nd=no"), ("e", "")];
        let expected: Vec<_> = expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(parse_entries(text), Ok(expected));
    }

    #[test]
    fn odd_entries_are_refused_in_words() {
        for (text, part) in [("x", "Invalid format"), ("a<<", "Delimiter"), ("a<<E\nb", "'E'"), ("=v", "Name")] {
            assert!(parse_entries(text).unwrap_err().contains(part), "{text}");
        }
    }
}
