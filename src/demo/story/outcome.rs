//! What the story left behind, in a form that two runs share: no ids, no times, no commit names.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};

use super::stage::Stage;
use crate::demo::laptop::{REPOSITORY, STATE_BUCKET};
use crate::run::status::Mode;

/// How far apart two looks must see the same before it counts as the end: workers of the server look more often.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
/// A server that still changes things after so many looks does not come to an end.
const LOOKS_MAX: usize = 40;

/// What is left once nothing moves any more.
pub async fn at_rest(stage: &Stage) -> anyhow::Result<Value> {
    let mut last = of(stage).await?;
    for _ in 0..LOOKS_MAX {
        tokio::time::sleep(LOOK_AGAIN).await;
        stage.hub().idle().await;
        let now = of(stage).await?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
    bail!("the server does not come to rest")
}

/// Pull requests with their checks and comments, runs with their rows, locks, state serials, issues.
async fn of(stage: &Stage) -> anyhow::Result<Value> {
    let mut pulls = BTreeMap::new();
    for (name, number) in &stage.pulls {
        pulls.insert(*name, pull(stage, *number).await?);
    }
    let mut serials = BTreeMap::new();
    for key in stage.laptop.s3.keys(STATE_BUCKET)? {
        if let Some(bytes) = stage.laptop.s3.get(STATE_BUCKET, &key)? {
            let state: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            serials.insert(key, state["serial"].clone());
        }
    }
    let mut issues: Vec<Value> = stage
        .hub()
        .issues(REPOSITORY)
        .into_iter()
        .filter(|issue| issue.pull.is_none())
        .map(|issue| json!({ "title": issue.title, "open": issue.open }))
        .collect();
    issues.sort_by_key(Value::to_string);
    Ok(json!({ "pull_requests": pulls, "locks": stage.locks().await?, "state_serials": serials, "issues": issues }))
}

async fn pull(stage: &Stage, number: i64) -> anyhow::Result<Value> {
    let head = stage.head(number)?;
    let checks: BTreeMap<String, Value> = stage
        .checks(&head)
        .into_iter()
        .filter(|(name, _)| name.starts_with("stackorder/"))
        .map(|(name, check)| {
            (name, json!({ "conclusion": check.conclusion, "title": plain(&check.title.unwrap_or_default()) }))
        })
        .collect();
    let mut comments: Vec<String> = stage
        .hub()
        .comments(REPOSITORY, number)
        .into_iter()
        .filter(|comment| comment.via_app.is_some())
        .map(|comment| plain(&comment.body))
        .collect();
    comments.sort();
    let mut runs = Vec::new();
    for mode in [Mode::Plan, Mode::Apply] {
        for run in stage.runs(number, mode).await? {
            let full = stage.run(run.id.as_str()).await?;
            let rows: BTreeMap<String, Value> = full
                .stacks
                .iter()
                .map(|row| {
                    let told = json!({
                        "status": row.status, "wave": row.wave, "reasons": row.reasons, "environment": row.environment,
                        "claimed": row.claimed_at.is_some(), "blocked_by": row.blocked_by, "note": plain(&row.note),
                        "summary": row.summary.as_ref().map(crate::plan::summary::PlanSummary::counts_text),
                    });
                    (row.key.clone(), told)
                })
                .collect();
            runs.push(json!({
                "mode": full.mode, "trigger": full.trigger, "status": full.status, "requested_by": full.requested_by,
                "waves": full.waves, "stacks": rows,
            }));
        }
    }
    runs.sort_by_key(Value::to_string);
    Ok(json!({ "checks": checks, "comments": comments, "runs": runs }))
}

/// Words that are ids, commits, numbers of other objects or times become `#`.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut word = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        // The colon of a time or of a port, not the one behind a word or an id.
        let in_time = c == ':' && ends_in_hours(&word) && rest.peek().is_some_and(char::is_ascii_digit);
        if c.is_ascii_alphanumeric() || c == '-' || in_time {
            word.push(c);
            continue;
        }
        plain.push_str(plain_word(&word));
        word.clear();
        plain.push(c);
    }
    plain.push_str(plain_word(&word));
    // Which job of a workflow run it was, a webhook tells, and a webhook may be lost.
    plain.replace("/actions/runs/#/job/#", "/actions/runs/#")
}

/// One or two digits, alone or behind the date or the hours of a time.
fn ends_in_hours(word: &str) -> bool {
    let rest = word.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(word.len() - rest.len(), 1..=2) && (rest.is_empty() || rest.ends_with(['T', ':']))
}

fn plain_word(word: &str) -> &str {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let hex = word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let long_number = digits >= 4 && digits == word.len();
    let id_or_date = hex && digits > 0 && word.len() >= 7;
    // An abbreviated commit may be all letters.
    let commit_of_letters = hex && word.len() == 7 && !word.contains('-');
    let time_or_port = word.contains(':');
    let ends_in_commit = word.rsplit('-').next().is_some_and(|tail| tail.len() == 40 && is_hex(tail));
    if long_number || id_or_date || commit_of_letters || time_or_port || ends_in_commit { "#" } else { word }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn what_differs_from_run_to_run_is_left_out_and_nothing_else() {
        let pairs = [
            ("since 2026-11-29T20:14:33Z", "since #"),
            ("since 2026-11-29 20:14 UTC", "since # # UTC"),
            (
                "http://127.0.0.1:40123/acme/infra/actions/runs/10234/job/99871",
                "http://127.0.0.#/acme/infra/actions/runs/#",
            ),
            ("run 0198c2de-8a3b-7c31-9b1f-3f6d0a4f3b11 at deadbee, 1a2b3c4", "run # at #, #"),
            ("stackorder-plan-stacks-prod-vpc-69df0ef0-3a3f411aa3a3f411aa3a3f411aa3a3f411aa3a3f", "#"),
            ("note:unlock:0198c2de-8a3b-7c31-9b1f-3f6d0a4f3b11:1764450000000", "note:unlock:#:#"),
            ("wave 0: 2 to add in 10.20.16.0/20", "wave 0: 2 to add in 10.20.16.0/20"),
            ("<!-- stackorder:note:merged:6 --> a facade #12", "<!-- stackorder:note:merged:6 --> a facade #12"),
        ];
        for (text, expected) in pairs {
            assert_eq!(plain(text), expected);
        }
    }
}
