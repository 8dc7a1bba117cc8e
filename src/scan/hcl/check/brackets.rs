//! What opens and closes: calls, lists, objects, indexes and `for` expressions.

use super::super::names::is_name_byte;
use super::{Check, ForPart, Last, Open, Part, Step, Stop};

impl<'t> Check<'t> {
    pub(super) fn parenthesis(&mut self) -> Step {
        match self.last {
            Last::Name => self.push(Open::Call, 1),
            Last::Operand => return Err(Stop::Mistake("only a name can be called")),
            Last::Start | Last::Operator => self.push(Open::Paren, 1),
        }
        Ok(())
    }

    pub(super) fn bracket(&mut self) -> Step {
        if !self.is_complete() {
            self.push(Open::List, 1);
            return self.for_expression(b']');
        }
        self.push(Open::Index, 1);
        self.skip_blank();
        if self.peek() == Some(b'*') {
            self.at += 1;
            self.last = Last::Operand;
        }
        Ok(())
    }

    /// `for x in` or `for k, v in` at the beginning of a list or object makes it another thing.
    pub(super) fn for_expression(&mut self, closes: u8) -> Step {
        self.skip_blank();
        if self.word() != "for" {
            return Ok(());
        }
        self.at += "for".len();
        self.for_names()?;
        self.set_top(Open::For { closes, part: ForPart::Collection });
        Ok(())
    }

    pub(super) fn for_names(&mut self) -> Step {
        self.skip_name()?;
        if self.peek() == Some(b',') {
            self.at += 1;
            self.skip_name()?;
        }
        if self.word() != "in" {
            return Err(Stop::Mistake("a for expression needs \"in\" behind its names"));
        }
        self.at += "in".len();
        Ok(())
    }

    fn skip_name(&mut self) -> Step {
        self.skip_blank();
        let name = self.word();
        if name.is_empty() {
            return Err(Stop::Mistake("a for expression needs a name"));
        }
        self.at += name.len();
        self.skip_blank();
        Ok(())
    }

    /// The name that begins here; empty when none does.
    pub(super) fn word(&self) -> &'t str {
        let rest = self.rest();
        if rest.first().is_none_or(|byte| byte.is_ascii_digit() || *byte == b'-') {
            return "";
        }
        let length = rest.iter().position(|byte| !is_name_byte(*byte)).unwrap_or(rest.len());
        self.text.get(self.at..self.at + length).unwrap_or_default()
    }

    pub(super) fn close(&mut self) -> Step {
        let byte = self.bytes[self.at];
        self.end_conditionals()?;
        let may_be_empty = self.last == Last::Start;
        match (self.open.last(), byte) {
            (Some(Open::Call), b')') | (Some(Open::List), b']') | (Some(Open::Object(Part::Key)), b'}')
                if may_be_empty => {}
            (Some(Open::Object(Part::Key)), b'}') => return Err(Stop::Mistake("a key has no value")),
            (Some(Open::For { closes, part }), _) if *closes == byte => {
                self.need_operand()?;
                match part {
                    ForPart::Collection => return Err(Stop::Mistake("a for expression needs a colon")),
                    ForPart::Key => return Err(Stop::Mistake("a for expression of an object needs \"=>\"")),
                    ForPart::Value | ForPart::Condition => {}
                }
            }
            (Some(Open::Paren | Open::Call), b')')
            | (Some(Open::List | Open::Index), b']')
            | (Some(Open::Object(Part::Value) | Open::Interpolation | Open::Directive), b'}') => self.need_operand()?,
            _ => return Err(Stop::Mistake("a bracket closes nothing")),
        }
        self.open.pop();
        self.at += 1;
        self.last = Last::Operand;
        Ok(())
    }
}
