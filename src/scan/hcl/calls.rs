//! Calls of the functions that read files, found wherever code stands: in every block, string and heredoc.

use super::Reader;
use super::expressions::{Open, Until};

/// The functions that read a file or a directory while the configuration is evaluated.
const FUNCTIONS: [&str; 11] = [
    "file",
    "filebase64",
    "filebase64sha256",
    "filebase64sha512",
    "fileexists",
    "filemd5",
    "fileset",
    "filesha1",
    "filesha256",
    "filesha512",
    "templatefile",
];

/// Most calls of one text that are noted; a file with more is generated.
pub const CALLS_MAX: usize = 1_000;

/// Longest text behind a parenthesis that is looked at for arguments. A path is far shorter.
const ARGUMENTS_BYTES_MAX: usize = 4 * 1024;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<'t> {
    pub function: &'static str,
    pub line: u32,
    /// What stands behind the parenthesis, arguments and whatever follows them.
    rest: &'t str,
}

impl<'t> Call<'t> {
    /// The text of one argument, counted from 0; nothing when there is no such argument or its end is not found.
    pub fn argument(&self, number: usize) -> Option<&'t str> {
        let end = self.rest.floor_char_boundary(ARGUMENTS_BYTES_MAX);
        let mut reader = Reader::new(&self.rest[..end], self.line);
        for _ in 0..number {
            reader.argument()?;
            if reader.peek() != Some(b',') {
                return None;
            }
            reader.bump();
        }
        reader.argument().filter(|text| !text.is_empty())
    }
}

/// The calls in a text that is a template as a whole, as every string of the JSON syntax is.
pub fn calls_in_template(text: &str) -> Vec<Call<'_>> {
    let mut reader = Reader::new(text, 1);
    // No line of a text holds the end of a line, so this heredoc has no end but that of the text.
    reader.run_within(Until::LineEnd, vec![Open::Heredoc { marker: "\n", line: 1 }]);
    reader.calls
}

impl<'t> Reader<'t> {
    /// Notes a call; the reader stands at the parenthesis that opens it.
    pub(super) fn note_call(&mut self) {
        let before = self.slice(0, self.at).trim_end();
        let is_name = |text: &str| text.bytes().last().is_some_and(super::is_name_byte);
        let is_whole = |name: &&&str| before.strip_suffix(**name).is_some_and(|rest| !is_name(rest));
        let Some(function) = FUNCTIONS.iter().find(is_whole) else { return };
        let in_front = before.strip_suffix(function).unwrap_or_default();
        let is_foreign = in_front.ends_with("::") && !in_front.ends_with("core::");
        if is_foreign || self.calls.len() > CALLS_MAX {
            return;
        }
        self.calls.push(Call { function, line: self.line, rest: self.slice(self.at + 1, self.bytes.len()) });
    }

    fn argument(&mut self) -> Option<&'t str> {
        self.skip_blank();
        let text = self.expression(Until::ArgumentEnd);
        matches!(self.peek(), Some(b',' | b')')).then_some(text)
    }
}
