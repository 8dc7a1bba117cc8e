//! Where a command's words go: results to standard output, everything else to standard error (spec 12 §2, §12).

use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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
    /// Whether a person watches standard error as it is written, on a terminal that can write a line over again.
    is_terminal: bool,
    /// Why something for standard output did not get there, once that has happened.
    lost: Arc<OnceLock<String>>,
}

impl Console {
    /// The streams of this process; colours end where a stream is no terminal.
    pub fn of_process(format: Format, is_actions: bool) -> Self {
        let (out, err) = (anstream::stdout(), anstream::stderr());
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        let is_terminal = io::stderr().is_terminal() && !is_dumb && !is_actions;
        let lost = Arc::default();
        Self { out: Arc::new(Mutex::new(out)), err: Arc::new(Mutex::new(err)), format, is_actions, is_terminal, lost }
    }

    /// Writes to the given places instead.
    pub fn to(
        out: Arc<Mutex<dyn Write + Send>>,
        err: Arc<Mutex<dyn Write + Send>>,
        format: Format,
        is_actions: bool,
    ) -> Self {
        Self { out, err, format, is_actions, is_terminal: false, lost: Arc::default() }
    }

    /// The result of the command.
    pub fn result(&self, text: &str) {
        self.write_out(text);
    }

    /// Why part of what went to standard output is not there, if so. A reader that left early wanted no more of it,
    /// which is no failure.
    pub fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Something a person may want to know.
    pub fn note(&self, text: &str) {
        self.write_err(text);
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
            (Stream::Out, Format::Text) => self.write_out(text),
            (Stream::Out, Format::Json | Format::Picture(_)) | (Stream::Err, _) => self.write_err(text),
        }
    }

    /// Standard error where it is a terminal, for what is written over again. It is the stream itself: whoever wants
    /// no colours would else get no clearing of lines either.
    pub(super) fn terminal(&self) -> Option<Arc<Mutex<dyn Write + Send>>> {
        self.is_terminal.then(|| Arc::new(Mutex::new(io::stderr())) as Arc<Mutex<dyn Write + Send>>)
    }

    /// Whether warnings become annotations of a job, and secrets are registered with its log.
    pub fn is_actions(&self) -> bool {
        self.is_actions
    }

    fn say(&self, kind: &str, colour: &str, text: &str) {
        if self.is_actions {
            self.write_err(&format!("::{kind}::{}", escape(text)));
        } else {
            self.write_err(&format!("{colour}{kind}:\x1b[0m {text}"));
        }
    }

    fn write_out(&self, text: &str) {
        if let Err(error) = write_line(&self.out, text).or_else(unless_closed) {
            let _the_first_counts = self.lost.set(error.to_string());
        }
    }

    /// Nobody is left to be told when standard error takes nothing, so errors of writing end here.
    fn write_err(&self, text: &str) {
        let _lost = write_line(&self.err, text);
    }
}

fn write_line(to: &Mutex<dyn Write + Send>, text: &str) -> io::Result<()> {
    let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(to, "{}", text.strip_suffix('\n').unwrap_or(text)).and_then(|()| to.flush())
}

fn unless_closed(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
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

    /// Takes nothing.
    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_result_that_finds_no_room_is_lost_and_one_that_nobody_reads_is_not() {
        let console = |kind| {
            let err = Arc::new(Mutex::new(Vec::new()));
            Console::to(Arc::new(Mutex::new(Broken(kind))), err, Format::Text, false)
        };
        let full = console(ErrorKind::StorageFull);
        assert_eq!(full.lost(), None);
        full.clone().result("text");
        assert_eq!(full.lost(), Some("no storage space"));
        let left = console(ErrorKind::BrokenPipe);
        left.result("text");
        assert_eq!(left.lost(), None);
    }
}
