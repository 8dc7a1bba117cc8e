//! What an answer of GitHub means for the call: the retry table of spec 24 §3, as one pure function.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use super::transport::Answer;
use crate::clock::{HOUR_MS, MINUTE_MS, Millis, SECOND_MS};

/// How to go on after an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// The cached answer still stands.
    NotModified,
    Redirect,
    /// The token is not accepted.
    Refused,
    /// Not before this time.
    Limited(Millis),
    /// A 5xx that names no time: worth another try at once.
    Broken,
    NotFound,
    Permanent,
}

pub(super) fn judge(answer: &Answer, now: Millis) -> Verdict {
    let status = answer.status.as_u16();
    match status {
        200..=299 => Verdict::Fine,
        304 => Verdict::NotModified,
        301 | 302 | 303 | 307 | 308 => Verdict::Redirect,
        401 => Verdict::Refused,
        429 => Verdict::Limited(named_time(answer, now).unwrap_or(now + UNNAMED_WAIT_MS)),
        403 if is_rate_limit(answer) => Verdict::Limited(named_time(answer, now).unwrap_or(now + UNNAMED_WAIT_MS)),
        404 => Verdict::NotFound,
        500..=599 => named_time(answer, now).map_or(Verdict::Broken, Verdict::Limited),
        _ => Verdict::Permanent,
    }
}

/// GitHub asks for at least a minute after a limit that names no time.
const UNNAMED_WAIT_MS: Millis = MINUTE_MS;
/// Limits reset hourly; a time further away than this is a broken clock or a hostile answer.
const NAMED_WAIT_MAX_MS: Millis = 2 * HOUR_MS;

fn is_rate_limit(answer: &Answer) -> bool {
    answer.header("retry-after").is_some()
        || answer.header("x-ratelimit-remaining") == Some("0")
        || message(answer).to_ascii_lowercase().contains("rate limit")
}

/// `Retry-After` (seconds or a date), else one second after the reset of a used-up quota.
///
/// `X-RateLimit-Reset` is on every answer, so it means something only when nothing remains.
fn named_time(answer: &Answer, now: Millis) -> Option<Millis> {
    let after = answer.header("retry-after").and_then(|text| retry_after(text.trim(), now));
    let reset = || {
        let reset: Millis = answer.header("x-ratelimit-reset")?.trim().parse().ok()?;
        let used_up = answer.header("x-ratelimit-remaining") == Some("0");
        used_up.then(|| reset.saturating_add(1).saturating_mul(SECOND_MS))
    };
    let at = after.or_else(reset)?;
    Some(at.clamp(now, now + NAMED_WAIT_MAX_MS))
}

fn retry_after(text: &str, now: Millis) -> Option<Millis> {
    match text.parse::<u32>() {
        Ok(seconds) => Some(now + i64::from(seconds) * SECOND_MS),
        Err(_) => {
            let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
            Some(date.as_millisecond())
        }
    }
}

/// Longest part of GitHub's own words that is kept.
const MESSAGE_CHARS_MAX: usize = 500;

/// What GitHub says is wrong: `message`, with `errors` where it lists some.
pub(super) fn message(answer: &Answer) -> String {
    #[derive(Deserialize)]
    struct ErrorBody {
        #[serde(default)]
        message: String,
        #[serde(default)]
        errors: serde_json::Value,
    }
    let text = match serde_json::from_slice::<ErrorBody>(&answer.body) {
        Ok(ErrorBody { message, errors: serde_json::Value::Null }) => message,
        Ok(ErrorBody { message, errors }) => format!("{message} {errors}"),
        Err(_) => String::from_utf8_lossy(&answer.body[..answer.body.len().min(MESSAGE_CHARS_MAX)]).into_owned(),
    };
    text.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS_MAX).collect()
}

/// Tries after the first, within one call; longer troubles are the queue's.
pub(super) const RETRIES_MAX: u32 = 3;

/// 1 s, doubling.
pub(super) fn back_off(retry: u32) -> Duration {
    Duration::from_secs(1 << retry.min(5))
}

/// Waiting, so that tests need not.
#[async_trait]
pub trait Pause: Send + Sync {
    async fn pause(&self, delay: Duration);
}

/// Waits between half and all of the delay, so that many callers do not come back together.
#[derive(Debug, Clone, Copy, Default)]
pub struct JitteredPause;

#[async_trait]
impl Pause for JitteredPause {
    async fn pause(&self, delay: Duration) {
        let share = rand::random_range(0.5..=1.0);
        tokio::time::sleep(delay.mul_f64(share)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 1_700_000_000_000;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
        let headers = headers
            .iter()
            .map(|(name, value)| (axum::http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        Answer { status: axum::http::StatusCode::from_u16(status).unwrap(), headers, body: body.into() }
    }

    #[test]
    fn each_row_of_the_retry_table_has_its_verdict() {
        let reset = ("x-ratelimit-reset", "1700000600");
        let none_left = ("x-ratelimit-remaining", "0");
        let some_left = ("x-ratelimit-remaining", "12");
        let limited = |body| answer(403, &[some_left, reset], body);
        for (answer, verdict) in [
            (answer(200, &[], ""), Verdict::Fine),
            (answer(204, &[], ""), Verdict::Fine),
            (answer(304, &[], ""), Verdict::NotModified),
            (answer(307, &[], ""), Verdict::Redirect),
            (answer(401, &[], ""), Verdict::Refused),
            (answer(404, &[], ""), Verdict::NotFound),
            (answer(410, &[], ""), Verdict::Permanent),
            (answer(422, &[], ""), Verdict::Permanent),
            (answer(403, &[some_left, reset], r#"{"message":"Resource not accessible"}"#), Verdict::Permanent),
            (answer(403, &[none_left, reset], ""), Verdict::Limited(1_700_000_601_000)),
            (answer(429, &[none_left, reset], ""), Verdict::Limited(1_700_000_601_000)),
            (answer(429, &[], ""), Verdict::Limited(NOW + MINUTE_MS)),
            (answer(403, &[("retry-after", "30")], ""), Verdict::Limited(NOW + 30_000)),
            (limited(r#"{"message":"You have exceeded a secondary rate limit"}"#), Verdict::Limited(NOW + MINUTE_MS)),
            (answer(429, &[("retry-after", "Tue, 14 Nov 2023 22:14:00 GMT")], ""), Verdict::Limited(NOW + 40_000)),
            (answer(429, &[("retry-after", "4000000000")], ""), Verdict::Limited(NOW + NAMED_WAIT_MAX_MS)),
            (answer(502, &[some_left, reset], ""), Verdict::Broken),
            (answer(503, &[("retry-after", "5")], ""), Verdict::Limited(NOW + 5_000)),
        ] {
            assert_eq!(judge(&answer, NOW), verdict, "{answer:?}");
        }
    }

    #[test]
    fn messages_carry_the_listed_errors_and_stay_short() {
        let listed = answer(422, &[], r#"{"message":"Invalid request.","errors":["a is not permitted"]}"#);
        assert_eq!(message(&listed), r#"Invalid request. ["a is not permitted"]"#);
        let page = answer(502, &[], &"<html>é".repeat(400));
        assert!(message(&page).chars().count() <= MESSAGE_CHARS_MAX);
    }

    #[test]
    fn back_off_doubles_from_one_second() {
        let waits: Vec<u64> = (0..RETRIES_MAX).map(|retry| back_off(retry).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4]);
    }
}
