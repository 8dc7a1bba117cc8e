//! The only way foreign text gets into Markdown (spec 23 §8).
//!
//! Foreign is whatever a repository, a tool or a person wrote: keys, addresses, file paths, error texts, plans.
//! Each function makes text safe for one kind of place and says which; none of them is safe for all.
//! Nothing here knows what a comment or a check looks like.

use std::borrow::Cow;

use crate::plan::text::cut_at_line;

/// Keeps `@name` from mentioning anybody and `#1` from linking anything: GitHub looks for both after Markdown is read.
const ZERO_WIDTH_SPACE: char = '\u{200b}';

/// Longest address that is still a link; browsers and GitHub take no more.
const URL_BYTES_MAX: usize = 2_048;

/// Foreign text as words of a paragraph, a list item, a heading or a table cell: one line, no markup, no mention.
pub fn text(foreign: &str) -> String {
    let line = one_line(foreign);
    let mut safe = String::with_capacity(line.len() + line.len() / 8);
    for (at, c) in line.char_indices() {
        let after = &line[at + c.len_utf8()..];
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '@' => safe.extend(['@', ZERO_WIDTH_SPACE]),
            '#' => safe.extend(['\\', '#', ZERO_WIDTH_SPACE]),
            '\\' | '`' | '*' | '_' | '[' | ']' | '{' | '}' | '(' | ')' | '|' | '~' | '$' | '!' => {
                safe.extend(['\\', c])
            }
            ':' if after.starts_with("//") => safe.push_str("\\:"),
            '.' if ends_with_www(&line[..at]) || is_list_number(&line[..at]) => safe.push_str("\\."),
            '-' | '+' | '=' if at == 0 => safe.extend(['\\', c]),
            _ => safe.push(c),
        }
    }
    safe
}

/// Foreign text as the content of one table cell. An empty cell shows a dash.
pub fn cell(foreign: &str) -> String {
    let safe = text(foreign);
    if safe.is_empty() { "–".to_owned() } else { safe }
}

/// Foreign text inside an HTML element of ours, such as `<summary>`, where Markdown escapes are not read.
pub fn html(foreign: &str) -> String {
    let mut safe = String::with_capacity(foreign.len());
    for c in one_line(foreign).chars() {
        match c {
            '@' | '#' => safe.extend([c, ZERO_WIDTH_SPACE]),
            c if c.is_ascii_punctuation() && !matches!(c, '-' | '.' | ',' | '/') => safe.push_str(&entity(c)),
            c => safe.push(c),
        }
    }
    safe
}

/// Foreign text where no markup is read at all, such as the title of a check: one visible line.
pub fn plain(foreign: &str) -> String {
    one_line(foreign)
}

/// Foreign text as inline code, also in a table cell. The fence is longer than any run of back-ticks inside.
pub fn code(foreign: &str) -> String {
    let line = one_line(foreign);
    if line.contains('|') {
        return code_element(&line);
    }
    let fence = "`".repeat(longest_run(&line, '`') + 1);
    // One blank on each side is taken away again by Markdown; it is needed where back-ticks would touch the fence.
    let pad = if line.is_empty() || line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{line}{pad}{fence}")
}

/// A bar splits table cells even inside back-ticks, and a backslash before it would show outside of tables.
fn code_element(line: &str) -> String {
    let escaped: String =
        line.chars().map(|c| if c.is_ascii_punctuation() { entity(c) } else { c.to_string() }).collect();
    format!("<code>{escaped}</code>")
}

fn entity(c: char) -> String {
    match c {
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '&' => "&amp;".to_owned(),
        other => format!("&#{};", u32::from(other)),
    }
}

/// Foreign text as a code block of its own lines. The fence is longer than any run of back-ticks inside.
pub fn fenced(language: &str, foreign: &str) -> String {
    const FENCE_LENGTH_MIN: usize = 3;
    let language: String =
        language.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+')).collect();
    let body: String =
        foreign.replace("\r\n", "\n").chars().filter(|c| matches!(c, '\n' | '\t') || !is_hidden(*c)).collect();
    let fence = "`".repeat(FENCE_LENGTH_MIN.max(longest_run(&body, '`') + 1));
    let line_break = if body.is_empty() || body.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{body}{line_break}{fence}\n")
}

/// A link when the address is one of the web, else just the words.
pub fn link(words: &str, url: &str) -> String {
    match web_address(url) {
        Some(address) => format!("[{}]({address})", text(words)),
        None => text(words),
    }
}

/// The address with everything that Markdown or HTML could read percent-encoded; nothing but `http` and `https`.
fn web_address(url: &str) -> Option<String> {
    let rest = ["https://", "http://"].into_iter().find_map(|scheme| {
        let start = url.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &url[scheme.len()..])
    })?;
    let host_is_named = rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
    if !host_is_named || url.len() > URL_BYTES_MAX || url.chars().any(|c| c.is_whitespace() || is_hidden(c)) {
        return None;
    }
    let mut address = String::with_capacity(url.len());
    for byte in url.bytes() {
        match byte {
            b'<' | b'>' | b'(' | b')' | b'"' | b'\'' | b'`' | b'\\' | b'|' | b'{' | b'}' | b'^' => {
                address.push_str(&format!("%{byte:02X}"));
            }
            _ if byte.is_ascii() => address.push(char::from(byte)),
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(address)
}

/// At most `bytes_max` bytes, cut at a line break or else between characters.
pub fn cut(whole: &str, bytes_max: usize) -> Cow<'_, str> {
    Cow::Borrowed(cut_at_line(whole, bytes_max))
}

/// [`cut`] for finished Markdown: a code block that the cut leaves open is closed within the same limit.
pub fn cut_markdown(markdown: &str, bytes_max: usize) -> Cow<'_, str> {
    if markdown.len() <= bytes_max {
        return Cow::Borrowed(markdown);
    }
    let shown = cut_at_line(markdown, bytes_max);
    if open_fence(shown).is_none() {
        return Cow::Borrowed(shown);
    }
    let fence_bytes_max = longest_run(markdown, '`');
    let shown = cut_at_line(markdown, bytes_max.saturating_sub(fence_bytes_max + "\n\n".len()));
    match open_fence(shown) {
        None => Cow::Borrowed(shown),
        Some(fence) => {
            let line_break = if shown.ends_with('\n') { "" } else { "\n" };
            Cow::Owned(format!("{shown}{line_break}{fence}\n"))
        }
    }
}

/// The back-tick fence still open at the end of a text of ours.
fn open_fence(markdown: &str) -> Option<&str> {
    let mut open: Option<&str> = None;
    for line in markdown.lines() {
        let info = line.trim_start_matches('`');
        let fence = &line[..line.len() - info.len()];
        match open {
            None if fence.len() >= 3 && !info.contains('`') => open = Some(fence),
            Some(opened) if fence.len() >= opened.len() && info.trim().is_empty() => open = None,
            None | Some(_) => {}
        }
    }
    open
}

/// Line breaks and runs of blanks become one blank; characters that cannot be seen are dropped.
fn one_line(foreign: &str) -> String {
    let mut line = String::with_capacity(foreign.len());
    for word in foreign.split(|c: char| c.is_whitespace() || matches!(c, '\u{2028}' | '\u{2029}')) {
        let start = line.len();
        line.extend(word.chars().filter(|c| !is_hidden(*c)));
        if line.len() > start {
            line.push(' ');
        }
    }
    line.truncate(line.trim_end().len());
    line
}

/// Control characters, and those that reorder or hide what a reader sees.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Text of a repository for a terminal, on one line: what would steer it is spelled out.
pub fn terminal(foreign: &str) -> String {
    if !foreign.contains(char::is_control) {
        return foreign.to_owned();
    }
    let spelled = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    foreign.chars().map(spelled).collect()
}

fn longest_run(text: &str, mark: char) -> usize {
    text.split(|c| c != mark).map(str::len).max().unwrap_or(0)
}

fn ends_with_www(before: &str) -> bool {
    before.len() >= 3 && before.as_bytes()[before.len() - 3..].eq_ignore_ascii_case(b"www")
}

/// A number with a point at the start of a text would open a list.
fn is_list_number(before: &str) -> bool {
    (1..=9).contains(&before.len()) && before.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests;
