//! The one comment about the plans of a pull request (spec 24 §5).
//!
//! What cannot be left out comes first. The table gets what the rest leaves, plans share what the table leaves:
//! a long plan folds to its counts in the table before the table loses a row.

use super::checks::roll_up;
use super::pull::{self, Pull, is_own_plan};
use super::waiting::Waiting;
use super::words::{self, count};
use super::{COMMENT_BYTES_MAX, Context, changes, checks, escape, lists, locks, queue, table};
use crate::clock::rfc3339;
use crate::graph::mermaid::{NODES_MAX, waves_mermaid};
use crate::graph::ordering::Ordering;
use crate::graph::resolution::{AffectedStack, Resolution};
use crate::guide::Topic;
use crate::run::model::{Row, Run};
use crate::run::plan_view::PlanView;
use crate::run::scene::Scene;
use crate::run::status::{Mode, RowStatus, RunStatus, Trigger};

mod room;

/// The first line, by which the comment is found again.
pub const MARKER: &str = "<!-- stackorder:sticky -->";

/// Most bytes of the parts of bounded size; together they leave more than a third to table and plans.
const LINE_BYTES_MAX: usize = 2_000;
const APPLIES_BYTES_MAX: usize = 5_000;
const LOCKS_BYTES_MAX: usize = 5_000;
const WHY_BYTES_MAX: usize = 8_000;
const WARNINGS_BYTES_MAX: usize = 8_000;
const GRAPH_BYTES_MAX: usize = 10_000;
/// Room for the sentence about plans that are left out.
const LEFT_OUT_BYTES_MAX: usize = 600;
/// A shown plan gets at least this much; with less it is left out.
const PLAN_BYTES_MIN: usize = 1_024;

const FOOTER: &str = "---\n\
    `stackorder plan [stacks]` plans again · `stackorder apply [stacks]` applies · \
    `stackorder unlock [stacks]` releases locks · `stackorder help` explains\n";

/// The comment as it should be; `None` while the pull request has no plan run.
pub fn comment(scene: &Scene, context: &Context) -> Option<String> {
    let pull = Pull::of(scene);
    let body = match pull.view().filter(|view| !view.is_empty()) {
        Some(view) => shown(scene, &view, context),
        None => superseded(scene, context)?,
    };
    Some(escape::cut_markdown(&body, COMMENT_BYTES_MAX).into_owned())
}

/// Every plan run was superseded and the new head has none yet.
fn superseded(scene: &Scene, context: &Context) -> Option<String> {
    let run = scene.newest_first().into_iter().find(|run| is_own_plan(run))?;
    let note = format!("{}; waiting for the plans of the new head.", checks::superseded_title(run));
    let mut out = head(scene, run, RunStatus::Superseded, context);
    out.push_str(&format!("{note}\n\n"));
    out.push_str(&applies(scene, context));
    out.push_str(FOOTER);
    Some(out)
}

/// In place of the checks that nobody sees (BL-127).
const CHECKS_REFUSED: &str = "**GitHub does not let Stackorder write checks here**: its App lacks the permission *Checks: write*. \
     Plans and applies go on; an owner of the organisation accepts the permission in the settings of the installation.";

fn shown(scene: &Scene, view: &PlanView<'_>, context: &Context) -> String {
    let newest = view.runs.first().copied().expect("the caller looked: the view has a run");
    let order = pull::order_of(scene, view);
    let rows = pull::by_wave(view, &order);

    // A run that is not resolved yet will replace what the view still shows.
    let waiting = Waiting::of(scene, view);
    let status = if newest.status == RunStatus::Pending { None } else { waiting.status(view) };
    let mut top = head(scene, newest, status.unwrap_or(newest.status), context);
    let title = roll_up::of_plans(view, &rows, &waiting).title;
    top.push_str(&format!("{}\n\n", escape::cut(&escape::text(&title), LINE_BYTES_MAX)));
    if let Some(advice) = advice(status) {
        top.push_str(&format!("{advice}\n\n"));
    }
    if context.checks_refused {
        top.push_str(&format!("{CHECKS_REFUSED} {}\n\n", Topic::ChecksRefused.link()));
    }
    top.push_str(&applies(scene, context));
    top.push_str(&foreign_locks(scene, &rows, context));
    top.push_str(&graph(&rows, &order));

    let mut bottom = why(&rows);
    bottom.push_str(&lists::warnings(warnings(view), WARNINGS_BYTES_MAX));
    bottom.push_str(FOOTER);

    let left = COMMENT_BYTES_MAX.saturating_sub(top.len() + bottom.len() + LEFT_OUT_BYTES_MAX);
    let mut table = table::stacks(&rows, &waiting).fit(left);
    if !table.is_empty() {
        table.push('\n');
    }
    let details = details(newest, &rows, left.saturating_sub(table.len()), context);
    format!("{top}{table}{details}{bottom}")
}

fn head(scene: &Scene, run: &Run, status: RunStatus, context: &Context) -> String {
    let commit = context.commit_link(&scene.repo.full_name, &run.sha);
    format!(
        "{MARKER}\n### Stackorder: {}\n\n{} · {commit} · {}\n\n",
        words::run_status(status),
        run.mode,
        context.run_link(&run.id)
    )
}

fn advice(status: Option<RunStatus>) -> Option<&'static str> {
    match status? {
        RunStatus::Failed => Some("Repair what failed and push, or comment `stackorder plan` to plan again."),
        RunStatus::Unconfirmed => Some(
            "The server did not confirm these plans, so they are no green light: comment `stackorder plan` once it answers.",
        ),
        RunStatus::Pending
        | RunStatus::Planning
        | RunStatus::Planned
        | RunStatus::Applying
        | RunStatus::Applied
        | RunStatus::Superseded => None,
    }
}

/// Every apply of the pull request, newest first.
fn applies(scene: &Scene, context: &Context) -> String {
    let newest = scene.newest_first().into_iter();
    let items: Vec<String> = newest
        .filter(|run| run.mode == Mode::Apply && run.trigger != Trigger::Manual)
        .map(|run| {
            let commit = context.commit_link(&scene.repo.full_name, &run.sha);
            let by = if run.is_merge_apply() { "on merge by" } else { "by" };
            let (status, login) = (words::run_status(run.status), escape::text(&run.requested_by));
            let place =
                if run.is_queued() { format!(" ({})", escape::text(&queue::title(scene, run))) } else { String::new() };
            format!("{commit} {status}{place}, {by} {login}, {}", context.run_link(&run.id))
        })
        .collect();
    if items.is_empty() {
        return String::new();
    }
    format!("**Applies**\n\n{}\n", lists::bullets(&items, APPLIES_BYTES_MAX))
}

fn foreign_locks(scene: &Scene, rows: &[(u32, &Row)], context: &Context) -> String {
    let items: Vec<String> = rows
        .iter()
        .filter_map(|(_, row)| locks::foreign(scene, &row.key))
        .map(|lock| {
            let (key, holder) = (escape::code(lock.key.as_str()), locks::holder(scene, context, lock));
            format!("{key} by {holder} since {}", rfc3339(lock.taken_at))
        })
        .collect();
    if items.is_empty() {
        return String::new();
    }
    format!(
        "**Locked by others: an apply of these is refused until the lock is released**\n\n{}\n",
        lists::bullets(&items, LOCKS_BYTES_MAX)
    )
}

/// The waves as a picture, while it is one that can be read.
fn graph(rows: &[(u32, &Row)], order: &Ordering) -> String {
    if !(2..=NODES_MAX).contains(&rows.len()) {
        return String::new();
    }
    let mut waves: Vec<Vec<String>> = Vec::new();
    for (wave, row) in rows {
        let wave = *wave as usize;
        if wave >= rows.len() {
            return String::new();
        }
        waves.resize(waves.len().max(wave + 1), Vec::new());
        waves[wave].push(row.key.to_string());
    }
    let affected = rows.iter().map(|(wave, row)| affected(*wave, row)).collect();
    let resolution = Resolution { affected, waves, ..Resolution::default() };
    let chart = waves_mermaid(&resolution, order).map(|chart| escape::fenced("mermaid", &chart));
    chart.filter(|chart| chart.len() <= GRAPH_BYTES_MAX).map(|chart| format!("{chart}\n")).unwrap_or_default()
}

fn affected(wave: u32, row: &Row) -> AffectedStack {
    AffectedStack {
        key: row.key.to_string(),
        path: row.key.path().to_owned(),
        instance: row.key.instance().to_owned(),
        workspace: row.workspace.clone(),
        wave,
        reasons: row.reasons.clone(),
        environment: row.environment.clone(),
        tool: Some(row.tool),
        tool_version: row.tool_version.clone(),
        plan_output: Some(row.plan_output),
        via: row.via.clone(),
        locked_by: None,
    }
}

fn why(rows: &[(u32, &Row)]) -> String {
    let items: Vec<String> = rows
        .iter()
        .filter(|(_, row)| !row.reasons.is_empty())
        .map(|(_, row)| format!("{}: {}", escape::code(row.key.as_str()), checks::why(row)))
        .collect();
    if items.is_empty() {
        return String::new();
    }
    format!("<details><summary>Why these stacks</summary>\n\n{}\n</details>\n\n", lists::bullets(&items, WHY_BYTES_MAX))
}

/// Warnings of the runs of the view, newest run first, each once.
fn warnings<'s>(view: &PlanView<'s>) -> Vec<(&'s str, Option<String>)> {
    let mut all: Vec<(&str, Option<String>)> = Vec::new();
    for (text, help) in view.runs.iter().flat_map(|run| run.explained_warnings()) {
        if !all.iter().any(|(known, _)| *known == text) {
            all.push((text, help));
        }
    }
    all
}

/// One section per stack that has something to show, sharing the room fairly; then what is left out.
fn details(newest: &Run, rows: &[(u32, &Row)], bytes_max: usize, context: &Context) -> String {
    let all: Vec<&Row> = rows.iter().map(|(_, row)| *row).filter(|row| has_something(row)).collect();
    let most = all.len().min(bytes_max / PLAN_BYTES_MIN);
    let whole: Vec<Option<String>> = all[..most].iter().map(|row| section(row, bytes_max, context)).collect();
    let sizes: Vec<usize> = whole.iter().flatten().map(String::len).collect();
    let share = room::share(&sizes, bytes_max);
    let mut out = String::new();
    let mut left_out: Vec<&str> = Vec::new();
    for (row, whole) in all.iter().zip(whole.into_iter().chain(std::iter::repeat(None))) {
        let fitting = match whole {
            Some(whole) if whole.len() <= share => Some(whole),
            Some(_) => section(row, share, context),
            None => None,
        };
        match fitting.filter(|section| out.len() + section.len() <= bytes_max) {
            Some(section) => out.push_str(&section),
            None => left_out.push(row.key.as_str()),
        }
    }
    if !out.is_empty() {
        out.push('\n');
    }
    if !left_out.is_empty() {
        let plans = count(left_out.len(), "plan");
        let page = context.run_link(&newest.id);
        out.push_str(&format!("No room here for {plans}; the table has the counts, the {page} has everything.\n\n"));
    }
    out
}

/// Empty plans are not shown, failures are.
fn has_something(row: &Row) -> bool {
    match row.status {
        RowStatus::Failed => true,
        RowStatus::Planned | RowStatus::Unconfirmed => {
            row.has_changes || row.summary.as_ref().is_some_and(|summary| !summary.is_empty())
        }
        RowStatus::Pending
        | RowStatus::Planning
        | RowStatus::Applying
        | RowStatus::Applied
        | RowStatus::Blocked
        | RowStatus::Noop
        | RowStatus::Unknown
        | RowStatus::Skipped => false,
    }
}

/// The section of one stack within the limit; `None` when its first line does not fit. A plan without text and addresses
/// is its counts alone.
fn section(row: &Row, bytes_max: usize, context: &Context) -> Option<String> {
    const CLOSE: &str = "\n\n</details>\n";
    let counts = match row.status {
        RowStatus::Failed => words::failed(row),
        RowStatus::Pending
        | RowStatus::Planning
        | RowStatus::Planned
        | RowStatus::Applying
        | RowStatus::Applied
        | RowStatus::Blocked
        | RowStatus::Noop
        | RowStatus::Unconfirmed
        | RowStatus::Unknown
        | RowStatus::Skipped => format!("{}, {}", row.status, words::planned(row)),
    };
    let key = escape::html(row.key.as_str());
    let open = format!("<details><summary><code>{key}</code>: {}</summary>\n\n", escape::html(&counts));
    let room = bytes_max.checked_sub(open.len() + CLOSE.len()).filter(|room| *room >= PLAN_BYTES_MIN / 2)?;
    let plan_text = context.plan_texts.get(&(row.run_id.clone(), row.key.clone())).map(String::as_str);
    let body = changes::of_row(row, plan_text, room).unwrap_or_else(|| {
        format!("The job log has the whole output; {} has the rest.\n", context.run_link(&row.run_id))
    });
    Some(format!("{open}{}{CLOSE}", body.trim_end()))
}
