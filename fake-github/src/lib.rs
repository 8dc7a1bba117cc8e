//! An in-process GitHub: state, REST, webhooks, git over HTTP, OIDC and Actions.
//!
//! A product of its own that knows nothing of its users: it behaves as GitHub's documents say, and refuses by name
//! what it cannot do.

pub mod actions;
