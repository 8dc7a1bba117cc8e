//! `stackorder check`: records a named verdict on a stack's plan (spec 12 §6.5).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::Job;
use super::stack::choose;
use super::stop::Stop;
use crate::api::{CheckJson, CheckVerdict};
use crate::ids::StackKey;
use crate::plan::text::cut_at_line;
use crate::redaction::Redactor;
use crate::run::status::VerdictStatus;

/// Most bytes of a summary and of details.
const SUMMARY_BYTES_MAX: usize = 4 * 1024;
const DETAILS_BYTES_MAX: usize = 64 * 1024;

/// Most bytes that are read of a details file. Masking shortens a text, so more is read than is sent.
const DETAILS_READ_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Names that the server's own checks have.
const RESERVED: [&str; 3] = ["resolve", "plan", "apply"];

/// The verdict to record.
#[derive(Debug, Clone)]
pub struct CheckRequest {
    pub stack: String,
    pub run_id: Option<String>,
    pub name: String,
    pub status: VerdictStatus,
    pub summary: String,
    pub details_file: Option<PathBuf>,
    pub details_url: String,
}

/// Posts a verdict; the key it was posted for, and what the server stored.
pub async fn check(job: &Job, request: &CheckRequest) -> Result<(StackKey, CheckJson), Stop> {
    check_name(&request.name)?;
    let run_id = job
        .facts
        .run_id(request.run_id.as_deref(), &job.env)?
        .ok_or_else(|| Stop::failed("no run id: pass --run-id, or set STACKORDER_RUN_ID"))?;
    let Some(server) = &job.server else {
        return Err(Stop::failed("a verdict needs a server to record it, and outside of Actions an API key"));
    };
    let asked = StackKey::parse(&request.stack).map_err(|error| Stop::failed(format!("--stack: {error}")))?;
    // A job without a checkout knows no stacks; the server does.
    let key = match job.scan().and_then(|checkout| choose(&checkout, &request.stack)) {
        Ok(stack) => stack.key,
        Err(stop) if stop.to_string().contains("name one of") => return Err(stop),
        Err(stop) => {
            job.console.warn(&format!("{asked}: the stack cannot be loaded, the verdict is posted anyway: {stop}"));
            asked
        }
    };
    let redactor = Redactor::new().with_environment(job.env.iter());
    let details = match &request.details_file {
        None => String::new(),
        Some(file) => {
            let bytes = beginning_of(file)
                .map_err(|error| Stop::failed(format!("--details-file {}: {error}", file.display())))?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    let verdict = CheckVerdict {
        status: request.status,
        summary: cut_at_line(&redactor.redact(&request.summary), SUMMARY_BYTES_MAX).to_owned(),
        details: cut_at_line(&redactor.redact(&details), DETAILS_BYTES_MAX).to_owned(),
        details_url: redactor.redact(&request.details_url),
    };
    let stored = server.check(&run_id, &key, &request.name, &verdict).await.map_err(|error| error.or_failed())?;
    Ok((key, stored))
}

fn beginning_of(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(DETAILS_READ_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// 1 to 64 letters, digits, `-`, `_`, `.`, and not the name of one of the server's own checks (spec 10 §11).
fn check_name(name: &str) -> Result<(), Stop> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err(Stop::failed(format!("--name {name:?} is not 1 to 64 letters, digits, `-`, `_` and `.`")));
    }
    if RESERVED.contains(&name) {
        return Err(Stop::failed(format!("--name {name:?} belongs to a check of the server itself")));
    }
    Ok(())
}
