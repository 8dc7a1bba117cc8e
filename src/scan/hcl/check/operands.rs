//! Names, numbers and attributes.

use super::super::odd_character;
use super::{Check, ForPart, Last, ODD_CHARACTER, Open, Step, Stop, TWO_OPERANDS};

impl Check<'_> {
    /// `.name`, `.0` or `.*`.
    pub(super) fn attribute(&mut self) -> Step {
        self.need_operand()?;
        self.at += 1;
        if self.outer().is_some_and(|open| !matches!(open, Open::Object(_))) {
            self.skip_blank();
        }
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        match self.rest() {
            [b'*', ..] => self.at += 1,
            rest if digits > 0 => {
                if let [b'.', b'0'..=b'9', ..] = rest[digits..] {
                    return Err(Stop::Mistake("two numbers cannot follow each other as indexes"));
                }
                self.at += digits;
            }
            _ => {
                let name = self.word();
                if name.is_empty() {
                    return Err(Stop::Mistake("a name was expected behind the dot"));
                }
                self.at += name.len();
            }
        }
        self.last = Last::Operand;
        Ok(())
    }

    pub(super) fn number(&mut self) {
        let digits = |check: &mut Self| {
            while check.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                check.at += 1;
            }
        };
        digits(self);
        if let [b'.', b'0'..=b'9', ..] = self.rest() {
            self.at += 1;
            digits(self);
        }
        if let [b'e' | b'E', b'0'..=b'9', ..] | [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] = self.rest() {
            self.at += 2;
            digits(self);
        }
        self.last = Last::Operand;
    }

    pub(super) fn name(&mut self) -> Step {
        let mut name = self.word();
        if self.is_complete() {
            let Some(Open::For { closes, part: ForPart::Value | ForPart::Key }) = self.outer() else {
                return Err(Stop::Mistake(TWO_OPERANDS));
            };
            if name != "if" {
                return Err(Stop::Mistake(TWO_OPERANDS));
            }
            if matches!(self.outer(), Some(Open::For { part: ForPart::Key, .. })) {
                return Err(Stop::Mistake("a for expression of an object needs \"=>\""));
            }
            self.end_conditionals()?;
            self.set_top(Open::For { closes, part: ForPart::Condition });
            self.at += name.len();
            self.last = Last::Operator;
            return Ok(());
        }
        if odd_character(name).is_some() {
            return Err(Stop::Mistake(ODD_CHARACTER));
        }
        self.at += name.len();
        self.last = Last::Name;
        while self.rest().starts_with(b"::") {
            self.at += 2;
            name = self.word();
            self.at += name.len();
            while matches!(self.peek(), Some(b' ' | b'\t')) {
                self.at += 1;
            }
            if name.is_empty() || !matches!(self.peek(), Some(b'(' | b':')) {
                return Err(Stop::Mistake("a function of a provider can only be called"));
            }
        }
        Ok(())
    }
}
