//! How long it takes from the last report of a wave until GitHub is asked for the next one.

use std::time::Duration;

use crate::Database;
use crate::site::Site;
use crate::town::{Pull, Shape, Work};

/// Runs in flight, and one wave after the other in each: 1,000 samples.
const WAVES: Work = Work { pulls: 50, stacks: 21, shape: Shape::Chain };

/// From each report that ends a wave to GitHub's being asked for the next one, sorted.
pub async fn measure(database: &Database) -> Vec<Duration> {
    let root = tempfile::tempdir().expect("a directory");
    let site = Site::start(root.path(), database, WAVES).await;
    let town = site.town.clone();
    let pulls = tokio::task::spawn_blocking(move || town.open_pull_requests()).await.expect("pull requests are opened");
    let planned = |pull: &Pull| {
        let checks = site.town.github.all_check_runs(&pull.repo, &pull.head);
        checks.iter().any(|check| check.name == "stackorder/plan" && check.conclusion.as_deref() == Some("success"))
    };
    site.until("all plans are there", || pulls.iter().all(planned)).await;
    site.town.github.idle().await;
    for pull in &pulls {
        site.town.github.comment(&pull.repo, pull.number, "alice", "stackorder apply");
    }
    let all = WAVES.pulls * WAVES.stacks;
    site.until("all stacks are applied", || site.door.ledger().accepted.len() == all).await;

    let times = between(&site);
    site.server.kill().await;
    times
}

/// Of each report and the dispatch after it.
fn between(site: &Site) -> Vec<Duration> {
    let ledger = site.door.ledger();
    assert!(ledger.broken.is_empty(), "{:?}", ledger.broken);
    let dispatched = site.dispatched.lock().expect("no holder panics");
    let mut times: Vec<Duration> = dispatched
        .iter()
        .filter_map(|((run, wave), at)| {
            // A chain: one stack a wave, of the same number.
            let report = format!("%2Fs{:02}/result", wave.checked_sub(1)?);
            let of_it = |path: &&String| path.starts_with(&format!("/v1/runs/{run}/")) && path.ends_with(&report);
            let sent = ledger.sent.iter().find(|(path, _)| of_it(path))?.1;
            Some(at.duration_since(*sent))
        })
        .collect();
    assert_eq!(times.len(), WAVES.pulls * (WAVES.stacks - 1), "waves after waves");
    times.sort();
    times
}
