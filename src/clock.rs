//! What time it is, as an argument.
//!
//! Everything that reads the time is handed a [`Clock`]. Times are milliseconds since the epoch, UTC.

use std::sync::atomic::{AtomicI64, Ordering};

/// Milliseconds since the epoch, UTC.
pub type Millis = i64;

pub const SECOND_MS: Millis = 1_000;
pub const MINUTE_MS: Millis = 60 * SECOND_MS;
pub const HOUR_MS: Millis = 60 * MINUTE_MS;
pub const DAY_MS: Millis = 24 * HOUR_MS;

pub trait Clock: Send + Sync {
    fn now(&self) -> Millis;
}

/// The machine's clock, moved by an offset that only the demo ever changes.
#[derive(Debug, Default)]
pub struct SystemClock {
    offset_ms: AtomicI64,
}

impl SystemClock {
    pub fn offset(&self) -> Millis {
        self.offset_ms.load(Ordering::SeqCst)
    }

    pub fn set_offset(&self, offset_ms: Millis) {
        self.offset_ms.store(offset_ms, Ordering::SeqCst);
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now(&self) -> Millis {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX) + self.offset_ms.load(Ordering::SeqCst)
    }
}

/// A clock that moves when told to.
#[derive(Debug)]
pub struct HandClock(AtomicI64);

impl HandClock {
    pub fn at(now: Millis) -> Self {
        Self(AtomicI64::new(now))
    }

    pub fn advance(&self, by: Millis) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }
}

/// `2026-09-28T09:14:03Z`, as every JSON answer writes times.
pub fn rfc3339(at: Millis) -> String {
    match jiff::Timestamp::from_millisecond(at) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => String::new(),
    }
}

/// The inverse of [`rfc3339`]; also reads offsets and fractions.
pub fn parse_rfc3339(text: &str) -> Option<Millis> {
    text.parse::<jiff::Timestamp>().ok().map(|time| time.as_millisecond())
}

/// Serialises milliseconds as RFC 3339 text, for the JSON API.
pub mod as_rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(at: &super::Millis, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&super::rfc3339(*at))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<super::Millis, D::Error> {
        let text = String::deserialize(d)?;
        super::parse_rfc3339(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }

    pub mod option {
        use serde::{Deserialize, Deserializer, Serializer};

        pub fn serialize<S: Serializer>(at: &Option<crate::clock::Millis>, s: S) -> Result<S::Ok, S::Error> {
            match at {
                Some(at) => s.serialize_some(&crate::clock::rfc3339(*at)),
                None => s.serialize_none(),
            }
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<crate::clock::Millis>, D::Error> {
            let text = Option::<String>::deserialize(d)?;
            Ok(text.and_then(|text| crate::clock::parse_rfc3339(&text)))
        }
    }
}
