//! Stackorder: which Terraform and OpenTofu stacks a change reaches, and in what order they may be applied.
//!
//! Read in this order. First the core, which does no I/O:
//!
//! - `ids`, `clock`, `causes`, `guide`: parsed names, the time as an argument, errors as one line, and where a text goes on.
//! - `config`, `scan`, `graph`, `waves`: from files to an affected set in waves.
//! - `init`: what a repository needs before its first run.
//! - `plan`, `redaction`, `command`: what a plan says, what may leave the runner, what a comment asks for.
//! - `api`: the JSON that runner and server exchange.
//! - `run`, `gate`, `render`: the state machines, the apply gate, and the texts people read.
//!
//! Then the effects: `store`, `github`, `orchestrator`, `keys`, `http`, `web` and `server` make the server, `doctor` examines it;
//! `runner` is the Actions side; `demo` puts everything on one machine; `cli` is the command line.

pub mod api;
pub mod causes;
pub mod clock;
pub mod command;
pub mod config;
#[cfg(feature = "demo")]
pub mod demo;
pub mod gate;
pub mod graph;
pub mod guide;
pub mod ids;
#[cfg(feature = "runner")]
pub mod init;
pub mod plan;
pub mod redaction;
pub mod render;
pub mod run;
pub mod scan;
pub mod waves;

#[cfg(feature = "server")]
pub mod doctor;
#[cfg(feature = "server")]
pub mod github;
#[cfg(feature = "server")]
pub mod http;
#[cfg(feature = "server")]
pub mod keys;
#[cfg(feature = "server")]
pub mod orchestrator;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod settings;
#[cfg(feature = "server")]
pub mod store;
#[cfg(feature = "server")]
pub mod web;

#[cfg(feature = "runner")]
pub mod runner;

pub mod cli;
