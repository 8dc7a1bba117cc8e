//! Cuts HCL text into attributes and blocks, whatever stands in it (spec 11 §2.1).
//!
//! An HCL library gives no tree for a file with one mistake, so this reader only finds where things begin and end.
//! It knows strings, templates, heredocs and comments, and nothing of expressions: their text goes to
//! [`super::value`], and only where somebody wants the value.
//! It is linear in the text, never recurses, and always gives an answer: what never closes ends with the text.
//!
//! - `expressions`: where an expression ends.
//! - `names`: what names and labels are made of.
//! - `check`: whether an expression is one.
//! - `calls`: calls of the functions that read files.

mod calls;
mod check;
mod expressions;
mod names;

use std::borrow::Cow;
use std::collections::BTreeSet;

pub use calls::{CALLS_MAX, Call, calls_in_template};
use expressions::Until;
use names::{is_name_byte, odd_character, unescaped};

/// What stands in a file or in the body of a block, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body<'t> {
    pub attributes: Vec<Attribute<'t>>,
    pub blocks: Vec<Block<'t>>,
    /// Calls of functions that read files, also those inside of the blocks; one more than [`CALLS_MAX`] when there are
    /// more than that.
    pub calls: Vec<Call<'t>>,
    /// What was wrong, in the order of the text, at most [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
}

impl<'t> Body<'t> {
    pub fn attribute(&self, name: &str) -> Option<&Attribute<'t>> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The first thing that is wrong, in its shape or in one of its expressions.
    pub fn first_mistake(&self) -> Option<Problem> {
        let mistake = self.attributes.iter().find_map(|attribute| check::mistake(attribute.value, attribute.line));
        // Of two in one line, the shape is what the tool stumbles over.
        self.problems.first().cloned().into_iter().chain(mistake).min_by_key(|problem| problem.line)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute<'t> {
    pub name: &'t str,
    /// Of the name; the value begins on the same line.
    pub line: u32,
    /// The expression as written, without the blanks and comments around it.
    pub value: &'t str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block<'t> {
    pub kind: &'t str,
    pub labels: Vec<Cow<'t, str>>,
    pub line: u32,
    /// Whether its closing brace was found; if not, its body is the rest of the text.
    pub is_closed: bool,
    /// The text between the braces, for [`split_block`].
    pub body: &'t str,
    pub body_line: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: u32,
    pub summary: String,
}

/// The first mistake is worth reading, what follows is mostly its echo.
pub const PROBLEMS_MAX: usize = 3;

/// Most brackets, strings and templates open at once. Terraform itself takes a few hundred.
pub const DEPTH_MAX: usize = 1_000;

/// Cuts `text`, whose first line has the number `line` in its file.
pub fn split(text: &str, line: u32) -> Body<'_> {
    let mut reader = Reader::new(text, line);
    let mut body = Body::default();
    reader.items(&mut body, false);
    body.problems = reader.problems;
    body.calls = reader.calls;
    body
}

/// Cuts the body of a block, and looks at its shape: one argument on its own line each, or a single one beside the braces.
pub fn split_block<'t>(block: &Block<'t>) -> Body<'t> {
    let mut reader = Reader::new(block.body, block.body_line);
    let mut body = Body::default();
    reader.skip_inline_blank();
    if matches!(reader.rest(), [] | [b'\n' | b'#', ..] | [b'/', b'/', ..]) {
        reader.items(&mut body, true);
    } else {
        reader.only_argument(&mut body);
    }
    let mut names = BTreeSet::new();
    for attribute in &body.attributes {
        if !names.insert(attribute.name) {
            reader.problem_at(attribute.line, &format!("argument {:?} is given twice", attribute.name));
        }
    }
    reader.problems.sort_by_key(|problem| problem.line);
    body.problems = reader.problems;
    body.calls = reader.calls;
    body
}

/// The entries of an object constructor, as (key, line, value) texts; `None` for a `for` expression or other text.
pub fn object_entries(text: &str, line: u32) -> Option<Vec<(&str, u32, &str)>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut reader = Reader::new(inner, line);
    let mut entries = Vec::new();
    loop {
        reader.skip_blank();
        match reader.peek() {
            None => return Some(entries),
            Some(b',') => {
                reader.bump();
                continue;
            }
            Some(_) => {}
        }
        let key_line = reader.line;
        let key = reader.expression(Until::Assignment);
        if !matches!(reader.peek(), Some(b'=' | b':')) {
            return None;
        }
        reader.bump();
        reader.skip_blank();
        let value = reader.expression(Until::EntryEnd);
        entries.push((key, key_line, value));
    }
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    line: u32,
    calls: Vec<Call<'t>>,
    problems: Vec<Problem>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, line: u32) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, line, calls: Vec::new(), problems: Vec::new() }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn rest(&self) -> &'t [u8] {
        &self.bytes[self.at..]
    }

    fn bump(&mut self) {
        if self.peek() == Some(b'\n') {
            self.line += 1;
        }
        self.at = (self.at + 1).min(self.bytes.len());
    }

    fn problem(&mut self, summary: &str) {
        self.problem_at(self.line, summary);
    }

    fn problem_at(&mut self, line: u32, summary: &str) {
        if self.problems.len() < PROBLEMS_MAX && self.problems.last().is_none_or(|last| last.line != line) {
            self.problems.push(Problem { line, summary: summary.to_owned() });
        }
    }

    /// The text between two positions that this reader stopped at; both stand before or after an ASCII byte.
    fn slice(&self, from: usize, to: usize) -> &'t str {
        self.text.get(from..to).unwrap_or_default()
    }

    /// All arguments and blocks. Inside of a block the last one too ends with its line.
    fn items(&mut self, body: &mut Body<'t>, is_in_block: bool) {
        loop {
            self.skip_blank();
            let Some(byte) = self.peek() else { break };
            if !is_name_byte(byte) || byte.is_ascii_digit() || byte == b'-' {
                self.problem("expected an argument or a block");
                self.skip_line();
                continue;
            }
            if !self.item(body) {
                continue;
            }
            self.skip_inline_blank();
            let ends = match self.rest() {
                [] => !is_in_block,
                [b'\n' | b'#', ..] | [b'/', b'/', ..] => true,
                _ => false,
            };
            if !ends {
                self.problem("an argument or block ends with its line");
            }
        }
    }

    /// What may stand on the line of both braces.
    fn only_argument(&mut self, body: &mut Body<'t>) {
        let line = self.line;
        if self.peek().is_some_and(|byte| is_name_byte(byte) && !byte.is_ascii_digit() && byte != b'-') {
            self.item(body);
            self.skip_inline_blank();
        }
        if self.peek().is_some() || !body.blocks.is_empty() {
            self.problem_at(line, "a block on one line holds one argument and nothing else");
            self.items(body, false);
        }
    }

    /// One argument or block, or false; the reader stands at its name.
    fn item(&mut self, body: &mut Body<'t>) -> bool {
        let (name, line) = (self.name(), self.line);
        if let Some(odd) = odd_character(name) {
            self.problem(&format!("the character {odd:?} is not one of the language"));
        }
        self.skip_inline_blank();
        if self.peek() == Some(b'=') && self.bytes.get(self.at + 1) != Some(&b'=') {
            self.bump();
            self.skip_inline_blank();
            let value = self.expression(Until::LineEnd);
            if value.is_empty() {
                self.problem_at(line, &format!("argument {name:?} has no value"));
            }
            body.attributes.push(Attribute { name, line, value });
            if matches!(self.peek(), Some(b'}')) {
                self.problem("a brace closes nothing");
                self.bump();
            }
            return true;
        }
        let mut labels = Vec::new();
        loop {
            self.skip_inline_blank();
            match self.peek() {
                Some(b'{') => break,
                Some(b'"') => labels.push(self.label()),
                Some(byte) if is_name_byte(byte) => labels.push(Cow::Borrowed(self.name())),
                _ => {
                    self.problem_at(line, &format!("{name:?} is neither an argument nor a block"));
                    self.skip_line();
                    return false;
                }
            }
        }
        self.bump();
        let (start, body_line) = (self.at, self.line);
        self.run(Until::BlockEnd);
        let end = self.at;
        let is_closed = self.peek() == Some(b'}');
        if is_closed {
            self.bump();
        } else {
            self.problem_at(line, &format!("block {name:?} is never closed"));
        }
        body.blocks.push(Block { kind: name, labels, line, is_closed, body: self.slice(start, end), body_line });
        true
    }

    fn name(&mut self) -> &'t str {
        let start = self.at;
        while self.peek().is_some_and(is_name_byte) {
            self.at += 1;
        }
        self.slice(start, self.at)
    }

    /// A quoted label; the reader stands at its quote.
    fn label(&mut self) -> Cow<'t, str> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' | b'\n' => break,
                b'\\' => {
                    escaped = true;
                    self.at += 1;
                    if self.peek().is_some_and(|next| next != b'\n') {
                        self.at += 1;
                    }
                }
                _ => self.at += 1,
            }
        }
        let label = self.slice(start, self.at);
        if self.peek() == Some(b'"') {
            self.at += 1;
        } else {
            self.problem("a label is never closed");
        }
        if escaped { Cow::Owned(unescaped(label)) } else { Cow::Borrowed(label) }
    }

    fn skip_line(&mut self) {
        let before = self.at;
        self.run(Until::LineEnd);
        if self.at == before {
            self.bump();
        }
    }

    fn skip_inline_blank(&mut self) {
        loop {
            match self.rest() {
                [b'\r', next, ..] if *next != b'\n' => self.lone_carriage_return(),
                [b' ' | b'\t' | b'\r', ..] => self.at += 1,
                [b'/', b'*', ..] => self.block_comment(),
                _ => return,
            }
        }
    }

    fn lone_carriage_return(&mut self) {
        self.problem("a carriage return stands without a line feed");
        self.at += 1;
    }

    fn skip_blank(&mut self) {
        loop {
            match self.rest() {
                [b'\r', next, ..] if *next != b'\n' => self.lone_carriage_return(),
                [b' ' | b'\t' | b'\r', ..] => self.at += 1,
                [b'\n', ..] => self.bump(),
                [b'#', ..] | [b'/', b'/', ..] => self.line_comment(),
                [b'/', b'*', ..] => self.block_comment(),
                _ => return,
            }
        }
    }

    fn line_comment(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
    }

    fn block_comment(&mut self) {
        let line = self.line;
        self.at += 2;
        loop {
            match self.rest() {
                [] => return self.problem_at(line, "a comment is never closed"),
                [b'*', b'/', ..] => {
                    self.at += 2;
                    return;
                }
                _ => self.bump(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
