//! Durations as flags and variables spell them: `350m`, `6h`, `90s`, or a bare number of minutes.

use std::time::Duration;

use crate::runner::stop::Stop;

/// A GitHub-hosted job ends after 360 minutes; before that the tool must have stored its state.
const DEFAULT_CAP: &str = "350m";

/// The time for one job, and how it is called in errors: `--timeout`, else `STACKORDER_RUN_TTL`, else 350 minutes.
pub(super) fn cap(flag: Option<&str>, variable: Option<&str>) -> Result<(Duration, String), Stop> {
    let (name, text) = match (flag, variable) {
        (Some(text), _) => ("--timeout", text),
        (None, Some(text)) => ("STACKORDER_RUN_TTL", text),
        (None, None) => ("the default", DEFAULT_CAP),
    };
    let duration =
        parse(text).ok_or_else(|| Stop::failed(format!("{name}: {text:?} is no duration such as 350m, 6h or 90s")))?;
    Ok((duration, text.to_owned()))
}

fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "" | "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    // A year is more than any job and far from any overflow.
    let count = digits.parse::<u64>().ok().filter(|count| (1..=31_536_000).contains(count))?;
    Some(Duration::from_secs(count * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_or_are_minutes() {
        for (text, seconds) in [("350m", 21_000), ("6h", 21_600), ("90s", 90), ("10", 600)] {
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0", "-1m", "1d", "m", "1 h", "99999999999999999999s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
