//! Globs as texts: what of them is written out, how one reads from another base, what is left of one further down.

use super::PathGlobs;

/// A glob that is written from a directory, as one from the repository root; empty for the root itself.
/// `None` when it leaves the repository.
pub fn from_root(directory: &str, glob: &str) -> Option<String> {
    cleaned(of_path(directory).split('/').chain(glob.split('/')))
}

/// A path as the glob that matches nothing else.
pub fn of_path(path: &str) -> String {
    segments(path).map(escape).collect::<Vec<_>>().join("/")
}

/// One glob below a directory, given as a glob too.
pub fn below(directory: &str, rest: &str) -> String {
    if directory.is_empty() { rest.to_owned() } else { format!("{directory}/{rest}") }
}

/// The directories in front of the first segment with a pattern, as a path; the whole path when there is no pattern.
pub fn literal_start(glob: &str) -> String {
    let literal: Vec<String> = segments(glob).take_while(|segment| !has_pattern(segment)).map(unescape).collect();
    literal.join("/")
}

/// Whether anything in the text stands for more than itself.
pub fn has_pattern(text: &str) -> bool {
    let mut escaped = false;
    text.chars().any(|letter| {
        let is_pattern = !escaped && PATTERN_LETTERS.contains(&letter);
        escaped = !escaped && letter == '\\';
        is_pattern
    })
}

/// The segments of a path.
pub fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

const PATTERN_LETTERS: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// Segments of a glob without those that mean nothing; `None` when it leaves the repository.
fn cleaned<'s>(written: impl Iterator<Item = &'s str>) -> Option<String> {
    let mut kept: Vec<&str> = Vec::new();
    for segment in written {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()?),
            other => kept.push(other),
        }
    }
    Some(kept.join("/"))
}

fn escape(segment: &str) -> String {
    let mut escaped = String::with_capacity(segment.len());
    for letter in segment.chars() {
        if letter == '\\' || PATTERN_LETTERS.contains(&letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

fn unescape(segment: &str) -> String {
    let mut plain = String::with_capacity(segment.len());
    let mut letters = segment.chars();
    while let Some(letter) = letters.next() {
        plain.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    plain
}

/// A glob cut at its slashes, for asking what is left of it behind directories.
pub struct Cut<'g> {
    segments: Vec<(&'g str, Option<PathGlobs>)>,
    /// Alternatives or classes that hold a slash: such a glob falls apart when it is cut.
    is_whole: bool,
}

impl<'g> Cut<'g> {
    pub fn of(glob: &'g str) -> Self {
        let compile = |segment: &'g str| (segment, PathGlobs::new(&[segment.to_owned()]).ok());
        let segments: Vec<(&str, Option<PathGlobs>)> = glob.split('/').map(compile).collect();
        let is_whole = segments.iter().any(|(_, compiled)| compiled.is_none());
        Self { segments, is_whole }
    }

    /// The globs for what lies below a directory: `a/*/x` leaves `x` behind `a/b`, and `a/**` leaves `**`.
    /// Where it cannot be said, everything below.
    pub fn behind(&self, directory: &str) -> Vec<String> {
        if self.is_whole {
            return vec!["**".to_owned()];
        }
        let mut at = vec![0];
        for name in segments(directory) {
            let mut next = Vec::new();
            for from in at {
                self.step(from, name, &mut next);
            }
            next.sort_unstable();
            next.dedup();
            at = next;
        }
        let rest = |from: usize| {
            let rest: Vec<&str> = self.segments[from..].iter().map(|(segment, _)| *segment).collect();
            rest.join("/")
        };
        at.into_iter().filter(|from| *from < self.segments.len()).map(rest).collect()
    }

    /// Where the glob may go on behind a directory of this name.
    fn step(&self, from: usize, name: &str, next: &mut Vec<usize>) {
        let mut at = from;
        while let Some((segment, compiled)) = self.segments.get(at) {
            if *segment != "**" {
                next.extend(compiled.as_ref().filter(|it| it.matches(name)).map(|_| at + 1));
                return;
            }
            next.push(at);
            // It may also stand for no directory at all.
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn globs_are_cut_into_what_is_written_out_and_what_is_a_pattern() {
        assert_eq!(literal_start("a/b/*.json"), "a/b");
        assert_eq!(literal_start(r"a\[1\]/x/{b,c}/d"), "a[1]/x");
        assert_eq!(literal_start("**"), "");
        assert_eq!(literal_start("a/b/"), "a/b");
        assert_eq!(unescape(&escape(r"[a]\{*}")), r"[a]\{*}");
        assert!(has_pattern("a?") && !has_pattern(r"a\?") && has_pattern(r"a\\?"));
    }

    #[test]
    fn a_glob_of_a_directory_reads_from_the_root() {
        assert_eq!(from_root("stacks/a", "./b//../*.x").as_deref(), Some("stacks/a/*.x"));
        assert_eq!(from_root("stacks/[a]", "../../lambda/**").as_deref(), Some("lambda/**"));
        assert_eq!(from_root("stacks/[a]", "*").as_deref(), Some(r"stacks/\[a\]/*"));
        assert_eq!(from_root("stacks/a", "../..").as_deref(), Some(""));
        assert_eq!(from_root("stacks/a", "../../../x"), None);
    }

    #[test]
    fn behind_a_directory_the_rest_of_the_glob_is_left() {
        for (glob, directory, left) in [
            ("a/**", "a/b/c", &["**"][..]),
            ("a/**/x/*.json", "a/b", &["**/x/*.json"]),
            ("a/**/x/*.json", "a/x", &["**/x/*.json", "*.json"]),
            ("a/*/x", "a/b", &["x"]),
            ("a/*/x", "a/b/x", &[]),
            ("a/*.d/x", "a/b", &[]),
            ("a/*", "a/b", &[]),
            ("a/{b/c,d}/*", "a/b", &["**"]),
        ] {
            assert_eq!(Cut::of(glob).behind(directory), left, "{glob} behind {directory}");
        }
    }

    proptest! {
        #[test]
        fn what_is_left_matches_what_the_glob_matched(glob in r"(a|b|\*|\*\*|\?)(/(a|b|\*|\*\*|a\*)){0,4}", path in "[ab](/[ab]){0,4}") {
            let is_match = |glob: &str, path: &str| PathGlobs::new(&[glob.to_owned()]).unwrap().matches(path);
            let cut = Cut::of(&glob);
            for (at, _) in path.match_indices('/') {
                let below = cut.behind(&path[..at]).iter().any(|rest| is_match(rest, &path[at + 1..]));
                prop_assert_eq!(below, is_match(&glob, &path), "{} on {} at {}", glob, path, at);
            }
        }
    }
}
