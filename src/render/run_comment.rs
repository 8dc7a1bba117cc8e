//! The comment of one apply run, edited until the run ends (spec 24 §5, "Apply comment").

use super::checks::{self, roll_up};
use super::waiting::Waiting;
use super::words::{self, count};
use super::{COMMENT_BYTES_MAX, Context, escape, lists, table};
use crate::ids::RunId;
use crate::run::model::{Row, Run};
use crate::run::scene::Scene;
use crate::run::status::{Mode, RunStatus, Trigger};

const WARNINGS_BYTES_MAX: usize = 10_000;

/// The first line, by which the comment is found again.
pub fn marker(id: &RunId) -> String {
    format!("<!-- stackorder:run:{id} -->")
}

/// `None` for a run that has no comment: a plan, a manual run, an apply that still waits in the queue.
pub fn comment(scene: &Scene, id: &RunId, context: &Context) -> Option<String> {
    let run = scene.run(id)?;
    let has_comment = run.mode == Mode::Apply && run.trigger != Trigger::Manual && run.started_at.is_some();
    if !has_comment {
        return None;
    }
    let mut out = format!("{}\n{}", marker(id), head(scene, run, context));
    out.push_str(&checks::approvals(scene, run, context));
    if let Some(replan) = roll_up::open_replan(scene, run) {
        let page = escape::link("new plans", &context.run_page(&replan.id));
        out.push_str(&format!("Stacks of wave {} are planned again first: {page}.\n\n", run.current_wave));
    }
    let warnings = lists::warnings(run.explained_warnings(), WARNINGS_BYTES_MAX);
    let rows: Vec<(u32, &Row)> = scene.rows(id).map(|row| (row.wave, row)).collect();
    let room = COMMENT_BYTES_MAX.saturating_sub(out.len() + warnings.len() + 1);
    out.push_str(&table::stacks(&rows, &Waiting::default()).fit(room));
    if !warnings.is_empty() {
        out.push_str(&format!("\n{warnings}"));
    }
    Some(escape::cut_markdown(&out, COMMENT_BYTES_MAX).into_owned())
}

fn head(scene: &Scene, run: &Run, context: &Context) -> String {
    let commit = context.commit_link(&scene.repo.full_name, &run.sha);
    let by = if run.is_merge_apply() { "on merge by" } else { "requested by" };
    format!(
        "### Stackorder apply: {}\n\n{commit} · {by} {} · {}\n\n{}\n\n",
        words::run_status(run.status),
        escape::text(&run.requested_by),
        context.run_link(&run.id),
        escape::text(&line(scene, run))
    )
}

fn line(scene: &Scene, run: &Run) -> String {
    let rows: Vec<&Row> = scene.rows(&run.id).filter(|row| words::is_selected(row)).collect();
    let done = rows.iter().filter(|row| row.status.is_terminal()).count();
    match run.status {
        RunStatus::Superseded => checks::superseded_title(run),
        RunStatus::Failed => roll_up::broken(run, &rows),
        RunStatus::Applied => format!("{done} of {} done", count(rows.len(), "stack")),
        RunStatus::Pending
        | RunStatus::Planning
        | RunStatus::Planned
        | RunStatus::Applying
        | RunStatus::Unconfirmed => roll_up::progress(scene, run, &rows).title,
    }
}
