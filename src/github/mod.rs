//! GitHub as the server sees it: a trait, its client, app tokens, webhooks and OIDC tokens.
//!
//! - `api`: what we need of GitHub, in our types.

pub mod api;
