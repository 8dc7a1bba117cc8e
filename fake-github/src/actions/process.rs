//! One process group on this machine: its output as lines, GitHub's signal sequence when it has to stop.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

use super::host::Timing;
use super::signals::Stop;

/// What to start and when to end it.
pub(super) struct Spec<'a> {
    pub(super) program: &'a str,
    pub(super) arguments: &'a [String],
    /// The whole environment: nothing is inherited.
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) directory: &'a Path,
    /// Interrupt, later terminate, later kill.
    pub(super) stop: &'a Stop,
    /// Kill at once.
    pub(super) kill: &'a Stop,
    pub(super) timeout: Option<Duration>,
    pub(super) timing: Timing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Exit(i32),
    Cancelled,
    TimedOut,
    Killed,
}

/// Runs to the end, or to the end of the signal sequence. `on_start` learns the group's id.
pub(super) async fn run(
    spec: Spec<'_>,
    on_start: impl FnOnce(i32),
    mut on_line: impl FnMut(&str),
) -> io::Result<Ended> {
    let (mut child, mut output) = spawn(&spec)?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        on_start(pid.as_raw_nonzero().get());
    }
    let mut escalation =
        Escalation { timing: spec.timing, timeout: spec.timeout.map(|t| Instant::now() + t), next: None };
    let mut why = None;
    let mut exit = None;
    let mut open = true;
    let mut grace = None;
    while exit.is_none() || (open && grace.is_none_or(|end| Instant::now() < end)) {
        let wake = escalation.wake().or(grace).unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        tokio::select! {
            more = output.read(), if open => match more {
                Some(lines) => lines.iter().for_each(|line| on_line(line)),
                None => open = false,
            },
            status = child.wait(), if exit.is_none() => {
                exit = Some(status?.code().unwrap_or(137));
                escalation = Escalation { timing: spec.timing, timeout: None, next: None };
                grace = Some(Instant::now() + spec.timing.output_grace);
            }
            () = spec.kill.wait(), if exit.is_none() && why != Some(Ended::Killed) => {
                why = Some(Ended::Killed);
                pid.map(|pid| kill_process_group(pid, Signal::KILL));
            }
            () = spec.stop.wait(), if exit.is_none() && why.is_none() => {
                why = Some(Ended::Cancelled);
                escalation.begin(pid);
            }
            () = sleep_until(wake) => {
                if exit.is_none() && escalation.advance(pid) {
                    why = why.or(Some(Ended::TimedOut));
                }
            }
        }
    }
    output.rest().iter().for_each(|line| on_line(line));
    Ok(why.unwrap_or(Ended::Exit(exit.unwrap_or(137))))
}

/// Kills what is left of a process group; one that is gone is fine.
pub(super) fn kill_group(id: i32) {
    if let Some(pid) = Pid::from_raw(id) {
        // It may have ended by itself.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Kills every process that carries the job's tracking id, wherever it moved itself; where there is no `/proc`, the
/// job's process groups.
pub(super) fn kill_orphans(tracking_id: &str, groups: &[i32]) {
    let needle = format!("RUNNER_TRACKING_ID={tracking_id}");
    let Ok(entries) = std::fs::read_dir("/proc") else {
        groups.iter().copied().for_each(kill_group);
        return;
    };
    for entry in entries.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let (Some(pid), Ok(environment)) = (pid, std::fs::read(entry.path().join("environ"))) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == needle.as_bytes()) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn spawn(spec: &Spec<'_>) -> io::Result<(Child, Lines)> {
    // One pipe for both streams keeps their lines in order.
    let (reader, writer) = io::pipe()?;
    let child = Command::new(on_path(spec.program, spec.env))
        .args(spec.arguments)
        .env_clear()
        .envs(spec.env)
        .current_dir(spec.directory)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let receiver = pipe::Receiver::from_owned_fd(reader.into())?;
    Ok((child, Lines { receiver, partial: Vec::new() }))
}

/// The program's own file. With a `PATH` of its own a child could only be forked, and this process is large to copy.
fn on_path(program: &str, env: &BTreeMap<String, String>) -> PathBuf {
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
    let path = env.get("PATH").filter(|_| !program.contains('/')).map(String::as_str).unwrap_or_default();
    let mut places = path.split(':').filter(|place| place.starts_with('/')).map(|place| Path::new(place).join(program));
    // One that is nowhere fails to start, under its own name.
    places.find(is_program).unwrap_or_else(|| PathBuf::from(program))
}

/// Where the signal sequence stands.
struct Escalation {
    timing: Timing,
    timeout: Option<Instant>,
    next: Option<(Signal, Instant)>,
}

impl Escalation {
    fn wake(&self) -> Option<Instant> {
        self.next.map(|(_, at)| at).or(self.timeout)
    }

    /// The interrupt goes to the entry process alone; a shell that does not pass it on keeps it.
    fn begin(&mut self, pid: Option<Pid>) {
        pid.map(|pid| kill_process(pid, Signal::INT));
        self.next = Some((Signal::TERM, Instant::now() + self.timing.terminate_after));
        self.timeout = None;
    }

    /// Does what is due; true when that was the timeout.
    fn advance(&mut self, pid: Option<Pid>) -> bool {
        let now = Instant::now();
        if self.timeout.is_some_and(|at| at <= now) {
            self.begin(pid);
            return true;
        }
        match self.next {
            Some((Signal::TERM, at)) if at <= now => {
                pid.map(|pid| kill_process(pid, Signal::TERM));
                self.next = Some((Signal::KILL, now + self.timing.kill_after));
            }
            Some((_, at)) if at <= now => {
                pid.map(|pid| kill_process_group(pid, Signal::KILL));
                self.next = None;
            }
            _ => {}
        }
        false
    }
}

/// Output cut into lines.
struct Lines {
    receiver: pipe::Receiver,
    partial: Vec<u8>,
}

/// A longer line is cut here: logs are for people.
const LINE_BYTES_MAX: usize = 64 * 1024;

impl Lines {
    /// The lines that became complete, none at the end of the output. Safe to drop half-way.
    async fn read(&mut self) -> Option<Vec<String>> {
        let mut buffer = [0; 8192];
        let count = self.receiver.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        self.partial.extend(&buffer[..count]);
        let mut lines = Vec::new();
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let rest = self.partial.split_off(end + 1);
            let line = std::mem::replace(&mut self.partial, rest);
            lines.push(text(&line[..end]));
        }
        if self.partial.len() > LINE_BYTES_MAX {
            lines.push(text(&std::mem::take(&mut self.partial)));
        }
        Some(lines)
    }

    fn rest(&mut self) -> Option<String> {
        (!self.partial.is_empty()).then(|| text(&std::mem::take(&mut self.partial)))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes)).into_owned()
}
