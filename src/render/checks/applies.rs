//! Checks of the applies of one commit: the roll-up and each stack, as the newest apply that selected it left it.

use super::{APPLY, Content, PerStack, TEXT_BYTES_MAX, body, check, roll_up, superseded_content, table_of};
use crate::ids::Sha;
use crate::render::check::{Check, CheckStatus, Conclusion};
use crate::render::pull::{Pull, applied_view, applies_at};
use crate::render::{Context, changes, escape, lists, queue, words};
use crate::run::model::{Row, Run};
use crate::run::scene::Scene;
use crate::run::status::{RowStatus, RunStatus, SkipReason};

pub fn checks(pull: &Pull<'_>, sha: &Sha, context: &Context) -> Vec<Check> {
    let scene = pull.scene;
    let runs = applies_at(scene, sha);
    let (Some(newest), Some(roll_up)) = (runs.first(), roll_up::of_applies(pull, &runs)) else { return Vec::new() };
    let view = applied_view(scene, &runs);
    let mut rows: Vec<(u32, &Row)> = view.values().map(|(_, row)| (row.wave, *row)).collect();
    rows.sort_by(|(wave, row), (other_wave, other)| (wave, &row.key).cmp(&(other_wave, &other.key)));
    let content = Content {
        status: roll_up.status,
        summary: summary(scene, newest, &roll_up.title, context),
        title: roll_up.title,
        text: table_of(&rows),
    };
    let mut checks = vec![check(context, newest, APPLY.to_owned(), content)];
    let per_stack = PerStack::of(scene, view.len());
    for (run, row) in view.values() {
        let has_result = row.status.is_terminal() || run.status.is_terminal();
        if per_stack.shows(has_result) {
            let content = stack_content(scene, run, row, context);
            checks.push(check(context, run, format!("{APPLY}: {}", row.key), content));
        }
    }
    checks
}

fn summary(scene: &Scene, run: &Run, title: &str, context: &Context) -> String {
    let mut out = format!("{}\n\n", escape::text(title));
    out.push_str(&queue::list(scene, run));
    out.push_str(&approvals(scene, run, context));
    out.push_str(&lists::warnings(run.explained_warnings(), TEXT_BYTES_MAX / 2));
    out.push_str(&format!("Requested by {}, {}\n", escape::text(&run.requested_by), context.run_link(&run.id)));
    out
}

/// The environments that wait for a reviewer, one link each.
pub fn approvals(scene: &Scene, run: &Run, context: &Context) -> String {
    const BYTES_MAX: usize = 8_000;
    let Some(pending) = context.pending.get(&run.id).filter(|pending| !pending.is_empty()) else {
        return String::new();
    };
    let mut pending = pending.clone();
    pending.sort();
    pending.dedup();
    let items: Vec<String> = pending
        .iter()
        .map(|(environment, workflow_run_id)| {
            let page = context.workflow_run(&scene.repo.full_name, *workflow_run_id);
            format!("{}: {}", escape::code(environment), escape::link("approve or reject", &page))
        })
        .collect();
    format!("**Waiting for approval**\n\n{}\n", lists::bullets(&items, BYTES_MAX))
}

fn stack_content(scene: &Scene, run: &Run, row: &Row, context: &Context) -> Content {
    let mut content = match run.status {
        RunStatus::Superseded => superseded_content(run, Conclusion::Cancelled),
        RunStatus::Pending
        | RunStatus::Planning
        | RunStatus::Planned
        | RunStatus::Applying
        | RunStatus::Applied
        | RunStatus::Failed
        | RunStatus::Unconfirmed => {
            let (status, title) = verdict(scene, run, row);
            Content { status, title, summary: String::new(), text: text(row) }
        }
    };
    if row.status == RowStatus::Applying && row.waiting_for_approval {
        content.summary.push_str(&approvals(scene, run, context));
    }
    content.summary.push_str(&body::summary(scene, row.wave, row, None, context));
    content
}

/// What was applied, by address: the plan itself stands under the check of the plan.
fn text(row: &Row) -> String {
    match row.status {
        RowStatus::Failed | RowStatus::Unknown if !row.error_text.is_empty() => {
            changes::fenced("text", &row.error_text, TEXT_BYTES_MAX)
        }
        RowStatus::Pending
        | RowStatus::Planning
        | RowStatus::Planned
        | RowStatus::Applying
        | RowStatus::Applied
        | RowStatus::Failed
        | RowStatus::Blocked
        | RowStatus::Noop
        | RowStatus::Unconfirmed
        | RowStatus::Unknown
        | RowStatus::Skipped => {
            row.summary.as_ref().and_then(|summary| changes::addresses(summary, TEXT_BYTES_MAX)).unwrap_or_default()
        }
    }
}

fn verdict(scene: &Scene, run: &Run, row: &Row) -> (CheckStatus, String) {
    let ended = CheckStatus::Completed;
    match row.status {
        RowStatus::Pending | RowStatus::Planned if run.status.is_terminal() => {
            (ended(Conclusion::Cancelled), "Never reached: the run ended before its wave".to_owned())
        }
        RowStatus::Pending | RowStatus::Planning => (CheckStatus::Queued, "Queued".to_owned()),
        RowStatus::Planned => (CheckStatus::Queued, waits_for(scene, run, row)),
        RowStatus::Applying if run.status.is_terminal() => {
            (ended(Conclusion::Cancelled), "The run ended before its result".to_owned())
        }
        RowStatus::Applying if row.waiting_for_approval => {
            (CheckStatus::InProgress, format!("Waiting for approval of {}", row.environment))
        }
        RowStatus::Applying => (CheckStatus::InProgress, format!("Applying in {}", row.environment)),
        RowStatus::Applied => (ended(Conclusion::Success), words::applied(row)),
        RowStatus::Noop => (ended(Conclusion::Success), "Nothing to apply".to_owned()),
        RowStatus::Failed | RowStatus::Blocked => (ended(Conclusion::Failure), words::capitalised(&words::status(row))),
        RowStatus::Unknown if words::never_claimed(row) => {
            (ended(Conclusion::Failure), "Never started; nothing was applied".to_owned())
        }
        RowStatus::Unknown => {
            let title = format!("Result unknown; see stackorder unlock --force-state {}", row.key);
            (ended(Conclusion::Failure), title)
        }
        RowStatus::Unconfirmed => {
            (ended(Conclusion::Neutral), "Unconfirmed: the server did not confirm this apply".to_owned())
        }
        RowStatus::Skipped => skipped(row),
    }
}

fn skipped(row: &Row) -> (CheckStatus, String) {
    match row.skip_reason {
        Some(SkipReason::PlanChanged | SkipReason::Verdict | SkipReason::Waits) => {
            (CheckStatus::Completed(Conclusion::ActionRequired), words::capitalised(&row.note))
        }
        Some(SkipReason::NotSelected) | None => {
            (CheckStatus::Completed(Conclusion::Neutral), "Not in the requested subset".to_owned())
        }
    }
}

/// What a stack whose job has not started waits for.
fn waits_for(scene: &Scene, run: &Run, row: &Row) -> String {
    if run.status == RunStatus::Pending {
        return queue::title(scene, run);
    }
    if row.wave > run.current_wave {
        return format!("Waiting for wave {}", row.wave - 1);
    }
    match roll_up::open_replan(scene, run) {
        Some(_) if !row.behind.is_empty() => format!("Planning again after {}", row.behind.join(", ")),
        Some(_) => format!("Waiting for new plans of wave {}", row.wave),
        None => "Queued".to_owned(),
    }
}
