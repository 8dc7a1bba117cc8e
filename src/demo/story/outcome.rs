//! What the story left behind, in a form that two runs share: no ids, no times, no commit names.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::stage::Stage;
use crate::demo::laptop::{REPOSITORY, STATE_BUCKET};
use crate::run::status::Mode;

/// Pull requests with their checks and comments, runs with their rows, locks, accepted workflow runs, state serials, issues.
pub async fn of(stage: &Stage) -> anyhow::Result<Value> {
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
    let accepted = stage.get::<Value>(&format!("/v1/repos/{REPOSITORY}/runs?pr={number}&mode=apply")).await?;
    let applies = accepted["items"].as_array().map_or(0, Vec::len);
    Ok(json!({ "checks": checks, "comments": comments, "runs": runs, "applies": applies }))
}

/// Words that are ids, commits, numbers of other objects or times become `#`.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut word = String::new();
    for c in text.chars().chain(std::iter::once(' ')) {
        if c.is_ascii_alphanumeric() || c == '-' {
            word.push(c);
            continue;
        }
        plain.push_str(if is_name_of_the_moment(&word) { "#" } else { &word });
        word.clear();
        plain.push(c);
    }
    plain.truncate(plain.len() - 1);
    plain
}

fn is_name_of_the_moment(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let hex = word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let long_number = digits >= 4 && digits == word.len();
    let id = hex && digits > 0 && word.len() >= 7;
    // An abbreviated commit may be all letters.
    let letters_only_commit = hex && word.len() == 7 && !word.contains('-');
    let time =
        digits >= 2 && (word.contains('T') || word.contains('Z')) && word.bytes().filter(|b| *b == b'-').count() >= 2;
    let slug_tail =
        word.rsplit('-').next().is_some_and(|tail| tail.len() == 40 && tail.bytes().all(|b| b.is_ascii_hexdigit()));
    let seconds = digits >= 2 && word.ends_with('Z');
    long_number || id || letters_only_commit || time || slug_tail || seconds
}
