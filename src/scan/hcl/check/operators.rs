//! What stands between values, and what each mark means in what is open there.

use super::{Check, ForPart, Last, ODD_CHARACTER, Open, Part, Step, Stop};

impl Check<'_> {
    pub(super) fn operator(&mut self) -> Step {
        let length = match self.rest() {
            [b'=', b'=', ..] | [b'!', b'=', ..] | [b'<' | b'>', b'=', ..] | [b'&', b'&', ..] | [b'|', b'|', ..] => 2,
            [b'=', b'>', ..] => return self.arrow(),
            [b'=', ..] => return self.assignment(),
            [b':', ..] => return self.colon(),
            [b'?', ..] => {
                self.need_operand()?;
                self.push(Open::Conditional { has_colon: false }, 1);
                self.last = Last::Operator;
                return Ok(());
            }
            [b'-', ..] | [b'!', ..] if !self.is_complete() => {
                self.at += 1;
                self.last = Last::Operator;
                return Ok(());
            }
            [b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>', ..] => 1,
            _ => return Err(Stop::Mistake(ODD_CHARACTER)),
        };
        self.need_operand()?;
        self.at += length;
        self.last = Last::Operator;
        Ok(())
    }

    fn arrow(&mut self) -> Step {
        self.need_operand()?;
        self.end_conditionals()?;
        let Some(Open::For { closes, part: ForPart::Key }) = self.open.last().copied() else {
            return Err(Stop::Mistake("an arrow stands outside of a for expression of an object"));
        };
        self.set_top(Open::For { closes, part: ForPart::Value });
        self.at += 2;
        self.last = Last::Operator;
        Ok(())
    }

    fn assignment(&mut self) -> Step {
        self.need_operand()?;
        self.end_conditionals()?;
        if self.open.last() != Some(&Open::Object(Part::Key)) {
            return Err(Stop::Mistake("a single \"=\" compares nothing"));
        }
        self.set_top(Open::Object(Part::Value));
        self.at += 1;
        self.last = Last::Operator;
        Ok(())
    }

    fn colon(&mut self) -> Step {
        self.need_operand()?;
        while self.open.last() == Some(&Open::Conditional { has_colon: true }) {
            self.open.pop();
        }
        let next = match self.open.last() {
            Some(Open::Conditional { has_colon: false }) => Open::Conditional { has_colon: true },
            Some(Open::Object(Part::Key)) => Open::Object(Part::Value),
            Some(Open::For { closes, part: ForPart::Collection }) => {
                Open::For { closes: *closes, part: if *closes == b'}' { ForPart::Key } else { ForPart::Value } }
            }
            _ => return Err(Stop::Mistake("a colon separates nothing")),
        };
        self.set_top(next);
        self.at += 1;
        self.last = Last::Operator;
        Ok(())
    }

    pub(super) fn comma(&mut self) -> Step {
        self.need_operand()?;
        self.end_conditionals()?;
        match self.open.last() {
            Some(Open::Call | Open::List) => {}
            Some(Open::Object(Part::Value)) => self.set_top(Open::Object(Part::Key)),
            _ => return Err(Stop::Mistake("a comma separates nothing")),
        }
        self.at += 1;
        self.last = Last::Start;
        Ok(())
    }

    pub(super) fn ellipsis(&mut self) -> Step {
        self.need_operand()?;
        self.end_conditionals()?;
        match self.open.last() {
            Some(Open::Call | Open::For { part: ForPart::Value, .. }) => {
                self.at += 3;
                self.last = Last::Operand;
                Ok(())
            }
            _ => Err(Stop::Mistake("three dots expand nothing")),
        }
    }
}
