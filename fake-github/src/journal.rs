//! Everything the fake saw, one JSON object a line, for whoever wants to check a story without believing it.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;
use serde_json::{Value, json};

/// A file that only grows, or nothing at all.
pub struct Journal {
    file: Option<Mutex<File>>,
}

impl Journal {
    pub fn open(path: Option<&Path>) -> anyhow::Result<Journal> {
        let Some(path) = path else { return Ok(Journal { file: None }) };
        let file = File::options().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot open the journal {}", path.display()))?;
        Ok(Journal { file: Some(Mutex::new(file)) })
    }

    /// Writes one line: `at`, `kind`, then the given members.
    pub fn write(&self, at_ms: i64, kind: &str, members: Value) {
        let Some(file) = &self.file else { return };
        let mut line = json!({"at": crate::shapes::iso(at_ms), "kind": kind});
        if let (Some(line), Value::Object(members)) = (line.as_object_mut(), members) {
            line.extend(members);
        }
        let mut text = line.to_string();
        text.push('\n');
        let mut file = file.lock().expect("no panic while writing the journal");
        if let Err(error) = file.write_all(text.as_bytes()) {
            tracing::error!("cannot write the journal: {error}");
        }
    }
}
