//! Colours for people; the console takes them out again where a stream is no terminal.

use crate::graph::resolution::Reason;
pub(super) use crate::render::escape::terminal as harmless;

const RESET: &str = "\x1b[0m";

/// One per wave, and again from the start; readable on dark and on light ground.
const WAVES: [&str; 5] = ["\x1b[32m", "\x1b[36m", "\x1b[34m", "\x1b[35m", "\x1b[33m"];

pub(super) fn bold(text: &str) -> String {
    format!("\x1b[1m{text}{RESET}")
}

pub(super) fn wave(number: u32, text: &str) -> String {
    format!("{}{text}{RESET}", WAVES[number as usize % WAVES.len()])
}

/// What changed by itself stands out; what only follows does not.
pub(super) fn reason(reason: Reason) -> String {
    let colour = match reason {
        Reason::Changed => "\x1b[1;33m",
        Reason::WatchPath | Reason::Config => "\x1b[33m",
        Reason::Module => "\x1b[36m",
        Reason::Requested => "\x1b[35m",
        Reason::ReadsState | Reason::Dependent => "\x1b[2m",
    };
    format!("{colour}{}{RESET}", reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_cannot_steer_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\u{9b}c"), "a\\u{1b}[2Jb\\u{9b}c");
        assert_eq!(harmless("größe.tf"), "größe.tf");
    }
}
