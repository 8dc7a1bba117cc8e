//! How an apply ended, and what to do next (spec 24 §5, spec 30 §6.2a, §15).

use super::checks::roll_up;
use super::table::Table;
use super::words::{self, count};
use super::{COMMENT_BYTES_MAX, Context, changes, escape, lists};
use crate::guide::Topic;
use crate::ids::{RunId, StackKey};
use crate::plan::summary::PlanSummary;
use crate::run::model::{Row, Run};
use crate::run::scene::Scene;
use crate::run::status::{RowStatus, RunStatus, SkipReason};

/// Room for each list and table of the comment.
const LIST_BYTES_MAX: usize = 10_000;
/// Room for the error texts of all broken stacks together, and for one.
const ERRORS_BYTES_MAX: usize = 16_000;
const ERROR_BYTES_MAX: usize = 2_000;

pub fn comment(scene: &Scene, id: &RunId, context: &Context) -> String {
    let Some(run) = scene.run(id) else { return String::new() };
    let selected: Vec<&Row> = scene.rows(id).filter(|row| words::is_selected(row)).collect();
    let mut out = match run.status {
        RunStatus::Applied => applied(scene, run, &selected, context),
        RunStatus::Failed
        | RunStatus::Pending
        | RunStatus::Planning
        | RunStatus::Planned
        | RunStatus::Applying
        | RunStatus::Unconfirmed
        | RunStatus::Superseded => failed(scene, run, &selected, context),
    };
    out.push_str(&new_plans(scene, run, &selected, context));
    out.push_str(&left_out(scene, run));
    out.push_str(&format!("{}\n\n", lock_state(scene, run, &selected)));
    if run.status != RunStatus::Applied {
        out.push_str(&next_command(run, &selected));
    }
    out.push_str(&format!("{}\n", context.run_link(id)));
    escape::cut_markdown(&out, COMMENT_BYTES_MAX).into_owned()
}

fn applied(scene: &Scene, run: &Run, selected: &[&Row], context: &Context) -> String {
    let commit = context.commit_link(&scene.repo.full_name, &run.sha);
    let done: Vec<&Row> = selected.iter().copied().filter(|row| row.status == RowStatus::Applied).collect();
    let earlier = done.iter().filter(|row| row.applied_by_run.is_some()).count();
    let idle = selected.iter().filter(|row| row.status == RowStatus::Noop).count();
    let totals = words::totals(done.iter().copied().filter(|row| row.applied_by_run.is_none()));
    let counts = if totals.is_empty() { "no changes".to_owned() } else { totals.past_tense_text() };
    let mut parts = Vec::new();
    if done.len() > earlier {
        parts.push(format!("{} applied: {counts}", count(done.len() - earlier, "stack")));
    }
    if earlier > 0 {
        parts.push(format!("{} applied by an earlier run", count(earlier, "stack")));
    }
    if idle > 0 {
        parts.push(format!("nothing to apply in {}", count(idle, "stack")));
    }
    let what = if parts.is_empty() { "nothing was applied".to_owned() } else { parts.join("; ") };
    format!("**Applied {commit}**, asked for by {}: {what}.\n\n", escape::text(&run.requested_by))
}

fn failed(scene: &Scene, run: &Run, selected: &[&Row], context: &Context) -> String {
    let commit = context.commit_link(&scene.repo.full_name, &run.sha);
    let broken: Vec<&Row> =
        selected.iter().copied().filter(|row| row.status.is_broken() && row.status != RowStatus::Blocked).collect();
    let blocked: Vec<&Row> = selected.iter().copied().filter(|row| row.status == RowStatus::Blocked).collect();
    if broken.is_empty() && blocked.is_empty() {
        let why = escape::text(&roll_up::failure(run));
        return format!("**Apply of {commit} ended without applying anything:** {why}.\n\n");
    }
    let mut out = format!(
        "**Apply of {commit} failed in wave {}**, asked for by {}.\n\n",
        run.current_wave,
        escape::text(&run.requested_by)
    );
    out.push_str(&broken_list(&broken));
    if !blocked.is_empty() {
        let items: Vec<String> = blocked.iter().map(|row| blocked_item(row)).collect();
        out.push_str(&format!("Blocked:\n\n{}\n", lists::bullets(&items, LIST_BYTES_MAX)));
    }
    let done: Vec<&StackKey> =
        selected.iter().filter(|row| row.status == RowStatus::Applied).map(|row| &row.key).collect();
    if !done.is_empty() {
        out.push_str(&format!("Applied: {}.\n\n", lists::names(&done)));
    }
    let later = run.waves.saturating_sub(run.current_wave + 1);
    if later > 0 {
        let waves = count(later as usize, "later wave");
        let was = if later == 1 { "was" } else { "were" };
        out.push_str(&format!("{waves} {was} not dispatched.\n\n"));
    }
    out
}

fn broken_list(broken: &[&Row]) -> String {
    let mut out = String::new();
    let mut shown = 0;
    for row in broken.iter().take(lists::ITEMS_MAX) {
        let job =
            if row.job_url.is_empty() { String::new() } else { format!(", {}", escape::link("job", &row.job_url)) };
        let status = escape::text(&words::status(row));
        let mut item = format!("{} {status}{job}\n\n", escape::code(row.key.as_str()));
        if !row.error_text.is_empty() && row.error_text != row.note {
            item.push_str(&format!("{}\n", changes::fenced("text", &row.error_text, ERROR_BYTES_MAX)));
        }
        if out.len() + item.len() > ERRORS_BYTES_MAX {
            break;
        }
        out.push_str(&item);
        shown += 1;
    }
    if broken.len() > shown {
        out.push_str(&format!("and {} more\n\n", broken.len() - shown));
    }
    out
}

fn blocked_item(row: &Row) -> String {
    if row.blocked_by.is_empty() {
        return escape::code(row.key.as_str());
    }
    format!("{} by {}", escape::code(row.key.as_str()), lists::names(&row.blocked_by))
}

/// Stacks that wait for another request, with the plan that was reviewed and the one that was not.
fn new_plans(scene: &Scene, run: &Run, selected: &[&Row], context: &Context) -> String {
    let renewed: Vec<&Row> = selected.iter().copied().filter(|row| words::has_new_plan(row)).collect();
    let waiting: Vec<&Row> =
        selected.iter().copied().filter(|row| words::waits_for_request(row) && !words::has_new_plan(row)).collect();
    if renewed.is_empty() && waiting.is_empty() {
        return String::new();
    }
    let mut out = format!("**{}.** {}\n\n", new_plans_title(run, renewed.len()), Topic::NewPlans.link());
    let cells = renewed.iter().map(|row| {
        let replan = scene.replan_of(&run.id, row.wave);
        let fresh = replan.and_then(|replan| scene.row(&replan.id, &row.key));
        vec![
            escape::code(row.key.as_str()),
            lists::names(&row.behind),
            counts(row.summary.as_ref()),
            counts(fresh.and_then(|fresh| fresh.summary.as_ref())),
            replan.map_or_else(|| "–".to_owned(), |replan| context.run_link(&replan.id)),
            escape::cell(&row.note),
        ]
    });
    let table = Table::new(&["Stack", "After", "Old plan", "New plan", "Run", "Why it waits"], cells);
    out.push_str(&format!("{}\n", table.fit(LIST_BYTES_MAX)));
    if !waiting.is_empty() {
        let items: Vec<String> = waiting
            .iter()
            .map(|row| format!("{} {}", escape::code(row.key.as_str()), escape::text(&row.note)))
            .collect();
        out.push_str(&format!("These wait for them:\n\n{}\n", lists::bullets(&items, LIST_BYTES_MAX)));
    }
    out
}

/// The title of the check, with the command as code.
fn new_plans_title(run: &Run, number: usize) -> String {
    let title = roll_up::new_plans(run, number);
    match title.strip_suffix("stackorder apply") {
        Some(before) => format!("{before}`stackorder apply`"),
        None => title,
    }
}

fn counts(summary: Option<&PlanSummary>) -> String {
    match summary {
        Some(summary) if summary.is_empty() => "no changes".to_owned(),
        Some(summary) => summary.counts_text(),
        None => "–".to_owned(),
    }
}

/// Stacks of the pull request that the request did not name.
fn left_out(scene: &Scene, run: &Run) -> String {
    let keys: Vec<&StackKey> = scene
        .rows(&run.id)
        .filter(|row| row.status == RowStatus::Skipped && row.skip_reason == Some(SkipReason::NotSelected))
        .map(|row| &row.key)
        .collect();
    if keys.is_empty() {
        return String::new();
    }
    format!(
        "Left out, because the request did not name {}: {}.\n\n",
        if keys.len() == 1 { "it" } else { "them" },
        lists::names(&keys)
    )
}

fn lock_state(scene: &Scene, run: &Run, selected: &[&Row]) -> String {
    let held = selected.iter().filter(|row| {
        scene.locks.get(&row.key).is_some_and(|lock| lock.pr_number != 0 && lock.pr_number == run.pr_number)
    });
    match held.count() {
        0 => "Its locks are released.".to_owned(),
        1 => "1 lock stays with this pull request until it is merged or `stackorder unlock` releases it.".to_owned(),
        number => format!(
            "{number} locks stay with this pull request until it is merged or `stackorder unlock` releases them."
        ),
    }
}

/// What a person can do about each kind of broken stack.
fn next_command(run: &Run, selected: &[&Row]) -> String {
    let of = |which: &dyn Fn(&Row) -> bool| -> Vec<&StackKey> {
        selected.iter().filter(|row| which(row)).map(|row| &row.key).collect()
    };
    let unknown = of(&|row| row.status == RowStatus::Unknown && row.claim.is_some());
    let untouched = |row: &Row| row.status.is_broken() && row.status != RowStatus::Blocked && row.claim.is_none();
    let used = of(&|row| matches!(row.status, RowStatus::Failed | RowStatus::Unconfirmed) && row.claim.is_some());
    // The newest plan of these is the one after their upstream, and it is no plan to apply.
    let unplanned = of(&|row| untouched(row) && !row.behind.is_empty());
    let undone = of(&|row| untouched(row) && row.behind.is_empty());
    let again = if run.is_merge_apply() { "ask for the apply on the run page" } else { "comment `stackorder apply`" };
    let mut items = Vec::new();
    if !unknown.is_empty() {
        items.push(format!(
            "Nobody knows what the jobs of {} did; the state may be partly changed. Read the job log, release the state \
             lock with the tool if the runner died, run {}, then {}. {}",
            lists::names(&unknown),
            command("stackorder unlock --force-state", &unknown),
            plan_again(&unknown),
            Topic::ApplyUnknown.link()
        ));
    }
    if !used.is_empty() {
        let plans = if used.len() == 1 { ("plan", "was") } else { ("plans", "were") };
        let names = lists::names(&used);
        items.push(format!(
            "The {} of {names} {} used: {}, then {again}. {}",
            plans.0,
            plans.1,
            plan_again(&used),
            Topic::ApplyFailed.link()
        ));
    }
    if !unplanned.is_empty() {
        let names = lists::names(&unplanned);
        let help = Topic::ApplyNeverStarted.link();
        items.push(format!("In {names} nothing was applied: {}, then {again}. {help}", plan_again(&unplanned)));
    }
    if !undone.is_empty() {
        let help = Topic::ApplyNeverStarted.link();
        items.push(format!("In {} nothing was applied: {again} again. {help}", lists::names(&undone)));
    }
    if items.is_empty() {
        items.push(format!("Nothing was applied: {again} again. {}", Topic::ApplyFailed.link()));
    }
    format!("**Next**\n\n{}\n", lists::bullets(&items, LIST_BYTES_MAX))
}

fn plan_again(keys: &[&StackKey]) -> String {
    format!("comment {}", command("stackorder plan", keys))
}

/// A command naming these stacks; without names when there are too many to type.
fn command(verb: &str, keys: &[&StackKey]) -> String {
    if keys.len() > lists::ITEMS_MAX {
        return escape::code(verb);
    }
    let keys: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
    escape::code(&format!("{verb} {}", keys.join(" ")))
}
