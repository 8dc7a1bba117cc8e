//! The glob dialect of every glob key (spec 10 §12, "Globs").
//!
//! `**` any number of directories, `*` and `?` within one segment, `[abc]`, `[^a]`, `[!a]`, `{a,b}`, `\` escapes.
//! A glob always stands for the whole path, counted from the base its key has; it never switches that base.
//! `dir/**` matches `dir` itself as well as everything below; `dir/` is another way to write `dir`.

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
pub struct PathGlobs {
    set: GlobSet,
    /// Some glob ends in `/**`, so directories must be asked for with a slash behind them too.
    has_trees: bool,
}

impl PathGlobs {
    /// Compiles globs, all or nothing.
    pub fn new(globs: &[String]) -> Result<Self, GlobError> {
        let compiled: Result<Vec<Glob>, GlobError> = globs.iter().map(|glob| compile(glob)).collect();
        Self::of(globs, &compiled?)
    }

    /// Compiles the globs that can be, and gives back what is wrong with the others.
    pub fn lenient(globs: &[String]) -> (Self, Vec<GlobError>) {
        let (mut valid, mut compiled, mut invalid) = (Vec::new(), Vec::new(), Vec::new());
        for glob in globs {
            match compile(glob) {
                Ok(glob_compiled) => {
                    valid.push(glob.clone());
                    compiled.push(glob_compiled);
                }
                Err(error) => invalid.push(error),
            }
        }
        let set = Self::of(&valid, &compiled).unwrap_or_else(|error| {
            invalid.push(error);
            Self { set: GlobSet::empty(), has_trees: false }
        });
        (set, invalid)
    }

    fn of(globs: &[String], compiled: &[Glob]) -> Result<Self, GlobError> {
        let mut builder = GlobSetBuilder::new();
        for glob in compiled {
            builder.add(glob.clone());
        }
        let set = builder.build().map_err(|error| glob_error(error.glob().unwrap_or_default(), &error))?;
        Ok(Self { set, has_trees: globs.iter().any(|glob| glob.contains("/**")) })
    }

    /// Whether any glob matches the path: normalised, relative to the base of the key, empty for the base itself.
    pub fn matches(&self, path: &str) -> bool {
        self.set.is_match(path) || (self.has_trees && self.set.is_match(format!("{path}/")))
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
    GlobBuilder::new(glob.strip_suffix('/').unwrap_or(glob))
        .literal_separator(true)
        .backslash_escape(true)
        .empty_alternates(true)
        .build()
        .map_err(|error| glob_error(glob, &error))
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
