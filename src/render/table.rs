//! The table of stacks: cut between rows, and saying how many it leaves out.

use super::waiting::Waiting;
use super::{escape, words};
use crate::plan::summary::PlanSummary;
use crate::run::model::Row;

const COLUMNS: [&str; 9] = ["Wave", "Stack", "Environment", "Add", "Change", "Destroy", "Replace", "Status", "Job"];
/// Room for the sentence under a table that was cut.
const NOTE_BYTES_MAX: usize = 100;

/// A Markdown table whose cells are finished Markdown.
#[derive(Debug, Clone)]
pub struct Table {
    head: String,
    rows: Vec<String>,
}

impl Table {
    pub fn new(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
        let rule = vec!["---"; columns.len()];
        let rows = rows.into_iter().map(|cells| line(&cells.iter().map(String::as_str).collect::<Vec<_>>())).collect();
        Self { head: format!("{}{}", line(columns), line(&rule)), rows }
    }

    /// As many rows as fit, then how many stacks are not shown. Empty without rows.
    pub fn fit(&self, bytes_max: usize) -> String {
        let whole = self.head.len() + self.rows.iter().map(String::len).sum::<usize>();
        if self.rows.is_empty() {
            return String::new();
        }
        if whole <= bytes_max {
            return format!("{}{}", self.head, self.rows.concat());
        }
        let mut out = self.head.clone();
        let mut shown = 0;
        for row in &self.rows {
            if out.len() + row.len() + NOTE_BYTES_MAX > bytes_max {
                break;
            }
            out.push_str(row);
            shown += 1;
        }
        let note = format!("\nThe table leaves out {}.\n", words::count(self.rows.len() - shown, "more stack"));
        if shown == 0 { note } else { out + &note }
    }
}

/// The stacks by wave, then key; the wave is the one to show, whatever run the row is of.
pub fn stacks(rows: &[(u32, &Row)], waiting: &Waiting) -> Table {
    let mut sorted = rows.to_vec();
    sorted.sort_by(|(wave, row), (other_wave, other)| (wave, &row.key).cmp(&(other_wave, &other.key)));
    Table::new(&COLUMNS, sorted.into_iter().map(|(wave, row)| cells(wave, row, waiting)))
}

fn cells(wave: u32, row: &Row, waiting: &Waiting) -> Vec<String> {
    let number = |field: fn(&PlanSummary) -> u32| match &row.summary {
        Some(summary) => field(summary).to_string(),
        None => "–".to_owned(),
    };
    let job = if row.job_url.is_empty() { "–".to_owned() } else { escape::link("job", &row.job_url) };
    vec![
        wave.to_string(),
        escape::code(row.key.as_str()),
        escape::cell(&row.environment),
        number(|summary| summary.adds),
        number(|summary| summary.changes),
        number(|summary| summary.destroys),
        number(|summary| summary.replaces),
        escape::cell(&waiting.words(row).unwrap_or_else(|| words::status(row))),
        job,
    ]
}
