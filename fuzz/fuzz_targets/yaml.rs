//! Any bytes are a configuration, or a list of located problems (`config::parse` and what reads its values).
//!
//! The input is `stackorder.yaml`; what follows a line `-- path --` is another file, such as the stack file.
#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use stackorder::config::compare::differing_keys;
use stackorder::config::lines::KeyLines;
use stackorder::config::model::{RepoConfig, StackConfig};
use stackorder::config::parse::{Problem, parse_repo_config, parse_stack_config};
use stackorder::config::{ROOT_FILE, stack_file};
use stackorder::scan::configuration::{check, stack_settings};
use stackorder::scan::{Files, ScanOptions};
use stackorder_fuzz::{checkout, in_memory};

const STACK: &str = "stacks/prod/vpc";
const MAIN: &str = "terraform {\n  backend \"s3\" {\n    bucket = \"b\"\n    key = \"k\"\n  }\n}\n";
/// The limit of `config::problem` and the line that says so.
const PROBLEMS_MAX: usize = 201;
/// Far above what two hundred problems of a few lines need.
const PROBLEM_BYTES_MAX: usize = 512 * 1024;

fuzz_target!(|bytes: &[u8]| {
    let mut files = checkout(bytes, ROOT_FILE);
    let stack_path = stack_file(STACK);
    for (path, content) in &files {
        if *path == ROOT_FILE {
            root_file(content);
        } else if path.ends_with(".stackorder.yaml") {
            stack_file_laws(content);
        }
        KeyLines::of(content);
    }
    if files.iter().any(|(path, _)| *path == stack_path) {
        files.push((format!("{STACK}/main.tf"), MAIN.as_bytes().to_vec()));
    }
    // Compiling the globs of a whole checkout takes most of the time, so most inputs do without.
    if bytes.len().is_multiple_of(4) {
        whole(&files);
    }
});

fn root_file(bytes: &[u8]) {
    let parsed = parse_repo_config(ROOT_FILE, bytes);
    assert_eq!(parsed, parse_repo_config(ROOT_FILE, bytes));
    match parsed {
        Err(problems) => located(&problems, bytes),
        Ok(config) => {
            assert!(differing_keys(&config, &config).is_empty(), "a configuration equals itself");
            let json = serde_json::to_value(&config).expect("a configuration is JSON");
            let again: RepoConfig = serde_json::from_value(json.clone()).expect("its JSON is a configuration");
            assert_eq!(again, config, "JSON keeps a configuration");
            if let Some(text) = as_yaml(&json) {
                same(parse_repo_config(ROOT_FILE, text.as_bytes()), &config, &text);
            }
        }
    }
}

fn stack_file_laws(bytes: &[u8]) {
    let parsed = parse_stack_config("s", bytes);
    assert_eq!(parsed, parse_stack_config("s", bytes));
    match parsed {
        Err(problems) => located(&problems, bytes),
        Ok(config) => {
            let json = serde_json::to_value(&config).expect("a configuration is JSON");
            let again: StackConfig = serde_json::from_value(json.clone()).expect("its JSON is a configuration");
            assert_eq!(again, config, "JSON keeps a configuration");
            if let Some(text) = as_yaml(&json) {
                same(parse_stack_config("s", text.as_bytes()), &config, &text);
            }
        }
    }
}

/// JSON is YAML, but for keys that are longer than YAML lets a key be.
fn as_yaml(value: &Value) -> Option<String> {
    fn has_long_key(value: &Value) -> bool {
        match value {
            Value::Object(map) => map.iter().any(|(key, value)| key.len() > 256 || has_long_key(value)),
            Value::Array(list) => list.iter().any(has_long_key),
            _ => false,
        }
    }
    (!has_long_key(value)).then(|| value.to_string()).filter(|text| text.len() < 512 * 1024)
}

fn same<T: PartialEq + Debug>(read: Result<T, Vec<Problem>>, config: &T, text: &str) {
    match read {
        Ok(again) => assert_eq!(again, *config, "{text}"),
        Err(problems) => panic!("{problems:?} in {text}"),
    }
}

fn located(problems: &[Problem], bytes: &[u8]) {
    assert!(!problems.is_empty() && problems.len() <= PROBLEMS_MAX, "{} problems", problems.len());
    let last = lines(bytes);
    for problem in problems {
        assert!(problem.line.is_none_or(|line| (1..=last).contains(&line)), "{problem:?} of {last} lines");
        assert!(!problem.message.is_empty());
    }
    let size: usize = problems.iter().map(|problem| problem.path.len() + problem.message.len()).sum();
    assert!(size <= PROBLEM_BYTES_MAX, "{size} bytes of problems");
}

/// A carriage return alone ends a line of YAML, too.
fn lines(bytes: &[u8]) -> u32 {
    let ends = |(at, byte): (usize, &u8)| *byte == b'\n' || (*byte == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
    u32::try_from(bytes.iter().enumerate().filter(|it| ends(*it)).count() + 1).expect("inputs are small")
}

/// Checking everything finds a problem exactly when the settings cannot be had.
fn whole(files: &[(String, Vec<u8>)]) {
    let files = in_memory(files);
    let options = ScanOptions::new("acme/infra", "");
    let checked = check(&files, &options);
    let settings = stack_settings(&files, &options);
    for problem in &checked.problems {
        let bytes = files.read(&problem.file).unwrap_or_default();
        assert!(problem.line.is_none_or(|line| (1..=lines(&bytes)).contains(&line)), "{problem:?}");
    }
    match settings {
        Ok(settings) => assert!(settings.is_sorted_by(|a, b| a.stack < b.stack), "stacks are sorted and stand once"),
        Err(errors) => assert!(!errors.is_empty() && !checked.problems.is_empty(), "{errors:?} but {checked:?}"),
    }
}
