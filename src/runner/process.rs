//! Processes the command starts and watches: the tool and hooks.
//!
//! Their output is redacted line by line on its way to the console. The first interrupt is passed on and waited for, so
//! that the tool can store its state and drop the state lock; a second one kills (spec 12 §9).

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::console::{Console, Stream};
use super::interrupts::Interrupts;
use crate::redaction::{Redactor, StreamRedactor, add_mask};

/// After the duration cap the tool has this long to store its state (spec 30 §11.5).
const CAP_GRACE: Duration = Duration::from_secs(5 * 60);

/// How long the pipes of an ended process may stay open, held by processes that it left behind.
const PIPES_GRACE: Duration = Duration::from_secs(5);

/// Longer lines are cut into pieces, which no terminal shows differently.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Most bytes of an error that are kept; the end of it says what went wrong.
const ERROR_BYTES_MAX: usize = 16 * 1024;

/// Most bytes of output that a caller reads itself.
const CAPTURE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What ends every process of the command early.
#[derive(Debug, Clone)]
pub struct Limits {
    pub interrupts: Interrupts,
    /// End of the time for this job, and how it is called in errors.
    pub cap: Option<(Instant, String)>,
}

impl Limits {
    /// Why nothing may be started any more.
    pub fn reached(&self) -> Option<Cut> {
        if self.interrupts.raised().count > 0 {
            return Some(Cut::Interrupted);
        }
        let (at, name) = self.cap.as_ref()?;
        (Instant::now() >= *at).then(|| Cut::TimedOut(name.clone()))
    }
}

/// Why a process was asked to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    Interrupted,
    /// The text names the cap.
    TimedOut(String),
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cut::Interrupted => f.write_str("interrupted"),
            Cut::TimedOut(cap) => write!(f, "ended by the time limit of {cap}"),
        }
    }
}

/// Where the standard output of a process goes.
#[derive(Debug)]
pub enum Output {
    /// Line by line to the console, redacted.
    Console,
    /// As it is into a file.
    File(File),
    /// To the caller.
    Capture,
}

/// Who hears a signal that is meant for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearers {
    /// The process alone: the tool passes on what its own children must know.
    Itself,
    /// Its children too: a shell keeps an interrupt to itself until what it waits for has ended.
    Group,
}

/// What to run.
#[derive(Debug)]
pub struct Spec<'a> {
    pub program: &'a str,
    pub args: &'a [String],
    pub directory: &'a Path,
    /// The whole environment.
    pub env: &'a BTreeMap<String, String>,
    pub output: Output,
    pub hearers: Hearers,
}

/// What stands between a process and everybody else.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    pub limits: &'a Limits,
    pub console: &'a Console,
    pub redactor: &'a Arc<Redactor>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// -1 when a signal ended it.
    pub exit_code: i32,
    pub captured: Vec<u8>,
    /// The end of its standard error, redacted.
    pub errors: String,
    pub cut: Option<Cut>,
}

impl Ended {
    /// Never started, because the command itself was asked to end before.
    fn not_started(cut: Cut) -> Self {
        Self { exit_code: -1, captured: Vec::new(), errors: String::new(), cut: Some(cut) }
    }
}

/// Runs a process to its end. `on_cut` is called once, at the moment it is asked to end, and runs beside the waiting.
pub async fn run(spec: Spec<'_>, watch: Watch<'_>, on_cut: impl AsyncFnOnce(Cut)) -> std::io::Result<Ended> {
    let Watch { limits, console, redactor } = watch;
    let raised = limits.interrupts.raised().count;
    if let Some(cut) = limits.reached() {
        on_cut(cut.clone()).await;
        return Ok(Ended::not_started(cut));
    }
    let mut command = Command::new(spec.program);
    command.args(spec.args).current_dir(spec.directory).env_clear().envs(spec.env).stdin(Stdio::null());
    #[cfg(unix)]
    if spec.hearers == Hearers::Group {
        command.process_group(0);
    }
    let is_captured = matches!(spec.output, Output::Capture);
    match spec.output {
        Output::File(file) => command.stdout(file),
        Output::Console | Output::Capture => command.stdout(Stdio::piped()),
    };
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().map(|pipe| {
        if is_captured {
            tokio::spawn(capture(pipe))
        } else {
            tokio::spawn(show(pipe, Stream::Out, console.clone(), Arc::clone(redactor)))
        }
    });
    let stderr =
        child.stderr.take().map(|pipe| tokio::spawn(show(pipe, Stream::Err, console.clone(), Arc::clone(redactor))));

    let (status, cut) = tokio::select! {
        status = child.wait() => (status?, None),
        cut = cut_of(limits, raised) => {
            if let Asked { cut: _, reached_child: false } = &cut {
                interrupt(&child, spec.hearers);
            }
            let cut = cut.cut;
            let ended = end(&mut child, spec.hearers, &cut, limits, raised);
            let (status, ()) = tokio::join!(ended, on_cut(cut.clone()));
            (status?, Some(cut))
        }
    };
    let captured = if is_captured {
        rest_of(stdout).await
    } else {
        drop(rest_of(stdout).await);
        Vec::new()
    };
    let errors = String::from_utf8_lossy(&rest_of(stderr).await).into_owned();
    Ok(Ended { exit_code: status.code().unwrap_or(-1), captured, errors, cut })
}

struct Asked {
    cut: Cut,
    reached_child: bool,
}

/// Waits for the first reason to end.
async fn cut_of(limits: &Limits, raised: u32) -> Asked {
    let cap = async {
        match &limits.cap {
            Some((at, name)) => {
                tokio::time::sleep_until(*at).await;
                name.clone()
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        raised = limits.interrupts.beyond(raised) => {
            Asked { cut: Cut::Interrupted, reached_child: raised.reached_children }
        }
        name = cap => Asked { cut: Cut::TimedOut(name), reached_child: false },
    }
}

/// Waits for the end, which a second interrupt or the end of the grace brings about.
async fn end(
    child: &mut Child,
    hearers: Hearers,
    cut: &Cut,
    limits: &Limits,
    raised: u32,
) -> std::io::Result<std::process::ExitStatus> {
    let (heard, grace) = match cut {
        Cut::Interrupted => (raised + 1, None),
        Cut::TimedOut(_) => (raised, Some(CAP_GRACE)),
    };
    let grace_over = async {
        match grace {
            Some(grace) => tokio::time::sleep(grace).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        status = child.wait() => return status,
        _ = limits.interrupts.beyond(heard) => {}
        () = grace_over => {}
    }
    kill(child, hearers)?;
    child.wait().await
}

/// Asks a process to end as Ctrl-C would.
#[cfg(unix)]
fn interrupt(child: &Child, hearers: Hearers) {
    signal(child, hearers, rustix::process::Signal::INT);
}

/// There the console tells every process attached to it.
#[cfg(not(unix))]
fn interrupt(_child: &Child, _hearers: Hearers) {}

#[cfg(unix)]
fn kill(child: &mut Child, hearers: Hearers) -> std::io::Result<()> {
    signal(child, hearers, rustix::process::Signal::KILL);
    Ok(())
}

#[cfg(not(unix))]
fn kill(child: &mut Child, _hearers: Hearers) -> std::io::Result<()> {
    child.start_kill()
}

#[cfg(unix)]
fn signal(child: &Child, hearers: Hearers, signal: rustix::process::Signal) {
    use rustix::process::{Pid, kill_process, kill_process_group};
    let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else { return };
    // It may have ended by itself in the same moment.
    let _gone = match hearers {
        Hearers::Itself => kill_process(pid, signal),
        Hearers::Group => kill_process_group(pid, signal),
    };
}

async fn rest_of(pump: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    match pump {
        Some(pump) => match tokio::time::timeout(PIPES_GRACE, pump).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(_)) | Err(_) => Vec::new(),
        },
        None => Vec::new(),
    }
}

async fn capture(mut pipe: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut limited = (&mut pipe).take(CAPTURE_BYTES_MAX as u64);
    let _broken = limited.read_to_end(&mut bytes).await;
    let _rest = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    bytes
}

/// Prints a stream line by line and gives back the end of it.
async fn show(mut pipe: impl AsyncRead + Unpin, stream: Stream, console: Console, redactor: Arc<Redactor>) -> Vec<u8> {
    let mut lines = Lines { stream, console, masks: StreamRedactor::new(&redactor), tail: String::new() };
    let mut open = Vec::new();
    let mut chunk = vec![0_u8; 64 * 1024];
    loop {
        let read = match pipe.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        open.extend_from_slice(&chunk[..read]);
        let mut begin = 0;
        while let Some(length) = open[begin..].iter().position(|byte| *byte == b'\n') {
            lines.print(&open[begin..begin + length]);
            begin += length + 1;
        }
        open.drain(..begin);
        if open.len() > LINE_BYTES_MAX {
            lines.print(&open);
            open.clear();
        }
    }
    if !open.is_empty() {
        lines.print(&open);
    }
    lines.tail.into_bytes()
}

struct Lines<'r> {
    stream: Stream,
    console: Console,
    masks: StreamRedactor<'r>,
    tail: String,
}

impl Lines<'_> {
    fn print(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let streamed = self.masks.push(text.trim_end_matches('\r'));
        if self.console.is_actions() {
            for secret in &streamed.secrets {
                self.console.process_line(self.stream, &add_mask(secret));
            }
        }
        let Some(text) = streamed.text else { return };
        self.console.process_line(self.stream, &text);
        self.tail.push_str(&text);
        self.tail.push('\n');
        if self.tail.len() > 2 * ERROR_BYTES_MAX {
            self.tail = end_of(&self.tail).to_owned();
        }
    }
}

/// The last part of a text that is worth sending, from the beginning of a line where there is one.
pub fn end_of(text: &str) -> &str {
    if text.len() <= ERROR_BYTES_MAX {
        return text;
    }
    let end = &text[text.ceil_char_boundary(text.len() - ERROR_BYTES_MAX)..];
    end.find('\n').map_or(end, |line_break| &end[line_break + 1..])
}
