//! The text of a template to tokens.

/// One piece of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// Text outside of actions, trimmed as the markers beside it say.
    Text(String),
    /// `{{`
    Open,
    /// `}}`
    Close,
    /// A keyword, a function or a boolean.
    Word(String),
    /// `.Name`; the name is empty for a lone dot.
    Field {
        name: String,
        glued: bool,
    },
    /// `$name`; the name is empty for a lone `$`.
    Variable(String),
    Str(String),
    Number(String),
    /// `|`, `(`, `)`, `:=` or `=`.
    Sign(&'static str),
}

const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// Splits a template into tokens; comments are gone afterwards.
pub(super) fn tokens(template: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = template;
    let mut trim_start = false;
    while let Some(open) = rest.find("{{") {
        let (text, action) = (&rest[..open], &rest[open + 2..]);
        let (trim_end, action) = left_marker(action);
        push_text(&mut tokens, text, trim_start, trim_end);
        (trim_start, rest) = match action.strip_prefix("/*") {
            Some(comment) => after_comment(comment)?,
            None => action_tokens(action, &mut tokens)?,
        };
    }
    push_text(&mut tokens, rest, trim_start, false);
    Ok(tokens)
}

fn push_text(tokens: &mut Vec<Token>, text: &str, trim_start: bool, trim_end: bool) {
    let text = if trim_start { text.trim_start_matches(SPACES) } else { text };
    let text = if trim_end { text.trim_end_matches(SPACES) } else { text };
    if !text.is_empty() {
        tokens.push(Token::Text(text.to_owned()));
    }
}

/// `{{- ` trims the text before it; the blank is part of the marker, since `{{-3}}` is a number.
fn left_marker(action: &str) -> (bool, &str) {
    match action.strip_prefix('-') {
        Some(rest) if rest.starts_with(SPACES) => (true, rest.trim_start_matches(SPACES)),
        _ => (false, action),
    }
}

/// ` -}}` or `}}` at the start of the text: whether it trims what follows, and what follows.
fn right_delimiter(rest: &str) -> Option<(bool, &str)> {
    if let Some(after) = rest.strip_prefix("}}") {
        return Some((false, after));
    }
    let unspaced = rest.trim_start_matches(SPACES);
    let spaced = unspaced.len() < rest.len();
    if spaced && let Some(after) = unspaced.strip_prefix("-}}") {
        return Some((true, after));
    }
    None
}

fn after_comment(comment: &str) -> Result<(bool, &str), String> {
    let end = comment.find("*/").ok_or("syntax error: a comment is not closed")?;
    right_delimiter(&comment[end + 2..]).ok_or_else(|| "syntax error: a comment must fill its whole {{ }}".to_owned())
}

/// Reads one action up to and including its `}}`.
fn action_tokens<'t>(action: &'t str, tokens: &mut Vec<Token>) -> Result<(bool, &'t str), String> {
    tokens.push(Token::Open);
    let mut rest = action;
    let mut spaced = true;
    loop {
        if let Some((trim, after)) = right_delimiter(rest) {
            tokens.push(Token::Close);
            return Ok((trim, after));
        }
        let Some(first) = rest.chars().next() else {
            return Err("syntax error: {{ is not closed".to_owned());
        };
        if SPACES.contains(&first) {
            rest = rest.trim_start_matches(SPACES);
            spaced = true;
            continue;
        }
        let (token, after) = token(first, rest, !spaced)?;
        tokens.push(token);
        (rest, spaced) = (after, false);
    }
}

fn token(first: char, rest: &str, glued: bool) -> Result<(Token, &str), String> {
    match first {
        '"' => quoted_string(rest),
        '`' => raw_string(rest),
        '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => Ok(number(rest)),
        '.' => {
            let (name, after) = word(&rest[1..]);
            Ok((Token::Field { name: name.to_owned(), glued }, after))
        }
        '$' => {
            let (name, after) = word(&rest[1..]);
            Ok((Token::Variable(name.to_owned()), after))
        }
        '|' => Ok((Token::Sign("|"), &rest[1..])),
        '(' => Ok((Token::Sign("("), &rest[1..])),
        ')' => Ok((Token::Sign(")"), &rest[1..])),
        '=' => Ok((Token::Sign("="), &rest[1..])),
        ':' if rest.starts_with(":=") => Ok((Token::Sign(":="), &rest[2..])),
        '0'..='9' | '+' | '-' => Ok(number(rest)),
        c if c.is_alphabetic() || c == '_' => {
            let (name, after) = word(rest);
            Ok((Token::Word(name.to_owned()), after))
        }
        '\'' => Err("character constants are refused; write a text in double quotes".to_owned()),
        ',' => Err("syntax error: unexpected \",\" (\"range\" with two variables is refused)".to_owned()),
        other => Err(format!("syntax error: unexpected {other:?}")),
    }
}

fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len()))
}

/// Takes everything that could belong to a number; the parser decides whether it is one.
fn number(text: &str) -> (Token, &str) {
    let mut previous = ' ';
    let end = text.char_indices().find(|&(at, c)| {
        let sign = matches!(c, '+' | '-') && (at == 0 || matches!(previous, 'e' | 'E'));
        previous = c;
        !(sign || c == '.' || c == '_' || c.is_alphanumeric())
    });
    let (number, after) = text.split_at(end.map_or(text.len(), |(at, _)| at));
    (Token::Number(number.to_owned()), after)
}

fn raw_string(text: &str) -> Result<(Token, &str), String> {
    let body = &text[1..];
    let end = body.find('`').ok_or("syntax error: a `text` is not closed")?;
    // Go drops carriage returns from raw strings.
    Ok((Token::Str(body[..end].replace('\r', "")), &body[end + 1..]))
}

fn quoted_string(text: &str) -> Result<(Token, &str), String> {
    let mut value = String::new();
    let mut chars = text[1..].char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((Token::Str(value), &text[at + 2..])),
            '\n' => break,
            '\\' => value.push(escape(&mut chars)?),
            c => value.push(c),
        }
    }
    Err("syntax error: a \"text\" is not closed".to_owned())
}

/// The character after a backslash. Octal and byte escapes are left out: they can build text that is not UTF-8.
fn escape(chars: &mut std::str::CharIndices<'_>) -> Result<char, String> {
    match chars.next().map(|(_, c)| c) {
        Some('n') => Ok('\n'),
        Some('t') => Ok('\t'),
        Some('r') => Ok('\r'),
        Some('\\') => Ok('\\'),
        Some('"') => Ok('"'),
        Some('u') => unicode(chars, 4),
        Some('U') => unicode(chars, 8),
        Some(other) => Err(format!("syntax error: \\{other} is not known in a text")),
        None => Err("syntax error: a \"text\" is not closed".to_owned()),
    }
}

fn unicode(chars: &mut std::str::CharIndices<'_>, digits: usize) -> Result<char, String> {
    let hex: String = chars.by_ref().take(digits).map(|(_, c)| c).collect();
    let all_hex = hex.len() == digits && hex.bytes().all(|b| b.is_ascii_hexdigit());
    let code = if all_hex { u32::from_str_radix(&hex, 16).ok() } else { None };
    code.and_then(char::from_u32)
        .filter(|c| *c != '\0')
        .ok_or_else(|| format!("syntax error: \\u{hex} is no character"))
}
