//! The files through which a step talks to the runner.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::actions::commands::{is_reserved_variable, parse_entries};

/// One step's set of files.
pub(super) struct StepFiles {
    paths: BTreeMap<&'static str, PathBuf>,
}

/// What a step wrote.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) outputs: Vec<(String, String)>,
    pub(super) env: Vec<(String, String)>,
    pub(super) path: Vec<String>,
    pub(super) summary: String,
}

/// Larger summaries are refused by GitHub.
const SUMMARY_BYTES_MAX: usize = 1024 * 1024;

const VARIABLES: [&str; 5] = ["GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY", "GITHUB_STATE"];

impl StepFiles {
    pub(super) fn create(temp: &Path) -> Result<Self, String> {
        let unique = uuid::Uuid::new_v4();
        let directory = temp.join("_runner_file_commands");
        let mut paths = BTreeMap::new();
        for variable in VARIABLES {
            let path = directory.join(format!("{}_{unique}", variable.to_ascii_lowercase()));
            super::write_file(&path, b"")?;
            paths.insert(variable, path);
        }
        Ok(Self { paths })
    }

    /// The variables that name them.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.paths.iter().map(|(variable, path)| ((*variable).to_owned(), path.display().to_string()))
    }

    /// Reads them after the step and takes them away.
    pub(super) fn collect(self) -> Result<Written, String> {
        let text = |variable: &str| {
            let bytes = self.paths.get(variable).and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let entries = |variable: &str| {
            parse_entries(&text(variable)).map_err(|e| format!("Unable to process file command '{variable}': {e}"))
        };
        let summary = text("GITHUB_STEP_SUMMARY");
        let written = Written {
            outputs: entries("GITHUB_OUTPUT")?,
            env: entries("GITHUB_ENV")?,
            path: text("GITHUB_PATH").lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect(),
            summary,
        };
        for path in self.paths.values() {
            // A step may have taken its own file away.
            let _ = std::fs::remove_file(path);
        }
        if written.summary.len() > SUMMARY_BYTES_MAX {
            return Err(format!(
                "$GITHUB_STEP_SUMMARY upload aborted, supports content up to {SUMMARY_BYTES_MAX} bytes"
            ));
        }
        match written.env.iter().find(|(name, _)| is_reserved_variable(name)) {
            Some((name, _)) => Err(format!("Can't store {name} output parameter using '$GITHUB_ENV' command.")),
            None => Ok(written),
        }
    }
}
