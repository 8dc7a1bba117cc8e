//! `stackorder/resolve`: which stacks a pull request affects, why and in which order (spec 30 §3.5).

use super::{Content, TEXT_BYTES_MAX, roll_up};
use crate::ids::Sha;
use crate::render::check::{Check, CheckStatus, Conclusion};
use crate::render::pull::{self, is_own_plan};
use crate::render::table::Table;
use crate::render::words::count;
use crate::render::{Context, escape, lists, locks};
use crate::run::model::{Row, Run};
use crate::run::scene::Scene;
use crate::run::status::{RunStatus, Trigger};

/// Share of the summary for each of its lists.
const LIST_BYTES_MAX: usize = 12_000;

/// The run that resolved this commit.
fn run_of<'s>(scene: &'s Scene, head: &Sha) -> Option<&'s Run> {
    let stands = |run: &&Run| is_own_plan(run) && run.sha == *head && run.status != RunStatus::Superseded;
    let runs: Vec<&Run> = scene.newest_first().into_iter().filter(stands).collect();
    // After a changed base no job registers: the first run that the server started has all stacks, later ones some.
    runs.iter().find(|run| run.trigger == Trigger::PullRequest).or(runs.last()).copied()
}

pub fn check(scene: &Scene, head: &Sha, context: &Context) -> Option<Check> {
    let run = run_of(scene, head)?;
    Some(super::check(context, run, "stackorder/resolve".to_owned(), content(scene, run, context)))
}

fn content(scene: &Scene, run: &Run, context: &Context) -> Content {
    let rows: Vec<(u32, &Row)> = scene.rows(&run.id).map(|row| (row.wave, row)).collect();
    let (status, title) = verdict(run, &rows);
    let mut summary = String::new();
    if !run.cycles.is_empty() {
        summary.push_str(&cycles(run));
    } else if run.status == RunStatus::Failed && rows.is_empty() {
        summary.push_str(&format!("{}\n\n", escape::text(&title)));
    }
    if !run.external.is_empty() {
        let items: Vec<String> = run.external.iter().map(|key| escape::code(key)).collect();
        let list = lists::bullets(&items, LIST_BYTES_MAX);
        summary
            .push_str(&format!("**Depend on these stacks from other repositories, not scheduled here**\n\n{list}\n"));
    }
    if !run.removed.is_empty() {
        let items: Vec<String> = run
            .removed
            .iter()
            .map(|stack| match stack.state.as_str() {
                "" => escape::code(&stack.key),
                state => format!("{}, state in {}", escape::code(&stack.key), escape::code(state)),
            })
            .collect();
        let list = lists::bullets(&items, LIST_BYTES_MAX);
        summary.push_str(&format!("**Removed; what they manage stays until somebody destroys it**\n\n{list}\n"));
    }
    summary.push_str(&lists::warnings(run.explained_warnings(), LIST_BYTES_MAX));
    summary.push_str(&format!("{}\n", context.run_link(&run.id)));
    Content { status, title, summary, text: table(scene, &rows, context).fit(TEXT_BYTES_MAX) }
}

fn verdict(run: &Run, rows: &[(u32, &Row)]) -> (CheckStatus, String) {
    let ended = CheckStatus::Completed;
    if !run.cycles.is_empty() {
        return (ended(Conclusion::Failure), roll_up::failure(run));
    }
    if !rows.is_empty() {
        let (stacks, waves) = (count(rows.len(), "stack"), count(pull::waves(rows), "wave"));
        return (ended(Conclusion::Success), format!("{stacks} affected in {waves}"));
    }
    match run.status {
        RunStatus::Pending | RunStatus::Planning => (CheckStatus::InProgress, "Reading the stacks".to_owned()),
        RunStatus::Failed => (ended(Conclusion::Failure), roll_up::failure(run)),
        RunStatus::Planned
        | RunStatus::Applying
        | RunStatus::Applied
        | RunStatus::Unconfirmed
        | RunStatus::Superseded => (ended(Conclusion::Success), "No stacks affected".to_owned()),
    }
}

fn cycles(run: &Run) -> String {
    let items: Vec<String> = run
        .cycles
        .iter()
        .map(|cycle| cycle.iter().map(|key| escape::code(key)).collect::<Vec<_>>().join(" → "))
        .collect();
    let list = lists::bullets(&items, LIST_BYTES_MAX);
    format!(
        "These stacks wait for each other:\n\n{list}\n\
         Remove one of the edges, or list an edge that was only inferred under `ignore_inferred`.\n\n"
    )
}

fn table(scene: &Scene, rows: &[(u32, &Row)], context: &Context) -> Table {
    let mut rows = rows.to_vec();
    rows.sort_by(|(wave, row), (other_wave, other)| (wave, &row.key).cmp(&(other_wave, &other.key)));
    let cells = rows.into_iter().map(|(wave, row)| {
        let reasons: Vec<&str> = row.reasons.iter().map(|reason| reason.as_str()).collect();
        let lock = locks::foreign(scene, &row.key);
        vec![
            wave.to_string(),
            escape::code(row.key.as_str()),
            escape::cell(&row.environment),
            escape::cell(&reasons.join(", ")),
            if row.via.is_empty() { "–".to_owned() } else { lists::names(&row.via) },
            lock.map_or_else(|| "–".to_owned(), |lock| locks::holder(scene, context, lock)),
        ]
    });
    Table::new(&["Wave", "Stack", "Environment", "Reasons", "Via", "Lock"], cells)
}
