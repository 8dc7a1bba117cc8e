//! Comment text to a command; everything else is "not for us" (spec 24 §8, 30 §10).
//!
//! This module only reads. Who commented, whether the comment was edited, and whether the named stacks exist
//! are questions of the caller. A key is whatever the person typed: nothing here, and nothing later, runs it.

use std::borrow::Cow;
use std::fmt;

use crate::ids::normalise_key;

/// GitHub takes 65,536 characters of comment, at most four bytes each; a longer text did not come from a person.
pub const COMMENT_BYTES_MAX: usize = 4 * 65_536;

/// From this column on a line is an indented code block.
const CODE_INDENT_COLUMNS: usize = 4;

/// Fewest back-ticks or tildes of a code fence.
const FENCE_LENGTH_MIN: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Plan,
    Apply,
    Unlock,
    Help,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Unlock => "unlock",
            Self::Help => "help",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Plan, Self::Apply, Self::Unlock, Self::Help]
            .into_iter()
            .find(|verb| word.eq_ignore_ascii_case(verb.as_str()))
    }
}

/// What a comment asks for. No keys means all; `help` never has any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub verb: Verb,
    /// As typed but normalised, without duplicates, in the order of the comment. Not checked against any stack.
    pub keys: Vec<String>,
}

impl Command {
    /// The command as a person would type it again: `stackorder apply a b`.
    pub fn canonical(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stackorder {}", self.verb.as_str())?;
        self.keys.iter().try_for_each(|key| write!(f, " {key}"))
    }
}

/// What a comment is to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// No line speaks to us: no answer, no reaction.
    NotForUs,
    /// It speaks to us with a verb we do not have: answered with the help text.
    Help,
    Command(Command),
}

/// Reads a comment: the first line that is a command wins.
pub fn parse_comment(body: &str) -> Parsed {
    if body.len() > COMMENT_BYTES_MAX {
        return Parsed::NotForUs;
    }
    let visible = without_html_comments(body);
    let text = sole_code_span(&visible).unwrap_or(&visible);
    let mut addressed = false;
    for line in prose_lines(text) {
        let mut words = line.split_whitespace();
        if !words.next().is_some_and(|word| word.eq_ignore_ascii_case("stackorder")) {
            continue;
        }
        let Some(word) = words.next() else { continue };
        match Verb::parse(word) {
            Some(Verb::Help) => return Parsed::Command(Command { verb: Verb::Help, keys: Vec::new() }),
            Some(verb) => return Parsed::Command(Command { verb, keys: keys_of(words) }),
            None => addressed = true,
        }
    }
    if addressed { Parsed::Help } else { Parsed::NotForUs }
}

fn keys_of<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    words
        .flat_map(|word| word.split(','))
        .filter(|token| !token.is_empty())
        .map(key_of)
        .filter(|key| seen.insert(key.clone()))
        .collect()
}

/// A token that normalises to nothing stays as typed: it must be refused, not widen the command to every stack.
fn key_of(token: &str) -> String {
    let key = normalise_key(&token.replace('`', ""));
    if key.is_empty() { token.to_owned() } else { key }
}

/// Other integrations append invisible comments to what people type. An unclosed one hides the rest, as on GitHub.
fn without_html_comments(body: &str) -> Cow<'_, str> {
    const OPEN: &str = "<!--";
    const CLOSE: &str = "-->";
    if !body.contains(OPEN) {
        return Cow::Borrowed(body);
    }
    let mut visible = String::with_capacity(body.len());
    let mut rest = body;
    while let Some((before, after)) = rest.split_once(OPEN) {
        visible.push_str(before);
        rest = after.split_once(CLOSE).map_or("", |(_, after)| after);
    }
    visible.push_str(rest);
    Cow::Owned(visible)
}

/// The content of a comment that is one inline-code span and nothing else.
fn sole_code_span(text: &str) -> Option<&str> {
    let is_blank = |line: &&str| line.trim().is_empty();
    let mut lines = text.lines().skip_while(is_blank);
    let line = lines.next()?;
    if !lines.all(|line| is_blank(&line)) || indent_columns(line) >= CODE_INDENT_COLUMNS {
        return None;
    }
    let span = line.trim();
    let content = span.trim_start_matches('`');
    let ticks = span.len() - content.len();
    let inner = content.trim_end_matches('`');
    if ticks == 0 || content.len() - inner.len() != ticks {
        return None;
    }
    let closes_earlier = inner.split(|c| c != '`').any(|run| run.len() == ticks);
    (!closes_earlier).then_some(inner.trim())
}

/// The lines that Markdown shows as the person's own words: no fenced or indented code, no quotes.
fn prose_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut open: Option<Fence> = None;
    text.lines().filter(move |line| {
        let indented = indent_columns(line) >= CODE_INDENT_COLUMNS;
        let fence = if indented { None } else { Fence::of(line) };
        match (open, fence) {
            (Some(opened), Some(fence)) if fence.closes(opened) => {
                open = None;
                false
            }
            (Some(_), _) => false,
            (None, Some(fence)) if fence.can_open => {
                open = Some(fence);
                false
            }
            (None, _) => !indented && !line.trim_start().starts_with('>'),
        }
    })
}

/// A line that opens or closes a fenced code block.
#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
    /// A back-tick after the fence makes the line inline code instead.
    can_open: bool,
    /// Only a fence alone on its line can close.
    is_bare: bool,
}

impl Fence {
    fn of(line: &str) -> Option<Self> {
        let line = line.trim();
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        let can_open = mark == '~' || !info.contains('`');
        (length >= FENCE_LENGTH_MIN).then_some(Self { mark, length, can_open, is_bare: info.is_empty() })
    }

    fn closes(self, opened: Self) -> bool {
        self.is_bare && self.mark == opened.mark && self.length >= opened.length
    }
}

/// Columns of blanks before the first word; a tab reaches the next multiple of four.
fn indent_columns(line: &str) -> usize {
    let mut columns = 0;
    for c in line.chars() {
        match c {
            ' ' => columns += 1,
            '\t' => columns += CODE_INDENT_COLUMNS - columns % CODE_INDENT_COLUMNS,
            _ => break,
        }
    }
    columns
}

#[cfg(test)]
mod tests;
