//! Affected stacks as lines of text.

use unicode_width::UnicodeWidthStr as _;

use super::colour;
use crate::graph::resolution::{AffectedStack, Resolution};
use crate::runner::console::Console;
use crate::runner::stop::Stop;

/// The table of spec 12 §6.1: stacks by wave, then what was removed, then warnings.
pub(super) fn affected(resolution: &Resolution) -> String {
    let mut lines = if resolution.affected.is_empty() { Vec::new() } else { rows(&resolution.affected) };
    for stack in &resolution.removed {
        lines.push(colour::harmless(format!("removed  {}  {}", stack.key, stack.state).trim_end()));
    }
    if lines.is_empty() {
        lines.push("nothing is affected".to_owned());
    }
    for warning in &resolution.warnings {
        lines.push(format!("warning: {}", colour::harmless(&warning.to_string())));
    }
    lines.join("\n")
}

/// Says on standard error why nothing is affected, so that a person who looks only there knows.
pub(super) fn say_why_empty(resolution: &Resolution, console: &Console) {
    if !resolution.affected.is_empty() || !resolution.removed.is_empty() {
        return;
    }
    for warning in &resolution.warnings {
        console.note(&format!("nothing is affected: {}", colour::harmless(&warning.to_string())));
    }
}

/// Says on standard error how far a change reaches.
pub(super) fn say_how_many(resolution: &Resolution, console: &Console) {
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let (stacks, waves) = (resolution.affected.len(), resolution.waves.len());
    if stacks > 0 && waves > 0 {
        console.note(&format!("{} in {}", count(stacks, "stack"), count(waves, "wave")));
    }
}

/// One line per cycle, and the error that they are.
pub(super) fn cycles(resolution: &Resolution) -> (String, Stop) {
    let line = |cycle: &Vec<String>| colour::harmless(&format!("cycle: {}", cycle.join(" -> ")));
    let lines: Vec<String> = resolution.cycles.iter().map(line).collect();
    let count = lines.len();
    let what = if count == 1 { "a cycle" } else { "cycles" };
    (lines.join("\n"), Stop::failed(format!("the stacks depend on each other in {what}; nothing can be planned")))
}

/// A cell: its text, and the text with its colours, which takes no more room.
pub(super) struct Cell {
    plain: String,
    painted: String,
}

impl Cell {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        let plain = colour::harmless(&text.into());
        Self { painted: plain.clone(), plain }
    }
}

fn rows(stacks: &[AffectedStack]) -> Vec<String> {
    let heading = |text: &str| Cell { plain: text.to_owned(), painted: colour::bold(text) };
    let mut rows =
        vec![["WAVE", "STACK", "REASONS", "ENVIRONMENT"].map(heading).into_iter().chain([Cell::plain("")]).collect()];
    for stack in stacks {
        let wave = stack.wave.to_string();
        let reasons: Vec<&str> = stack.reasons.iter().map(|reason| reason.as_str()).collect();
        let painted: Vec<String> = stack.reasons.iter().map(|reason| colour::reason(*reason)).collect();
        let lock = stack.locked_by.as_ref().map(|lock| format!("locked by PR #{}", lock.pr_number));
        rows.push(vec![
            Cell { painted: colour::wave(stack.wave, &wave), plain: wave },
            Cell::plain(&stack.key),
            Cell { plain: reasons.join(","), painted: painted.join(",") },
            Cell::plain(&stack.environment),
            Cell::plain(lock.unwrap_or_default()),
        ]);
    }
    aligned(&rows)
}

/// Columns as wide as their widest cell.
pub(super) fn aligned(rows: &[Vec<Cell>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |row: &Vec<Cell>, column: usize| row.get(column).map_or(0, |cell| cell.plain.width());
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().map(|row| width(row, column)).max().unwrap_or(0)).collect();
    let line = |row: &Vec<Cell>| {
        // Nothing after the last cell that holds something: a line ends with its text.
        let used = row.iter().rposition(|cell| !cell.plain.is_empty()).map_or(0, |last| last + 1);
        let mut line = String::new();
        for (column, cell) in row.iter().take(used).enumerate() {
            line.push_str(&cell.painted);
            if column + 1 < used {
                line.extend(std::iter::repeat_n(' ', widths[column] + 2 - cell.plain.width()));
            }
        }
        line
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::graph::model::Warning;
    use crate::graph::resolution::{Reason, RemovedStack};
    use crate::runner::console::Format;

    fn stack(key: &str, wave: u32, reasons: &[Reason], environment: &str) -> AffectedStack {
        let text = serde_json::json!({
            "key": key, "path": key, "wave": wave, "reasons": reasons, "environment": environment,
        });
        serde_json::from_value(text).unwrap()
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    /// A key of a backend may hold a line break, and a line that begins with `::` is an order to GitHub's runner.
    #[test]
    fn columns_are_as_wide_as_what_they_show() {
        let rows = [["網路", "a"], ["net", "b"]].map(|row| Vec::from(row.map(Cell::plain)));
        assert_eq!(aligned(&rows), ["網路  a", "net   b"]);
    }

    #[test]
    fn nothing_of_a_repository_begins_a_line_or_steers_the_terminal() {
        let removed = RemovedStack {
            key: "stacks/\u{1b}[2Jold".into(),
            path: String::new(),
            state: "s3://b/k\n::stop-commands::x".into(),
            renamed_to: String::new(),
        };
        let resolution = Resolution {
            affected: vec![stack("stacks/a", 0, &[Reason::Changed], "prod\n::error::\u{9b}2J")],
            removed: vec![removed],
            cycles: vec![vec!["a\r".into(), "a\r".into()]],
            ..Resolution::default()
        };
        let text = format!("{}\n{}", plain(&affected(&resolution)), cycles(&resolution).0);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }

    #[test]
    fn colours_take_no_room_and_a_pipe_gets_none() {
        let resolution = Resolution {
            affected: vec![
                stack("stacks/vpc", 0, &[Reason::Changed, Reason::Module], "production"),
                stack("stacks/a", 1, &[Reason::Dependent], ""),
            ],
            ..Resolution::default()
        };
        let text = affected(&resolution);
        assert_ne!(plain(&text), text);
        insta::assert_snapshot!(plain(&text), @r"
        WAVE  STACK       REASONS         ENVIRONMENT
        0     stacks/vpc  changed,module  production
        1     stacks/a    dependent
        ");
    }

    /// What standard error says of a resolution.
    fn said(resolution: &Resolution) -> String {
        let err = Arc::new(Mutex::new(Vec::new()));
        let console = Console::to(Arc::new(Mutex::new(Vec::new())), err.clone(), Format::Text, false);
        say_why_empty(resolution, &console);
        String::from_utf8(err.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn an_empty_table_says_that_nothing_is_affected_and_why() {
        assert_eq!(affected(&Resolution::default()), "nothing is affected");
        let warnings = vec![Warning::new("path_unowned", "changed path \"x\" is in no stack or module")];
        let text = affected(&Resolution { warnings, ..Resolution::default() });
        assert_eq!(text, "nothing is affected\nwarning: changed path \"x\" is in no stack or module");
        let odd = Resolution { affected: vec![stack("stacks/\x1b[2J", 0, &[], "")], ..Resolution::default() };
        assert!(plain(&affected(&odd)).contains("0     stacks/\\u{1b}[2J"), "{:?}", affected(&odd));
        let removed = RemovedStack {
            key: "stacks/old".into(),
            path: "stacks/old".into(),
            state: "s3://b/old".into(),
            renamed_to: String::new(),
        };
        let warnings = vec![Warning::new("removed", "stack \"stacks/old\" is removed")];
        let gone = Resolution { removed: vec![removed], warnings, ..Resolution::default() };
        assert_eq!(affected(&gone), "removed  stacks/old  s3://b/old\nwarning: stack \"stacks/old\" is removed");
        assert_eq!(said(&gone), "");
        assert_eq!(
            said(&Resolution { removed: Vec::new(), ..gone }),
            "nothing is affected: stack \"stacks/old\" is removed\n"
        );
    }
}
