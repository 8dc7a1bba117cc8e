//! The glob dialect of every glob key (spec 10 §12, "Globs").
//!
//! `**` any number of directories, `*` and `?` within one segment, `[abc]`, `[^a]`, `[!a]`, `{a,b}`, `\` escapes.
//! A glob always stands for the whole path, counted from the base its key has; it never switches that base.
//! `dir/**` matches `dir` itself as well as everything below; `dir/` is another way to write `dir`.
//!
//! - `parts`: globs as texts.

pub mod parts;

use globset::{Error, Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Most bytes of one glob; paths are shorter than this.
const GLOB_BYTES_MAX: usize = 1024;

/// Why a text is no glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{glob:?}: {reason}")]
pub struct GlobError {
    pub glob: String,
    pub reason: String,
}

/// A set of globs; a path matches when any of them does.
#[derive(Debug, Clone)]
pub struct PathGlobs(GlobSet);

impl PathGlobs {
    /// Compiles globs, all or nothing.
    pub fn new(globs: &[String]) -> Result<Self, GlobError> {
        let compiled: Result<Vec<Glob>, GlobError> = globs.iter().map(|glob| compile(glob)).collect();
        Self::of(&compiled?)
    }

    /// Compiles the globs that can be, and gives back what is wrong with the others.
    pub fn lenient(globs: &[String]) -> (Self, Vec<GlobError>) {
        let (mut compiled, mut invalid) = (Vec::new(), Vec::new());
        for glob in globs {
            match compile(glob) {
                Ok(glob) => compiled.push(glob),
                Err(error) => invalid.push(error),
            }
        }
        let set = Self::of(&compiled).unwrap_or_else(|error| {
            invalid.push(error);
            Self(GlobSet::empty())
        });
        (set, invalid)
    }

    fn of(compiled: &[Glob]) -> Result<Self, GlobError> {
        let mut builder = GlobSetBuilder::new();
        for glob in compiled {
            builder.add(glob.clone());
        }
        builder.build().map(Self).map_err(|error| glob_error(error.glob().unwrap_or_default(), &error))
    }

    /// Whether any glob matches the path: normalised, relative to the base of the key, empty for the base itself.
    pub fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }

    /// The places of all globs that match, in the order in which they were given.
    pub fn matching(&self, path: &str) -> Vec<usize> {
        self.0.matches(path)
    }
}

/// Whether a glob is well formed.
pub fn check(glob: &str) -> Result<(), GlobError> {
    compile(glob).map(|_| ())
}

fn compile(glob: &str) -> Result<Glob, GlobError> {
    if glob.len() > GLOB_BYTES_MAX {
        let reason = format!("longer than {GLOB_BYTES_MAX} bytes");
        return Err(GlobError { glob: glob.chars().take(80).collect(), reason });
    }
    if glob.is_empty() {
        return Err(GlobError { glob: String::new(), reason: "empty glob".to_owned() });
    }
    GlobBuilder::new(&with_tree_tops(glob.strip_suffix('/').unwrap_or(glob)))
        .literal_separator(true)
        .backslash_escape(true)
        .empty_alternates(true)
        .build()
        .map_err(|error| glob_error(glob, &error))
}

/// Every `/**` that ends a glob or an alternative, made optional: `dir/**` is `dir` as well as everything below.
fn with_tree_tops(glob: &str) -> String {
    let mut written = String::with_capacity(glob.len() + 4);
    let (mut is_escaped, mut in_class) = (false, false);
    for (at, c) in glob.char_indices() {
        let is_literal = is_escaped || in_class;
        let ends_a_tree = !is_literal && (c == ',' || c == '}');
        if ends_a_tree {
            make_optional(&mut written);
        }
        is_escaped = !is_escaped && c == '\\';
        in_class = match c {
            '[' if !is_literal => true,
            // A bracket right behind the opening one, or behind its negation, belongs to the class.
            ']' if in_class && !is_escaped => glob[..at].ends_with(['[', '!', '^']),
            _ => in_class,
        };
        written.push(c);
    }
    make_optional(&mut written);
    written
}

fn make_optional(written: &mut String) {
    let directory = written.trim_end_matches("/**");
    if directory.len() < written.len() && !directory.is_empty() && !directory.ends_with('\\') {
        *written = format!("{directory}{{,/**}}");
    }
}

fn glob_error(glob: &str, error: &Error) -> GlobError {
    GlobError { glob: glob.to_owned(), reason: error.kind().to_string() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(glob: &str, path: &str) -> bool {
        PathGlobs::new(&[glob.to_owned()]).unwrap().matches(path)
    }

    #[test]
    fn globs_match_whole_paths_as_the_table_says() {
        for (glob, path, expected) in [
            ("stacks/**", "stacks", true),
            ("stacks/**", "stacks/a", true),
            ("stacks/**", "stacks/a/b", true),
            ("stacks/**", "stacks2/a", false),
            ("stacks/**", "x/stacks/a", false),
            ("**", "", true),
            ("**", "a/b", true),
            ("**/*.md", "README.md", true),
            ("**/*.md", "a/b/c.md", true),
            ("**/README*", "a/README", true),
            ("**/README*", "a/README/b", false),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/b", "a/b/c", false),
            ("a/b/", "a/b", true),
            ("a/b/", "a/b/c", false),
            ("a/*", "a/b", true),
            ("a/*", "a/b/c", false),
            ("a/*", "a", false),
            ("a/*", "a/.hidden", true),
            ("a/?", "a/b", true),
            ("a/?", "a/bc", false),
            ("a?b", "a/b", false),
            ("[abc]", "b", true),
            ("[^a]", "a", false),
            ("[!a]", "b", true),
            ("a[^x]b", "a/b", false),
            ("{a,b}/**", "b", true),
            ("{a/**,b}", "a/x", true),
            ("{a,b}", "c", false),
            (r"\*", "*", true),
            (r"\*", "x", false),
            ("**/.terraform.lock.hcl", "a/.terraform.lock.hcl", true),
        ] {
            assert_eq!(matches(glob, path), expected, "{glob} on {path:?}");
        }
    }

    #[test]
    fn a_tree_beside_another_glob_does_not_change_what_that_one_matches() {
        let set = PathGlobs::new(&["stacks/**".to_owned(), "a/*".to_owned(), "{b/**,c/*,d/e/**}".to_owned()]).unwrap();
        for (path, expected) in
            [("a", false), ("a/x", true), ("c", false), ("b", true), ("d/e", true), ("d", false), ("stacks", true)]
        {
            assert_eq!(set.matches(path), expected, "{path}");
        }
        assert!(!matches(r"a/\**", "a"), "an escaped star is no tree");
        assert!(!matches("a/[,]/**x", "a/,"));
    }

    #[test]
    fn malformed_globs_are_refused() {
        for glob in ["", "[a", "{a", "a}", r"a\", "[z-a]"] {
            assert!(check(glob).is_err(), "{glob:?}");
        }
        assert!(check(&"?".repeat(GLOB_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn a_lenient_set_keeps_the_good_globs_and_names_the_others() {
        let (set, invalid) = PathGlobs::lenient(&["[a".to_owned(), "docs/**".to_owned()]);
        assert!(set.matches("docs/x"));
        assert_eq!(invalid.iter().map(|error| error.glob.as_str()).collect::<Vec<_>>(), ["[a"]);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_glob_panic(glob in r"[a/*?\[\]{},!^\\.-]{0,24}", path in "[a/.]{0,12}") {
            if let Ok(set) = PathGlobs::new(&[glob]) {
                set.matches(&path);
            }
        }
    }
}
