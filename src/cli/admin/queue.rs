//! `stackorder admin queue …`: what is in inbox and outbox, and dead letters put back (spec 21 §3).

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::json;

use super::{Format, actor, database};
use crate::cli::output;
use crate::clock::{Clock as _, Millis, SystemClock, rfc3339};
use crate::graph::text::harmless;
use crate::run::model::AuditEntry;
use crate::store::{QueueFilter, QueueId, Queued, Store};

/// As much of an error as fits on a line or two; JSON has it whole.
const ERROR_CHARS_MAX: usize = 200;

#[derive(Debug, Subcommand)]
pub(super) enum QueueCommand {
    /// List what is in the queue, earliest due first.
    #[command(
        after_help = "Examples:\n  stackorder admin queue list\n  stackorder admin queue list --dead --format json"
    )]
    List {
        /// Only what was given up
        #[arg(long)]
        dead: bool,
        /// Show at most so many
        #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Put a dead letter back into the queue, due now and with all its attempts.
    #[command(after_help = "Example:\n  stackorder admin queue retry job:1234")]
    Retry {
        /// Id of the dead letter as the list shows it: event:<delivery id> or job:<number>
        id: String,
    },
}

pub(super) async fn run(command: QueueCommand, format: Format) -> anyhow::Result<()> {
    // Before a database is opened for nothing.
    let retried = match &command {
        QueueCommand::Retry { id } => Some(
            QueueId::parse(id).with_context(|| format!("{id:?} is neither event:<delivery id> nor job:<number>"))?,
        ),
        QueueCommand::List { .. } => None,
    };
    let store = database().await?;
    let now = SystemClock::default().now();
    let shown = match (command, retried) {
        (QueueCommand::List { dead, limit }, _) => {
            let filter = if dead { QueueFilter::Dead } else { QueueFilter::All };
            store.queue(filter, limit).await.map(|queued| list(&queued, now, format)).map_err(anyhow::Error::from)
        }
        (QueueCommand::Retry { .. }, Some(id)) => retry(&*store, &id, now, format).await,
        (QueueCommand::Retry { .. }, None) => unreachable!("an id that does not parse has ended the command"),
    };
    store.close().await;
    output::print(shown?.as_bytes())
}

async fn retry(store: &dyn Store, id: &QueueId, now: Millis, format: Format) -> anyhow::Result<String> {
    let entry = AuditEntry {
        at: now,
        actor: actor(),
        action: "queue_retry".to_owned(),
        target: id.to_string(),
        details: Default::default(),
    };
    let revived = store.revive(id, now, &entry).await?;
    anyhow::ensure!(revived, "{id} is no dead letter: it waits, is being worked on, is done, or never was");
    Ok(match format {
        Format::Text => format!("{id} is due again\n"),
        Format::Json => format!("{}\n", json!({ "id": id.to_string(), "due_at": rfc3339(now) })),
    })
}

fn state(one: &Queued, now: Millis) -> &'static str {
    match one.claimed_until {
        _ if one.dead => "dead",
        Some(until) if until > now => "worked on",
        Some(_) | None if one.due_at > now => "waits",
        Some(_) | None => "due",
    }
}

fn list(queued: &[Queued], now: Millis, format: Format) -> String {
    match format {
        Format::Json => {
            let row = |one: &Queued| {
                json!({
                    "id": one.id.to_string(), "kind": one.kind, "key": one.key, "state": state(one, now),
                    "attempts": one.attempts, "due_at": rfc3339(one.due_at),
                    "claimed_until": one.claimed_until.map(rfc3339), "last_error": one.last_error,
                })
            };
            format!("{}\n", json!(queued.iter().map(row).collect::<Vec<_>>()))
        }
        Format::Text if queued.is_empty() => "nothing\n".to_owned(),
        Format::Text => table(queued, now),
    }
}

/// One line each, and the last error beneath it.
fn table(queued: &[Queued], now: Millis) -> String {
    let head = ["ID", "STATE", "ATTEMPTS", "DUE", "KIND", "KEY"].map(str::to_owned);
    let cells = |one: &Queued| {
        [
            harmless(&one.id.to_string()),
            state(one, now).to_owned(),
            one.attempts.to_string(),
            rfc3339(one.due_at),
            harmless(&one.kind),
            harmless(one.key.as_deref().unwrap_or("-")),
        ]
    };
    let lines: Vec<[String; 6]> = std::iter::once(head).chain(queued.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..6).map(width).collect();
    let mut out = String::new();
    for (number, line) in lines.iter().enumerate() {
        let padded: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}", width = *width)).collect();
        out.push_str(padded.join("  ").trim_end());
        out.push('\n');
        let error = number.checked_sub(1).map_or("", |number| queued[number].last_error.as_str());
        if !error.is_empty() {
            let short: String = harmless(error).chars().take(ERROR_CHARS_MAX).collect();
            out.push_str(&format!("    {short}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(id: QueueId, due_at: Millis) -> Queued {
        Queued {
            id,
            kind: "render".to_owned(),
            key: None,
            attempts: 0,
            due_at,
            claimed_until: None,
            dead: false,
            last_error: String::new(),
        }
    }

    #[test]
    fn a_list_says_what_becomes_of_each_piece() {
        let dead = Queued {
            kind: "issue_comment".to_owned(),
            attempts: 5,
            dead: true,
            last_error: "GitHub answered 502\n\x1b[31mto a comment".to_owned(),
            ..queued(QueueId::Event("ab-1".to_owned()), 1_000)
        };
        let held =
            Queued { claimed_until: Some(70_000), key: Some("render:7".to_owned()), ..queued(QueueId::Job(4), 2_000) };
        let list = [dead, held, queued(QueueId::Job(12), 3_000), queued(QueueId::Job(13), 90_000)];
        insta::assert_snapshot!(table(&list, 60_000), @r"
        ID          STATE      ATTEMPTS  DUE                   KIND           KEY
        event:ab-1  dead       5         1970-01-01T00:00:01Z  issue_comment  -
            GitHub answered 502\n\u{1b}[31mto a comment
        job:4       worked on  0         1970-01-01T00:00:02Z  render         render:7
        job:12      due        0         1970-01-01T00:00:03Z  render         -
        job:13      waits      0         1970-01-01T00:01:30Z  render         -
        ");
        let read: serde_json::Value = serde_json::from_str(&super::list(&list, 60_000, Format::Json)).unwrap();
        let states: Vec<&str> = read.as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
        assert_eq!(states, ["dead", "worked on", "due", "waits"]);
        assert_eq!(read[0]["last_error"], list[0].last_error, "JSON has it whole");
    }
}
