//! What names and labels are made of.

/// A quoted text without its escapes; what is none stays as it is.
pub(super) fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let (code, length) = match after.as_bytes().first() {
            Some(b'n') => (Some('\n'), 1),
            Some(b'r') => (Some('\r'), 1),
            Some(b't') => (Some('\t'), 1),
            Some(b'"') => (Some('"'), 1),
            Some(b'\\') => (Some('\\'), 1),
            Some(b'u') => (after.get(1..5).and_then(character), 5),
            Some(b'U') => (after.get(1..9).and_then(character), 9),
            _ => (None, 0),
        };
        plain.push(code.unwrap_or('\\'));
        rest = if code.is_some() { &after[length..] } else { after };
    }
    plain.push_str(rest);
    plain
}

/// The character of a hexadecimal number.
fn character(digits: &str) -> Option<char> {
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

/// A character that stands in no name of any language: blanks, controls, punctuation and pictures beyond ASCII.
pub(super) fn odd_character(name: &str) -> Option<char> {
    if name.is_ascii() {
        return None;
    }
    let is_odd = |c: &char| match u32::from(*c) {
        0xaa | 0xb5 | 0xb7 | 0xba => false,
        0x80..=0xbf | 0xd7 | 0xf7 => true,
        0x203f | 0x2040 | 0x2054 => false,
        0x2000..=0x206f | 0x2190..=0x2bff | 0x3000..=0x3004 | 0x3008..=0x3020 => true,
        0xe000..=0xf8ff | 0xfeff | 0xfffd | 0x1f000..=0x1faff => true,
        _ => false,
    };
    name.chars().find(is_odd)
}

/// Letters of any alphabet count: every byte beyond ASCII may stand in a name.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || byte >= 0x80
}
