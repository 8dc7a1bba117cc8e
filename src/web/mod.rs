//! The pages (spec 31): what the store holds, rendered by the server, complete without JavaScript.
//!
//! Reading only. Each page is one struct and one template; what a page says is decided by pure functions over loaded rows.
//!
//! - `page`: answering with HTML, and every answer that is not a page; `guard`: methods, access, security headers.
//! - `assets`: style sheet, script and icon under names that change with their content.
//! - `overview`, `runs`, `run`, `repository`, `graph`, `audit`: one page each.
//! - `run_view`, `stack_view`: a run and its stacks in words; `attention`: the one thing a person must do next.
//! - `graph_view`: what of a graph is drawn.
//! - `parts`: badges, times and links as HTML; `links`: addresses of pages, ours and GitHub's.

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;

use crate::clock::{Clock, Millis};
use crate::orchestrator::App;
use crate::store::Store;

mod assets;
mod attention;
mod audit;
mod graph;
mod graph_view;
mod guard;
mod links;
mod overview;
mod page;
mod parts;
mod repository;
mod run;
mod run_view;
mod runs;
mod stack_view;

#[cfg(test)]
mod tests;

/// What every page reaches: reads, the time, and GitHub's address for links.
#[derive(Clone)]
pub struct Pages {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    /// GitHub's web address, without a trailing slash.
    pub web_url: String,
    /// Whether anyone may read: there is no sign-in yet, so otherwise nobody does.
    pub open: bool,
}

impl Pages {
    pub fn of(app: &App, open: bool) -> Self {
        Self { store: app.store.clone(), clock: app.clock.clone(), web_url: app.addresses.web_url.clone(), open }
    }

    fn now(&self) -> Millis {
        self.clock.now()
    }

    fn links(&self) -> links::GitHub<'_> {
        links::GitHub::at(&self.web_url)
    }
}

type Shares = axum::extract::State<Arc<Pages>>;

/// The pages, their assets, and the 404 page for whatever no other route takes.
pub fn router(pages: Pages) -> Router {
    let pages = Arc::new(pages);
    Router::new()
        .route("/", get(overview::show))
        .route("/runs", get(runs::show))
        .route("/runs/{id}", get(run::show))
        .route("/audit", get(audit::show))
        .route("/repos/{owner}/{repo}", get(repository::show))
        .route("/repos/{owner}/{repo}/graph", get(graph::show))
        .route(assets::ROUTE, get(assets::serve))
        .fallback(page::unknown)
        .layer(from_fn_with_state(pages.clone(), guard::admit))
        .layer(CatchPanicLayer::custom(page::panicked))
        .layer(map_response(guard::secure))
        .with_state(pages)
}
