//! What a `depends_on` or `ignore_inferred` entry points at (spec 10 §7).

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{RepoName, StackKey, normalise_key, split_key};

/// A parsed entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// A stack of this repository, as written: not yet resolved to an instance.
    Local(StackKey),
    /// A stack of another repository, never resolved further.
    External { repo: RepoName, key: StackKey },
}

impl Reference {
    /// Parses a rendered entry. With the name of this repository, entries naming it are local.
    pub fn parse(entry: &str, this_repo: Option<&str>) -> Result<Self, String> {
        let entry = entry.trim();
        if entry.is_empty() {
            return Err("empty stack reference".to_owned());
        }
        let Some((repo, key)) = entry.split_once("//") else {
            return Ok(Reference::Local(parse_key(entry)?));
        };
        let repo = RepoName::parse(repo).map_err(|_| format!("repository {repo:?} must be owner/repo"))?;
        let key = parse_key(key)?;
        Ok(if this_repo.is_some_and(|this| repo.same_as(this)) {
            Reference::Local(key)
        } else {
            Reference::External { repo, key }
        })
    }
}

fn parse_key(text: &str) -> Result<StackKey, String> {
    let normal = normalise_key(text);
    let leaves = |path: &str| path == ".." || path.starts_with("../");
    if text.starts_with(['/', '\\']) || leaves(split_key(&normal).0) {
        return Err("must be repository relative".to_owned());
    }
    if split_key(&normal).0.is_empty() {
        return Err("empty path".to_owned());
    }
    StackKey::parse(text).map_err(|error| error.to_string())
}

/// The stacks of a repository by directory, for resolving local entries.
#[derive(Debug, Clone, Default)]
pub struct KnownStacks(BTreeMap<String, BTreeSet<String>>);

/// What a local entry came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    Known(StackKey),
    /// No stack that is known: the key as written.
    Unknown(StackKey),
}

impl Resolved {
    pub fn key(&self) -> &StackKey {
        match self {
            Resolved::Known(key) | Resolved::Unknown(key) => key,
        }
    }
}

impl<'k> FromIterator<&'k str> for KnownStacks {
    fn from_iter<I: IntoIterator<Item = &'k str>>(keys: I) -> Self {
        let mut known = Self::default();
        for key in keys {
            let (path, instance) = split_key(key);
            known.0.entry(path.to_owned()).or_default().insert(instance.unwrap_or("").to_owned());
        }
        known
    }
}

impl KnownStacks {
    /// Resolves an entry of a stack whose own instance is `own_instance` (empty when unnamed), in the order of §7:
    /// the exact key, a suffix as written, the instance of the same name, the only stack of the directory.
    pub fn resolve(&self, written: &StackKey, own_instance: &str) -> Resolved {
        let Some(instances) = self.0.get(written.path()) else { return Resolved::Unknown(written.clone()) };
        if instances.contains(written.instance()) {
            return Resolved::Known(written.clone());
        }
        if !written.instance().is_empty() {
            return Resolved::Unknown(written.clone());
        }
        let chosen = if instances.contains(own_instance) {
            Some(own_instance)
        } else {
            instances.first().filter(|_| instances.len() == 1).map(String::as_str)
        };
        match chosen.map(|instance| StackKey::of(written.path(), instance)) {
            Some(Ok(key)) => Resolved::Known(key),
            Some(Err(_)) | None => Resolved::Unknown(written.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn local(key: &str) -> Result<Reference, String> {
        Ok(Reference::Local(StackKey::parse(key).unwrap()))
    }

    fn external(repo: &str, key: &str) -> Result<Reference, String> {
        Ok(Reference::External { repo: RepoName::parse(repo).unwrap(), key: StackKey::parse(key).unwrap() })
    }

    #[test]
    fn entries_mean_what_the_table_says() {
        let parse = |entry| Reference::parse(entry, Some("acme/infra"));
        assert_eq!(parse("live/vpc"), local("live/vpc"));
        assert_eq!(parse(" ./live/network/:prod "), local("live/network:prod"));
        assert_eq!(parse("acme/net//live/tgw"), external("acme/net", "live/tgw"));
        assert_eq!(parse("acme/net//live/tgw:prod"), external("acme/net", "live/tgw:prod"));
        assert_eq!(parse("ACME/Infra//live/vpc"), local("live/vpc"));
    }

    #[test]
    fn entries_that_point_nowhere_are_refused() {
        for (entry, says) in [
            ("", "empty"),
            ("  ", "empty"),
            ("live//vpc", "owner/repo"),
            ("a/b/c//x", "owner/repo"),
            ("//x", "owner/repo"),
            ("/live/vpc", "repository relative"),
            ("\\live", "repository relative"),
            ("../x", "repository relative"),
            ("acme/net///x", "repository relative"),
            ("acme/net//", "empty"),
            (".", "empty"),
            (":prod", "empty"),
        ] {
            let error = Reference::parse(entry, None).expect_err(entry);
            assert!(error.contains(says), "{entry:?}: {error}");
        }
    }

    #[test]
    fn local_entries_resolve_in_the_order_of_the_spec() {
        let known: KnownStacks =
            ["live/vpc", "live/net:prod", "live/net:dev", "live/dns:shared", "live/mixed", "live/mixed:prod"]
                .into_iter()
                .collect();
        let resolve = |written: &str| known.resolve(&StackKey::parse(written).unwrap(), "prod");
        let found = |key: &str| Resolved::Known(StackKey::parse(key).unwrap());
        let lost = |key: &str| Resolved::Unknown(StackKey::parse(key).unwrap());

        assert_eq!(resolve("live/vpc"), found("live/vpc"));
        assert_eq!(resolve("live/mixed"), found("live/mixed"));
        assert_eq!(resolve("live/net:qa"), lost("live/net:qa"));
        assert_eq!(resolve("live/net"), found("live/net:prod"));
        assert_eq!(resolve("live/dns"), found("live/dns:shared"));
        assert_eq!(resolve("live/none"), lost("live/none"));
        assert_eq!(known.resolve(&StackKey::parse("live/net").unwrap(), "qa"), lost("live/net"));
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(text in r"[a./\\:]{0,16}") {
            let once = normalise_key(&text);
            prop_assert_eq!(normalise_key(&once), once);
        }
    }
}
