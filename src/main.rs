//! Parses arguments, runs one command, turns its outcome into an exit code (spec 12 §1); nothing else.

use std::process::ExitCode;

use stackorder::cli::{self, Outcome};

fn main() -> ExitCode {
    ExitCode::from(match cli::run(std::env::args_os()) {
        Outcome::Success => 0,
        Outcome::Error => 1,
        Outcome::Changes | Outcome::Usage => 2,
        Outcome::Refused => 3,
    })
}
