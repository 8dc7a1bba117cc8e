//! The one object behind everything: the state, what never changes, and what happens after a change.
//!
//! Locking: `act` changes the state under its mutex and performs the effects afterwards. Nothing calls the Actions
//! engine while it holds the state, because the engine calls back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::actions::engine::Engine;
use crate::faults::Faults;
use crate::journal::Journal;
use crate::rest::UnexpectedRequest;
use crate::state::{Effect, Site, State};
use crate::webhooks::Sender;

pub struct Hub {
    site: Arc<Site>,
    state: Mutex<State>,
    engine: OnceLock<Arc<Engine>>,
    faults: Faults,
    pub(crate) journal: Journal,
    pub(crate) pushes: tokio::sync::Mutex<()>,
    pub(crate) senders: Mutex<BTreeMap<i64, Sender>>,
    /// Deliveries that are on their way.
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) client: reqwest::Client,
    pub(crate) undelivered: tokio::sync::watch::Sender<usize>,
    pub(crate) unexpected: Mutex<Vec<UnexpectedRequest>>,
}

impl Hub {
    /// Must be called inside a Tokio runtime: deliveries are tasks of it.
    pub(crate) fn new(site: Site, journal: Journal) -> anyhow::Result<Hub> {
        let site = Arc::new(site);
        // Webhooks go to addresses on this machine; a proxy of the person's own must not see them.
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()?;
        Ok(Hub {
            runtime: tokio::runtime::Handle::current(),
            client,
            state: Mutex::new(State::new(site.clone())),
            site,
            engine: OnceLock::new(),
            faults: Faults::default(),
            journal,
            pushes: tokio::sync::Mutex::new(()),
            senders: Mutex::new(BTreeMap::new()),
            undelivered: tokio::sync::watch::Sender::new(0),
            unexpected: Mutex::new(Vec::new()),
        })
    }

    pub(crate) fn set_engine(&self, engine: Arc<Engine>) {
        if self.engine.set(engine).is_err() {
            unreachable!("the engine is set once, while starting");
        }
    }

    /// The Actions engine: runs, jobs, logs, artifacts.
    pub fn engine(&self) -> &Arc<Engine> {
        self.engine.get().expect("the engine was set before anything was served")
    }

    pub fn site(&self) -> &Site {
        &self.site
    }

    /// `http://127.0.0.1:PORT`: pages and git; the API is below `/api/v3`.
    pub fn base_url(&self) -> &str {
        &self.site.web
    }

    pub fn api_url(&self) -> String {
        self.site.api()
    }

    pub fn oidc_issuer(&self) -> String {
        self.site.oidc_issuer()
    }

    pub fn now_ms(&self) -> i64 {
        self.site.now()
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Requests to the API that no route answers.
    pub fn unexpected_requests(&self) -> Vec<UnexpectedRequest> {
        self.unexpected.lock().expect("no panic while recording requests").clone()
    }

    /// Resolves once nothing moves by itself: no delivery is on its way and no job is queued or in progress. Held
    /// deliveries and jobs that wait for a person do not count.
    pub async fn idle(&self) {
        let mut undelivered = self.undelivered.subscribe();
        loop {
            self.engine().idle().await;
            // The sender lives in this object, so waiting cannot fail while we are in one of its methods.
            if undelivered.wait_for(|count| *count == 0).await.is_err() {
                return;
            }
            // A job may have started while the last delivery was under way.
            let calm = tokio::select! {
                biased;
                () = self.engine().idle() => true,
                () = tokio::task::yield_now() => false,
            };
            if calm && *self.undelivered.borrow() == 0 {
                return;
            }
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while the state is changed")
    }

    /// Changes the state, then performs what the change asked for.
    pub(crate) fn act<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, effects) = {
            let mut state = self.lock();
            let result = change(&mut state);
            (result, std::mem::take(&mut state.effects))
        };
        // The engine spawns tasks; the caller may be any thread.
        let _runtime = self.runtime.enter();
        for effect in effects {
            match effect {
                Effect::Deliver { app, delivery } => self.enqueue(app, delivery),
                Effect::Start(trigger) => {
                    self.engine().start(trigger);
                }
            }
        }
        result
    }
}
