//! The App's webhook: the log of its deliveries, and asking for one again.

use reqwest::Method;
use serde::Deserialize;

use super::GitHubClient;
use super::call::Caller;
use super::send::unreadable;
use crate::clock::{Millis, parse_rfc3339};
use crate::github::api::{HookDelivery, Result};

/// The log has no limit of its own; what lies further back than so many pages is left to GitHub's own redelivery.
const PAGES_MAX: usize = 100;

const SEGMENTS: [&str; 3] = ["app", "hook", "deliveries"];

pub(super) async fn deliveries(client: &GitHubClient, since: Millis) -> Result<Vec<HookDelivery>> {
    #[derive(Deserialize)]
    struct Listed {
        id: i64,
        guid: String,
        delivered_at: String,
        status_code: i64,
    }
    let call = client.root.call(Method::GET, Caller::App, &SEGMENTS, "deliveries of the webhook")?.list();
    let what = call.what.clone();
    let reaches_since = |page: &Vec<Listed>| {
        page.last().and_then(|oldest| parse_rfc3339(&oldest.delivered_at)).is_some_and(|at| at < since)
    };
    let pages = client.pages_until(call, PAGES_MAX, reaches_since).await?;
    let mut found = Vec::new();
    for listed in pages.into_iter().flatten() {
        let delivered_at = parse_rfc3339(&listed.delivered_at).ok_or_else(|| unreadable(&what, "a time is none"))?;
        if delivered_at >= since {
            let accepted = (200..300).contains(&listed.status_code);
            found.push(HookDelivery { id: listed.id, guid: listed.guid, delivered_at, accepted });
        }
    }
    Ok(found)
}

pub(super) async fn redeliver(client: &GitHubClient, attempt: i64) -> Result<()> {
    let id = attempt.to_string();
    let segments = [SEGMENTS[0], SEGMENTS[1], SEGMENTS[2], &id, "attempts"];
    // A second copy makes a second attempt, which the inbox knows by its id.
    client.tell(client.root.call(Method::POST, Caller::App, &segments, &format!("delivery {attempt}"))?).await
}
