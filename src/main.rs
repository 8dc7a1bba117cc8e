//! Parses arguments, runs one command, turns its outcome into an exit code (spec 12 §1); nothing else.

use std::process::ExitCode;

use stackorder::cli::{self, Outcome};

/// A scan spends a quarter of its time in the system's allocator, and the static build's is slower still.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(match cli::run(std::env::args_os()) {
        Outcome::Success => 0,
        Outcome::Error => 1,
        Outcome::Changes | Outcome::Usage => 2,
        Outcome::Refused => 3,
    })
}
