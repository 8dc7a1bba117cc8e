//! Known secret values, in every form they may be written in.
//!
//! One automaton finds them all, so the time does not depend on how many there are.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::Anchored;
use aho_corasick::automaton::Automaton;
use aho_corasick::nfa::contiguous::NFA;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::MASK;

/// Words of a name that make its value a secret.
const SECRET_WORDS: [&str; 10] = [
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "APIKEY",
    "API_KEY",
    "PRIVATE_KEY",
    "CREDENTIAL",
    "CREDENTIALS",
];

/// Shorter values would mask half of any text.
const LITERAL_BYTES_MIN: usize = 4;

/// What is left of a literal once the stars at its ends are gone may be a little shorter.
const PIECE_BYTES_MIN: usize = 3;

/// Longer values (whole manifests) are not looked for in their URL forms and in base64 of the URL alphabet.
const LONG_LITERAL_BYTES: usize = 16 * 1024;

/// The automaton takes about forty times this. With more secrets than that, everything is withheld.
const FORM_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Whether a name says that its value is a secret: one of the words, delimited by `_` or the ends, in any case.
pub fn is_secret_name(name: &str) -> bool {
    let delimited = format!("_{}_", name.to_ascii_uppercase().replace('-', "_"));
    SECRET_WORDS.iter().any(|word| delimited.contains(&format!("_{word}_")))
}

/// Short values, booleans and numbers would mask what is no secret.
pub(super) fn is_worth_masking(value: &str) -> bool {
    let value = value.trim();
    let is_boolean = ["t", "f", "true", "false"].iter().any(|word| value.eq_ignore_ascii_case(word));
    value.len() >= LITERAL_BYTES_MIN && !is_boolean && value.parse::<f64>().is_err()
}

/// The lines of a value that are long enough to be masked on their own.
pub(super) fn lines_of(value: &str) -> impl Iterator<Item = &str> {
    value.split(['\n', '\r']).map(str::trim).filter(|line| line.len() >= LITERAL_BYTES_MIN)
}

/// Finds any of the literals in any of their forms.
#[derive(Clone, Default)]
pub(super) enum Matcher {
    #[default]
    Nothing,
    Forms(Arc<Forms>),
    /// More secrets than can be looked for: nobody may see anything.
    TooMany,
}

pub(super) struct Forms {
    automaton: NFA,
}

impl Matcher {
    pub(super) fn of(literals: &BTreeSet<String>) -> Self {
        let mut forms = BTreeSet::new();
        let mut bytes = 0;
        for literal in literals {
            for form in forms_of(literal) {
                for piece in pieces_of(&form) {
                    if forms.insert(piece.to_owned()) {
                        bytes += piece.len();
                    }
                }
            }
            if bytes > FORM_BYTES_MAX {
                return Self::TooMany;
            }
        }
        if forms.is_empty() {
            return Self::Nothing;
        }
        NFA::new(&forms).map_or(Self::TooMany, |automaton| Self::Forms(Arc::new(Forms { automaton })))
    }

    /// Every place of every form. Of those that end at one place only the longest, which covers the others.
    pub(super) fn find(&self, text: &str) -> Option<Vec<Range<usize>>> {
        match self {
            Self::Nothing => Some(Vec::new()),
            Self::Forms(forms) => forms.find(text),
            Self::TooMany => None,
        }
    }
}

impl Forms {
    fn find(&self, text: &str) -> Option<Vec<Range<usize>>> {
        let automaton = &self.automaton;
        let mut state = automaton.start_state(Anchored::No).ok()?;
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (at, byte) in text.bytes().enumerate() {
            state = automaton.next_state(Anchored::No, state, byte);
            if !automaton.is_match(state) {
                continue;
            }
            // A state lists its own form first, then the shorter ones that end like it.
            let length = automaton.pattern_len(automaton.match_pattern(state, 0));
            let found = at + 1 - length..at + 1;
            match ranges.last_mut() {
                // Keeps the list short where matches overlap; what starts earlier was found earlier or is covered.
                Some(last) if found.start >= last.start && found.start <= last.end => last.end = found.end,
                _ => ranges.push(found),
            }
        }
        Some(ranges)
    }
}

/// Every way a secret may be written: as it is, line by line, and as JSON, HCL, URL or base64.
fn forms_of(literal: &str) -> BTreeSet<String> {
    let literal = literal.trim();
    let mut forms = BTreeSet::from([literal.to_owned()]);
    forms.extend(escaped_forms(literal));
    if literal.contains(['\n', '\r']) {
        for line in lines_of(literal) {
            forms.insert(line.to_owned());
            forms.extend(escaped_forms(line));
        }
    }
    let is_long = literal.len() > LONG_LITERAL_BYTES;
    forms.insert(STANDARD.encode(literal));
    for skipped in 0..3 {
        forms.insert(base64_inside(&STANDARD_NO_PAD, literal, skipped));
        if !is_long {
            forms.insert(base64_inside(&URL_SAFE_NO_PAD, literal, skipped));
        }
    }
    if !is_long {
        forms.extend(url_forms(literal));
    }
    forms.retain(|form| form.len() >= LITERAL_BYTES_MIN);
    forms
}

/// As JSON writes it, as Go's JSON writes it, and as Terraform quotes it.
fn escaped_forms(literal: &str) -> [String; 3] {
    let quoted = serde_json::Value::from(literal).to_string();
    let json = quoted[1..quoted.len() - 1].to_owned();
    let go = json
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let hcl = json.replace("${", "$${").replace("%{", "%%{");
    [json, go, hcl]
}

/// Percent-encoded as strictly as possible, with `+` for a blank, and as browsers' scripts do it.
fn url_forms(literal: &str) -> [String; 3] {
    let encode = |kept: &str| -> String {
        literal
            .bytes()
            .map(|byte| match byte {
                _ if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            })
            .collect()
    };
    let strict = encode("-_.~");
    let form = strict.replace("%20", "+");
    [strict, form, encode("-_.~!'()*")]
}

/// The characters of base64 that only this literal decides when it starts `skipped` bytes into a group of three.
fn base64_inside(engine: &impl Engine, literal: &str, skipped: usize) -> String {
    let mut bytes = vec![0; skipped];
    bytes.extend_from_slice(literal.as_bytes());
    let encoded = engine.encode(&bytes);
    let first = (skipped * 8).div_ceil(6);
    let end = bytes.len() * 8 / 6;
    encoded.get(first..end).unwrap_or_default().to_owned()
}

/// A form without the stars that could be part of a mask, else masking would change what is found the next time.
fn pieces_of(form: &str) -> impl Iterator<Item = &str> {
    form.split(MASK).map(|piece| piece.trim_matches('*')).filter(|piece| piece.len() >= PIECE_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_secret_by_their_delimited_words() {
        for name in
            ["DB_PASSWORD", "API_KEY_2", "token", "my-secret", "AWS_SECRET_ACCESS_KEY", "X_APIKEY", "CREDENTIALS"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["MYTOKEN", "TOKENS", "API", "KEY", "PASSWORDLESS", ""] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn short_values_booleans_and_numbers_are_not_worth_masking() {
        for value in ["abc", " ab ", "true", "FALSE", "t", "1", "12345678", "1.5e3", ""] {
            assert!(!is_worth_masking(value), "{value:?}");
        }
        for value in ["abcd", "1234-5678", "truest"] {
            assert!(is_worth_masking(value), "{value:?}");
        }
    }

    #[test]
    fn base64_is_found_at_each_of_its_three_offsets() {
        for prefix in ["", "a", "ab", "abc"] {
            let encoded = STANDARD.encode(format!("{prefix}hunter2-hunter2-tail"));
            let inside = base64_inside(&STANDARD_NO_PAD, "hunter2-hunter2", prefix.len() % 3);
            assert!(encoded.contains(&inside) && inside.len() >= 18, "{prefix:?}");
        }
    }

    #[test]
    fn the_longest_form_that_ends_somewhere_wins() {
        let literals = BTreeSet::from(["cdef".to_owned(), "abcdef".to_owned(), "efgh".to_owned()]);
        let ranges = Matcher::of(&literals).find("xabcdefghx").unwrap();
        assert_eq!((ranges.len(), ranges[0].clone()), (1, 1..9));
    }

    #[test]
    fn with_too_many_secrets_nothing_is_searched() {
        let huge = BTreeSet::from(["x".repeat(FORM_BYTES_MAX / 2), "y".repeat(FORM_BYTES_MAX / 2)]);
        assert!(Matcher::of(&huge).find("text").is_none());
    }
}
