//! Every corner case and every failure has a test that says its number, and `docs/cases.md` lists them all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::{root, rust_files};

const CASES: u32 = 160;
const FAILURES: u32 = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Number {
    Case(u32),
    Failure(u32),
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Case(number) => write!(f, "{number}"),
            Number::Failure(number) => write!(f, "F{number}"),
        }
    }
}

#[test]
fn every_corner_case_and_every_failure_is_in_the_table_with_its_tests() {
    let lines = lines(&std::fs::read_to_string(root().join("docs/cases.md")).unwrap());
    let numbers: Vec<Number> = lines.iter().map(|(number, _)| *number).collect();
    let all: Vec<Number> = (1..=CASES).map(Number::Case).chain((1..=FAILURES).map(Number::Failure)).collect();
    assert_eq!(numbers, all, "each number has one line, in order");

    let mut tests = tests();
    for (number, cell) in &lines {
        let shown_by = tests.remove(number).unwrap_or_default();
        assert!(!shown_by.is_empty(), "no test says {number} in its name");
        let wanted: Vec<String> = shown_by.iter().map(|path| format!("`{path}`")).collect();
        assert_eq!(*cell, wanted.join(", "), "the tests of {number}, which stand on the right");
    }
    assert!(tests.is_empty(), "numbers that there are not: {tests:?}");
}

#[test]
fn numbers_are_read_from_the_names_of_tests() {
    use Number::{Case, Failure};
    assert_eq!(numbers("case_055_of_two_one_wins"), Ok(vec![Case(55)]));
    assert_eq!(numbers("case_049_109_a_key"), Ok(vec![Case(49), Case(109)]));
    assert_eq!(numbers("failure_09_of_two_one_applies"), Ok(vec![Failure(9)]));
    assert_eq!(numbers("case_054_148_failure_10_an_artifact"), Ok(vec![Case(54), Case(148), Failure(10)]));
    assert_eq!(numbers("case_of_letters"), Ok(vec![]));
    assert_eq!(numbers("a_case_001"), Ok(vec![]));
    for name in ["case_81_two_digits", "failure_009_three", "case_0811_four", "case_001"] {
        assert!(numbers(name).is_err(), "{name}");
    }
}

/// Number and tests of each line of the table.
fn lines(text: &str) -> Vec<(Number, String)> {
    let line = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [number, says, tests] = cells.as_slice() else { return None };
        assert!(says.ends_with('.'), "{line}");
        let read = |digits: &str| digits.parse().ok();
        let number = match number.strip_prefix('F') {
            Some(digits) => Number::Failure(read(digits)?),
            None => Number::Case(read(number)?),
        };
        Some((number, (*tests).to_owned()))
    };
    text.lines().skip_while(|line| !line.starts_with("| ---")).skip(1).filter_map(line).collect()
}

/// The paths of the tests that say each number.
fn tests() -> BTreeMap<Number, BTreeSet<String>> {
    let root = root();
    let mut found: BTreeMap<Number, BTreeSet<String>> = BTreeMap::new();
    for folder in ["src", "tests", "fake-github"] {
        for file in rust_files(&root.join(folder)) {
            let module = module(file.strip_prefix(&root).unwrap());
            let text = std::fs::read_to_string(&file).unwrap();
            for name in text.lines().filter_map(function) {
                let numbers = numbers(name).unwrap_or_else(|why| panic!("{}: {name}: {why}", file.display()));
                for number in numbers {
                    found.entry(number).or_default().insert(format!("{module}::{name}"));
                }
            }
        }
    }
    found
}

/// The name of the function that a line declares.
fn function(line: &str) -> Option<&str> {
    let rest = line.trim_start();
    let name = rest.strip_prefix("async fn ").or_else(|| rest.strip_prefix("fn "))?;
    name.split(['(', '<']).next()
}

/// The numbers that a name begins with: those of cases have three digits, those of failures two.
fn numbers(name: &str) -> Result<Vec<Number>, &'static str> {
    let mut numbers = Vec::new();
    let mut rest = name;
    for (word, digits, number) in
        [("case_", 3, Number::Case as fn(u32) -> Number), ("failure_", 2, Number::Failure as fn(u32) -> Number)]
    {
        let Some(mut after) = rest.strip_prefix(word).filter(|after| after.starts_with(|c: char| c.is_ascii_digit()))
        else {
            continue;
        };
        while after.starts_with(|c: char| c.is_ascii_digit()) {
            let (group, more) = after.split_once('_').ok_or("a sentence has to follow")?;
            if group.len() != digits {
                return Err("cases have three digits, failures two");
            }
            numbers.push(number(group.parse().map_err(|_| "not a number")?));
            after = more;
        }
        rest = after;
    }
    Ok(numbers)
}

/// The path below which `cargo test` knows the tests of a file.
fn module(file: &Path) -> String {
    let mut names: Vec<String> =
        file.with_extension("").iter().map(|name| name.to_string_lossy().replace('-', "_")).collect();
    let of_library = names[0] == "src";
    if of_library || names[0] == "tests" {
        names.remove(0);
    }
    if names.last().is_some_and(|last| last == "mod" || last == "main") {
        names.pop();
    }
    if of_library && !names.iter().any(|name| name == "tests") {
        names.push("tests".to_owned());
    }
    // `tests/it/cases.rs` is `cases` of the binary `it`.
    names.join("::")
}
