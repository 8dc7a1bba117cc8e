//! What every implementation does alike: to text before it is stored, and to what follows from a value.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::graph::model::Graph;
use crate::ids::RunId;
use crate::run::model::AuditEntry;
use crate::run::scene::Changes;

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

/// The keys of a repository's own stacks; those of other repositories have no record here.
pub(super) fn local_keys(graph: &Graph) -> BTreeSet<&str> {
    graph.stacks.iter().filter(|stack| !stack.external).map(|stack| stack.key.as_str()).collect()
}

/// The runs a commit writes: those a conflict names when it cannot tell which of them had moved.
pub(super) fn runs_of(changes: &Changes) -> Vec<RunId> {
    let known = changes.runs.iter().map(|(run, _)| &run.id);
    let ids: BTreeSet<&RunId> = known.chain(changes.new_runs.iter().map(|run| &run.id)).collect();
    ids.into_iter().cloned().collect()
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
