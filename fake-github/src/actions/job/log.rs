//! The log of one job: masked, with annotations taken out of its commands.

use std::sync::{Arc, Mutex, PoisonError};

use crate::actions::commands::Command;
use crate::actions::model::Annotation;
use crate::actions::state::Inner;

/// Masks shorter than this would hide half of every log.
const MASK_CHARS_MIN: usize = 3;

/// Writes one job's log. Clones share the masks.
#[derive(Clone)]
pub(in crate::actions) struct Log {
    engine: Arc<Inner>,
    job_id: i64,
    masks: Arc<Mutex<Vec<String>>>,
}

impl Log {
    pub(in crate::actions) fn new(engine: Arc<Inner>, job_id: i64) -> Self {
        Self { engine, job_id, masks: Arc::default() }
    }

    /// From now on a secret, and each line of it, shows as `***`.
    pub(in crate::actions) fn mask(&mut self, secret: &str) {
        let mut masks = self.masks.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = secret.lines().map(str::trim).chain([secret.trim()]);
        masks.extend(lines.filter(|line| line.chars().count() >= MASK_CHARS_MIN).map(str::to_owned));
        // Longest first, so that a secret inside another does not leave half of it.
        masks.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        masks.dedup();
    }

    pub(in crate::actions) fn holds_secret(&self, text: &str) -> bool {
        self.masks.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|mask| text.contains(mask))
    }

    pub(in crate::actions) fn masked(&self, text: &str) -> String {
        let masks = self.masks.lock().unwrap_or_else(PoisonError::into_inner);
        masks.iter().fold(text.to_owned(), |text, mask| text.replace(mask, "***"))
    }

    pub(in crate::actions) fn line(&self, text: &str) {
        self.engine.log(self.job_id, &self.masked(text));
    }

    pub(in crate::actions) fn error(&mut self, message: &str) {
        self.note("failure", "error", message, None);
    }

    pub(in crate::actions) fn warning(&mut self, message: &str) {
        self.note("warning", "warning", message, None);
    }

    /// `::error::`, `::warning::` or `::notice::`.
    pub(in crate::actions) fn annotate(&mut self, command: &Command) {
        let level = if command.name == "error" { "failure" } else { command.name.as_str() };
        self.note(level, &command.name, &command.text, Some(command));
    }

    fn note(&mut self, level: &str, prefix: &str, message: &str, command: Option<&Command>) {
        let property = |name: &str| command.and_then(|command| command.properties.get(name)).cloned();
        let annotation = Annotation {
            level: level.to_owned(),
            message: self.masked(message),
            title: property("title").map(|title| self.masked(&title)),
            path: property("file"),
            line: property("line").and_then(|line| line.parse().ok()),
        };
        if let Some(record) = self.engine.state().jobs.get_mut(&self.job_id) {
            record.annotations.push(annotation);
        }
        self.line(&format!("##[{prefix}]{message}"));
    }

    /// Adds to the job summary.
    pub(in crate::actions) fn summarize(&self, text: &str) {
        let text = self.masked(text);
        if let Some(record) = self.engine.state().jobs.get_mut(&self.job_id) {
            record.summary.push_str(&text);
        }
    }
}
