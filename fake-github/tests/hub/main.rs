//! The fake GitHub seen from outside: over HTTP, through `git`, as a webhook receiver.

mod auth;
mod faults;
mod git;
mod merging;
mod oidc;
mod pages;
mod rest;
mod schema;
mod webhooks;
mod workflows;
mod world;
