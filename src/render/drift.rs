//! The issue of a drifted stack (spec 24 §12).
//!
//! The body says what drifted, and nothing that another check of the same drift would say differently: neither when it
//! was checked nor by which run.

use super::links::stack_page;
use super::{COMMENT_BYTES_MAX, changes, escape};
use crate::ids::StackKey;
use crate::run::model::DriftSeen;

pub fn issue_body(repo: &str, key: &StackKey, seen: &DriftSeen, base_url: &str) -> String {
    const FOOT: &str = "What is deployed differs from the default branch. Either change the code to match and merge it, \
        or apply the code again: open a pull request that touches the stack, review its plan, and apply it. \
        This issue closes itself when a check finds no drift.\n";
    let counts = match &seen.summary {
        Some(summary) => summary.counts_text(),
        None => "changes, not counted".to_owned(),
    };
    let page = escape::link("stack page", &stack_page(base_url, &seen.stack_id));
    let mut out = format!(
        "{} in {} has drifted: {counts}.\n\nThe {page} says when it was checked and shows the whole plan.\n\n",
        escape::code(key.as_str()),
        escape::text(repo)
    );
    let room = COMMENT_BYTES_MAX.saturating_sub(out.len() + FOOT.len());
    if let Some(addresses) = seen.summary.as_ref().and_then(|summary| changes::addresses(summary, room)) {
        out.push_str(&addresses);
    }
    out.push_str(FOOT);
    out
}
