//! `stackorder serve`: wires store, GitHub, orchestrator and HTTP together; owns tasks and shutdown (spec 22 §3).

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use crate::clock::Clock;
use crate::github::client::{ClientSettings, GitHubClient};
use crate::github::oidc::{OidcSettings, OidcVerifier};
use crate::http::{self, Shared};
use crate::orchestrator::bells::Queue;
use crate::orchestrator::{Addresses, App, RENDER_AFTER_MS, workers};
use crate::settings::Settings;
use crate::store::{self, Store, StoreError};
use crate::web::{self, Pages};

/// How often a process tries to lead, and a leader renews its lease and looks for due slots.
const TICK: Duration = Duration::from_secs(10);
/// Time for requests in flight after a stop was asked for.
const DRAIN: Duration = Duration::from_secs(15);
/// Time for running handlers after that.
const HANDLER_DRAIN: Duration = Duration::from_secs(30);

/// Time for the database's connections to end after that.
const CLOSE_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the database cannot be opened or migrated")]
    Store(#[from] StoreError),
    #[error("cannot listen on {address}")]
    Listen {
        address: std::net::SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("the GitHub client cannot be made: {0}")]
    GitHub(String),
    #[error("the server failed")]
    Serve(#[source] std::io::Error),
}

/// What a server runs with besides its settings.
pub struct Surroundings {
    pub clock: Arc<dyn Clock>,
    /// Ends the server when it turns true.
    pub stop: watch::Receiver<bool>,
    /// Rung when the clock was moved by hand: what has become due is looked for at once.
    pub clock_moved: Arc<Notify>,
}

/// Serves until told to stop. `ready` is called with the bound address once requests are answered.
pub async fn run(
    settings: Settings,
    surroundings: Surroundings,
    ready: impl FnOnce(std::net::SocketAddr),
) -> Result<(), ServeError> {
    crate::github::install_crypto();
    // First, so that a port in use is found before a database is made.
    let listener = TcpListener::bind(settings.listen)
        .await
        .map_err(|source| ServeError::Listen { address: settings.listen, source })?;
    let store = store::open(&settings.database_url, settings.database_connections).await?;
    let served = serve(settings, surroundings, listener, store.clone(), ready).await;
    if tokio::time::timeout(CLOSE_MAX, store.close()).await.is_err() {
        tracing::warn!("some work still holds the database: its connections end with this process");
    }
    served
}

async fn serve(
    settings: Settings,
    surroundings: Surroundings,
    listener: TcpListener,
    store: Arc<dyn Store>,
    ready: impl FnOnce(std::net::SocketAddr),
) -> Result<(), ServeError> {
    let Surroundings { clock, stop, clock_moved } = surroundings;
    let github = GitHubClient::new(ClientSettings {
        api_url: settings.github_api_url.clone(),
        app_id: settings.app.id,
        private_key_pem: settings.app.private_key_pem.clone(),
        clock: clock.clone(),
        user_agent: format!("stackorder/{}", env!("CARGO_PKG_VERSION")),
        writes: settings.writes,
    })
    .map_err(|error| ServeError::GitHub(error.to_string()))?;
    let oidc = OidcVerifier::new(
        OidcSettings {
            issuer: settings.oidc_issuer.clone(),
            jwks_url: settings.oidc_jwks_url.clone(),
            audience: settings.oidc_audience.clone(),
            required_workflow_ref: settings.required_workflow.clone(),
        },
        clock.clone(),
        reqwest::Client::builder().build().map_err(|error| ServeError::GitHub(error.to_string()))?,
    );
    let addresses = Addresses { base_url: settings.base_url.clone(), web_url: settings.github_web_url.clone() };
    let random = rand::rngs::StdRng::from_rng(&mut rand::rng());
    let mut app = App::new(store, Arc::new(github), clock, addresses, random);
    app.render_after_ms = RENDER_AFTER_MS;
    let app = Arc::new(app);
    let shared = Arc::new(Shared { app: app.clone(), oidc, webhook_secret: settings.app.webhook_secret.clone() });

    let address = listener.local_addr().map_err(ServeError::Serve)?;
    app.store.take_over().await?;
    app.enqueue_start().await.map_err(|error| match error {
        crate::orchestrator::Error::Store(error) => ServeError::Store(error),
        other => ServeError::GitHub(other.to_string()),
    })?;

    let mut tasks = tokio::task::JoinSet::new();
    let instance = format!("{}:{}", std::process::id(), crate::ids::hex(&app.random_bytes::<4>()));
    for (queue, number) in Queue::ALL.into_iter().flat_map(|queue| (0..settings.workers).map(move |n| (queue, n))) {
        let worker = format!("{instance}:{}:{number}", queue.as_str());
        tasks.spawn(workers::run(app.clone(), queue, worker, settings.retention.clone(), stop.clone()));
    }
    tasks.spawn(lead(app.clone(), instance, stop.clone(), clock_moved));

    if settings.open_pages {
        tracing::warn!(%address, "STACKORDER_OPEN_PAGES is on: anyone who reaches this address may read every page");
    }
    let routes = http::router(shared).merge(web::router(Pages::of(&app, settings.open_pages)));
    let router = http::around(routes, &settings.base_url);
    tracing::info!(%address, base_url = settings.base_url, "serving");
    ready(address);
    let mut stopping = stop.clone();
    let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
        let _ = stopping.wait_for(|stop| *stop).await;
    });
    let mut drained = stop.clone();
    let served = tokio::select! {
        served = async { serving.await } => served.map_err(ServeError::Serve),
        () = async { let _ = drained.wait_for(|stop| *stop).await; tokio::time::sleep(DRAIN).await } => Ok(()),
    };
    let _ = tokio::time::timeout(HANDLER_DRAIN, async { while tasks.join_next().await.is_some() {} }).await;
    tasks.shutdown().await;
    served
}

/// Tries to lead, and writes due slots while leading.
async fn lead(app: Arc<App>, holder: String, mut stop: watch::Receiver<bool>, clock_moved: Arc<Notify>) {
    while !*stop.borrow() {
        if let Err(error) = app.tick(&holder).await {
            tracing::error!(error = crate::causes::chain(&error), "the schedule could not be worked");
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = clock_moved.notified() => {}
            _ = stop.changed() => {}
        }
    }
    if let Err(error) = app.resign(&holder).await {
        tracing::warn!(error = crate::causes::chain(&error), "the lead could not be given up; it ends by itself");
    }
}
