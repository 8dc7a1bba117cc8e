//! What the two databases do not say alike; everything else is one SQL text for both.

use sqlx::Database;

pub trait Dialect: Database {
    /// SQLite must take its write lock up front, or read-then-write fails at once with "database is locked".
    const BEGIN_WRITE: &'static str;
    /// Every statement of the transaction sees the same state.
    const BEGIN_READ: &'static str;
    /// Ends the sub-select of a claim, so that workers do not queue behind each other.
    const SKIP_LOCKED: &'static str;
    /// Gathers the values of all rows into one JSON array.
    const JSON_ROWS: &'static str;
    /// Makes a JSON array of some values.
    const JSON_ARRAY: &'static str;
    /// One process at a time serves from such a database: what an earlier one had claimed, a dead one had.
    const ONE_PROCESS: bool;

    fn rows_affected(done: &Self::QueryResult) -> u64;
}
