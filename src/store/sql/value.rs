//! From database rows to values and back.
//!
//! A body is the whole value as JSON; reading parses it and lets columns that move on their own overrule it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{ColumnIndex, Database, Decode, Row as _, Type};

use crate::store::rules::clean;
use crate::store::{Result, StoreError};

/// One column, by position.
pub(super) fn column<'r, DB, T>(row: &'r DB::Row, index: usize) -> Result<T>
where
    DB: Database,
    T: Decode<'r, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    Ok(row.try_get(index)?)
}

/// A text as it may be bound.
pub(super) fn text(text: impl AsRef<str>) -> String {
    clean(text.as_ref()).into_owned()
}

pub(super) fn to_json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("values of the model have text keys and infallible serialisers")
}

pub(super) fn from_json<T: DeserializeOwned>(table: &'static str, id: &str, body: &str) -> Result<T> {
    serde_json::from_str(body).map_err(|error| StoreError::corrupt(table, id, error))
}

/// A count or number that was bound from an unsigned value.
pub(super) fn unsigned(table: &'static str, number: i64) -> Result<u32> {
    u32::try_from(number).map_err(|error| StoreError::corrupt(table, number.to_string(), error))
}
