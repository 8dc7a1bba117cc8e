//! Checks of the plans of one commit: the roll-up, each stack, and named verdicts.

use super::{Content, PLAN, PerStack, TEXT_BYTES_MAX, body, check, roll_up, rows_of};
use crate::guide::Topic;
use crate::render::check::{Check, CheckStatus, Conclusion};
use crate::render::waiting::Waiting;
use crate::render::words;
use crate::render::{Context, changes, escape, lists, table};
use crate::run::model::{Row, Run, Verdict};
use crate::run::plan_view::PlanView;
use crate::run::scene::Scene;
use crate::run::status::{RowStatus, VerdictStatus};

/// Room for the verdicts under the roll-up.
const VERDICTS_BYTES_MAX: usize = 30_000;

/// The checks at the view's first commit; rows of its other commits have theirs where they were planned.
pub fn checks(scene: &Scene, view: &PlanView<'_>, context: &Context) -> Vec<Check> {
    let Some(newest) = view.runs.first() else { return Vec::new() };
    let (rows, waiting) = (rows_of(scene, view), Waiting::of(scene, view));
    let content = roll_up_content(scene, view, &rows, &waiting, context);
    let mut checks = vec![check(context, newest, PLAN.to_owned(), content)];
    let per_stack = PerStack::of(scene, view.rows.len());
    for (wave, row) in rows {
        let Some(run) = scene.run(&row.run_id).filter(|run| run.sha == view.sha) else { continue };
        if per_stack.shows(row.status.is_done_planning()) {
            let content = stack_content(scene, wave, row, &waiting, context);
            checks.push(check(context, run, format!("{PLAN}: {}", row.key), content));
        }
        if per_stack.shows(true) {
            checks.extend(body::verdicts(scene, row).map(|verdict| verdict_check(run, verdict, context)));
        }
    }
    for (run, row) in never_planned(scene, view) {
        if per_stack.shows(false) {
            let content = Content {
                status: CheckStatus::Completed(Conclusion::Cancelled),
                title: "Not planned: its job was never started".to_owned(),
                summary: body::summary(scene, row.wave, row, None, context),
                text: String::new(),
            };
            checks.push(check(context, run, format!("{PLAN}: {}", row.key), content));
        }
    }
    checks
}

/// Stacks that wait in a run that failed and that no other run of the commit planned.
fn never_planned<'s>(scene: &'s Scene, view: &PlanView<'s>) -> Vec<(&'s Run, &'s Row)> {
    let mut found: Vec<(&Run, &Row)> = Vec::new();
    for run in view.runs.iter().copied().filter(|run| run.sha == view.sha) {
        for row in scene.rows(&run.id) {
            let known = view.rows.contains_key(&row.key) || found.iter().any(|(_, other)| other.key == row.key);
            if !known {
                found.push((run, row));
            }
        }
    }
    found
}

fn roll_up_content(
    scene: &Scene,
    view: &PlanView<'_>,
    rows: &[(u32, &Row)],
    waiting: &Waiting,
    context: &Context,
) -> Content {
    let roll_up = roll_up::of_plans(view, rows, waiting);
    let mut summary = format!("{}\n\n", escape::text(&roll_up.title));
    if let Some((advice, topic)) = advice(roll_up.status, waiting) {
        summary.push_str(&format!("{advice} {}\n\n", topic.link()));
    }
    let against: Vec<String> = view
        .rows
        .values()
        .flat_map(|row| body::verdicts(scene, row))
        .filter(|verdict| verdict.status != VerdictStatus::Pass)
        .map(|verdict| {
            let (name, key) = (escape::code(&verdict.name), escape::code(verdict.key.as_str()));
            format!("{name} on {key}: {}, {}", verdict.status, escape::text(&verdict.summary))
        })
        .collect();
    if !against.is_empty() {
        summary.push_str(&format!("**Verdicts**\n\n{}\n", lists::bullets(&against, VERDICTS_BYTES_MAX)));
    }
    if let Some(run) = view.runs.first() {
        summary.push_str(&format!("{}\n", context.run_link(&run.id)));
    }
    Content {
        status: roll_up.status,
        title: roll_up.title,
        summary,
        text: table::stacks(rows, waiting).fit(TEXT_BYTES_MAX),
    }
}

fn advice(status: CheckStatus, waiting: &Waiting) -> Option<(&'static str, Topic)> {
    match status {
        CheckStatus::Completed(Conclusion::Failure) => {
            Some(("Repair what failed and push, or comment `stackorder plan` to plan again.", Topic::PlanFailed))
        }
        CheckStatus::Completed(Conclusion::ActionRequired) if !waiting.is_empty() => {
            let advice = "Apply the pull request; what waits is planned again after what it waits for.";
            Some((advice, Topic::NewPlans))
        }
        CheckStatus::Completed(Conclusion::ActionRequired) => Some((
            "The runners planned, and the server did not confirm it. This is no green light: \
             comment `stackorder plan` while the server can be reached.",
            Topic::Unconfirmed,
        )),
        CheckStatus::Completed(Conclusion::Success | Conclusion::Neutral | Conclusion::Cancelled)
        | CheckStatus::Queued
        | CheckStatus::InProgress => None,
    }
}

fn stack_content(scene: &Scene, wave: u32, row: &Row, waiting: &Waiting, context: &Context) -> Content {
    let ended = CheckStatus::Completed;
    let (status, title) = match row.status {
        RowStatus::Pending => (CheckStatus::Queued, "Queued".to_owned()),
        RowStatus::Planning | RowStatus::Applying => (CheckStatus::InProgress, "Planning".to_owned()),
        RowStatus::Planned | RowStatus::Applied => (ended(Conclusion::Success), words::planned(row)),
        RowStatus::Noop | RowStatus::Skipped => (ended(Conclusion::Success), "Nothing to plan".to_owned()),
        RowStatus::Failed if waiting.holds(row) => {
            let title = waiting.words(row).unwrap_or_default();
            (ended(Conclusion::Neutral), words::capitalised(&title))
        }
        RowStatus::Failed | RowStatus::Blocked => (ended(Conclusion::Failure), words::capitalised(&words::status(row))),
        RowStatus::Unknown => (ended(Conclusion::Failure), "Unknown: its job ended without a result".to_owned()),
        RowStatus::Unconfirmed => {
            (ended(Conclusion::Neutral), "Unconfirmed: the server did not confirm this plan".to_owned())
        }
    };
    let plan_text = context.plan_texts.get(&(row.run_id.clone(), row.key.clone())).map(String::as_str);
    Content {
        status,
        title,
        summary: body::summary(scene, wave, row, waiting.advice(row), context),
        text: changes::of_row(row, plan_text, TEXT_BYTES_MAX).unwrap_or_default(),
    }
}

fn verdict_check(run: &Run, verdict: &Verdict, context: &Context) -> Check {
    let conclusion = match verdict.status {
        VerdictStatus::Pass => Conclusion::Success,
        VerdictStatus::Warn => Conclusion::Neutral,
        VerdictStatus::Fail => Conclusion::Failure,
    };
    let mut summary = format!("{}\n", escape::text(&verdict.summary));
    if !verdict.details_url.is_empty() {
        summary.push_str(&format!("\n{}\n", escape::link("details", &verdict.details_url)));
    }
    let text = if verdict.details.is_empty() {
        String::new()
    } else {
        changes::fenced("text", &verdict.details, TEXT_BYTES_MAX)
    };
    let content = Content {
        status: CheckStatus::Completed(conclusion),
        title: format!("{}: {}", verdict.status, verdict.summary),
        summary,
        text,
    };
    check(context, run, format!("stackorder/{}: {}", verdict.name, verdict.key), content)
}
