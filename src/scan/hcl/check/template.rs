//! What stands inside of strings and heredocs: escapes, interpolations, directives.

use super::super::names::is_name_byte;
use super::{Check, Directive, Last, Open, Step, Stop};

impl Check<'_> {
    pub(super) fn quoted(&mut self) -> Step {
        match self.rest() {
            [b'"', ..] => {
                self.end_string()?;
                self.at += 1;
                self.last = Last::Operand;
            }
            [b'\\', b'n' | b'r' | b't' | b'"' | b'\\', ..] => self.at += 2,
            [b'\\', b'u', ..] => self.unicode_escape(4)?,
            [b'\\', b'U', ..] => self.unicode_escape(8)?,
            [b'\\', ..] => return Err(Stop::Mistake("a backslash escapes nothing")),
            [b'\n', ..] => return Err(Stop::Mistake("a string is never closed")),
            _ => return self.template(),
        }
        Ok(())
    }

    fn unicode_escape(&mut self, length: usize) -> Step {
        let digits = self.text.get(self.at + 2..self.at + 2 + length);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if code.and_then(char::from_u32).is_none() {
            return Err(Stop::Mistake("an escape stands for no character"));
        }
        self.at += 2 + length;
        Ok(())
    }

    /// One byte of text, or the beginning of a template.
    fn template(&mut self) -> Step {
        match self.rest() {
            [b'$', b'$', b'{', ..] | [b'%', b'%', b'{', ..] => self.at += 3,
            [b'$', b'{', b'~', ..] => self.push(Open::Interpolation, 3),
            [b'$', b'{', ..] => self.push(Open::Interpolation, 2),
            [b'%', b'{', ..] => return self.directive(),
            [b'\n', ..] => {
                self.line += 1;
                self.at += 1;
            }
            _ => self.at += 1,
        }
        Ok(())
    }

    fn directive(&mut self) -> Step {
        self.at += 2;
        if self.peek() == Some(b'~') {
            self.at += 1;
        }
        self.skip_blank();
        let (word, depth) = (self.word(), self.open.len());
        self.at += word.len();
        let fits = match (word, self.directives.last()) {
            ("if", _) => {
                self.directives.push(Directive::If(depth));
                self.push(Open::Directive, 0);
                return Ok(());
            }
            ("for", _) => {
                self.directives.push(Directive::For(depth));
                self.for_names()?;
                self.push(Open::Directive, 0);
                return Ok(());
            }
            ("else", Some(Directive::If(around))) => *around == depth,
            ("endif", Some(Directive::If(around) | Directive::Else(around))) => *around == depth,
            ("endfor", Some(Directive::For(around))) => *around == depth,
            ("else" | "endif" | "endfor", _) => false,
            _ => return Err(Stop::Mistake("a template directive has no known keyword")),
        };
        if !fits {
            return Err(Stop::Mistake("a template directive belongs to none before it"));
        }
        self.directives.pop();
        if word == "else" {
            self.directives.push(Directive::Else(depth));
        }
        self.skip_blank();
        if self.peek() == Some(b'~') {
            self.at += 1;
        }
        if self.peek() != Some(b'}') {
            return Err(Stop::Mistake("a template directive is never closed"));
        }
        self.at += 1;
        Ok(())
    }

    fn end_string(&mut self) -> Step {
        let depth = self.open.len();
        let is_open = self.directives.last().is_some_and(|directive| {
            let (Directive::If(around) | Directive::Else(around) | Directive::For(around)) = directive;
            *around == depth
        });
        if is_open {
            return Err(Stop::Mistake("a template directive is never ended"));
        }
        self.open.pop();
        Ok(())
    }

    pub(super) fn heredoc_start(&mut self) -> Step {
        self.begin_operand()?;
        let after = &self.text[self.at + 2..];
        let after = after.strip_prefix('-').unwrap_or(after);
        let length = after.bytes().position(|byte| !is_name_byte(byte)).unwrap_or(after.len());
        let (marker, tail) = after.split_at(length);
        if marker.is_empty() || !(tail.starts_with('\n') || tail.starts_with("\r\n")) {
            return Err(Stop::Mistake("a heredoc needs its marker and then a new line"));
        }
        self.skip_to_newline();
        self.at += 1;
        self.line += 1;
        self.push(Open::Heredoc(marker), 0);
        Ok(())
    }

    pub(super) fn heredoc(&mut self, marker: &str) -> Step {
        if self.bytes[self.at - 1] == b'\n' {
            let line = self.text[self.at..].split('\n').next().unwrap_or_default();
            if line.trim() == marker {
                self.end_string()?;
                self.at += line.len();
                self.last = Last::Operand;
                return Ok(());
            }
        }
        self.template()
    }
}
