//! CODEOWNERS as GitHub reads it: gitignore patterns without `!`, `[]` and `\#`, the last matching line wins (spec 24 §6.1).
//!
//! Patterns are matched here and not by the globs of the configuration, because GitHub's are others: braces are plain characters,
//! a name without a slash matches at any depth, and what matches a directory matches all below it, except after `/*`.

/// The file, line by line; only the lines that GitHub takes.
#[derive(Debug)]
pub struct Codeowners(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    pattern: Pattern,
    owners: Vec<String>,
}

/// GitHub does not load a larger file at all.
pub const FILE_BYTES_MAX: usize = 3_000_000;

/// No path is longer.
const PATTERN_BYTES_MAX: usize = 4_096;

impl Codeowners {
    /// Lines that GitHub would not take are skipped, as GitHub skips them.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(rule_of).collect())
    }

    /// Owners of a path as written (`@user`, `@org/team`, an address); empty when nobody owns it.
    pub fn owners(&self, path: &str) -> Vec<String> {
        let segments: Vec<&str> = path.split('/').collect();
        let last = self.0.iter().rev().find(|rule| rule.pattern.matches(&segments));
        last.map(|rule| rule.owners.clone()).unwrap_or_default()
    }
}

fn rule_of(line: &str) -> Option<Rule> {
    let mut words = words_of(line).into_iter();
    let pattern = words.next()?;
    // Only an escaped `#` begins a word, and GitHub does not know that escape.
    if pattern.starts_with(['!', '#']) || pattern.contains(['[', ']']) || pattern.len() > PATTERN_BYTES_MAX {
        return None;
    }
    let owners: Vec<String> = words.collect();
    owners.iter().all(|owner| is_owner(owner)).then(|| Rule { pattern: Pattern::parse(&pattern), owners })
}

/// The words up to a comment. A blank after a backslash belongs to its word.
fn words_of(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            '#' if word.is_empty() => break,
            '\\' => word.extend(characters.next()),
            c if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// `@user`, `@org/team` or an address; anything else makes GitHub skip the line.
fn is_owner(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    match word.strip_prefix('@') {
        Some(name) => match name.split_once('/') {
            Some((organisation, team)) => is_name(organisation) && is_name(team),
            None => is_name(name),
        },
        None => word.split_once('@').is_some_and(|(name, host)| !name.is_empty() && is_name(host)),
    }
}

/// One pattern, by its segments.
#[derive(Debug)]
struct Pattern {
    segments: Vec<String>,
    /// What lies below a match matches, too.
    takes_tree: bool,
    /// Only directories match, and so only what lies below one.
    of_directories: bool,
}

const ANY_DEPTH: &str = "**";

impl Pattern {
    fn parse(text: &str) -> Self {
        let of_directories = text.ends_with('/');
        let is_anchored = text.trim_end_matches('/').contains('/');
        let mut segments: Vec<String> =
            text.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
        // `docs/*` owns the files directly in it, not those deeper.
        let is_one_level = is_anchored && !of_directories && segments.last().is_some_and(|last| last == "*");
        if !is_anchored {
            segments.insert(0, ANY_DEPTH.to_owned());
        }
        Self { segments, takes_tree: !is_one_level, of_directories }
    }

    /// A path, and each directory above it where that is enough.
    fn matches(&self, path: &[&str]) -> bool {
        let shortest = if self.takes_tree { 1 } else { path.len() };
        let longest = if self.of_directories { path.len() - 1 } else { path.len() };
        (shortest..=longest).any(|length| {
            matches_like(&self.segments, &path[..length], ANY_DEPTH, |one, segment| segment_matches(one, segment))
        })
    }
}

fn segment_matches(pattern: &str, segment: &str) -> bool {
    let (pattern, segment): (Vec<char>, Vec<char>) = (pattern.chars().collect(), segment.chars().collect());
    matches_like(&pattern, &segment, '*', |one, c| *one == '?' || one == c)
}

/// Whether a sequence matches a pattern in which `star` stands for any number of items, none included: only the last star that was
/// met is ever tried again, so the time is bounded by the product of both lengths.
fn matches_like<P, I, S>(pattern: &[P], items: &[I], star: S, is_like: impl Fn(&P, &I) -> bool) -> bool
where
    P: PartialEq<S>,
{
    let (mut p, mut i) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while i < items.len() {
        if pattern.get(p).is_some_and(|one| *one == star) {
            retry = Some((p, i));
            p += 1;
        } else if pattern.get(p).is_some_and(|one| is_like(one, &items[i])) {
            (p, i) = (p + 1, i + 1);
        } else if let Some((at, from)) = retry {
            retry = Some((at, from + 1));
            (p, i) = (at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|one| *one == star)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(pattern: &str, path: &str) -> bool {
        !Codeowners::parse(&format!("{pattern} @x")).owners(path).is_empty()
    }

    #[test]
    fn bl_126_a_codeowners_file_is_read_as_github_reads_it() {
        let text =
            "*            @o/eng\nREADME.md    @o/docs\n/stacks/prod/ @o/sre\nstacks/a\\ b/  @o/x   # escaped space\n";
        let rules = Codeowners::parse(text);
        for (path, owner) in [
            ("stacks/dev/main.tf", "@o/eng"),
            ("stacks/dev/README.md", "@o/docs"),
            ("stacks/prod/vpc/main.tf", "@o/sre"),
            ("stacks/prod/README.md", "@o/sre"),
            ("other/stacks/prod/main.tf", "@o/eng"),
            ("stacks/a b/main.tf", "@o/x"),
            ("Stacks/prod/main.tf", "@o/eng"),
        ] {
            assert_eq!(rules.owners(path), [owner], "{path}");
        }
    }

    #[test]
    fn the_last_matching_rule_wins() {
        let rules = Codeowners::parse("/stacks/ @a\n*.tf @b\n");
        assert_eq!(rules.owners("stacks/vpc/main.tf"), ["@b"]);
        assert_eq!(rules.owners("stacks/vpc/README"), ["@a"]);
        let many = format!("{}/stacks/ @last\n", "/other/ @a\n".repeat(20_000));
        assert_eq!(Codeowners::parse(&many).owners("stacks/vpc/main.tf"), ["@last"]);
    }

    #[test]
    fn a_rule_without_owners_takes_ownership_away() {
        let rules = Codeowners::parse("* @a\n/stacks/open/\n");
        assert!(rules.owners("stacks/open/main.tf").is_empty());
        assert_eq!(rules.owners("stacks/other/main.tf"), ["@a"]);
    }

    #[test]
    fn patterns_match_as_gitignore_does() {
        for (pattern, path) in [
            ("apps/", "deep/apps/main.tf"),
            ("/apps/", "apps/main.tf"),
            ("apps/github", "apps/github/main.tf"),
            ("docs/*", "docs/a.md"),
            ("/*", "main.tf"),
            ("stacks/prod", "stacks/prod/vpc/main.tf"),
            ("*", "anything/at/all"),
            ("**/logs", "build/deep/logs/main.tf"),
            ("**/logs", "logs/main.tf"),
            ("a/**/b", "a/b/main.tf"),
            ("a/**/b", "a/x/y/b/main.tf"),
            ("a/**", "a/x/main.tf"),
            ("stacks/*-prod/", "stacks/eu-prod/main.tf"),
            ("v?c", "stacks/vpc/main.tf"),
            ("{a,b}/", "{a,b}/main.tf"),
            ("a#b/", "a#b/main.tf"),
        ] {
            assert!(owned(pattern, path), "{pattern} owns {path}");
        }
        for (pattern, path) in [
            ("/apps/", "deep/apps/main.tf"),
            ("apps/github", "deep/apps/github/main.tf"),
            ("docs/*", "docs/deep/a.md"),
            ("/*", "stacks/main.tf"),
            ("stacks/*/main.tf", "stacks/a/b/main.tf"),
            ("stacks", "stacks-old/main.tf"),
            ("main.tf/", "stacks/main.tf"),
            ("{a,b}/", "a/main.tf"),
            ("a**b/", "a/x/b/main.tf"),
            ("V?c", "stacks/vpc/main.tf"),
        ] {
            assert!(!owned(pattern, path), "{pattern} does not own {path}");
        }
    }

    #[test]
    fn lines_that_github_does_not_take_leave_the_ones_before_in_force() {
        for line in [
            "!/stacks/ @b",
            "/stacks/[ab] @b",
            "/stacks/ b",
            "/stacks/ @b @",
            "/stacks/ @o/",
            "# /stacks/ @b",
            "\\#stacks/ @b",
        ] {
            let rules = Codeowners::parse(&format!("* @a\n{line}\n"));
            assert_eq!(rules.owners("stacks/a/main.tf"), ["@a"], "{line}");
        }
        let rules = Codeowners::parse("/stacks/ ops@example.com @o/sre @bob # all of them\n");
        assert_eq!(rules.owners("stacks/main.tf"), ["ops@example.com", "@o/sre", "@bob"]);
    }

    #[test]
    fn a_hostile_pattern_costs_no_more_than_its_length() {
        let pattern = format!("{}b", "a*".repeat(2_000));
        assert!(!owned(&pattern, &"a".repeat(200)));
        let deep = format!("{}b", "**/a/".repeat(800));
        assert!(!owned(&deep, &["a"; 100].join("/")));
    }
}
