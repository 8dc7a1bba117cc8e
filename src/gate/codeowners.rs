//! CODEOWNERS as GitHub reads it: gitignore patterns without `!` and `[]`, the last matching rule wins (spec 24 §6.1).

use crate::config::glob::PathGlobs;

/// Lines of a CODEOWNERS file that count, in order.
#[derive(Debug)]
pub struct Codeowners(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    globs: PathGlobs,
    owners: Vec<String>,
}

/// GitHub reads files up to 3 MB; more rules than this are not looked at.
const RULES_MAX: usize = 10_000;

impl Codeowners {
    /// Lines that GitHub would not take are skipped, as GitHub skips them.
    pub fn parse(text: &str) -> Self {
        let rules = text.lines().filter_map(rule_of).take(RULES_MAX).collect();
        Self(rules)
    }

    /// Owners of a path as written (`@user`, `@org/team`, an address); empty when nobody owns it.
    pub fn owners(&self, path: &str) -> Vec<String> {
        let last = self.0.iter().rev().find(|rule| rule.globs.matches(path));
        last.map(|rule| rule.owners.clone()).unwrap_or_default()
    }
}

fn rule_of(line: &str) -> Option<Rule> {
    let line = line.split('#').next().unwrap_or("").trim();
    let mut words = line.split_whitespace();
    let pattern = words.next()?;
    if pattern.starts_with('!') || pattern.contains(['[', ']', '{', '}']) {
        return None;
    }
    let globs = PathGlobs::new(&globs_of(pattern)).ok()?;
    Some(Rule { globs, owners: words.map(str::to_owned).collect() })
}

/// A gitignore pattern as whole-path globs.
fn globs_of(pattern: &str) -> Vec<String> {
    let anchored = pattern.trim_end_matches('/').contains('/');
    let directory_only = pattern.ends_with('/');
    let body = pattern.trim_matches('/');
    let body = if anchored { body.to_owned() } else { format!("**/{body}") };
    let tree = format!("{body}/**");
    if directory_only {
        vec![tree]
    } else if body.ends_with("/*") {
        // `docs/*` owns the files directly in it, not those deeper.
        vec![body]
    } else {
        vec![body, tree]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_matching_rule_wins() {
        let rules = Codeowners::parse("/stacks/ @a\n*.tf @b\n");
        assert_eq!(rules.owners("stacks/vpc/main.tf"), ["@b"]);
        assert_eq!(rules.owners("stacks/vpc/README"), ["@a"]);
    }

    #[test]
    fn a_rule_without_owners_takes_ownership_away() {
        let rules = Codeowners::parse("* @a\n/stacks/open/\n");
        assert!(rules.owners("stacks/open/main.tf").is_empty());
        assert_eq!(rules.owners("stacks/other/main.tf"), ["@a"]);
    }

    #[test]
    fn patterns_match_as_gitignore_does() {
        let owned = |pattern: &str, path: &str| !Codeowners::parse(&format!("{pattern} @x")).owners(path).is_empty();
        assert!(owned("apps/", "deep/apps/main.tf"));
        assert!(owned("/apps/", "apps/main.tf"));
        assert!(!owned("/apps/", "deep/apps/main.tf"));
        assert!(owned("docs/*", "docs/a.md"));
        assert!(!owned("docs/*", "docs/deep/a.md"));
        assert!(owned("stacks/prod", "stacks/prod/vpc/main.tf"));
        assert!(owned("*", "anything/at/all"));
        assert!(!owned("!stacks/", "stacks/main.tf"));
    }
}
