//! Says whether an expression is one, as the tool's own parser would, without making anything of it.
//!
//! One pass over the bytes with a stack of what is open: linear, never recursing. It knows the grammar and no meaning, and
//! where it cannot follow (too deep) it finds nothing wrong: a mistake that it reports is one.
//!
//! - `brackets`, `operands`, `operators`: what stands in code.
//! - `template`: inside of strings and heredocs.

mod brackets;
mod operands;
mod operators;
mod template;

use super::names::is_name_byte;
use super::{DEPTH_MAX, Problem};

/// The first mistake of an expression that begins at `line`.
pub(super) fn mistake(text: &str, line: u32) -> Option<Problem> {
    if is_plain(text) {
        return None;
    }
    let mut check = Check {
        text,
        bytes: text.as_bytes(),
        at: 0,
        line,
        open: Vec::new(),
        directives: Vec::new(),
        last: Last::Start,
    };
    match check.run() {
        Ok(()) | Err(Stop::TooDeep) => None,
        Err(Stop::Mistake(summary)) => Some(Problem { line: check.line, summary: summary.to_owned() }),
    }
}

/// Most values by far: one quoted text without escapes and templates, a name, or a number.
fn is_plain(text: &str) -> bool {
    match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => !inner.bytes().any(|byte| matches!(byte, b'"' | b'\\' | b'$' | b'%' | b'\n')),
        None => {
            let is_word = |bytes: &[u8]| bytes.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
            let bytes = text.as_bytes();
            !bytes.is_empty()
                && (bytes.iter().all(u8::is_ascii_digit)
                    || bytes.split(|byte| *byte == b'.').all(|part| !part.is_empty() && is_word(part)))
        }
    }
}

enum Stop {
    Mistake(&'static str),
    TooDeep,
}

type Step = Result<(), Stop>;

/// What the bytes so far end with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Nothing yet, since the bracket or comma before.
    Start,
    Operator,
    /// A name, which a call may follow.
    Name,
    Operand,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open<'t> {
    Paren,
    Call,
    List,
    Index,
    Object(Part),
    For {
        closes: u8,
        part: ForPart,
    },
    /// `a ? b` and, once its colon was met, `: c`.
    Conditional {
        has_colon: bool,
    },
    Interpolation,
    /// `%{ if x }` or `%{ for x in y }`.
    Directive,
    Quote,
    Heredoc(&'t str),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Key,
    Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ForPart {
    Collection,
    /// The key, where there is one to come.
    Key,
    Value,
    Condition,
}

/// An open `%{ if }` or `%{ for }`, and how many things were open around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    If(usize),
    Else(usize),
    For(usize),
}

struct Check<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    line: u32,
    open: Vec<Open<'t>>,
    directives: Vec<Directive>,
    last: Last,
}

const ODD_CHARACTER: &str = "a character is not one of the language";
const UNFINISHED: &str = "an expression ends too early";
const TWO_OPERANDS: &str = "two values stand side by side";
const NO_OPERAND: &str = "an expression was expected";

impl<'t> Check<'t> {
    fn run(&mut self) -> Step {
        while self.at < self.bytes.len() {
            if self.open.len() > DEPTH_MAX {
                return Err(Stop::TooDeep);
            }
            match self.open.last().copied() {
                Some(Open::Quote) => self.quoted()?,
                Some(Open::Heredoc(marker)) => self.heredoc(marker)?,
                _ => self.code()?,
            }
        }
        self.end_conditionals()?;
        // What never closes is reported by whoever looked for its end.
        if self.open.is_empty() { self.need_operand() } else { Ok(()) }
    }

    fn rest(&self) -> &'t [u8] {
        &self.bytes[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn is_complete(&self) -> bool {
        matches!(self.last, Last::Name | Last::Operand)
    }

    fn need_operand(&self) -> Step {
        if self.is_complete() {
            Ok(())
        } else {
            Err(Stop::Mistake(if self.last == Last::Start { NO_OPERAND } else { UNFINISHED }))
        }
    }

    /// An operand may begin here.
    fn begin_operand(&self) -> Step {
        if self.is_complete() { Err(Stop::Mistake(TWO_OPERANDS)) } else { Ok(()) }
    }

    fn push(&mut self, open: Open<'t>, length: usize) {
        self.open.push(open);
        self.at += length;
        self.last = Last::Start;
    }

    /// One token outside of strings.
    fn code(&mut self) -> Step {
        match self.rest() {
            [b' ' | b'\t' | b'\r', ..] => self.at += 1,
            [b'\n', ..] => return self.newline(),
            [b'#', ..] | [b'/', b'/', ..] => self.skip_to_newline(),
            [b'/', b'*', ..] => self.block_comment(),
            [b'"', ..] => {
                self.begin_operand()?;
                self.push(Open::Quote, 1);
            }
            [b'<', b'<', ..] => return self.heredoc_start(),
            [b'(', ..] => return self.parenthesis(),
            [b'[', ..] => return self.bracket(),
            [b'{', ..] => {
                self.begin_operand()?;
                self.push(Open::Object(Part::Key), 1);
                return self.for_expression(b'}');
            }
            [b')' | b']' | b'}', ..] => return self.close(),
            [b'~', b'}', ..] if matches!(self.outer(), Some(Open::Interpolation | Open::Directive)) => self.at += 1,
            [b',', ..] => return self.comma(),
            [b'.', b'.', b'.', ..] => return self.ellipsis(),
            [b'.', ..] => return self.attribute(),
            [b'0'..=b'9', ..] => {
                self.begin_operand()?;
                self.number();
            }
            [byte, ..] if is_name_byte(*byte) && *byte != b'-' => return self.name(),
            _ => return self.operator(),
        }
        Ok(())
    }

    fn skip_to_newline(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
    }

    fn block_comment(&mut self) {
        self.at += 2;
        while self.at < self.bytes.len() && !self.rest().starts_with(b"*/") {
            self.line += u32::from(self.bytes[self.at] == b'\n');
            self.at += 1;
        }
        self.at = (self.at + 2).min(self.bytes.len());
    }

    /// Blanks, comments and newlines.
    fn skip_blank(&mut self) {
        loop {
            match self.rest() {
                [b' ' | b'\t' | b'\r', ..] => self.at += 1,
                [b'\n', ..] => {
                    self.line += 1;
                    self.at += 1;
                }
                [b'#', ..] | [b'/', b'/', ..] => self.skip_to_newline(),
                [b'/', b'*', ..] => self.block_comment(),
                _ => return,
            }
        }
    }

    /// What is open beneath conditionals, which end without a sign.
    fn outer(&self) -> Option<Open<'t>> {
        self.open.iter().rev().find(|open| !matches!(open, Open::Conditional { .. })).copied()
    }

    fn end_conditionals(&mut self) -> Step {
        while let Some(Open::Conditional { has_colon }) = self.open.last() {
            if !has_colon {
                return Err(Stop::Mistake("a conditional has no value for the other case"));
            }
            self.open.pop();
        }
        Ok(())
    }

    /// Newlines matter between the entries of an object, and nowhere else inside brackets.
    fn newline(&mut self) -> Step {
        match self.outer() {
            Some(Open::Object(Part::Key)) if self.last == Last::Start => {}
            Some(Open::Object(Part::Key)) => return Err(Stop::Mistake("a key has no value")),
            Some(Open::Object(Part::Value)) => self.end_entry()?,
            Some(_) => {}
            None => return Err(Stop::Mistake("an expression goes on in the next line")),
        }
        self.line += 1;
        self.at += 1;
        Ok(())
    }

    fn end_entry(&mut self) -> Step {
        self.need_operand()?;
        self.end_conditionals()?;
        self.set_top(Open::Object(Part::Key));
        self.last = Last::Start;
        Ok(())
    }

    fn set_top(&mut self, open: Open<'t>) {
        if let Some(top) = self.open.last_mut() {
            *top = open;
        }
    }
}

#[cfg(test)]
mod tests;
