//! One stack's result on its way to the server (spec 12 §7).

use std::cell::Cell;

use super::Job;
use super::fallback::tell_unconfirmed;
use super::process::{Cut, end_of};
use super::server::CallError;
use crate::api::{ResultStatus, StackResult};
use crate::clock::Millis;
use crate::ids::{RunId, StackKey};
use crate::plan::text::cut_at_line;
use crate::redaction::Redactor;
use crate::run::status::Mode;

/// Most bytes of an error text in a result.
const ERROR_TEXT_BYTES_MAX: usize = 16 * 1024;

/// What the server said to a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    Confirmed,
    /// No server, or none that answers; the text says which.
    Unconfirmed(String),
    Refused(String),
    /// The server does not understand the result.
    Failed(String),
}

/// Where the result of one stack goes.
#[derive(Debug)]
pub struct Report {
    pub key: StackKey,
    pub mode: Mode,
    pub run_id: Option<RunId>,
    started: Millis,
    /// Whether the server knows already that the job was asked to end.
    told_of_cut: Cell<bool>,
}

impl Report {
    pub fn new(job: &Job, key: StackKey, mode: Mode, run_id: Option<RunId>) -> Self {
        Self { key, mode, run_id, started: job.now(), told_of_cut: Cell::new(false) }
    }

    /// A result with the facts of this job and nothing of the tool's yet.
    pub fn blank(&self, job: &Job, status: ResultStatus) -> StackResult {
        StackResult {
            mode: self.mode,
            status,
            exit_code: 0,
            has_changes: false,
            summary: None,
            plan_text: None,
            truncated: false,
            error_text: String::new(),
            plan_artifact: String::new(),
            bundle_sha256: String::new(),
            plan_digest: String::new(),
            job_url: job.facts.job_url.clone(),
            tool: String::new(),
            tool_version: String::new(),
            duration_ms: (job.now() - self.started).max(0),
            backend: None,
            unconfirmed: false,
        }
    }

    /// Posts a result; what follows from the answer is the command's business.
    pub async fn post(&self, job: &Job, result: &StackResult) -> Posted {
        let (Some(server), Some(run_id)) = (&job.server, &self.run_id) else {
            let why = if job.server.is_none() { "there is no server to report to" } else { "no run id was given" };
            return Posted::Unconfirmed(why.to_owned());
        };
        // A job that was asked to end has ten seconds left.
        let server = if self.was_cut() { &server.in_a_hurry() } else { server };
        match server.result(run_id, &self.key, result).await {
            Ok(_) => Posted::Confirmed,
            Err(CallError::Refused(text)) => Posted::Refused(text),
            Err(CallError::Failed(text)) => Posted::Failed(text),
            Err(error @ CallError::Unreachable(_)) => Posted::Unconfirmed(error.to_string()),
        }
    }

    /// The moment somebody asks the job to end, the server is told: GitHub kills the job in about ten seconds.
    pub async fn tell_of_cut(&self, job: &Job, cut: &Cut) {
        if self.told_of_cut.replace(true) || self.run_id.is_none() {
            return;
        }
        let result =
            StackResult { exit_code: 1, error_text: cut.to_string(), ..self.blank(job, ResultStatus::Failure) };
        match self.post(job, &result).await {
            Posted::Confirmed => {}
            Posted::Unconfirmed(why) | Posted::Refused(why) | Posted::Failed(why) => {
                tracing::warn!(stack = %self.key, %why, "the server did not take the news that the job was cut short");
            }
        }
    }

    /// Whether the server was told of a cut; whatever follows then is late evidence.
    pub fn was_cut(&self) -> bool {
        self.told_of_cut.get()
    }

    /// Tells people that nobody confirmed the result.
    pub async fn tell_unconfirmed(&self, job: &Job, why: &str) {
        tell_unconfirmed(job, &format!("stackorder/{}: {}", self.mode, self.key), why).await;
    }
}

/// An error as it may be sent: redacted, and not longer than anybody reads.
pub fn error_text(redactor: &Redactor, text: &str) -> String {
    let redacted = redactor.redact(text.trim_end());
    if redacted.len() <= ERROR_TEXT_BYTES_MAX {
        return redacted;
    }
    // The first line names what failed, the end says why.
    let first = cut_at_line(redacted.lines().next().unwrap_or_default(), 1024);
    format!("{first}\n...\n{}", end_of(&redacted[redacted.ceil_char_boundary(redacted.len() - 14 * 1024)..]))
}
