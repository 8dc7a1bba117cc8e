//! Names and numbers that come from outside, parsed once and never re-checked.
//!
//! Holding one of these values is the proof that it was well formed. A copy of one shares its text: ids are copied with every
//! scene and name every entry of its maps.
//! Text that GitHub, a runner or a person sent becomes one of these types at the edge, or is refused there.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Why a text is not the name it should be. The message says what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct ParseError {
    pub text: String,
    pub expected: &'static str,
}

impl ParseError {
    pub fn new(text: impl Into<String>, expected: &'static str) -> Self {
        Self { text: text.into(), expected }
    }
}

/// Writes the string-backed traits of a parsed name once.
macro_rules! text_id {
    ($name:ident) => {
        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl FromStr for $name {
            type Err = ParseError;
            fn from_str(text: &str) -> Result<Self, ParseError> {
                Self::parse(text)
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

/// A stack: `path` or `path:instance`, normalised (spec 10 §1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackKey(Arc<str>);
text_id!(StackKey);

/// Most bytes of a stack key that anything accepts.
pub const STACK_KEY_BYTES_MAX: usize = 1024;

impl StackKey {
    /// Normalises and parses. Refuses the empty key, keys that leave the repository, control characters, and what
    /// would be another key when it is read again: blanks at its end, or `:default` twice.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if is_plain_path(text) {
            return Ok(Self(text.into()));
        }
        let bad = || ParseError::new(text, "a stack key such as stacks/prod/vpc or infra/kyc:production");
        let key = normalise_key(text);
        let (path, instance) = split_key(&key);
        let leaves = path == ".." || path.starts_with("../");
        if path.is_empty() || leaves || key.len() > STACK_KEY_BYTES_MAX || key.chars().any(char::is_control) {
            return Err(bad());
        }
        if normalise_key(&key) != key {
            return Err(bad());
        }
        if instance.is_some_and(|name| !is_instance_name(name)) {
            return Err(bad());
        }
        Ok(Self(key.into()))
    }

    /// The key of one instance of a directory; an empty instance or `default` means the unnamed one.
    pub fn of(path: &str, instance: &str) -> Result<Self, ParseError> {
        if instance.is_empty() { Self::parse(path) } else { Self::parse(&format!("{path}:{instance}")) }
    }

    pub fn path(&self) -> &str {
        split_key(&self.0).0
    }

    /// The instance name, empty for the unnamed instance.
    pub fn instance(&self) -> &str {
        split_key(&self.0).1.unwrap_or("")
    }

    /// The key as used in artifact names (spec 20 §6): separators become `-`, eight hex digits tell look-alikes apart.
    pub fn slug(&self) -> String {
        let digest = hex(&Sha256::digest(self.0.as_bytes()));
        format!("{}-{}", self.0.replace(['/', ':'], "-"), &digest[..8])
    }
}

/// What most keys are, and stays as it is when it is normalised: names of ASCII letters, digits, `_`, `-` and, not at their
/// beginning, `.`, between single slashes.
fn is_plain_path(text: &str) -> bool {
    let mut begins = true;
    for byte in text.bytes() {
        match byte {
            b'/' | b'.' if begins => return false,
            b'/' => begins = true,
            b'.' | b'_' | b'-' => begins = false,
            _ if byte.is_ascii_alphanumeric() => begins = false,
            _ => return false,
        }
    }
    !begins && text.len() <= STACK_KEY_BYTES_MAX
}

/// Letters, digits, `.`, `_`, `-`; first a letter or digit; 1 to 64; not `default` (spec 10 §4.1).
pub fn is_instance_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphanumeric())
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        && name.len() <= 64
        && !name.eq_ignore_ascii_case("default")
}

/// Splits at the last `:`; `(path, Some(instance))` or `(path, None)`.
pub fn split_key(key: &str) -> (&str, Option<&str>) {
    match key.rsplit_once(':') {
        Some((path, instance)) => (path, Some(instance)),
        None => (key, None),
    }
}

/// Path normalisation of spec 10 §1, instance suffix kept, `:default` dropped.
pub fn normalise_key(text: &str) -> String {
    let slashed = text.trim().replace('\\', "/");
    let (path, instance) = split_key(&slashed);
    let path = normalise_path(path);
    match instance {
        None | Some("default") => path,
        Some(instance) => format!("{path}:{instance}"),
    }
}

/// Cleans `.`, `..` and `//`, trims slashes; a path that leaves the root keeps its leading `..`; `.` is empty.
pub fn normalise_path(text: &str) -> String {
    let slashed = text.replace('\\', "/");
    let mut parts: Vec<&str> = Vec::new();
    for part in slashed.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// A full commit id: 40 or 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha(Arc<str>);
text_id!(Sha);

impl Sha {
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let hex = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hex && matches!(text.len(), 40 | 64) {
            Ok(Self(text.into()))
        } else {
            Err(ParseError::new(text, "a full commit id"))
        }
    }

    /// The seven characters people read.
    pub fn short(&self) -> &str {
        &self.0[..7]
    }
}

/// `owner/name`, as GitHub spells it. Comparison ignores case; see [`RepoName::same_as`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoName(Arc<str>);
text_id!(RepoName);

impl RepoName {
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let bad = || ParseError::new(text, "a repository such as acme/infra");
        let (owner, name) = text.split_once('/').ok_or_else(bad)?;
        let ok = |part: &str| {
            !part.is_empty()
                && part.len() <= 100
                && part != "."
                && part != ".."
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        if ok(owner) && ok(name) { Ok(Self(text.into())) } else { Err(bad()) }
    }

    pub fn owner(&self) -> &str {
        self.0.split_once('/').expect("checked by parse").0
    }

    pub fn name(&self) -> &str {
        self.0.split_once('/').expect("checked by parse").1
    }

    pub fn same_as(&self, other: &str) -> bool {
        self.0.eq_ignore_ascii_case(other)
    }
}

/// An id of ours: a UUID in lower-case hyphenated form.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);
        text_id!($name);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, ParseError> {
                match uuid::Uuid::try_parse(text) {
                    Ok(id) => Ok(Self(hyphenated(id))),
                    Err(_) => Err(ParseError::new(text, "a UUID")),
                }
            }

            /// From 16 bytes of the caller's random source, marked as a version 4 UUID.
            pub fn from_random(bytes: [u8; 16]) -> Self {
                Self(hyphenated(uuid::Builder::from_random_bytes(bytes).into_uuid()))
            }
        }
    };
}

uuid_id!(
    /// One pass over a set of stacks at one commit.
    RunId
);
uuid_id!(
    /// One `workflow_dispatch` call and what it carries.
    DispatchId
);
uuid_id!(
    /// The identity of a stack over all commits.
    StackId
);

impl StackId {
    /// Derived from repository id and key, so that everyone who knows the stack knows its id, without asking anybody.
    pub fn of(repo_id: i64, key: &str) -> Self {
        Self(derived(&format!("{repo_id}//{key}")))
    }
}

impl RunId {
    /// The re-plan of one wave of an apply run: there is at most one, so its id follows from what it is for.
    pub fn of_replan(apply: &RunId, wave: u32) -> Self {
        Self(derived(&format!("replan {apply} {wave}")))
    }
}

impl DispatchId {
    /// A dispatch is unique per run, wave, environment, mode and chunk (I6), so its id follows from them.
    pub fn of(run: &RunId, wave: u32, environment: &str, mode: &str, chunk: u32) -> Self {
        Self(derived(&format!("dispatch {run} {wave} {mode} {chunk} {environment}")))
    }
}

/// A UUID that follows from a text.
fn derived(text: &str) -> Arc<str> {
    let digest = Sha256::digest(text.as_bytes());
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&digest[..16]);
    hyphenated(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

fn hyphenated(id: uuid::Uuid) -> Arc<str> {
    (&*id.as_hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer())).into()
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_normalised_as_the_table_says() {
        for (written, normal) in [
            ("./live/net/", "live/net"),
            ("live//net", "live/net"),
            ("live\\net:eu-1.a", "live/net:eu-1.a"),
            ("live/a/../b:x", "live/b:x"),
            ("./live/net/:blue", "live/net:blue"),
            ("live/net:default", "live/net"),
        ] {
            assert_eq!(normalise_key(written), normal);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_plain_path_is_normal(text in "[ab._/-]{0,8}") {
            let is_key = normalise_key(&text) == text && !text.is_empty();
            // A name that begins with a point is normal too; it goes the long way.
            let has_point = text.split('/').any(|name| name.starts_with('.'));
            proptest::prop_assert_eq!(is_plain_path(&text), is_key && !has_point);
        }
    }

    #[test]
    fn slugs_match_the_published_vectors() {
        for (key, slug) in [
            ("stacks/prod/vpc", "stacks-prod-vpc-69df0ef0"),
            ("stacks/prod/apps", "stacks-prod-apps-4b32b4c4"),
            ("infra/network:production", "infra-network-production-2ebae875"),
            ("a/b", "a-b-c14cddc0"),
            ("a-b", "a-b-d44362d6"),
        ] {
            assert_eq!(StackKey::parse(key).unwrap().slug(), slug);
        }
    }

    #[test]
    fn keys_that_leave_the_repository_are_refused() {
        for key in ["", ".", "..", "../x", "a/../..", "a:b c", "a:-x", "a\u{0}b"] {
            assert!(StackKey::parse(key).is_err(), "{key:?}");
        }
    }

    #[test]
    fn a_stack_has_the_same_id_everywhere() {
        assert_eq!(StackId::of(7, "a/b"), StackId::of(7, "a/b"));
        assert_ne!(StackId::of(7, "a/b"), StackId::of(8, "a/b"));
    }
}
