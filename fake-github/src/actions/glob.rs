//! Glob patterns as Actions uses them: in trigger filters, `hashFiles` and artifact paths.
//!
//! `*` stays inside a path segment, `**` does not, `?` and `+` repeat the character before them in filters only.

use std::path::{Path, PathBuf};

/// Whether a trigger filter (`branches`, `tags`, `paths`) lets a name through: the last pattern that matches decides,
/// `!` takes back.
pub fn filter_allows(patterns: &[String], name: &str) -> bool {
    patterns.iter().fold(false, |allowed, pattern| match pattern.strip_prefix('!') {
        Some(negated) if is_match(negated, name, Dialect::Filter) => false,
        None if is_match(pattern, name, Dialect::Filter) => true,
        _ => allowed,
    })
}

/// Which characters are special.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// Of `on.*.branches` and the like: `?` and `+` repeat the preceding character.
    Filter,
    /// Of file paths: `?` is one character.
    Path,
}

/// Files below `root` that the patterns name, sorted. A pattern may name a directory, which means all in it; a leading
/// `!` takes files away again. Hidden files (a segment that begins with a dot) are left out unless asked for.
pub fn find(root: &Path, patterns: &[String], hidden: bool) -> Vec<PathBuf> {
    let mut chosen: Vec<PathBuf> = Vec::new();
    let lines = patterns.iter().flat_map(|p| p.lines()).map(str::trim).filter(|p| !p.is_empty() && !p.starts_with('#'));
    for line in lines {
        let (negated, pattern) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let pattern = absolute(root, pattern);
        if negated {
            chosen.retain(|file| !covers(&pattern, file));
            continue;
        }
        let mut found = Vec::new();
        walk(&search_root(&pattern), &mut found, 0);
        chosen.extend(found.into_iter().filter(|file| covers(&pattern, file)));
    }
    if !hidden {
        chosen.retain(|file| {
            let below = file.strip_prefix(root).unwrap_or(file);
            !below.iter().any(|segment| segment.to_string_lossy().starts_with('.'))
        });
    }
    chosen.sort();
    chosen.dedup();
    chosen
}

/// The part of a pattern before its first special character: where a search for it has to begin.
pub fn search_root(pattern: &str) -> PathBuf {
    let plain: Vec<&str> = pattern.split('/').take_while(|segment| !segment.contains(['*', '?', '['])).collect();
    let joined = plain.join("/");
    PathBuf::from(if joined.is_empty() { "/" } else { &joined })
}

/// A pattern as an absolute one, without `.` segments.
pub fn absolute(root: &Path, pattern: &str) -> String {
    let joined = if pattern.starts_with('/') { pattern.to_owned() } else { format!("{}/{pattern}", root.display()) };
    let segments: Vec<&str> = joined.split('/').filter(|s| !s.is_empty() && *s != ".").collect();
    format!("/{}", segments.join("/"))
}

fn covers(pattern: &str, file: &Path) -> bool {
    let name = file.to_string_lossy();
    is_match(pattern, &name, Dialect::Path) || is_match(&format!("{pattern}/**"), &name, Dialect::Path)
}

fn walk(path: &Path, out: &mut Vec<PathBuf>, depth: usize) {
    /// Deeper than any checkout; keeps a loop of mounts from hanging the job.
    const DEPTH_MAX: usize = 64;
    let Ok(meta) = std::fs::symlink_metadata(path) else { return };
    if meta.is_dir() {
        if depth > DEPTH_MAX {
            return;
        }
        let Ok(entries) = std::fs::read_dir(path) else { return };
        for entry in entries.flatten() {
            walk(&entry.path(), out, depth + 1);
        }
    } else if path.is_file() {
        out.push(path.to_owned());
    }
}

/// One element of a compiled pattern.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Char(Set),
    /// `*`: any characters but `/`.
    Star,
    /// `**`: any characters.
    DoubleStar,
    /// `**/`: nothing, or anything that ends in `/`.
    DoubleStarSlash,
    /// A character and `?`.
    Optional(Set),
    /// A character and `+`.
    Repeated(Set),
}

#[derive(Debug, Clone, PartialEq)]
enum Set {
    One(char),
    /// Any character but `/`.
    NotSlash,
    Ranges(Vec<(char, char)>),
}

impl Set {
    fn has(&self, c: char) -> bool {
        match self {
            Self::One(one) => *one == c,
            Self::NotSlash => c != '/',
            Self::Ranges(ranges) => ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)),
        }
    }
}

fn is_match(pattern: &str, name: &str, dialect: Dialect) -> bool {
    let tokens = compile(pattern, dialect);
    let chars: Vec<char> = name.chars().collect();
    // `reachable[i]`: the tokens so far can end before character i. Linear in tokens × characters, whatever the pattern.
    let mut reachable = vec![false; chars.len() + 1];
    reachable[0] = true;
    for token in &tokens {
        reachable = step(token, &reachable, &chars);
    }
    reachable[chars.len()]
}

fn step(token: &Token, from: &[bool], chars: &[char]) -> Vec<bool> {
    let mut to = vec![false; from.len()];
    for i in 0..from.len() {
        let came = i > 0 && from[i - 1];
        let stayed = i > 0 && to[i - 1];
        let previous = i.checked_sub(1).map(|p| chars[p]);
        let fits = |set: &Set| previous.is_some_and(|c| set.has(c));
        to[i] = match token {
            Token::Char(set) => came && fits(set),
            Token::Optional(set) => from[i] || (came && fits(set)),
            Token::Repeated(set) => (came || stayed) && fits(set),
            Token::Star => from[i] || (stayed && fits(&Set::NotSlash)),
            Token::DoubleStar => from[i] || stayed,
            Token::DoubleStarSlash => from[i] || (previous == Some('/') && from[..i].contains(&true)),
        };
    }
    to
}

fn compile(pattern: &str, dialect: Dialect) -> Vec<Token> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut tokens = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let (token, used) = match chars[i] {
            '*' if chars.get(i + 1) == Some(&'*') => match chars.get(i + 2) {
                Some('/') => (Token::DoubleStarSlash, 3),
                _ => (Token::DoubleStar, 2),
            },
            '*' => (Token::Star, 1),
            '?' if dialect == Dialect::Path => (Token::Char(Set::NotSlash), 1),
            '[' => class(&chars[i..]),
            '\\' if i + 1 < chars.len() => (Token::Char(Set::One(chars[i + 1])), 2),
            c => (Token::Char(Set::One(c)), 1),
        };
        i += used;
        let repeat = if dialect == Dialect::Filter { chars.get(i) } else { None };
        tokens.push(match (token, repeat) {
            (Token::Char(set), Some('?')) => {
                i += 1;
                Token::Optional(set)
            }
            (Token::Char(set), Some('+')) => {
                i += 1;
                Token::Repeated(set)
            }
            (other, _) => other,
        });
    }
    tokens
}

/// `[a-z0]` as a set; an unclosed bracket is a plain character.
fn class(chars: &[char]) -> (Token, usize) {
    let Some(end) = chars.iter().position(|c| *c == ']').filter(|end| *end > 1) else {
        return (Token::Char(Set::One('[')), 1);
    };
    let mut ranges = Vec::new();
    let mut i = 1;
    while i < end {
        if i + 2 < end && chars[i + 1] == '-' {
            ranges.push((chars[i], chars[i + 2]));
            i += 3;
        } else {
            ranges.push((chars[i], chars[i]));
            i += 1;
        }
    }
    (Token::Char(Set::Ranges(ranges)), end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_follow_the_cheat_sheet() {
        let cases = [
            ("feature/*", "feature/my-branch", true),
            ("feature/*", "feature/beta-a/my-branch", false),
            ("feature/**", "feature/beta-a/my-branch", true),
            ("*", "main", true),
            ("*", "releases/1", false),
            ("**", "all/the/branches", true),
            ("*feature", "mona-feature", true),
            ("v2*", "v2.9", true),
            ("v[12].[0-9]+.[0-9]+", "v1.10.1", true),
            ("v[12].[0-9]+.[0-9]+", "v3.0.0", false),
            ("*.jsx?", "page.js", true),
            ("**.js", "src/js/app.js", true),
            ("docs/**/*.md", "docs/README.md", true),
            ("docs/**/*.md", "docs/a/markdown/file.md", true),
            ("**/README.md", "README.md", true),
            ("**/docs/**", "dir/docs/my-file.txt", true),
            ("**/*-post.md", "path/their-post.md", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(filter_allows(&[pattern.to_owned()], name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn the_last_matching_filter_decides() {
        let patterns = ["releases/**".to_owned(), "!releases/**-alpha".to_owned()];
        assert!(filter_allows(&patterns, "releases/10"));
        assert!(!filter_allows(&patterns, "releases/beta/3-alpha"));
        assert!(!filter_allows(&patterns, "main"));
    }

    #[test]
    fn finding_takes_directories_whole_and_leaves_hidden_files_out() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["a/b.txt", "a/c/d.txt", "a/.hidden", "e.log"] {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let names = |patterns: &[&str], hidden| -> Vec<String> {
            let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
            let found = find(dir.path(), &patterns, hidden);
            found.iter().map(|f| f.strip_prefix(dir.path()).unwrap().display().to_string()).collect()
        };
        assert_eq!(names(&["a"], false), ["a/b.txt", "a/c/d.txt"]);
        assert_eq!(names(&["a"], true), ["a/.hidden", "a/b.txt", "a/c/d.txt"]);
        assert_eq!(names(&["**/*.txt\n!a/c"], false), ["a/b.txt"]);
        assert_eq!(names(&["*.log"], false), ["e.log"]);
    }
}
