//! The small parts of every page as HTML: badges, times, links. What they hold is escaped when they are written.

use askama::Template;
use askama::filters::HtmlSafe;

use super::links;
use crate::clock::{DAY_MS, HOUR_MS, MINUTE_MS, Millis, SECOND_MS, rfc3339};
use crate::render::words;
use crate::run::model::{Row, Run};
use crate::run::status::{RowStatus, RunStatus, VerdictStatus};

/// How a status feels. The style sheet gives each a colour and a sign; the words beside it say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// Nothing is known.
    Plain,
    /// Over, and of no interest.
    Quiet,
    Waiting,
    Busy,
    Good,
    /// Somebody should look.
    Warning,
    Bad,
}

impl Tone {
    pub fn class(self) -> &'static str {
        match self {
            Tone::Plain => "plain",
            Tone::Quiet => "quiet",
            Tone::Waiting => "waiting",
            Tone::Busy => "busy",
            Tone::Good => "good",
            Tone::Warning => "warning",
            Tone::Bad => "bad",
        }
    }

    pub fn of_run(status: RunStatus) -> Self {
        match status {
            RunStatus::Pending => Tone::Waiting,
            RunStatus::Planning | RunStatus::Applying => Tone::Busy,
            RunStatus::Planned | RunStatus::Applied => Tone::Good,
            RunStatus::Failed => Tone::Bad,
            RunStatus::Unconfirmed => Tone::Warning,
            RunStatus::Superseded => Tone::Quiet,
        }
    }

    pub fn of_row(row: &Row) -> Self {
        match row.status {
            RowStatus::Applying if row.waiting_for_approval => Tone::Waiting,
            RowStatus::Pending => Tone::Waiting,
            RowStatus::Planning | RowStatus::Applying => Tone::Busy,
            RowStatus::Planned | RowStatus::Applied | RowStatus::Noop => Tone::Good,
            RowStatus::Failed => Tone::Bad,
            RowStatus::Blocked | RowStatus::Unconfirmed | RowStatus::Unknown => Tone::Warning,
            RowStatus::Skipped if words::waits_for_request(row) => Tone::Warning,
            RowStatus::Skipped => Tone::Quiet,
        }
    }
}

/// A status: words with a colour and a sign.
#[derive(Debug, Clone, Template)]
#[template(source = r#"<span class="badge {{ tone.class() }}">{{ text }}</span>"#, ext = "html")]
pub struct Badge {
    pub tone: Tone,
    pub text: String,
}

impl HtmlSafe for Badge {}

impl Badge {
    pub fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { tone, text: text.into() }
    }

    /// `applying, wave 1 of 3`.
    pub fn of_run(run: &Run) -> Self {
        let text = match run.status {
            RunStatus::Applying if run.waves > 1 => format!("applying, wave {} of {}", run.current_wave, run.waves),
            other => words::run_status(other).to_owned(),
        };
        Self::new(Tone::of_run(run.status), text)
    }

    pub fn of_row(row: &Row) -> Self {
        Self::new(Tone::of_row(row), words::status(row))
    }

    pub fn of_verdict(status: VerdictStatus) -> Self {
        let tone = match status {
            VerdictStatus::Pass => Tone::Good,
            VerdictStatus::Fail => Tone::Bad,
            VerdictStatus::Warn => Tone::Warning,
        };
        Self::new(tone, status.as_str())
    }
}

/// A time in a reader's words, exact in the tooltip.
#[derive(Debug, Clone, Template)]
#[template(source = r#"<time datetime="{{ exact }}" title="{{ exact }}">{{ words }}</time>"#, ext = "html")]
pub struct When {
    pub exact: String,
    pub words: String,
}

impl HtmlSafe for When {}

impl When {
    pub fn at(at: Millis, now: Millis) -> Self {
        Self { exact: rfc3339(at), words: ago(at, now) }
    }
}

/// A text that leads somewhere, when there is somewhere safe to lead.
#[derive(Debug, Clone, Template)]
#[template(
    source = r#"{% if let Some(url) = url %}<a href="{{ url }}">{{ text }}</a>{% else %}{{ text }}{% endif %}"#,
    ext = "html"
)]
pub struct Link {
    pub text: String,
    pub url: Option<String>,
}

impl HtmlSafe for Link {}

impl Link {
    /// To an address we made ourselves.
    pub fn to(text: impl Into<String>, url: impl Into<String>) -> Self {
        Self { text: text.into(), url: Some(url.into()) }
    }

    /// To an address from outside: only http and https lead anywhere.
    pub fn foreign(text: impl Into<String>, url: &str) -> Self {
        Self { text: text.into(), url: links::web_address(url) }
    }

    pub fn nowhere(text: impl Into<String>) -> Self {
        Self { text: text.into(), url: None }
    }
}

/// A sentence, and where it leads.
#[derive(Debug, Clone)]
pub struct Sentence {
    pub text: String,
    pub link: Option<Link>,
}

impl Sentence {
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), link: None }
    }

    pub fn with(text: impl Into<String>, link: Link) -> Self {
        Self { text: text.into(), link: Some(link) }
    }
}

/// `just now`, `3 min ago`, `2 h ago`, `5 d ago`, then the date. Coarse, so that a page at rest stays the same page.
pub fn ago(at: Millis, now: Millis) -> String {
    const DAYS_MAX: Millis = 14;
    match now.saturating_sub(at) {
        passed if passed < MINUTE_MS => "just now".to_owned(),
        passed if passed < HOUR_MS => format!("{} min ago", passed / MINUTE_MS),
        passed if passed < DAY_MS => format!("{} h ago", passed / HOUR_MS),
        passed if passed < DAYS_MAX * DAY_MS => format!("{} d ago", passed / DAY_MS),
        _ => rfc3339(at).chars().take("2026-09-28".len()).collect(),
    }
}

/// `12 s`, `3 min 5 s`, `2 h 5 min`, `3 d 4 h`.
pub fn duration(length: Millis) -> String {
    let length = length.max(0);
    let two = |big: Millis, big_name: &str, small: Millis, small_name: &str| {
        let (first, rest) = (length / big, (length % big) / small);
        if rest == 0 { format!("{first} {big_name}") } else { format!("{first} {big_name} {rest} {small_name}") }
    };
    match length {
        _ if length < MINUTE_MS => format!("{} s", length / SECOND_MS),
        _ if length < HOUR_MS => two(MINUTE_MS, "min", SECOND_MS, "s"),
        _ if length < DAY_MS => two(HOUR_MS, "h", MINUTE_MS, "min"),
        _ => two(DAY_MS, "d", HOUR_MS, "h"),
    }
}

/// How long something took that has ended.
pub fn took(started: Option<Millis>, finished: Option<Millis>) -> Option<String> {
    Some(duration(finished?.checked_sub(started?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_coarse_and_lengths_are_exact() {
        let now = 40 * DAY_MS;
        let said = [0, 59_000, 61_000, 2 * HOUR_MS, 3 * DAY_MS].map(|passed| ago(now - passed, now));
        assert_eq!(said, ["just now", "just now", "1 min ago", "2 h ago", "3 d ago"]);
        assert_eq!(ago(0, now), "1970-01-01");
        assert_eq!(ago(now + 1, now), "just now");
        let lengths = [12_000, 185_000, 2 * HOUR_MS, 3 * DAY_MS + 4 * HOUR_MS, -5].map(duration);
        assert_eq!(lengths, ["12 s", "3 min 5 s", "2 h", "3 d 4 h", "0 s"]);
    }

    #[test]
    fn parts_escape_what_they_hold() {
        assert!(Badge::new(Tone::Bad, "<b>").to_string().contains("&#60;b&#62;"));
        let evil = Link::foreign("<i>", "javascript:alert(1)").to_string();
        assert_eq!(evil, "&#60;i&#62;");
        let quoted = Link::foreign("x", "https://a/\"onclick=").to_string();
        assert!(!quoted.contains("\"onclick"), "{quoted}");
    }
}
