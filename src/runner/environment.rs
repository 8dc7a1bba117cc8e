//! The environment of the process as a value, read once, so that everything below can be handed another one.

use std::collections::BTreeMap;
use std::fmt;

/// The variables of a process. Names or values that are no Unicode are left out, for the tool too.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// That of this process.
    pub fn of_process() -> Self {
        let unicode = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self { variables: std::env::vars_os().filter_map(unicode).collect() }
    }

    /// With one more variable, or another value for it.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// Without the variables that a predicate names.
    pub fn without(mut self, is_out: impl Fn(&str) -> bool) -> Self {
        self.variables.retain(|name, _| !is_out(name));
        self
    }

    /// The value, if it is set and not blank.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.trim().is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether this is a job of GitHub Actions.
    pub fn is_actions(&self) -> bool {
        self.get("GITHUB_ACTIONS") == Some("true")
    }
}

/// Values may be secrets, so only their number is shown.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("variables", &self.variables.len()).finish_non_exhaustive()
    }
}
