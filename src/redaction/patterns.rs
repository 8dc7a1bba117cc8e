//! What looks like a secret although nobody said so.
//!
//! Every scanner reads forwards once. A match hangs only on what stands directly before and in the masked part,
//! and a masked part never begins with a mask: so redacting again finds nothing new.

use std::ops::Range;

use super::MASK;

/// Adds the ranges of everything that looks secret.
pub(super) fn find(text: &str, ranges: &mut Vec<Range<usize>>) {
    find_private_keys(text, ranges);
    find_web_tokens(text, ranges);
    for shape in TOKEN_SHAPES {
        shape.find(text, ranges);
    }
    find_url_passwords(text, ranges);
    find_assignments(text, ranges);
}

fn is_masked(value: &str) -> bool {
    value.starts_with(MASK)
}

/// How many bytes from the start are of the kind.
fn run(text: &str, kind: fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| kind(*byte)).count()
}

// -- PEM ------------------------------------------------------------------------------------------------------------

const PEM_DASHES: &str = "-----";
const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_END: &str = "-----END ";

/// The longest label in use is about half of this.
const PEM_LABEL_BYTES_MAX: usize = 64;

/// The body between BEGIN and END lines, or to the end of the text when there is no END.
fn find_private_keys(text: &str, ranges: &mut Vec<Range<usize>>) {
    let mut from = 0;
    while let Some(begin) = private_key_marker(text, from, PEM_BEGIN) {
        let body_start = text.len() - text[begin.end..].trim_start().len();
        if !is_private_key_body(&text[body_start..]) {
            from = begin.end;
            continue;
        }
        let end = private_key_end(text, body_start).map_or(text.len(), |end| end.start);
        ranges.push(body_start..body_start + text[body_start..end].trim_end().len());
        // A marker may share the dashes of the one before, so the END line is read again.
        from = end;
    }
}

/// Not the mask of an earlier redaction, and not the next marker, whole or masked in part.
pub(super) fn is_private_key_body(body: &str) -> bool {
    !body.is_empty() && !is_masked(body) && !body.starts_with("--")
}

/// The next marker of a private key from a place on: all of `-----BEGIN … PRIVATE KEY-----`.
fn private_key_marker(text: &str, mut from: usize, opening: &str) -> Option<Range<usize>> {
    loop {
        let start = from + text[from..].find(opening)?;
        let label = start + opening.len();
        let label_end = label + run(&text[label..], |b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b' ');
        let name = &text[label..label_end];
        let is_private_key = name.ends_with("PRIVATE KEY") || name.ends_with("PRIVATE KEY BLOCK");
        if is_private_key && name.len() <= PEM_LABEL_BYTES_MAX && text[label_end..].starts_with(PEM_DASHES) {
            return Some(start..label_end + PEM_DASHES.len());
        }
        from = label_end;
    }
}

/// Where the body of a private key begins that this text opens and does not close.
pub(super) fn open_private_key(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let begin = private_key_marker(text, from, PEM_BEGIN)?;
        let body = text[begin.end..].trim_start();
        from = match private_key_end(text, begin.end) {
            _ if !body.is_empty() && !is_private_key_body(body) => begin.end,
            Some(end) => end.start,
            None => return Some(begin.end),
        };
    }
}

/// The END line of a private key, from a place on.
pub(super) fn private_key_end(text: &str, from: usize) -> Option<Range<usize>> {
    private_key_marker(text, from, PEM_END)
}

// -- Tokens that show what they are ---------------------------------------------------------------------------------

/// A prefix and at least so many characters of a kind; the whole run is masked.
struct TokenShape {
    prefix: &'static str,
    length_min: usize,
    kind: fn(u8) -> bool,
}

const fn shape(prefix: &'static str, length_min: usize, kind: fn(u8) -> bool) -> TokenShape {
    TokenShape { prefix, length_min, kind }
}

const TOKEN_SHAPES: &[TokenShape] = &[
    shape("AKIA", 16, is_upper_alphanumeric),
    shape("ASIA", 16, is_upper_alphanumeric),
    shape("ghp_", 30, is_alphanumeric),
    shape("gho_", 30, is_alphanumeric),
    shape("ghu_", 30, is_alphanumeric),
    // An installation's may hold a JSON web token.
    shape("ghs_", 30, is_installation_token),
    shape("ghr_", 30, is_alphanumeric),
    shape("github_pat_", 30, is_word),
    shape("xoxa-", 10, is_dashed),
    shape("xoxb-", 10, is_dashed),
    shape("xoxp-", 10, is_dashed),
    shape("xoxr-", 10, is_dashed),
    shape("xoxs-", 10, is_dashed),
    // Beyond the specification's table.
    shape("AGE-SECRET-KEY-1", 50, is_upper_alphanumeric),
    shape("AIza", 35, is_base64url),
    shape("glpat-", 20, is_base64url),
    shape("npm_", 36, is_alphanumeric),
    shape("pypi-AgEI", 50, is_base64url),
    shape("sk_live_", 20, is_alphanumeric),
    shape("rk_live_", 20, is_alphanumeric),
];

impl TokenShape {
    fn find(&self, text: &str, ranges: &mut Vec<Range<usize>>) {
        let mut from = 0;
        while let Some(found) = text[from..].find(self.prefix) {
            let start = from + found;
            let rest = start + self.prefix.len();
            let length = run(&text[rest..], self.kind);
            if length >= self.length_min {
                ranges.push(start..rest + length);
                from = rest + length;
            } else {
                from = rest;
            }
        }
    }
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_installation_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

fn is_upper_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_dashed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// What every JSON object begins with in base64, hence both first parts of a JSON web token.
const JSON_IN_BASE64: &str = "eyJ";

/// Fewest characters of a part after [`JSON_IN_BASE64`].
const WEB_TOKEN_PART_MIN: usize = 5;

fn find_web_tokens(text: &str, ranges: &mut Vec<Range<usize>>) {
    let is_part =
        |part: &str| part.starts_with(JSON_IN_BASE64) && part.len() >= JSON_IN_BASE64.len() + WEB_TOKEN_PART_MIN;
    let mut from = 0;
    while let Some(found) = text[from..].find(JSON_IN_BASE64) {
        let start = from + found;
        let header_end = start + run(&text[start..], is_base64url);
        from = header_end;
        if !is_part(&text[start..header_end]) || !text[header_end..].starts_with('.') {
            continue;
        }
        let claims = header_end + 1;
        let claims_end = claims + run(&text[claims..], is_base64url);
        if !is_part(&text[claims..claims_end]) || !text[claims_end..].starts_with('.') {
            continue;
        }
        let signature = claims_end + 1;
        let end = signature + run(&text[signature..], is_base64url);
        if end > signature {
            ranges.push(start..end);
            from = end;
        }
    }
}

/// BL-105: the password of `scheme://user:password@host`.
fn find_url_passwords(text: &str, ranges: &mut Vec<Range<usize>>) {
    const AUTHORITY: &str = "://";
    let ends_authority = |b: u8| b.is_ascii_whitespace() || matches!(b, b'/' | b'"' | b'\'' | b'<' | b'>' | b'\\');
    let mut from = 0;
    while let Some(found) = text[from..].find(AUTHORITY) {
        let user = from + found + AUTHORITY.len();
        let length = text[user..].bytes().take_while(|byte| !ends_authority(*byte)).count();
        from = user;
        let authority = &text[user..user + length];
        let Some((name, _)) = authority.split_once([':', '@']) else { continue };
        let password = user + name.len() + 1;
        let Some(end) = authority.rfind('@').map(|at| user + at) else { continue };
        if !authority[name.len()..].starts_with(':') || end <= password {
            continue;
        }
        if !name.contains(MASK) && !text[password..end].contains(MASK) {
            ranges.push(password..end);
        }
    }
}

// -- Names with values ----------------------------------------------------------------------------------------------

const KEY_ENDINGS: [&str; 4] = ["password", "passwd", "secret", "token"];

/// Whether the string values of such a key are masked in text, so that they can be masked without the text around.
pub fn is_secret_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    KEY_ENDINGS.iter().any(|ending| key.ends_with(ending))
}

/// Fewest characters of an AWS secret key; real ones have forty.
const AWS_SECRET_LENGTH_MIN: usize = 16;

fn find_assignments(text: &str, ranges: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        at += 1;
        // Sparing the look at every ending for most bytes.
        if !matches!(bytes[start], b'p' | b'P' | b's' | b'S' | b't' | b'T') {
            continue;
        }
        if let Some(end) = aws_secret_name(bytes, start) {
            let value = aws_secret_value(text, end);
            ranges.extend(value.clone());
            at = value.map_or(end, |value| value.end);
            continue;
        }
        let Some(ending) = KEY_ENDINGS.into_iter().find(|ending| starts_with_ignoring_case(&bytes[start..], ending))
        else {
            continue;
        };
        let end = start + ending.len();
        let is_upper = text[start..end].bytes().all(|byte| byte.is_ascii_uppercase());
        let values = quoted_values(text, end);
        let value = if is_upper { unquoted_value(text, end) } else { None };
        at = values.iter().flatten().chain(&value).map(|value| value.end).max().unwrap_or(end);
        ranges.extend(values.into_iter().flatten().chain(value).filter(|value| !value.is_empty()));
    }
}

fn starts_with_ignoring_case(bytes: &[u8], word: &str) -> bool {
    bytes.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}

/// The end of `secret_access_key`, with or without its underscores.
fn aws_secret_name(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    for (index, word) in ["secret", "access", "key"].into_iter().enumerate() {
        if index > 0 && bytes.get(at) == Some(&b'_') {
            at += 1;
        }
        if !starts_with_ignoring_case(&bytes[at..], word) {
            return None;
        }
        at += word.len();
    }
    Some(at)
}

fn aws_secret_value(text: &str, name_end: usize) -> Option<Range<usize>> {
    let value = after_separator(text, name_end)?;
    let start = value + Quote::at(&text[value..]).map_or(0, Quote::length);
    let length = run(&text[start..], is_base64);
    (length >= AWS_SECRET_LENGTH_MIN).then_some(start..start + length)
}

/// The quoted value of a key, and the second one of Terraform's `"old" -> "new"`. Empty ones are returned as such.
fn quoted_values(text: &str, key_end: usize) -> [Option<Range<usize>>; 2] {
    let Some((old, after)) = after_separator(text, key_end).and_then(|at| quoted_value(text, at)) else {
        return [None, None];
    };
    let arrow = after + blanks(&text[after..]);
    let new = text[arrow..].strip_prefix("->").map(|rest| arrow + 2 + blanks(rest));
    [Some(old), new.and_then(|at| quoted_value(text, at)).map(|(new, _)| new)]
}

/// The value behind an opening quote, to its closing one or to the end of the line, and the place after that.
fn quoted_value(text: &str, at: usize) -> Option<(Range<usize>, usize)> {
    let quote = Quote::at(&text[at..])?;
    let start = at + quote.length();
    if is_masked(&text[start..]) {
        return None;
    }
    let bytes = text.as_bytes();
    let mut end = start;
    while let Some(byte) = bytes.get(end) {
        match (byte, quote) {
            (b'\n', _) => return Some((start..end, end)),
            (b'"', Quote::Double) | (b'\'', Quote::Single) => return Some((start..end, end + 1)),
            (b'\\', Quote::EscapedDouble) if bytes.get(end + 1) == Some(&b'"') => return Some((start..end, end + 2)),
            (b'"', Quote::EscapedDouble) => return Some((start..end, end)),
            (b'\\', _) if bytes.get(end + 1).is_some_and(|next| next.is_ascii() && *next != b'\n') => end += 2,
            _ => end += 1,
        }
    }
    Some((start..end, end))
}

/// `NAME=value` as shells and `.env` files write it, to the next blank.
fn unquoted_value(text: &str, name_end: usize) -> Option<Range<usize>> {
    let value = text[name_end..].strip_prefix('=')?;
    let start = name_end + 1;
    if Quote::at(value).is_some() || is_masked(value) {
        return None;
    }
    let length = run(value, |byte| !byte.is_ascii_whitespace());
    (length > 0).then_some(start..start + length)
}

/// The place of the value in `key: value`, `"key" = value`, `key => value`.
fn after_separator(text: &str, key_end: usize) -> Option<usize> {
    let mut at = key_end + Quote::at(&text[key_end..]).map_or(0, Quote::length);
    at += blanks(&text[at..]);
    if !text[at..].starts_with([':', '=']) {
        return None;
    }
    at += 1;
    if text[at..].starts_with(['=', '>']) {
        at += 1;
    }
    Some(at + blanks(&text[at..]))
}

fn blanks(text: &str) -> usize {
    run(text, |byte| matches!(byte, b' ' | b'\t'))
}

#[derive(Clone, Copy)]
enum Quote {
    Double,
    Single,
    /// A double quote inside a JSON string.
    EscapedDouble,
}

impl Quote {
    fn at(text: &str) -> Option<Self> {
        match text.as_bytes() {
            [b'"', ..] => Some(Self::Double),
            [b'\'', ..] => Some(Self::Single),
            [b'\\', b'"', ..] => Some(Self::EscapedDouble),
            _ => None,
        }
    }

    fn length(self) -> usize {
        match self {
            Self::Double | Self::Single => 1,
            Self::EscapedDouble => 2,
        }
    }
}
