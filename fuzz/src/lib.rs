//! What the fuzz targets share: spans inside a text, and a checkout written down as one text.

use stackorder::scan::MemoryFiles;

/// Where `part` stands in `text`, as bytes from and to. Panics when it is no slice of it.
pub fn span(text: &str, part: &str) -> (usize, usize) {
    let from = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize).expect("a span begins inside the text");
    let to = from + part.len();
    assert!(to <= text.len(), "a span ends inside the text");
    assert!(text.is_char_boundary(from) && text.is_char_boundary(to), "a span ends on characters");
    (from, to)
}

/// The number of the line that holds a byte, when the first line has the number `first`.
pub fn line_at(text: &str, at: usize, first: u32) -> u32 {
    let newlines = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
    first + u32::try_from(newlines).expect("inputs are small")
}

/// How many lines a file has; a person's editor shows the empty one after the last newline too.
pub fn lines(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.iter().filter(|byte| **byte == b'\n').count() + 1).expect("inputs are small")
}

/// Most files of one checkout: enough for stacks, modules and overrides at once.
const FILES_MAX: usize = 16;

/// A checkout from one text: a line `-- path --` begins each file, and `first` is the path of what stands before.
///
/// Paths that no checkout can hold are left out.
pub fn checkout(bytes: &[u8], first: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = vec![(first.to_owned(), Vec::new())];
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match header(line) {
            Some(path) if files.len() < FILES_MAX => files.push((path, Vec::new())),
            _ => files.last_mut().expect("there is a first file").1.extend_from_slice(line),
        }
    }
    files.retain(|(path, content)| is_possible(path) && (path != first || !content.is_empty()));
    files.sort();
    files.dedup_by(|a, b| a.0 == b.0);
    files
}

fn header(line: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    Some(line.strip_prefix("-- ")?.strip_suffix(" --")?.trim().to_owned())
}

fn is_possible(path: &str) -> bool {
    let named = |segment: &str| !matches!(segment, "" | "." | "..") && !segment.contains(['\\', '\0']);
    path.len() <= 200 && path.split('/').all(named)
}

/// The files in memory. A name that is a directory of another one cannot be a file as well.
pub fn in_memory(files: &[(String, Vec<u8>)]) -> MemoryFiles {
    let mut memory = MemoryFiles::default();
    for (path, content) in files {
        let directory = format!("{path}/");
        if !files.iter().any(|(other, _)| other.starts_with(&directory)) {
            memory.insert(path, content.clone());
        }
    }
    memory
}
