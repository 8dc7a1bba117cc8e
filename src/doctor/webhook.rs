//! Whether GitHub's webhooks arrive: their address, and what became of the newest ones.

use std::collections::BTreeSet;

use super::facts::Facts;
use super::{Finding, SERVER};
use crate::clock::rfc3339;
use crate::github::setup::{Attempt, Hook};
use crate::guide::Topic;

/// Where the server takes webhooks.
const PATH: &str = "/webhooks/github";
/// Failures that are told one by one.
const FAILURES_SHOWN: usize = 3;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let hook = match &facts.hook {
        Ok(hook) => hook_findings(hook, &format!("{}{PATH}", facts.base_url)),
        Err(reason) => vec![Finding::problem(
            Topic::Webhook,
            SERVER,
            format!("the webhook's settings cannot be read: {reason}"),
            "Run the doctor again.",
        )],
    };
    let attempts = match &facts.attempts {
        Ok(attempts) => deliveries(attempts),
        Err(reason) => Finding::problem(
            Topic::Deliveries,
            SERVER,
            format!("the delivery log cannot be read: {reason}"),
            "Run the doctor again.",
        ),
    };
    hook.into_iter().chain([attempts]).collect()
}

fn hook_findings(hook: &Hook, expected: &str) -> Vec<Finding> {
    let fix = format!("Set the webhook's address in the App's settings to {expected}.");
    if hook.url.is_empty() {
        let what = "the App has no webhook address, so nothing that happens on GitHub arrives";
        return vec![Finding::problem(Topic::Webhook, SERVER, what, fix)];
    }
    let mut found = Vec::new();
    if hook.url.trim_end_matches('/') != expected {
        let what = format!("GitHub sends webhooks to {:?}, and the server takes them at {expected}", hook.url);
        found.push(Finding::problem(Topic::Webhook, SERVER, what, fix));
    }
    if hook.content_type != "json" {
        let what = format!("webhooks are sent as {:?}", hook.content_type);
        let fix = "Choose application/json as content type in the App's settings.";
        found.push(Finding::problem(Topic::Webhook, SERVER, what, fix));
    }
    if hook.insecure {
        let what = "GitHub does not check the server's certificate";
        let fix = "Enable SSL verification in the App's settings.";
        found.push(Finding::warning(Topic::Webhook, SERVER, what, fix));
    }
    if found.is_empty() {
        found.push(Finding::ok(Topic::Webhook, SERVER, format!("GitHub sends webhooks to {expected}")));
    }
    found
}

/// A delivery counts by its newest attempt: one that was sent again and arrived is no failure.
fn deliveries(attempts: &[Attempt]) -> Finding {
    let mut seen = BTreeSet::new();
    let newest: Vec<&Attempt> = attempts.iter().filter(|attempt| seen.insert(attempt.guid.as_str())).collect();
    let failed: Vec<&Attempt> = newest.iter().copied().filter(|attempt| !attempt.succeeded()).collect();
    let Some(last) = newest.first() else {
        return Finding::ok(Topic::Deliveries, SERVER, "the delivery log is empty: GitHub has sent no webhook lately");
    };
    if failed.is_empty() {
        let what = format!("the last {} webhooks arrived, the newest at {}", newest.len(), rfc3339(last.at));
        return Finding::ok(Topic::Deliveries, SERVER, what);
    }
    let shown: Vec<String> = failed.iter().take(FAILURES_SHOWN).map(|attempt| told(attempt)).collect();
    let what = format!("{} of the last {} webhooks did not arrive: {}", failed.len(), newest.len(), shown.join("; "));
    if last.succeeded() {
        let fix = "Redeliver them from the App's settings, Advanced: GitHub keeps them for three days.";
        return Finding::warning(Topic::Deliveries, SERVER, what, fix);
    }
    let fix = "Check that GitHub reaches the server and that GITHUB_WEBHOOK_SECRET is the App's (401 means it is not), \
               then redeliver them from the App's settings, Advanced.";
    Finding::problem(Topic::Deliveries, SERVER, what, fix)
}

fn told(attempt: &Attempt) -> String {
    let Attempt { event, status_code, status, at, .. } = attempt;
    match status_code {
        0 => format!("{event} at {} ({status})", rfc3339(*at)),
        code => format!("{event} at {} ({code} {status})", rfc3339(*at)),
    }
}
