//! Where an expression ends: past strings, templates, heredocs and comments, and whatever is open in each other.

use super::names::is_name_byte;
use super::{DEPTH_MAX, Reader};

/// Where an expression ends, seen from outside all brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// At a newline: an argument of a body.
    LineEnd,
    /// At a newline or comma: a value of an object.
    EntryEnd,
    /// At `=` or `:`: a key of an object.
    Assignment,
    /// At a comma or parenthesis: an argument of a call.
    ArgumentEnd,
    /// At the brace that closes a block.
    BlockEnd,
}

/// What is open inside an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Open<'t> {
    Brace,
    Bracket,
    Paren,
    /// `${` or `%{` inside a string or heredoc.
    Template,
    Quote,
    Heredoc {
        marker: &'t str,
        line: u32,
    },
}

impl<'t> Reader<'t> {
    /// Text up to where `until` says, trimmed of blanks and comments at its end.
    pub(super) fn expression(&mut self, until: Until) -> &'t str {
        let start = self.at;
        let end = self.run(until);
        self.slice(start, end.max(start))
    }

    /// Moves to where `until` says and returns the end of the last byte that was neither blank nor comment.
    pub(super) fn run(&mut self, until: Until) -> usize {
        self.run_within(until, Vec::new())
    }

    /// The same from inside of what is open already.
    pub(super) fn run_within(&mut self, until: Until, mut open: Vec<Open<'t>>) -> usize {
        let mut end = self.at;
        while let Some(byte) = self.peek() {
            match open.last().copied() {
                Some(Open::Quote) => self.in_quote(byte, &mut open),
                Some(Open::Heredoc { marker, .. }) => self.in_heredoc(marker, &mut open),
                inside => {
                    if inside.is_none() && self.ends_here(byte, until) {
                        return end;
                    }
                    match (byte, self.rest().get(1)) {
                        (b'\r', Some(next)) if *next != b'\n' => {
                            self.lone_carriage_return();
                            continue;
                        }
                        (b' ' | b'\t' | b'\r' | b'\n', _) => {
                            self.bump();
                            continue;
                        }
                        (b'#', _) | (b'/', Some(b'/')) => {
                            self.line_comment();
                            continue;
                        }
                        (b'/', Some(b'*')) => {
                            self.block_comment();
                            continue;
                        }
                        _ => {}
                    }
                    if !self.in_code(byte, &mut open) {
                        return end;
                    }
                }
            }
            end = self.at;
            if open.len() > DEPTH_MAX {
                self.problem("nested too deeply; the rest of the file is not read");
                self.at = self.bytes.len();
                return end;
            }
        }
        match open.last() {
            Some(Open::Heredoc { line, marker }) => {
                self.problem_at(*line, &format!("heredoc {marker:?} is never closed: its marker must stand alone"));
            }
            Some(_) if until != Until::BlockEnd => self.problem("a bracket or string is never closed"),
            _ => {}
        }
        end
    }

    fn ends_here(&self, byte: u8, until: Until) -> bool {
        match until {
            Until::BlockEnd => byte == b'}',
            Until::LineEnd => matches!(byte, b'\n' | b'}'),
            Until::EntryEnd => matches!(byte, b'\n' | b',' | b'}'),
            Until::ArgumentEnd => matches!(byte, b',' | b')'),
            Until::Assignment => {
                byte == b':' || byte == b'\n' || byte == b',' || (byte == b'=' && self.rest().get(1) != Some(&b'='))
            }
        }
    }

    /// One byte outside strings; false when a closing brace ends the whole expression.
    fn in_code(&mut self, byte: u8, open: &mut Vec<Open<'t>>) -> bool {
        match byte {
            b'"' => open.push(Open::Quote),
            b'{' => open.push(Open::Brace),
            b'[' => open.push(Open::Bracket),
            b'(' => {
                self.note_call();
                open.push(Open::Paren);
            }
            b'<' => {
                if let Some(marker) = self.heredoc_marker() {
                    open.push(Open::Heredoc { marker, line: self.line });
                    self.line_comment();
                    self.bump();
                    return true;
                }
            }
            b'}' => {
                while let Some(top) = open.pop() {
                    if matches!(top, Open::Brace | Open::Template) {
                        self.at += 1;
                        return true;
                    }
                    self.problem("a bracket is closed by a brace");
                }
                return false;
            }
            b']' | b')' => {
                let opening = if byte == b']' { Open::Bracket } else { Open::Paren };
                if open.last() == Some(&opening) {
                    open.pop();
                } else {
                    self.problem("a bracket closes nothing");
                }
            }
            _ => {}
        }
        self.at += 1;
        true
    }

    /// `<<NAME` or `<<-NAME` and then the end of the line; the reader stands at the first `<`.
    fn heredoc_marker(&self) -> Option<&'t str> {
        let after = self.slice(self.at, self.bytes.len()).strip_prefix("<<")?;
        let after = after.strip_prefix('-').unwrap_or(after);
        let length = after.bytes().position(|byte| !is_name_byte(byte)).unwrap_or(after.len());
        let (marker, tail) = after.split_at(length);
        let ends = tail.starts_with('\n') || tail.starts_with("\r\n");
        (ends && !marker.is_empty()).then_some(marker)
    }

    fn in_quote(&mut self, byte: u8, open: &mut Vec<Open<'t>>) {
        match self.rest() {
            [b'\\', next, ..] if *next != b'\n' => self.at += 2,
            [b'$', b'$', b'{', ..] | [b'%', b'%', b'{', ..] => self.at += 3,
            [b'$' | b'%', b'{', ..] => {
                open.push(Open::Template);
                self.at += 2;
            }
            _ if byte == b'"' => {
                open.pop();
                self.at += 1;
            }
            // A quoted string ends on its line, so a forgotten quote costs no more than that.
            _ if byte == b'\n' => {
                open.pop();
                self.problem("a string is never closed");
            }
            _ => self.at += 1,
        }
    }

    /// From inside a line of a heredoc to the next line, template or end.
    fn in_heredoc(&mut self, marker: &str, open: &mut Vec<Open<'t>>) {
        let at_line_start = self.at == 0 || self.bytes[self.at - 1] == b'\n';
        if at_line_start {
            let line = self.text[self.at..].split('\n').next().unwrap_or_default();
            if line.trim() == marker {
                // A carriage return belongs to the end of the line, not to the value.
                self.at += line.trim_end().len();
                open.pop();
                return;
            }
        }
        while self.at < self.bytes.len() {
            match self.rest() {
                [b'\n', ..] => return self.bump(),
                [b'$', b'$', b'{', ..] | [b'%', b'%', b'{', ..] => self.at += 3,
                [b'$' | b'%', b'{', ..] => {
                    open.push(Open::Template);
                    self.at += 2;
                    return;
                }
                _ => self.at += 1,
            }
        }
    }
}
