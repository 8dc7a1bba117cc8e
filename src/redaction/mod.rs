//! What may leave the runner: every text on its way to the server, a summary or a log goes through here (spec 12 §11).
//!
//! - `literals`: known secret values, in every form they may be written in, found in one pass.
//! - `sensitive`: which values a plan itself calls sensitive.
//! - `patterns`: what looks like a secret although nobody said so.
//! - `stream`: the same for output that arrives line by line.
//!
//! Redaction is total and takes linear time: any text in, a text out. It is idempotent: a mask is never part of
//! a match, and nothing is masked for what stands in front of a mask. It knows neither files nor processes.

mod literals;
mod patterns;
mod sensitive;
mod stream;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use serde_json::Value;

pub use literals::is_secret_name;
pub use sensitive::UpstreamOutputs;
pub use stream::{StreamRedactor, Streamed};

use literals::Matcher;

/// What stands in place of a secret.
pub const MASK: &str = "***";

/// Age identities, one a line, which no name rule would find.
const PLAN_IDENTITY: &str = "STACKORDER_PLAN_IDENTITY";

/// Everything one job knows to be secret. Cheap to ask, costly to teach.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Secrets of the environment, for the log's own masks.
    environment: BTreeSet<String>,
    literals: BTreeSet<String>,
    matcher: Matcher,
}

impl Redactor {
    /// Knows the patterns only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns the values of the variables whose names say that they are secret.
    ///
    /// The caller passes the environment of the process and the stack's `env` of every mode.
    pub fn with_environment<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        for (name, value) in variables {
            let (name, value) = (name.as_ref(), value.as_ref());
            if name == PLAN_IDENTITY {
                self.environment.extend(literals::lines_of(value).map(str::to_owned));
            } else if is_secret_name(name) && literals::is_worth_masking(value) {
                self.environment.insert(value.trim().to_owned());
            }
        }
        self.literals.extend(self.environment.iter().cloned());
        self.matcher = Matcher::of(&self.literals);
        self
    }

    /// Learns what a plan's own marks call sensitive, and the sensitive outputs of other stacks that it reads.
    pub fn learn(&mut self, plan_json: &Value, upstream: &UpstreamOutputs) {
        let secrets = sensitive::secrets_of(plan_json, upstream);
        self.literals.extend(secrets.into_iter().map(str::to_owned));
        self.matcher = Matcher::of(&self.literals);
    }

    /// The text with every known secret, and everything that looks like one, replaced by `***`.
    pub fn redact(&self, text: &str) -> String {
        match self.secret_ranges(text) {
            Some(ranges) => mask(text, &ranges),
            None if text.trim().is_empty() => text.to_owned(),
            None => MASK.to_owned(),
        }
    }

    /// The lines that the Actions log must be told to mask, each for one [`add_mask`] command.
    pub fn masks(&self) -> Vec<String> {
        let lines: BTreeSet<&str> = self.environment.iter().flat_map(|secret| literals::lines_of(secret)).collect();
        lines.into_iter().map(str::to_owned).collect()
    }

    /// Where secrets stand, merged and in order; `None` when there are too many secrets to look for.
    ///
    /// Literals and patterns both read the original text, so that neither can hide a part of the other's match.
    fn secret_ranges(&self, text: &str) -> Option<Vec<Range<usize>>> {
        let mut ranges = self.matcher.find(text)?;
        patterns::find(text, &mut ranges);
        Some(merge(ranges))
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("literals", &self.literals.len()).finish_non_exhaustive()
    }
}

/// The workflow command that makes GitHub mask a line from now on.
pub fn add_mask(line: &str) -> String {
    let escaped = line.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    format!("::add-mask::{escaped}")
}

fn merge(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

fn mask(text: &str, ranges: &[Range<usize>]) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut shown = 0;
    for range in ranges {
        masked.push_str(&text[shown..range.start]);
        masked.push_str(MASK);
        shown = range.end;
    }
    masked.push_str(&text[shown..]);
    masked
}

#[cfg(test)]
mod tests;
