//! What a plan changes, as Markdown of a given size: its text, or the addresses by action.

use super::{escape, lists};
use crate::config::model::PlanOutput;
use crate::plan::summary::PlanSummary;
use crate::run::model::Row;
use crate::run::status::RowStatus;

const CUT_NOTE: &str = "\nCut here; the whole output is in the job log.\n";

/// The error of a failed stack, else the plan text, else addresses; `None` when there is nothing to show.
pub fn of_row(row: &Row, plan_text: Option<&str>, bytes_max: usize) -> Option<String> {
    if row.status == RowStatus::Failed && !row.error_text.is_empty() {
        return Some(fenced("text", &row.error_text, bytes_max));
    }
    match plan_text {
        Some(text) if row.plan_output == PlanOutput::Full && !text.is_empty() => Some(fenced("hcl", text, bytes_max)),
        Some(_) | None => row.summary.as_ref().and_then(|summary| addresses(summary, bytes_max)),
    }
}

/// A code block within the limit; a cut one says so.
pub fn fenced(language: &str, foreign: &str, bytes_max: usize) -> String {
    // Fencing only what can fit: a plan may be many times larger than its place.
    let beginning = escape::cut(foreign, bytes_max);
    let whole = escape::fenced(language, &beginning);
    if beginning.len() == foreign.len() && whole.len() <= bytes_max {
        return whole;
    }
    let shown = escape::cut_markdown(&whole, bytes_max.saturating_sub(CUT_NOTE.len()));
    format!("{shown}{CUT_NOTE}")
}

/// The addresses by action; `None` when the summary has none.
pub fn addresses(summary: &PlanSummary, bytes_max: usize) -> Option<String> {
    let actions = [
        ("Add", summary.adds, &summary.added),
        ("Change", summary.changes, &summary.changed),
        ("Destroy", summary.destroys, &summary.destroyed),
        ("Replace", summary.replaces, &summary.replaced),
    ];
    let known = actions.iter().filter(|(_, _, addresses)| !addresses.is_empty()).count();
    if known == 0 {
        return None;
    }
    let share = bytes_max / known;
    let mut out = String::new();
    for (action, number, addresses) in actions {
        if addresses.is_empty() {
            continue;
        }
        let total = addresses.len().max(number as usize);
        let items: Vec<String> = addresses.iter().take(lists::ITEMS_MAX).map(|address| escape::code(address)).collect();
        let head = format!("{action} {total}:\n\n");
        out.push_str(&head);
        out.push_str(&lists::bullets_of(&items, total, share.saturating_sub(head.len() + 1)));
        out.push('\n');
    }
    Some(out)
}
