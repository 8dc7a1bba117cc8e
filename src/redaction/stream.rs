//! Redaction of output that arrives line by line, where a private key may span lines.

use std::collections::BTreeSet;

use super::patterns::{is_private_key_body, open_private_key, private_key_end};
use super::{MASK, Redactor, literals, mask};

/// Most found secrets remembered as registered; beyond that one may be registered twice, which does no harm.
const REGISTERED_MAX: usize = 10_000;

/// Redacts a job's log as it is written. One per stream, because it remembers an open private key.
#[derive(Clone)]
pub struct StreamRedactor<'a> {
    redactor: &'a Redactor,
    state: State,
    registered: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Outside,
    /// Between the BEGIN and the END line of a private key.
    InPrivateKey {
        mask_shown: bool,
    },
}

/// What becomes of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streamed {
    /// The line to print; `None` when it is part of a private key whose mask already stands.
    pub text: Option<String>,
    /// What was masked in it, to be registered with the log before the line is printed. Each is one line.
    pub secrets: Vec<String>,
}

impl<'a> StreamRedactor<'a> {
    /// The masks of the redactor itself are taken as registered.
    pub fn new(redactor: &'a Redactor) -> Self {
        Self { redactor, state: State::Outside, registered: redactor.masks().into_iter().collect() }
    }

    /// Takes one line without its line break.
    pub fn push(&mut self, line: &str) -> Streamed {
        let mut secrets = Vec::new();
        let text = match self.state {
            State::Outside => Some(self.outside(line, &mut secrets)),
            State::InPrivateKey { mask_shown } => self.in_private_key(line, mask_shown, &mut secrets),
        };
        let lines = secrets.into_iter().flat_map(literals::lines_of);
        let secrets = lines.filter(|line| self.register(line)).map(str::to_owned).collect();
        Streamed { text, secrets }
    }

    /// Whether the log does not know this line yet.
    fn register(&mut self, line: &str) -> bool {
        let is_new = line != MASK && !self.registered.contains(line);
        if is_new && self.registered.len() < REGISTERED_MAX {
            self.registered.insert(line.to_owned());
        }
        is_new
    }

    fn outside<'l>(&mut self, line: &'l str, secrets: &mut Vec<&'l str>) -> String {
        if let Some(body) = open_private_key(line) {
            self.state = State::InPrivateKey { mask_shown: !line[body..].trim().is_empty() };
        }
        let Some(ranges) = self.redactor.secret_ranges(line) else {
            return self.redactor.redact(line);
        };
        secrets.extend(ranges.iter().map(|range| &line[range.clone()]));
        mask(line, &ranges)
    }

    fn in_private_key<'l>(&mut self, line: &'l str, mask_shown: bool, secrets: &mut Vec<&'l str>) -> Option<String> {
        let is_first = !mask_shown && !line.trim().is_empty();
        if is_first && !is_private_key_body(line.trim_start()) {
            self.state = State::Outside;
            return Some(self.outside(line, secrets));
        }
        let Some(end) = private_key_end(line, 0) else {
            secrets.push(line);
            self.state = State::InPrivateKey { mask_shown: mask_shown || is_first };
            return (!mask_shown).then(|| masked_body(line));
        };
        let (body, rest) = line.split_at(end.start);
        secrets.push(body);
        self.state = State::Outside;
        let rest = self.outside(rest, secrets);
        let before = if mask_shown { &body[body.trim_end().len()..] } else { &masked_body(body) };
        Some(format!("{before}{rest}"))
    }
}

/// The line with its indentation and nothing else of its own.
fn masked_body(body: &str) -> String {
    let words = body.trim();
    if words.is_empty() { body.to_owned() } else { body.replacen(words, MASK, 1) }
}
