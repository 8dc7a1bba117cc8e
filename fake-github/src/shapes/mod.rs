//! GitHub's JSON of everything in the state; used by REST answers, webhook payloads and `github.event` alike.
//!
//! - `accounts`: users, organisations, teams. `repositories`, `commits`, `issues`, `pulls`, `checks`, `actions`, `apps`.

mod accounts;
mod actions;
mod apps;
mod checks;
mod commits;
mod issues;
mod pulls;
mod repositories;

pub use accounts::*;
pub use actions::*;
pub use apps::*;
pub use checks::*;
pub use commits::*;
pub use issues::*;
pub use pulls::*;
pub use repositories::*;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// `2026-11-29T18:48:12Z`: GitHub's times have no fraction.
pub fn iso(ms: i64) -> String {
    let second = jiff::Timestamp::from_second(ms.div_euclid(1000)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    second.to_string()
}

pub fn iso_or_null(ms: Option<i64>) -> Value {
    ms.map_or(Value::Null, |ms| json!(iso(ms)))
}

pub fn node_id(kind: &str, id: impl std::fmt::Display) -> String {
    STANDARD.encode(format!("{kind}:{id}"))
}

/// Adds the members of one object to another.
pub fn extend(target: &mut Value, more: Value) {
    if let (Some(target), Value::Object(more)) = (target.as_object_mut(), more) {
        target.extend(more);
    }
}
