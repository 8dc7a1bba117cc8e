//! What happens to text and audit entries before they are stored, in every implementation alike.

use std::borrow::Cow;

use crate::run::model::AuditEntry;

/// Most bytes kept of the error of a failed delivery or job.
const ERROR_BYTES_MAX: usize = 4 * 1024;

/// Without NUL characters: Postgres refuses them in text.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "")) } else { Cow::Borrowed(text) }
}

/// Cleaned and cut to [`ERROR_BYTES_MAX`], between characters.
pub(super) fn error_text(error: &str) -> String {
    let mut text = clean(error).into_owned();
    text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
    text
}

/// The pull request an audit entry tells of, which [`super::Store::audit_count`] can ask for.
pub(super) fn audit_pr(entry: &AuditEntry) -> Option<i64> {
    entry.details.get("pr").and_then(serde_json::Value::as_i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_cut_between_characters() {
        let long = "é".repeat(ERROR_BYTES_MAX);
        assert_eq!(error_text(&format!("a\0{long}")).len(), ERROR_BYTES_MAX - 1);
        assert_eq!(error_text("short"), "short");
    }
}
