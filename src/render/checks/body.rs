//! The words under a stack's check: where it stands, what holds it, counts, verdicts, artifact (spec 24 §4).

use crate::clock::rfc3339;
use crate::guide::Topic;
use crate::render::table::Table;
use crate::render::{Context, escape, lists, locks, words};
use crate::run::model::{Row, Verdict};
use crate::run::scene::Scene;
use crate::run::status::{Mode, RowStatus};

/// Room for the table of verdicts.
const VERDICTS_BYTES_MAX: usize = 20_000;

/// The verdicts on this plan of the stack, by name.
pub fn verdicts<'s>(scene: &'s Scene, row: &'s Row) -> impl Iterator<Item = &'s Verdict> {
    scene.verdicts.values().filter(move |verdict| verdict.run_id == row.run_id && verdict.key == row.key)
}

/// The summary of a stack's check, as Markdown. The wave is the one to show, whatever run the row is of; `more_fitting`
/// replaces what its status alone would advise.
pub fn summary(
    scene: &Scene,
    wave: u32,
    row: &Row,
    more_fitting: Option<(String, Topic)>,
    context: &Context,
) -> String {
    let mut out = place(wave, row, context);
    if let Some((advice, topic)) = more_fitting.or_else(|| advice(row)) {
        out.push_str(&format!("\n{advice} {}\n", topic.link()));
    }
    if let Some(lock) = locks::foreign(scene, &row.key) {
        let holder = locks::holder(scene, context, lock);
        out.push_str(&format!(
            "\n**Locked by {holder}** since {}. Plans still run; an apply is refused until the lock is released.\n",
            rfc3339(lock.taken_at)
        ));
    }
    if let Some(counts) = counts(row) {
        out.push_str(&format!("\n{counts}"));
    }
    let verdicts: Vec<&Verdict> = verdicts(scene, row).collect();
    if !verdicts.is_empty() {
        out.push_str(&format!("\n{}", verdict_table(&verdicts).fit(VERDICTS_BYTES_MAX)));
    }
    if !row.plan_artifact.is_empty() {
        let until = match row.plan_artifact_expires_at {
            Some(at) if at <= context.now => format!(", expired since {}: its job plans it again", rfc3339(at)),
            Some(at) => format!(", until {}", rfc3339(at)),
            None => String::new(),
        };
        out.push_str(&format!("\nPlan artifact {}{until}\n", escape::code(&row.plan_artifact)));
    }
    if !row.plan_digest.is_empty() {
        out.push_str(&format!("\nPlan digest {}\n", escape::code(&row.plan_digest)));
    }
    if !row.bundle_sha256.is_empty() {
        out.push_str(&format!(
            "\nBundle {}, which its job proves before it applies\n",
            escape::code(&row.bundle_sha256)
        ));
    }
    out
}

fn place(wave: u32, row: &Row, context: &Context) -> String {
    let mut cells = vec![
        vec!["Mode".to_owned(), row.mode.to_string()],
        vec!["Stack".to_owned(), escape::code(row.key.as_str())],
        vec!["Wave".to_owned(), wave.to_string()],
        vec!["Environment".to_owned(), escape::code(&row.environment)],
        vec!["Run".to_owned(), context.run_link(&row.run_id)],
    ];
    if !row.job_url.is_empty() {
        cells.push(vec!["Job".to_owned(), escape::link("job log", &row.job_url)]);
    }
    if !row.reasons.is_empty() {
        cells.push(vec!["Why".to_owned(), why(row)]);
    }
    if let Some(earlier) = &row.applied_by_run {
        cells.push(vec!["Applied by".to_owned(), escape::link("an earlier run", &context.run_page(earlier))]);
    }
    let columns = ["", ""];
    Table::new(&columns, cells).fit(usize::MAX)
}

/// Why a stack is affected, with what the change travelled through.
pub fn why(row: &Row) -> String {
    let reasons: Vec<&str> = row.reasons.iter().map(|reason| words::reason(*reason)).collect();
    let via = if row.via.is_empty() { String::new() } else { format!(", via {}", lists::names(&row.via)) };
    format!("{}{via}", reasons.join("; "))
}

/// What to do about a stack that does not stand well, and where the guide goes on.
fn advice(row: &Row) -> Option<(String, Topic)> {
    let key = escape::code(&format!("stackorder unlock --force-state {}", row.key));
    let plan = escape::code(&format!("stackorder plan {}", row.key));
    Some(match (row.mode, row.status) {
        (Mode::Apply, RowStatus::Unknown) if row.claim.is_none() && row.behind.is_empty() => (
            "Its job never started; nothing was applied. Ask for the apply again.".to_owned(),
            Topic::ApplyNeverStarted,
        ),
        (Mode::Apply, RowStatus::Unknown) if row.claim.is_none() => {
            (format!("Nothing was applied. Comment {plan}, then ask for the apply again."), Topic::ApplyNeverStarted)
        }
        (Mode::Apply, RowStatus::Unknown) => (
            format!(
                "Nobody knows what its job did; the state may be partly changed. Read the job log, check the state lock and \
                 release it with the tool if the runner died, run {key}, then comment {plan}."
            ),
            Topic::ApplyUnknown,
        ),
        (Mode::Apply, RowStatus::Failed) if row.claim.is_some() => (
            format!("Its plan counts as used. Read the job log, then comment {plan} before the next apply."),
            Topic::ApplyFailed,
        ),
        (Mode::Plan | Mode::Drift, RowStatus::Unknown) => {
            (format!("Its job ended without a result. Comment {plan} to plan it again."), Topic::PlanUnknown)
        }
        (Mode::Plan | Mode::Drift, RowStatus::Failed) => {
            (format!("Repair it and push, or comment {plan} to plan it again."), Topic::PlanFailed)
        }
        (_, RowStatus::Unconfirmed) => (
            format!(
                "The runner did its work while the server could not be reached, so nothing confirms it. \
                 This is no green light: comment {plan} once the server answers."
            ),
            Topic::Unconfirmed,
        ),
        (_, RowStatus::Skipped) if words::waits_for_request(row) => (
            format!(
                "It was planned again after {} was applied, and nothing applies a plan that nobody has seen. \
                 Review the new plan, then ask for the apply again.",
                lists::names(&row.behind)
            ),
            Topic::NewPlans,
        ),
        (
            _,
            RowStatus::Pending
            | RowStatus::Planning
            | RowStatus::Planned
            | RowStatus::Applying
            | RowStatus::Applied
            | RowStatus::Failed
            | RowStatus::Blocked
            | RowStatus::Noop
            | RowStatus::Skipped,
        ) => return None,
    })
}

fn counts(row: &Row) -> Option<String> {
    let summary = row.summary.as_ref()?;
    let mut columns = vec!["Add", "Change", "Destroy", "Replace"];
    let mut cells = vec![summary.adds, summary.changes, summary.destroys, summary.replaces];
    let rare = [
        ("Import", summary.imports),
        ("Move", summary.moves),
        ("Forget", summary.forgets),
        ("Outputs", summary.output_changes),
    ];
    for (column, number) in rare.into_iter().filter(|(_, number)| *number > 0) {
        columns.push(column);
        cells.push(number);
    }
    let cells = cells.iter().map(ToString::to_string).collect();
    Some(Table::new(&columns, [cells]).fit(usize::MAX))
}

fn verdict_table(verdicts: &[&Verdict]) -> Table {
    let cells = verdicts.iter().map(|verdict| {
        let details = &verdict.details_url;
        vec![
            escape::code(&verdict.name),
            verdict.status.to_string(),
            escape::cell(&verdict.summary),
            if details.is_empty() { "–".to_owned() } else { escape::link("details", details) },
        ]
    });
    Table::new(&["Check", "Verdict", "Summary", "Details"], cells)
}
