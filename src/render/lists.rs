//! Lists that end: so many items, so many bytes, then how many more there are.

use super::{escape, words};
use crate::guide;

/// More than this nobody reads; the run page has them all.
pub const ITEMS_MAX: usize = 20;
/// Room for `- and 18446744073709551615 more`.
const MORE_BYTES_MAX: usize = 40;

/// One bullet a line, from finished Markdown without line breaks. Empty for no items.
pub fn bullets(items: &[String], bytes_max: usize) -> String {
    bullets_of(items, items.len(), bytes_max)
}

/// [`bullets`] of a list of which only these items are known.
pub fn bullets_of(items: &[String], total: usize, bytes_max: usize) -> String {
    let mut out = String::new();
    let mut shown = 0;
    for item in items.iter().take(ITEMS_MAX) {
        if out.len() + item.len() + "- \n".len() + MORE_BYTES_MAX > bytes_max {
            break;
        }
        out.push_str(&format!("- {item}\n"));
        shown += 1;
    }
    if total > shown {
        out.push_str(&format!("- and {} more\n", total - shown));
    }
    out
}

/// `vpc`, `eks` and 3 more: foreign names as code on one line.
pub fn names<T: AsRef<str>>(names: &[T]) -> String {
    let mut parts: Vec<String> = names.iter().take(ITEMS_MAX).map(|name| escape::code(name.as_ref())).collect();
    if names.len() > ITEMS_MAX {
        parts.push(format!("and {} more", names.len() - ITEMS_MAX));
    }
    parts.join(", ")
}

/// `**2 warnings**` and its bullets, each with a link to what it means; empty without any.
pub fn warnings<'w>(warnings: impl IntoIterator<Item = (&'w str, Option<String>)>, bytes_max: usize) -> String {
    let item = |(text, help): (&str, Option<String>)| match help {
        Some(url) => format!("{} {}", escape::text(text), guide::link(&url)),
        None => escape::text(text),
    };
    let items: Vec<String> = warnings.into_iter().map(item).collect();
    if items.is_empty() {
        return String::new();
    }
    let head = format!("**{}**\n\n", words::count(items.len(), "warning"));
    let list = bullets(&items, bytes_max.saturating_sub(head.len()));
    format!("{head}{list}\n")
}
