//! GitHub as the server sees it: a trait, its client, app tokens, webhooks and OIDC tokens.
//!
//! - `api`: what we need of GitHub, in our types.
//! - `client`: that trait over REST, with retries, paging and rate limits.
//! - `budget`: how much is written, and what goes first.
//! - `setup`: how the App and its repositories are set up, which only `admin doctor` asks.
//! - `app_token`: the App's JWT, and one cached token per installation.
//! - `webhook`: whether a delivery is GitHub's, and what it says.
//! - `oidc`: whether a token is that of an Actions job, and of which.
//! - `workflow_pin`: which workflow files may report, as a pair of globs.

pub mod api;
pub mod app_token;
pub mod budget;
pub mod client;
pub mod oidc;
pub mod setup;
pub mod webhook;
pub mod workflow_pin;

/// Chooses the one TLS provider of the process, once; later calls change nothing.
///
/// Whoever makes an HTTPS client or server calls this first: rustls refuses to guess when several are compiled in.
pub fn install_crypto() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // An error means that somebody installed a provider before, which does as well.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
}
