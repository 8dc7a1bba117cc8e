//! What a pull request is told when the server does not answer: one neutral check per job (spec 12 §5).
//!
//! Never a roll-up, never for a fork, and never a reason to fail.

use std::time::Duration;

use serde_json::json;

use super::Job;
use super::server::{client, send};
use crate::redaction::Redactor;

/// A check that nobody waits for may not hold up a job.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Warns, and in a job with `GITHUB_TOKEN` makes a neutral check that says why.
pub async fn tell_unconfirmed(job: &Job, check_name: &str, why: &str) {
    // Whatever stands between here and the server may have put its own words into the reason.
    let why = Redactor::new().with_environment(job.env.iter()).redact(why);
    job.console.warn(&format!("{check_name}: unconfirmed: {why}"));
    let token = job.env.get("GITHUB_TOKEN");
    let (true, false, Some(token)) = (job.facts.is_actions, job.facts.is_fork, token) else { return };
    if job.facts.repo.is_empty() || job.facts.commit.is_empty() {
        return;
    }
    let api = job.env.get("GITHUB_API_URL").unwrap_or("https://api.github.com").trim_end_matches('/');
    let body = json!({
        "name": check_name,
        "head_sha": job.facts.commit,
        "status": "completed",
        "conclusion": "neutral",
        "output": {
            "title": "Unconfirmed: the stackorder server did not take the result",
            "summary": format!(
                "{why}\n\nNothing can be applied on the strength of this. Run the workflow again once the server answers."
            ),
        },
    });
    let Ok(client) = client() else { return };
    let request = client
        .post(format!("{api}/repos/{}/check-runs", job.facts.repo))
        .bearer_auth(token)
        .header("Accept", "application/vnd.github+json")
        .timeout(CHECK_TIMEOUT)
        .json(&body);
    match send(request).await {
        Ok((status, _)) if status.is_success() => {}
        Ok((status, _)) => tracing::warn!(%status, check = check_name, "GitHub did not take the neutral check"),
        Err(reason) => tracing::warn!(%reason, check = check_name, "GitHub did not take the neutral check"),
    }
}
