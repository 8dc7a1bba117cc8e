//! Where a command's words go: results to standard output, everything else to standard error (spec 12 §2, §12).

use std::io::{IsTerminal as _, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// What standard output holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    /// Nothing but one JSON document; the tool's own output goes to standard error.
    Json,
    Picture(Picture),
}

/// Languages in which a graph can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picture {
    Dot,
    Mermaid,
    Svg,
}

/// One of the two streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// Both streams of the command. Cheap to clone.
#[derive(Clone)]
pub struct Console {
    out: Arc<Mutex<dyn Write + Send>>,
    err: Arc<Mutex<dyn Write + Send>>,
    pub format: Format,
    /// Whether warnings become annotations of the job.
    is_actions: bool,
    /// Whether a person watches standard error as it is written.
    is_terminal: bool,
}

impl Console {
    /// The streams of this process; colours end where a stream is no terminal.
    pub fn of_process(format: Format, is_actions: bool) -> Self {
        let (out, err) = (anstream::stdout(), anstream::stderr());
        let is_terminal = std::io::stderr().is_terminal() && !is_actions;
        Self { out: Arc::new(Mutex::new(out)), err: Arc::new(Mutex::new(err)), format, is_actions, is_terminal }
    }

    /// Writes to the given places instead.
    pub fn to(
        out: Arc<Mutex<dyn Write + Send>>,
        err: Arc<Mutex<dyn Write + Send>>,
        format: Format,
        is_actions: bool,
    ) -> Self {
        Self { out, err, format, is_actions, is_terminal: false }
    }

    /// The result of the command.
    pub fn result(&self, text: &str) {
        write_line(&self.out, text);
    }

    /// Something a person may want to know.
    pub fn note(&self, text: &str) {
        write_line(&self.err, text);
    }

    pub fn warn(&self, text: &str) {
        self.say("warning", "\x1b[33m", text);
    }

    pub fn error(&self, text: &str) {
        self.say("error", "\x1b[31m", text);
    }

    /// One line of a process that the command runs; with a machine's format none of it goes to standard output.
    pub fn process_line(&self, stream: Stream, text: &str) {
        match (stream, self.format) {
            (Stream::Out, Format::Text) => write_line(&self.out, text),
            (Stream::Out, Format::Json | Format::Picture(_)) | (Stream::Err, _) => write_line(&self.err, text),
        }
    }

    /// Standard error where it is a terminal, for what is written over again.
    pub(super) fn terminal(&self) -> Option<Arc<Mutex<dyn Write + Send>>> {
        self.is_terminal.then(|| self.err.clone())
    }

    /// Whether warnings become annotations of a job, and secrets are registered with its log.
    pub fn is_actions(&self) -> bool {
        self.is_actions
    }

    fn say(&self, kind: &str, colour: &str, text: &str) {
        if self.is_actions {
            write_line(&self.err, &format!("::{kind}::{}", escape(text)));
        } else {
            write_line(&self.err, &format!("{colour}{kind}:\x1b[0m {text}"));
        }
    }
}

/// Nobody is left to be told when a stream is closed, so errors of writing end here.
fn write_line(to: &Mutex<dyn Write + Send>, text: &str) {
    let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
    let _closed = writeln!(to, "{}", text.strip_suffix('\n').unwrap_or(text)).and_then(|()| to.flush());
}

/// The text of a workflow command.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_one_line_whatever_its_text() {
        let err = Arc::new(Mutex::new(Vec::new()));
        let console = Console::to(Arc::new(Mutex::new(Vec::new())), err.clone(), Format::Text, true);
        console.warn("100%\nof it");
        assert_eq!(String::from_utf8(err.lock().unwrap().clone()).unwrap(), "::warning::100%25%0Aof it\n");
    }
}
