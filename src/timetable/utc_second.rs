//! Instants of schedules: whole seconds, the same on every machine.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::UnixMillis;

/// A whole second of UTC: seconds since 1970-01-01T00:00:00Z. An occurrence is named by it (T1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UtcSecond(pub i64);

impl UtcSecond {
    /// 1970-01-01T00:00:00Z: no occurrence is before it.
    pub const FIRST: Self = Self(0);
    /// 9999-12-30T00:00:00Z, which has a local time in every zone: no occurrence is after it.
    pub const LAST: Self = Self(253_402_128_000);

    /// Seconds from `earlier` to this instant; negative if `earlier` is later.
    #[must_use]
    pub const fn seconds_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Cut to the second, as the store's time is (T7).
impl From<UnixMillis> for UtcSecond {
    fn from(at: UnixMillis) -> Self {
        Self(i64::try_from(at.seconds()).unwrap_or(i64::MAX))
    }
}

/// RFC 3339 in UTC: `2026-11-22T02:30:00Z`.
impl fmt::Display for UtcSecond {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_second(self.0) {
            Ok(timestamp) => timestamp.fmt(formatter),
            Err(_) => write!(formatter, "{} seconds after 1970-01-01T00:00:00Z", self.0),
        }
    }
}

/// Why a text is not an instant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not an instant: RFC 3339 with an offset and whole seconds is allowed, for example 2026-11-22T02:30:00Z or 2026-11-22T03:30:00+01:00"
)]
pub struct InstantError {
    /// What was given.
    given: String,
}

impl FromStr for UtcSecond {
    type Err = InstantError;

    /// Reads RFC 3339 with `Z` or an offset. A fraction of a second is refused: it would name another
    /// occurrence.
    fn from_str(text: &str) -> Result<Self, InstantError> {
        let whole = |timestamp: &Timestamp| timestamp.subsec_nanosecond() == 0;
        let timestamp = text.parse::<Timestamp>().ok().filter(whole);
        let refused = || InstantError { given: text.chars().take(64).collect() };
        timestamp.map(|timestamp| Self(timestamp.as_second())).ok_or_else(refused)
    }
}

impl Serialize for UtcSecond {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UtcSecond {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t1_instants_are_whole_seconds_and_read_what_they_write() {
        let at: UtcSecond = "2026-11-22T03:30:00+01:00".parse().unwrap();
        assert_eq!(at.to_string(), "2026-11-22T02:30:00Z");
        assert_eq!(at.to_string().parse(), Ok(at));
        assert_eq!(UtcSecond::from(UnixMillis(1_999)), UtcSecond(1));
        assert_eq!(UtcSecond(90).seconds_since(UtcSecond(100)), -10);
        for wrong in ["", "2026-11-22", "2026-11-22T02:30:00", "2026-11-22T02:30:00.5Z", "now"] {
            assert!(wrong.parse::<UtcSecond>().is_err(), "{wrong}");
        }
        assert!(UtcSecond(i64::MAX).to_string().starts_with("9223372036854775807 seconds"));
    }
}
