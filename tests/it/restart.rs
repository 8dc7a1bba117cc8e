//! A server that starts on years of history.

use std::time::{Duration, Instant};

use stackorder::run::model::Run;
use stackorder::run::scene::Changes;
use stackorder::run::status::{RowStatus, RunStatus};
use stackorder::store;

use crate::api_refusals::world::{ISSUER_KEY, serve};
use crate::store_contract::values;

/// Closed pull requests that the server has seen.
const CLOSED: u32 = 5_000;
/// Far more than a start takes, and far less than reading all of them would.
const READY_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn bl_154_a_server_with_a_long_history_took_half_an_hour_to_come_back() {
    let root = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", root.path().join("server.db").display());
    let store = store::open(&url, 4).await.unwrap();
    values::with_repos(&store).await;
    for pulls in (1..=CLOSED).collect::<Vec<_>>().chunks(500) {
        let runs: Vec<Run> = pulls
            .iter()
            .map(|number| values::in_status(values::plan(*number, i64::from(*number)), RunStatus::Failed))
            .collect();
        let row = |run: &Run| values::with_status(values::row(run, "stacks/vpc"), RowStatus::Failed);
        let rows = runs.iter().map(row).collect();
        store.commit(Changes { new_runs: runs, rows, ..values::changes() }).await.unwrap();
    }
    store.close().await;

    let variables = [
        ("STACKORDER_BASE_URL", "http://stackorder.test".to_owned()),
        ("STACKORDER_LISTEN", "127.0.0.1:0".to_owned()),
        ("DATABASE_URL", url),
        ("GITHUB_APP_ID", "1".to_owned()),
        ("GITHUB_APP_PRIVATE_KEY", ISSUER_KEY.to_owned()),
        ("GITHUB_WEBHOOK_SECRET", "a secret".to_owned()),
        // Nobody answers there: a start waits for nobody.
        ("GITHUB_API_URL", "http://127.0.0.1:9".to_owned()),
        ("GITHUB_WEB_URL", "http://127.0.0.1:9".to_owned()),
        ("GITHUB_OIDC_ISSUER", "http://127.0.0.1:9".to_owned()),
    ];
    let started = Instant::now();
    let (_server, address, _) = serve(&variables);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ready = client.get(format!("http://{address}/readyz")).send().await.unwrap();

    assert_eq!(ready.status(), 200);
    assert!(started.elapsed() < READY_WITHIN, "{:?}", started.elapsed());
}
