//! What later steps of a workflow and the page of the job get (spec 12 §12).

use std::fs::OpenOptions;
use std::io::Write;

use super::environment::Environment;
use super::stop::Stop;

/// Most bytes of a step summary; GitHub refuses one above 1 MiB altogether.
const SUMMARY_BYTES_MAX: usize = 1_000_000;

/// With less room than this the next stack is left out altogether.
const WORTH_SHOWING_BYTES: usize = 1_000;

/// Appends outputs to `GITHUB_OUTPUT`, where there is one.
pub fn write(env: &Environment, outputs: &[(&str, String)]) -> Result<(), Stop> {
    let Some(path) = env.get("GITHUB_OUTPUT") else { return Ok(()) };
    let text: String = outputs.iter().map(|(name, value)| entry(name, value)).collect();
    append(path, &text).map_err(|error| Stop::failed(format!("GITHUB_OUTPUT {path}: {error}")))
}

/// Appends Markdown to `GITHUB_STEP_SUMMARY`. A summary that cannot be written is worth a log line, not a failure.
pub fn summarise(env: &Environment, markdown: &str) {
    let Some(path) = env.get("GITHUB_STEP_SUMMARY") else { return };
    let written = std::fs::metadata(path).map_or(0, |found| usize::try_from(found.len()).unwrap_or(usize::MAX));
    let left = SUMMARY_BYTES_MAX.saturating_sub(written);
    if left < WORTH_SHOWING_BYTES {
        return;
    }
    let cut = crate::render::escape::cut_markdown(markdown, left);
    if let Err(error) = append(path, &format!("{cut}\n")) {
        tracing::warn!(%path, %error, "cannot write the step summary");
    }
}

/// One line, or the delimited form with a delimiter that no value can know.
fn entry(name: &str, value: &str) -> String {
    if !value.contains(['\n', '\r']) {
        return format!("{name}={value}\n");
    }
    let delimiter = format!("stackorder_{}", uuid::Uuid::new_v4().as_simple());
    format!("{name}<<{delimiter}\n{value}\n{delimiter}\n")
}

fn append(path: &str, text: &str) -> std::io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_line_breaks_cannot_add_outputs() {
        let text = entry("summary", "a\nadmin=true");
        let (first, rest) = text.split_once('\n').unwrap();
        let delimiter = first.strip_prefix("summary<<").unwrap();
        assert_eq!(rest, format!("a\nadmin=true\n{delimiter}\n"));
        assert_eq!(entry("count", "3"), "count=3\n");
    }
}
