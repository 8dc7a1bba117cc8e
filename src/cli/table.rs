//! Affected stacks as lines of text.

use crate::graph::resolution::Resolution;
use crate::runner::console::Console;
use crate::runner::stop::Stop;

/// The table of spec 12 §6.1: stacks by wave, then what was removed, then warnings.
pub(super) fn affected(resolution: &Resolution) -> String {
    let mut rows = vec![["WAVE", "STACK", "REASONS", "ENVIRONMENT", ""].map(str::to_owned)];
    for stack in &resolution.affected {
        let reasons: Vec<&str> = stack.reasons.iter().map(|reason| reason.as_str()).collect();
        let lock = stack.locked_by.as_ref().map(|lock| format!("locked by PR #{}", lock.pr_number));
        rows.push([
            stack.wave.to_string(),
            stack.key.clone(),
            reasons.join(","),
            stack.environment.clone(),
            lock.unwrap_or_default(),
        ]);
    }
    let mut lines = if resolution.affected.is_empty() { Vec::new() } else { aligned(&rows) };
    for stack in &resolution.removed {
        lines.push(format!("removed  {}  {}", stack.key, stack.state).trim_end().to_owned());
    }
    for warning in &resolution.warnings {
        lines.push(format!("warning: {warning}"));
    }
    if lines.is_empty() {
        lines.push("nothing is affected".to_owned());
    }
    lines.join("\n")
}

/// Says on standard error why nothing is affected, so that a person who looks only there knows.
pub(super) fn say_why_empty(resolution: &Resolution, console: &Console) {
    for warning in resolution.warnings.iter().filter(|_| resolution.affected.is_empty()) {
        console.note(&format!("nothing is affected: {warning}"));
    }
}

/// One line per cycle, and the error that they are.
pub(super) fn cycles(resolution: &Resolution) -> (String, Stop) {
    let lines: Vec<String> = resolution.cycles.iter().map(|cycle| format!("cycle: {}", cycle.join(" -> "))).collect();
    let count = lines.len();
    let what = if count == 1 { "a cycle" } else { "cycles" };
    (lines.join("\n"), Stop::failed(format!("the stacks depend on each other in {what}; nothing can be planned")))
}

pub(super) fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
