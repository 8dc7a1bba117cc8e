//! Standard output of the commands that have no console.

use std::io::{self, ErrorKind, Write as _};

use super::Outcome;

/// Prints all of it. A reader that left early wanted no more, which is no failure.
pub(super) fn print(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    unless_closed(out.write_all(bytes).and_then(|()| out.flush()))
}

/// The same for a text with colours, which end where nobody sees them.
#[cfg(feature = "server")]
pub(super) fn print_coloured(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    unless_closed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// A command that does nothing but print.
pub(super) fn printed(bytes: &[u8]) -> Outcome {
    outcome(print(bytes))
}

/// What clap wants people to read, on the stream and in the colours that it chooses.
pub(super) fn print_usage(usage: &clap::Error) -> Outcome {
    outcome(unless_closed(usage.print()))
}

fn unless_closed(done: io::Result<()>) -> anyhow::Result<()> {
    match done {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("standard output"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn outcome(done: anyhow::Result<()>) -> Outcome {
    match done {
        Ok(()) => Outcome::Success,
        Err(error) => {
            anstream::eprintln!("error: {error:#}");
            Outcome::Error
        }
    }
}
